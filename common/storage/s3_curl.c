/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one request and receives its answer. libcurl signs it (Signature Version 4; the hash of
 * the body is made here), keeps connections, and speaks TLS; a connection that stands still is
 * given up here. */
#include "storage/s3_curl.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "storage/s3_retry.h"
#include "storage/s3_sha256.h"

#define CONNECT_MS_MAX 10000
#define IDLE_MAX 16 /* connections that are kept */
#define BUFFER_BYTES (512 * 1024L)

/* ---- handles: each keeps its connection ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
static CURL *idle[IDLE_MAX];
static size_t idle_count;

static void drop_idle(void)
{
    while (idle_count > 0) {
        curl_easy_cleanup(idle[--idle_count]);
    }
}

static void start_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    (void)atexit(drop_idle);
}

static CURL *take_handle(void)
{
    (void)pthread_once(&once, start_curl);
    CURL *handle = NULL;
    pthread_mutex_lock(&lock);
    if (idle_count > 0) {
        handle = idle[--idle_count];
    }
    pthread_mutex_unlock(&lock);
    return handle != NULL ? handle : curl_easy_init();
}

static void give_handle(CURL *handle)
{
    curl_easy_reset(handle); /* resets everything but the connection */
    pthread_mutex_lock(&lock);
    bool kept = idle_count < IDLE_MAX;
    if (kept) {
        idle[idle_count++] = handle;
    }
    pthread_mutex_unlock(&lock);
    if (!kept) {
        curl_easy_cleanup(handle);
    }
}

/* ---- what comes ---- */

struct attempt {
    const struct s3_request *request;
    struct s3_answer *answer;
    uint64_t first; /* first byte of the range that this attempt asks for */
    uint64_t retry_after_s;
    bool wrong_range; /* the store sent another range */
    uint64_t moved_bytes, moved_ms, stall_ms;
};

/* The value of header @name when @line is one, without white space at its ends. */
static bool header_value(const char *line, size_t n, const char *name, char *out, size_t out_bytes)
{
    size_t name_bytes = strlen(name);
    if (n <= name_bytes || line[name_bytes] != ':' || strncasecmp(line, name, name_bytes) != 0) {
        return false;
    }
    const char *p = line + name_bytes + 1, *end = line + n;
    while (p < end && (*p == ' ' || *p == '\t')) {
        p++;
    }
    while (end > p && strchr(" \t\r\n", end[-1]) != NULL) {
        end--;
    }
    if ((size_t)(end - p) < out_bytes) {
        memcpy(out, p, (size_t)(end - p));
        out[end - p] = '\0';
    }
    return true;
}

/* A number that is followed by @after, which @p is put behind. */
static bool take_number(const char **p, char after, uint64_t *out)
{
    char *end;
    if (**p < '0' || **p > '9') {
        return false;
    }
    *out = strtoull(*p, &end, 10);
    *p = end + (after != '\0');
    return *end == after;
}

/* "bytes 5-9/10", or "bytes *" and "/10" of a range that is not in the object. */
static void take_range(struct attempt *t, const char *value)
{
    uint64_t first = 0, last = 0, total = 0;
    const char *p = value + strlen("bytes ");
    if (strncmp(value, "bytes ", strlen("bytes ")) != 0) {
        return;
    }
    if (strncmp(p, "*/", 2) == 0) {
        p += 2;
        t->answer->total_bytes = take_number(&p, '\0', &total) ? total : 0;
    } else if (take_number(&p, '-', &first) && take_number(&p, '/', &last) &&
               take_number(&p, '\0', &total)) {
        t->wrong_range = first != t->first || last < first ||
                         last - first >= t->request->out_bytes - t->answer->got;
        t->answer->total_bytes = total;
    }
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct attempt *t = ctx;
    size_t n = size * count;
    char value[256] = "";
    if (n > 9 && strncmp(line, "HTTP/", 5) == 0) {
        const char *space = memchr(line, ' ', n);
        t->answer->status = space == NULL ? 0 : strtol(space + 1, NULL, 10);
    } else if (header_value(line, n, "content-range", value, sizeof value)) {
        take_range(t, value);
    } else if (header_value(line, n, "retry-after", value, sizeof value)) {
        t->retry_after_s = strtoull(value, NULL, 10);
    } else {
        (void)(header_value(line, n, "etag", t->answer->etag, sizeof t->answer->etag) ||
               header_value(line, n, S3_NONCE_HEADER, t->answer->nonce, sizeof t->answer->nonce));
    }
    return n;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx)
{
    struct attempt *t = ctx;
    struct s3_answer *a = t->answer;
    size_t n = size * count;
    if (t->request->out == NULL || a->status >= 300) {
        if (n > S3_ANSWER_BYTES_MAX - a->body.len) {
            return 0;
        }
        buf_add(&a->body, data, n);
        return n;
    }
    if (a->status != 206 || t->wrong_range || n > t->request->out_bytes - a->got) {
        t->wrong_range = true;
        return 0;
    }
    memcpy(t->request->out + a->got, data, n);
    a->got += n;
    return n;
}

