/* SPDX-License-Identifier: Apache-2.0 */
/* Finds nodes of the reduction tree by walking down from the root; no tree is stored. Also
 * bounds how many partial sums can wait at once, by which servers reserve memory. */
#include "job/progress/tree.h"

#include "base/mutant.h"

uint32_t tree_split(uint32_t lo, uint32_t hi)
{
    uint32_t n = hi - lo;
    uint32_t power = 1;
    while (power < n - power) { /* no doubling that could overflow */
        power *= 2;
    }
    return lo + power - (MUTANT(tree_off_by_one) && power > 1 ? 1 : 0);
}

/* Walk from the root towards @b; true when it is met, with the node above it in @parent. */
static bool find_node(uint32_t replicas, struct tree_block b, struct tree_block *parent)
{
    if (b.lo >= b.hi || b.hi > replicas) {
        return false;
    }
    struct tree_block node = {0, replicas};
    struct tree_block above = {0, 0};
    while (node.lo != b.lo || node.hi != b.hi) {
        if (node.hi - node.lo < 2) {
            return false;
        }
        uint32_t middle = tree_split(node.lo, node.hi);
        above = node;
        if (b.hi <= middle) {
            node.hi = middle;
        } else if (b.lo >= middle) {
            node.lo = middle;
        } else {
            return false;
        }
    }
    *parent = above;
    return true;
}

bool tree_is_node(uint32_t replicas, struct tree_block b)
{
    struct tree_block parent;
    return find_node(replicas, b, &parent);
}

bool tree_parent(uint32_t replicas, struct tree_block b, struct tree_block *parent)
{
    struct tree_block above;
    if (!find_node(replicas, b, &above) || above.hi == 0) {
        return false;
    }
    *parent = above;
    return true;
}

size_t tree_cover(uint32_t replicas, uint32_t lo, uint32_t hi,
                  struct tree_block out[TREE_BLOCKS_MAX])
{
    if (lo >= hi || hi > replicas) {
        return 0;
    }
    /* Nodes still to be looked at, the leftmost on top. A left child is a perfect tree, so a path
     * has at most 32 nodes below the root, each leaving one sibling here or (twice, once for each
     * end) in @out. */
    struct tree_block stack[TREE_BLOCKS_MAX] = {{0, replicas}};
    size_t depth = 1;
    size_t count = 0;
    while (depth > 0) {
        struct tree_block node = stack[--depth];
        if (node.hi <= lo || node.lo >= hi) {
            continue;
        }
        if (node.lo >= lo && node.hi <= hi) {
            out[count++] = node;
            continue;
        }
        uint32_t middle = tree_split(node.lo, node.hi);
        stack[depth++] = (struct tree_block){middle, node.hi};
        stack[depth++] = (struct tree_block){node.lo, middle};
    }
    return count;
}

uint32_t tree_cover_max(uint32_t replicas)
{
    uint32_t levels = 0;
    while (levels < 32 && replicas > (uint64_t)1 << levels) {
        levels++;
    }
    return levels == 0 ? 1 : 2 * levels; /* one at either end of each level */
}

/* As long as the root is not complete, one of its halves is incomplete, too. A left half is a
 * perfect tree, of which every second leaf can wait. */
uint32_t tree_waiting_max(uint32_t replicas)
{
    if (replicas < 2) {
        return 0;
    }
    uint32_t left = tree_split(0, replicas);
    uint32_t left_waiting = left / 2;
    uint32_t right_waiting = tree_waiting_max(replicas - left);
    uint32_t left_any = left_waiting > 0 ? left_waiting : 1;
    uint32_t right_any = right_waiting > 0 ? right_waiting : 1;
    return left_waiting + right_any > left_any + right_waiting ? left_waiting + right_any
                                                               : left_any + right_waiting;
}

struct tree_block tree_share(uint32_t replicas, uint32_t workers, uint32_t index)
{
    if (index >= workers) {
        return (struct tree_block){replicas, replicas};
    }
    uint32_t each = replicas / workers;
    uint32_t longer = replicas % workers; /* the first so many workers take one more */
    uint32_t lo = index * each + (index < longer ? index : longer);
    return (struct tree_block){lo, lo + each + (index < longer ? 1 : 0)};
}
