/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of the tests of a shard's core, and what becomes of them. */
#include "shard_gradient.h"

uint32_t random_below(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525U + 1013904223U;
    return (*seed >> 8) % n;
}

/* Some are empty, all of them at some steps; sums depend on the order. */
struct gradient gradient_of(uint64_t step, uint32_t replica)
{
    struct gradient g = {.examples = (step * 7 + replica * 5) % 6};
    g.examples = step % 11 == 10 ? 0 : g.examples;
    for (size_t i = 0; g.examples > 0 && i < RIG_FLOATS; i++) {
        g.values[i] = 0.1F + (float)(i + 1) / (float)(3 + step * 13 + replica * 7);
    }
    return g;
}

bool in_set(const uint8_t *set, uint32_t replica)
{
    return set == NULL || (set[replica / 8] >> (replica % 8) & 1) != 0;
}

/* Over replicas [lo, hi) of @step as far as they are in @set (NULL: all). */
struct gradient gradient_sum(uint64_t step, uint32_t lo, uint32_t hi, const uint8_t *set)
{
    if (hi - lo == 1) {
        return in_set(set, lo) ? gradient_of(step, lo) : (struct gradient){0};
    }
    uint32_t middle = tree_split(lo, hi);
    struct gradient left = gradient_sum(step, lo, middle, set);
    struct gradient right = gradient_sum(step, middle, hi, set);
    if (left.examples == 0 || right.examples == 0) {
        return left.examples == 0 ? right : left;
    }
    for (size_t i = 0; i < RIG_FLOATS; i++) {
        left.values[i] += right.values[i];
    }
    left.examples += right.examples;
    return left;
}

struct shard_event gradient_push(struct rig *r, uintptr_t tag, uint64_t step, uint32_t lo,
                                 uint32_t hi)
{
    struct gradient g = gradient_sum(step, lo, hi, NULL);
    struct shard_event e = rig_sync(r, tag, step, lo, hi, 1, g.examples);
    if (e.gradient != NULL) {
        memcpy(e.gradient, g.values, sizeof g.values);
    }
    return e;
}

/* Version @step + 1 of @r is version @step, updated with @set. */
void check_update(const struct rig *r, uint64_t step, uint32_t replicas, const uint8_t *set)
{
    struct gradient g = gradient_sum(step, 0, replicas, set);
    float scale = g.examples == 0 ? 0 : 1.0F / (float)g.examples;
    for (size_t i = 0; i < RIG_FLOATS; i++) {
        float change = g.examples == 0 ? 0 : g.values[i] * scale;
        float want = r->values[step][i] - change;
        assert_memory_equal(&r->values[step + 1][i], &want, sizeof want);
    }
}

/* ---- partial sync ---- */

void open_partial(struct rig *r, uint32_t number, uint32_t replicas, uint32_t aggregate)
{
    struct consistency c = rig_consistency(TRAINING_SYNC, replicas);
    c.aggregate = aggregate;
    rig_open(r, number, &c);
}

void decide(struct rig *r, uintptr_t tag, uint64_t step, const uint8_t *bits, size_t bytes)
{
    struct shard_event e = rig_exchange(r, tag, "w0");
    e.ask.has_decision = true;
    e.ask.decision.step = step;
    e.ask.decision.replicas = bits;
    e.ask.decision.bytes = bytes;
    rig_step(r, &e);
}
