/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction tree of a step: which sums are in, and how two become one. */
#include "base/mutant.h"
#include "ps/core/shard_internal.h"

/* True if @b is part of a sum that is in: looks from the root down, because sums are nodes of the
 * tree. */
bool shard_tree_covers(const struct shard *s, struct tree_block b)
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

void shard_tree_combine(struct shard *s, uint32_t to, uint32_t from, bool last,
                        struct shard_actions *out)
{
    struct shard_node *left = &s->nodes[to];
    struct shard_node *right = &s->nodes[from];
    if (left->buffer == NULL) {
        left->buffer = right->buffer;
    } else if (right->buffer != NULL && last && shard_rounds(s, s->version) == 0 &&
               (!shard_has_backup(s) || MUTANT(last_sum_not_said))) {
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
void shard_tree_rise(struct shard *s, struct tree_block b, bool can_apply,
                     struct shard_actions *out)
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
        shard_tree_combine(s, parent.lo, middle, last, out);
        b = parent;
    }
}
