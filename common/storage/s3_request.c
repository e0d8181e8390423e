/* SPDX-License-Identifier: Apache-2.0 */
/* Repeats requests that may work later, and turns refusals of the store into errors that say what
 * is to be done. */
#include "storage/s3_request.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "storage/s3_curl.h"
#include "storage/s3_xml.h"

#define PAUSE_MS_MIN 200
#define PAUSE_MS_MAX 10000
#define RETRY_AFTER_S_MAX 30
#define STEP_MS 50 /* from one look at s3_request.stop to the next */

/* ---- settings: of the process, read once ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct s3_config config;
static struct err config_err;

static void release_config(void)
{
    s3_config_release(&config);
}

static void read_config(void)
{
    (void)s3_config_read(&config, &config_err);
    (void)atexit(release_config);
}

static int ready(struct s3_credentials *who, struct err *err)
{
    (void)pthread_once(&once, read_config);
    return config_err.code != 0 ? err_set(err, config_err.code, "%s", config_err.msg)
                                : s3_credentials_read(who, err);
}

int s3_ready(struct err *err)
{
    struct s3_credentials who = {0};
    int rc = ready(&who, err);
    s3_credentials_release(&who);
    return rc;
}

/* ---- refusals ---- */

struct refusal {
    char code[64], message[256];
};

static void on_refusal(void *ctx, const char *path, const char *text)
{
    struct refusal *r = ctx;
    if (strcmp(path, "Error/Code") == 0) {
        (void)strncpy(r->code, text, sizeof r->code - 1);
    } else if (strcmp(path, "Error/Message") == 0) {
        (void)strncpy(r->message, text, sizeof r->message - 1);
    }
}

/* By the name of the refusal, which is the same in all stores, or else the status. Statuses at the
 * end apply to names that are not here. */
static const struct {
    const char *code;
    long status;
    int err;
    const char *advice;
} refusals[] = {
    {"NoSuchBucket", 0, ERR_STATE, "the bucket does not exist"},
    {"NoSuchKey", 0, ERR_NOT_FOUND, NULL},
    {"NoSuchUpload", 0, ERR_NOT_FOUND, NULL},
    {"InvalidAccessKeyId", 0, ERR_UNAUTHENTICATED, "the access key is not known there"},
    {"SignatureDoesNotMatch", 0, ERR_UNAUTHENTICATED, "the secret key is wrong"},
    {"ExpiredToken", 0, ERR_UNAUTHENTICATED, "the session token has expired"},
    {"InvalidToken", 0, ERR_UNAUTHENTICATED, "the session token is wrong"},
    {"RequestTimeTooSkewed", 0, ERR_UNAUTHENTICATED, "the clock of this machine is wrong"},
    {"AuthorizationHeaderMalformed", 0, ERR_STATE, "is the region right (AWS_REGION)?"},
    {"PermanentRedirect", 0, ERR_STATE, "the bucket is in another region (AWS_REGION)"},
    {"QuotaExceeded", 0, ERR_EXHAUSTED, "the store is full"},
    {"XMinioStorageFull", 0, ERR_EXHAUSTED, "the store is full"},
    {"EntityTooLarge", 0, ERR_EXHAUSTED, "the store takes no more"},
    {"RequestTimeout", 0, ERR_UNAVAILABLE, NULL},
    {"ConditionalRequestConflict", 0, ERR_UNAVAILABLE, NULL},
    {"OperationAborted", 0, ERR_UNAVAILABLE, NULL},
    {"NotImplemented", 0, ERR_UNSUPPORTED, NULL},
    {NULL, 301, ERR_STATE, "the bucket is in another region (AWS_REGION)"},
    {NULL, 307, ERR_STATE, "the bucket is in another region (AWS_REGION)"},
    {NULL, 401, ERR_UNAUTHENTICATED, NULL},
    {NULL, 403, ERR_UNAUTHENTICATED, NULL},
    {NULL, 404, ERR_NOT_FOUND, NULL},
    {NULL, 408, ERR_UNAVAILABLE, NULL},
    {NULL, 412, ERR_EXISTS, NULL},
    {NULL, 413, ERR_EXHAUSTED, "the store takes no more"},
    {NULL, 416, ERR_RANGE, NULL},
    {NULL, 429, ERR_UNAVAILABLE, NULL},
    {NULL, 501, ERR_UNSUPPORTED, NULL},
    {NULL, 507, ERR_EXHAUSTED, "the store is full"},
};

