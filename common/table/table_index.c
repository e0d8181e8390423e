/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, inserts and removes keys, and moves lines while the index grows.
 *
 * What always holds: every line from a key's home to the one before its own is full, and the last
 * line of the memory is empty, so that each search ends. */
#include "table/table_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "table/table_line.h"

#define HOMES_MIN 16
#define GROWTH 8        /* a growth adds this part of the homes */
#define USED_PERCENT 85 /* part of the homes that is used when the index begins to grow */
#define RESERVED_PERCENT                                                                           \
    80                      /* of the places in homes that keys of table_index_reserve() will use  \
                             */
#define MOVED_PER_INSERT 16 /* homes */
#define AHEAD 16 /* keys whose lines are on their way, as many as a core has requests for */

int table_index_init(struct table_index *index, struct table_budget *budget, struct err *err)
{
    memset(index, 0, sizeof *index);
    int rc = table_memory_init(&index->memory, budget, budget->bytes_max, err);
    if (rc == 0) {
        rc = table_memory_grow(&index->memory, (HOMES_MIN + 2) * sizeof(struct table_line),
                               "index of a table", err);
    }
    if (rc != 0) {
        table_index_release(index);
        return rc;
    }
    index->homes = index->homes_new = index->unmoved = HOMES_MIN;
    return 0;
}

int table_index_reserve(struct table_index *index, uint64_t n, struct err *err)
{
    const uint64_t share = (uint64_t)TABLE_LINE_KEYS * RESERVED_PERCENT; /* of 100 homes */
    const uint64_t homes = n / share * 100 + n % share * 100 / share + 1;
    assert(index->count == 0 && index->unmoved == index->homes);
    if (homes <= index->homes) {
        return 0;
    }
    int rc = homes > SIZE_MAX / sizeof(struct table_line) - 2
                 ? err_set(err, ERR_EXHAUSTED, "index of a table: %llu keys do not fit in memory",
                           (unsigned long long)n)
                 : table_memory_grow(&index->memory, (homes + 2) * sizeof(struct table_line),
                                     "index of a table", err);
    if (rc == 0) {
        index->homes = index->homes_new = index->unmoved = homes;
    }
    return rc;
}

void table_index_release(struct table_index *index)
{
    if (index->moved != NULL) {
        table_budget_give(index->memory.budget, index->moved_capacity * sizeof(struct table_entry));
    }
    free(index->moved);
    table_memory_release(&index->memory);
    memset(index, 0, sizeof *index);
}

uint32_t table_index_find(const struct table_index *index, uint64_t key)
{
    return table_line_search(table_lines(index) + table_home(index, key), key);
}

void table_index_find_batch(const struct table_index *index, const uint64_t *keys, size_t n,
                            uint32_t *rows)
{
    const struct table_line *lines = table_lines(index);
    const struct table_line *homes[AHEAD]; /* of the next keys */
    for (size_t i = 0; i < n + AHEAD; i++) {
        if (i >= AHEAD) {
            rows[i - AHEAD] = table_line_search(homes[i % AHEAD], keys[i - AHEAD]);
        }
        if (i < n) {
            homes[i % AHEAD] = lines + table_home(index, keys[i]);
            __builtin_prefetch(homes[i % AHEAD]);
        }
    }
}

uint32_t *table_index_at(struct table_index *index, uint64_t key)
{
    for (struct table_line *line = table_lines(index) + table_home(index, key);; line++) {
        const unsigned at = table_line_find(line, key);
        if (at < TABLE_LINE_KEYS) {
            return &line->rows[at];
        }
        if (line->count < TABLE_LINE_KEYS) {
            return NULL;
        }
    }
}

/* Memory for @n more keys wherever they go: all behind the end, at worst. */
static int make_room(struct table_index *index, uint64_t n, struct err *err)
{
    const uint64_t last = index->end > index->homes_new ? index->end : index->homes_new;
    const uint64_t lines = last + n / TABLE_LINE_KEYS + 2;
    return table_memory_grow(&index->memory, lines * sizeof(struct table_line), "index of a table",
                             err);
}

static void place(struct table_index *index, uint64_t key, uint32_t row)
{
    struct table_line *lines = table_lines(index);
    uint64_t at = table_home(index, key);
    while (lines[at].count == TABLE_LINE_KEYS) {
        at++;
    }
    struct table_line *line = &lines[at];
    line->keys[line->count] = key;
    line->rows[line->count++] = row;
    index->end = at >= index->end ? at + 1 : index->end;
}

static int moved_reserve(struct table_index *index, size_t n, struct err *err)
{
    if (n <= index->moved_capacity) {
        return 0;
    }
    const size_t more = n - index->moved_capacity;
    int rc = table_budget_take(index->memory.budget, more * sizeof(struct table_entry),
                               "index of a table", err);
    if (rc != 0) {
        return rc;
    }
    struct table_entry *moved = realloc(index->moved, n * sizeof *moved);
    if (moved == NULL) {
        table_budget_give(index->memory.budget, more * sizeof *moved);
        return err_set(err, ERR_EXHAUSTED, "index of a table: no memory for %zu keys", n);
    }
    index->moved = moved;
    index->moved_capacity = n;
    return 0;
}

