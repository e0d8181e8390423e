/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a checkpoint in memory, as a model numbers them. */
#ifndef GRADUS_SAVED_SAVED_VARIABLES_H
#define GRADUS_SAVED_SAVED_VARIABLES_H

#include "checkpoint/checkpoint.h"
#include "graph/model.h"

struct saved_variables { /* begins zeroed */
    float **values;      /* [count] */
    size_t count;
};

/* @slot: in the place of the values; NULL: the values. @v is to be released in any case. Errors:
 * those of checkpoint_read(); ERR_EXHAUSTED. */
int saved_variables_read(const struct checkpoint *c, const struct model *model, const char *slot,
                         struct saved_variables *v, struct err *err);
void saved_variables_release(struct saved_variables *v);

#endif
