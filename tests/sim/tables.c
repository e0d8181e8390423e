/* SPDX-License-Identifier: Apache-2.0 */
/* The sparse tables of a job: drawn from the seed, as are the rows of each batch. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define EPOCH_BATCHES 64

uint64_t sim_keys[SIM_KEYS];
static struct sim_batch_rows batches[SIM_EPOCHS_MAX][EPOCH_BATCHES][SIM_TABLE_COUNT];

/* ---- keys ---- */

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* As many in each of some buckets, which are spread over all shards. */
static void make_keys(void)
{
    const uint32_t apart = TABLE_BUCKETS / SIM_BUCKETS;
    uint32_t of[SIM_BUCKETS] = {0};
    size_t n = 0;
    for (uint64_t i = 0; n < SIM_KEYS; i++) {
        const uint64_t key = rng_u64(31, i);
        const uint32_t bucket = table_bucket_of(key);
        if (bucket % apart == 7 && bucket / apart < SIM_BUCKETS &&
            of[bucket / apart] < SIM_BUCKET_KEYS) {
            of[bucket / apart]++;
            sim_keys[n++] = key;
        }
    }
    qsort(sim_keys, SIM_KEYS, sizeof sim_keys[0], compare_keys);
}

uint32_t tables_key_number(uint64_t key)
{
    uint32_t i = 0;
    while (i < SIM_KEYS && sim_keys[i] != key) {
        i++;
    }
    return i;
}

uint32_t tables_bucket(uint32_t key)
{
    return table_bucket_of(sim_keys[key]) / (TABLE_BUCKETS / SIM_BUCKETS);
}

/* ---- batches ---- */

static uint64_t identity_of(uint64_t epoch, uint32_t batch, uint32_t table)
{
    return rng_key_mix(rng_key_mix(epoch + 1, batch + 1), table + 1);
}

/* A few keys are in most batches, the others come now and then. */
static uint32_t draw_key(uint64_t identity, uint32_t i)
{
    const bool often = rng_below(identity, i * 3, 5) < 3;
    return (uint32_t)rng_below(identity, i * 3 + 1, often ? SIM_KEYS / 6 : SIM_KEYS) *
           (often ? 5 : 1) % SIM_KEYS;
}

static void make_batch(uint64_t epoch, uint32_t batch, uint32_t table, struct sim_batch_rows *out)
{
    const uint64_t identity = identity_of(epoch, batch, table);
    uint8_t sightings[SIM_KEYS] = {0};
    const uint32_t wanted = (uint32_t)rng_below(identity, 999, SIM_BATCH_KEYS + 1);
    for (uint32_t i = 0; i < wanted; i++) {
        sightings[draw_key(identity, i)] += (uint8_t)(1 + rng_below(identity, i * 3 + 2, 2));
    }
    out->n = 0;
    for (uint32_t k = 0; k < SIM_KEYS; k++) {
        if (sightings[k] > 0) {
            out->key[out->n] = (uint8_t)k;
            out->sightings[out->n++] = sightings[k];
        }
    }
}

static void make_batches(void)
{
    for (uint32_t e = 0; e < SIM_EPOCHS_MAX; e++) {
        for (uint32_t b = 0; b < EPOCH_BATCHES; b++) {
            for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
                make_batch(e, b, t, &batches[e][b][t]);
            }
        }
    }
}

const struct sim_batch_rows *tables_batch(uint64_t epoch, uint32_t batch, uint32_t table)
{
    return &batches[epoch][batch][table];
}

/* ---- plans ---- */

static struct table_admission_spec draw_admission(uint64_t key)
{
    const enum table_admission_kind kind = (enum table_admission_kind)rng_below(key, 10, 4);
    return (struct table_admission_spec){
        .kind = kind,
        .sightings = 1 + (uint32_t)rng_below(key, 11, 6),
        .bytes = kind == TABLE_ADMIT_BLOOM ? (1 + rng_below(key, 12, 2)) << 16 : 1 << 16,
        .probability = 0.25 + 0.25 * (double)rng_below(key, 13, 3),
    };
}

static struct table_eviction_spec draw_eviction(uint64_t key)
{
    struct table_eviction_spec e = {.every = rng_below(key, 20, 3)};
    if (rng_below(key, 21, 2) == 0) {
        e.unseen = 2 + rng_below(key, 22, 12);
    }
    if (rng_below(key, 23, 3) > 0) {
        e.rows_max = TABLE_BUCKETS * (1 + rng_below(key, 24, SIM_BUCKET_KEYS - 1));
        e.least = (enum table_least)rng_below(key, 25, 2);
    }
    return e;
}

