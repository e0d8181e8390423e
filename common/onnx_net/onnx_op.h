/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an operator of a graph. Private to common/onnx_net.
 *
 * shape() runs once for each number of records, forward() and backward() once per step; they are
 * pure functions of what struct onnx_calc points to. To add an operator: a `const struct onnx_op`
 * in one of the files onnx_op_<family>.c, and a line in the list of onnx_op.c.
 *
 * All computed numbers are floats, whole numbers too (token numbers, positions): they are exact up
 * to 2^24. Whole numbers that are known before there are records (shapes, axes, starts of slices)
 * are kept as int64_t and folded by shape(). */
#ifndef GRADUS_ONNX_NET_ONNX_OP_H
#define GRADUS_ONNX_NET_ONNX_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "onnx/onnx.pb-c.h"
#include "onnx/onnx_tensor.h"

#define ONNX_DIMS_MAX ONNX_RANK_MAX
#define ONNX_NUMBERS_MAX (1 << 28) /* of one tensor: a GiB */
#define ONNX_INTS_MAX 4096         /* known whole numbers of one tensor */

struct onnx_dims {
    size_t rank;
    size_t dims[ONNX_DIMS_MAX];
};

enum onnx_type { ONNX_FLOAT, ONNX_INT, ONNX_BOOL };

/* A tensor of the graph for one number of records. */
struct onnx_value {
    const char *name;
    enum onnx_type type;
    bool shaped; /* the rest is set */
    struct onnx_dims shape;
    size_t count;        /* its elements */
    const int64_t *ints; /* [count] whole numbers known before there are records; NULL: not so */
    const float *floats; /* [count] known numbers, those of ints too; NULL: not known */
    bool owns_ints, owns_floats; /* freed with the plan */
    size_t variable;             /* number of the variable that it is; SIZE_MAX: none */
    /* the value that it is in another shape, in the same memory; NULL: none */
    struct onnx_value *is;
    bool trains;        /* a variable is among its inputs, directly or not */
    size_t at;          /* place in the arena */
    size_t gradient_at; /* place of its gradient; SIZE_MAX: not wanted */
};

struct onnx_op;

/* A node of the file. */
struct onnx_node {
    const struct onnx_op *op;
    const Onnx__NodeProto *proto; /* its attributes */
    const char *name;
    int64_t opset;
    size_t *in, *out; /* numbers of values; SIZE_MAX: left out */
    size_t in_count, out_count;
    bool frozen; /* BatchNormalization: its running statistics are used in training, too */
};

/* A node for one number of records. */
struct onnx_step {
    const struct onnx_node *node;
    struct onnx_value **in, **out; /* NULL: left out */
    size_t in_count, out_count;
    size_t records;
    void *plan;            /* the operator's own, one piece of memory; freed with the step */
    size_t state_floats;   /* kept from forward to backward */
    size_t scratch_floats; /* for the length of one call */
    /* Set by the plan: */
    size_t state_at;
    size_t *dx_at; /* [in_count] where backward() writes; SIZE_MAX: not wanted */
    bool *dx_adds; /* [in_count] it is scratch, to be added to the value's gradient */
    bool trains;   /* backward() is to be called */
    bool runs;     /* forward() is */
};

struct onnx_calc {
    const struct onnx_step *step;
    bool training;
    uint64_t key;     /* of this step of this replica, for random numbers */
    const float **x;  /* [in_count]; NULL: left out, or known whole numbers */
    float **y;        /* [out_count] */
    const float **dy; /* [out_count]; NULL: no gradient comes from that output */
    float **dx;       /* [in_count] each overwritten; NULL: not wanted */
    float *state;
    float *scratch;
};

enum {
    ONNX_SAME_BYTES = 1, /* out[0] is in[0] in another shape: there is nothing to compute */
    ONNX_STATISTICS = 2, /* dx of inputs 3 and 4 is what a batch has, times its records */
};

struct onnx_op {
    const char *type;
    size_t in_min, in_max, out_max; /* in_max 0: any number */
    unsigned flags;
    /* The shape and type of each output, and known values where they can be. Errors: ERR_INVALID
     * "what is wrong; what would fit"; the caller adds which node. */
    int (*shape)(struct onnx_step *s, struct err *err);
    void (*forward)(const struct onnx_calc *c);
    void (*backward)(const struct onnx_calc *c); /* NULL: it has no gradient */
    unsigned settings; /* bits of inputs that are settings, not trained: known values */
};

