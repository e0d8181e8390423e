/* SPDX-License-Identifier: Apache-2.0 */
/* From keys to rows. That a key is below the rows where it must be is seen when the data are read
 * (model_list_limits()); here one that is not has no row. */
#include "graph/lookup.h"

#include "base/rng.h"

enum { HASHING_MIXED, HASHING_NONE };
enum { UNKNOWN_ERROR, UNKNOWN_OWN, UNKNOWN_ZERO };

const char *const lookup_hashing_names[] = {"mixed", "none", NULL};
const char *const lookup_unknown_names[] = {"error", "own", "zero", NULL};

int lookup_check(const struct layer *l, const struct lookup_params *p, struct err *err)
{
    if (p->hashing == HASHING_NONE && l->input_count > 1 && !p->shared) {
        return err_set(err, ERR_INVALID,
                       "with hashing: none a key is its row, so its %zu fields have the same rows; "
                       "shared: true, a layer for each field, or hashing: mixed would fit",
                       l->input_count);
    }
    if (p->hashing == HASHING_MIXED && p->unknown != UNKNOWN_ERROR) {
        return err_set(err, ERR_INVALID,
                       "unknown: %s is for keys that are rows, but with hashing: mixed every key "
                       "has one; hashing: none would fit",
                       lookup_unknown_names[p->unknown]);
    }
    return 0;
}

uint64_t lookup_rows(const struct lookup_params *p)
{
    return (uint64_t)p->rows + (p->unknown == UNKNOWN_OWN);
}

uint64_t lookup_keys(const struct lookup_params *p)
{
    return p->hashing == HASHING_NONE && p->unknown == UNKNOWN_ERROR ? (uint64_t)p->rows
                                                                     : UINT64_MAX;
}

uint64_t lookup_row(const struct lookup_params *p, const struct layer_input *in, uint64_t key)
{
    const uint64_t rows = (uint64_t)p->rows;
    if (p->hashing == HASHING_MIXED) {
        return rng_key_mix(p->shared ? 0 : in->field_seed, key) % rows;
    }
    return key < rows ? key : p->unknown == UNKNOWN_OWN ? rows : LOOKUP_NO_ROW;
}

struct lookup_list lookup_list(const struct layer_run *r, const struct layer_input *in,
                               size_t record)
{
    const struct sparse_batch *b = r->lists;
    const uint64_t *offsets = b->offsets + in->field * (b->capacity + 1) + record;
    return (struct lookup_list){.keys = b->keys + offsets[0],
                                .weights = b->weights == NULL ? NULL : b->weights + offsets[0],
                                .count = (size_t)(offsets[1] - offsets[0])};
}
