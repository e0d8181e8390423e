/* SPDX-License-Identifier: Apache-2.0 */
/* What the gradient of one update was like, as text in the file of a shard: a histogram of each
 * variable that has rows there. */
#ifndef GRADUS_CHECKPOINT_GRADIENT_JSON_H
#define GRADUS_CHECKPOINT_GRADIENT_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "job/plan/plan.h"
#include "tensor/histogram.h"

/* @gradient: as the values of the shard lie. Statistics of layers have none. */
void gradient_json_format(const struct plan *plan, uint32_t shard, const float *gradient,
                          struct buf *out);
/* Adds the histogram of each of the @count variables that @text has to that in @out. Errors:
 * ERR_CORRUPT it is no such text, or has other variables. */
int gradient_json_add(const char *text, const struct variable_spec *variables, size_t count,
                      struct histogram *out, struct err *err);

#endif
