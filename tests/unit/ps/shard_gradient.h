/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that are a pure function of (step, replica), and their sums along the tree: what a
 * shard must have applied, bit for bit, whoever sent it. */
#ifndef GRADUS_TESTS_PS_SHARD_GRADIENT_H
#define GRADUS_TESTS_PS_SHARD_GRADIENT_H

#include "shard_rig.h"

#include "job/progress/tree.h"

struct gradient {
    uint64_t examples; /* 0: empty */
    float values[RIG_FLOATS];
};

uint32_t random_below(uint32_t *seed, uint32_t n);
/* Some are empty, all of them at some steps; sums depend on the order. */
struct gradient gradient_of(uint64_t step, uint32_t replica);
bool in_set(const uint8_t *set, uint32_t replica);
/* Over replicas [lo, hi) of @step as far as they are in @set (NULL: all). */
struct gradient gradient_sum(uint64_t step, uint32_t lo, uint32_t hi, const uint8_t *set);
struct shard_event gradient_push(struct rig *r, uintptr_t tag, uint64_t step, uint32_t lo,
                                 uint32_t hi);
/* Version @step + 1 of @r is version @step, updated with @set. */
void check_update(const struct rig *r, uint64_t step, uint32_t replicas, const uint8_t *set);
void open_partial(struct rig *r, uint32_t number, uint32_t replicas, uint32_t aggregate);
void decide(struct rig *r, uintptr_t tag, uint64_t step, const uint8_t *bits, size_t bytes);

#endif
