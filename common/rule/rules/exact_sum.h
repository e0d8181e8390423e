/* SPDX-License-Identifier: Apache-2.0 */
/* A sum of squares of floats without rounding, for sums that have no order of their own.
 *
 * Rows of tables lie on shards by a hash of their keys, so there is no order of all rows in which
 * every shard could add. Instead they are added exactly, as a fixed-point number that is wide
 * enough for any of them (Kulisch, "Computer Arithmetic and Validity", 2008): it is then the same
 * number for any order, any cut into shards and any grouping of partial sums, and is rounded once,
 * at the end. Plain data; 88 bytes. */
#ifndef GRADUS_RULE_RULES_EXACT_SUM_H
#define GRADUS_RULE_RULES_EXACT_SUM_H

#include <stdint.h>

/* Of 64 bits: from 2^-298, the square of the least float, to 2^341, more than 2^69 times the sum of
 * the squares of 2^16 of the greatest. */
#define EXACT_SUM_WORDS 10

struct exact_sum {                   /* zeroed: the sum of nothing */
    uint64_t words[EXACT_SUM_WORDS]; /* the lowest first */
    uint64_t not_finite;             /* summands that are not; not in the words */
};

/* Adds @x, a sum of squares of floats in double: not negative, and a multiple of 2^-298. */
void exact_sum_add(struct exact_sum *s, double x);
/* Adds a partial sum, of another shard for example. */
void exact_sum_join(struct exact_sum *s, const struct exact_sum *other);
/* The sum, rounded to nearest; infinite when a summand was not finite. */
double exact_sum_total(const struct exact_sum *s);

#endif
