/* Sums whose bits do not depend on how the summands are cut among spans, threads or servers.
 *
 * The summands are numbered from 0, and are added in the binary tree over their numbers: summand 2i
 * and 2i+1 first, then the pairs 2i and 2i+1, and so on (missing ones at the end count as none). A
 * consecutive range of summands is made of few whole nodes of that tree, at most two of each level;
 * so a partial sum is the list of those nodes, and joining two partial sums merges the nodes that
 * are siblings. That takes one addition for each summand like any other way, and its error grows
 * with the logarithm of the count only (Higham, "The accuracy of floating point summation", 1993).
 *
 * A summand may be a vector: several sums over the same range, or sums over all columns. */
#ifndef GRADUS_RULE_SUMS_H
#define GRADUS_RULE_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SUMS_NODES_MAX 128 /* two of each level of 2^63 summands, and one on its way */
#define SUMS_BLOCK 1024    /* summands at once in sums_add() */

struct sums_node {
    uint64_t first; /* a multiple of 2^level */
    unsigned level; /* the sum of 2^level summands */
};

struct sums {
    size_t width; /* values of a summand */
    size_t count; /* nodes, by position */
    struct sums_node nodes[SUMS_NODES_MAX];
    double *values; /* [SUMS_NODES_MAX × width] */
};

/* Errors: ERR_EXHAUSTED. */
int sums_init(struct sums *s, size_t width, struct err *err);
void sums_release(struct sums *s); /* zeroed is fine */
void sums_reset(struct sums *s);

/* Room for the values of the next node, which may be filled here before sums_push(). */
double *sums_next(struct sums *s);
/* Add one node right of all that is there. */
void sums_push(struct sums *s, uint64_t first, unsigned level, const double *values);
/* Add @n <= SUMS_BLOCK summands from number @first on, right of all that is there:
 * @terms[k × SUMS_BLOCK + i] is value k of summand i. @terms is overwritten. */
void sums_add(struct sums *s, uint64_t first, size_t n, double *terms);
/* Add all of @right, which must begin where @s ends; an empty one joins with anything.
 * Errors: ERR_INVALID a gap, an overlap or another width; @s is unchanged. */
int sums_join(struct sums *s, const struct sums *right, struct err *err);
/* The number of the summand after the last; 0 when there is none. */
uint64_t sums_end(const struct sums *s);
/* The totals: @out[width]; zeros when empty. */
void sums_total(const struct sums *s, double *out);

/* What one round of a rule's reduction adds up. */
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
