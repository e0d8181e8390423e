/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a service once whether it is healthy: the service's own --probe flag, for container
 * health checks, and for people who want to know why another page says no. Speaks HTTP/1.0, so
 * the answer ends where the connection does. A port that says that it speaks HTTPS is asked again
 * in TLS. */
#include "service/http.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/address.h"
#include "service/http_tls.h"
#include "tls/tls_ask.h"

/* Read until the peer closes, at most @n - 1 bytes. */
static void read_answer(int fd, char *out, size_t n)
{
    size_t have = 0;
    while (have + 1 < n) {
        ssize_t k = recv(fd, out + have, n - 1 - have, 0);
        if (k == 0 || (k < 0 && errno != EINTR)) {
            /* interrupted when the process was stopped and goes on */
            break;
        }
        have += k > 0 ? (size_t)k : 0;
    }
    out[have] = '\0';
}

/* The address that is asked, and the page. */
struct question {
    struct address at;
    char request[64];
};

/* "HOST:PORT", which asks for /healthz, or "HOST:PORT/PAGE". */
static int question_parse(const char *text, struct question *q, struct err *err)
{
    const char *page = strchr(text, '/');
    char address[256];
    size_t n = page != NULL ? (size_t)(page - text) : strlen(text);
    page = page != NULL ? page : "/healthz";
    if (n >= sizeof address || strlen(page) > 20 ||
        strspn(page + 1, "abcdefghijklmnopqrstuvwxyz") != strlen(page + 1)) {
        return err_set(err, ERR_INVALID, "%s: not HOST:PORT or HOST:PORT/PAGE", text);
    }
    memcpy(address, text, n);
    address[n] = '\0';
    (void)snprintf(q->request, sizeof q->request, "GET %s HTTP/1.0\r\nHost: probe\r\n\r\n", page);
    return address_parse(address, &q->at, err);
}

static int ask(const struct question *q, bool tls, unsigned timeout_ms, char *out, size_t n,
               struct err *err)
{
    ssize_t length = (ssize_t)strlen(q->request);
    int rc = 0;
    int fd = address_connect(&q->at, timeout_ms, err);
    if (fd < 0) {
        return fd;
    }
    if (tls) {
        rc = tls_ask(fd, q->request, out, n, err);
    } else if (send(fd, q->request, (size_t)length, MSG_NOSIGNAL) == length) {
        read_answer(fd, out, n);
    }
    (void)close(fd);
    return rc;
}

static const char *body_of(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n");
    return body != NULL ? body + 4 : "";
}

int http_probe(const char *address, unsigned timeout_ms, struct err *err)
{
    struct question q;
    char text[2048] = "";
    int code = question_parse(address, &q, err);
    code = code != 0 ? code : ask(&q, false, timeout_ms, text, sizeof text, err);
    if (code != 0) {
        return code;
    }
    struct err local = {0};
    if (strncmp(body_of(text), HTTP_TLS_ONLY, sizeof HTTP_TLS_ONLY - 1) == 0 &&
        ask(&q, true, timeout_ms, text, sizeof text, &local) != 0) {
        return err_set(err, ERR_UNAVAILABLE, "%s: %s", address, local.msg);
    }
    int status = 0;
    if (sscanf(text, "HTTP/1.%*1[01] %3d ", &status) != 1) { /* NOLINT(cert-err34-c): 3 digits */
        return err_set(err, ERR_UNAVAILABLE, "%s does not answer", address);
    }
    if (status != 200) {
        const char *body = body_of(text);
        return err_set(err, ERR_UNAVAILABLE, "%s: %.*s (HTTP %d)", address,
                       (int)strcspn(body, "\r\n"), body, status);
    }
    return 0;
}
