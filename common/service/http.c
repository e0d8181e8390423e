/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "service/address.h"

#define HTTP_REASON_BYTES 512
/* Of one connection, for its request line and headers; a longer request is refused. */
#define HTTP_CONNECTION_BYTES ((size_t)16 * 1024)

struct http {
    struct MHD_Daemon *daemon;
    struct meter_registry *meters;
    bool (*healthy)(void *ctx, char *reason, size_t n);
    void *ctx;
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

static enum MHD_Result answer_health(struct http *h, struct MHD_Connection *c, struct buf *body)
{
    char reason[HTTP_REASON_BYTES] = "";
    bool well = h->healthy == NULL || h->healthy(h->ctx, reason, sizeof reason);
    buf_printf(body, "%s\n", well ? "ok" : reason);
    return answer(c, well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain", body);
}

/* Called once when the headers are there and, for a request with a body, again for each part of it:
 * the first answer is the only one, what follows is thrown away with the connection. */
static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **state)
{
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)state;
    struct http *h = ctx;
    struct buf body = {0};
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        buf_add_str(&body, "only GET and HEAD\n");
        return answer(c, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", &body);
    }
    if (strcmp(url, "/metrics") == 0) {
        meter_expose(h->meters, &body);
        return answer(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", &body);
    }
    if (strcmp(url, "/healthz") == 0) {
        return answer_health(h, c, &body);
    }
    buf_add_str(&body, "not found; there are /metrics and /healthz\n");
    return answer(c, MHD_HTTP_NOT_FOUND, "text/plain", &body);
}

/* Broken requests are the clients' business: nothing to log. */
static void ignore_message(void *ctx, const char *fmt, va_list args)
{
    (void)ctx;
    (void)fmt;
    (void)args;
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
    struct http *h = mem_new(1, sizeof *h);
    h->meters = options->meters;
    h->healthy = options->healthy;
    h->ctx = options->ctx;
    address_format(&a, h->address, sizeof h->address);
    h->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, h,
        MHD_OPTION_EXTERNAL_LOGGER, ignore_message, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)HTTP_IDLE_SECONDS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_CONNECTION_BYTES,
        MHD_OPTION_END);
    if (h->daemon == NULL) {
        err_set(err, ERR_UNAVAILABLE, "serve HTTP on %s: no thread or memory", h->address);
        (void)close(fd);
        free(h);
        return NULL;
    }
    return h;
}

const char *http_address(const struct http *h)
{
    return h->address;
}

void http_stop(struct http *h)
{
    if (h == NULL) {
        return;
    }
    MHD_stop_daemon(h->daemon);
    free(h);
}
