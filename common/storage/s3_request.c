/* SPDX-License-Identifier: Apache-2.0 */
/* Carries requests out, and turns refusals of the store into errors that say what is to be done. */
#include "storage/s3_request.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "storage/s3_curl.h"
#include "storage/s3_retry.h"
#include "storage/s3_xml.h"

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

static int settings(struct err *err)
{
    (void)pthread_once(&once, read_config);
    return config_err.code != 0 ? err_set(err, config_err.code, "%s", config_err.msg) : 0;
}

int s3_ready(struct err *err)
{
    int rc = settings(err);
    return rc != 0 ? rc : s3_credentials_check(&config, err);
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

/* Errors by the name of the refusal, which is the same in all stores, else by the status. Rows with
 * a status at the end hold for names that have no row. */
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

/* The error in an answer of status 200 that has one all the same (CompleteMultipartUpload); 0:
 * none. */
static int s3_answer_error(const struct s3_answer *a, struct err *err)
{
    struct refusal r = {0};
    if (a->body.len > 0) {
        (void)s3_xml_parse(a->body.data, a->body.len, on_refusal, &r, NULL);
    }
    return a->status < 300 && r.code[0] == '\0' ? 0 : refusal_error(a, &r, err);
}

/* ---- attempts ---- */

struct attempt {
    const struct s3_request *request;
    const struct s3_credentials *who;
    struct s3_answer *answer;
};

static int attempt(void *ctx, struct s3_attempt *now, struct err *err)
{
    const struct attempt *t = ctx;
    const struct s3_request *r = t->request;
    struct s3_answer *a = t->answer;
    size_t had = a->got;
    enum s3_outcome outcome = s3_curl_attempt(&config, t->who, r, a, &now->retry_after_s, err);
    now->again = outcome == S3_NEVER_ASKED || outcome == S3_BROKEN;
    now->brought = a->got > had;
    a->repeated = a->repeated || outcome == S3_BROKEN;
    if (outcome != S3_ANSWERED) {
        return err->code;
    }
    int rc = a->status < 300 && (r->out != NULL || r->body == NULL) ? 0 : s3_answer_error(a, err);
    now->again = rc == ERR_UNAVAILABLE;
    a->repeated = a->repeated || now->again; /* a proxy may have said so */
    return rc;
}

int s3_call(const struct s3_request *r, struct s3_answer *a, struct err *err)
{
    struct s3_credentials who = {0};
    struct attempt ctx = {r, &who, a};
    struct err last = {0};
    *a = (struct s3_answer){0};
    int rc = settings(&last);
    rc = rc != 0 ? rc : s3_credentials_read(&config, r->stop, &who, &last);
    rc = rc != 0 ? rc : s3_retry(config.attempts, r->stop, attempt, &ctx, &last);
    s3_credentials_release(&who);
    return rc == 0 ? 0
                   : err_set(err, rc, "%s s3://%s/%s: %s", r->method, r->place->bucket,
                             r->place->key, last.msg);
}

void s3_answer_release(struct s3_answer *a)
{
    buf_release(&a->body);
}
