/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges the token of a web identity for credentials of a role, and keeps them while they are
 * good. */
#include "storage/s3_identity.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "os/file.h"
#include "storage/s3_curl.h"
#include "storage/s3_request.h"
#include "storage/s3_retry.h"
#include "storage/s3_xml.h"

#define TOKEN_BYTES_MAX 20000 /* of the service */
#define RENEW_PAUSE_S 10      /* pause after an attempt that did not reach the service */
#define LOOK_NS 100000000L    /* time between two looks at the flag to stop */

/* ---- the file ---- */

static int read_token(const struct s3_config *config, struct buf *out, struct err *err)
{
    int rc = file_read(config->identity_file, TOKEN_BYTES_MAX, out, err);
    if (rc != 0) {
        (void)err_wrap(err, "the token of AWS_WEB_IDENTITY_TOKEN_FILE");
    } else {
        while (out->len > 0 && strchr(" \t\r\n", out->data[out->len - 1]) != NULL) {
            out->data[--out->len] = '\0';
        }
        rc = out->len > 0 ? 0
                          : err_set(err, ERR_UNAUTHENTICATED,
                                    "the token of AWS_WEB_IDENTITY_TOKEN_FILE: %s is empty",
                                    config->identity_file);
    }
    if (rc != 0 && err != NULL) {
        err->code = ERR_UNAUTHENTICATED;
    }
    return rc == 0 ? 0 : ERR_UNAUTHENTICATED;
}

static void release_secret(struct buf *b)
{
    if (b->data != NULL) {
        explicit_bzero(b->data, b->len);
    }
    buf_release(b);
}

int s3_identity_check(const struct s3_config *config, struct err *err)
{
    struct buf token = {0};
    int rc = read_token(config, &token, err);
    release_secret(&token);
    return rc;
}

/* ---- the answer ---- */

struct answer {
    struct s3_credentials given;
    char until[40];
};

static void take(char **to, const char *text)
{
    if (*to == NULL && text[0] != '\0') {
        *to = mem_strdup(text);
    }
}

static void on_answer(void *ctx, const char *path, const char *text)
{
    static const char before[] = "AssumeRoleWithWebIdentityResponse/"
                                 "AssumeRoleWithWebIdentityResult/Credentials/";
    struct answer *a = ctx;
    if (strncmp(path, before, sizeof before - 1) != 0) {
        return;
    }
    const char *name = path + sizeof before - 1;
    if (strcmp(name, "AccessKeyId") == 0) {
        take(&a->given.key, text);
    } else if (strcmp(name, "SecretAccessKey") == 0) {
        take(&a->given.secret, text);
    } else if (strcmp(name, "SessionToken") == 0) {
        take(&a->given.token, text);
    } else if (strcmp(name, "Expiration") == 0 && strlen(text) < sizeof a->until) {
        (void)strcpy(a->until, text);
    }
}

