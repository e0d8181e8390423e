/* SPDX-License-Identifier: Apache-2.0 */
/* From the cells of declared columns to features. What is measured (means, deviations,
 * vocabularies) comes from the train records and is applied to both parts.
 *
 * A feature vector is the numbers without boundaries, then the 0/1 features of each other column:
 * those with boundaries, then categories and lists, each kind in the order of the file. Sparse
 * columns become sparse fields of the records, and no features. */
#ifndef GRADUS_DATA_COLUMN_FEATURES_H
#define GRADUS_DATA_COLUMN_FEATURES_H

#include <stddef.h>

#include "base/err.h"
#include "data/data_spec.h"
#include "data/measure.h"
#include "data/records.h"

struct column_layout; /* what each declared column becomes */

/* Measures the layout, on the texts of @digest and over the @records train records that @walk goes
 * over, whose missing numbers are filled. @numbers: how many features are no 0/1 features. Errors:
 * ERR_INVALID a vocabulary that cannot be used; ERR_EXHAUSTED too many features, or memory; of
 * lines_open(); of @walk. */
int column_layout_fit(const struct data_spec *spec, const struct records *digest, uint64_t records,
                      measure_walk *walk, void *data, size_t *numbers, struct column_layout **out,
                      struct err *err);
/* Makes the layout from what was measured before. @digest: the texts of vocabularies that were
 * measured; for each number without boundaries its mean and deviation, [count]. Errors: ERR_INVALID
 * another @count; as column_layout_fit(). */
int column_layout_recall(const struct data_spec *spec, const struct records *digest,
                         const double *means, const double *deviations, size_t count,
                         struct column_layout **out, struct err *err);
/* What each column becomes by the texts of @digest, without what is measured on numbers. Errors: as
 * column_layout_fit(). */
int column_layout_texts(const struct data_spec *spec, const struct records *digest,
                        struct column_layout **out, struct err *err);
size_t column_layout_width(const struct column_layout *l); /* features of a record */
void column_layout_free(struct column_layout *l);          /* NULL is fine */
/* Make the features; columns and categories are gone afterwards. Errors: ERR_EXHAUSTED. */
int column_layout_apply(const struct column_layout *l, const struct data_spec *spec,
                        struct records *r, struct err *err);
#endif
