/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that give a tensor another shape, or none at all: nothing is computed. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_op.h"

/* The output is the input in another shape; known numbers stay known. */
static int view(struct onnx_step *s, const struct onnx_dims *shape, struct err *err)
{
    const struct onnx_value *x = s->in[0];
    char from[128], to[128];
    if (onnx_dims_count(shape) != x->count) {
        return err_set(err, ERR_INVALID,
                       "%s cannot become %s, which has another number of "
                       "elements",
                       onnx_dims_format(&x->shape, from, sizeof from),
                       onnx_dims_format(shape, to, sizeof to));
    }
    s->out[0]->ints = x->ints; /* borrowed */
    s->out[0]->floats = x->floats;
    return onnx_set_shape(s->out[0], x->type, shape, err);
}

static int identity_shape(struct onnx_step *s, struct err *err)
{
    return view(s, &s->in[0]->shape, err);
}

static int wanted_dim(const struct onnx_step *s, int64_t dim, size_t i, struct onnx_dims *out,
                      size_t *free_at, struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    const bool copies = dim == 0 && onnx_attribute_int(s->node, "allowzero", 0) == 0;
    if (dim < -1 || dim > ONNX_ELEMENTS_MAX || (dim == -1 && *free_at != SIZE_MAX) ||
        (copies && i >= in->rank)) {
        return err_set(err, ERR_INVALID, "dimension %zu is to be %" PRId64, i, dim);
    }
    if (dim == -1) {
        *free_at = i;
    }
    out->dims[i] = dim == -1 ? 1 : copies ? in->dims[i] : (size_t)dim;
    return 0;
}

/* The shape of Reshape: -1 is the rest, 0 the dimension of before. */
static int reshape_shape(struct onnx_step *s, struct err *err)
{
    const int64_t *want;
    size_t count, free_at = SIZE_MAX;
    int rc = onnx_ints_of(s, 1, NULL, &want, &count, err);
    if (rc == 0 && count > ONNX_DIMS_MAX) {
        rc = err_set(err, ERR_INVALID, "%zu dimensions; at most %d are possible", count,
                     ONNX_DIMS_MAX);
    }
    if (rc != 0) {
        return rc;
    }
    struct onnx_dims out = {.rank = count};
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = wanted_dim(s, want[i], i, &out, &free_at, err);
    }
    const size_t rest = rc == 0 ? onnx_dims_count(&out) : 0;
    if (free_at != SIZE_MAX && rest > 0 && rest != SIZE_MAX) {
        out.dims[free_at] = s->in[0]->count / rest;
    }
    return rc != 0 ? rc : view(s, &out, err);
}

static int flatten_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    const int64_t given = onnx_attribute_int(s->node, "axis", 1);
    size_t axis = in->rank;
    int rc = given == (int64_t)in->rank ? 0 : onnx_axis(given, in->rank, &axis, err);
    if (rc != 0) {
        return rc;
    }
    struct onnx_dims out = {.rank = 2, .dims = {1, 1}};
    for (size_t i = 0; i < in->rank; i++) {
        out.dims[i >= axis] *= in->dims[i];
    }
    return view(s, &out, err);
}

static int squeeze_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    const int64_t *axes;
    size_t count;
    bool gone[ONNX_DIMS_MAX] = {false};
    int rc = onnx_ints_of(s, 1, "axes", &axes, &count, err);
    for (size_t i = 0; i < in->rank && count == 0; i++) {
        gone[i] = in->dims[i] == 1;
    }
    for (size_t i = 0; i < count && rc == 0; i++) {
        size_t axis;
        rc = onnx_axis(axes[i], in->rank, &axis, err);
        if (rc == 0 && in->dims[axis] != 1) {
            rc = err_set(err, ERR_INVALID, "dimension %zu is %zu; 1 would fit", axis,
                         in->dims[axis]);
        }
        if (rc == 0) {
            gone[axis] = true;
        }
    }
    struct onnx_dims out = {.rank = 0};
    for (size_t i = 0; i < in->rank && rc == 0; i++) {
        if (!gone[i]) {
            out.dims[out.rank++] = in->dims[i];
        }
    }
    return rc != 0 ? rc : view(s, &out, err);
}

static int unsqueeze_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    const int64_t *axes;
    size_t count, from = 0;
    bool made[ONNX_DIMS_MAX] = {false};
    int rc = onnx_ints_of(s, 1, "axes", &axes, &count, err);
    if (rc == 0 && in->rank + count > ONNX_DIMS_MAX) {
        rc = err_set(err, ERR_INVALID, "%zu dimensions; at most %d are possible", in->rank + count,
                     ONNX_DIMS_MAX);
    }
    struct onnx_dims out = {.rank = in->rank + count};
    for (size_t i = 0; i < count && rc == 0; i++) {
        size_t axis;
        rc = onnx_axis(axes[i], out.rank, &axis, err);
        if (rc == 0 && made[axis]) {
            rc = err_set(err, ERR_INVALID, "axis %zu is named twice", axis);
        }
        if (rc == 0) {
            made[axis] = true;
        }
    }
    for (size_t i = 0; i < out.rank && rc == 0; i++) {
        out.dims[i] = made[i] ? 1 : in->dims[from++];
    }
    return rc != 0 ? rc : view(s, &out, err);
}

#define VIEW(symbol, type, most, settings)                                                         \
    const struct onnx_op onnx_op_##symbol = {type,           1,    most, 1,       ONNX_SAME_BYTES, \
                                             symbol##_shape, NULL, NULL, settings};
VIEW(identity, "Identity", 1, 0)
VIEW(reshape, "Reshape", 2, 2)
VIEW(flatten, "Flatten", 1, 0)
VIEW(squeeze, "Squeeze", 2, 2)
VIEW(unsqueeze, "Unsqueeze", 2, 2)
