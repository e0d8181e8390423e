/* SPDX-License-Identifier: Apache-2.0 */
/* Several tables as one: decoded, summed, updated, read and pinned together. */
#include "ps/data/shard_tables.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"

/* Decoded rows take as much as their bytes (of 16 bits at most twice), and a sum of two as much as
 * both; the bytes are there as long as they are decoded. */
static uint64_t bytes_factor(enum value_type type)
{
    return type == VALUE_FP32 ? 2 : 4;
}

/* ---- what a push brings ---- */

struct tables_gradient *tables_gradient_new(const size_t *dims, size_t count, enum value_type type,
                                            uint64_t bytes, struct budget *budget, struct err *err)
{
    const uint64_t factor = bytes_factor(type);
    if (bytes > SIZE_MAX / 2 / factor) {
        (void)err_set(err, ERR_EXHAUSTED, "rows of tables: %" PRIu64 " bytes do not fit in memory",
                      bytes);
        return NULL;
    }
    if (budget_take(budget, bytes * factor, "rows of tables", err) != 0) {
        return NULL;
    }
    struct tables_gradient *g = mem_new(1, sizeof *g);
    g->budget = budget;
    g->bytes = bytes * factor;
    g->type = type;
    g->count = count;
    g->of = mem_new(count, sizeof *g->of);
    for (size_t i = 0; i < count; i++) {
        table_gradient_init(&g->of[i], dims[i]);
    }
    g->encoded_bytes = bytes;
    return g;
}

int tables_gradient_expect(struct tables_gradient *g, struct err *err)
{
    g->encoded = mem_try_aligned(g->encoded_bytes, 1, "rows of tables", err);
    return g->encoded == NULL ? ERR_EXHAUSTED : 0;
}

void tables_gradient_free(struct tables_gradient *g)
{
    if (g == NULL) {
        return;
    }
    for (size_t i = 0; i < g->count; i++) {
        table_gradient_release(&g->of[i]);
    }
    budget_give(g->budget, g->bytes);
    free(g->of);
    free(g->encoded);
    free(g);
}

/* The bytes of the table that begins @at in @from, by its header, as far as they are there. */
static uint64_t bytes_of(const struct tables_gradient *g, size_t table, const unsigned char *from,
                         uint64_t at)
{
    uint64_t rows = 0;
    const uint64_t left = g->encoded_bytes - at;
    if (left >= TABLE_GRADIENT_HEADER_BYTES) {
        memcpy(&rows, from + at, sizeof rows);
        rows = le64toh(rows);
    }
    const uint64_t bytes = table_gradient_bytes(g->type, rows, g->of[table].dim);
    return bytes < left ? bytes : left;
}

int tables_gradient_decode(struct tables_gradient *g, const void *bytes, struct err *err)
{
    const unsigned char *from = bytes == NULL ? g->encoded : bytes;
    uint64_t at = 0;
    for (size_t i = 0; i < g->count; i++) {
        const uint64_t n = bytes_of(g, i, from, at);
        int rc = table_gradient_decode(&g->of[i], g->type, from + at, n, err);
        if (rc != 0) {
            return err_wrap(err, "table %zu", i);
        }
        at += n;
    }
    if (at != g->encoded_bytes) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " bytes behind the rows of %zu tables",
                       g->encoded_bytes - at, g->count);
    }
    free(g->encoded);
    g->encoded = NULL;
    g->decoded = true;
    return 0;
}

/* @to += @from, table by table. Errors: ERR_EXHAUSTED: @to is of no use. */
static int tables_gradient_add(struct tables_gradient *to, const struct tables_gradient *from,
                               struct err *err)
{
    assert(to->count == from->count);
    int rc = budget_take(to->budget, from->bytes, "a sum of rows of tables", err);
    for (size_t i = 0; i < to->count && rc == 0; i++) {
        const struct table_gradient_view view = table_gradient_view(&from->of[i]);
        to->bytes += i == 0 ? from->bytes : 0;
        rc = table_gradient_add(&to->of[i], &view, err);
    }
    return rc;
}

int tables_gradient_join(struct tables_gradient **to, struct tables_gradient **from,
                         struct err *err)
{
    if (*from == NULL) {
        return 0;
    }
    if (*to == NULL) {
        *to = MUTANT(rows_of_second_lost) ? NULL : *from;
        *from = MUTANT(rows_of_second_lost) ? *from : NULL;
        return 0;
    }
    return tables_gradient_add(*to, *from, err);
}

