/* SPDX-License-Identifier: Apache-2.0 */
/* Joins batches: numbers are copied behind those that are there; lists, which lie field by field,
 * are written anew. */
#include "data/batch_join.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct list_writer {
    struct sparse_batch *out;
    size_t at;
};

static void add_lists(struct list_writer *w, const struct sparse_batch *from, size_t field,
                      size_t first)
{
    const uint64_t *offsets = from->offsets + field * (from->capacity + 1);
    uint64_t *out = w->out->offsets + field * (w->out->capacity + 1) + first;
    const size_t n = (size_t)(offsets[from->count] - offsets[0]);
    for (size_t i = 0; i < from->count; i++) {
        out[i] = w->at + offsets[i] - offsets[0];
    }
    if (n > 0) {
        memcpy(w->out->keys + w->at, from->keys + offsets[0], n * sizeof *from->keys);
    }
    for (size_t k = 0; w->out->weights != NULL && k < n; k++) {
        w->out->weights[w->at + k] = from->weights == NULL ? 1 : from->weights[offsets[0] + k];
    }
    w->at += n;
    out[from->count] = w->at;
}

static size_t keys_of(const struct sparse_batch *b)
{
    size_t n = 0;
    for (size_t f = 0; f < b->fields; f++) {
        const uint64_t *offsets = b->offsets + f * (b->capacity + 1);
        n += (size_t)(offsets[b->count] - offsets[0]);
    }
    return n;
}

static void release(struct sparse_batch *b)
{
    free(b->offsets);
    free(b->keys);
    free(b->weights);
    *b = (struct sparse_batch){0};
}

static int join_lists(struct sparse_batch *to, const struct sparse_batch *from, struct err *err)
{
    struct sparse_batch made = {.capacity = to->capacity, .fields = to->fields};
    const bool weighted = to->weights != NULL || from->weights != NULL;
    made.keys_capacity = keys_of(to) + keys_of(from) + 1;
    made.offsets =
        mem_try_aligned(to->fields * (to->capacity + 1), sizeof *made.offsets, "batch", err);
    made.keys = made.offsets == NULL
                    ? NULL
                    : mem_try_aligned(made.keys_capacity, sizeof *made.keys, "batch", err);
    if (made.keys != NULL && weighted) {
        made.weights = mem_try_aligned(made.keys_capacity, sizeof *made.weights, "batch", err);
    }
    if (made.keys == NULL || (weighted && made.weights == NULL)) {
        release(&made);
        return ERR_EXHAUSTED;
    }
    struct list_writer w = {.out = &made};
    for (size_t f = 0; f < to->fields; f++) {
        add_lists(&w, to, f, 0);
        add_lists(&w, from, f, to->count);
    }
    made.count = to->count + from->count;
    release(to);
    *to = made;
    return 0;
}

int batch_append(struct batch *to, const struct batch *from, size_t width, struct err *err)
{
    assert(to->count + from->count <= to->capacity && to->lists.fields == from->lists.fields);
    int rc = to->lists.fields > 0 ? join_lists(&to->lists, &from->lists, err) : 0;
    if (rc != 0) {
        return rc;
    }
    memcpy(to->features + to->count * width, from->features,
           from->count * width * sizeof *to->features);
    memcpy(to->classes + to->count, from->classes, from->count * sizeof *to->classes);
    memcpy(to->targets + to->count, from->targets, from->count * sizeof *to->targets);
    if (to->weights != NULL && from->weights != NULL) {
        memcpy(to->weights + to->count, from->weights, from->count * sizeof *to->weights);
    }
    to->count += from->count;
    return 0;
}
