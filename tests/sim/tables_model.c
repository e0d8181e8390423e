/* SPDX-License-Identifier: Apache-2.0 */
/* What tables should say: all rows in arrays, each version a copy of the one before. Nothing of
 * common/table is in it but the hash that divides keys among buckets; rules and random numbers are
 * the library's. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* ---- rows ---- */

static void begin(const struct sim_job *j, uint32_t table, uint32_t key, struct sim_row *row)
{
    const struct table_config *c = &j->table_plans[table].config;
    *row = (struct sim_row){0};
    memcpy(row->values, j->table_plans[table].first[key], c->dim * sizeof(float));
    for (size_t k = 0; k < c->rule->slot_count; k++) {
        for (size_t d = 0; d < c->dim; d++) {
            row->slots[k][d] = c->rule->slot_initial[k];
        }
    }
}

static void catch_up(const struct table_config *c, struct sim_row *row, uint64_t version)
{
    if (c->past != NULL && row->seen < version) {
        float *slots[RULE_SLOTS_MAX] = {row->slots[0], row->slots[1]};
        c->rule->catch_up(c->past, row->seen, version, row->values, slots, c->dim);
    }
}

void rows_read(const struct sim_job *j, uint32_t table, uint32_t key, const struct sim_row *row,
               uint64_t version, float *out)
{
    const struct table_config *c = &j->table_plans[table].config;
    struct sim_row r = *row;
    if (!r.there) {
        begin(j, table, key, &r);
    }
    catch_up(c, &r, version);
    memcpy(out, r.values, c->dim * sizeof(float));
}

/* Of a row that is not there only what was counted of it matters. */
static bool is_same(const struct table_config *c, const struct sim_row *a, const struct sim_row *b)
{
    if (a->there != b->there || a->counted != b->counted) {
        return false;
    }
    if (!a->there) {
        return true;
    }
    bool same = a->seen == b->seen && a->sightings == b->sightings &&
                memcmp(a->values, b->values, c->dim * sizeof(float)) == 0;
    for (size_t k = 0; k < c->rule->slot_count; k++) {
        const size_t n = c->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : c->dim;
        same = same && memcmp(a->slots[k], b->slots[k], n * sizeof(float)) == 0;
    }
    return same;
}

bool rows_differ(const struct sim_job *j, const struct sim_rows *a, const struct sim_rows *b,
                 uint32_t shard, uint32_t shards, uint32_t *table, uint32_t *key)
{
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const struct table_config *c = &j->table_plans[t].config;
        for (uint32_t k = 0; k < SIM_KEYS; k++) {
            const uint32_t bucket = tables_bucket(k);
            if (table_shard_of(sim_keys[k], shards) == shard &&
                (!is_same(c, &a->of[t][k], &b->of[t][k]) ||
                 memcmp(a->counters[t][bucket], b->counters[t][bucket], SIM_COUNTERS) != 0)) {
                *table = t;
                *key = k;
                return true;
            }
        }
    }
    return false;
}

static uint64_t sum_bytes(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (uint64_t word = 0; bytes > 0; word = 0) {
        const size_t n = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, at, n);
        sum = rng_key_mix(sum, word);
        at += n;
        bytes -= n;
    }
    return sum;
}

static uint64_t sum_row(const struct table_config *c, const struct sim_row *row, uint64_t sum)
{
    sum = rng_key_mix(sum, row->there);
    sum = rng_key_mix(sum, row->counted);
    if (!row->there) {
        return sum;
    }
    sum = rng_key_mix(sum, row->seen);
    sum = rng_key_mix(sum, row->sightings);
    sum = sum_bytes(sum, row->values, c->dim * sizeof(float));
    for (size_t k = 0; k < c->rule->slot_count; k++) {
        const size_t n = c->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : c->dim;
        sum = sum_bytes(sum, row->slots[k], n * sizeof(float));
    }
    return sum;
}

uint64_t rows_sum(const struct sim_job *j, const struct sim_rows *rows, uint32_t shard,
                  uint64_t sum)
{
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        for (uint32_t k = 0; k < SIM_KEYS; k++) {
            if (table_shard_of(sim_keys[k], j->shard_count) == shard) {
                sum = sum_row(&j->table_plans[t].config, &rows->of[t][k], sum);
                sum = sum_bytes(sum, rows->counters[t][tables_bucket(k)], SIM_COUNTERS);
            }
        }
    }
    return sum;
}

