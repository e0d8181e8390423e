/* SPDX-License-Identifier: Apache-2.0 */
/* Every question walks over the descriptors in use: a handshake costs more than a few thousand
 * comparisons. */
#include "base/accept_share.h"

#include "base/mem.h"

void accept_share_set(struct accept_share *s, size_t each)
{
    if (s->guests == NULL && each > 0) {
        s->room = ACCEPT_SHARE_ROOM; /* untouched pages take no memory */
        s->guests = mem_new(s->room, sizeof *s->guests);
    }
    s->each = each;
}

static size_t count_of(const struct accept_share *s, const struct peer_network *peer)
{
    size_t n = 0;
    for (size_t fd = 0; fd < s->end; fd++) {
        n += peer_network_same(&s->guests[fd].peer, peer) ? 1 : 0;
    }
    return n;
}

static void forget_gone(struct accept_share *s, const struct peer_network *peer)
{
    for (size_t fd = 0; fd < s->end; fd++) {
        struct accept_guest *g = &s->guests[fd];
        if (peer_network_same(&g->peer, peer) && !s->there((int)fd, g)) {
            *g = (struct accept_guest){0};
        }
    }
}

bool accept_share_enter(struct accept_share *s, int fd, const struct accept_guest *guest,
                        uint64_t now_ms)
{
    if (fd < 0 || (size_t)fd >= s->room) {
        return true;
    }
    s->guests[fd] = (struct accept_guest){0};
    if (s->each == 0 || guest->peer.family == 0) {
        return true;
    }
    if (count_of(s, &guest->peer) >= s->each) {
        if (now_ms < s->look_ms) {
            return false;
        }
        s->look_ms = now_ms + ACCEPT_SHARE_LOOK_MS;
        forget_gone(s, &guest->peer);
        if (count_of(s, &guest->peer) >= s->each) {
            return false;
        }
    }
    s->guests[fd] = *guest;
    s->end = (size_t)fd >= s->end ? (size_t)fd + 1 : s->end;
    return true;
}
