/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers: a value is a pure function of a key and a counter.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011). Nothing holds a state, so any element can be drawn anywhere, in any order, on any node. */
#ifndef GRADUS_BASE_RNG_H
#define GRADUS_BASE_RNG_H

#include <stdint.h>

/* One block of Philox4x32-10. */
void rng_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* A key from a seed and a name or numbers; different inputs give unrelated keys. */
uint64_t rng_key(uint64_t seed, const char *name);
uint64_t rng_key_mix(uint64_t key, uint64_t number);

/* The @index-th draw of the stream @key. */
uint64_t rng_u64(uint64_t key, uint64_t index);
double rng_uniform(uint64_t key, uint64_t index); /* in [0, 1), 53 bits */
double rng_normal(uint64_t key, uint64_t index);  /* mean 0, variance 1 (Box-Muller) */
/* A number in 0..@n-1, @n > 0; the bias is below n/2^64. */
uint64_t rng_below(uint64_t key, uint64_t index, uint64_t n);

#endif
