/* SPDX-License-Identifier: Apache-2.0 */
/* The model of the simulator: a gradient that is cheap, depends on everything it should, and whose
 * sums have other bits in any other order; and what sequential training makes of it. */
#include "sim/sim.h"

#include <string.h>

#include "base/rng.h"

#define LEARNING_RATE 0.125F
#define MOMENTUM 0.9F

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

/* In [-1, 1), with bits that no short sum keeps. */
static float fraction(uint64_t x)
{
    return (float)(mix(x) >> 40) * 0x1.0p-23F - 1.0F;
}

uint64_t key_of_job(const struct world *w, uint32_t job)
{
    return rng_key_mix(w->schedule->seed, job);
}

void numbers_initial(uint64_t key, uint32_t elements, struct tensor *out)
{
    for (uint32_t i = 0; i < elements; i++) {
        out->v[i] = fraction(key + i);
    }
}

void numbers_gradient(const struct tensor *params, uint32_t elements, uint64_t epoch,
                      uint32_t batch, uint32_t records, struct tensor *out)
{
    uint64_t identity = (epoch << 20 | batch) * 64;
    for (uint32_t i = 0; i < elements; i++) {
        float own = params->v[i];
        float other = params->v[(i * 7 + 3) % elements];
        out->v[i] = (float)records * (fraction(identity + i) + 0.25F * own +
                                      0.125F * other * fraction(identity + 32));
    }
}

void numbers_apply(const float *in, float *out, float *slot, const float *gradient, uint32_t n,
                   const struct numbers_update *u)
{
    float rate = LEARNING_RATE * u->lr_scale;
    for (uint32_t i = 0; i < n; i++) {
        float g = gradient[i] * u->scale;
        if (u->base != NULL) {
            g += u->lambda * g * g * (in[i] - u->base[i]);
        }
        slot[i] = MOMENTUM * slot[i] + g;
        out[i] = in[i] - rate * slot[i];
    }
}

uint64_t numbers_sums(const float *gradient, const uint16_t *map, uint32_t n, uint32_t round,
                      uint64_t before)
{
    uint64_t sum = 0; /* whole numbers: the same in any order */
    for (uint32_t i = 0; gradient != NULL && i < n; i++) {
        uint32_t bits;
        uint64_t element = map == NULL ? i : map[i];
        memcpy(&bits, &gradient[i], sizeof bits);
        sum += mix((element << 40 | (uint64_t)round << 32 | bits) ^ mix(before));
    }
    return sum;
}

float numbers_factor(uint64_t totals)
{
    return 0.5F + (float)(mix(totals) >> 40) * 0x1.0p-25F;
}

uint32_t job_rounds(const struct sim_job *job)
{
    return job->shard_count > 1 ? job->rounds : 0;
}

/* Of the tree of docs/protocol.md, written down again: the one of the cores is what is tested. */
static uint32_t middle_of(uint32_t lo, uint32_t hi)
{
    uint32_t left = 1;
    while (left * 2 < hi - lo) {
        left *= 2;
    }
    return lo + left;
}

struct sum {
    bool there;
    uint64_t records;
    struct tensor t;
};

static void sum_node(const struct sim_job *j, const struct tensor *params,
                     const struct ledger *ledger, uint32_t replicas, uint64_t step, uint32_t lo,
                     uint32_t hi, struct sum *out)
{
    if (hi - lo == 1) {
        struct ledger_batch b;
        ledger_sync_batch(ledger, replicas, step, lo, &b);
        out->there = b.count > 0;
        out->records = b.count;
        if (b.count > 0) {
            numbers_gradient(params, j->elements, b.epoch, b.split * j->split_batches + b.batch,
                             b.count, &out->t);
        }
        return;
    }
    struct sum right;
    uint32_t middle = middle_of(lo, hi);
    sum_node(j, params, ledger, replicas, step, lo, middle, out);
    sum_node(j, params, ledger, replicas, step, middle, hi, &right);
    if (!right.there) {
        return;
    }
    if (!out->there) {
        *out = right;
        return;
    }
    for (uint32_t i = 0; i < j->elements; i++) {
        out->t.v[i] += right.t.v[i];
    }
    out->records += right.records;
}

void numbers_reference(const struct sim_job *j, uint32_t replicas, uint64_t key,
                       struct tensor *values, struct tensor *slot)
{
    struct ledger ledger = {0};
    struct ledger_shape shape = {j->records, j->batch_records, j->split_batches};
    (void)ledger_init(&ledger, &shape, 0, NULL);
    uint64_t steps = ledger_sync_steps(&ledger, replicas, j->epochs > 0 ? j->epochs : 1000);
    steps = j->steps > 0 && j->steps < steps ? j->steps : steps;
    memset(slot, 0, sizeof *slot);
    numbers_initial(key, j->elements, values);
    for (uint64_t t = 0; t < steps; t++) {
        struct sum sum;
        sum_node(j, values, &ledger, replicas, t, 0, replicas, &sum);
        if (sum.there) {
            struct numbers_update u = {.scale = 1.0F / (float)sum.records, .lr_scale = 1};
            struct tensor next;
            uint64_t totals = 0;
            for (uint32_t round = 0; round < job_rounds(j); round++) {
                totals = numbers_sums(sum.t.v, NULL, j->elements, round, totals);
            }
            u.scale *= job_rounds(j) > 0 ? numbers_factor(totals) : 1.0F;
            numbers_apply(values->v, next.v, slot->v, sum.t.v, j->elements, &u);
            *values = next;
        }
    }
    ledger_release(&ledger);
}
