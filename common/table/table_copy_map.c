/* SPDX-License-Identifier: Apache-2.0 */
/* Invariant: an entry lies at its home or behind it, all places from the home to it are taken, and
 * hashes rise. So a search ends at a free place or at a greater hash. */
#include "table/table_copy_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "table/table_line.h"

#define FIT_MIN 64

static uint64_t bytes_of(size_t homes)
{
    return (uint64_t)homes * sizeof(struct table_copy);
}

static size_t home_of(const struct table_copy_map *m, uint64_t hash)
{
    return (size_t)table_share(hash, m->homes);
}

void table_copy_map_clear(struct table_copy_map *m)
{
    for (size_t i = 0; m->count > 0; i++) {
        m->count -= m->entries[i].taken;
        m->entries[i].taken = 0;
    }
}

void table_copy_map_release(struct table_copy_map *m)
{
    if (m->entries != NULL) {
        table_budget_give(m->budget, bytes_of(m->homes));
    }
    free(m->entries);
    *m = (struct table_copy_map){.budget = m->budget};
}

static int make(struct table_copy_map *m, size_t fit, struct err *err)
{
    static const char what[] = "copies of rows";
    const size_t homes = fit + fit / 2;
    int rc = table_budget_take(m->budget, bytes_of(homes), what, err);
    if (rc != 0) {
        return rc;
    }
    struct table_copy *entries = calloc(homes + fit, sizeof *entries);
    if (entries == NULL) {
        table_budget_give(m->budget, bytes_of(homes));
        return err_set(err, ERR_EXHAUSTED, "%s: no memory for %zu", what, fit);
    }
    m->entries = entries;
    m->homes = homes;
    m->fit = fit;
    return 0;
}

int table_copy_map_reserve(struct table_copy_map *m, size_t n, struct err *err)
{
    const size_t need = m->count + n;
    if (need <= m->fit) {
        return 0;
    }
    const size_t more = m->fit + m->fit / 2;
    struct table_copy_map larger = {.budget = m->budget};
    int rc = make(&larger, need < FIT_MIN ? FIT_MIN : need < more ? more : need, NULL);
    rc = rc == 0 ? 0 : make(&larger, need, err); /* the last pieces are as small as can be */
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; larger.count < m->count; i++) {
        if (m->entries[i].taken) {
            (void)table_copy_map_insert(&larger, m->entries[i].hash, m->entries[i].number);
        }
    }
    table_copy_map_release(m);
    *m = larger;
    return 0;
}

void table_copy_map_fetch(const struct table_copy_map *m, uint64_t hash)
{
    if (m->entries != NULL) {
        __builtin_prefetch(m->entries + home_of(m, hash));
    }
}

uint32_t table_copy_map_find(const struct table_copy_map *m, uint64_t hash)
{
    if (m->count == 0) {
        return TABLE_ROW_NONE;
    }
    const struct table_copy *e = m->entries + home_of(m, hash);
    while (e->taken && e->hash < hash) {
        e++;
    }
    return e->taken && e->hash == hash ? e->number : TABLE_ROW_NONE;
}

bool table_copy_map_insert(struct table_copy_map *m, uint64_t hash, uint32_t number)
{
    struct table_copy *e = m->entries + home_of(m, hash);
    while (e->taken && e->hash < hash) {
        e++;
    }
    if (e->taken && e->hash == hash) {
        return false;
    }
    struct table_copy carried = {.hash = hash, .number = number, .taken = 1};
    for (; carried.taken; e++) {
        const struct table_copy next = *e;
        *e = carried;
        carried = next;
    }
    m->count++;
    return true;
}

size_t table_copy_map_next(const struct table_copy_map *m, uint64_t from, struct table_copy *out,
                           size_t max)
{
    size_t n = 0;
    if (m->count == 0) {
        return 0;
    }
    for (size_t i = home_of(m, from); i < m->homes + m->fit && n < max; i++) {
        if (m->entries[i].taken && m->entries[i].hash >= from) {
            out[n++] = m->entries[i];
        }
    }
    return n;
}
