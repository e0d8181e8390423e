/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of an HTTP server: which of them are late with their request, and which is closed
 * when there are too many. No clock and no socket inside.
 *
 * A connection has HTTP_REQUEST_MS_MAX for a request with its answer, counted from its beginning or
 * from the end of the answer before; bytes that trickle in do not prolong it. When there are more
 * than HTTP_CONNECTIONS_MAX, the one that has waited longest is closed, so a probe gets in. A
 * connection with a request in hand stays. Who sends an answer that goes on ends it.
 *
 * Owner: the thread of the server. Limits: HTTP_CROWD_ROOM entries. */
#ifndef GRADUS_SERVICE_HTTP_CROWD_H
#define GRADUS_SERVICE_HTTP_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/http.h"

/* Some connections are on their way out while the next ones come in. */
#define HTTP_CROWD_ROOM (HTTP_CONNECTIONS_MAX + 32)

struct http_guest {
    bool used;
    bool leaving; /* it was told to go */
    bool asked;   /* its request is in hand */
    bool streams; /* and the answer goes on, for as long as it may */
    int fd;       /* borrows */
    uint64_t since_ms;
    uint64_t number; /* among connections of the same millisecond, the lower came first */
};

/* Zeroed is empty. */
struct http_crowd {
    struct http_guest guests[HTTP_CROWD_ROOM];
    uint64_t entered;
};

/* Adds a connection. NULL: there is no room. */
struct http_guest *http_crowd_enter(struct http_crowd *c, int fd, uint64_t now_ms);
/* The whole request is there. */
void http_crowd_asked(struct http_guest *guest);
/* The answer to it goes on: it is not late any more. */
void http_crowd_streams(struct http_guest *guest);
/* The answer was sent; the time for the next request begins. */
void http_crowd_answered(struct http_guest *guest, uint64_t now_ms);
void http_crowd_leave(struct http_guest *guest);
/* The next one that has to go, marked as leaving; NULL: none. */
struct http_guest *http_crowd_surplus(struct http_crowd *c);
struct http_guest *http_crowd_late(struct http_crowd *c, uint64_t now_ms);
/* Time until a connection is late; UINT64_MAX: none will be. */
uint64_t http_crowd_wait_ms(const struct http_crowd *c, uint64_t now_ms);

#endif
