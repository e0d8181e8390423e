/* SPDX-License-Identifier: Apache-2.0 */
/* From cells to numbers: missing values and one-hot categories. All statistics come from the
 * train records and are applied to both parts.
 *
 * A feature vector is the numbers in file order, then one 0/1 feature per category of each
 * categorical column (in file order, categories sorted). */
#ifndef GRADUS_DATA_ENCODE_H
#define GRADUS_DATA_ENCODE_H

#include "base/err.h"
#include "data/data_spec.h"
#include "data/measure.h"
#include "data/records.h"

#define ENCODE_FEATURES_MAX 1000000U /* of one record; a batch of 64 such records takes 256 MB */

/* The values that fill missing numbers of each column. */
struct encode_fills {
    float *values; /* [count] */
    bool *set;     /* [count] the column has a value; else missing numbers stay missing */
    size_t count;  /* 0: none is filled */
};

/* Measure them, for the columns of @digest, as the job says. A median needs all train records,
 * which are then those of @digest. Errors: ERR_INVALID a column of which no train record has a
 * value; of @walk. */
int encode_fills_fit(struct encode_fills *f, const struct data_spec *spec,
                     const struct records *digest, measure_walk *walk, void *data, struct err *err);
void encode_fills_apply(const struct encode_fills *f, struct records *r);
void encode_fills_release(struct encode_fills *f);

/* The categories of train records, of each column, sorted. */
struct encode_known {
    struct names *columns; /* [count] */
    size_t count, width;   /* width: features of a record, its numbers included */
};

/* Errors: ERR_EXHAUSTED too many features; ERR_INVALID none. */
int encode_known_fit(struct encode_known *known, const struct records *digest, struct err *err);
/* Appends the one-hot features; the categories are gone afterwards. A category that no train record
 * has, or that is missing, gives zeros. Errors: ERR_EXHAUSTED. */
int encode_known_apply(const struct encode_known *known, struct records *r, struct err *err);
void encode_known_release(struct encode_known *known);

#endif
