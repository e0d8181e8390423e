/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a tensor: up to SHAPE_RANK_MAX dimensions, row-major, last index fastest. */
#ifndef GRADUS_TENSOR_SHAPE_H
#define GRADUS_TENSOR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHAPE_RANK_MAX 4

struct shape {
    size_t rank; /* 0: a scalar */
    uint64_t dims[SHAPE_RANK_MAX];
};

/* Number of elements; 0 when a dimension is 0 or the product does not fit 64 bits. */
uint64_t shape_count(const struct shape *s);
bool shape_equal(const struct shape *a, const struct shape *b);
/* "[28, 28, 1]" into @out; returns @out. */
const char *shape_format(const struct shape *s, char *out, size_t n);

#endif
