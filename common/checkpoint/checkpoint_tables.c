/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a checkpoint: checked when it is opened, and put back into tables of any number of
 * shards. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_impl.h"

/* ---- is what the files have what the manifest says? ---- */

static int check_info(const struct manifest_table *t, uint32_t shard,
                      const struct table_file_info *has, struct err *err)
{
    if (strcmp(has->name, t->info.name) != 0 || has->dim != t->info.dim ||
        has->admission != t->info.admission) {
        return err_set(err, ERR_CORRUPT,
                       "table %s of dim %" PRIu64 ", admission %s; the manifest names %s of dim "
                       "%" PRIu64 ", admission %s",
                       has->name, has->dim, table_file_admissions[has->admission], t->info.name,
                       t->info.dim, table_file_admissions[t->info.admission]);
    }
    if (has->all != t->rows[shard] || has->counts != t->counts[shard]) {
        return err_set(err, ERR_CORRUPT,
                       "table %s: %" PRIu64 " rows and %" PRIu64 " counts; the manifest names "
                       "%" PRIu64 " and %" PRIu64,
                       has->name, has->all, has->counts, t->rows[shard], t->counts[shard]);
    }
    return 0;
}

int checkpoint_check_tables(const struct checkpoint *c, uint32_t shard, size_t *tensors,
                            struct err *err)
{
    const struct manifest *m = &c->manifest;
    const struct shard_file *f = &c->files[shard];
    struct table_file_slots slots;
    int rc = 0;
    if (f->table_count != m->table_count) {
        return err_set(err, ERR_CORRUPT, "read %s: %zu tables; the manifest names %zu",
                       f->file.path, f->table_count, m->table_count);
    }
    manifest_table_slots(m, &slots);
    for (size_t i = 0; rc == 0 && i < m->table_count; i++) {
        rc = check_info(&m->tables[i], shard, &f->tables[i], err);
        if (rc != 0) {
            return err_wrap(err, "read %s", f->file.path);
        }
        rc = table_file_check(f, &f->tables[i], &slots, tensors, err);
    }
    return rc;
}

bool checkpoint_is_of_table(const struct checkpoint *c, const char *tensor)
{
    for (size_t i = 0; i < c->manifest.table_count; i++) {
        const char *name = c->manifest.tables[i].info.name;
        const size_t n = strlen(name);
        if (strncmp(tensor, name, n) == 0 && tensor[n] == '/') {
            return true;
        }
    }
    return false;
}

struct table_union *checkpoint_rows(const struct checkpoint *c, uint32_t shard, size_t table,
                                    const struct table_file_slots *slots)
{
    const bool delta = c->files[shard].base.directory[0] != '\0';
    return table_union_new(&c->files[shard], delta ? &c->base->files[shard] : NULL, table, slots);
}

void checkpoint_catch_up(struct checkpoint *c, const struct checkpoint_past *pasts, size_t count)
{
    c->pasts = pasts;
    c->past_count = count;
}

static const struct checkpoint_past *find_past(const struct checkpoint *c, const char *table)
{
    for (size_t i = 0; i < c->past_count; i++) {
        if (strcmp(c->pasts[i].table, table) == 0) {
            return &c->pasts[i];
        }
    }
    return NULL;
}

/* Of the shard with the most updates: rows are as one server has them. */
static uint64_t newest(const struct manifest *m)
{
    uint64_t version = 0;
    for (uint32_t i = 0; i < m->shard_count; i++) {
        version = m->shards[i].version > version ? m->shards[i].version : version;
    }
    return version;
}

void checkpoint_catch_rows(const struct checkpoint *c, size_t table, struct table_chunk *rows)
{
    const struct table_file_info *info = &c->manifest.tables[table].info;
    const struct checkpoint_past *past = find_past(c, info->name);
    const uint64_t version = newest(&c->manifest);
    const size_t dim = (size_t)info->dim;
    for (size_t i = 0; past != NULL && i < rows->n; i++) {
        float *slots[RULE_SLOTS_MAX] = {NULL};
        for (size_t k = 0; k < past->rule->slot_count; k++) {
            slots[k] = rows->slots[k] + i * (past->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : dim);
        }
        if (rows->seen[i] < version) {
            past->rule->catch_up(past->past, rows->seen[i], version, rows->values + i * dim, slots,
                                 dim);
        }
    }
}

/* ---- into tables ---- */

static const struct manifest_table *find_table(const struct manifest *m, const char *name)
{
    for (size_t i = 0; i < m->table_count; i++) {
        if (strcmp(m->tables[i].info.name, name) == 0) {
            return &m->tables[i];
        }
    }
    return NULL;
}

