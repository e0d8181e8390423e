/* SPDX-License-Identifier: Apache-2.0 */
/* Tables on their way into a checkpoint, some rows at a time between updates, and back. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

/* ---- there ---- */

static int save_rows(struct table *t, struct sim_saved *file, const struct table_config *c,
                     uint32_t table, size_t n, struct err *err)
{
    struct sim_saved_table *f = &file->of[table];
    struct table_chunk chunk = {
        .kept = true, .changed = file->delta, .since = file->since, .looks = file->delta ? 3 : 0};
    int rc = 0;
    do {
        const size_t at = f->rows;
        chunk.capacity = SIM_SAVED_MAX - at < 7 ? SIM_SAVED_MAX - at : 7;
        chunk.capacity = n > 0 && n < chunk.capacity ? n : chunk.capacity;
        chunk.keys = f->keys + at;
        chunk.values = f->values + at * c->dim;
        chunk.seen = f->seen + at;
        chunk.sightings = f->sightings + at;
        for (size_t k = 0; k < c->rule->slot_count; k++) {
            chunk.slots[k] =
                f->slots[k] + at * (c->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : c->dim);
        }
        rc = table_walk(t, file->version, &file->rows_at[table], &chunk, err);
        f->rows += rc == 0 ? (uint32_t)chunk.n : 0;
    } while (rc == 0 && n == 0 && (file->delta ? !file->rows_at[table].end : chunk.n > 0));
    return rc;
}

static int save_counts(struct table *t, struct sim_saved *file, uint32_t table, size_t n,
                       struct err *err)
{
    struct sim_saved_table *f = &file->of[table];
    struct table_counts_chunk chunk = {0};
    int rc = 0;
    do {
        const size_t at = f->counts;
        chunk.capacity = SIM_KEYS - at < 5 ? SIM_KEYS - at : 5;
        chunk.capacity = n > 0 && n < chunk.capacity ? n : chunk.capacity;
        chunk.keys = f->count_keys + at;
        chunk.counts = f->count_values + at;
        chunk.counters = f->count_blocks[at];
        rc = table_walk_counts(t, file->version, &file->counts_at[table], &chunk, err);
        f->counts += rc == 0 ? (uint32_t)chunk.n : 0;
    } while (rc == 0 && n == 0 && chunk.n > 0);
    return rc;
}

int tables_save_one(struct world *w, const struct sim_shard *s, struct sim_saved *file,
                    uint32_t table, size_t n, struct err *err)
{
    const struct table_config *c = &w->jobs[s->job].table_plans[table].config;
    struct table *t = s->tables->real->tables[table];
    int rc = save_rows(t, file, c, table, n, err);
    return rc != 0 ? rc : save_counts(t, file, table, n, err);
}

int tables_save(struct world *w, const struct sim_shard *s, struct sim_saved *file, size_t n,
                struct err *err)
{
    int rc = 0;
    for (uint32_t t = 0; t < SIM_TABLE_COUNT && rc == 0; t++) {
        rc = tables_save_one(w, s, file, t, n, err);
    }
    return rc;
}

/* ---- deltas ---- */

static int list_gone(struct table *t, uint64_t since, uint64_t version, bool gone[SIM_KEYS],
                     struct err *err)
{
    uint64_t keys[5];
    size_t at = 0, n = 0;
    int rc;
    do {
        rc = table_evicted_since(t, since, version, &at, keys, sizeof keys / sizeof *keys, &n, err);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            gone[tables_key_number(keys[i])] = true;
        }
    } while (rc == 0 && n > 0);
    return rc;
}

bool tables_save_since(struct world *w, const struct sim_shard *s, struct sim_saved *file,
                       uint64_t since)
{
    const struct sim_job *j = &w->jobs[s->job];
    for (uint32_t t = 0; t < SIM_TABLE_COUNT && since < file->version; t++) {
        const struct sim_table_plan *p = &j->table_plans[t];
        struct err err = {0};
        if (list_gone(s->tables->real->tables[t], since, file->version, file->of[t].gone, &err) !=
            0) {
            if (p->config.notes_evicted && !p->tight && since >= s->version_first) {
                violated(w, INVARIANT_ROWS, "a delta of version %llu: %s",
                         (unsigned long long)since, err.msg);
            }
            return false;
        }
    }
    file->since = since;
    file->delta = since < file->version;
    return file->delta;
}

static void copy_row(const struct table_config *c, const struct sim_saved_table *from, uint32_t i,
                     struct sim_saved_table *to)
{
    const uint32_t at = to->rows++;
    to->keys[at] = from->keys[i];
    to->seen[at] = from->seen[i];
    to->sightings[at] = from->sightings[i];
    memcpy(to->values + at * c->dim, from->values + i * c->dim, c->dim * sizeof(float));
    for (size_t k = 0; k < c->rule->slot_count; k++) {
        const size_t n = c->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : c->dim;
        memcpy(to->slots[k] + at * n, from->slots[k] + i * n, n * sizeof(float));
    }
}

void tables_unite(const struct sim_job *j, const struct sim_saved *base,
                  const struct sim_saved *delta, struct sim_saved *out)
{
    *out = *delta;
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const struct sim_saved_table *old = &base->of[t], *new = &delta->of[t];
        bool is_new[SIM_KEYS] = {false};
        for (uint32_t i = 0; i < new->rows; i++) {
            is_new[tables_key_number(new->keys[i])] = true;
        }
        for (uint32_t i = 0; i < old->rows; i++) {
            const uint32_t key = tables_key_number(old->keys[i]);
            if (!is_new[key] && !new->gone[key]) {
                copy_row(&j->table_plans[t].config, old, i, &out->of[t]);
            }
        }
    }
}