/* "2026-11-23T17:00:00Z", perhaps with parts of a second. */
static bool parse_time(const char *text, int64_t *out)
{
    struct tm t = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
    if (rest != NULL && *rest == '.') {
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    if (rest == NULL || (strcmp(rest, "Z") != 0 && strcmp(rest, "+00:00") != 0)) {
        return false;
    }
    *out = timegm(&t);
    return true;
}

int s3_identity_parse(const char *xml, size_t n, struct s3_credentials *out, int64_t *until_s,
                      struct err *err)
{
    struct answer a = {0};
    int rc = s3_xml_parse(xml, n, on_answer, &a, err);
    const char *missing = a.given.key == NULL             ? "AccessKeyId"
                          : a.given.secret == NULL        ? "SecretAccessKey"
                          : a.given.token == NULL         ? "SessionToken"
                          : !parse_time(a.until, until_s) ? "Expiration that is a time in UTC"
                                                          : NULL;
    if (rc == 0 && missing != NULL) {
        rc = err_set(err, ERR_CORRUPT, "the answer of the token service has no %s", missing);
    }
    if (rc != 0) {
        s3_credentials_release(&a.given);
        return rc;
    }
    *out = a.given;
    return 0;
}

/* ---- asking ---- */

struct asking {
    const struct s3_config *config;
    const atomic_bool *stop;
    struct s3_credentials *out;
    int64_t *until_s;
};

struct refusal {
    char code[64], message[256];
};

static void on_refusal(void *ctx, const char *path, const char *text)
{
    struct refusal *r = ctx;
    const char *name = strrchr(path, '/');
    if (name != NULL && strcmp(name, "/Code") == 0) {
        (void)strncpy(r->code, text, sizeof r->code - 1);
    } else if (name != NULL && strcmp(name, "/Message") == 0) {
        (void)strncpy(r->message, text, sizeof r->message - 1);
    }
}

static int refused(const struct s3_config *c, const struct s3_answer *a, bool *again,
                   struct err *err)
{
    struct refusal r = {0};
    if (a->body.len > 0) {
        (void)s3_xml_parse(a->body.data, a->body.len, on_refusal, &r, NULL);
    }
    *again = a->status >= 500 || a->status == 429 || a->status == 408 ||
             strcmp(r.code, "IDPCommunicationError") == 0 || strcmp(r.code, "Throttling") == 0;
    return err_set(err, *again ? ERR_UNAVAILABLE : ERR_UNAUTHENTICATED,
                   "%s does not give us the role %.128s: it answers %ld %s%s%s", c->sts_endpoint,
                   c->role_arn, a->status, r.code, r.message[0] != '\0' ? ": " : "", r.message);
}

static void write_form(const struct s3_config *c, const char *token, struct buf *form)
{
    buf_add_str(form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    s3_encode(form, c->role_arn, false);
    buf_add_str(form, "&RoleSessionName=");
    s3_encode(form, c->role_session, false);
    buf_add_str(form, "&WebIdentityToken=");
    s3_encode(form, token, false);
}

static int ask_once(void *ctx, struct s3_attempt *now, struct err *err)
{
    const struct asking *q = ctx;
    struct buf token = {0}, form = {0};
    struct s3_answer a = {0};
    int rc = read_token(q->config, &token, err);
    if (rc == 0) {
        write_form(q->config, token.data, &form);
        enum s3_outcome outcome = s3_curl_form(q->config, q->config->sts_endpoint, &form, q->stop,
                                               &a, &now->retry_after_s, err);
        now->again = outcome == S3_NEVER_ASKED || outcome == S3_BROKEN;
        rc = outcome != S3_ANSWERED ? err->code
             : a.status == 200
                 ? s3_identity_parse(buf_str(&a.body), a.body.len, q->out, q->until_s, err)
                 : refused(q->config, &a, &now->again, err);
    }
    release_secret(&token);
    release_secret(&form);
    release_secret(&a.body);
    return rc;
}

/* ---- what is kept ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;
static bool asking;
static struct s3_credentials kept; /* empty: none */
static int64_t renew_s, until_s;   /* of the epoch */

static void forget(void)
{
    s3_credentials_release(&kept);
}

static void keep(struct s3_credentials *fresh, int64_t fresh_until_s)
{
    static bool at_exit;
    int64_t now_s = time(NULL), quarter_s = (fresh_until_s - now_s) / 4;
    s3_credentials_release(&kept);
    kept = *fresh;
    until_s = fresh_until_s;
    renew_s =
        fresh_until_s - (quarter_s < S3_IDENTITY_REST_S ? quarter_s : (int64_t)S3_IDENTITY_REST_S);
    if (!at_exit) {
        at_exit = atexit(forget) == 0;
    }
}

static bool good(void)
{
    return kept.key != NULL && time(NULL) < until_s;
}

/* Asks for new keys. A process whose keys are still good asks once, and again a little later. */
static int ask(const struct s3_config *config, const atomic_bool *stop, struct err *err)
{
    struct s3_credentials fresh = {0};
    int64_t fresh_until_s = 0;
    struct asking q = {config, stop, &fresh, &fresh_until_s};
    struct err local = {0};
    unsigned attempts = good() ? 1 : config->attempts;
    asking = true;
    pthread_mutex_unlock(&lock);
    int rc = s3_retry(attempts, stop, ask_once, &q, &local);
    pthread_mutex_lock(&lock);
    asking = false;
    if (rc == 0) {
        keep(&fresh, fresh_until_s);
    } else {
        renew_s = time(NULL) + RENEW_PAUSE_S;
    }
    pthread_cond_broadcast(&asked);
    return rc == 0 ? 0 : err_set(err, rc, "%s", local.msg);
}

/* False: it is to end. */
static bool wait_for_answer(const atomic_bool *stop)
{
    while (asking && !good() && !s3_stopped(stop)) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&asked, &lock, &until);
    }
    return !s3_stopped(stop);
}

int s3_identity_credentials(const struct s3_config *config, const atomic_bool *stop,
                            struct s3_credentials *out, struct err *err)
{
    int rc = 0;
    pthread_mutex_lock(&lock);
    if (!wait_for_answer(stop)) {
        rc = err_set(err, ERR_CANCELLED, "given up");
    } else if (!asking && (!good() || time(NULL) >= renew_s)) {
        rc = ask(config, stop, err);
    }
    if (good()) { /* also when they could not be renewed yet */
        rc = 0;
        *out = (struct s3_credentials){.key = mem_strdup(kept.key),
                                       .secret = mem_strdup(kept.secret),
                                       .token = mem_strdup(kept.token)};
    } else if (rc == 0) {
        rc = err_set(err, ERR_UNAUTHENTICATED,
                     "the credentials that %s gives have ended already: is the clock of this "
                     "machine right?",
                     config->sts_endpoint);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}
