/* SPDX-License-Identifier: Apache-2.0 */
/* When a channel is to lead to another of its targets: a target that does not serve names the one
 * that does; one that is gone, or late again and again, is left for the next one. */
#include <stdlib.h>
#include <string.h>

#include "os/chrono.h"
#include "rpc/rpc_client.h"
#include "rpc/rpc_status.h"

/* Locked. False: @leader is no address (RPC_LEADER_NONE), or none to which our token may go. */
static bool choose(struct rpc_channel *c, grpc_slice leader)
{
    char *name = rpc_slice_to_str(grpc_slice_ref(leader));
    const bool may = rpc_credentials_check(c->options.credentials, name, NULL) == 0;
    const bool chosen = may && rpc_targets_choose(&c->targets, name, strlen(name));
    free(name);
    return chosen;
}

void rpc_outgoing_answered(struct rpc_outgoing *o)
{
    if (o->channel->late_ms != 0 && o->target == o->channel->target) {
        o->channel->late_ms = 0;
    }
}

/* Locked; not answered in time. Once says little of a target that is connected; another call that
 * was begun after it does. */
static bool is_late_again(struct rpc_outgoing *o)
{
    struct rpc_channel *c = o->channel;
    const uint64_t before_ms = c->late_ms;
    if (before_ms == 0) {
        c->late_ms = chrono_now_ms();
    }
    return before_ms != 0 && o->start_ms >= before_ms;
}

/* A channel that has decided already does not do so again for a call that went to the target of
 * before. */
bool rpc_outgoing_moves(struct rpc_outgoing *o, int code, const struct rpc_status *s)
{
    struct rpc_channel *c = o->channel;
    const grpc_metadata *leader = rpc_header_find(&o->trailing, RPC_LEADER_KEY);
    pthread_mutex_lock(&c->lock);
    const bool here = o->target == c->target;
    const bool patient = here && code == ERR_TIMEOUT && s->connected && !s->answered;
    const bool silent = !s->answered && !(patient && !is_late_again(o));
    if ((leader || silent) && here && !c->elsewhere) {
        c->elsewhere = (leader && choose(c, leader->value)) || rpc_targets_next(&c->targets);
    }
    const bool moved = c->elsewhere || (!here && (leader || silent));
    pthread_mutex_unlock(&c->lock);
    return moved;
}
