/* SPDX-License-Identifier: Apache-2.0 */
/* Floats in 16 bits for the wire: fp16 (IEEE 754 binary16) and bf16 (the upper half of a float).
 *
 * Rounding is to the nearest, ties to even, as IEEE 754 has it: subnormals are exact to their last
 * bit, what is too large for fp16 (from 65520 on) becomes infinite, a NaN stays one and is quiet.
 * What was rounded once is not changed by rounding it again. Little-endian, aligned or not.
 *
 * A gradient is rounded to 16 bits where it is computed, one replica at a time, and is then the
 * same number in 16 bits and in 32: it may be added up first or sent first (decision 31). Sums are
 * never rounded: a worker with several replicas sends one sum of 32 bits, which is no more bytes
 * than two gradients of 16. Types travel with the values and are checked, never negotiated, because
 * they decide bits. */
#ifndef GRADUS_TENSOR_HALF_H
#define GRADUS_TENSOR_HALF_H

#include <stddef.h>
#include <stdint.h>

enum value_type { VALUE_FP32, VALUE_FP16, VALUE_BF16, VALUE_TYPES };

extern const char *const value_type_names[VALUE_TYPES + 1]; /* ends with NULL */
size_t value_type_bytes(enum value_type type);

/* @n floats from and to as many values of @type; the arrays do not overlap. */
void values_encode(enum value_type type, const float *in, size_t n, void *out);
void values_decode(enum value_type type, const void *in, size_t n, float *out);
/* Rounds values, in place, to what the other side of the wire will have. */
void values_round(enum value_type type, float *values, size_t n);

#endif
