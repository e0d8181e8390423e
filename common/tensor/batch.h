/* SPDX-License-Identifier: Apache-2.0 */
/* A mini-batch in memory of the caller's choosing: what a dataset fills and a model computes. Plain
 * data. */
#ifndef GRADUS_TENSOR_BATCH_H
#define GRADUS_TENSOR_BATCH_H

#include <stddef.h>
#include <stdint.h>

struct batch {
    size_t capacity;  /* records that fit */
    size_t count;     /* records present */
    float *features;  /* [count × elements of one record] */
    int32_t *classes; /* [count]; 0..classes-1 (class labels) */
    float *targets;   /* [count]; the class number, or the scaled real label */
};

#endif