const struct onnx_op *onnx_op_find(const char *type); /* NULL: unknown */
const struct onnx_op *onnx_op_at(size_t i);           /* NULL past the end */
/* Advice for an operator that is not there; a sentence. */
const char *onnx_op_advice(const char *type);

/* ---- attributes (onnx_attribute.c) ---- */

int64_t onnx_attribute_int(const struct onnx_node *n, const char *name, int64_t otherwise);
float onnx_attribute_float(const struct onnx_node *n, const char *name, float otherwise);
/* Equal to @text? False without the attribute. */
bool onnx_attribute_is(const struct onnx_node *n, const char *name, const char *text);
/* NULL without the attribute. */
const int64_t *onnx_attribute_ints(const struct onnx_node *n, const char *name, size_t *count);
const Onnx__AttributeProto *onnx_attribute(const struct onnx_node *n, const char *name);

/* ---- shapes and known values (onnx_shape.c) ---- */

size_t onnx_dims_count(const struct onnx_dims *d);
bool onnx_dims_equal(const struct onnx_dims *a, const struct onnx_dims *b);
const char *onnx_dims_format(const struct onnx_dims *d, char *out, size_t n);
/* Set an output's shape. Errors: ERR_INVALID it would be too large, or empty. */
int onnx_set_shape(struct onnx_value *v, enum onnx_type type, const struct onnx_dims *shape,
                   struct err *err);
/* Memory for the known values of @v, whose shape is set and which gets it; it is freed with the
 * plan. Of whole numbers NULL: too many. Of floats ERR_EXHAUSTED: NULL. */
int64_t *onnx_set_ints(struct onnx_value *v);
float *onnx_set_floats(struct onnx_value *v, struct err *err);
bool onnx_known(const struct onnx_value *v); /* its whole numbers are known */
/* An axis from -rank to rank - 1. Errors: ERR_INVALID. */
int onnx_axis(int64_t axis, size_t rank, size_t *out, struct err *err);
/* The whole numbers of input @i, or of the attribute @name of older versions. *@ints is NULL where
 * neither is there. Errors: ERR_INVALID the input is computed from records. */
int onnx_ints_of(const struct onnx_step *s, size_t i, const char *name, const int64_t **ints,
                 size_t *count, struct err *err);
/* The one known float of input @i; @out stays where it is left out. Errors: ERR_INVALID. */
int onnx_scalar_of(const struct onnx_step *s, size_t i, float *out, struct err *err);
/* Elements before, along and after an axis. */
struct onnx_cut {
    size_t outer, along, inner;
};
struct onnx_cut onnx_cut_at(const struct onnx_dims *d, size_t axis);
bool onnx_in_is(const struct onnx_step *s, size_t i);      /* input @i is there */
int onnx_same_shape(struct onnx_step *s, struct err *err); /* shape() of elementwise operators */
int onnx_needs_floats(const struct onnx_step *s, size_t i, struct err *err);

/* ---- two inputs of different shapes (onnx_broadcast.c) ---- */

struct onnx_broadcast {
    size_t rank; /* of what is left after joining dimensions */
    size_t dims[ONNX_DIMS_MAX];
    size_t a[ONNX_DIMS_MAX], b[ONNX_DIMS_MAX]; /* strides; 0: repeated */
};
int onnx_broadcast_shapes(const struct onnx_dims *a, const struct onnx_dims *b,
                          struct onnx_dims *out, struct err *err);
void onnx_broadcast_make(const struct onnx_dims *a, const struct onnx_dims *b,
                         const struct onnx_dims *out, struct onnx_broadcast *plan);
/* Rows along the last dimension: where both inputs are. Begins zeroed. */
struct onnx_row {
    size_t a, b;
    size_t index[ONNX_DIMS_MAX];
};
size_t onnx_broadcast_rows(const struct onnx_broadcast *plan);
void onnx_row_next(const struct onnx_broadcast *plan, struct onnx_row *row);
/* to = the sum of @from, as large as the output, over where @b is repeated. */
void onnx_broadcast_sum_b(const struct onnx_broadcast *plan, const float *from, size_t n_b,
                          float *to);

#endif