static int check_rule(const struct manifest *m, const struct rule *rule, struct err *err)
{
    bool same = strcmp(m->rule, rule->name) == 0 && m->slot_count == rule->slot_count;
    for (size_t k = 0; same && k < m->slot_count; k++) {
        same = strcmp(m->slots[k], rule->slot_names[k]) == 0 &&
               m->slot_kinds[k] == rule->slot_kinds[k];
    }
    return same ? 0
                : err_set(err, ERR_INVALID, "of rule %s with its slots, %s is wanted", m->rule,
                          rule->name);
}

static int check_table(const struct manifest *m, const struct checkpoint_table *wanted,
                       struct err *err)
{
    const struct manifest_table *t = find_table(m, wanted->name);
    if (t == NULL) {
        return err_set(err, ERR_INVALID, "no table %s", wanted->name);
    }
    if (t->info.dim != table_dim(wanted->table)) {
        return err_set(err, ERR_INVALID, "rows of table %s have %" PRIu64 " floats, %zu are wanted",
                       wanted->name, t->info.dim, table_dim(wanted->table));
    }
    if (t->info.admission != wanted->admission) {
        return err_set(err, ERR_INVALID, "admission of table %s is %s, %s is wanted", wanted->name,
                       table_file_admissions[t->info.admission],
                       table_file_admissions[wanted->admission]);
    }
    return check_rule(m, table_rule(wanted->table), err);
}

static int check_all(const struct manifest *m, const struct checkpoint_table *tables, size_t count,
                     struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = check_table(m, &tables[i], err);
    }
    for (size_t i = 0; rc == 0 && i < m->table_count; i++) {
        size_t k = 0;
        while (k < count && strcmp(tables[k].name, m->tables[i].info.name) != 0) {
            k++;
        }
        if (k == count) {
            rc = err_set(err, ERR_INVALID, "it has table %s, which the job has not",
                         m->tables[i].info.name);
        }
    }
    return rc;
}

/* Have two shards a key in common, each of as many? */
static bool overlap(uint32_t a, uint32_t as, uint32_t b, uint32_t bs)
{
    return table_bucket_first(a, as) < table_bucket_first(b + 1, bs) &&
           table_bucket_first(b, bs) < table_bucket_first(a + 1, as);
}

/* @n of a file, as far as its keys are those of shard @b, about: keys are spread evenly. */
static uint64_t share(uint64_t n, uint32_t a, uint32_t as, uint32_t b, uint32_t bs)
{
    const uint32_t begin = table_bucket_first(a, as), end = table_bucket_first(a + 1, as);
    const uint32_t from = table_bucket_first(b, bs), to = table_bucket_first(b + 1, bs);
    const uint32_t common = (end < to ? end : to) - (begin > from ? begin : from);
    return (uint64_t)((double)n * common / (end - begin));
}

/* For all rows of the table, and with @counted for what admission has counted. */
static int reserve(const struct checkpoint *c, size_t number, bool counted, struct table *table,
                   uint32_t shard, uint32_t shards, struct err *err)
{
    const struct manifest_table *t = &c->manifest.tables[number];
    const uint32_t files = c->manifest.shard_count;
    uint64_t rows = 0, counts = 0;
    for (uint32_t i = 0; i < files; i++) {
        if (overlap(i, files, shard, shards)) {
            rows += share(t->rows[i], i, files, shard, shards);
            counts += counted ? share(t->counts[i], i, files, shard, shards) : 0;
        }
    }
    return table_restore_reserve(table, rows, counts, err);
}

static void count(const struct checkpoint *c, uint64_t bytes)
{
    if (c->bytes != NULL) {
        atomic_fetch_add(c->bytes, bytes);
    }
}

static int restore_rows(const struct checkpoint *c, uint32_t file, size_t number,
                        struct table *table, struct err *err)
{
    struct table_file_slots slots;
    manifest_table_slots(&c->manifest, &slots);
    struct table_union *u = checkpoint_rows(c, file, number, &slots);
    struct table_chunk chunk;
    int rc;
    while ((rc = table_union_next(u, &chunk, err)) == 0 && chunk.n > 0) {
        rc = table_restore_rows(table, &chunk, err);
        if (rc != 0) {
            (void)err_wrap(err, "read %s", c->files[file].file.path);
            break;
        }
        count(c, table_union_bytes(u));
    }
    table_union_free(u);
    return rc;
}