static int refusal_error(const struct s3_answer *a, const struct refusal *r, struct err *err)
{
    int code = a->status >= 500 || a->status == 200 ? ERR_UNAVAILABLE : ERR_INTERNAL;
    const char *advice = NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (refusals[i].code != NULL ? strcmp(refusals[i].code, r->code) == 0
                                     : refusals[i].status == a->status) {
            code = refusals[i].err;
            advice = refusals[i].advice;
            break;
        }
    }
    return err_set(err, code, "%s answers %ld %s%s%s%s%s", config.endpoint, a->status, r->code,
                   advice != NULL ? ": " : "", advice != NULL ? advice : "",
                   r->message[0] != '\0' ? ": " : "", r->message);
}

int s3_answer_error(const struct s3_answer *a, struct err *err)
{
    struct refusal r = {0};
    if (a->body.len > 0) {
        (void)s3_xml_parse(a->body.data, a->body.len, on_refusal, &r, NULL);
    }
    return a->status < 300 && r.code[0] == '\0' ? 0 : refusal_error(a, &r, err);
}

/* ---- attempts ---- */

bool s3_stopped(const struct s3_request *r)
{
    return r->stop != NULL && atomic_load(r->stop);
}

/* False: the call is to end. */
static bool wait_ms(const struct s3_request *r, uint64_t ms)
{
    for (uint64_t slept_ms = 0; slept_ms < ms && !s3_stopped(r); slept_ms += STEP_MS) {
        uint64_t step_ms = ms - slept_ms < STEP_MS ? ms - slept_ms : STEP_MS;
        struct timespec left = {0, (long)step_ms * 1000000};
        while (nanosleep(&left, &left) != 0 && errno == EINTR) {
        }
    }
    return !s3_stopped(r);
}

/* Half of the pause is by chance, so that those who were refused together do not come together. */
static uint64_t pause_ms(unsigned failures, uint64_t retry_after_s)
{
    uint64_t most = backoff_ms(failures, PAUSE_MS_MIN, PAUSE_MS_MAX);
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ms = most / 2 + (uint64_t)now.tv_nsec / 1000 % (most / 2 + 1);
    uint64_t wished = retry_after_s < RETRY_AFTER_S_MAX ? retry_after_s : RETRY_AFTER_S_MAX;
    return ms < wished * 1000 ? wished * 1000 : ms;
}

/* One attempt. @again: another one may succeed. */
static int attempt(const struct s3_request *r, const struct s3_credentials *who,
                   struct s3_answer *a, bool *again, uint64_t *retry_after_s, struct err *err)
{
    enum s3_outcome outcome = s3_curl_attempt(&config, who, r, a, retry_after_s, err);
    *again = outcome == S3_NEVER_ASKED || outcome == S3_BROKEN;
    a->repeated = a->repeated || outcome == S3_BROKEN;
    if (outcome != S3_ANSWERED) {
        return err->code;
    }
    int rc = a->status < 300 && (r->out != NULL || r->body == NULL) ? 0 : s3_answer_error(a, err);
    *again = rc == ERR_UNAVAILABLE;
    a->repeated = a->repeated || *again; /* a proxy may have said so */
    return rc;
}

int s3_call(const struct s3_request *r, struct s3_answer *a, struct err *err)
{
    struct s3_credentials who = {0};
    struct err last = {0};
    *a = (struct s3_answer){0};
    int rc = ready(&who, &last);
    unsigned failures = 0;
    for (bool again = rc == 0; again;) {
        size_t had = a->got;
        uint64_t retry_after_s = 0;
        rc = attempt(r, &who, a, &again, &retry_after_s, &last);
        failures = rc == 0 ? 0 : a->got > had ? 1 : failures + 1;
        if (again && failures >= config.attempts) {
            (void)err_wrap(&last, "after %u attempts", failures);
            break;
        }
        if (again && !wait_ms(r, pause_ms(failures, retry_after_s))) {
            rc = err_set(&last, ERR_CANCELLED, "given up");
            break;
        }
    }
    s3_credentials_release(&who);
    return rc == 0 ? 0
                   : err_set(err, rc, "%s s3://%s/%s: %s", r->method, r->place->bucket,
                             r->place->key, last.msg);
}

void s3_answer_release(struct s3_answer *a)
{
    buf_release(&a->body);
}
