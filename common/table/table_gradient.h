/* SPDX-License-Identifier: Apache-2.0 */
/* What a push brings of one table: keys in rising order, each once; a row of `dim` floats for each;
 * and how often the batch had the key (its sightings), which decides about admission and about who
 * is evicted.
 *
 * A sum of two has the keys of both. Where both have a key its row is left + right, element by
 * element; the row of a key that one of them has is copied bit by bit: nothing is added to it, not
 * even a zero. So replicas that are added in the order of a tree give the same bits wherever they
 * were computed and whatever other keys they had, as dense gradients do. Sightings are added, and
 * stay at their maximum.
 *
 * Every key from 0 to 2^64 − 1 is legal. Floats are not looked at: NaN stays NaN.
 *
 * On the wire and in the memory of a server, all little-endian, without gaps:
 *
 *     u64  rows
 *     u32  dim
 *     u32  format of the values: enum value_type (tensor/half.h); 0, 32-bit floats
 *     u64  keys[rows]
 *     u32  sightings[rows]           each 1 or more
 *          values[rows × dim]        4 bytes each, or 2 in fp16 and bf16
 *
 * that is 16 + rows × (12 + 4 × dim) bytes for floats. In memory they are floats whatever came.
 *
 * Owner: one thread or strand. */
#ifndef GRADUS_TABLE_TABLE_GRADIENT_H
#define GRADUS_TABLE_TABLE_GRADIENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "table/table_keys.h"
#include "tensor/half.h"

#define TABLE_GRADIENT_HEADER_BYTES 16

struct table_gradient {
    size_t dim;
    size_t n;            /* rows that are there */
    size_t capacity;     /* and fit */
    uint64_t *keys;      /* [n] rising, each once */
    uint32_t *sightings; /* [n] */
    float *values;       /* [n × dim] */
};

/* A gradient that is borrowed. */
struct table_gradient_view {
    size_t dim, n;
    const uint64_t *keys;
    const uint32_t *sightings;
    const float *values;
};

/* An empty one; @dim is 1 or more. */
void table_gradient_init(struct table_gradient *g, size_t dim);
void table_gradient_release(struct table_gradient *g); /* zeroed is fine */
struct table_gradient_view table_gradient_view(const struct table_gradient *g);

/* Makes @g the gradient of @keys' unique keys, with rows of zeros: what a batch then adds to, row
 * keys->index[i] for its i-th key. Memory is used again. Errors: ERR_EXHAUSTED. */
int table_gradient_begin(struct table_gradient *g, const struct table_keys *keys, struct err *err);

/* @to becomes @to + @from, which has as many floats in a row and no memory of @to. O(rows of both),
 * no memory but for rows that come to @to. Errors: ERR_INVALID another dim; ERR_EXHAUSTED; @to is
 * unchanged then. */
int table_gradient_add(struct table_gradient *to, const struct table_gradient_view *from,
                       struct err *err);

/* Rounds @g to @type and back; a value that was rounded once is not changed again. */
void table_gradient_round(struct table_gradient *g, enum value_type type);

/* Bytes of the form above, with values of @type; UINT64_MAX when they cannot be counted. */
uint64_t table_gradient_bytes(enum value_type type, uint64_t rows, uint64_t dim);
/* Writes table_gradient_bytes() of them to @out, which may lie anywhere. */
void table_gradient_encode(enum value_type type, const struct table_gradient_view *g, void *out);
/* @g, which has its dim, becomes what @bytes are, which may lie anywhere. They are copied before
 * they are checked, so they may be memory that another process writes to. Errors: ERR_INVALID: what
 * is wrong and where (the length, dim, another type than @type, keys that do not rise, no
 * sightings); ERR_EXHAUSTED; @g is empty then. */
int table_gradient_decode(struct table_gradient *g, enum value_type type, const void *bytes,
                          size_t n, struct err *err);

/* Clips each row: one whose L2 norm, times @scale, is above @norm_max gets that length. Returns how
 * many were clipped. A row that is not finite stays. A row lies on one shard, which decides alone:
 * the same bits on any shard. Called after the sum of all replicas. */
size_t table_gradient_clip_rows(struct table_gradient *g, float scale, double norm_max);

#endif
