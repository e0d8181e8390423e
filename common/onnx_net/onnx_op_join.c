/* SPDX-License-Identifier: Apache-2.0 */
/* Concat, Split and Gather: pieces along one axis. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_op.h"
#include "tensor/kernel.h"

/* ---- Concat ---- */

static int concat_sizes(const struct onnx_step *s, size_t axis, struct onnx_dims *out,
                        struct err *err)
{
    for (size_t k = 1; k < s->in_count; k++) {
        struct onnx_dims other = s->in[k]->shape;
        const size_t here = axis < other.rank ? other.dims[axis] : 0;
        if (axis < other.rank) {
            other.dims[axis] = out->dims[axis];
        }
        if (!onnx_dims_equal(&other, out) || s->in[k]->type != s->in[0]->type) {
            char a[128], b[128];
            return err_set(err, ERR_INVALID, "input %zu is %s, and those before it are %s", k,
                           onnx_dims_format(&s->in[k]->shape, a, sizeof a),
                           onnx_dims_format(out, b, sizeof b));
        }
        out->dims[axis] += here;
    }
    return 0;
}

static int concat_shape(struct onnx_step *s, struct err *err)
{
    size_t *axis = mem_new(1, sizeof *axis);
    s->plan = axis;
    for (size_t k = 0; k < s->in_count; k++) {
        if (s->in[k] == NULL) {
            return err_set(err, ERR_INVALID, "input %zu is left out", k);
        }
    }
    struct onnx_dims out = s->in[0]->shape;
    int rc = onnx_axis(onnx_attribute_int(s->node, "axis", 0), out.rank, axis, err);
    rc = rc != 0 ? rc : concat_sizes(s, *axis, &out, err);
    rc = rc != 0 ? rc : onnx_set_shape(s->out[0], s->in[0]->type, &out, err);
    bool known = rc == 0 && out.rank == 1;
    for (size_t k = 0; k < s->in_count; k++) {
        known = known && onnx_known(s->in[k]);
    }
    int64_t *ints = known ? onnx_set_ints(s->out[0]) : NULL;
    for (size_t k = 0; k < s->in_count && ints != NULL; k++) {
        memcpy(ints, s->in[k]->ints, s->in[k]->count * sizeof *ints);
        ints += s->in[k]->count;
    }
    return rc;
}

static void concat_forward(const struct onnx_calc *c)
{
    const struct onnx_cut cut =
        onnx_cut_at(&c->step->out[0]->shape, *(const size_t *)c->step->plan);
    const size_t width = cut.along * cut.inner;
    size_t at = 0;
    for (size_t k = 0; k < c->step->in_count; k++) {
        const size_t w = c->step->in[k]->count / cut.outer;
        for (size_t o = 0; o < cut.outer; o++) {
            memcpy(c->y[0] + o * width + at, c->x[k] + o * w, w * sizeof(float));
        }
        at += w;
    }
}

static void concat_backward(const struct onnx_calc *c)
{
    const struct onnx_cut cut =
        onnx_cut_at(&c->step->out[0]->shape, *(const size_t *)c->step->plan);
    const size_t width = cut.along * cut.inner;
    size_t at = 0;
    for (size_t k = 0; k < c->step->in_count; k++) {
        const size_t w = c->step->in[k]->count / cut.outer;
        for (size_t o = 0; o < cut.outer && c->dx[k] != NULL; o++) {
            memcpy(c->dx[k] + o * w, c->dy[0] + o * width + at, w * sizeof(float));
        }
        at += w;
    }
}

const struct onnx_op onnx_op_concat = {"Concat",        1, 0, 1, 0, concat_shape, concat_forward,
                                       concat_backward, 0};

/* ---- Split: an attribute before opset 13, an input since ---- */