static struct table_gradient_view view_of(const struct tables_gradient *g, size_t table)
{
    struct table_gradient_view view = table_gradient_view(&g->of[table]);
    view.n = table > 0 && MUTANT(rows_of_first_table_said) ? 0 : view.n;
    return view;
}

uint64_t tables_gradient_bytes(const struct tables_gradient *g)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->count; i++) {
        const struct table_gradient_view view = view_of(g, i);
        bytes += table_gradient_bytes(VALUE_FP32, view.n, view.dim);
    }
    return bytes;
}

void tables_gradient_encode(const struct tables_gradient *g, void *out)
{
    unsigned char *to = out;
    for (size_t i = 0; i < g->count; i++) {
        const struct table_gradient_view view = view_of(g, i);
        table_gradient_encode(VALUE_FP32, &view, to);
        to += table_gradient_bytes(VALUE_FP32, view.n, view.dim);
    }
}

/* ---- the tables ---- */

/* Makes @t->tables; with an error some are there. */
static int make(struct shard_tables *t, const struct table_config *configs, size_t count,
                uint64_t version, struct err *err)
{
    int rc = 0;
    t->version = version;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const uint64_t bytes = configs[i].bytes_max + configs[i].copies_bytes_max;
        rc = budget_take(t->budget, bytes, "a table", err);
        t->bytes += rc == 0 ? bytes : 0;
        rc = rc != 0 ? rc : table_new(&configs[i], version, &t->tables[i], err);
        if (rc != 0) {
            return err_wrap(err, "table '%s'", configs[i].name);
        }
    }
    return 0;
}

int shard_tables_new(const struct table_config *configs, size_t count, uint64_t version,
                     struct budget *budget, struct shard_tables **out, struct err *err)
{
    assert(count <= SHARD_TABLES_MAX);
    struct shard_tables *t = mem_new(1, sizeof *t);
    t->budget = budget;
    t->count = count;
    for (size_t i = 0; i < count; i++) {
        t->dims[i] = configs[i].dim;
        t->keeps_previous = configs[i].keeps_previous;
    }
    int rc = make(t, configs, count, version, err);
    if (rc != 0) {
        shard_tables_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

int shard_tables_renew(struct shard_tables *t, const struct table_config *configs, uint64_t version,
                       struct err *err)
{
    shard_tables_close(t);
    t->reader_count = 0;
    int rc = make(t, configs, t->count, version, err);
    if (rc != 0) {
        shard_tables_close(t);
        return rc;
    }
    for (size_t i = 0; i < t->count; i++) {
        table_keep_previous(t->tables[i], t->keeps_previous);
    }
    return 0;
}

void shard_tables_close(struct shard_tables *t)
{
    for (size_t i = 0; i < SHARD_TABLES_MAX; i++) {
        table_free(t->tables[i]);
        t->tables[i] = NULL;
    }
    budget_give(t->budget, t->bytes);
    t->bytes = 0;
}

void shard_tables_free(struct shard_tables *t)
{
    if (t != NULL) {
        shard_tables_close(t);
        free(t);
    }
}

static bool is_nothing(const struct table_shaping *s)
{
    const bool clips = s->clip.norm > 0 || s->clip.value > 0 || s->scaled;
    return !clips && s->l1 == 0 && s->l2 == 0 && s->ridge == 0 && s->decay == 0;
}

void shard_tables_keep_previous(struct shard_tables *t, bool keeps)
{
    const bool changes = keeps != t->keeps_previous && !(MUTANT(previous_as_opened) && keeps);
    for (size_t i = 0; i < t->count && changes; i++) {
        if (t->tables[i] != NULL) {
            table_keep_previous(t->tables[i], keeps);
        }
    }
    t->keeps_previous = keeps;
}

/* False: there were none. */
static bool give_up_readers(struct shard_tables *t)
{
    const bool had = t->reader_count > 0 && !MUTANT(readers_pins_stay);
    for (size_t i = 0; i < t->reader_count && had; i++) {
        shard_tables_unpin(t, t->readers[i]);
    }
    t->reader_count = had ? 0 : t->reader_count;
    return had;
}

static bool is_short(const struct shard_tables *t)
{
    bool found = false;
    for (size_t i = 0; i < t->count; i++) {
        found = found || table_copies_short(t->tables[i]);
    }
    return found;
}

bool shard_tables_short(struct shard_tables *t)
{
    return is_short(t) && (!give_up_readers(t) || is_short(t));
}

int shard_tables_update(struct shard_tables *t, const struct tables_gradient *gradient,
                        uint64_t examples, const struct rule_scalars *scalars,
                        const struct table_shaping *shaping, struct err *err)
{
    int rc = 0;
    (void)(t->reader_count > 0 && shard_tables_short(t));
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        const struct table_step step = {
            .version = t->version + 1,
            .gradient = gradient == NULL ? (struct table_gradient_view){.dim = t->dims[i]}
                                         : table_gradient_view(&gradient->of[i]),
            .gradient_scale = examples == 0 ? 1.0F : 1.0F / (float)examples,
            .scalars = &scalars[i],
            .shaping = is_nothing(&shaping[i]) ? NULL : &shaping[i],
        };
        if (MUTANT(empty_step_is_none) && gradient == NULL) {
            continue;
        }
        rc = table_update(t->tables[i], &step, err);
        if (rc == ERR_EXHAUSTED && give_up_readers(t)) {
            rc = table_update(t->tables[i], &step, err);
        }
        if (rc == ERR_EXHAUSTED && table_give_up_pins(t->tables[i])) {
            rc = table_update(t->tables[i], &step, err);
        }
    }
    t->version++;
    return rc;
}

bool shard_tables_floats(const struct shard_tables *t, const uint32_t *counts, uint64_t *floats)
{
    bool fits = true;
    *floats = 0;
    for (size_t i = 0; i < t->count && fits; i++) {
        uint64_t n;
        fits = !__builtin_mul_overflow((uint64_t)counts[i], t->dims[i], &n) &&
               !__builtin_add_overflow(*floats, n, floats);
    }
    return fits;
}

static int check_keys(const uint64_t *keys, uint32_t n, uint32_t shard, uint32_t shards,
                      struct err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (table_shard_of(keys[i], shards) != shard) {
            return err_set(err, ERR_INVALID, "key %" PRIu64 " is of shard %" PRIu32, keys[i],
                           table_shard_of(keys[i], shards));
        }
        if (i > 0 && keys[i] <= keys[i - 1]) {
            return err_set(err, ERR_INVALID, "key %" PRIu64 " comes behind key %" PRIu64, keys[i],
                           keys[i - 1]);
        }
    }
    return 0;
}

