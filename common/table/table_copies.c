/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the sets of copies. */
#include "table/table_copies.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "table/table_line.h"

#define WHAT "copies of rows for pinned versions"
#define SPARE_BYTES_MAX ((size_t)16 << 20)
#define SPARSE 4096 /* entries */

void table_copies_init(struct table_copies *c, size_t stride, uint64_t bytes_max, bool keeps_spare)
{
    *c = (struct table_copies){
        .budget = {.bytes_max = bytes_max},
        .stride = stride,
        .record_bytes = (sizeof(struct table_note) + stride * sizeof(float) + 7) / 8 * 8,
        .keeps_spare = keeps_spare,
    };
}

static void free_set(struct table_copy_set *s)
{
    if (s != NULL) {
        table_copy_map_release(&s->map);
        table_copy_map_release(&s->counts);
        table_memory_release(&s->records);
        table_memory_release(&s->blocks);
        free(s);
    }
}

void table_copies_keep_spare(struct table_copies *c, bool keeps)
{
    c->keeps_spare = keeps;
    if (!keeps) {
        free_set(c->spare);
        c->spare = NULL;
    }
}

void table_copies_release(struct table_copies *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free_set(c->sets[i]);
    }
    free_set(c->spare);
    c->count = 0;
    c->spare = NULL;
}

static int make_set(struct table_copies *c, struct table_copy_set **out, struct err *err)
{
    struct table_copy_set *s = c->spare;
    c->spare = NULL;
    int rc = 0;
    if (s == NULL) {
        s = mem_new(1, sizeof *s);
        s->map.budget = s->counts.budget = &c->budget;
        rc = table_memory_init(&s->records, &c->budget, c->budget.bytes_max, err);
        rc = rc == 0 ? table_memory_init(&s->blocks, &c->budget, c->budget.bytes_max, err) : rc;
    }
    if (rc != 0) {
        free_set(s);
        return rc;
    }
    *out = s;
    return 0;
}

int table_copies_add(struct table_copies *c, uint64_t version, uint64_t rows,
                     struct table_copy_set **out, struct err *err)
{
    struct table_copy_set *s = NULL;
    if (c->count == TABLE_SETS_MAX) {
        return err_set(err, ERR_EXHAUSTED, WHAT ": %d versions already", TABLE_SETS_MAX);
    }
    int rc = make_set(c, &s, err);
    if (rc != 0) {
        return rc;
    }
    s->version = version;
    s->rows = rows;
    c->sets[c->count++] = s;
    *out = s;
    return 0;
}

struct table_copy_set *table_copies_newest(const struct table_copies *c)
{
    return c->count == 0 ? NULL : c->sets[c->count - 1];
}

size_t table_copies_find(const struct table_copies *c, uint64_t version)
{
    size_t i = 0;
    while (i < c->count && c->sets[i]->version != version) {
        i++;
    }
    return i;
}

unsigned table_copies_pinned(const struct table_copies *c)
{
    unsigned n = 0;
    for (size_t i = 0; i < c->count; i++) {
        n += c->sets[i]->pins > 0;
    }
    return n;
}

/* Frees a set, but keeps its memory for the next one when that is little: a set for the previous
 * version comes and goes with each update. */
static void retire(struct table_copies *c, struct table_copy_set *s)
{
    const bool sparse = s->map.fit > SPARSE + 4 * s->map.count; /* slow to clear and to list */
    if (!c->keeps_spare || c->spare != NULL || s->records.bytes > SPARE_BYTES_MAX || sparse ||
        s->blocks.bytes > 0) {
        free_set(s);
        return;
    }
    table_copy_map_clear(&s->map);
    table_copy_map_clear(&s->counts);
    s->made = 0;
    s->pins = 0;
    c->spare = s;
}

int table_copies_reserve_drop(struct table_copies *c, size_t i, struct err *err)
{
    const struct table_copy_set *to = c->sets[i - 1], *from = c->sets[i];
    const bool blocks = from->blocks_made > 0;
    struct table_copy_room room = {0};
    for (size_t at = 0, n = 0; n < from->map.count; at++) {
        const struct table_copy *e = &from->map.entries[at];
        if (e->taken) {
            n++;
            const bool is_new = table_copy_map_find(&to->map, e->hash) == TABLE_ROW_NONE;
            *(e->number == TABLE_COPY_ABSENT ? &room.absent : &room.rows) += is_new;
        }
    }
    for (size_t at = 0, n = 0; n < from->counts.count; at++) {
        const struct table_copy *e = &from->counts.entries[at];
        if (e->taken) {
            n++;
            const bool is_new = table_copy_map_find(&to->counts, e->hash) == TABLE_ROW_NONE;
            *(blocks ? &room.blocks : &room.counts) += is_new;
        }
    }
    return table_copy_set_reserve(c, c->sets[i - 1], &room, err);
}

