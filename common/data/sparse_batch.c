/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers lists that lie record by record into lists that lie field by field. */
#include "data/sparse_batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/sparse_summary.h"

static bool is_fed(const struct sparse_field *field)
{
    return field->width == 0 || field->listed;
}

uint64_t sparse_batch_keys_of(const struct sparse_fields *f, uint64_t record)
{
    if (f->width == 0) {
        return f->starts[record + 1] - f->starts[record];
    }
    uint64_t keys = 0;
    for (size_t i = 0; i < f->count; i++) {
        keys += is_fed(&f->fields[i]) ? sparse_fields_list(f, record, i).count : 0;
    }
    return keys;
}

/* The keys of the @capacity longest records; @with_keys: [@count], records with so many keys. */
static uint64_t keys_of_longest(const uint64_t *with_keys, size_t count, size_t capacity)
{
    uint64_t left = capacity, keys = 0;
    for (size_t n = count; n-- > 1 && left > 0;) {
        const uint64_t taken = with_keys[n] < left ? with_keys[n] : left;
        keys += taken * n;
        left -= taken;
    }
    return keys;
}

/* The most keys that @capacity different records have. */
static uint64_t most_keys(const struct sparse_fields *f, size_t capacity)
{
    if (f->summary != NULL) {
        return keys_of_longest(f->summary->with_keys, f->summary->with_keys_count, capacity);
    }
    uint64_t longest = 0;
    for (uint64_t i = 0; i < f->records; i++) {
        longest = sparse_batch_keys_of(f, i) > longest ? sparse_batch_keys_of(f, i) : longest;
    }
    const size_t count = (size_t)longest + 1;
    uint64_t *with_keys = mem_new(count, sizeof *with_keys);
    for (uint64_t i = 0; i < f->records; i++) {
        with_keys[sparse_batch_keys_of(f, i)]++;
    }
    const uint64_t keys = keys_of_longest(with_keys, count, capacity);
    free(with_keys);
    return keys;
}

int sparse_batch_init(struct sparse_batch *b, const struct sparse_fields *f, size_t capacity,
                      struct err *err)
{
    struct sparse_batch made = {.capacity = capacity, .fields = f->count};
    size_t offsets;
    if (capacity == SIZE_MAX || !mem_mul(f->count, capacity + 1, &offsets)) {
        return err_set(err, ERR_EXHAUSTED, "batch: %zu records do not fit in memory", capacity);
    }
    made.keys_capacity = (size_t)most_keys(f, capacity) + 1;
    made.offsets = mem_try_aligned(offsets, sizeof *made.offsets, "batch", err);
    made.keys = made.offsets == NULL
                    ? NULL
                    : mem_try_aligned(made.keys_capacity, sizeof *made.keys, "batch", err);
    if (made.keys != NULL && f->weighted) {
        made.weights = mem_try_aligned(made.keys_capacity, sizeof *made.weights, "batch", err);
    }
    if (made.keys == NULL || (f->weighted && made.weights == NULL)) {
        sparse_batch_release(&made);
        return ERR_EXHAUSTED;
    }
    *b = made;
    return 0;
}

uint64_t sparse_batch_bytes(const struct sparse_fields *f, size_t capacity)
{
    const uint64_t each = sizeof(uint64_t) + (f->weighted ? sizeof(float) : 0);
    return f->count == 0
               ? 0
               : f->count * (capacity + 1) * sizeof(uint64_t) + (most_keys(f, capacity) + 1) * each;
}

void sparse_batch_release(struct sparse_batch *b)
{
    free(b->offsets);
    free(b->keys);
    free(b->weights);
    *b = (struct sparse_batch){0};
}

void sparse_batch_read(struct sparse_batch *b, const struct sparse_fields *f,
                       const uint64_t *records, size_t count)
{
    assert(count <= b->capacity && b->fields == f->count);
    size_t at = 0;
    for (size_t field = 0; field < f->count; field++) {
        uint64_t *offsets = b->offsets + field * (b->capacity + 1);
        for (size_t i = 0; i < count; i++) {
            assert(records[i] < f->records);
            offsets[i] = at;
            if (!is_fed(&f->fields[field])) {
                continue;
            }
            const struct sparse_list list = sparse_fields_list(f, records[i], field);
            assert(list.count <= b->keys_capacity - at);
            memcpy(b->keys + at, list.keys, list.count * sizeof *list.keys);
            if (b->weights != NULL) {
                memcpy(b->weights + at, list.weights, list.count * sizeof *list.weights);
            }
            at += list.count;
        }
        offsets[count] = at;
    }
    b->count = count;
}
