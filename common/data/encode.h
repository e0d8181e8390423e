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
#include "data/records.h"

#define ENCODE_FEATURES_MAX 1000000U /* of one record; a batch of 64 is then 256 MB */

/* Fill missing numbers of both parts (@test may be NULL) as the job says for their columns.
 * Errors: ERR_INVALID a column of which no train record has a value. */
int encode_missing(const struct data_spec *spec, struct records *train, struct records *test,
                   struct err *err);

/* Append the one-hot features; the categories are gone afterwards. A category that no train record
 * has, or that is missing, gives zeros. Errors: ERR_EXHAUSTED too many features, or memory. */
int encode_categories(struct records *train, struct records *test, struct err *err);

#endif
