/* SPDX-License-Identifier: Apache-2.0 */
/* Sums whose bits do not depend on how the summands are cut among spans, threads or servers.
 *
 * Summands are numbered from 0. Sixteen in a row are a leaf; summand i goes to lane i mod 16. In
 * each lane the leaves are added in the binary tree over their numbers: leaf 2i and 2i+1 first,
 * then the pairs 2i and 2i+1, and so on; in the end the lanes are added. A consecutive range of
 * summands is made of few whole nodes of that tree, at most two of each level, and of up to two
 * incomplete leaves, whose missing lanes are 0. So a partial sum is the list of those nodes, and
 * joining two partial sums merges the nodes that are siblings; the halves of a leaf that was cut
 * have no lane in common and add exactly. That takes one addition for each summand like any other
 * way, in loops that vectorise, and its error grows with the logarithm of the count only (Higham,
 * "The accuracy of floating point summation", 1993).
 *
 * A summand may also be a vector (sums over all columns of rows); then it is a leaf of one lane. */
#ifndef GRADUS_RULE_RULES_SUMS_H
#define GRADUS_RULE_RULES_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SUMS_LANES ((size_t)16)
#define SUMS_NODES_MAX 128 /* two of each level of 2^60 leaves, two cut ones, one on its way */
#define SUMS_BLOCK 1024    /* summands at once in sums_add() */

struct sums_node {
    uint64_t first; /* leaf; a multiple of 2^level */
    unsigned level; /* the sum of 2^level leaves */
};

struct sums {
    size_t width;        /* values of a summand */
    size_t lanes;        /* SUMS_LANES or 1 */
    uint64_t first, end; /* summands [first, end) are in it */
    size_t count;        /* nodes, by position */
    struct sums_node nodes[SUMS_NODES_MAX];
    double *values; /* [SUMS_NODES_MAX][width × lanes] */
};

/* Sums of single numbers, @width of them over the same range. Errors: ERR_EXHAUSTED. */
int sums_init(struct sums *s, size_t width, struct err *err);
/* Sums of vectors. Errors: ERR_EXHAUSTED. */
int sums_init_vectors(struct sums *s, size_t width, struct err *err);
void sums_release(struct sums *s); /* zeroed is fine */
void sums_reset(struct sums *s);

/* Adds @n <= SUMS_BLOCK summands of single numbers, from number @first on, right of all summands so
 * far: @terms[k × SUMS_BLOCK + i] is value k of summand i. @terms is overwritten. */
void sums_add(struct sums *s, uint64_t first, size_t n, double *terms);
/* Of vectors: room for the sum of the next ones, to be filled before sums_push_vectors(). */
double *sums_next(struct sums *s);
/* Adds the vector that was filled in: the sum, in the order of the tree, of 2^@level vectors from
 * number @first (a multiple of 2^@level) on, right of all summands so far. */
void sums_push_vectors(struct sums *s, uint64_t first, unsigned level);
/* Add all of @right, which must begin where @s ends; an empty one joins with anything.
 * Errors: ERR_INVALID a gap, an overlap or another width; @s is unchanged. */
int sums_join(struct sums *s, const struct sums *right, struct err *err);
/* The totals: @out[width]; zeros when empty. */
void sums_total(const struct sums *s, double *out);

/* The partial sums of one round of a rule. */
struct rule;
struct rule_sums {
    struct sums scalars; /* sum_count values for each element, or for each row, as the rule likes */
    struct sums rows;    /* one value for each column and one more, for each row */
};
/* Errors: ERR_EXHAUSTED. */
int rule_sums_init(struct rule_sums *s, const struct rule *rule, unsigned round, size_t width,
                   struct err *err);
void rule_sums_release(struct rule_sums *s); /* zeroed is fine */
int rule_sums_join(struct rule_sums *s, const struct rule_sums *right, struct err *err);

#endif
