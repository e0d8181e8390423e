/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a shard, as ps_rows.c, ps_tables.c and ps_shard.c of services/ps use them, and what
 * must be in them. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const struct sim_job *job_of(const struct world *w, const struct sim_shard *s)
{
    return &w->jobs[s->job];
}

/* ---- life ---- */

struct sim_tables *tables_open(struct world *w, const struct sim_shard *s, uint64_t version)
{
    const struct sim_job *j = job_of(w, s);
    struct table_config configs[SIM_TABLE_COUNT];
    struct err err = {0};
    if (!j->tables) {
        return NULL;
    }
    struct sim_tables *t = mem_new(1, sizeof *t);
    t->models = mem_new(SIM_SNAPSHOTS_MAX, sizeof *t->models);
    for (uint32_t i = 0; i < SIM_TABLE_COUNT; i++) {
        tables_config(j, i, s->number, s->layout->shard_count, &configs[i]);
    }
    if (shard_tables_new(configs, SIM_TABLE_COUNT, version, &w->tables_budget, &t->real, &err) !=
        0) {
        violated(w, INVARIANT_ROWS, "tables cannot be made: %s", err.msg);
    }
    t->kept = true;
    t->kept_from = version;
    return t;
}

void tables_renew(struct world *w, struct sim_shard *s, uint64_t version)
{
    struct sim_tables *t = s->tables;
    struct table_config configs[SIM_TABLE_COUNT];
    struct err err = {0};
    for (uint32_t i = 0; i < SIM_TABLE_COUNT; i++) {
        tables_config(job_of(w, s), i, s->number, job_of(w, s)->shard_count, &configs[i]);
    }
    if (t->pin_count > 0 || shard_tables_renew(t->real, configs, version, &err) != 0) {
        violated(w, INVARIANT_ROWS, "tables cannot be made anew: %s", err.msg);
    }
    t->kept_from = version;
}

void tables_follow(const struct sim_shard *s)
{
    struct sim_tables *t = s->tables;
    struct shard_info info;
    if (t == NULL || t->real->bytes == 0) { /* it is closed */
        return;
    }
    shard_info(s->core, &info);
    const bool keeps = info.consistency.mode == TRAINING_SYNC;
    t->kept_from = keeps && !t->kept ? info.version : t->kept_from;
    t->kept = keeps;
    shard_tables_keep_previous(t->real, keeps);
}

void tables_close(struct world *w, struct sim_tables *t)
{
    if (t == NULL) {
        return;
    }
    for (size_t i = 0; i < t->real->count; i++) {
        struct table_stats stats;
        table_stats(t->real->tables[i], &stats);
        w->counts.rows_admitted += stats.admitted;
        w->counts.rows_evicted += stats.evicted;
        w->counts.rows_dropped += stats.dropped;
    }
    shard_tables_free(t->real);
    free(t->models);
    free(t);
}

/* ---- what pushes bring ---- */

void tables_take(struct world *w, const struct sim_shard *s, const struct exchange *x,
                 struct gradient *g)
{
    struct err err = {0};
    if (s->tables == NULL || x->rows_bytes == 0) {
        return;
    }
    g->tables = tables_gradient_new(s->tables->real->dims, SIM_TABLE_COUNT, VALUE_FP32,
                                    x->rows_bytes, &w->tables_budget, &err);
    if (g->tables == NULL || tables_gradient_decode(g->tables, x->rows, &err) != 0) {
        violated(w, INVARIANT_ROWS, "rows that a push brings are refused: %s", err.msg);
    }
}

void tables_add(struct world *w, struct gradient *to, struct gradient *from)
{
    struct err err = {0};
    if (tables_gradient_join(&to->tables, &from->tables, &err) != 0) {
        violated(w, INVARIANT_ROWS, "rows cannot be summed: %s", err.msg);
    }
}

/* ---- checks ---- */

