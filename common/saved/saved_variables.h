/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a trained model in memory, as a model numbers them. */
#ifndef GRADUS_SAVED_SAVED_VARIABLES_H
#define GRADUS_SAVED_SAVED_VARIABLES_H

#include "checkpoint/checkpoint.h"
#include "graph/model.h"
#include "saved/saved_file.h"

struct saved_variables { /* begins zeroed */
    float **values;      /* [count] */
    size_t count;
};

/* Reads a variable out of @c, or of @file where that is not NULL. @slot: that slot in place of the
 * values; NULL: the values, as a file has them in any case. @v is to be released in any case.
 * Errors: ERR_INVALID another shape; ERR_NOT_FOUND; ERR_EXHAUSTED; those of reading. */
int saved_variables_read(const struct checkpoint *c, const struct saved_file *file,
                         const struct model *model, const char *slot, struct saved_variables *v,
                         struct err *err);
/* Copies @count values that are given. Errors: ERR_INVALID other variables; ERR_EXHAUSTED. */
int saved_variables_copy(const struct variable_spec *variables, const float *const *values,
                         size_t count, const struct model *model, struct saved_variables *v,
                         struct err *err);
void saved_variables_release(struct saved_variables *v);

#endif
