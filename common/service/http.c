/* SPDX-License-Identifier: Apache-2.0 */
/* Answers /metrics and probes with libmicrohttpd. The thread is ours rather than the
 * library's, so that connections which are too slow can be ended on time (http_crowd.c). */
#include "service/http.h"

#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/accept_limit.h"
#include "auth/auth_table.h"
#include "base/buf.h"
#include "base/mem.h"
#include "os/chrono.h"
#include "os/thread.h"
#include "service/address.h"
#include "service/http_calls.h"
#include "service/http_crowd.h"
#include "service/http_origin.h"
#include "service/http_tls.h"

#define HTTP_REASON_BYTES 512
/* Of one connection, for its request line and headers; a longer request is refused. */
#define HTTP_CONNECTION_BYTES ((size_t)16 * 1024)

struct http {
    struct MHD_Daemon *daemon;
    struct http_crowd crowd; /* of the thread */
    struct http_tls *tls;    /* of the thread; NULL: plain */
    pthread_t thread;
    int stop_fd;
    struct meter_registry *meters;
    const struct http_check *checks;
    size_t check_count;
    void *ctx;
    int (*token)(void *ctx, const char *authorization, struct auth_identity *who, struct err *err);
    struct http_calls *calls;
    bool guarded;
    bool local; /* listens on the loopback alone */
    char address[ADDRESS_BYTES];
};

/* Takes @body. */
static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type,
                              struct buf *body)
{
    size_t n = body->len;
    char *data = body->data != NULL ? buf_take(body) : mem_strdup("");
    struct MHD_Response *r = MHD_create_response_from_buffer(n, data, MHD_RESPMEM_MUST_FREE);
    if (r == NULL) {
        free(data);
        return MHD_NO;
    }
    enum MHD_Result result = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (result == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        result = MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    if (result == MHD_YES) {
        result = MHD_queue_response(c, status, r);
    }
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result answer_check(struct http *h, const struct http_check *check,
                                    struct MHD_Connection *c, struct buf *body)
{
    char reason[HTTP_REASON_BYTES] = "";
    bool well = check->well(h->ctx, reason, sizeof reason);
    buf_printf(body, "%s\n", well ? "ok" : reason);
    return answer(c, well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain", body);
}

/* By the roles of the certificate that the client behind @fd has shown. */
static void identify_certificate(const struct http *h, int fd, struct auth_identity *who)
{
    struct tls_peer peer;
    const char *uris[TLS_PEER_URIS_MAX];
    http_tls_peer(h->tls, fd, &peer);
    for (size_t i = 0; i < peer.uri_count; i++) {
        uris[i] = peer.uris[i];
    }
    const struct auth_certificate certificate = {.common_name = peer.common_name,
                                                 .subject = peer.subject,
                                                 .uris = uris,
                                                 .uri_count = peer.uri_count};
    auth_identity_certificate(&certificate, who);
}

/* Decides whether the caller may have @what, by @row of auth_table.h. */
static int decide(const struct http *h, struct MHD_Connection *c, const char *row, const char *what,
                  struct auth_identity *who, struct err *err)
{
    char why[TLS_REFUSAL_BYTES] = "this port has no TLS";
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const char *authorization =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (auth_row_find(row)->anybody) {
        return 0;
    }
    if (authorization != NULL && h->token != NULL) { /* a token counts before any certificate */
        int rc = h->token(h->ctx, authorization, who, err);
        return rc != 0 ? rc : auth_decide(who, row, err);
    }
    if (h->tls == NULL || http_tls_refusal(h->tls, info->connect_fd, why) != NULL) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       "%s; %s is for holders of a certificate of this cluster%s", why, what,
                       h->token != NULL ? ", or of a token" : "");
    }
    identify_certificate(h, info->connect_fd, who);
    return auth_decide(who, row, err);
}

/* Decides whether the request may come in, by its row and the page that it is sent from. */
static int admit(const struct http *h, struct MHD_Connection *c, struct http_asked *asked)
{
    const struct http_origin from = {
        .host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST),
        .origin = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Origin"),
        .content_type =
            MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE)};
    struct err *err = &asked->refusal;
    const enum http_deed deed = http_calls_deed(h->calls, asked->method, asked->path);
    int rc = 0;
    if (asked->row == NULL) {
        return err_set(err, ERR_NOT_FOUND, "there is no such page");
    }
    if (deed == HTTP_CHANGES && !h->guarded) {
        return err_set(err, ERR_PERMISSION,
                       "nobody has to say here who he is, so nothing can be changed by HTTP: use "
                       "`gradus`, or start the master with --tokens FILE");
    }
    if (!h->guarded) {
        auth_identity_open(&asked->who);
        rc = h->local ? http_origin_check_local(&from, err) : 0;
    } else {
        rc = decide(h, c, asked->row, asked->row, &asked->who, err);
    }
    return rc == 0 && deed != HTTP_LOOKS ? http_origin_check_post(&from, err) : rc;
}