/* All of the table as it lies, as the model would have it. */
static void list(struct world *w, const struct sim_shard *s, uint32_t table, uint64_t version,
                 struct sim_rows *out)
{
    const struct table_config *c = &job_of(w, s)->table_plans[table].config;
    struct sim_saved file;
    struct sim_saved_table *f = &file.of[table];
    memset(&file, 0, offsetof(struct sim_saved, expected));
    memset(f, 0, sizeof *f);
    memset(file.rows_at, 0, sizeof file.rows_at);
    memset(file.counts_at, 0, sizeof file.counts_at);
    file.version = version;
    struct err err = {0};
    if (tables_save_one(w, s, &file, table, 0, &err) != 0) {
        violated(w, INVARIANT_ROWS, "version %llu of shard %u cannot be read: %s",
                 (unsigned long long)version, s->number, err.msg);
    }
    saved_rows(c, table, f, out);
}

void tables_check(struct world *w, const struct sim_shard *s, uint32_t shards, uint64_t version,
                  uint32_t slot)
{
    const struct sim_job *j = job_of(w, s);
    struct sim_rows there;
    uint32_t table = 0, key = 0;
    memset(&there, 0, sizeof there);
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        list(w, s, t, version, &there);
    }
    if (rows_differ(j, &there, &s->tables->models[slot], s->number, shards, &table, &key)) {
        violated(w, INVARIANT_ROWS,
                 "version %llu of shard %u: key %u of table %u is not what it should be",
                 (unsigned long long)version, s->number, key, table);
    }
}

static uint32_t slot_of(struct world *w, const struct sim_shard *s, uint64_t version)
{
    for (uint32_t i = 0; i < SIM_SNAPSHOTS_MAX; i++) {
        if (s->snapshots[i].refs > 0 && s->snapshots[i].version == version) {
            return i;
        }
    }
    violated(w, INVARIANT_READ, "rows of version %llu of shard %u are read, which it has not",
             (unsigned long long)version, s->number);
}

const struct sim_rows *tables_model(struct world *w, const struct sim_shard *s, uint64_t version)
{
    return &s->tables->models[slot_of(w, s, version)];
}

bool tables_has(const struct sim_shard *s, uint64_t version)
{
    for (uint32_t i = 0; i < s->tables->pin_count; i++) {
        if (s->tables->pins[i] == version) {
            return true;
        }
    }
    return false;
}

/* What a reader of an old version gets. False: its pins were given up, for want of memory. */
static bool read_all(struct world *w, const struct sim_shard *s, uint64_t version, uint32_t table)
{
    const struct sim_job *j = job_of(w, s);
    const size_t dim = j->table_plans[table].config.dim;
    const struct sim_rows *model = &s->tables->models[slot_of(w, s, version)];
    float values[SIM_KEYS * SIM_DIM_MAX], expected[SIM_DIM_MAX];
    struct err err = {0};
    if (table_gather(s->tables->real->tables[table], version, sim_keys, SIM_KEYS, values, &err) !=
        0) {
        if (!j->table_plans[table].tight || !tables_has(s, version)) {
            violated(w, INVARIANT_ROWS, "version %llu of shard %u cannot be read: %s",
                     (unsigned long long)version, s->number, err.msg);
        }
        return false;
    }
    for (uint32_t k = 0; k < SIM_KEYS; k++) {
        if (table_shard_of(sim_keys[k], s->layout->shard_count) != s->number) {
            continue;
        }
        rows_read(j, table, k, &model->of[table][k], version, expected);
        if (memcmp(expected, values + k * dim, dim * sizeof(float)) != 0) {
            violated(w, INVARIANT_ROWS,
                     "key %u of table %u is read as %a of version %llu of shard %u, at version "
                     "%llu; it is %a there",
                     k, table, (double)values[k * dim], (unsigned long long)version, s->number,
                     (unsigned long long)s->snapshots[s->present].version, (double)expected[0]);
        }
    }
    return true;
}

