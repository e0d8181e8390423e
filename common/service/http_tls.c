/* SPDX-License-Identifier: Apache-2.0 */
/* Carries bytes between clients and the HTTP server. A line is in one state after the other:
 * nothing known, TLS handshake, open, closing (everything was sent; the client closes, or its time
 * ends). */
#include "service/http_tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define TLS_RECORD_HANDSHAKE 0x16
#define DRAIN_READS 16 /* in one turn, from a client that never stops */
/* in one turn; the next turn begins when the server has closed the connections that these replace
 */
#define ACCEPTS 8
#define ACCEPT_PAUSE_MS 100

struct chunk { /* bytes on their way in one direction */
    size_t from;
    size_t to;
    char bytes[4096];
};

struct line {
    int outside;             /* the client */
    int inside;              /* our end of the pair; -1: closed */
    int server;              /* the server's end, which it closes; -1: it has */
    struct tls_session *tls; /* NULL: the client has said nothing yet */
    bool open;               /* the handshake is over */
    bool deaf;               /* no more bytes come from the client, or nobody would read them */
    bool closing;
    uint64_t until_ms; /* 0: the server still uses it */
    int outside_wants; /* POLLIN, POLLOUT */
    int inside_wants;
    struct chunk in;
    struct chunk out;
};

struct http_tls {
    int listen_fd;
    struct tls_server *tls;
    http_tls_enter *enter;
    void *ctx;
    uint64_t now_ms;       /* of this turn */
    uint64_t accept_at_ms; /* a process without free descriptors waits a little */
    struct line *lines[HTTP_TLS_LINES];
};

struct http_tls *http_tls_new(int listen_fd, const struct tls_files *files, http_tls_enter *enter,
                              void *ctx, struct err *err)
{
    struct tls_server *tls = tls_server_new(files, err);
    if (tls == NULL) {
        return NULL;
    }
    struct http_tls *t = mem_new(1, sizeof *t);
    t->listen_fd = listen_fd;
    t->tls = tls;
    t->enter = enter;
    t->ctx = ctx;
    return t;
}

static void line_free(struct line *l)
{
    tls_session_free(l->tls);
    (void)close(l->outside);
    if (l->inside >= 0) {
        (void)close(l->inside);
    }
    free(l);
}

void http_tls_free(struct http_tls *t)
{
    for (size_t i = 0; i < HTTP_TLS_LINES; i++) {
        if (t->lines[i] != NULL) {
            line_free(t->lines[i]);
        }
    }
    (void)close(t->listen_fd);
    tls_server_free(t->tls);
    free(t);
}

/* ---- the ways of a line to its end ---- */

/* The server hears of the end when it reads. */
static void leave_server(struct line *l)
{
    if (l->inside >= 0) {
        (void)close(l->inside);
        l->inside = -1;
    }
    l->inside_wants = 0;
}

/* To close at once would take an answer from a client that is still sending. */
static void begin_closing(const struct http_tls *t, struct line *l)
{
    leave_server(l);
    (void)shutdown(l->outside, SHUT_WR);
    l->closing = true;
    l->until_ms = t->now_ms + HTTP_TLS_LINGER_MS;
}