/* "ipv4:10.0.0.7:40000" */
static void peer_text(struct MHD_Connection *c, char out[HTTP_PEER_BYTES])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *from = info != NULL ? info->client_addr : NULL;
    const bool v6 = from != NULL && from->sa_family == AF_INET6;
    const socklen_t n = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE], port[8];
    if (from == NULL || getnameinfo(from, n, host, sizeof host, port, sizeof port,
                                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(out, HTTP_PEER_BYTES, "unknown");
        return;
    }
    snprintf(out, HTTP_PEER_BYTES, v6 ? "ipv6:[%s]:%s" : "ipv4:%s:%s", host, port);
}

static struct http_call *begin_call(const struct http *h, struct MHD_Connection *c, const char *url,
                                    const char *method, const char *row)
{
    struct http_asked asked = {.method = method, .path = url, .row = row};
    peer_text(c, asked.peer);
    (void)admit(h, c, &asked);
    return http_calls_begin(h->calls, c, &asked);
}

/* The whole request is there: the connection stays until it has its answer. */
static enum MHD_Result go_on(struct MHD_Connection *c, struct http_call *call, const char *upload,
                             size_t *upload_bytes)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_guest *guest = info != NULL ? info->socket_context : NULL;
    if (*upload_bytes == 0 && guest != NULL) {
        http_crowd_asked(guest);
    }
    const enum MHD_Result result = http_calls_go_on(call, upload, upload_bytes);
    if (guest != NULL && http_calls_streams(call)) {
        http_crowd_streams(guest);
    }
    return result;
}

/* Called once when the headers are there and, for a request with a body, again for each part of it:
 * the first answer is the only one, and the rest is thrown away with the connection. Requests for
 * the service's own pages are read to their end. */
static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **state)
{
    (void)version;
    struct http *h = ctx;
    struct buf body = {0};
    struct err err = {0};
    struct auth_identity who = {0};
    const char *row;
    if (*state != NULL) {
        return go_on(c, *state, upload, upload_bytes);
    }
    if (http_calls_has(h->calls, url, &row)) {
        *state = begin_call(h, c, url, method, row);
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        buf_add_str(&body, "only GET and HEAD\n");
        return answer(c, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", &body);
    }
    if (strcmp(url, "/metrics") == 0 && h->tls != NULL &&
        decide(h, c, AUTH_METRICS, url, &who, &err) != 0) {
        buf_printf(&body, "%s\n", err.msg);
        return answer(c, MHD_HTTP_FORBIDDEN, "text/plain", &body);
    }
    if (strcmp(url, "/metrics") == 0) {
        meter_expose(h->meters, &body);
        return answer(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", &body);
    }
    for (size_t i = 0; i < h->check_count; i++) {
        if (strcmp(url, h->checks[i].path) == 0) {
            return answer_check(h, &h->checks[i], c, &body);
        }
    }
    buf_add_str(&body, "not found; there are /metrics");
    for (size_t i = 0; i < h->check_count; i++) {
        buf_printf(&body, " %s", h->checks[i].path);
    }
    buf_add_str(&body, "\n");
    return answer(c, MHD_HTTP_NOT_FOUND, "text/plain", &body);
}

/* Broken requests are the clients' business: nothing to log. */
static void ignore_message(void *ctx, const char *fmt, va_list args)
{
    (void)ctx;
    (void)fmt;
    (void)args;
}

/* ---- connections ---- */

/* Shuts a connection down; the library sees its end and closes it. */
static void send_away(const struct http_guest *guest)
{
    (void)shutdown(guest->fd, SHUT_RDWR);
}

static void on_connection(void *ctx, struct MHD_Connection *c, void **socket_context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *h = ctx;
    int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (h->tls != NULL) {
            http_tls_left(h->tls, fd);
        }
        if (*socket_context != NULL) {
            http_crowd_leave(*socket_context);
        }
        return;
    }
    struct http_guest *guest = http_crowd_enter(&h->crowd, fd, chrono_now_ms());
    *socket_context = guest;
    if (guest == NULL) {
        (void)shutdown(fd, SHUT_RDWR);
        return;
    }
    struct http_guest *goes;
    while ((goes = http_crowd_surplus(&h->crowd)) != NULL) {
        send_away(goes);
    }
}

static void on_completed(void *ctx, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)ctx;
    (void)why;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (*state != NULL) {
        http_calls_end(*state);
        *state = NULL;
    }
    if (info != NULL && info->socket_context != NULL) {
        http_crowd_answered(info->socket_context, chrono_now_ms());
    }
}

/* Of a client behind TLS: the library takes one end of a pair of sockets. */
static bool enter(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_bytes)
{
    struct http *h = ctx;
    return MHD_add_connection(h->daemon, fd, peer, peer_bytes) == MHD_YES;
}

