/* SPDX-License-Identifier: Apache-2.0 */
/* Every question walks over the descriptors in use: a handshake costs more than a few thousand
 * comparisons. */
#include "base/accept_share.h"

#include "base/mem.h"

void accept_share_set(struct accept_share *s, size_t each, size_t all)
{
    if (s->guests == NULL && (each > 0 || all > 0)) {
        s->room = ACCEPT_SHARE_ROOM; /* untouched pages take no memory */
        s->guests = mem_new(s->room, sizeof *s->guests);
    }
    s->each = each;
    s->all = all;
}

static bool has_share(const struct accept_share *s, const struct peer_network *peer)
{
    size_t own = 0, counted = 0;
    for (size_t fd = 0; fd < s->end; fd++) {
        const struct peer_network *one = &s->guests[fd].peer;
        counted += one->family != 0 ? 1 : 0;
        own += peer_network_same(one, peer) ? 1 : 0;
    }
    return (s->each > 0 && own >= s->each) || (s->all > 0 && own > 0 && own + counted >= s->all);
}

static void forget_gone(struct accept_share *s)
{
    for (size_t fd = 0; fd < s->end; fd++) {
        struct accept_guest *g = &s->guests[fd];
        if (g->peer.family != 0 && !s->there((int)fd, g)) {
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
    if (guest->peer.family == 0) {
        return true;
    }
    if (has_share(s, &guest->peer)) {
        if (now_ms < s->look_ms) {
            return false;
        }
        s->look_ms = now_ms + ACCEPT_SHARE_LOOK_MS;
        forget_gone(s);
        if (has_share(s, &guest->peer)) {
            return false;
        }
    }
    s->guests[fd] = *guest;
    s->end = (size_t)fd >= s->end ? (size_t)fd + 1 : s->end;
    return true;
}