/* Reads and drops bytes; false: there is nothing to wait for. */
static bool drain(struct line *l)
{
    char bytes[4096];
    ssize_t n = 1;
    for (int left = DRAIN_READS; left > 0 && n > 0; left--) {
        n = recv(l->outside, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    l->outside_wants = POLLIN;
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static void refuse_plain(const struct http_tls *t, struct line *l)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
                                 "Connection: close\r\n\r\n" HTTP_TLS_ONLY "\n";
    (void)send(l->outside, answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    begin_closing(t, l);
}

/* ---- the handshake ---- */

/* Has the server given this line up? It never says anything first. */
static bool server_waits(const struct line *l)
{
    char byte;
    return recv(l->inside, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* False: the line is of no use any more. */
static bool hear_first_byte(struct http_tls *t, struct line *l)
{
    unsigned char first;
    ssize_t n = recv(l->outside, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        l->outside_wants = POLLIN;
        return true;
    }
    if (n <= 0) {
        return false;
    }
    if (first != TLS_RECORD_HANDSHAKE) {
        refuse_plain(t, l);
        return true;
    }
    tls_server_refresh(t->tls, t->now_ms);
    l->tls = tls_session_new(t->tls, l->outside);
    return l->tls != NULL;
}

/* Notes what the session waits for; false: it does not wait. */
static bool wants(struct line *l, enum tls_step step)
{
    l->outside_wants |= step == TLS_WANTS_READ ? POLLIN : step == TLS_WANTS_WRITE ? POLLOUT : 0;
    return step == TLS_WANTS_READ || step == TLS_WANTS_WRITE;
}

static bool shake_hands(struct http_tls *t, struct line *l)
{
    if (!server_waits(l)) {
        return false;
    }
    l->inside_wants = POLLIN;
    if (l->tls == NULL && !hear_first_byte(t, l)) {
        return false;
    }
    if (l->tls == NULL) {
        return true;
    }
    enum tls_step step = tls_session_shake_hands(l->tls);
    l->open = step == TLS_DONE;
    return l->open || wants(l, step);
}

/* ---- an open line ---- */

static void bring_in(struct line *l)
{
    while (!l->deaf) {
        struct chunk *c = &l->in;
        if (c->from == c->to) {
            size_t n = 0;
            enum tls_step step = tls_session_read(l->tls, c->bytes, sizeof c->bytes, &n);
            if (wants(l, step)) {
                return;
            }
            c->from = 0;
            c->to = n;
        }
        if (c->from == c->to) {
            l->deaf = true;
            (void)shutdown(l->inside, SHUT_WR);
            return;
        }
        ssize_t n =
            send(l->inside, c->bytes + c->from, c->to - c->from, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            l->inside_wants |= POLLOUT;
            return;
        }
        l->deaf = n < 0;
        c->from += n > 0 ? (size_t)n : 0;
    }
}

/* False: the client cannot be told anything any more. */
static bool bring_out(const struct http_tls *t, struct line *l)
{
    for (;;) {
        struct chunk *c = &l->out;
        if (c->from == c->to) {
            ssize_t n = recv(l->inside, c->bytes, sizeof c->bytes, MSG_DONTWAIT);
            if (n < 0 && errno == EAGAIN) {
                l->inside_wants |= POLLIN;
                return true;
            }
            if (n <= 0) {
                tls_session_end(l->tls);
                begin_closing(t, l);
                return true;
            }
            c->from = 0;
            c->to = (size_t)n;
        }
        size_t n = 0;
        enum tls_step step = tls_session_write(l->tls, c->bytes + c->from, c->to - c->from, &n);
        if (step != TLS_DONE) {
            return wants(l, step);
        }
        c->from += n;
    }
}

/* A server that has closed its end is through; the deadline of what the client still has to read
 * begins. */
static void notice_end(const struct http_tls *t, struct line *l)
{
    if (!l->closing && l->server < 0 && l->until_ms == 0) {
        l->until_ms = t->now_ms + HTTP_TLS_FLUSH_MS;
    }
}

/* False: it is over. */
static bool advance(struct http_tls *t, struct line *l)
{
    notice_end(t, l);
    if (l->until_ms != 0 && t->now_ms >= l->until_ms) {
        return false;
    }
    l->outside_wants = 0;
    l->inside_wants = 0;
    if (!l->closing && !l->open && !shake_hands(t, l)) {
        return false;
    }
    if (!l->closing && l->open) {
        bring_in(l);
        if (!bring_out(t, l)) {
            return false;
        }
    }
    return !l->closing || drain(l);
}

/* ---- new ones ---- */

/* A free place, if need be that of the line whose end is nearest; NULL: none. */
static struct line **make_room(struct http_tls *t)
{
    struct line **goes = NULL;
    for (size_t i = 0; i < HTTP_TLS_LINES; i++) {
        struct line **l = &t->lines[i];
        if (*l == NULL) {
            return l;
        }
        if ((*l)->until_ms != 0 && (goes == NULL || (*l)->until_ms < (*goes)->until_ms)) {
            goes = l;
        }
    }
    if (goes != NULL) {
        line_free(*goes);
        *goes = NULL;
    }
    return goes;
}

static void receive(struct http_tls *t, int fd, const struct sockaddr *peer, socklen_t peer_bytes)
{
    struct line **place = make_room(t);
    int pair[2];
    if (place == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        (void)close(fd);
        return;
    }
    struct line *l = mem_new(1, sizeof *l);
    *l = (struct line){.outside = fd, .inside = pair[0], .server = pair[1]};
    *place = l; /* before the server asks for its peer */
    if (!t->enter(t->ctx, pair[1], peer, peer_bytes)) {
        *place = NULL; /* the server has closed its end */
        line_free(l);
    }
}

static void receive_all(struct http_tls *t)
{
    for (int left = ACCEPTS; left > 0 && t->now_ms >= t->accept_at_ms; left--) {
        struct sockaddr_storage peer;
        socklen_t n = sizeof peer;
        int fd = accept4(t->listen_fd, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
            t->accept_at_ms = t->now_ms + ACCEPT_PAUSE_MS;
        }
        if (fd < 0) {
            return;
        }
        receive(t, fd, (const struct sockaddr *)&peer, n);
    }
}

/* ---- turns ---- */

void http_tls_turn(struct http_tls *t, uint64_t now_ms)
{
    t->now_ms = now_ms;
    receive_all(t);
    for (size_t i = 0; i < HTTP_TLS_LINES; i++) {
        if (t->lines[i] != NULL && !advance(t, t->lines[i])) {
            line_free(t->lines[i]);
            t->lines[i] = NULL;
        }
    }
}

size_t http_tls_polls(const struct http_tls *t, struct pollfd *out)
{
    size_t n = 0;
    if (t->now_ms >= t->accept_at_ms) {
        out[n++] = (struct pollfd){.fd = t->listen_fd, .events = POLLIN};
    }
    for (size_t i = 0; i < HTTP_TLS_LINES; i++) {
        const struct line *l = t->lines[i];
        if (l != NULL && l->outside_wants != 0) {
            out[n++] = (struct pollfd){.fd = l->outside, .events = (short)l->outside_wants};
        }
        if (l != NULL && l->inside_wants != 0) {
            out[n++] = (struct pollfd){.fd = l->inside, .events = (short)l->inside_wants};
        }
    }
    return n;
}

uint64_t http_tls_wait_ms(const struct http_tls *t, uint64_t now_ms)
{
    uint64_t wait = t->now_ms < t->accept_at_ms ? ACCEPT_PAUSE_MS : UINT64_MAX;
    for (size_t i = 0; i < HTTP_TLS_LINES; i++) {
        const struct line *l = t->lines[i];
        if (l != NULL && l->until_ms != 0) {
            uint64_t left = l->until_ms > now_ms ? l->until_ms - now_ms : 0;
            wait = left < wait ? left : wait;
        }
    }
    return wait;
}

static struct line *line_of(const struct http_tls *t, int fd)
{
    for (size_t i = 0; i < HTTP_TLS_LINES; i++) {
        if (t->lines[i] != NULL && t->lines[i]->server == fd) {
            return t->lines[i];
        }
    }
    return NULL;
}

void http_tls_left(struct http_tls *t, int fd)
{
    struct line *l = line_of(t, fd);
    if (l != NULL) {
        l->server = -1;
    }
}

const char *http_tls_refusal(const struct http_tls *t, int fd, char out[TLS_REFUSAL_BYTES])
{
    const struct line *l = line_of(t, fd);
    if (l == NULL || l->tls == NULL) {
        (void)snprintf(out, TLS_REFUSAL_BYTES, "its connection has ended");
        return out;
    }
    return tls_session_refusal(l->tls, out);
}

void http_tls_peer(const struct http_tls *t, int fd, struct tls_peer *out)
{
    const struct line *l = line_of(t, fd);
    *out = (struct tls_peer){0};
    if (l != NULL && l->tls != NULL) {
        tls_session_peer(l->tls, out);
    }
}
