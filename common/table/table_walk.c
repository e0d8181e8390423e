/* SPDX-License-Identifier: Apache-2.0 */
/* Lists a table as of a version, and puts rows into an empty one. The copies and the table itself
 * are streams in the order of hashes, which are merged: of a row that is in several, the copy of
 * the oldest version is right. */
#include <inttypes.h>
#include <string.h>

#include "base/mutant.h"
#include "table/table_impl.h"
#include "table/table_line.h"

#define LISTED 64 /* entries of a stream at a time */

struct stream {
    struct table_copy entries[LISTED];
    size_t at, n;
    bool cut; /* the stream goes on behind these */
};

/* @notes: fetches the notes of these rows, which are read soon; NULL: there are none. */
static void read_index(const struct table_index *index, const struct table_rows *notes,
                       uint64_t from, struct stream *s)
{
    struct table_cursor cursor = {.from = from};
    struct table_entry entries[LISTED];
    s->n = table_index_next(index, &cursor, entries, LISTED);
    for (size_t i = 0; notes != NULL && i < s->n; i++) {
        __builtin_prefetch(table_rows_note(notes, entries[i].row));
    }
    for (size_t i = 0; i < s->n; i++) {
        s->entries[i] = (struct table_copy){table_mix(entries[i].key), entries[i].row, 1};
    }
}

/* One merge: the streams of sets from @first on, and of the table, the last. */
struct merge {
    const struct table *t;
    size_t first, count;
    bool counts;
    struct table_cursor *cursor;
    struct stream streams[TABLE_SETS_MAX + 1];
};

static void read_stream(struct merge *m, size_t i, uint64_t from)
{
    const struct table *t = m->t;
    struct stream *s = &m->streams[i];
    s->at = 0;
    if (i + 1 == m->count) {
        read_index(m->counts ? &t->admission.counts : &t->rows.index, m->counts ? NULL : &t->rows,
                   from, s);
    } else {
        const struct table_copy_set *set = t->copies.sets[m->first + i];
        s->n = table_copy_map_next(m->counts ? &set->counts : &set->map, from, s->entries, LISTED);
    }
    s->cut = s->n == LISTED && s->entries[LISTED - 1].hash < UINT64_MAX;
}

static void merge_begin(struct merge *m, const struct table *t, size_t first, bool counts,
                        struct table_cursor *cursor)
{
    m->t = t;
    m->first = first;
    m->count = t->copies.count - first + 1;
    m->counts = counts;
    m->cursor = cursor;
    for (size_t i = 0; !cursor->end && i < m->count; i++) {
        read_stream(m, i, cursor->from);
    }
}

/* The next entry, and the set that it is of: NULL: the table's own. False: that was all. */
static bool merge_next(struct merge *m, struct table_copy *out, const struct table_copy_set **set)
{
    size_t least = m->count;
    for (size_t i = 0; !m->cursor->end && i < m->count; i++) {
        struct stream *s = &m->streams[i];
        if (s->at == s->n && s->cut) {
            read_stream(m, i, s->entries[s->n - 1].hash + 1);
        }
        if (s->at < s->n &&
            (least == m->count ||
             s->entries[s->at].hash < m->streams[least].entries[m->streams[least].at].hash)) {
            least = i;
        }
    }
    if (least == m->count) {
        m->cursor->end = true;
        return false;
    }
    *out = m->streams[least].entries[m->streams[least].at];
    *set = least + 1 == m->count ? NULL : m->t->copies.sets[m->first + least];
    for (size_t i = 0; i < m->count; i++) {
        struct stream *s = &m->streams[i];
        s->at += s->at < s->n && s->entries[s->at].hash == out->hash;
    }
    m->cursor->from = out->hash + 1;
    m->cursor->end = out->hash == UINT64_MAX;
    return true;
}

/* ---- rows ---- */