static int on_progress(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    (void)down_total;
    (void)up_total;
    struct attempt *t = ctx;
    uint64_t moved = (uint64_t)down + (uint64_t)up, now_ms = chrono_now_ms();
    if (moved != t->moved_bytes) {
        t->moved_bytes = moved;
        t->moved_ms = now_ms;
    }
    return now_ms - t->moved_ms > t->stall_ms || s3_stopped(t->request->stop);
}

/* ---- what is sent ---- */

static char *url_of(const struct s3_config *c, const struct s3_request *r)
{
    struct buf url = {0};
    const char *host = strstr(c->endpoint, "://") + 3;
    if (c->path_style) {
        buf_printf(&url, "%s/%s", c->endpoint, r->place->bucket);
    } else {
        buf_printf(&url, "%.*s%s.%s", (int)(host - c->endpoint), c->endpoint, r->place->bucket,
                   host);
    }
    if (r->place->key[0] != '\0' || !c->path_style) {
        buf_add_char(&url, '/');
    }
    s3_encode(&url, r->place->key, true);
    if (r->query != NULL) {
        buf_printf(&url, "?%s", r->query);
    }
    return buf_take(&url);
}

/* This version of libcurl signs what the line says, and makes no hash itself. */
static char *content_line(const struct s3_config *c, const struct s3_request *r)
{
    char hash[S3_SHA256_BYTES];
    if (!c->sign_payload && r->body_bytes > 0) {
        return mem_strdup("x-amz-content-sha256: UNSIGNED-PAYLOAD");
    }
    s3_sha256(r->body_bytes == 0 ? "" : r->body, r->body_bytes, hash);
    return mem_printf("x-amz-content-sha256: %s", hash);
}

static struct curl_slist *headers_of(const struct s3_config *c, const struct s3_credentials *who,
                                     const struct s3_request *r)
{
    struct curl_slist *list = NULL;
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "DELETE") != 0) {
        list = curl_slist_append(list, "content-type: application/octet-stream");
    }
    for (size_t i = 0; i < S3_HEADERS_MAX && r->headers[i] != NULL; i++) {
        list = curl_slist_append(list, r->headers[i]);
    }
    char *line = content_line(c, r);
    list = curl_slist_append(list, line);
    free(line);
    if (who->token != NULL) {
        char *token = mem_printf("x-amz-security-token: %s", who->token);
        list = curl_slist_append(list, token);
        free(token);
    }
    return list;
}

static void sign(CURL *h, const struct s3_config *c, const struct s3_credentials *who)
{
    char *how = mem_printf("aws:amz:%s:s3", c->region);
    (void)curl_easy_setopt(h, CURLOPT_AWS_SIGV4, how);
    free(how);
    /* Name and key are set apart: a key may have a colon in it. */
    (void)curl_easy_setopt(h, CURLOPT_USERNAME, who->key);
    (void)curl_easy_setopt(h, CURLOPT_PASSWORD, who->secret);
}

