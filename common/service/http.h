/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP port of a service: /metrics (Prometheus text), pages for probes, and pages of its own;
 * one thread. With TLS, /metrics is for clients with a certificate that one of the CAs has issued;
 * the pages of probes are for everybody, as kubelet has none to show. */
#ifndef GRADUS_SERVICE_HTTP_H
#define GRADUS_SERVICE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/auth_identity.h"
#include "base/buf.h"
#include "base/err.h"
#include "metrics/meter.h"
#include "tls/tls_files.h"

struct http;

/* a peer that fills it loses its oldest connection without a request in hand */
#define HTTP_CONNECTIONS_MAX 256
#define HTTP_REQUEST_MS_MAX 10000 /* a request with its answer, and the pause before it */

struct http_check { /* a page that says yes or no */
    const char *path;
    /* True: 200 "ok"; false: 503 with what it wrote to @reason. On the HTTP thread. */
    bool (*well)(void *ctx, char *reason, size_t n);
};

/* A request for a page of the service's own. */
struct http_call;

enum http_deed {
    HTTP_LOOKS,
    HTTP_COSTS,   /* browsers send it from the port's own pages alone (Origin), as JSON */
    HTTP_CHANGES, /* likewise, and nobody sends it who has not said who it is */
};

struct http_pages {
    /* "/v2": this path and all below it; "/": every path that has a row, and the port's own pages
     * beside them. Borrows. */
    const char *prefix;
    size_t body_bytes_max;   /* of one request */
    size_t bodies_bytes_max; /* bytes of all bodies that have no answer yet */
    /* The row of auth_table.h for this path; NULL: there is no such page. */
    const char *(*row)(void *ctx, const char *path);
    /* What a POST to this path does; NULL: none does anything. */
    enum http_deed (*deed)(void *ctx, const char *path);
    /* Answer @call with http_call_answer(), here or later on any thread. On the HTTP thread. */
    void (*request)(void *ctx, struct http_call *call);
    void *ctx;
};

struct http_options {
    const char *address;             /* "host:port", "[::1]:port"; port 0: any free one */
    struct meter_registry *meters;   /* borrows; the page of /metrics */
    const struct http_check *checks; /* borrows */
    size_t check_count;
    void *ctx;                   /* of the checks */
    const struct tls_files *tls; /* NULL: plain; they are read again when they change */
    /* Behind TLS: who sends that value of the header Authorization? Of the server's thread. NULL:
     * no tokens are known, and the header is passed over. Errors: as bearer_check(). */
    int (*token)(void *ctx, const char *authorization, struct auth_identity *who, struct err *err);
    const struct http_pages *pages; /* copied; NULL: none */
    bool guarded;                   /* a caller has to say who it is */
};

/* Listen and serve; returns owned. Errors: ERR_INVALID the address cannot be read; ERR_UNAVAILABLE
 * it cannot be listened on, naming it and why; ERR_INVALID the files of TLS cannot be used. */
struct http *http_start(const struct http_options *options, struct err *err);
const char *http_address(const struct http *h); /* with the port that was chosen; borrows */
/* From now on the service's own pages are answered without it. NULL is fine. */
void http_close_pages(struct http *h);
/* Waits for its thread, frees; NULL is fine. Every http_call has its answer. */
void http_stop(struct http *h);

/* ---- for who answers the service's own pages, from request() to http_call_answer() ---- */

const char *http_call_method(const struct http_call *call); /* "POST" */
const char *http_call_path(const struct http_call *call);   /* without the part from a "?" on */
/* The value of a header, or NULL. On the HTTP thread. Borrows. */
const char *http_call_header(const struct http_call *call, const char *name);
const struct buf *http_call_body(const struct http_call *call);
/* Who asks; everybody may do everything at a port without a guard. Borrows. */
const struct auth_identity *http_call_who(const struct http_call *call);
const char *http_call_peer(const struct http_call *call); /* "ipv4:10.0.0.7:40000"; borrows */
const char *http_call_row(const struct http_call *call);  /* what row() said; borrows */
/* Why the answer has to be an error, whatever the request is: ERR_UNAUTHENTICATED, ERR_PERMISSION,
 * ERR_NOT_FOUND, ERR_EXHAUSTED; NULL: it is well. */
const struct err *http_call_refusal(const struct http_call *call);

struct http_answer {
    unsigned status;           /* 200 */
    const char *type;          /* "application/json"; static */
    const char *header, *more; /* one more header and its value, or NULL; copied */
    struct buf *body;          /* taken */
    bool text;                 /* it may be packed (gzip) for a client that takes that */
};
/* Any thread, exactly once; the call is gone then. */
void http_call_answer(struct http_call *call, const struct http_answer *answer);

/* An answer that goes on, in place of http_call_answer(): no thread waits for its reader. */
#define HTTP_STREAMS_MAX 64                     /* of a port */
#define HTTP_STREAM_BYTES_MAX ((size_t)1 << 20) /* of one, that were not sent yet */
/* True: @call is a stream until http_stream_end(), which is called before http_stop(). False: there
 * are HTTP_STREAMS_MAX, and @call waits for another answer. @head: without a body. Any thread. */
bool http_call_stream(struct http_call *call, const struct http_answer *head);
/* False: its reader has gone, or there would be more than HTTP_STREAM_BYTES_MAX; nothing is sent.
 */
bool http_stream_send(struct http_call *stream, const void *data, size_t n);
size_t http_stream_unsent(struct http_call *stream);
/* Takes @stream. A reader who has not read all of it is cut off. */
void http_stream_end(struct http_call *stream);

/* Asks for /healthz at @address, or the page behind it ("HOST:PORT/readyz"): 0 when it answers yes.
 * A port that speaks HTTPS is asked with TLS, without checking its certificate. Errors: ERR_INVALID
 * the address; ERR_UNAVAILABLE with the answer, or that there was none. */
int http_probe(const char *address, unsigned timeout_ms, struct err *err);

#endif
