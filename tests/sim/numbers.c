/* SPDX-License-Identifier: Apache-2.0 */
/* The model of the simulator: a gradient that is cheap, depends on everything it should, and whose
 * sums have other bits in any other order; and what sequential training makes of it. */
#include "sim/sim.h"

#include <string.h>

#include "base/rng.h"

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
                      uint32_t batch, uint32_t records, float rows, struct tensor *out)
{
    uint64_t identity = (epoch << 20 | batch) * 64;
    for (uint32_t i = 0; i < elements; i++) {
        float own = params->v[i];
        float other = params->v[(i * 7 + 3) % elements];
        out->v[i] = (float)records * (fraction(identity + i) + 0.25F * own +
                                      0.125F * other * fraction(identity + 32) +
                                      0.0625F * rows * fraction(identity + 33));
    }
}

void numbers_apply(const float *in, float *out, float *slot, const float *gradient, uint32_t n,
                   const struct numbers_update *u)
{
    float rate = u->rate * u->lr_scale;
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
    struct sim_rows_gradient rows;
};

/* What the batches of a step are computed with. */
struct cut {
    const struct ledger *ledger;
    const struct tensor *params;
    const struct sim_values *rows; /* NULL: the job has no tables */
    uint64_t step;
    uint32_t replicas;
};

static void batch_sum(const struct sim_job *j, const struct cut *c, uint32_t replica,
                      struct sum *out)
{
    struct ledger_batch b;
    ledger_sync_batch(c->ledger, c->replicas, c->step, replica, &b);
    const uint32_t batch = b.split * j->split_batches + b.batch;
    out->there = b.count > 0;
    out->records = b.count;
    if (b.count == 0) {
        return;
    }
    numbers_gradient(c->params, j->elements, b.epoch, batch, b.count,
                     c->rows == NULL ? 0 : tables_pull_of(j, c->rows, b.epoch, batch), &out->t);
    if (c->rows != NULL) {
        tables_gradient_of(j, c->rows, c->params->v, b.epoch, batch, b.count, &out->rows);
    }
}

/* A row that one of them has is as it is, without a zero that is added. */
static void add_rows(struct sim_rows_gradient *to, const struct sim_rows_gradient *from)
{
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        for (uint32_t k = 0; k < SIM_KEYS; k++) {
            const bool both = to->of[t][k].sightings > 0 && from->of[t][k].sightings > 0;
            for (uint32_t d = 0; d < SIM_DIM_MAX && both; d++) {
                to->of[t][k].values[d] += from->of[t][k].values[d];
            }
            if (to->of[t][k].sightings == 0) {
                to->of[t][k] = from->of[t][k];
            } else {
                to->of[t][k].sightings += from->of[t][k].sightings;
            }
        }
    }
}

static void sum_node(const struct sim_job *j, const struct cut *c, uint32_t lo, uint32_t hi,
                     struct sum *out)
{
    if (hi - lo == 1) {
        batch_sum(j, c, lo, out);
        return;
    }
    struct sum right;
    uint32_t middle = middle_of(lo, hi);
    sum_node(j, c, lo, middle, out);
    sum_node(j, c, middle, hi, &right);
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
    if (c->rows != NULL) {
        add_rows(&out->rows, &right.rows);
    }
}

static void update_rows(const struct sim_job *j, uint64_t version, const struct sum *sum,
                        const float *factor, const struct sim_rows *from, struct sim_rows *to)
{
    const struct sim_update u = {.examples = sum->records,
                                 .lr_scale = 1,
                                 .scaled = factor != NULL,
                                 .factor = factor == NULL ? 0 : *factor};
    struct sim_gradient_arrays arrays[SIM_TABLE_COUNT];
    struct table_gradient_view views[SIM_TABLE_COUNT] = {{0}};
    for (uint32_t t = 0; t < SIM_TABLE_COUNT && sum->there; t++) {
        views[t] = tables_view(j, t, &sum->rows, &arrays[t]);
    }
    rows_update(j, from, to, version, views, &u);
}

void numbers_step(const struct sim_job *j, uint32_t replicas, uint64_t step, struct tensor *values,
                  struct tensor *slot, const struct sim_rows *from, struct sim_rows *to)
{
    struct ledger ledger = {0};
    struct ledger_shape shape = {j->records, j->batch_records, j->split_batches};
    struct sim_values rows;
    struct sum sum;
    const struct cut cut = {&ledger, values, from == NULL ? NULL : &rows, step, replicas};
    (void)ledger_init(&ledger, &shape, 0, NULL);
    for (uint32_t t = 0; t < SIM_TABLE_COUNT && from != NULL; t++) {
        for (uint32_t k = 0; k < SIM_KEYS; k++) {
            rows_read(j, t, k, &from->of[t][k], step, rows.of[t][k]);
        }
    }
    sum_node(j, &cut, 0, replicas, &sum);
    ledger_release(&ledger);
    uint64_t totals = 0;
    const uint64_t version = step + given_slots_version(j); /* of the shards */
    const uint32_t rounds = era_in(j->eras, j->era_count, version)->rounds;
    for (uint32_t round = 0; round < rounds; round++) {
        totals = numbers_sums(sum.there ? sum.t.v : NULL, NULL, j->elements, round, totals);
    }
    const float factor = numbers_factor(totals);
    const bool scaled = rounds > 0;
    if (from != NULL) {
        update_rows(j, step + 1, &sum, scaled ? &factor : NULL, from, to);
    }
    if (!sum.there) {
        return;
    }
    struct numbers_update u = {.scale = 1.0F / (float)sum.records,
                               .rate = era_in(j->eras, j->era_count, version)->rate,
                               .lr_scale = 1};
    struct tensor next;
    u.scale *= scaled ? factor : 1.0F;
    numbers_apply(values->v, next.v, slot->v, sum.t.v, j->elements, &u);
    *values = next;
}

uint64_t numbers_steps(const struct sim_job *j, uint32_t replicas)
{
    struct ledger ledger = {0};
    struct ledger_shape shape = {j->records, j->batch_records, j->split_batches};
    (void)ledger_init(&ledger, &shape, 0, NULL);
    uint64_t steps = ledger_sync_steps(&ledger, replicas, j->epochs > 0 ? j->epochs : 1000);
    ledger_release(&ledger);
    steps = j->steps > 0 && j->steps < steps ? j->steps : steps;
    return j->stopped > 0 && j->stopped < steps ? j->stopped : steps;
}

void numbers_reference(const struct sim_job *j, uint32_t replicas, uint64_t key,
                       struct tensor *values, struct tensor *slot)
{
    const uint64_t steps = numbers_steps(j, replicas);
    memset(slot, 0, sizeof *slot);
    numbers_initial(key, j->elements, values);
    for (uint64_t t = 0; t < steps; t++) {
        numbers_step(j, replicas, t, values, slot, NULL, NULL);
    }
}