static void set_request(CURL *h, const struct s3_config *c, const struct s3_request *r,
                        struct attempt *t)
{
    (void)curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS_MAX);
    (void)curl_easy_setopt(h, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(h, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    if (c->ca_bundle != NULL) {
        (void)curl_easy_setopt(h, CURLOPT_CAINFO, c->ca_bundle);
    }
    (void)curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(h, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(h, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(h, CURLOPT_XFERINFODATA, t);
    if (strcmp(r->method, "PUT") == 0 || strcmp(r->method, "POST") == 0) {
        (void)curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_bytes);
        (void)curl_easy_setopt(h, CURLOPT_POSTFIELDS, r->body_bytes == 0 ? "" : r->body);
    }
    (void)curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, r->method);
    if (r->out != NULL) {
        char range[64];
        (void)snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)t->first,
                       (unsigned long long)(r->first + r->out_bytes - 1));
        (void)curl_easy_setopt(h, CURLOPT_RANGE, range);
    }
}

static enum s3_outcome outcome_of(CURLcode code, struct attempt *t, const char *endpoint,
                                  const char *detail, struct err *err)
{
    if (code == CURLE_OK) {
        return S3_ANSWERED;
    }
    const char *why = detail[0] != '\0' ? detail : curl_easy_strerror(code);
    if (t->wrong_range) {
        (void)err_set(err, ERR_INTERNAL, "%s sends other bytes than those that were asked for",
                      endpoint);
        return S3_HOPELESS;
    }
    if (code == CURLE_ABORTED_BY_CALLBACK && s3_stopped(t->request->stop)) {
        (void)err_set(err, ERR_CANCELLED, "given up");
        return S3_HOPELESS;
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        (void)err_set(err, ERR_UNAVAILABLE, "%s has sent and taken nothing for %llu s", endpoint,
                      (unsigned long long)t->stall_ms / 1000);
        return S3_BROKEN;
    }
    (void)err_set(err, ERR_UNAVAILABLE, "%s: %s", endpoint, why);
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return S3_NEVER_ASKED;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return S3_HOPELESS;
    default:
        return S3_BROKEN;
    }
}

/* The request that a transfer sends. */
struct sending {
    const char *endpoint; /* for messages */
    char *url;
    struct curl_slist *headers;
    const struct s3_credentials *who; /* NULL: it is not signed */
};

/* Takes @s. */
static enum s3_outcome perform(struct sending *s, const struct s3_config *config,
                               const struct s3_request *r, struct s3_answer *a,
                               uint64_t *retry_after_s, struct err *err)
{
    CURL *h = take_handle();
    enum s3_outcome outcome = S3_HOPELESS;
    if (h == NULL) {
        (void)err_set(err, ERR_EXHAUSTED, "no memory for a request");
    } else {
        struct attempt t = {.request = r,
                            .answer = a,
                            .first = r->first + a->got,
                            .moved_ms = chrono_now_ms(),
                            .stall_ms = config->stall_ms};
        char detail[CURL_ERROR_SIZE] = "";
        a->status = 0;
        a->etag[0] = a->nonce[0] = '\0';
        buf_reset(&a->body);
        if (s->who != NULL) {
            sign(h, config, s->who);
        }
        set_request(h, config, r, &t);
        (void)curl_easy_setopt(h, CURLOPT_URL, s->url);
        (void)curl_easy_setopt(h, CURLOPT_HTTPHEADER, s->headers);
        (void)curl_easy_setopt(h, CURLOPT_ERRORBUFFER, detail);
        outcome = outcome_of(curl_easy_perform(h), &t, s->endpoint, detail, err);
        *retry_after_s = t.retry_after_s;
        give_handle(h);
    }
    curl_slist_free_all(s->headers);
    free(s->url);
    return outcome;
}

enum s3_outcome s3_curl_attempt(const struct s3_config *config, const struct s3_credentials *who,
                                const struct s3_request *r, struct s3_answer *a,
                                uint64_t *retry_after_s, struct err *err)
{
    struct sending s = {config->endpoint, url_of(config, r), headers_of(config, who, r), who};
    return perform(&s, config, r, a, retry_after_s, err);
}

enum s3_outcome s3_curl_form(const struct s3_config *config, const char *endpoint,
                             const struct buf *form, const atomic_bool *stop, struct s3_answer *a,
                             uint64_t *retry_after_s, struct err *err)
{
    const struct s3_request r = {
        .method = "POST", .body = form->data, .body_bytes = form->len, .stop = stop};
    struct sending s = {endpoint, mem_printf("%s/", endpoint),
                        curl_slist_append(NULL, "content-type: application/x-www-form-urlencoded"),
                        NULL};
    return perform(&s, config, &r, a, retry_after_s, err);
}