/* ---- admission ---- */

/* Four counters of a block that its bucket has, as table/table_admission.h says. */
static void counters_of(const struct table_config *c, uint32_t key, uint8_t *bucket, uint8_t *at[4])
{
    const uint64_t of_table = rng_key_mix(rng_key(c->seed, c->name), 1);
    const uint64_t counters = c->admission.bytes / TABLE_BUCKETS;
    uint64_t hash = rng_key_mix(of_table, sim_keys[key]);
    const uint64_t step = rng_key_mix(hash, 2) | 1;
    for (uint32_t i = 0; i < 4; i++, hash += step) {
        at[i] = bucket + (((hash >> 32) * counters + ((hash & UINT32_MAX) * counters >> 32)) >> 32);
    }
}

static void note(const struct table_config *c, struct sim_rows *r, uint32_t table, uint32_t key,
                 uint32_t sightings)
{
    const uint32_t bucket = tables_bucket(key);
    uint8_t *at[4];
    if (c->admission.kind == TABLE_ADMIT_COUNTED) {
        r->of[table][key].counted += sightings;
    } else if (c->admission.kind == TABLE_ADMIT_BLOOM) {
        counters_of(c, key, r->counters[table][bucket], at);
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t sum = *at[i] + sightings;
            *at[i] = (uint8_t)(sum > UINT8_MAX ? UINT8_MAX : sum);
        }
    }
}

static bool is_admitted(const struct table_config *c, struct sim_rows *r, uint32_t table,
                        uint32_t key)
{
    const uint32_t bucket = tables_bucket(key);
    uint8_t *at[4];
    switch (c->admission.kind) {
    case TABLE_ADMIT_ALL:
        break;
    case TABLE_ADMIT_COUNTED:
        return r->of[table][key].counted >= c->admission.sightings;
    case TABLE_ADMIT_BLOOM:
        counters_of(c, key, r->counters[table][bucket], at);
        for (uint32_t i = 0; i < 4; i++) {
            if (*at[i] < c->admission.sightings) {
                return false;
            }
        }
        return true;
    case TABLE_ADMIT_PROBABILITY:
        return rng_uniform(rng_key_mix(rng_key(c->seed, c->name), 1), sim_keys[key]) <
               c->admission.probability;
    }
    return true;
}

static void admit(const struct sim_job *j, uint32_t table, struct sim_rows *r, uint64_t version,
                  const struct table_gradient_view *g)
{
    const struct table_config *c = &j->table_plans[table].config;
    for (size_t i = 0; i < g->n; i++) {
        const uint32_t key = tables_key_number(g->keys[i]);
        if (!r->of[table][key].there) {
            note(c, r, table, key, g->sightings[i]);
        }
    }
    for (size_t i = 0; i < g->n; i++) {
        const uint32_t key = tables_key_number(g->keys[i]);
        struct sim_row *row = &r->of[table][key];
        if (!row->there && is_admitted(c, r, table, key)) {
            begin(j, table, key, row);
            row->there = true;
            row->seen = c->past == NULL ? version - 1 : 0;
        }
    }
}

/* ---- updates ---- */

static void update(const struct sim_table_plan *p, struct sim_row *row, uint64_t version,
                   const struct table_gradient_view *g, size_t i, const struct sim_update *u)
{
    const struct table_config *c = &p->config;
    struct rule_scalars scalars;
    float *slots[RULE_SLOTS_MAX] = {row->slots[0], row->slots[1]};
    float gradient[SIM_DIM_MAX];
    const float scale = u->examples == 0 ? 1.0F : 1.0F / (float)u->examples;
    for (size_t d = 0; d < c->dim; d++) {
        gradient[d] = g->values[i * c->dim + d] * scale * (u->scaled ? u->factor : 1.0F);
    }
    const struct rule_span span = {
        .out = row->values,
        .in = row->values,
        .slots = slots,
        .gradient = gradient,
        .gradient_scale = 1.0F,
        .n = c->dim,
        .width = c->dim,
        .first = g->keys[i] * c->dim,
        .variable = rng_key(c->seed, c->name),
    };
    catch_up(c, row, version - 1);
    c->rule->prepare(p->params, version - 1, (double)u->lr_scale, &scalars);
    rule_apply_span(c->rule, &scalars, &span);
    row->seen = version;
    row->sightings += g->sightings[i];
}

