/* SPDX-License-Identifier: Apache-2.0 */
/* Evicts rows, and copies them first for readers of old versions. While all rows are listed, a heap
 * keeps the least rows of each bucket, the greatest of them on top; where the buckets together need
 * more than PICKS_MAX, some buckets, or some of the least rows, have their turn in another pass. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "table/table_impl.h"
#include "table/table_line.h"

#define LISTED 256       /* entries at a time */
#define PICKS_MAX 65536U /* of 24 bytes */

struct pick {
    uint64_t rank;
    struct table_entry entry;
};

struct picks {
    struct pick *all;
    uint32_t *first, *room, *count; /* of each bucket, in @all */
};

/* Evicts a row; it is copied to @set first, which has room for it (NULL: no copies). */
static void evict_row(struct table *t, struct table_copy_set *set, const struct table_entry *e)
{
    if (set != NULL && !MUTANT(evicted_under_pin)) {
        table_copy_row(&t->copies, set, e->key, table_rows_note(&t->rows, e->row),
                       table_rows_record(&t->rows, e->row));
    }
    if (table_rows_remove(&t->rows, e->key)) {
        t->bucket_rows[table_bucket(t, e->key)]--;
        t->stats.evicted++;
        if (!MUTANT(gone_not_noted)) {
            table_evicted_add(&t->evicted, e->key, t->making);
        }
    }
}

static bool comes_before(const struct pick *a, const struct pick *b)
{
    return a->rank != b->rank || MUTANT(least_of_any_key) ? a->rank < b->rank
                                                          : a->entry.key < b->entry.key;
}

static void sift_up(struct pick *heap, uint32_t at)
{
    const struct pick p = heap[at];
    while (at > 0 && comes_before(&heap[(at - 1) / 2], &p)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = p;
}

/* @p in the place of the greatest of @n. */
static void replace_top(struct pick *heap, uint32_t n, const struct pick *p)
{
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && comes_before(&heap[child], &heap[child + 1]);
        if (comes_before(&heap[child], p)) {
            break;
        }
        heap[at] = heap[child];
    }
    heap[at] = *p;
}

static void offer(struct picks *picks, uint32_t bucket, const struct pick *p)
{
    struct pick *heap = picks->all + picks->first[bucket];
    const uint32_t count = picks->count[bucket];
    const bool full = count == picks->room[bucket];
    if (picks->room[bucket] == 0 || (full && !comes_before(p, &heap[0]))) {
        return;
    }
    if (full) {
        replace_top(heap, count, p);
        return;
    }
    heap[count] = *p;
    sift_up(heap, count);
    picks->count[bucket]++;
}

static void list_all(struct table *t, struct picks *picks)
{
    struct table_cursor cursor = {0};
    struct table_entry entries[LISTED];
    size_t count;
    while ((count = table_index_next(&t->rows.index, &cursor, entries, LISTED)) > 0) {
        for (size_t i = 0; i < count; i++) {
            __builtin_prefetch(table_rows_note(&t->rows, entries[i].row));
        }
        for (size_t i = 0; i < count; i++) {
            const struct table_note *note = table_rows_note(&t->rows, entries[i].row);
            const struct pick p = {
                .rank = t->eviction.least == TABLE_LEAST_RECENT ? note->seen : note->sightings,
                .entry = entries[i],
            };
            offer(picks, table_bucket(t, entries[i].key), &p);
        }
    }
}

/* Room for each bucket, as much as its quota and PICKS_MAX allow. */
static uint32_t share_out(const struct table *t, struct picks *picks, const uint64_t *quotas)
{
    uint32_t used = 0;
    for (uint32_t b = 0; b < t->bucket_count; b++) {
        const uint32_t left = PICKS_MAX - used;
        picks->first[b] = used;
        picks->room[b] = quotas[b] < left ? (uint32_t)quotas[b] : left;
        picks->count[b] = 0;
        used += picks->room[b];
    }
    return used;
}

/* Of each bucket the @quotas[bucket] least rows go. @quotas is used up. */
static void evict_quotas(struct table *t, struct table_copy_set *set, uint64_t *quotas)
{
    uint32_t numbers[3][TABLE_BUCKETS];
    struct picks picks = {.first = numbers[0], .room = numbers[1], .count = numbers[2]};
    uint32_t used;
    while ((used = share_out(t, &picks, quotas)) > 0) {
        picks.all = mem_new(used, sizeof *picks.all);
        list_all(t, &picks);
        for (uint32_t b = 0; b < t->bucket_count; b++) {
            for (uint32_t i = 0; i < picks.count[b]; i++) {
                evict_row(t, set, &picks.all[picks.first[b] + i].entry);
            }
            quotas[b] -= picks.count[b];
        }
        free(picks.all);
    }
}