/* Of the plain table each batch's rows are there, once. */
static void check_sightings(struct world *w, const struct sim_shard *s, const struct sim_rows *rows)
{
    uint32_t sightings[SIM_KEYS] = {0};
    for (uint32_t e = 0; e < SIM_EPOCHS_MAX; e++) {
        for (uint64_t left = s->applied.epoch[e]; left != 0; left &= left - 1) {
            const struct sim_batch_rows *b = tables_batch(e, (uint32_t)__builtin_ctzll(left), 0);
            for (uint32_t i = 0; i < b->n; i++) {
                sightings[b->key[i]] += b->sightings[i];
            }
        }
    }
    for (uint32_t k = 0; k < SIM_KEYS; k++) {
        if (table_shard_of(sim_keys[k], s->layout->shard_count) == s->number &&
            sightings[k] != rows->of[0][k].sightings) {
            violated(w, INVARIANT_ROWS, "shard %u has seen key %u %u times, its batches %u times",
                     s->number, k, rows->of[0][k].sightings, sightings[k]);
        }
    }
}

static void check_limit(struct world *w, const struct sim_shard *s, uint64_t version)
{
    const struct table_eviction_spec *e = &job_of(w, s)->table_plans[1].config.eviction;
    const uint64_t most = e->rows_max / TABLE_BUCKETS * SIM_BUCKETS;
    struct table_stats stats;
    table_stats(s->tables->real->tables[1], &stats);
    if (e->rows_max > 0 && version % (e->every == 0 ? 1 : e->every) == 0 && stats.rows > most) {
        violated(w, INVARIANT_ROWS, "version %llu of shard %u has %llu rows; %llu are its limit",
                 (unsigned long long)version, s->number, (unsigned long long)stats.rows,
                 (unsigned long long)most);
    }
}

/* Who reads a running job gives way first. */
static void check_pin(struct world *w, const struct sim_shard *s, uint32_t pin, uint32_t table)
{
    struct sim_tables *t = s->tables;
    if (!read_all(w, s, t->pins[pin], table) && !t->lost[pin]) {
        t->lost[pin] = true;
        if (t->real->reader_count > 0) {
            violated(w, INVARIANT_ROWS,
                     "version %llu of shard %u, which is pinned, is given up, and not those that "
                     "readers have pinned",
                     (unsigned long long)t->pins[pin], s->number);
        }
    }
}

static void check_all(struct world *w, const struct sim_shard *s, uint32_t slot)
{
    const struct sim_job *j = job_of(w, s);
    const uint64_t version = s->snapshots[slot].version;
    const struct sim_tables *t = s->tables;
    uint32_t table = 0, key = 0;
    tables_check(w, s, s->layout->shard_count, version, slot);
    for (uint32_t i = 0; i < SIM_TABLE_COUNT; i++) {
        if (version > s->version_first && t->kept && version > t->kept_from) {
            (void)read_all(w, s, version - 1, i);
        }
        for (uint32_t k = 0; k < t->pin_count; k++) {
            check_pin(w, s, k, i);
        }
    }
    check_sightings(w, s, &t->models[slot]);
    check_limit(w, s, version);
    if (j->first.mode == TRAINING_SYNC && !j->partial && !j->changed &&
        rows_differ(j, rows_reference(w, s->job, version), &t->models[slot], s->number,
                    s->layout->shard_count, &table, &key)) {
        violated(w, INVARIANT_ROWS,
                 "version %llu of shard %u: key %u of table %u is not what its batches make of it",
                 (unsigned long long)version, s->number, key, table);
    }
}

/* ---- versions ---- */