static void put_row(const struct table *t, uint64_t version, struct table_chunk *chunk,
                    uint64_t key, const struct table_note *note, const float *record)
{
    const struct table_rows *rows = &t->rows;
    const struct table_catch_up up = {.past = t->past, .version = version};
    const bool behind =
        !chunk->kept && up.past != NULL && rows->rule->catch_up != NULL && note->seen < up.version;
    const size_t at = chunk->n++;
    if (behind) {
        memcpy(rows->scratch, record, rows->stride * sizeof(float));
        table_rows_catch_up(rows, &up, note->seen, rows->scratch);
        record = rows->scratch;
    }
    if (chunk->keys != NULL) {
        chunk->keys[at] = key;
    }
    if (chunk->values != NULL) {
        memcpy(chunk->values + at * rows->dim, record, rows->dim * sizeof(float));
    }
    for (size_t k = 0; k < rows->rule->slot_count; k++) {
        const size_t n = rows->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : rows->dim;
        if (chunk->slots[k] != NULL) {
            memcpy(chunk->slots[k] + at * n, record + rows->slot_at[k], n * sizeof(float));
        }
    }
    if (chunk->seen != NULL) {
        chunk->seen[at] = behind ? up.version : note->seen;
    }
    if (chunk->sightings != NULL) {
        chunk->sightings[at] = note->sightings;
    }
}

uint64_t table_walk_order(uint64_t key)
{
    return table_mix(key);
}

int table_walk(struct table *t, uint64_t version, struct table_cursor *cursor,
               struct table_chunk *chunk, struct err *err)
{
    struct merge m;
    struct table_copy e;
    const struct table_copy_set *set = NULL;
    size_t first = 0;
    int rc = table_find_version(t, version, &first, err);
    chunk->n = 0;
    if (rc != 0) {
        return rc;
    }
    merge_begin(&m, t, first, false, cursor);
    for (size_t looks = 0; chunk->n < chunk->capacity && !(looks > 0 && looks == chunk->looks) &&
                           merge_next(&m, &e, &set);
         looks++) {
        if (set != NULL && e.number == TABLE_COPY_ABSENT) {
            continue;
        }
        const struct table_note *note = set == NULL ? table_rows_note(&t->rows, e.number)
                                                    : table_copy_note(&t->copies, set, e.number);
        if (!chunk->changed || note->seen > chunk->since + MUTANT(delta_misses_first)) {
            put_row(t, version, chunk, table_unmix(e.hash), note,
                    set == NULL ? table_rows_record(&t->rows, e.number)
                                : table_copy_record(&t->copies, set, e.number));
        }
    }
    return 0;
}

/* The key of row @i gets it; it is of this shard. */
static int restore_one(struct table *t, const struct table_chunk *chunk, size_t i, struct err *err)
{
    struct table_rows *rows = &t->rows;
    const uint64_t key = chunk->keys[i];
    if (table_index_find(&rows->index, key) != TABLE_ROW_NONE) {
        return err_set(err, ERR_CORRUPT, "table %s: key %" PRIu64 " comes twice", t->name, key);
    }
    if (rows->index.count >= t->rows_fit) {
        return err_set(err, ERR_EXHAUSTED,
                       "table %s: it is full: %" PRIu64 " rows fit in %" PRIu64 " bytes", t->name,
                       t->rows_fit, rows->budget.bytes_max);
    }
    int rc = table_rows_add(rows, &key, 1, t->version, err);
    if (rc != 0) {
        return err_wrap(err, "table %s", t->name);
    }
    const uint32_t row = table_index_find(&rows->index, key);
    float *record = table_rows_record(rows, row);
    struct table_note *note = table_rows_note(rows, row);
    if (chunk->values != NULL) {
        memcpy(record, chunk->values + i * rows->dim, rows->dim * sizeof(float));
    }
    for (size_t k = 0; k < rows->rule->slot_count; k++) {
        const size_t n = rows->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : rows->dim;
        if (chunk->slots[k] != NULL) {
            memcpy(record + rows->slot_at[k], chunk->slots[k] + i * n, n * sizeof(float));
        }
    }
    note->seen = chunk->seen != NULL && !MUTANT(restored_as_new) ? chunk->seen[i] : note->seen;
    note->sightings = chunk->sightings != NULL ? chunk->sightings[i] : note->sightings;
    t->bucket_rows[table_bucket(t, key)]++;
    return 0;
}

