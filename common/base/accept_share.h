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
    size_t all;                  /* a peer has no more than are free of these; 0: it may */
    uint64_t look_ms;            /* not before it again */
    /* Is the connection with @peer still there behind @fd? */
    bool (*there)(int fd, const struct accept_guest *guest);
};

/* From now on up to @each connections of a peer; or, of @all, as many as are free: one peer has
 * half of them then, two have a third each, and N leave one part in N + 1 to all others. One
 * connection is always free for who has none. 0: that limit is none. */
void accept_share_set(struct accept_share *s, size_t each, size_t all);
/* @fd is a new connection; whoever had the number before is gone. False: @guest has its share. */
bool accept_share_enter(struct accept_share *s, int fd, const struct accept_guest *guest,
                        uint64_t now_ms);

#endif