void tables_apply(struct world *w, struct sim_shard *s, const struct shard_action *a,
                  const struct gradient *g, uint32_t from, uint32_t to)
{
    const struct sim_job *j = job_of(w, s);
    struct sim_tables *t = s->tables;
    struct table_gradient_view views[SIM_TABLE_COUNT] = {{0}};
    struct rule_scalars scalars[SIM_TABLE_COUNT];
    struct table_shaping shaping[SIM_TABLE_COUNT];
    const struct sim_update u = {
        .examples = a->examples,
        .lr_scale = a->lr_scale,
        .scaled = s->begun,
        .factor = s->begun ? numbers_factor(s->totals[s->settled - 1].value) : 0};
    const struct tables_gradient *rows = g == NULL ? NULL : g->tables;
    struct err err = {0};
    if (t == NULL) {
        return;
    }
    memset(shaping, 0, sizeof shaping);
    for (uint32_t i = 0; i < SIM_TABLE_COUNT; i++) {
        const struct sim_table_plan *p = &j->table_plans[i];
        p->config.rule->prepare(p->params, a->version - 1, (double)a->lr_scale, &scalars[i]);
        shaping[i].scaled = u.scaled;
        shaping[i].factor = u.factor;
        if (rows != NULL) {
            views[i] = table_gradient_view(&rows->of[i]);
        }
    }
    rows_update(j, &t->models[from], &t->models[to], a->version, views, &u);
    if (shard_tables_update(t->real, rows, a->examples, scalars, shaping, &err) != 0) {
        violated(w, INVARIANT_ROWS, "shard %u cannot make version %llu of its tables: %s",
                 s->number, (unsigned long long)a->version, err.msg);
    }
}

void tables_applied(struct world *w, const struct sim_shard *s)
{
    if (s->tables != NULL) {
        check_all(w, s, s->present);
    }
}

void tables_pin(struct world *w, struct sim_shard *s, uint64_t version)
{
    struct sim_tables *t = s->tables;
    if (t == NULL) {
        return;
    }
    if (version != s->snapshots[s->present].version || t->pin_count == SIM_PINS_MAX) {
        violated(w, INVARIANT_ORDER, "version %llu of shard %u is pinned, at version %llu",
                 (unsigned long long)version, s->number,
                 (unsigned long long)s->snapshots[s->present].version);
    }
    t->lost[t->pin_count] = false;
    t->pins[t->pin_count++] = version;
    shard_tables_pin(t->real);
}

void tables_unpin(struct world *w, struct sim_shard *s, uint64_t version)
{
    struct sim_tables *t = s->tables;
    uint32_t i = 0;
    bool whole = true;
    if (t == NULL) {
        return;
    }
    while (i < t->pin_count && t->pins[i] != version) {
        i++;
    }
    if (i == t->pin_count) {
        violated(w, INVARIANT_ORDER, "version %llu of shard %u is not pinned",
                 (unsigned long long)version, s->number);
    }
    for (uint32_t k = 0; k < SIM_TABLE_COUNT; k++) {
        whole = read_all(w, s, version, k) && whole;
    }
    w->counts.pins_given_up += !whole;
    t->pins[i] = t->pins[--t->pin_count];
    t->lost[i] = t->lost[t->pin_count];
    shard_tables_unpin(t->real, version);
}

bool tables_wait(const struct sim_shard *s)
{
    return s->tables != NULL && s->tables->writing > 0 && shard_tables_short(s->tables->real);
}

/* ---- readers ---- */

void tables_pin_reader(const struct sim_shard *s)
{
    if (s->tables != NULL) {
        shard_tables_pin_reader(s->tables->real);
    }
}

void tables_unpin_reader(const struct sim_shard *s, uint64_t version)
{
    if (s->tables != NULL) {
        shard_tables_unpin_reader(s->tables->real, version);
    }
}

static bool has_reader(const struct shard_tables *t, uint64_t version)
{
    bool found = false;
    for (size_t i = 0; i < t->reader_count; i++) {
        found = found || t->readers[i] == version;
    }
    return found;
}

