/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the records of two batches of the same kind into one. */
#ifndef GRADUS_DATA_BATCH_JOIN_H
#define GRADUS_DATA_BATCH_JOIN_H

#include "base/err.h"
#include "tensor/batch.h"

/* Append the records of @from, whose numbers are @width each, to @to, where they fit
 * (to->capacity). @to grows as its lists need. Errors: ERR_EXHAUSTED; @to is as it was. */
int batch_append(struct batch *to, const struct batch *from, size_t width, struct err *err);

#endif
