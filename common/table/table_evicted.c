/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps notes of evicted rows in one array. */
#include "table/table_evicted.h"

#include <stdlib.h>
#include <string.h>

#define NOTES_MIN 256

void table_evicted_init(struct table_evicted *e, struct table_budget *budget, uint64_t version)
{
    *e = (struct table_evicted){.on = true,
                                .budget = budget,
                                .bytes_max = budget->bytes_max / TABLE_EVICTED_SHARE,
                                .from = version};
}

static void give_back(struct table_evicted *e)
{
    if (e->capacity > 0) {
        table_budget_give(e->budget, e->capacity * sizeof *e->notes);
    }
    free(e->notes);
    e->notes = NULL;
    e->count = e->capacity = 0;
}

void table_evicted_release(struct table_evicted *e)
{
    give_back(e);
    *e = (struct table_evicted){0};
}

static bool grow(struct table_evicted *e)
{
    const size_t most = (size_t)(e->bytes_max / sizeof *e->notes);
    size_t capacity = e->capacity < NOTES_MIN ? NOTES_MIN : 2 * e->capacity;
    capacity = capacity < most ? capacity : most;
    const size_t more = capacity > e->capacity ? capacity - e->capacity : 0;
    if (more == 0 || table_budget_take(e->budget, more * sizeof *e->notes, "", NULL) != 0) {
        return false;
    }
    struct table_evicted_note *notes = realloc(e->notes, capacity * sizeof *notes);
    if (notes == NULL) {
        table_budget_give(e->budget, more * sizeof *notes);
        return false;
    }
    e->notes = notes;
    e->capacity = capacity;
    return true;
}

void table_evicted_add(struct table_evicted *e, uint64_t key, uint64_t version)
{
    if (!e->on || version <= e->from) {
        return;
    }
    if (e->count == e->capacity && !grow(e)) {
        (void)table_evicted_forget(e, version);
        return;
    }
    e->notes[e->count++] = (struct table_evicted_note){key, version};
}

bool table_evicted_forget(struct table_evicted *e, uint64_t version)
{
    const bool any = e->capacity > 0;
    if (e->on) {
        give_back(e);
        e->from = version > e->from ? version : e->from;
    }
    return any;
}

void table_evicted_trim(struct table_evicted *e, uint64_t version)
{
    size_t gone = 0;
    while (gone < e->count && e->notes[gone].version <= version) {
        gone++;
    }
    e->count -= gone;
    if (gone > 0) {
        memmove(e->notes, e->notes + gone, e->count * sizeof *e->notes);
    }
    e->from = version > e->from ? version : e->from;
}
