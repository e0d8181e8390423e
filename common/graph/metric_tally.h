/* SPDX-License-Identifier: Apache-2.0 */
/* A row of sums of records' weights that parts of an evaluation add up: scores by bins, records by
 * classes. They are counts where records have no weights. The number of cells is known with the
 * first record. The wire form has those that are not 0. Plain data. */
#ifndef GRADUS_GRAPH_METRIC_TALLY_H
#define GRADUS_GRAPH_METRIC_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TALLY_CELLS_MAX 2097152U /* 2^21: a cell's number and its count are one double */

struct metric_tally { /* a zeroed struct is empty */
    double *cells;    /* finite, from 0 on */
    size_t count;
};
void tally_release(struct metric_tally *t);
void tally_reset(struct metric_tally *t); /* sets all to 0 */
/* Makes room for at least @count cells, at most TALLY_CELLS_MAX. */
void tally_reserve(struct metric_tally *t, size_t count);
void tally_merge(struct metric_tally *into, const struct metric_tally *from);
/* Numbers of the wire form; @out may be NULL. */
size_t tally_pack(const struct metric_tally *t, double *out);
/* How many of @count numbers are a tally of at most @cells_max cells, in @used. Errors:
 * ERR_INVALID. */
int tally_check(const double *in, size_t count, size_t cells_max, size_t *used, struct err *err);
/* Replaces the cells by those of @in, which was checked. Returns how many numbers were used. */
size_t tally_unpack(struct metric_tally *t, const double *in);

#endif
