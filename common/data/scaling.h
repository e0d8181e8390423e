/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling of features, fitted to the train records: scaled = (number − shift) × factor. */
#ifndef GRADUS_DATA_SCALING_H
#define GRADUS_DATA_SCALING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/data_spec.h"
#include "data/measure.h"
#include "data/records.h"

struct scaling {
    size_t count; /* numbers of a record that are scaled: the first ones */
    bool uniform; /* one shift and one factor for all */
    float *shift; /* [count, or 1 when uniform], owned */
    float *factor;
};

/* Scale the first @count numbers of a record (one-hot features, which follow, stay 0 or 1).
 *   auto      what the format says: unit for IDX (records with two or more dimensions, or bytes)
 *             and LIBSVM (0 stays 0), standard for columns
 *   unit      bytes ÷ 255; else ÷ the largest magnitude: of all numbers when the record has two or
 * more dimensions (pixels share a unit), else of each column standard  − mean, ÷ standard
 * deviation, per feature (deviation 0: ÷ 1) minmax    − smallest, ÷ (largest − smallest), per
 * feature (range 0: ÷ 1) */
/* Measures the scaling. @like is of the kind of the train records, of which there are @records and
 * over which @walk goes; where the format has an answer for auto, it has given it. Errors: of
 * @walk. */
int scaling_fit(struct scaling *s, enum data_scale kind, const struct records *like, size_t count,
                uint64_t records, measure_walk *walk, void *data, struct err *err);
void scaling_release(struct scaling *s);
struct scaling scaling_copy(const struct scaling *s); /* owned */
/* Scale values in place, [records × width]. */
void scaling_apply(const struct scaling *s, float *values, uint64_t records, size_t width);
/* Scale the bytes of one record, [count], into @out. */
void scaling_apply_bytes(const struct scaling *s, const uint8_t *bytes, float *out);

#endif
