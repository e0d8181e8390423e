/* SPDX-License-Identifier: Apache-2.0 */
#include "ps/data/tables_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "parts are little-endian in memory");

enum what { ROWS, COUNTS, BLOCKS };

struct header {
    uint32_t table, what;
    uint64_t n, rows, counts;
};

static size_t slot_floats(const struct rule *rule, size_t slot, size_t dim)
{
    return rule->slot_kinds[slot] == RULE_SLOT_ROW ? 1 : dim;
}

static size_t row_bytes(const struct table *t)
{
    const struct rule *rule = table_rule(t);
    const size_t dim = table_dim(t);
    size_t floats = dim;
    for (size_t k = 0; k < rule->slot_count; k++) {
        floats += slot_floats(rule, k, dim);
    }
    return 2 * sizeof(uint64_t) + sizeof(uint32_t) + floats * sizeof(float);
}

static size_t each_bytes(const struct table *t, uint32_t what)
{
    return what == ROWS     ? row_bytes(t)
           : what == COUNTS ? sizeof(uint64_t) + sizeof(uint32_t)
                            : sizeof(uint64_t) + TABLE_BLOOM_BLOCK;
}

/* Where the arrays of a part of @n are. */
static void lay_rows(const struct table *t, char *at, size_t n, struct table_chunk *chunk)
{
    const struct rule *rule = table_rule(t);
    const size_t dim = table_dim(t);
    chunk->keys = (uint64_t *)(void *)at;
    chunk->seen = chunk->keys + n;
    chunk->sightings = (uint32_t *)(void *)(chunk->seen + n);
    chunk->values = (float *)(void *)(chunk->sightings + n);
    float *slot = chunk->values + n * dim;
    for (size_t k = 0; k < rule->slot_count; k++) {
        chunk->slots[k] = slot;
        slot += n * slot_floats(rule, k, dim);
    }
}

static void lay_counts(char *at, size_t n, struct table_counts_chunk *chunk)
{
    chunk->keys = (uint64_t *)(void *)at;
    chunk->counts = (uint32_t *)(void *)(chunk->keys + n);
    chunk->counters = (uint8_t *)(chunk->keys + n);
}

/* ---- out of tables ---- */

void tables_state_begin(struct tables_state *st, struct shard_tables *t, uint64_t version)
{
    *st = (struct tables_state){.tables = t, .version = version};
}

static void next_list(struct tables_state *st)
{
    st->table += st->counts;
    st->counts = !st->counts;
    st->cursor = (struct table_cursor){0};
}

/* The arrays of a part lie one behind the other: those of @room entries become those of @n. */
static void close_up_rows(const struct table *t, char *at, size_t room, size_t n)
{
    const struct rule *rule = table_rule(t);
    struct table_chunk from = {0}, to = {0};
    lay_rows(t, at, room, &from);
    lay_rows(t, at, n, &to);
    memmove(to.seen, from.seen, n * sizeof *to.seen);
    memmove(to.sightings, from.sightings, n * sizeof *to.sightings);
    memmove(to.values, from.values, n * table_dim(t) * sizeof *to.values);
    for (size_t k = 0; k < rule->slot_count; k++) {
        memmove(to.slots[k], from.slots[k], n * slot_floats(rule, k, table_dim(t)) * sizeof(float));
    }
}

static int read_rows(struct tables_state *st, struct table *t, char *at, size_t room, size_t *n,
                     struct err *err)
{
    const uint64_t version = MUTANT(state_of_present_rows) ? table_version(t) : st->version;
    struct table_chunk chunk = {.capacity = room, .kept = !MUTANT(state_of_rows_as_read)};
    lay_rows(t, at, room, &chunk);
    chunk.sightings = MUTANT(state_without_notes) ? NULL : chunk.sightings;
    int rc = table_walk(t, version, &st->cursor, &chunk, err);
    *n = chunk.n;
    if (rc == 0) {
        close_up_rows(t, at, room, chunk.n);
    }
    return rc;
}

static int read_counts(struct tables_state *st, struct table *t, char *at, size_t room, size_t *n,
                       struct err *err)
{
    const bool exact = table_admission_is_exact(t);
    struct table_counts_chunk chunk = {.capacity = room}, to = {0};
    lay_counts(at, room, &chunk);
    lay_counts(at, 0, &to);
    chunk.counts = exact ? chunk.counts : NULL;
    chunk.counters = exact ? NULL : chunk.counters;
    int rc = table_walk_counts(t, st->version, &st->cursor, &chunk, err);
    *n = MUTANT(state_without_counts) ? 0 : chunk.n;
    lay_counts(at, chunk.n, &to);
    if (rc == 0 && exact) {
        memmove(to.counts, chunk.counts, chunk.n * sizeof *to.counts);
    } else if (rc == 0) {
        memmove(to.counters, chunk.counters, chunk.n * TABLE_BLOOM_BLOCK);
    }
    return rc;
}

