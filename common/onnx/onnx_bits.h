/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of 64 bits without a sign, and the hashes and random numbers made of it, as nodes of
 * an ONNX graph.
 *
 * Values are INT64 tensors that hold the bits; their sums and products wrap. Operator set 17 has no
 * exclusive or of integers: values are cut into digits of 4 bits, whose results are in a table of
 * 256 numbers. What is computed has the bits of the functions of the same name in base/rng.h and
 * data/key_hash.h. */
#ifndef GRADUS_ONNX_ONNX_BITS_H
#define GRADUS_ONNX_ONNX_BITS_H

#include "onnx/onnx_graph.h"

/* A constant of one dimension: [1]. */
const char *onnx_bits_number(struct onnx_graph *g, uint64_t value);
const char *onnx_bits_add(struct onnx_graph *g, const char *x, uint64_t value);
/* The remainder by @n, as of a number without a sign. */
const char *onnx_bits_remainder(struct onnx_graph *g, const char *x, uint64_t n);

/* rng_key(x, ""): SplitMix64's finalizer. */
const char *onnx_bits_mix(struct onnx_graph *g, const char *x);
/* rng_key_mix() of the key whose onnx_bits_mix() is @mixed, with number @x. */
const char *onnx_bits_key_mix(struct onnx_graph *g, const char *mixed, const char *x);
/* Draws 0 .. @dim - 1 of each of the streams @keys, [n]: FLOAT [n, dim]. */
const char *onnx_bits_uniform(struct onnx_graph *g, const char *keys, size_t dim);
const char *onnx_bits_normal(struct onnx_graph *g, const char *keys, size_t dim);
/* FNV-1a, and XXH3 with seed 0, of the 8 bytes of @x, lowest first. */
const char *onnx_bits_fnv1a(struct onnx_graph *g, const char *x);
const char *onnx_bits_xxh3(struct onnx_graph *g, const char *x);

#endif
