/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of the squares of a gradient's elements, for clipping by the norm of a table and by the
 * global norm together with the dense part.
 *
 * Rows lie on shards by a hash of their keys, so there is no order of all rows in which every shard
 * could add. Instead the rows' sums are added exactly, as a fixed-point number that is wide enough
 * for any of them (Kulisch, "Computer Arithmetic and Validity", 2008): it is then the same number
 * for any order of the rows, any cut into shards and any grouping of partial sums. The sum within a
 * row is in doubles, in an order that its length alone decides, and the whole is rounded once, at
 * the end. So: the same bits for any number of shards and workers.
 *
 * Who adds the squares of several tables and of the dense part adds the rounded numbers in an order
 * of their own, such as that of the names.
 *
 * Cost: about as much as reading the gradient. Plain data; 88 bytes. */
#ifndef GRADUS_TABLE_TABLE_SQUARES_H
#define GRADUS_TABLE_TABLE_SQUARES_H

#include <stdbool.h>

#include "table/table_gradient.h"

/* Of 64 bits: from 2^-298, the square of the least float, to 2^341, more than 2^69 times the sum of
 * the squares of 2^16 of the greatest. */
#define TABLE_SQUARES_WORDS 10

struct table_squares {                   /* zeroed: the sum of nothing */
    uint64_t words[TABLE_SQUARES_WORDS]; /* the lowest first */
    uint64_t not_finite;                 /* rows that have no finite sum; not in the words */
};

/* Adds the squares of what @g is times @scale (rounded to float, as a rule sees it). */
void table_squares_add(struct table_squares *s, const struct table_gradient_view *g, float scale);
/* Adds a partial sum, of another shard for example. */
void table_squares_join(struct table_squares *s, const struct table_squares *other);
/* The sum, rounded to nearest; infinite when a row was not finite. */
double table_squares_total(const struct table_squares *s);
/* Of one row of @dim floats: the double that is added, which may be infinite or NaN. */
double table_squares_of_row(const float *row, size_t dim, float scale);
/* Makes a row whose L2 norm, of what it is times @scale, is above @norm_max that long; true when it
 * was. A row that is not finite is left as it is. */
bool table_row_clip(float *row, size_t dim, float scale, double norm_max);

#endif
