/* SPDX-License-Identifier: Apache-2.0 */
/* Counts lists, and remembers the longest one and the largest key. */
#include "data/sparse_summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/sparse_batch.h"

struct sparse_summary *sparse_summary_new(size_t fields)
{
    struct sparse_summary *s = mem_new(1, sizeof *s);
    s->count = fields;
    s->fields = mem_new(fields, sizeof *s->fields);
    return s;
}

void sparse_summary_free(struct sparse_summary *s)
{
    if (s != NULL) {
        free(s->fields);
        free(s->with_keys);
        free(s);
    }
}

static void add_list(struct sparse_field_summary *f, uint64_t record,
                     const struct sparse_list *list)
{
    if (list->count != 1 && f->without_one++ == 0) {
        f->not_one = (struct sparse_extreme){.record = record, .count = list->count};
    }
    if (list->count == 0) {
        return;
    }
    const uint64_t largest = list->keys[list->count - 1]; /* keys rise */
    const struct sparse_extreme this = {.record = record, .count = list->count, .key = largest};
    if (list->count > f->longest.count) {
        f->longest = this;
    }
    if (f->keys == 0 || largest > f->of_largest.key) {
        f->of_largest = this;
    }
    f->keys += list->count;
}

void sparse_summary_add(struct sparse_summary *s, const struct sparse_fields *block)
{
    for (uint64_t r = 0; r < block->records; r++) {
        for (size_t i = 0; i < s->count; i++) {
            const struct sparse_list list = sparse_fields_list(block, r, i);
            add_list(&s->fields[i], s->records, &list);
        }
        const size_t keys = (size_t)sparse_batch_keys_of(block, r), had = s->with_keys_count;
        if (keys >= had) {
            s->with_keys_count = keys + 1;
            s->with_keys = mem_resize(s->with_keys, keys + 1, sizeof *s->with_keys);
            memset(s->with_keys + had, 0, (keys + 1 - had) * sizeof *s->with_keys);
        }
        s->with_keys[keys]++;
        s->records++;
    }
}

bool sparse_summary_beyond(const struct sparse_summary *s, size_t field, uint64_t keys,
                           size_t length, struct sparse_extreme *found)
{
    const struct sparse_field_summary *f = &s->fields[field];
    const bool large = f->keys > 0 && f->of_largest.key >= keys && keys < UINT64_MAX;
    const bool is_long = f->longest.count > length;
    if (large || is_long) {
        *found = is_long ? f->longest : f->of_largest;
    }
    return large || is_long;
}