static uint64_t wait_ms_at(const struct http *h, uint64_t now_ms)
{
    MHD_UNSIGNED_LONG_LONG own_ms = 0;
    uint64_t wait_ms = http_crowd_wait_ms(&h->crowd, now_ms);
    if (MHD_get_timeout(h->daemon, &own_ms) == MHD_YES && own_ms < wait_ms) {
        wait_ms = own_ms;
    }
    uint64_t tls_ms = h->tls != NULL ? http_tls_wait_ms(h->tls, now_ms) : UINT64_MAX;
    return tls_ms < wait_ms ? tls_ms : wait_ms;
}

/* The library's own thread would know only of connections that are silent. */
static void *serve(void *arg)
{
    struct http *h = arg;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[3 + HTTP_TLS_POLLS] = {{.fd = info->epoll_fd, .events = POLLIN},
                                             {.fd = h->stop_fd, .events = POLLIN},
                                             {.fd = http_calls_fd(h->calls), .events = POLLIN}};
    while ((fds[1].revents & POLLIN) == 0) {
        http_calls_look(h->calls);
        (void)MHD_run(h->daemon);
        uint64_t now_ms = chrono_now_ms();
        struct http_guest *late;
        while ((late = http_crowd_late(&h->crowd, now_ms)) != NULL) {
            send_away(late);
        }
        nfds_t n = 3;
        if (h->tls != NULL) {
            http_tls_turn(h->tls, now_ms);
            n += http_tls_polls(h->tls, fds + n);
        }
        uint64_t wait_ms = wait_ms_at(h, now_ms);
        (void)poll(fds, n, wait_ms > INT32_MAX ? -1 : (int)wait_ms);
    }
    return NULL;
}

static int start_thread(struct http *h, struct err *err)
{
    h->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->stop_fd < 0) {
        return err_set(err, ERR_UNAVAILABLE, "serve HTTP on %s: no eventfd", h->address);
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = thread_start(&h->thread, "http", serve, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        (void)close(h->stop_fd);
        return err_set(err, ERR_UNAVAILABLE, "serve HTTP on %s: no thread", h->address);
    }
    return 0;
}

/* Plain: the library accepts from @fd. TLS: we do, and hand it what it may speak with. Takes @fd.
 */
static int start_daemon(struct http *h, int fd, const struct tls_files *tls, struct err *err)
{
    if (tls != NULL) {
        h->tls = http_tls_new(fd, tls, enter, h, err);
        if (h->tls == NULL) {
            (void)close(fd);
            return err->code;
        }
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    const struct MHD_OptionItem listen[] = {
        {tls == NULL ? MHD_OPTION_LISTEN_SOCKET : MHD_OPTION_END, fd, NULL},
        {MHD_OPTION_END, 0, NULL}};
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME |
            (tls != NULL ? MHD_USE_NO_LISTEN_SOCKET : 0),
        0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, ignore_message, NULL,
        MHD_OPTION_ARRAY, listen, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CROWD_ROOM,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_CONNECTION_BYTES, MHD_OPTION_END);
    if (h->daemon == NULL) {
        if (tls == NULL) {
            (void)close(fd);
        }
        return err_set(err, ERR_UNAVAILABLE, "serve HTTP on %s: no memory", h->address);
    }
    return 0;
}

static void http_free(struct http *h)
{
    if (h->daemon != NULL) {
        MHD_stop_daemon(h->daemon);
    }
    if (h->tls != NULL) {
        http_tls_free(h->tls);
    }
    http_calls_free(h->calls);
    free(h);
}

struct http *http_start(const struct http_options *options, struct err *err)
{
    struct address a;
    if (address_parse(options->address, &a, err) != 0) {
        return NULL;
    }
    int fd = address_listen(&a, err);
    if (fd < 0) {
        return NULL;
    }
    /* http_crowd.h */
    accept_limit_exempt(fd);
    struct http *h = mem_new(1, sizeof *h);
    h->meters = options->meters;
    h->checks = options->checks;
    h->check_count = options->check_count;
    h->ctx = options->ctx;
    h->token = options->token;
    h->guarded = options->guarded;
    h->local = address_is_loopback(&a);
    address_format(&a, h->address, sizeof h->address);
    h->calls = http_calls_new(options->pages);
    if (h->calls == NULL) {
        (void)close(fd);
        http_free(h);
        (void)err_set(err, ERR_UNAVAILABLE, "serve HTTP on %s: no eventfd", a.host);
        return NULL;
    }
    if (start_daemon(h, fd, options->tls, err) != 0 || start_thread(h, err) != 0) {
        http_free(h);
        return NULL;
    }
    return h;
}

const char *http_address(const struct http *h)
{
    return h->address;
}

void http_close_pages(struct http *h)
{
    if (h != NULL) {
        http_calls_close(h->calls);
    }
}

void http_stop(struct http *h)
{
    if (h == NULL) {
        return;
    }
    const uint64_t one = 1;
    ssize_t n = write(h->stop_fd, &one, sizeof one);
    (void)n; /* a new counter has room */
    pthread_join(h->thread, NULL);
    (void)close(h->stop_fd);
    http_free(h);
}