int shard_tables_gather(struct shard_tables *t, uint64_t version, const uint32_t *counts,
                        const uint64_t *keys, uint32_t shard, uint32_t shards, float *out,
                        struct err *err)
{
    for (size_t i = 0; i < t->count; i++) {
        int rc = check_keys(keys, counts[i], shard, shards, err);
        rc = rc != 0 ? rc : table_gather(t->tables[i], version, keys, counts[i], out, err);
        if (rc != 0) {
            return err_wrap(err, "table %zu", i);
        }
        keys += counts[i];
        out += counts[i] * t->dims[i];
    }
    return 0;
}

void shard_tables_pin(struct shard_tables *t)
{
    for (size_t i = 0; i < (MUTANT(first_table_pinned) ? 1 : t->count); i++) {
        uint64_t version;
        int rc = table_pin(t->tables[i], &version, NULL);
        assert(rc == 0 && version == t->version); /* the core keeps fewer than there can be */
        (void)rc;
    }
}

void shard_tables_unpin(struct shard_tables *t, uint64_t version)
{
    for (size_t i = 0; i < t->count; i++) {
        (void)table_unpin(t->tables[i], version, NULL); /* its pin may have been given up */
    }
}

void shard_tables_pin_reader(struct shard_tables *t)
{
    assert(t->reader_count < SHARD_TABLES_READERS_MAX);
    t->readers[t->reader_count++] = t->version;
    shard_tables_pin(t);
}

void shard_tables_unpin_reader(struct shard_tables *t, uint64_t version)
{
    size_t i = 0;
    while (i < t->reader_count && t->readers[i] != version) {
        i++;
    }
    if (i < t->reader_count) { /* else its pin was given up */
        t->readers[i] = t->readers[--t->reader_count];
        shard_tables_unpin(t, version);
    }
}