static int restore_counts(const struct checkpoint *c, uint32_t file, size_t number,
                          struct table *table, struct err *err)
{
    const struct shard_file *f = &c->files[file];
    struct table_file_slots slots;
    manifest_table_slots(&c->manifest, &slots);
    struct table_reader *r = table_reader_new(f, &f->tables[number], &slots, TABLE_PART_COUNTS);
    size_t n = 0;
    int rc;
    while ((rc = table_reader_next(r, &n, err)) == 0 && n > 0) {
        const struct table_counts_chunk chunk = table_reader_counts(r);
        rc = table_restore_counts(table, &chunk, err);
        if (rc != 0) {
            (void)err_wrap(err, "read %s", f->file.path);
            break;
        }
        count(c, table_reader_bytes(r));
    }
    table_reader_free(r);
    return rc;
}

int checkpoint_restore_tables(const struct checkpoint *c, const struct checkpoint_table *tables,
                              size_t count, uint32_t shard, uint32_t shards, struct err *err)
{
    const struct manifest *m = &c->manifest;
    int rc = check_all(m, tables, count, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const size_t number = (size_t)(find_table(m, tables[i].name) - m->tables);
        rc = reserve(c, number, true, tables[i].table, shard, shards, err);
        for (uint32_t file = 0; rc == 0 && file < m->shard_count; file++) {
            if (overlap(file, m->shard_count, shard, shards)) {
                rc = restore_rows(c, file, number, tables[i].table, err);
                rc = rc != 0 ? rc : restore_counts(c, file, number, tables[i].table, err);
            }
        }
    }
    return rc == 0 ? 0 : err_wrap(err, "checkpoint %s", c->path);
}

/* ---- rows alone ---- */

static int check_finite(const struct table_chunk *rows, size_t dim, struct err *err)
{
    for (size_t i = 0; i < rows->n * dim; i++) {
        if (!isfinite(rows->values[i])) {
            return err_set(err, ERR_INVALID,
                           "element %zu of the row of key %" PRIu64 " is %g, which is not finite",
                           i % dim, rows->keys[i / dim], (double)rows->values[i]);
        }
    }
    return 0;
}

/* What is taken of rows that were read. */
static struct table_chunk taken_of(const struct checkpoint *c, size_t number, bool slots,
                                   const struct table_chunk *rows)
{
    struct table_chunk taken = {
        .n = rows->n, .keys = rows->keys, .values = rows->values, .sightings = rows->sightings};
    if (slots) {
        memcpy(taken.slots, rows->slots, sizeof taken.slots);
        taken.seen = rows->seen;
        if (find_past(c, c->manifest.tables[number].info.name) != NULL) {
            for (size_t i = 0; i < rows->n; i++) { /* they have been caught up */
                taken.seen[i] = newest(&c->manifest);
            }
        }
    }
    return taken;
}

static int take_rows(const struct checkpoint *c, uint32_t file, size_t number, bool with_slots,
                     struct table *table, struct err *err)
{
    struct table_file_slots slots;
    manifest_table_slots(&c->manifest, &slots);
    struct table_union *u = checkpoint_rows(c, file, number, &slots);
    struct table_chunk chunk;
    int rc;
    while ((rc = table_union_next(u, &chunk, err)) == 0 && chunk.n > 0) {
        checkpoint_catch_rows(c, number, &chunk);
        rc = check_finite(&chunk, table_dim(table), err);
        const struct table_chunk taken = taken_of(c, number, with_slots, &chunk);
        rc = rc != 0 ? rc : table_restore_rows(table, &taken, err);
        if (rc != 0) {
            break;
        }
        count(c, table_union_bytes(u));
    }
    table_union_free(u);
    return rc;
}

int checkpoint_take_rows(const struct checkpoint *c, const char *name, bool slots,
                         struct table *table, uint32_t shard, uint32_t shards, struct err *err)
{
    const struct manifest *m = &c->manifest;
    const struct manifest_table *t = find_table(m, name);
    if (t == NULL) {
        return err_set(err, ERR_NOT_FOUND, "no table %s", name);
    }
    if (t->info.dim != table_dim(table)) {
        return err_set(err, ERR_INVALID, "rows of table %s have %" PRIu64 " floats, %zu are wanted",
                       name, t->info.dim, table_dim(table));
    }
    const size_t number = (size_t)(t - m->tables);
    int rc = slots ? check_rule(m, table_rule(table), err) : 0;
    rc = rc != 0 ? rc : reserve(c, number, false, table, shard, shards, err);
    for (uint32_t file = 0; rc == 0 && file < m->shard_count; file++) {
        if (overlap(file, m->shard_count, shard, shards)) {
            rc = take_rows(c, file, number, slots, table, err);
        }
    }
    return rc;
}
