/* SPDX-License-Identifier: Apache-2.0 */
/* One channel for each member. The member that answered last is asked first, and one that did not
 * is asked last. */
#include "master/store/etcd_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "master/store/etcd_login.h"
#include "os/chrono.h"
#include "tls/tls_files.h"

/* A page of the largest rows fits. */
#define MESSAGE_BYTES_MAX ((size_t)64 << 20)
#define UNPACK_BYTES_MAX ((size_t)512 << 20)

struct etcd {
    char *url;
    char *prefix;
    struct rpc_credentials *credentials; /* NULL: plain */
    struct etcd_login *login;            /* NULL: no user is shown */
    struct rpc_channel *members[ETCD_MEMBERS_MAX];
    size_t count;
    atomic_size_t first; /* the member that is asked first */
};

/* ---- settings ---- */

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static int bad_url(const char *url, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "--store %.300s: %s; expected etcd://HOST:PORT[,HOST:PORT...]/PREFIX", url,
                   what);
}

/* Cuts the address into its members and the prefix. Returns owned texts. */
static int split(const char *url, char **members, size_t *count, char **prefix, struct err *err)
{
    *count = 0;
    if (strncmp(url, ETCD_SCHEME, strlen(ETCD_SCHEME)) != 0) {
        return bad_url(url, "no such kind of store", err);
    }
    const char *at = url + strlen(ETCD_SCHEME);
    const char *slash = strchr(at, '/');
    if (slash == NULL || slash[1] == '\0' || slash[strlen(slash) - 1] == '/') {
        return bad_url(url, "the prefix of the keys is missing", err);
    }
    while (at <= slash) {
        const size_t n = strcspn(at, ",/");
        if (n == 0 || memchr(at, ':', n) == NULL) {
            return bad_url(url, "a member is no host and port", err);
        }
        if (*count == ETCD_MEMBERS_MAX) {
            return bad_url(url, "too many members", err);
        }
        members[(*count)++] = mem_printf("%.*s", (int)n, at);
        at += n + 1;
    }
    *prefix = mem_strdup(slash);
    return 0;
}

static int check_tls(const struct etcd_settings *s, struct err *err)
{
    const struct tls_files files = {.certificate = is_set(s->cert) ? s->cert : NULL,
                                    .key = is_set(s->key) ? s->key : NULL,
                                    .ca = s->ca};
    struct err local = {0};
    if (is_set(s->cert) != is_set(s->key)) {
        return err_set(err, ERR_INVALID, "of --store-tls-cert and --store-tls-key one is missing");
    }
    if (!is_set(s->ca)) {
        return is_set(s->cert)
                   ? err_set(err, ERR_INVALID, "--store-tls-cert is given without --store-tls-ca")
                   : 0;
    }
    return tls_files_check(&files, (int64_t)time(NULL), &local) != 0
               ? err_set(err, ERR_INVALID, "TLS to the store: %s", local.msg)
               : 0;
}

static int connect_members(struct etcd *e, char **members, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct rpc_channel_options options = {.target = members[i],
                                                    .credentials = e->credentials,
                                                    .message_bytes_max = MESSAGE_BYTES_MAX,
                                                    .unpack_bytes_max = UNPACK_BYTES_MAX};
        e->members[i] = rpc_channel_new(&options, err);
        if (e->members[i] == NULL) {
            return err_wrap(err, "--store %.300s", e->url);
        }
        e->count++;
    }
    return 0;
}

int etcd_check(const struct etcd_settings *s, struct err *err)
{
    char *members[ETCD_MEMBERS_MAX] = {NULL}, *prefix = NULL;
    size_t count = 0;
    int rc = split(s->url, members, &count, &prefix, err);
    for (size_t i = 0; i < count; i++) {
        free(members[i]);
    }
    free(prefix);
    rc = rc < 0 ? rc : check_tls(s, err);
    if (rc == 0 && is_set(s->credentials)) {
        struct etcd_user user = {0};
        rc = etcd_login_read(s->credentials, &user, err);
        rc = rc < 0 ? err_wrap(err, "--store-credentials") : 0;
        etcd_user_release(&user);
    }
    return rc;
}