/* In equal parts; the last one is smaller when that is not possible (opset 18). */
static int split_sizes(const struct onnx_step *s, size_t along, size_t *sizes, struct err *err)
{
    const int64_t *given;
    size_t count, left = along;
    int rc = onnx_ints_of(s, 1, "split", &given, &count, err);
    const size_t parts = s->out_count, share = (along + parts - 1) / parts;
    for (size_t k = 0; k < parts && rc == 0; k++) {
        const int64_t size = given == NULL ? (int64_t)(share < left ? share : left)
                             : k < count   ? given[k]
                                           : -1;
        if (size < 0 || (size_t)size > left || (given != NULL && count != parts)) {
            return err_set(err, ERR_INVALID, "%zu sizes for %zu outputs of %zu altogether", count,
                           parts, along);
        }
        sizes[k] = (size_t)size;
        left -= sizes[k];
    }
    return rc == 0 && left > 0
               ? err_set(err, ERR_INVALID, "%zu of %zu are in no output", left, along)
               : rc;
}

static int split_shape(struct onnx_step *s, struct err *err)
{
    size_t *plan = mem_new(s->out_count + 1, sizeof *plan), *axis = plan + s->out_count;
    s->plan = plan;
    struct onnx_dims out = s->in[0]->shape;
    int rc = onnx_axis(onnx_attribute_int(s->node, "axis", 0), out.rank, axis, err);
    rc = rc != 0 ? rc : split_sizes(s, out.dims[*axis], plan, err);
    size_t at = 0;
    for (size_t k = 0; k < s->out_count && rc == 0; k++) {
        out.dims[*axis] = plan[k];
        if (s->out[k] != NULL) {
            rc = onnx_set_shape(s->out[k], s->in[0]->type, &out, err);
            int64_t *ints =
                rc == 0 && out.rank == 1 && onnx_known(s->in[0]) ? onnx_set_ints(s->out[k]) : NULL;
            if (ints != NULL) {
                memcpy(ints, s->in[0]->ints + at, plan[k] * sizeof *ints);
            }
        }
        at += plan[k];
    }
    return rc;
}

static void split_forward(const struct onnx_calc *c)
{
    const size_t parts = c->step->out_count, *sizes = c->step->plan;
    const struct onnx_cut cut = onnx_cut_at(&c->step->in[0]->shape, sizes[parts]);
    const size_t width = cut.along * cut.inner;
    size_t at = 0;
    for (size_t k = 0; k < parts; k++) {
        const size_t w = sizes[k] * cut.inner;
        for (size_t o = 0; o < cut.outer && c->y[k] != NULL; o++) {
            memcpy(c->y[k] + o * w, c->x[0] + o * width + at, w * sizeof(float));
        }
        at += w;
    }
}

static void split_backward(const struct onnx_calc *c)
{
    const size_t parts = c->step->out_count, *sizes = c->step->plan;
    const struct onnx_cut cut = onnx_cut_at(&c->step->in[0]->shape, sizes[parts]);
    const size_t width = cut.along * cut.inner;
    size_t at = 0;
    memset(c->dx[0], 0, c->step->in[0]->count * sizeof(float));
    for (size_t k = 0; k < parts; k++) {
        const size_t w = sizes[k] * cut.inner;
        for (size_t o = 0; o < cut.outer && c->dy[k] != NULL; o++) {
            memcpy(c->dx[0] + o * width + at, c->dy[k] + o * w, w * sizeof(float));
        }
        at += w;
    }
}

const struct onnx_op onnx_op_split = {"Split",        1, 2, SIZE_MAX, 0, split_shape, split_forward,
                                      split_backward, 2};

/* ---- Gather ---- */

static bool row_of(int64_t index, size_t along, size_t *row)
{
    const int64_t n = (int64_t)along;
    *row = (size_t)(index < 0 ? index + n : index);
    return index >= -n && index < n;
}

