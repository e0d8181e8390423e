/* SPDX-License-Identifier: Apache-2.0 */
/* What class labels mean, learned from the train records and applied to all.
 *
 * Labels that are the whole numbers 0..k-1 are used as they are. Other labels are sorted (by value
 * when all are numbers, else by bytes) and numbered in that order, so the numbers depend on the set
 * of labels only. */
#ifndef GRADUS_DATA_CLASSES_H
#define GRADUS_DATA_CLASSES_H

#include <stdint.h>

#include "base/err.h"
#include "data/records.h"

struct classes {
    uint32_t count;
    char **names;   /* [count], owned; NULL: the labels are the numbers */
    double *values; /* [count] of names that are numbers; NULL otherwise */
};

/* @expected classes, 0: as many as @train names.
 * Errors: ERR_INVALID a label that is no class, or another number of them, with record and value.
 */
int classes_fit(struct classes *c, const struct records *train, int64_t expected, struct err *err);
void classes_release(struct classes *c);
/* Are all labels of @train classes of @c, which were found elsewhere? @expected: as
 * classes_fit(). Errors: ERR_INVALID some are not, with both lists; as classes_fit(). */
int classes_check(const struct classes *c, const struct records *train, int64_t expected,
                  struct err *err);
/* The class of every record into @out, [records]. Errors: ERR_INVALID a label that @c does not
 * know. */
int classes_apply(const struct classes *c, const struct records *r, int32_t *out, struct err *err);

#endif
