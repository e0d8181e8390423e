/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes, and values that are known before there are records. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_op.h"

size_t onnx_dims_count(const struct onnx_dims *d)
{
    size_t n = 1;
    for (size_t i = 0; i < d->rank; i++) {
        if (!mem_mul(n, d->dims[i], &n)) {
            return SIZE_MAX;
        }
    }
    return n;
}

bool onnx_dims_equal(const struct onnx_dims *a, const struct onnx_dims *b)
{
    bool equal = a->rank == b->rank;
    for (size_t i = 0; i < a->rank && equal; i++) {
        equal = a->dims[i] == b->dims[i];
    }
    return equal;
}

const char *onnx_dims_format(const struct onnx_dims *d, char *out, size_t n)
{
    size_t at = (size_t)snprintf(out, n, "[");
    for (size_t i = 0; i < d->rank && at < n; i++) {
        at += (size_t)snprintf(out + at, n - at, "%s%zu", i == 0 ? "" : ", ", d->dims[i]);
    }
    if (at < n) {
        (void)snprintf(out + at, n - at, "]");
    }
    return out;
}

int onnx_set_shape(struct onnx_value *v, enum onnx_type type, const struct onnx_dims *shape,
                   struct err *err)
{
    char text[128];
    const size_t count = onnx_dims_count(shape);
    if (count > ONNX_NUMBERS_MAX) {
        return err_set(err, ERR_INVALID, "its output would be %s; at most %d elements are possible",
                       onnx_dims_format(shape, text, sizeof text), ONNX_NUMBERS_MAX);
    }
    v->type = type;
    v->shape = *shape;
    v->count = count;
    v->shaped = true;
    return 0;
}

int64_t *onnx_set_ints(struct onnx_value *v)
{
    if (v->count > ONNX_INTS_MAX) {
        return NULL;
    }
    int64_t *ints = mem_new(v->count + 1, sizeof *ints);
    v->ints = ints;
    v->owns_ints = true;
    return ints;
}

float *onnx_set_floats(struct onnx_value *v, struct err *err)
{
    float *floats = mem_try_aligned(v->count + 1, sizeof *floats, "known numbers", err);
    v->floats = floats;
    v->owns_floats = floats != NULL;
    return floats;
}

bool onnx_known(const struct onnx_value *v)
{
    return v->ints != NULL;
}

int onnx_axis(int64_t axis, size_t rank, size_t *out, struct err *err)
{
    const int64_t r = (int64_t)rank;
    if (axis < -r || axis >= r) {
        return err_set(err, ERR_INVALID,
                       "axis %" PRId64 " of a tensor of %zu dimensions; from %" PRId64
                       " to %" PRId64 " would fit",
                       axis, rank, -r, r - 1);
    }
    *out = (size_t)(axis < 0 ? axis + r : axis);
    return 0;
}

bool onnx_in_is(const struct onnx_step *s, size_t i)
{
    return i < s->in_count && s->in[i] != NULL;
}

int onnx_ints_of(const struct onnx_step *s, size_t i, const char *name, const int64_t **ints,
                 size_t *count, struct err *err)
{
    if (!onnx_in_is(s, i)) {
        *ints = name == NULL ? NULL : onnx_attribute_ints(s->node, name, count);
        *count = *ints == NULL ? 0 : *count;
        return 0;
    }
    if (s->in[i]->ints == NULL) {
        return err_set(err, ERR_INVALID,
                       "input %zu (%.64s) is not known before there are records; a constant, or "
                       "what shapes alone decide, would fit",
                       i, s->in[i]->name);
    }
    *ints = s->in[i]->ints;
    *count = s->in[i]->count;
    return 0;
}

int onnx_scalar_of(const struct onnx_step *s, size_t i, float *out, struct err *err)
{
    if (!onnx_in_is(s, i)) {
        return 0;
    }
    if (s->in[i]->floats == NULL || s->in[i]->count != 1) {
        return err_set(err, ERR_INVALID,
                       "input %zu (%.64s) is a setting; one constant number would fit", i,
                       s->in[i]->name);
    }
    *out = s->in[i]->floats[0];
    return 0;
}

struct onnx_cut onnx_cut_at(const struct onnx_dims *d, size_t axis)
{
    struct onnx_cut cut = {1, 1, 1};
    for (size_t i = 0; i < d->rank; i++) {
        size_t *to = i < axis ? &cut.outer : i == axis ? &cut.along : &cut.inner;
        *to *= d->dims[i];
    }
    return cut;
}

int onnx_needs_floats(const struct onnx_step *s, size_t i, struct err *err)
{
    return s->in[i]->type == ONNX_FLOAT
               ? 0
               : err_set(err, ERR_INVALID, "input %zu (%.64s) has whole numbers; floats would fit",
                         i, s->in[i]->name);
}

int onnx_same_shape(struct onnx_step *s, struct err *err)
{
    int rc = onnx_needs_floats(s, 0, err);
    return rc != 0 ? rc : onnx_set_shape(s->out[0], ONNX_FLOAT, &s->in[0]->shape, err);
}
