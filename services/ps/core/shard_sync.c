/* SPDX-License-Identifier: Apache-2.0 */
/* Sync: one update per step, the sum over the fixed tree of replicas.
 *
 * The sum of a node of the tree has the same bits whichever worker computed it from whatever parts,
 * so a node may come from any worker, in any shape, as often as it likes. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
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

/* True if @b is part of a sum that is in: looks from the root down, because sums are nodes of the
 * tree. */
static bool is_covered(const struct shard *s, struct tree_block b)
{
    struct tree_block node = {0, s->replicas};
    while (s->nodes[node.lo].sum_end != node.hi) {
        if (node.lo == b.lo && node.hi == b.hi) {
            return false;
        }
        uint32_t middle = tree_split(node.lo, node.hi);
        if (b.hi <= middle) {
            node.hi = middle;
        } else {
            node.lo = middle;
        }
    }
    return true;
}

void shard_sync_combine(struct shard *s, uint32_t to, uint32_t from, bool last,
                        struct shard_actions *out)
{
    struct shard_node *left = &s->nodes[to];
    struct shard_node *right = &s->nodes[from];
    if (left->buffer == NULL) {
        left->buffer = right->buffer;
    } else if (right->buffer != NULL && last && shard_rounds(s, s->version) == 0) {
        s->addend = right->buffer;
    } else if (right->buffer != NULL) {
        struct shard_action *a = shard_act(out, SHARD_ADD);
        a->buffer = left->buffer;
        a->source = right->buffer;
        shard_release_buffer(out, right->buffer);
    }
    left->examples += right->examples;
    left->pushes += right->pushes;
    left->sum_end = right->sum_end;
    *right = (struct shard_node){.in = right->in};
}

/* Adds @b to its sibling as soon as both are in, and so on up the tree. @can_apply: the sum of the
 * whole step is applied as soon as it is complete. */
static void rise(struct shard *s, struct tree_block b, bool can_apply, struct shard_actions *out)
{
    struct tree_block parent;
    while (tree_parent(s->replicas, b, &parent)) {
        uint32_t middle = b.lo == parent.lo ? b.hi : b.lo;
        const struct shard_node *left = &s->nodes[parent.lo];
        const struct shard_node *right = &s->nodes[middle];
        bool whole = left->sum_end == middle && right->sum_end == parent.hi;
        bool part = left->sum_end == middle && right->sum_end > middle;
        if (!whole && !(part && MUTANT(sync_as_they_come))) {
            return;
        }
        bool last = whole && can_apply && parent.hi - parent.lo == s->replicas;
        shard_sync_combine(s, parent.lo, middle, last, out);
        b = parent;
    }
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
    if (p->step == s->version) {
        shard_spare_came(s, p, e->now_ms);
    }
    if ((p->step < s->version && !MUTANT(sync_old_step)) ||
        (is_covered(s, b) && !MUTANT(sync_push_again))) {
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
    rise(s, b, e->can_apply, out);
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
    if (consistency_is_partial(&s->consistency)) {
        shard_decide_push(s, e, request, out);
    } else {
        push_node(s, e, request, out);
    }
    return 0;
}

bool shard_sync_ready(const struct shard *s)
{
    if (consistency_is_partial(&s->consistency)) {
        return shard_decide_ready(s);
    }
    uint32_t needed = s->replicas - (MUTANT(sync_without_last) && s->replicas > 1 ? 1 : 0);
    return s->replicas > 0 && s->nodes[0].sum_end >= needed;
}

static void begin_step(struct shard *s, uint64_t now_ms)
{
    for (uint32_t r = 0; r < s->replicas; r++) {
        s->nodes[r] = (struct shard_node){0};
    }
    shard_decide_begin(s);
    shard_spare_begin(s, now_ms);
}

static void apply(struct shard *s, uint64_t now_ms, struct shard_actions *out)
{
    const struct shard_node *root = &s->nodes[0];
    struct shard_action *a = shard_act(out, SHARD_APPLY);
    a->buffer = root->buffer;
    a->source = s->addend;
    a->examples = root->examples;
    a->era = shard_era(s, MUTANT(era_of_next) ? s->version + 1 : s->version);
    a->version = ++s->version;
    a->lr_scale = 1;
    shard_release_buffer(out, s->addend);
    shard_release_buffer(out, root->buffer);
    s->addend = NULL;
    s->examples += root->examples;
    s->pushes_applied += root->pushes;
    shard_spare_end(s);
    shard_sums_applied(s);
    begin_step(s, now_ms);
}

void shard_sync_go_on(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (!e->can_apply || !shard_sync_ready(s)) {
        return;
    }
    if (consistency_is_partial(&s->consistency) && !s->sums.begun) {
        shard_decide_sum(s, out);
    }
    if (shard_sums_go_on(s, out)) {
        apply(s, e->now_ms, out);
    }
}

void shard_sync_forget(struct shard *s, uint64_t now_ms, struct shard_actions *out)
{
    shard_sums_forget(s, out); /* the sums that were begun read the sum that is released now */
    for (uint32_t r = 0; r < s->replicas; r++) {
        shard_release_buffer(out, s->nodes[r].buffer);
    }
    begin_step(s, now_ms);
}

void shard_sync_resize(struct shard *s)
{
    s->replicas = s->consistency.mode == TRAINING_SYNC ? s->consistency.replicas : 0;
    s->nodes = mem_resize(s->nodes, s->replicas, sizeof *s->nodes);
    for (uint32_t r = 0; r < s->replicas; r++) {
        s->nodes[r] = (struct shard_node){0};
    }
    shard_spare_resize(s);
    shard_decide_begin(s);
}
