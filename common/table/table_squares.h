/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of the squares of a gradient's elements, for clipping by the norm of a table and by the
 * global norm together with the dense part; and clips of single rows, which come before.
 *
 * The sum within a row is in doubles, in an order that its length alone decides; rows are added
 * exactly (rule/rules/exact_sum.h). So: the same bits for any number of shards and workers. Who
 * adds the squares of several tables and of the dense part adds the rounded numbers in an order of
 * their own, that of the job file.
 *
 * Cost: about as much as reading the gradient. */
#ifndef GRADUS_TABLE_TABLE_SQUARES_H
#define GRADUS_TABLE_TABLE_SQUARES_H

#include <stdbool.h>

#include "rule/rules/exact_sum.h"
#include "table/table_gradient.h"

struct table_clip { /* limits for a single row; 0: no limit */
    float value;    /* of each element */
    double norm;    /* largest norm of the row */
};

/* Adds the squares of what @g is times @scale (rounded to float, as a rule sees it), after @clip
 * (NULL: none), for which there is @scratch of a row. */
void table_squares_add(struct exact_sum *s, const struct table_gradient_view *g, float scale,
                       const struct table_clip *clip, float *scratch);
/* Of one row of @dim floats: the double that is added, which may be infinite or NaN. */
double table_squares_of_row(const float *row, size_t dim, float scale);
/* Multiplies a row by @scale and clips it. */
void table_row_shape(float *row, size_t dim, float scale, const struct table_clip *clip);
/* Shortens a row whose L2 norm, times @scale, is above @norm_max to that length; true when it did.
 * A row that is not finite stays. */
bool table_row_clip(float *row, size_t dim, float scale, double norm_max);

#endif
