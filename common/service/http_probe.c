/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a service once whether it is healthy: the service's own --probe flag, for container
 * health checks. Speaks HTTP/1.0, so the answer ends where the connection does. */
#include "service/http.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/address.h"

/* Read until the peer closes, at most @n - 1 bytes. */
static void read_answer(int fd, char *out, size_t n)
{
    size_t have = 0;
    while (have + 1 < n) {
        ssize_t k = recv(fd, out + have, n - 1 - have, 0);
        if (k <= 0) {
            break;
        }
        have += (size_t)k;
    }
    out[have] = '\0';
}

int http_probe(const char *address, unsigned timeout_ms, struct err *err)
{
    struct address a;
    int code = address_parse(address, &a, err);
    if (code != 0) {
        return code;
    }
    int fd = address_connect(&a, timeout_ms, err);
    if (fd < 0) {
        return fd;
    }
    static const char request[] = "GET /healthz HTTP/1.0\r\nHost: probe\r\n\r\n";
    char text[2048] = "";
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1) {
        read_answer(fd, text, sizeof text);
    }
    (void)close(fd);
    int status = 0;
    if (sscanf(text, "HTTP/1.%*1[01] %3d ", &status) != 1) { /* NOLINT(cert-err34-c): 3 digits */
        return err_set(err, ERR_UNAVAILABLE, "%s does not answer", address);
    }
    if (status != 200) {
        const char *body = strstr(text, "\r\n\r\n");
        body = body != NULL ? body + 4 : "";
        return err_set(err, ERR_UNAVAILABLE, "%s: %.*s (HTTP %d)", address,
                       (int)strcspn(body, "\r\n"), body, status);
    }
    return 0;
}
