/* SPDX-License-Identifier: Apache-2.0 */
/* Channels to nodes, one for each address. A process that was replaced may have the address of the
 * one before it, and its host name another number: an attempt to connect to the old one may hang
 * for seconds, so the new process gets a new channel, which resolves the name anew. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/shell.h"
#include "os/chrono.h"

#define PEERS_MAX 2048 /* twice the nodes: some were replaced */

struct peer { /* a channel to a node */
    struct peer *next;
    char *address;
    uint64_t incarnation; /* of the process that it was made for; 0: nobody has said */
    struct rpc_channel *channel;
    uint64_t used_ms;
    bool connected; /* when it was looked at last */
};

static void peer_free(struct peer *p)
{
    rpc_channel_free(p->channel);
    free(p->address);
    free(p);
}

void peers_free(struct shell *s)
{
    name_index_release(&s->peer_index);
    while (s->peers != NULL) {
        struct peer *p = s->peers;
        s->peers = p->next;
        peer_free(p);
    }
}

static void peer_close(struct shell *s, struct peer **at)
{
    struct peer *gone = *at;
    *at = gone->next;
    name_index_remove(&s->peer_index, gone->address);
    peer_free(gone);
}

/* Closes the channel that was used longest ago: nodes come and go, each perhaps with a new port. */
static void peers_trim(struct shell *s)
{
    size_t count = 0;
    struct peer **oldest = &s->peers;
    for (struct peer **p = &s->peers; *p != NULL; p = &(*p)->next) {
        count++;
        oldest = (*p)->used_ms < (*oldest)->used_ms ? p : oldest;
    }
    if (count >= PEERS_MAX) {
        peer_close(s, oldest);
    }
}

/* Is @p a channel to another process than @incarnation? */
static bool was_replaced(const struct peer *p, uint64_t incarnation)
{
    return incarnation != 0 && p->incarnation != 0 && p->incarnation != incarnation;
}

/* What calls still wait for an answer of is gone. */
static void peer_replace(struct shell *s, const struct peer *known)
{
    struct peer **p = &s->peers;
    while (*p != known) {
        p = &(*p)->next;
    }
    peer_close(s, p);
}

struct rpc_channel *peer_channel(struct shell *s, const char *address, uint64_t incarnation,
                                 struct err *err)
{
    struct peer *known = name_index_find(&s->peer_index, address);
    if (known != NULL && was_replaced(known, incarnation)) {
        peer_replace(s, known);
        known = NULL;
    }
    if (known != NULL) {
        known->incarnation = incarnation != 0 ? incarnation : known->incarnation;
        known->used_ms = chrono_now_ms();
        return known->channel;
    }
    peers_trim(s);
    struct rpc_channel_options options = {
        .target = address, .loop = s->rpc_loop, .credentials = s->credentials};
    struct rpc_channel *channel = rpc_channel_new(&options, err);
    if (channel == NULL) {
        return NULL;
    }
    struct peer *p = mem_new(1, sizeof *p);
    *p = (struct peer){s->peers, mem_strdup(address), incarnation, channel, chrono_now_ms(), false};
    s->peers = p;
    name_index_put(&s->peer_index, p->address, p);
    return channel;
}

bool peer_has_broken(struct shell *s, const char *address, uint64_t incarnation)
{
    struct peer *p = name_index_find(&s->peer_index, address);
    if (p == NULL || p->incarnation != incarnation) {
        return false;
    }
    const bool before = p->connected;
    p->connected = rpc_channel_is_connected(p->channel);
    return before && !p->connected;
}
