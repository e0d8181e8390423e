/* SPDX-License-Identifier: Apache-2.0 */
/* A core: which tensor of a source is which variable of a job, which table is which, and what is
 * wrong with that, all at once. */
#ifndef GRADUS_WARM_WARM_MATCH_H
#define GRADUS_WARM_WARM_MATCH_H

#include "base/err.h"
#include "graph/model.h"
#include "job/spec/from_spec.h"
#include "tensor/init.h"

struct warm_tensor {
    const char *name;
    const char *type; /* in the words of the source: "F64" */
    struct shape shape;
    bool table;    /* rows under keys; its shape is that of a row */
    bool readable; /* it can be read as floats of 32 bits: F32, F16, BF16 */
    bool aside;    /* no values of a model: counters, numbers in a formula. Nobody misses it */
};

struct warm_wanted {                       /* what a job has */
    const struct variable_spec *variables; /* [count] */
    size_t count;
    size_t tables; /* the last so many of them are tables, with the shape of a row */
};

/* For the @count @variables of a job, and its tables behind them; owned. */
struct variable_spec *warm_wanted_new(const struct variable_spec *variables, size_t count,
                                      const struct model_spec *model);

#define WARM_NONE SIZE_MAX
struct warm_match {
    size_t *tensors; /* [wanted] the tensor of each, or WARM_NONE: it keeps its initial values */
    size_t taken;    /* variables and tables that have some */
    char *summary;   /* "all 6 variables and 2 tables"; what was not taken, and why */
};

/* @tensors [count] by the patterns and the strictness of @from; a table is never a variable.
 * Errors: ERR_INVALID with everything that is wrong, as far as it fits: two tensors that are one
 * variable; a pattern that matches nothing, or makes names that no variable has; a type that is not
 * read; of a strict one each variable that is not there or has another shape, and each tensor that
 * is left over; of others that nothing fits. */
int warm_match(const struct warm_tensor *tensors, size_t count, const struct warm_wanted *wanted,
               const struct from_spec *from, struct warm_match *out, struct err *err);
void warm_match_release(struct warm_match *m); /* zeroed is fine */

/* As a shape of variables: a number alone, or of more dimensions than those have, is a list. */
struct shape warm_shape(const uint64_t *dims, size_t rank);

#endif