/* ---- when the table is full ---- */

void table_evict_room(struct table *t, struct table_copy_set *set, uint64_t going,
                      const uint64_t *keys, size_t n, uint64_t *seen)
{
    struct table_cursor cursor = {0};
    struct table_entry entries[LISTED];
    size_t count;
    for (size_t i = 0; i < n; i++) { /* hidden */
        const uint32_t row = table_index_find(&t->rows.index, keys[i]);
        if (row != TABLE_ROW_NONE) {
            seen[i] = table_rows_note(&t->rows, row)->seen;
            table_rows_note(&t->rows, row)->seen = TABLE_SEEN_UNUSED;
        }
    }
    const struct table_least_limit limit = table_least_find(&t->rows, t->eviction.least, going);
    while ((count = table_index_next(&t->rows.index, &cursor, entries, LISTED)) > 0) {
        for (size_t i = 0; i < count; i++) {
            __builtin_prefetch(table_rows_note(&t->rows, entries[i].row));
        }
        for (size_t i = 0; i < count; i++) {
            if (table_least_has(&t->rows, t->eviction.least, &limit, &entries[i])) {
                evict_row(t, set, &entries[i]);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = table_index_find(&t->rows.index, keys[i]);
        if (row != TABLE_ROW_NONE) {
            table_rows_note(&t->rows, row)->seen = seen[i];
        }
    }
}

/* ---- passes ---- */

static bool passes_now(const struct table *t, uint64_t version)
{
    return version % t->eviction.every == 0;
}

static bool is_unseen(const struct table *t, const struct table_note *note, uint64_t version)
{
    return note->seen <= version &&
           version - note->seen + MUTANT(evicted_early) >= t->eviction.unseen;
}

/* Visits all rows; evicts those that were not seen for too long, or counts them. */
static uint64_t pass(const struct table *t, struct table *changed, struct table_copy_set *set,
                     uint64_t version)
{
    struct table_cursor cursor = {0};
    struct table_entry entries[LISTED];
    uint64_t going = 0;
    size_t count;
    if (t->eviction.unseen == 0 || !passes_now(t, version)) {
        return 0;
    }
    while ((count = table_index_next(&t->rows.index, &cursor, entries, LISTED)) > 0) {
        for (size_t i = 0; i < count; i++) {
            __builtin_prefetch(table_rows_note(&t->rows, entries[i].row));
        }
        for (size_t i = 0; i < count; i++) {
            if (!is_unseen(t, table_rows_note(&t->rows, entries[i].row), version)) {
                continue;
            }
            going++;
            if (changed != NULL) {
                evict_row(changed, set, &entries[i]);
            }
        }
    }
    return going;
}

/* Finds how many rows are above the limit in each bucket; returns the sum. @added: keys of new
 * rows. */
static uint64_t excess(const struct table *t, uint64_t *quotas, const uint64_t *added, size_t n)
{
    uint64_t sum = 0;
    memset(quotas, 0, t->bucket_count * sizeof *quotas);
    for (size_t i = 0; i < n; i++) {
        quotas[table_bucket(t, added[i])]++;
    }
    for (uint32_t b = 0; b < t->bucket_count; b++) {
        const uint64_t rows = quotas[b] + t->bucket_rows[b];
        const uint64_t most = table_bucket_share(t->bucket_first + b, t->eviction.rows_max);
        quotas[b] = rows > most ? rows - most : 0;
        sum += quotas[b];
    }
    return sum;
}

void table_evict_pass(struct table *t, struct table_copy_set *set, uint64_t version)
{
    uint64_t quotas[TABLE_BUCKETS];
    (void)pass(t, t, set, version);
    if (t->eviction.rows_max > 0 && passes_now(t, version) && excess(t, quotas, NULL, 0) > 0) {
        evict_quotas(t, set, quotas);
    }
}

uint64_t table_evict_bound(const struct table *t, uint64_t version, const uint64_t *added, size_t n)
{
    uint64_t quotas[TABLE_BUCKETS];
    uint64_t sum = pass(t, NULL, NULL, version);
    if (t->eviction.rows_max > 0 && passes_now(t, version)) {
        sum += excess(t, quotas, added, n);
    }
    return sum;
}