/* The least row of @bucket; SIM_KEYS: there are no more than @most. */
static uint32_t above(const struct table_config *c, const struct sim_row *rows, uint32_t bucket,
                      uint64_t most)
{
    uint32_t least = SIM_KEYS;
    uint64_t n = 0, least_rank = 0;
    for (uint32_t k = 0; k < SIM_KEYS; k++) { /* by rising keys */
        const uint64_t rank =
            c->eviction.least == TABLE_LEAST_RECENT ? rows[k].seen : rows[k].sightings;
        if (rows[k].there && table_bucket_of(sim_keys[k]) == bucket) {
            n++;
            least = least == SIM_KEYS || rank < least_rank ? k : least;
            least_rank = least == k ? rank : least_rank;
        }
    }
    return n > most ? least : SIM_KEYS;
}

static void evict(const struct table_config *c, struct sim_row *rows, uint64_t version)
{
    const struct table_eviction_spec *e = &c->eviction;
    if (version % (e->every == 0 ? 1 : e->every) != 0) {
        return;
    }
    for (uint32_t k = 0; k < SIM_KEYS; k++) {
        if (rows[k].there && e->unseen > 0 && rows[k].seen + e->unseen <= version) {
            rows[k] = (struct sim_row){0};
        }
    }
    for (uint32_t k = 0; k < SIM_KEYS && e->rows_max > 0; k++) {
        const uint32_t bucket = table_bucket_of(sim_keys[k]);
        const uint64_t most = table_bucket_share(bucket, e->rows_max);
        for (uint32_t least; (least = above(c, rows, bucket, most)) < SIM_KEYS;) {
            rows[least] = (struct sim_row){0};
        }
    }
}

void rows_update(const struct sim_job *j, const struct sim_rows *from, struct sim_rows *to,
                 uint64_t version, const struct table_gradient_view gradient[SIM_TABLE_COUNT],
                 const struct sim_update *u)
{
    *to = *from;
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const struct sim_table_plan *p = &j->table_plans[t];
        const struct table_gradient_view *g = &gradient[t];
        admit(j, t, to, version, g);
        for (size_t i = 0; i < g->n; i++) {
            struct sim_row *row = &to->of[t][tables_key_number(g->keys[i])];
            if (row->there) {
                update(p, row, version, g, i, u);
            }
        }
        evict(&p->config, to->of[t], version);
    }
}

/* ---- the reference ---- */

static struct sim_rows *version_of(struct sim_reference *r, uint64_t version)
{
    if (r->rows[version] == NULL) {
        r->rows[version] = mem_new(1, sizeof *r->rows[version]);
    }
    return r->rows[version];
}

const struct sim_rows *rows_reference(struct world *w, uint32_t job, uint64_t version)
{
    const struct sim_job *j = &w->jobs[job];
    struct sim_reference *r = &w->references[job];
    if (version >= SIM_VERSIONS_MAX) {
        violated(w, INVARIANT_ORDER, "more than %d versions", SIM_VERSIONS_MAX);
    }
    if (!r->begun) {
        r->begun = true;
        r->version = 0;
        numbers_initial(key_of_job(w, job), j->elements, &r->values);
        memset(&r->slot, 0, sizeof r->slot);
        memset(version_of(r, 0), 0, sizeof *r->rows[0]);
    }
    for (; r->version < version; r->version++) {
        numbers_step(j, j->first.replicas, r->version, &r->values, &r->slot, r->rows[r->version],
                     version_of(r, r->version + 1));
    }
    return r->rows[version];
}

void rows_forget(struct world *w)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        w->references[i].begun = false;
    }
}

void rows_free(struct world *w)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        for (uint32_t v = 0; v < SIM_VERSIONS_MAX; v++) {
            free(w->references[i].rows[v]);
        }
    }
}
