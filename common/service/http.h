/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP port of a service: /metrics (Prometheus text) and pages for probes; one thread. With
 * TLS, /metrics is for clients with a certificate that one of the CAs has issued; the pages of
 * probes are for everybody, as kubelet has none to show. */
#ifndef GRADUS_SERVICE_HTTP_H
#define GRADUS_SERVICE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/auth_identity.h"
#include "base/err.h"
#include "metrics/meter.h"
#include "tls/tls_files.h"

struct http;

#define HTTP_CONNECTIONS_MAX 64   /* a few scrapers and probes; whoever fills it loses its oldest */
#define HTTP_REQUEST_MS_MAX 10000 /* a request with its answer, and the pause before it */

struct http_check { /* a page that says yes or no */
    const char *path;
    /* True: 200 "ok"; false: 503 with what it wrote to @reason. On the HTTP thread. */
    bool (*well)(void *ctx, char *reason, size_t n);
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
};

/* Listen and serve; returns owned. Errors: ERR_INVALID the address cannot be read; ERR_UNAVAILABLE
 * it cannot be listened on, naming it and why; ERR_INVALID the files of TLS cannot be used. */
struct http *http_start(const struct http_options *options, struct err *err);
const char *http_address(const struct http *h); /* with the port that was chosen; borrows */
void http_stop(struct http *h);                 /* waits for its thread, frees; NULL is fine */

/* Ask /healthz at @address, or the page behind it ("HOST:PORT/readyz"): 0 when it says yes. Where
 * HTTPS is spoken it is asked in TLS, whoever it may be. Errors: ERR_INVALID the address;
 * ERR_UNAVAILABLE with what it answered, or that nobody did. */
int http_probe(const char *address, unsigned timeout_ms, struct err *err);

#endif