static int check_open(const struct table *t, struct err *err)
{
    return t->opened ? err_set(err, ERR_STATE, "table %s: it is in use already", t->name) : 0;
}

int table_restore_reserve(struct table *t, uint64_t rows, uint64_t counts, struct err *err)
{
    int rc = check_open(t, err);
    if (rc == 0 && (t->rows.index.count > 0 || t->admission.counts.count > 0)) {
        rc = err_set(err, ERR_STATE, "table %s: it has rows already", t->name);
    }
    if (rc != 0) {
        return rc;
    }
    rc = table_index_reserve(&t->rows.index, rows, err);
    if (rc == 0 && t->admission.kind == TABLE_ADMIT_COUNTED) {
        rc = table_index_reserve(&t->admission.counts, counts, err);
    }
    return rc == 0 ? 0 : err_wrap(err, "table %s", t->name);
}

int table_restore_rows(struct table *t, const struct table_chunk *chunk, struct err *err)
{
    int rc = check_open(t, err);
    for (size_t i = 0; rc == 0 && i < chunk->n; i++) {
        if (chunk->seen != NULL && chunk->seen[i] > t->version) {
            return err_set(err, ERR_CORRUPT,
                           "table %s: key %" PRIu64 " was seen at version %" PRIu64
                           ", after %" PRIu64,
                           t->name, chunk->keys[i], chunk->seen[i], t->version);
        }
        if (table_shard_of(chunk->keys[i], t->shards) == t->shard) {
            rc = restore_one(t, chunk, i, err);
        }
    }
    return rc;
}

/* ---- counts ---- */

static void walk_keys(struct table *t, size_t first, struct table_cursor *cursor,
                      struct table_counts_chunk *chunk)
{
    struct merge m;
    struct table_copy e;
    const struct table_copy_set *set = NULL;
    merge_begin(&m, t, first, true, cursor);
    while (chunk->n < chunk->capacity && merge_next(&m, &e, &set)) {
        if (e.number == TABLE_COPY_ABSENT && set != NULL) {
            continue;
        }
        if (chunk->keys != NULL) {
            chunk->keys[chunk->n] = table_unmix(e.hash);
        }
        if (chunk->counts != NULL) {
            chunk->counts[chunk->n] = e.number;
        }
        chunk->n++;
    }
}

/* Block @number as it was. */
static const uint8_t *block_of(const struct table *t, size_t first, uint64_t number)
{
    for (size_t i = first; i < t->copies.count; i++) {
        const struct table_copy_set *set = t->copies.sets[i];
        const uint32_t copy = table_copy_map_find(&set->counts, table_mix(number));
        if (copy != TABLE_ROW_NONE) {
            return (const uint8_t *)set->blocks.base + (size_t)copy * TABLE_BLOOM_BLOCK;
        }
    }
    return t->admission.counters + (number - table_first_block(t)) * TABLE_BLOOM_BLOCK;
}

/* The cursor counts this shard's blocks. */
static void walk_blocks(struct table *t, size_t first, struct table_cursor *cursor,
                        struct table_counts_chunk *chunk)
{
    static const uint8_t zeros[TABLE_BLOOM_BLOCK];
    const uint64_t blocks = t->admission.counter_count / TABLE_BLOOM_BLOCK;
    for (; cursor->from < blocks && chunk->n < chunk->capacity; cursor->from++) {
        const uint64_t number = table_first_block(t) + cursor->from;
        const uint8_t *block = block_of(t, first, number);
        if (memcmp(block, zeros, sizeof zeros) == 0) {
            continue;
        }
        if (chunk->keys != NULL) {
            chunk->keys[chunk->n] = number;
        }
        if (chunk->counters != NULL) {
            memcpy(chunk->counters + chunk->n * TABLE_BLOOM_BLOCK, block, TABLE_BLOOM_BLOCK);
        }
        chunk->n++;
    }
    cursor->end = cursor->from == blocks;
}