struct etcd *etcd_new(const struct etcd_settings *s, struct err *err)
{
    char *members[ETCD_MEMBERS_MAX] = {NULL};
    size_t count = 0;
    struct etcd *e = mem_new(1, sizeof *e);
    e->url = mem_strdup(s->url);
    e->login = is_set(s->credentials) ? etcd_login_new(s->credentials) : NULL;
    int rc = check_tls(s, err);
    rc = rc < 0 ? rc : split(s->url, members, &count, &e->prefix, err);
    if (rc == 0 && is_set(s->ca)) {
        const struct rpc_credentials_options options = {
            .certificate_file = s->cert, .key_file = s->key, .ca_file = s->ca};
        e->credentials = rpc_credentials_new(&options, err);
        rc = e->credentials == NULL ? err->code : 0;
    }
    rc = rc < 0 ? rc : connect_members(e, members, count, err);
    for (size_t i = 0; i < count; i++) {
        free(members[i]);
    }
    if (rc < 0) {
        etcd_free(e);
        return NULL;
    }
    return e;
}

void etcd_free(struct etcd *e)
{
    if (e == NULL) {
        return;
    }
    for (size_t i = 0; i < e->count; i++) {
        rpc_channel_free(e->members[i]);
    }
    rpc_credentials_free(e->credentials);
    etcd_login_free(e->login);
    free(e->prefix);
    free(e->url);
    free(e);
}

const char *etcd_url(const struct etcd *e)
{
    return e->url;
}

char *etcd_key(const struct etcd *e, const char *name)
{
    return mem_printf("%s/%s", e->prefix, name);
}

ProtobufCBinaryData etcd_bytes(const char *text)
{
    const union {
        const char *in;
        uint8_t *out; /* protobuf's structs have no const: nobody writes to them */
    } both = {.in = text};
    return (ProtobufCBinaryData){strlen(text), both.out};
}

/* ---- calls ---- */

typedef int (*etcd_try)(struct rpc_channel *member, unsigned timeout_ms, void *ctx,
                        struct err *err);

/* Asks one member after the other until one answers, be it with an error, or the time is over. */
static int ask(struct etcd *e, etcd_try try_one, unsigned timeout_ms, void *ctx, struct err *err)
{
    const uint64_t until_ms = chrono_now_ms() + timeout_ms;
    const size_t first = atomic_load(&e->first);
    uint64_t left_ms = timeout_ms;
    for (size_t i = 0;; i++) {
        const size_t member = (first + i) % e->count;
        const bool last = i + 1 == e->count;
        const unsigned share_ms =
            last || left_ms < timeout_ms / 2 + 1 ? (unsigned)left_ms : timeout_ms / 2 + 1;
        int rc = try_one(e->members[member], share_ms, ctx, err);
        const bool answered = rc != ERR_UNAVAILABLE && rc != ERR_TIMEOUT;
        const uint64_t now_ms = chrono_now_ms();
        if (answered || last || now_ms >= until_ms) {
            atomic_store(&e->first, answered ? member : (member + 1) % e->count);
            return rc;
        }
        left_ms = until_ms - now_ms;
    }
}

struct unary {
    struct rpc_request request;
    struct rpc_msg **reply;
};

static int try_unary(struct rpc_channel *member, unsigned timeout_ms, void *ctx, struct err *err)
{
    struct unary *u = ctx;
    u->request.timeout_ms = timeout_ms;
    return rpc_call_blocking(member, &u->request, u->reply, err);
}

/* Shows user and password, and keeps the token that etcd gives for them. */
static int log_in(struct etcd *e, unsigned timeout_ms, struct err *err)
{
    Etcdserverpb__AuthenticateRequest body = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    struct unary u = {.request = {.service = &etcdserverpb__auth__descriptor,
                                  .method = "Authenticate",
                                  .body = &body.base},
                      .reply = &reply};
    struct etcd_user user = {0};
    int rc = etcd_login_read(etcd_login_file(e->login), &user, err);
    if (rc == 0) {
        body.name = user.name;
        body.password = user.password;
        rc = ask(e, try_unary, timeout_ms, &u, err);
    }
    etcd_user_release(&user);
    if (rc == 0) {
        etcd_login_take(e->login, ((const Etcdserverpb__AuthenticateResponse *)reply->body)->token);
    } else if (rc == ERR_STATE) { /* etcd asks nobody who he is */
        etcd_login_take(e->login, "");
        rc = 0;
    }
    rpc_msg_unref(reply);
    return rc;
}

/* Is a new token what helps? Some are over after a while, all when users have changed. */
static bool is_stale(const struct etcd *e, int rc, const struct err *err)
{
    return e->login != NULL && (rc == ERR_UNAUTHENTICATED ||
                                (rc == ERR_INVALID && (strstr(err->msg, "auth store is old") ||
                                                       strstr(err->msg, "user name is empty"))));
}

