/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP port (service/http.c): what a client sends over a connection to the port itself, on
 * loopback, until the server has answered or closed; the answer is one of HTTP. A request that
 * comes behind it has an answer even where that would be waited for.
 *
 * Input: what is sent; at a NUL the client pauses, so that the rest comes in another read. */
#include "fuzz/fuzz.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "metrics/meter.h"
#include "service/http.h"

static struct http *server;
static struct sockaddr_in address = {.sin_family = AF_INET};

static bool well(void *ctx, char *reason, size_t n)
{
    (void)ctx;
    (void)reason;
    (void)n;
    return true;
}

static void begin(void)
{
    static const struct http_check checks[] = {{"/livez", well}, {"/healthz", well}};
    struct meter_registry *meters = meter_registry_new();
    (void)meter_counter(meters, "fuzz_total", "A counter", NULL, 0);
    const struct http_options options = {
        .address = "127.0.0.1:0", .meters = meters, .checks = checks, .check_count = 2};
    struct err err = {0};
    server = http_start(&options, &err);
    fuzz_require(server != NULL, err.msg);
    const char *port = strrchr(http_address(server), ':') + 1;
    address.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* As much of it as the server takes. */
static void send_all(int fd, const uint8_t *data, size_t n)
{
    while (n > 0) {
        const uint8_t *mark = memchr(data, '\0', n);
        size_t part = mark == NULL ? n : (size_t)(mark - data);
        if (part > 0 && send(fd, data, part, MSG_NOSIGNAL) != (ssize_t)part) {
            return;
        }
        part += mark != NULL;
        data += part;
        n -= part;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (server == NULL) {
        begin();
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    const struct linger reset = {.l_onoff = 1};
    static const char end[] = "\r\n\r\nGET /livez HTTP/1.0\r\n\r\n";
    const struct timeval patience = {.tv_usec = 100000}; /* the server's is 10 s */
    char answer[4096];
    fuzz_require(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0,
                 "the port is open");
    (void)setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    send_all(fd, data, n);
    send_all(fd, (const uint8_t *)end, sizeof end - 1);
    ssize_t got = 0, total = 0;
    while ((got = recv(fd, answer, sizeof answer, 0)) > 0) {
        fuzz_require(total > 0 || got < 9 || memcmp(answer, "HTTP/1.", 7) == 0,
                     "an answer is one of HTTP");
        total += got;
    }
    (void)close(fd);
    return 0;
}