void tables_part(struct world *w, const struct sim_shard *s, uint64_t version, uint32_t table,
                 size_t n, struct table_cursor *cursor, uint32_t *rows)
{
    const struct sim_job *j = job_of(w, s);
    const struct sim_rows *model = &s->tables->models[slot_of(w, s, version)];
    const size_t dim = j->table_plans[table].config.dim;
    uint64_t keys[SIM_KEYS];
    float values[SIM_KEYS * SIM_DIM_MAX], expected[SIM_DIM_MAX];
    struct table_chunk chunk = {.capacity = n, .keys = keys, .values = values};
    struct err err = {0};
    if (cursor->end) {
        return;
    }
    if (table_walk(s->tables->real->tables[table], version, cursor, &chunk, &err) != 0) {
        if (has_reader(s->tables->real, version)) {
            violated(w, INVARIANT_ROWS, "a reader cannot read version %llu of shard %u: %s",
                     (unsigned long long)version, s->number, err.msg);
        }
        cursor->end = true; /* its pin was given up */
        return;
    }
    *rows += (uint32_t)chunk.n;
    for (size_t i = 0; i < chunk.n; i++) {
        const uint32_t k = tables_key_number(keys[i]);
        if (k == SIM_KEYS || !model->of[table][k].there) {
            violated(w, INVARIANT_ROWS, "a reader of version %llu of shard %u gets a row of later",
                     (unsigned long long)version, s->number);
        }
        rows_read(j, table, k, &model->of[table][k], version, expected);
        if (memcmp(expected, values + i * dim, dim * sizeof(float)) != 0) {
            violated(w, INVARIANT_ROWS, "a reader of version %llu of shard %u gets another key %u",
                     (unsigned long long)version, s->number, k);
        }
    }
    uint32_t all = 0;
    for (uint32_t k = 0; k < SIM_KEYS; k++) {
        all += model->of[table][k].there &&
               table_shard_of(sim_keys[k], s->layout->shard_count) == s->number;
    }
    if (*rows > all || ((cursor->end || chunk.n < n) && *rows != all)) {
        violated(w, INVARIANT_ROWS, "a reader of version %llu of shard %u gets %u rows of %u",
                 (unsigned long long)version, s->number, *rows, all);
    }
    cursor->end = cursor->end || chunk.n < n;
}

void tables_answer(struct world *w, struct sim_shard *s, const unsigned char *asked,
                   uint64_t version, struct exchange *x)
{
    const struct sim_job *j = job_of(w, s);
    uint32_t counts[SIM_TABLE_COUNT];
    uint64_t keys[SIM_TABLE_COUNT * SIM_KEYS];
    float values[SIM_TABLE_COUNT * SIM_KEYS * SIM_DIM_MAX];
    size_t n = 0;
    struct err err = {0};
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        counts[t] = *asked++;
        for (uint32_t i = 0; i < counts[t]; i++) {
            keys[n++] = sim_keys[*asked++];
        }
    }
    int rc = shard_tables_gather(s->tables->real, version, counts, keys, s->number,
                                 s->layout->shard_count, values, &err);
    if (rc != 0) {
        if (!tables_has(s, version) || !j->table_plans[1].tight) {
            violated(w, INVARIANT_READ, "rows of version %llu of shard %u are refused: %s",
                     (unsigned long long)version, s->number, err.msg);
        }
        x->code = rc;
        x->has_values = false;
        snprintf(x->message, sizeof x->message, "%.110s", err.msg);
        return;
    }
    const struct sim_rows *model = &s->tables->models[slot_of(w, s, version)];
    const uint64_t *key = keys;
    const float *at = values;
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const size_t dim = j->table_plans[t].config.dim;
        for (uint32_t i = 0; i < counts[t]; i++, at += dim, key++) {
            float expected[SIM_DIM_MAX];
            const uint32_t k = tables_key_number(*key);
            rows_read(j, t, k, &model->of[t][k], version, expected);
            if (memcmp(expected, at, dim * sizeof(float)) != 0) {
                violated(w, INVARIANT_READ, "key %u of table %u is not of version %llu of shard %u",
                         k, t, (unsigned long long)version, s->number);
            }
        }
    }
    x->rows_bytes = (uint32_t)((size_t)(at - values) * sizeof *at);
    memcpy(x->rows, values, x->rows_bytes);
}