/* As ask(), with the token of before where there is one. */
static int ask_with_token(struct etcd *e, etcd_try try_one, unsigned timeout_ms, void *ctx,
                          const struct rpc_header **headers, size_t *header_count, struct err *err)
{
    struct err local = {0};
    int rc = 0;
    for (int tries = 0; tries < 2; tries++) {
        char *token = e->login == NULL ? NULL : etcd_login_token(e->login);
        if (e->login != NULL && (token == NULL || tries > 0)) {
            free(token);
            rc = log_in(e, timeout_ms, &local);
            if (rc < 0) {
                break;
            }
            token = etcd_login_token(e->login);
        }
        const struct rpc_header header = {.key = "token", .value = token};
        *headers = &header;
        *header_count = token != NULL && token[0] != '\0';
        rc = ask(e, try_one, timeout_ms, ctx, &local);
        free(token);
        if (!is_stale(e, rc, &local)) {
            break;
        }
    }
    const bool asks = e->login == NULL && strstr(local.msg, "user name is empty") != NULL;
    return rc < 0 ? err_set(err, rc, "%s%s", local.msg,
                            asks ? "; it asks who calls: --store-credentials" : "")
                  : 0;
}

int etcd_call(struct etcd *e, const ProtobufCServiceDescriptor *service, const char *method,
              const ProtobufCMessage *body, unsigned timeout_ms, struct rpc_msg **reply,
              struct err *err)
{
    struct unary u = {.request = {.service = service, .method = method, .body = body},
                      .reply = reply};
    return ask_with_token(e, try_unary, timeout_ms, &u, &u.request.headers, &u.request.header_count,
                          err);
}

/* A stream for one message and its answer. */
struct keeping {
    int64_t id;
    const struct rpc_header *headers;
    size_t header_count;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool done, answered;
    int64_t ttl_s;
    struct err err;
};

static void kept(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    struct keeping *k = ctx;
    (void)stream;
    pthread_mutex_lock(&k->lock);
    k->answered = true;
    k->ttl_s = ((const Etcdserverpb__LeaseKeepAliveResponse *)msg->body)->ttl;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

static void keeping_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    struct keeping *k = ctx;
    (void)stream;
    pthread_mutex_lock(&k->lock);
    k->done = true;
    k->err = status->err;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

static int try_keep(struct rpc_channel *member, unsigned timeout_ms, void *ctx, struct err *err)
{
    struct keeping *k = ctx;
    Etcdserverpb__LeaseKeepAliveRequest body = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
    const struct rpc_request request = {.service = &etcdserverpb__lease__descriptor,
                                        .method = "LeaseKeepAlive",
                                        .body = &body.base,
                                        .timeout_ms = timeout_ms,
                                        .headers = k->headers,
                                        .header_count = k->header_count};
    const struct rpc_stream_events events = {.message = kept, .done = keeping_done};
    body.id = k->id;
    k->done = k->answered = false;
    struct rpc_stream *stream = rpc_stream_open(member, &request, &events, k, err);
    if (stream == NULL) {
        return err->code;
    }
    pthread_mutex_lock(&k->lock);
    while (!k->done && !k->answered) {
        pthread_cond_wait(&k->changed, &k->lock); /* timeout_ms ends the stream */
    }
    pthread_mutex_unlock(&k->lock);
    rpc_stream_cancel(stream);
    pthread_mutex_lock(&k->lock);
    while (!k->done) {
        pthread_cond_wait(&k->changed, &k->lock);
    }
    int rc = k->answered ? 0
             : k->err.code < 0
                 ? err_set(err, k->err.code, "%s", k->err.msg)
                 : err_set(err, ERR_UNAVAILABLE, "%s: no answer", rpc_channel_target(member));
    pthread_mutex_unlock(&k->lock);
    rpc_stream_free(stream);
    return rc;
}

int etcd_keep_alive(struct etcd *e, int64_t id, unsigned timeout_ms, int64_t *ttl_s,
                    struct err *err)
{
    struct keeping k = {
        .id = id, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    int rc = ask_with_token(e, try_keep, timeout_ms, &k, &k.headers, &k.header_count, err);
    *ttl_s = rc == 0 ? k.ttl_s : *ttl_s;
    pthread_cond_destroy(&k.changed);
    pthread_mutex_destroy(&k.lock);
    return rc;
}
