/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the entries of an index by hash. The least ones are kept in a heap with the
 * greatest of them on top (Williams 1964), which then sorts them. */
#include "table/table_index.h"

#include "table/table_line.h"

VECTOR_INLINE uint64_t hash_of(const struct table_entry *e)
{
    return table_mix(e->key);
}

struct heap { /* a heap of the least entries seen */
    struct table_entry *entries;
    size_t n, max;
    bool cut; /* entries were left out */
};

/* Lets the entry at @at sink to its place among the first @n. */
static void sink(const struct heap *h, size_t n, size_t at)
{
    struct table_entry *a = h->entries;
    const struct table_entry e = a[at];
    const uint64_t hash = hash_of(&e);
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && hash_of(&a[child + 1]) > hash_of(&a[child]);
        if (hash_of(&a[child]) <= hash) {
            break;
        }
        a[at] = a[child];
    }
    a[at] = e;
}

static void heapify(const struct heap *h)
{
    for (size_t at = h->n / 2; at-- > 0;) {
        sink(h, h->n, at);
    }
}

/* The array becomes a heap when it is full. */
static void heap_offer(struct heap *h, const struct table_entry *e)
{
    if (h->n < h->max) {
        h->entries[h->n++] = *e;
        if (h->n == h->max) {
            heapify(h);
        }
        return;
    }
    h->cut = true;
    if (hash_of(e) < hash_of(&h->entries[0])) {
        h->entries[0] = *e;
        sink(h, h->n, 0);
    }
}

static void heap_sort(const struct heap *h)
{
    struct table_entry *a = h->entries;
    if (h->n < h->max) {
        heapify(h);
    }
    for (size_t n = h->n; n > 1;) {
        const struct table_entry last = a[--n];
        a[n] = a[0];
        a[0] = last;
        sink(h, n, 0);
    }
}

static void offer_line(struct heap *h, const struct table_line *line, uint64_t from)
{
    for (uint32_t i = 0; i < line->count; i++) {
        const struct table_entry e = {line->keys[i], line->rows[i]};
        if (hash_of(&e) >= from) {
            heap_offer(h, &e);
        }
    }
}

/* The least hash that is share @line or more of @n; false: there is none. */
static bool hash_of_share(uint64_t line, uint64_t n, uint64_t *hash)
{
    if (line >= n) {
        return false;
    }
    *hash = (uint64_t)((((table_wide)line << 64) + n - 1) / n);
    return true;
}

/* Finds the least hash whose home is @line or behind it; false: there is none. */
static bool hash_of_home(const struct table_index *index, uint64_t line, uint64_t *hash)
{
    uint64_t moved;
    if (line < index->unmoved) {
        return hash_of_share(line, index->homes, hash);
    }
    if (!hash_of_share(index->unmoved, index->homes, &moved) ||
        !hash_of_share(line, index->homes_new, hash)) {
        return false;
    }
    *hash = *hash > moved ? *hash : moved;
    return true;
}

/* Lists the entries from the cursor up to the first line that is not full: no key whose home is in
 * these lines lies behind them. */
static size_t next_run(const struct table_index *index, struct table_cursor *cursor,
                       struct table_entry *out, size_t max)
{
    const struct table_line *lines = table_lines(index);
    struct heap h = {.entries = out, .max = max};
    uint64_t at = table_hash_home(index, cursor->from);
    for (; lines[at].count == TABLE_LINE_KEYS; at++) {
        offer_line(&h, &lines[at], cursor->from);
    }
    offer_line(&h, &lines[at], cursor->from);
    heap_sort(&h);
    if (h.cut) {
        cursor->from = table_mix(out[h.n - 1].key) + 1;
    } else {
        cursor->end = !hash_of_home(index, at + 1, &cursor->from);
    }
    return h.n;
}

size_t table_index_next(const struct table_index *index, struct table_cursor *cursor,
                        struct table_entry *out, size_t max)
{
    size_t n = 0;
    while (!cursor->end && n < max) {
        n += next_run(index, cursor, out + n, max - n);
    }
    return n;
}