/* Takes all keys out of the lines @from to @to. */
static size_t take_out(struct table_index *index, uint64_t from, uint64_t to)
{
    struct table_line *lines = table_lines(index);
    size_t n = 0;
    for (uint64_t at = from; at <= to; at++) {
        for (uint32_t i = 0; i < lines[at].count; i++) {
            index->moved[n++] = (struct table_entry){lines[at].keys[i], lines[at].rows[i]};
        }
        lines[at].count = 0;
    }
    return n;
}

/* Gives the last unmoved homes their new place. Their keys are in them and, as far as these are
 * full, in lines behind; keys of others that lie there go back to where they belong. */
static int move_some(struct table_index *index, struct err *err)
{
    const uint64_t from = index->unmoved > MOVED_PER_INSERT ? index->unmoved - MOVED_PER_INSERT : 0;
    uint64_t to = index->unmoved - 1;
    while (table_lines(index)[to].count == TABLE_LINE_KEYS) {
        to++;
    }
    const size_t keys_max = (to - from + 1) * TABLE_LINE_KEYS;
    int rc = moved_reserve(index, keys_max, err);
    rc = rc == 0 ? make_room(index, keys_max, err) : rc;
    if (rc != 0) {
        return rc;
    }
    const size_t n = take_out(index, from, to);
    index->unmoved = from;
    for (size_t i = 0; i < n; i++) {
        place(index, index->moved[i].key, index->moved[i].row);
    }
    if (from == 0) {
        index->homes = index->unmoved = index->homes_new;
    }
    return 0;
}

/* Begins to grow when it is time, and goes on with growing. */
static int grow(struct table_index *index, struct err *err)
{
    if (index->unmoved == index->homes &&
        index->count >= index->homes * TABLE_LINE_KEYS * USED_PERCENT / 100) {
        const uint64_t before = index->homes;
        index->homes_new = before + before / GROWTH;
        int rc = make_room(index, 1, err);
        if (rc != 0) {
            index->homes_new = before;
            return rc;
        }
        return move_some(index, err);
    }
    return index->unmoved < index->homes ? move_some(index, err) : 0;
}

int table_index_insert(struct table_index *index, uint64_t key, uint32_t row, struct err *err)
{
    if (table_index_find(index, key) != TABLE_ROW_NONE) {
        return err_set(err, ERR_EXISTS, "key %llu is in the index", (unsigned long long)key);
    }
    int rc = grow(index, err);
    rc = rc == 0 ? make_room(index, 1, err) : rc;
    if (rc != 0) {
        return rc;
    }
    place(index, key, row);
    index->count++;
    return 0;
}

/* The first key behind line @hole that may lie in it: one whose home is not behind it. Stops at the
 * line @to that has it, or at a line that is not full: no key went past that. */
static unsigned find_filler(const struct table_index *index, uint64_t hole, uint64_t *to)
{
    const struct table_line *lines = table_lines(index);
    for (uint64_t at = hole + 1;; at++) {
        for (unsigned i = 0; i < lines[at].count; i++) {
            if (table_home(index, lines[at].keys[i]) <= hole) {
                *to = at;
                return i;
            }
        }
        if (lines[at].count < TABLE_LINE_KEYS) {
            *to = at;
            return TABLE_LINE_KEYS;
        }
    }
}

/* Takes entry @i out of line @at; the last one of the line gets its place. */
static void drop_entry(struct table_line *line, unsigned i)
{
    line->count--;
    line->keys[i] = line->keys[line->count];
    line->rows[i] = line->rows[line->count];
}

uint32_t table_index_remove(struct table_index *index, uint64_t key)
{
    struct table_line *lines = table_lines(index);
    uint64_t at = table_home(index, key);
    unsigned i;
    while ((i = table_line_find(&lines[at], key)) == TABLE_LINE_KEYS) {
        if (lines[at].count < TABLE_LINE_KEYS) {
            return TABLE_ROW_NONE;
        }
        at++;
    }
    const uint32_t row = lines[at].rows[i];
    bool was_full = lines[at].count == TABLE_LINE_KEYS;
    drop_entry(&lines[at], i);
    while (was_full) {
        uint64_t from;
        i = find_filler(index, at, &from);
        if (i == TABLE_LINE_KEYS) {
            break;
        }
        struct table_line *hole = &lines[at];
        hole->keys[hole->count] = lines[from].keys[i];
        hole->rows[hole->count++] = lines[from].rows[i];
        was_full = lines[from].count == TABLE_LINE_KEYS;
        drop_entry(&lines[from], i);
        at = from;
    }
    index->count--;
    return row;
}
