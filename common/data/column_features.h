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
#include "data/records.h"

/* Make the features of records with declared columns, whose missing numbers are filled; @test may
 * be NULL. @numbers: how many of them are no 0/1 features. Errors: ERR_INVALID a vocabulary that
 * cannot be used; ERR_EXHAUSTED too many features, or memory; of lines_open(). */
int column_features_make(const struct data_spec *spec, struct records *train, struct records *test,
                         size_t *numbers, struct err *err);

#endif