static uint32_t what_is_next(const struct tables_state *st, const struct table *t)
{
    return !st->counts ? ROWS : table_admission_is_exact(t) ? COUNTS : BLOCKS;
}

/* At most a part of what is next, into @made; *@bytes 0: there is no more of it. */
static int read_part(struct tables_state *st, struct table *t, char *made, size_t room,
                     size_t *bytes, struct err *err)
{
    const uint32_t what = what_is_next(st, t);
    struct table_stats stats;
    size_t n = 0;
    char *at = made + sizeof(struct header);
    int rc =
        st->counts ? read_counts(st, t, at, room, &n, err) : read_rows(st, t, at, room, &n, err);
    table_stats(t, &stats);
    const struct header h = {(uint32_t)st->table, what, n, stats.rows, stats.counted};
    memcpy(made, &h, sizeof h);
    *bytes = rc == 0 && n > 0 ? sizeof h + n * each_bytes(t, what) : 0;
    return rc;
}

int tables_state_next(struct tables_state *st, void **part, size_t *bytes, struct err *err)
{
    *part = NULL;
    *bytes = 0;
    for (; st->table < st->tables->count; next_list(st)) {
        struct table *t = st->tables->tables[st->table];
        if (t == NULL) {
            return err_set(err, ERR_STATE, "the tables are closed");
        }
        const size_t each = each_bytes(t, what_is_next(st, t));
        const size_t room = TABLES_STATE_PART_BYTES > each ? TABLES_STATE_PART_BYTES / each : 1;
        char *made =
            mem_try_aligned(1, sizeof(struct header) + room * each, "a part of the tables", err);
        if (made == NULL) {
            return ERR_EXHAUSTED;
        }
        const int rc = read_part(st, t, made, room, bytes, err);
        if (*bytes > 0) {
            *part = made;
            return 0;
        }
        free(made);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* ---- and back ---- */

static int check(const struct shard_tables *t, const struct header *h, size_t bytes,
                 struct err *err)
{
    const bool known = h->table < t->count && h->what <= BLOCKS;
    if (!known || t->tables[h->table] == NULL) {
        return err_set(err, known ? ERR_STATE : ERR_INVALID,
                       "a part of table %" PRIu32 ", kind %" PRIu32 "; there are %zu tables",
                       h->table, h->what, t->count);
    }
    const struct table *table = t->tables[h->table];
    const size_t each = each_bytes(table, h->what), left = bytes - sizeof *h;
    if (h->n != left / each || left % each != 0 || h->n == 0) {
        return err_set(err, ERR_INVALID,
                       "a part of table %" PRIu32 " with %" PRIu64 " entries of %zu bytes in %zu",
                       h->table, h->n, each, left);
    }
    if (h->what != ROWS && (h->what == COUNTS) != table_admission_is_exact(table)) {
        return err_set(err, ERR_INVALID, "counts of table %" PRIu32 " of another admission",
                       h->table);
    }
    return 0;
}

int tables_state_take(struct shard_tables *t, const void *part, size_t bytes, struct err *err)
{
    struct header h;
    struct table_stats stats;
    char *at; /* the arrays are only read */
    if (bytes < sizeof h) {
        return err_set(err, ERR_INVALID, "a part of the tables with %zu bytes", bytes);
    }
    memcpy(&h, part, sizeof h);
    int rc = check(t, &h, bytes, err);
    if (rc != 0) {
        return rc;
    }
    memcpy(&at, &part, sizeof at);
    at += sizeof h;
    struct table *table = t->tables[h.table];
    table_stats(table, &stats);
    if (stats.rows == 0 && stats.counted == 0) { /* the first one; it is only about so many */
        (void)table_restore_reserve(table, h.rows, h.counts, NULL);
    }
    if (h.what == ROWS) {
        struct table_chunk chunk = {.n = (size_t)h.n};
        lay_rows(table, at, chunk.n, &chunk);
        return table_restore_rows(table, &chunk, err);
    }
    struct table_counts_chunk chunk = {.n = (size_t)h.n};
    lay_counts(at, chunk.n, &chunk);
    return table_restore_counts(table, &chunk, err);
}