/* Moves the copies of @from to @to, which keeps its own. */
static void merge(struct table_copies *c, struct table_copy_set *to,
                  const struct table_copy_set *from)
{
    for (size_t i = 0, n = 0; n < from->map.count; i++) {
        const struct table_copy *e = &from->map.entries[i];
        if (!e->taken) {
            continue;
        }
        n++;
        if (e->number == TABLE_COPY_ABSENT) {
            (void)table_copy_map_insert(&to->map, e->hash, e->number);
        } else if (table_copy_map_insert(&to->map, e->hash, to->made)) {
            memcpy(table_copy_note(c, to, to->made), table_copy_note(c, from, e->number),
                   c->record_bytes);
            to->made++;
        }
    }
    for (size_t i = 0, n = 0; n < from->counts.count; i++) {
        const struct table_copy *e = &from->counts.entries[i];
        if (!e->taken) {
            continue;
        }
        n++;
        if (from->blocks_made > 0) {
            table_copy_block(to, table_unmix(e->hash),
                             (const uint8_t *)from->blocks.base +
                                 (size_t)e->number * TABLE_BLOOM_BLOCK);
        } else {
            (void)table_copy_map_insert(&to->counts, e->hash, e->number);
        }
    }
}

bool table_copies_drop(struct table_copies *c, size_t i)
{
    struct table_copy_set *s = c->sets[i];
    if (i > 0) {
        if (table_copies_reserve_drop(c, i, NULL) != 0) {
            return false;
        }
        if (!MUTANT(unpin_forgets)) {
            merge(c, c->sets[i - 1], s);
        }
    }
    c->count--;
    memmove(c->sets + i, c->sets + i + 1, (c->count - i) * sizeof c->sets[0]);
    retire(c, s);
    return true;
}

static int reserve(struct table_copies *c, struct table_copy_set *s,
                   const struct table_copy_room *room, struct err *err)
{
    int rc = table_copy_map_reserve(&s->map, room->rows + room->absent, err);
    rc = rc == 0 ? table_copy_map_reserve(&s->counts, room->counts + room->blocks, err) : rc;
    if (rc == 0 && room->rows > 0) {
        rc = table_memory_grow(&s->records, (s->made + room->rows) * c->record_bytes, WHAT, err);
    }
    if (rc == 0 && room->blocks > 0) {
        rc = table_memory_grow(&s->blocks, (s->blocks_made + room->blocks) * TABLE_BLOOM_BLOCK,
                               WHAT, err);
    }
    return rc;
}

int table_copy_set_reserve(struct table_copies *c, struct table_copy_set *s,
                           const struct table_copy_room *room, struct err *err)
{
    if (s->made + (uint64_t)room->rows >= TABLE_COPY_ABSENT ||
        s->blocks_made + (uint64_t)room->blocks >= TABLE_COPY_ABSENT) {
        return err_set(err, ERR_EXHAUSTED, WHAT ": no more than %u", TABLE_COPY_ABSENT);
    }
    if (c->spare != NULL && reserve(c, s, room, NULL) != 0) {
        free_set(c->spare);
        c->spare = NULL;
    }
    return reserve(c, s, room, err);
}

void table_copy_fetch(const struct table_copy_set *s, uint64_t key)
{
    table_copy_map_fetch(&s->map, table_mix(key));
}

void table_copy_row(struct table_copies *c, struct table_copy_set *s, uint64_t key,
                    const struct table_note *note, const float *record)
{
    if (table_copy_map_insert(&s->map, table_mix(key), s->made)) {
        *table_copy_note(c, s, s->made) = *note;
        memcpy(table_copy_record(c, s, s->made), record, c->stride * sizeof *record);
        s->made++;
    }
}

void table_copy_no_row(struct table_copy_set *s, uint64_t key)
{
    (void)table_copy_map_insert(&s->map, table_mix(key), TABLE_COPY_ABSENT);
}

void table_copy_count(struct table_copy_set *s, uint64_t key, uint32_t count)
{
    (void)table_copy_map_insert(&s->counts, table_mix(key), count);
}

void table_copy_block(struct table_copy_set *s, uint64_t number, const uint8_t *counters)
{
    if (table_copy_map_insert(&s->counts, table_mix(number), s->blocks_made)) {
        memcpy(s->blocks.base + (size_t)s->blocks_made * TABLE_BLOOM_BLOCK, counters,
               TABLE_BLOOM_BLOCK);
        s->blocks_made++;
    }
}
