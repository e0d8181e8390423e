/* SPDX-License-Identifier: Apache-2.0 */
/* Channels to nodes, one for each address. */
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "master/shell/shell.h"

#define PEERS_MAX 2048 /* twice the nodes: some were replaced */

struct peer { /* a channel to a node */
    struct peer *next;
    char *address;
    struct rpc_channel *channel;
    uint64_t used_ms;
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
        struct peer *gone = *oldest;
        *oldest = gone->next;
        name_index_remove(&s->peer_index, gone->address);
        peer_free(gone);
    }
}

struct rpc_channel *peer_channel(struct shell *s, const char *address, struct err *err)
{
    struct peer *known = name_index_find(&s->peer_index, address);
    if (known != NULL) {
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
    *p = (struct peer){s->peers, mem_strdup(address), channel, chrono_now_ms()};
    s->peers = p;
    name_index_put(&s->peer_index, p->address, p);
    return channel;
}
