/* SPDX-License-Identifier: Apache-2.0 */
/* How many of a server's connections one peer has, so that neither one nor a few can take them all.
 * No socket inside: who accepts says which descriptor has which peer, and is asked which are still
 * there, since nobody says when a library closes one.
 *
 * Owner: whoever holds the lock of accept_limit.c. Limits: ACCEPT_SHARE_ROOM descriptors; those
 * with higher numbers are not counted. */
#ifndef GRADUS_BASE_ACCEPT_SHARE_H
#define GRADUS_BASE_ACCEPT_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/peer_network.h"

#define ACCEPT_SHARE_ROOM (1 << 16)
/* A peer that has its share is looked at so often; between, what it opens is refused unseen. */
#define ACCEPT_SHARE_LOOK_MS 100

struct accept_guest {
    struct peer_network peer; /* no family: nobody */
    uint16_t port;            /* of the peer */
};

/* Zeroed: no limit. */
struct accept_share {
    struct accept_guest *guests; /* owns: by descriptor, of `room` */
    size_t room, end;            /* end: none is at this number or above */
    size_t each;                 /* connections of a peer; 0: any number */
    size_t all;                  /* connections of all peers; 0: no such limit */
    uint64_t look_ms;            /* the next look at who is gone happens after this time */
    /* Is the connection with @peer still there behind @fd? */
    bool (*there)(int fd, const struct accept_guest *guest);
};

/* Sets the limits: up to @each connections of a peer; and, of @all, as many as are free. A single
 * peer gets half of @all, two a third each, N leave one part in N + 1 to all others; one connection
 * is always free for a peer that has none. 0: no such limit. */
void accept_share_set(struct accept_share *s, size_t each, size_t all);
/* Counts the new connection @fd; whatever had that number before is gone. False: @guest has its
 * share already. */
bool accept_share_enter(struct accept_share *s, int fd, const struct accept_guest *guest,
                        uint64_t now_ms);

#endif