static int gather_known(struct onnx_step *s, const struct onnx_cut *cut, struct err *err)
{
    const struct onnx_value *x = s->in[0], *at = s->in[1];
    for (size_t i = 0; i < at->count && at->ints != NULL; i++) {
        size_t row;
        if (!row_of(at->ints[i], cut->along, &row)) {
            return err_set(err, ERR_INVALID, "index %" PRId64 " of %zu rows", at->ints[i],
                           cut->along);
        }
    }
    int64_t *ints = onnx_known(x) && onnx_known(at) ? onnx_set_ints(s->out[0]) : NULL;
    for (size_t o = 0; o < cut->outer && ints != NULL; o++) {
        for (size_t i = 0; i < at->count; i++) {
            size_t row = 0;
            (void)row_of(at->ints[i], cut->along, &row);
            memcpy(ints, x->ints + (o * cut->along + row) * cut->inner, cut->inner * sizeof *ints);
            ints += cut->inner;
        }
    }
    return 0;
}

static int gather_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *x = &s->in[0]->shape, *at = &s->in[1]->shape;
    struct onnx_cut *cut = mem_new(1, sizeof *cut);
    size_t axis;
    s->plan = cut;
    int rc = onnx_axis(onnx_attribute_int(s->node, "axis", 0), x->rank, &axis, err);
    if (rc == 0 && s->in[1]->type != ONNX_INT) {
        rc = err_set(err, ERR_INVALID, "its indices are floats; whole numbers would fit");
    }
    if (rc == 0 && x->rank - 1 + at->rank > ONNX_DIMS_MAX) {
        rc = err_set(err, ERR_INVALID, "%zu dimensions; at most %d are possible",
                     x->rank - 1 + at->rank, ONNX_DIMS_MAX);
    }
    if (rc != 0) {
        return rc;
    }
    *cut = onnx_cut_at(x, axis);
    struct onnx_dims out = {.rank = 0};
    for (size_t i = 0; i < axis; i++) {
        out.dims[out.rank++] = x->dims[i];
    }
    for (size_t i = 0; i < at->rank; i++) {
        out.dims[out.rank++] = at->dims[i];
    }
    for (size_t i = axis + 1; i < x->rank; i++) {
        out.dims[out.rank++] = x->dims[i];
    }
    rc = onnx_set_shape(s->out[0], s->in[0]->type, &out, err);
    return rc != 0 ? rc : gather_known(s, cut, err);
}

/* A row number that records bring; false for one that is out of range. */
static bool index_at(const struct onnx_calc *c, const struct onnx_cut *cut, size_t i, size_t *row)
{
    const float x = c->x[1][i];
    return x >= -16777216.0F && x <= 16777216.0F && row_of((int64_t)x, cut->along, row);
}

static void gather_forward(const struct onnx_calc *c)
{
    const struct onnx_cut *cut = c->step->plan;
    const size_t n = c->step->in[1]->count;
    float *y = c->y[0];
    for (size_t o = 0; o < cut->outer; o++) {
        for (size_t i = 0; i < n; i++, y += cut->inner) {
            size_t row;
            if (index_at(c, cut, i, &row)) {
                memcpy(y, c->x[0] + (o * cut->along + row) * cut->inner, cut->inner * sizeof *y);
            } else {
                memset(y, 0xFF, cut->inner * sizeof *y); /* NaN: the step shows it */
            }
        }
    }
}

static void gather_backward(const struct onnx_calc *c)
{
    const struct onnx_cut *cut = c->step->plan;
    const size_t n = c->step->in[1]->count;
    const float *dy = c->dy[0];
    memset(c->dx[0], 0, c->step->in[0]->count * sizeof(float));
    for (size_t o = 0; o < cut->outer; o++) {
        for (size_t i = 0; i < n; i++, dy += cut->inner) {
            size_t row;
            if (index_at(c, cut, i, &row)) {
                kernel_add(cut->inner, dy, c->dx[0] + (o * cut->along + row) * cut->inner);
            }
        }
    }
}

const struct onnx_op onnx_op_gather = {"Gather",        2, 2, 1, 0, gather_shape, gather_forward,
                                       gather_backward, 2};
