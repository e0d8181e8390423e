/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of variables: element i is a pure function of (seed, variable name, i), so the
 * values do not depend on how a variable is partitioned.
 *
 * Formulas: glorot (Glorot & Bengio 2010), he (He et al. 2015), lecun (LeCun et al. 1998). */
#ifndef GRADUS_TENSOR_INIT_H
#define GRADUS_TENSOR_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/shape.h"

enum init_kind {
    INIT_ZEROS,
    INIT_CONSTANT,         /* a */
    INIT_UNIFORM,          /* in [a, b) */
    INIT_NORMAL,           /* mean a, standard deviation b */
    INIT_TRUNCATED_NORMAL, /* mean a, standard deviation b, redrawn outside 2 deviations */
    INIT_GLOROT_UNIFORM,   /* fan_in, fan_out */
    INIT_GLOROT_NORMAL,
    INIT_HE_UNIFORM,
    INIT_HE_NORMAL,
    INIT_LECUN_UNIFORM,
    INIT_LECUN_NORMAL,
    INIT_KIND_COUNT,
    INIT_GIVEN = INIT_KIND_COUNT /* a worker brings the values; no job file says so */
};
extern const char *const init_kind_names[INIT_KIND_COUNT + 1]; /* NULL-terminated */

struct init {
    enum init_kind kind;
    double a, b;
    uint64_t fan_in, fan_out;
};

#define VARIABLE_NAME_BYTES 128
#define VARIABLE_TEXT_BYTES (VARIABLE_NAME_BYTES + 112) /* of variable_format() */

/* A tensor of a model, which the servers keep. Plain data. */
struct variable_spec {
    char name[VARIABLE_NAME_BYTES]; /* "dense_1.kernel" */
    struct shape shape;             /* partitions are ranges along dims[0] */
    struct init init;
    /* 0: a variable that gradients train. Else a statistic: its gradient is the statistic of the
     * batches, and each update moves it this share, up to 1, towards their mean. */
    double statistic;
    /* INIT_GIVEN: a digest of the values, by which workers find which variable differs; 0: not
     * known. */
    uint64_t digest;
};

/* True if both have the same name and shape, and are trained alike. */
bool variable_equal(const struct variable_spec *a, const struct variable_spec *b);
/* "dense_1.kernel [784, 10]", and whether it is a statistic. Returns @out. */
const char *variable_format(const struct variable_spec *v, char *out, size_t n);

/* The variables of a model that a program of the user's computes. Borrows. */
struct given_variables {
    const struct variable_spec *variables; /* of INIT_GIVEN */
    size_t count;                          /* 0: the model tells no variables */
    /* of the variables and their values; equal on every worker */
    uint64_t fingerprint;
};

/* Elements @first .. @first+@count-1 (flat, row-major) of variable @name into @out. */
void init_fill(const struct init *init, uint64_t seed, const char *name, uint64_t first,
               uint64_t count, float *out);

#endif
