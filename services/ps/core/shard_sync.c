/* SPDX-License-Identifier: Apache-2.0 */
/* Sync: one update per step, the sum over the fixed tree of replicas.
 *
 * The sum of a node of the tree has the same bits whichever worker computed it from whatever parts,
 * so a node may come from any worker, in any shape, as often as it likes. */
#include <inttypes.h>

#include "base/mutant.h"
#include "ps/core/shard_internal.h"

static int check_identity(const struct shard *s, const struct exchange_push *p, struct err *err)
{
    struct tree_block b = {p->replica_first, p->replica_end};
    if (b.lo >= b.hi || b.hi > s->replicas || !tree_is_node(s->replicas, b)) {
        return err_set(err, ERR_INVALID,
                       "replicas %" PRIu32 "..%" PRIu32
                       " are not a node of the reduction tree of %" PRIu32 " replicas",
                       b.lo, b.hi, s->replicas);
    }
    if (b.hi - b.lo > 1 && consistency_is_partial(&s->consistency)) {
        return err_set(
            err, ERR_INVALID,
            "replicas %" PRIu32 "..%" PRIu32
            " in one push, but a step may be complete with some of them: push each alone",
            b.lo, b.hi);
    }
    if (p->step > s->version) {
        return err_set(err, ERR_RANGE,
                       "a push of step %" PRIu64 ", but the shard is at step %" PRIu64, p->step,
                       s->version);
    }
    return 0;
}

/* The sums inside of @p give way to it: parts of a node that is here as a whole now. */
static void replace(struct shard *s, const struct exchange_push *p, struct shard_actions *out)
{
    for (uint32_t r = p->replica_first; r < p->replica_end; r++) {
        s->pushes_duplicate += s->nodes[r].pushes;
        shard_release_buffer(out, s->nodes[r].buffer);
        s->nodes[r] = (struct shard_node){.in = true};
    }
}

/* A push that may be any part of the step. */
static void push_node(struct shard *s, const struct shard_event *e, struct shard_parked *request,
                      struct shard_actions *out)
{
    const struct exchange_push *p = &e->ask.push;
    struct tree_block b = {p->replica_first, p->replica_end};
    if ((p->step < s->version && !MUTANT(sync_old_step)) ||
        (shard_tree_covers(s, b) && !MUTANT(sync_push_again))) {
        shard_release_buffer(out, e->gradient);
        request->train.push = PUSH_DUPLICATE;
        return;
    }
    void *buffer = e->gradient;
    if (p->examples == 0) {
        shard_release_buffer(out, buffer);
        buffer = NULL;
    }
    replace(s, p, out);
    struct shard_node *node = &s->nodes[b.lo];
    node->sum_end = b.hi;
    node->pushes = 1;
    node->buffer = buffer;
    node->examples = p->examples;
    shard_tree_rise(s, b, e->can_apply, out);
    request->train.push = PUSH_ACCEPTED;
    shard_sync_go_on(s, e, out);
    if (s->version > p->step) {
        request->train.push = PUSH_APPLIED;
    }
}

int shard_push_sync(struct shard *s, const struct shard_event *e, struct shard_parked *request,
                    struct shard_actions *out)
{
    int rc = check_identity(s, &e->ask.push, &out->err);
    rc = rc != 0 ? rc : shard_check_push(s, e, &out->err);
    if (rc != 0) {
        return rc;
    }
    if (e->ask.push.step == s->version) {
        shard_spare_came(s, &e->ask.push, e->now_ms);
    }
    if (consistency_is_partial(&s->consistency)) {
        if (shard_decide_push(s, e, request, out)) {
            shard_sync_go_on(s, e, out);
        }
    } else {
        push_node(s, e, request, out);
    }
    return 0;
}
