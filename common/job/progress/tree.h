/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed reduction tree over replicas 0..R-1: a node [lo, hi) with more than one replica splits
 * at lo + the largest power of two below hi-lo. The sum of a step is always taken along this tree,
 * whoever sends which part and in whatever order, so the bits never depend on that. */
#ifndef GRADUS_JOB_PROGRESS_TREE_H
#define GRADUS_JOB_PROGRESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_BLOCKS_MAX 64

struct tree_block {
    uint32_t lo, hi; /* replicas lo..hi-1 */
};

uint32_t tree_split(uint32_t lo, uint32_t hi); /* hi - lo ≥ 2 */
bool tree_is_node(uint32_t replicas, struct tree_block b);
/* The parent of @b in the tree of @replicas; false for the root. */
bool tree_parent(uint32_t replicas, struct tree_block b, struct tree_block *parent);
/* The largest nodes that cover lo..hi-1 exactly, left to right; returns their number. */
size_t tree_cover(uint32_t replicas, uint32_t lo, uint32_t hi,
                  struct tree_block out[TREE_BLOCKS_MAX]);
uint32_t tree_cover_max(uint32_t replicas); /* of any run of them */
/* The most sums that can wait for a sibling at once, in whatever order the replicas come. */
uint32_t tree_waiting_max(uint32_t replicas);
/* Replicas of worker @index of @workers: contiguous runs, as equal as possible. */
struct tree_block tree_share(uint32_t replicas, uint32_t workers, uint32_t index);

#endif