/* ---- what is in a file ---- */

static void saved_counts(const struct table_config *c, uint32_t table,
                         const struct sim_saved_table *f, struct sim_rows *out)
{
    const uint64_t blocks = c->admission.bytes / TABLE_BUCKETS / TABLE_BLOOM_BLOCK;
    for (uint32_t i = 0; i < f->counts; i++) {
        if (c->admission.kind == TABLE_ADMIT_COUNTED) {
            out->of[table][tables_key_number(f->count_keys[i])].counted += f->count_values[i];
        } else {
            const uint64_t bucket = f->count_keys[i] / blocks;
            memcpy(out->counters[table][bucket / (TABLE_BUCKETS / SIM_BUCKETS)] +
                       f->count_keys[i] % blocks * TABLE_BLOOM_BLOCK,
                   f->count_blocks[i], TABLE_BLOOM_BLOCK);
        }
    }
}

void saved_rows(const struct table_config *c, uint32_t table, const struct sim_saved_table *f,
                struct sim_rows *out)
{
    for (uint32_t i = 0; i < f->rows; i++) {
        struct sim_row *r = &out->of[table][tables_key_number(f->keys[i])];
        r->there = true;
        r->seen = f->seen[i];
        r->sightings += f->sightings[i]; /* of a key that comes twice: too many */
        memcpy(r->values, f->values + i * c->dim, c->dim * sizeof(float));
        for (size_t k = 0; k < c->rule->slot_count; k++) {
            const size_t n = c->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : c->dim;
            memcpy(r->slots[k], f->slots[k] + i * n, n * sizeof(float));
        }
    }
    saved_counts(c, table, f, out);
}

/* ---- and back ---- */

static void restore_one(struct world *w, const struct table_config *c, struct table *t,
                        struct sim_saved_table *f)
{
    struct err err = {0};
    struct table_chunk rows = {.n = f->rows,
                               .keys = f->keys,
                               .values = f->values,
                               .seen = f->seen,
                               .sightings = f->sightings};
    const struct table_counts_chunk counts = {.n = f->counts,
                                              .keys = f->count_keys,
                                              .counts = f->count_values,
                                              .counters = f->count_blocks[0]};
    for (size_t k = 0; k < c->rule->slot_count; k++) {
        rows.slots[k] = f->slots[k];
    }
    if (table_restore_rows(t, &rows, &err) != 0 || table_restore_counts(t, &counts, &err) != 0) {
        violated(w, INVARIANT_ROWS, "rows of a checkpoint are refused: %s", err.msg);
    }
}

void tables_restore(struct world *w, const struct sim_job *j, struct table *const *tables,
                    struct sim_saved *const *files, uint32_t count)
{
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        uint64_t rows = 0, counts = 0;
        struct err err = {0};
        for (uint32_t i = 0; i < count; i++) {
            rows += files[i]->of[t].rows;
            counts += files[i]->of[t].counts;
        }
        if (table_restore_reserve(tables[t], rows, counts, &err) != 0) {
            violated(w, INVARIANT_ROWS, "no room for the rows of a checkpoint: %s", err.msg);
        }
        for (uint32_t i = 0; i < count; i++) {
            restore_one(w, &j->table_plans[t].config, tables[t], &files[i]->of[t]);
        }
    }
    w->counts.tables_restored++;
}

void tables_expected(struct sim_saved *const *files, uint32_t count, uint32_t shard,
                     uint32_t shards, struct sim_rows *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t k = 0; k < SIM_KEYS; k++) {
        const uint32_t bucket = tables_bucket(k);
        const uint32_t from = table_shard_of(sim_keys[k], count);
        for (uint32_t t = 0; t < SIM_TABLE_COUNT && from < count; t++) {
            if (table_shard_of(sim_keys[k], shards) == shard) {
                out->of[t][k] = files[from]->expected.of[t][k];
                memcpy(out->counters[t][bucket], files[from]->expected.counters[t][bucket],
                       SIM_COUNTERS);
            }
        }
    }
}

void tables_check_files(struct world *w, uint32_t job, struct sim_saved *const *files,
                        uint32_t count)
{
    const struct sim_job *j = &w->jobs[job];
    const uint32_t shards = 1 + (uint32_t)world_draw(w, "restored on", w->table_draws++, 5);
    for (uint32_t i = 0; i < shards; i++) {
        struct sim_shard s = {.job = job, .number = i};
        struct sim_rows model;
        struct table_config configs[SIM_TABLE_COUNT];
        struct shard_tables *tables;
        struct sim_tables t = {.models = &model};
        struct err err = {0};
        for (uint32_t k = 0; k < SIM_TABLE_COUNT; k++) {
            tables_config(j, k, i, shards, &configs[k]);
        }
        if (shard_tables_new(configs, SIM_TABLE_COUNT, files[0]->version, &w->tables_budget,
                             &tables, &err) != 0) {
            violated(w, INVARIANT_ROWS, "tables cannot be made: %s", err.msg);
        }
        t.real = tables;
        s.tables = &t;
        tables_restore(w, j, tables->tables, files, count);
        tables_expected(files, count, i, shards, &model);
        tables_check(w, &s, shards, files[0]->version, 0);
        shard_tables_free(tables);
    }
}
