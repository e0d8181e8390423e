/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of an HTTP server: which are late with their request, and who has to go when
 * there are too many. No clock and no socket inside.
 *
 * A connection has HTTP_REQUEST_MS_MAX for a request with its answer, counted from its beginning or
 * from the end of the answer before; bytes that trickle in do not prolong it. When there are more
 * than HTTP_CONNECTIONS_MAX, the longest waiting one of the peer that has the most of them goes, so
 * whoever fills the server takes room from itself, and a probe gets in. One whose request is in
 * hand stays.
 *
 * Owner: the thread of the server. Limits: HTTP_CROWD_ROOM entries. */
#ifndef GRADUS_SERVICE_HTTP_CROWD_H
#define GRADUS_SERVICE_HTTP_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/peer_network.h"
#include "service/http.h"

/* Some are on their way out while the next ones come in. */
#define HTTP_CROWD_ROOM (HTTP_CONNECTIONS_MAX + 32)

struct http_guest {
    bool used;
    bool leaving; /* it was told to go */
    bool asked;   /* its request is in hand */
    int fd;       /* borrows */
    uint64_t since_ms;
    uint64_t number; /* of those that began in one millisecond, the lower came first */
    struct peer_network peer;
};

/* Zeroed is empty. */
struct http_crowd {
    struct http_guest guests[HTTP_CROWD_ROOM];
    uint64_t entered;
};

/* NULL: there is no room. @peer may be NULL. */
struct http_guest *http_crowd_enter(struct http_crowd *c, int fd, const struct sockaddr *peer,
                                    uint64_t now_ms);
/* All of its request is there. */
void http_crowd_asked(struct http_guest *guest);
/* Its answer is out; the time for the next request begins. */
void http_crowd_answered(struct http_guest *guest, uint64_t now_ms);
void http_crowd_leave(struct http_guest *guest);
/* The next one that has to go, marked as leaving; NULL: none. */
struct http_guest *http_crowd_surplus(struct http_crowd *c);
struct http_guest *http_crowd_late(struct http_crowd *c, uint64_t now_ms);
/* How long until one is late; UINT64_MAX: there is none. */
uint64_t http_crowd_wait_ms(const struct http_crowd *c, uint64_t now_ms);

#endif