/* All kinds: with and without slots, those that catch up, one slot for a row. */
static const struct rule *draw_rule(uint64_t key)
{
    static const char *const RULES[] = {"momentum", "adagrad", "adam", "rowwise_adagrad", "sgd"};
    return rule_find(RULES[rng_below(key, 1, sizeof RULES / sizeof *RULES)]);
}

void tables_plan(struct world *w, uint32_t job)
{
    static const char *const NAMES[SIM_TABLE_COUNT] = {"plain", "rich"};
    struct sim_job *j = &w->jobs[job];
    const uint64_t key = rng_key_mix(rng_key(w->schedule->seed, "tables of a job"), job);
    if (sim_keys[SIM_KEYS - 1] == 0) {
        make_keys();
        make_batches();
    }
    for (uint32_t i = 0; i < SIM_TABLE_COUNT; i++) {
        struct sim_table_plan *p = &j->table_plans[i];
        const struct rule *rule = draw_rule(key);
        const bool rich = i > 0;
        if (rule->params_bytes > sizeof p->params || rule->slot_count > SIM_SLOTS_MAX) {
            violated(w, INVARIANT_ORDER, "rule %s is too large", rule->name);
        }
        field_defaults(rule->fields, rule->field_count, p->params);
        p->past = (struct rule_past){.params = p->params, .lr_scale = 1};
        p->tight = rich && rng_below(key, 2, 5) == 0;
        p->config = (struct table_config){
            .name = NAMES[i],
            .seed = w->schedule->seed,
            .dim = 1 + i,
            .init = {.kind = INIT_UNIFORM, .a = -0.5, .b = 0.5},
            .rule = rule,
            .past = rule->catch_up != NULL && rng_below(key, 3, 2) == 0 ? &p->past : NULL,
            .bytes_max = (uint64_t)1 << 20,
            .copies_bytes_max = p->tight ? 288 << 10 : (uint64_t)1 << 20,
            .keeps_previous = true,
            .notes_evicted = rng_below(key, 4, 4) > 0,
        };
        if (rich) {
            p->config.admission = draw_admission(key);
            p->config.eviction = draw_eviction(key);
        }
        const uint64_t of_table = rng_key(p->config.seed, p->config.name);
        for (uint32_t k = 0; k < SIM_KEYS; k++) {
            init_fill(&p->config.init, rng_key_mix(of_table, sim_keys[k]), "", 0, p->config.dim,
                      p->first[k]);
        }
    }
}

void tables_config(const struct sim_job *j, uint32_t table, uint32_t shard, uint32_t shards,
                   struct table_config *out)
{
    *out = j->table_plans[table].config;
    out->shard = shard;
    out->shards = shards;
}

/* ---- gradients ---- */

static float fraction(uint64_t x)
{
    return (float)(rng_key_mix(x, 5) >> 40) * 0x1.0p-23F - 1.0F;
}

float tables_pull_of(const struct sim_job *j, const struct sim_values *rows, uint64_t epoch,
                     uint32_t batch)
{
    float sum = 0;
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const struct sim_batch_rows *b = tables_batch(epoch, batch, t);
        for (uint32_t i = 0; i < b->n; i++) {
            for (size_t d = 0; d < j->table_plans[t].config.dim; d++) {
                sum += rows->of[t][b->key[i]][d];
            }
        }
    }
    return sum;
}

void tables_gradient_of(const struct sim_job *j, const struct sim_values *rows, const float *params,
                        uint64_t epoch, uint32_t batch, uint32_t records,
                        struct sim_rows_gradient *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const uint64_t identity = identity_of(epoch, batch, t);
        const struct sim_batch_rows *b = tables_batch(epoch, batch, t);
        for (uint32_t i = 0; i < b->n; i++) {
            const uint32_t k = b->key[i];
            out->of[t][k].sightings = b->sightings[i];
            for (size_t d = 0; d < j->table_plans[t].config.dim; d++) {
                out->of[t][k].values[d] =
                    (float)records * (fraction(identity + k * 2 + d) + 0.25F * rows->of[t][k][d] +
                                      0.125F * params[(k + d) % j->elements]);
            }
        }
    }
}

struct table_gradient_view tables_view(const struct sim_job *j, uint32_t table,
                                       const struct sim_rows_gradient *g,
                                       struct sim_gradient_arrays *arrays)
{
    const size_t dim = j->table_plans[table].config.dim;
    size_t n = 0;
    for (uint32_t k = 0; k < SIM_KEYS; k++) {
        if (g->of[table][k].sightings > 0) {
            arrays->keys[n] = sim_keys[k];
            arrays->sightings[n] = g->of[table][k].sightings;
            memcpy(arrays->values + n * dim, g->of[table][k].values, dim * sizeof(float));
            n++;
        }
    }
    return (struct table_gradient_view){.dim = dim,
                                        .n = n,
                                        .keys = arrays->keys,
                                        .sightings = arrays->sightings,
                                        .values = arrays->values};
}