/* Of the version before the present one counts are not copied, unless it is pinned. */
static int find_pinned(const struct table *t, uint64_t version, size_t *first, struct err *err)
{
    int rc = table_find_version(t, version, first, err);
    if (rc == 0 && *first < t->copies.count && t->copies.sets[*first]->pins == 0) {
        return err_set(err, ERR_RANGE, "table %s: version %" PRIu64 " is not pinned", t->name,
                       version);
    }
    return rc;
}

int table_walk_counts(struct table *t, uint64_t version, struct table_cursor *cursor,
                      struct table_counts_chunk *chunk, struct err *err)
{
    size_t first = 0;
    int rc = find_pinned(t, version, &first, err);
    chunk->n = 0;
    if (rc != 0) {
        return rc;
    }
    if (t->admission.kind == TABLE_ADMIT_COUNTED) {
        walk_keys(t, first, cursor, chunk);
    } else if (t->admission.kind == TABLE_ADMIT_BLOOM) {
        walk_blocks(t, first, cursor, chunk);
    }
    return 0;
}

int table_count_counts(struct table *t, uint64_t version, uint64_t *count, struct err *err)
{
    struct table_cursor cursor = {0};
    struct table_counts_chunk chunk = {.capacity = SIZE_MAX};
    int rc = table_walk_counts(t, version, &cursor, &chunk, err);
    if (rc == 0) {
        *count = chunk.n;
    }
    return rc;
}

static int restore_count(struct table *t, uint64_t key, uint32_t count, struct err *err)
{
    struct table_admission *a = &t->admission;
    if (table_shard_of(key, t->shards) != t->shard) {
        return 0;
    }
    if (table_index_find(&a->counts, key) != TABLE_ROW_NONE || count >= TABLE_COPY_ABSENT) {
        return err_set(err, ERR_CORRUPT, "table %s: sightings of key %" PRIu64 " come twice, or %u",
                       t->name, key, count);
    }
    int rc = table_index_insert(&a->counts, key, count, err);
    return rc == 0 ? 0 : err_wrap(err, "table %s: sightings of key %" PRIu64, t->name, key);
}

static int restore_block(struct table *t, uint64_t number, const uint8_t *block, struct err *err)
{
    static const uint8_t zeros[TABLE_BLOOM_BLOCK];
    struct table_admission *a = &t->admission;
    const uint64_t all = (uint64_t)TABLE_BUCKETS * (a->bucket_counters / TABLE_BLOOM_BLOCK);
    const uint64_t at = number - table_first_block(t);
    if (number >= all) {
        return err_set(err, ERR_CORRUPT,
                       "table %s: block %" PRIu64 " of a Bloom filter of %" PRIu64, t->name, number,
                       all);
    }
    if (number < table_first_block(t) || at >= a->counter_count / TABLE_BLOOM_BLOCK) {
        return 0;
    }
    if (memcmp(a->counters + at * TABLE_BLOOM_BLOCK, zeros, sizeof zeros) != 0) {
        return err_set(err, ERR_CORRUPT,
                       "table %s: block %" PRIu64 " of its Bloom filter comes twice", t->name,
                       number);
    }
    memcpy(a->counters + at * TABLE_BLOOM_BLOCK, block, TABLE_BLOOM_BLOCK);
    return 0;
}

int table_restore_counts(struct table *t, const struct table_counts_chunk *chunk, struct err *err)
{
    struct table_admission *a = &t->admission;
    int rc = check_open(t, err);
    for (size_t i = 0; rc == 0 && i < chunk->n && !MUTANT(counts_not_restored); i++) {
        const uint64_t number = chunk->keys[i];
        if (a->kind == TABLE_ADMIT_COUNTED) {
            rc = restore_count(t, number, chunk->counts[i], err);
        } else if (a->kind == TABLE_ADMIT_BLOOM) {
            rc = restore_block(t, number, chunk->counters + i * TABLE_BLOOM_BLOCK, err);
        }
    }
    return rc;
}
