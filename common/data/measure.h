/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over records that need not be in memory together. */
#ifndef GRADUS_DATA_MEASURE_H
#define GRADUS_DATA_MEASURE_H

#include <stddef.h>

#include "base/err.h"
#include "data/records.h"

/* Adds the records of @block, which follow those of the call before, to @sums. */
typedef void measure_visit(const void *context, const struct records *block, double *sums);

/* Calls @visit with all train records, in their order. The @n sums may be remembered: whoever walks
 * over the same records in the same order gets them without. Errors: of reading. */
typedef int measure_walk(void *data, measure_visit *visit, const void *context, double *sums,
                         size_t n, struct err *err);

#endif
