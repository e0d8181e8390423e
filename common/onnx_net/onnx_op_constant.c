/* SPDX-License-Identifier: Apache-2.0 */
/* Constant, ConstantOfShape, Shape, Range and Cast. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_net_tensor.h"
#include "onnx_net/onnx_op.h"

/* ---- Constant ---- */

static int numbers(struct onnx_step *s, size_t rank, const Onnx__AttributeProto *a, struct err *err)
{
    const bool whole = a->has_i || a->n_ints > 0;
    const size_t n = rank == 0 ? 1 : whole ? a->n_ints : a->n_floats;
    const struct onnx_dims shape = {.rank = rank, .dims = {n}};
    int rc = onnx_set_shape(s->out[0], whole ? ONNX_INT : ONNX_FLOAT, &shape, err);
    int64_t *ints = rc == 0 && whole ? onnx_set_ints(s->out[0]) : NULL;
    if (rc == 0 && whole && ints == NULL) {
        return err_set(err, ERR_INVALID, "%zu whole numbers; at most %d are possible", n,
                       ONNX_INTS_MAX);
    }
    if (rc == 0 && whole) {
        memcpy(ints, rank == 0 ? &a->i : a->ints, n * sizeof *ints);
    } else if (rc == 0) {
        float *floats = onnx_set_floats(s->out[0], err);
        if (floats == NULL) {
            return ERR_EXHAUSTED;
        }
        memcpy(floats, rank == 0 ? &a->f : a->floats, n * sizeof *floats);
    }
    return rc;
}

static int constant_shape(struct onnx_step *s, struct err *err)
{
    static const struct {
        const char *name;
        size_t rank;
    } forms[] = {{"value_int", 0}, {"value_float", 0}, {"value_ints", 1}, {"value_floats", 1}};
    const Onnx__AttributeProto *a = onnx_attribute(s->node, "value");
    if (a != NULL && a->t != NULL) {
        return onnx_net_tensor(a->t, NULL, s->out[0], err);
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        a = onnx_attribute(s->node, forms[i].name);
        if (a != NULL && (forms[i].rank == 1 || a->has_i || a->has_f)) {
            return numbers(s, forms[i].rank, a, err);
        }
    }
    return err_set(err, ERR_INVALID, "it has no value of numbers");
}

const struct onnx_op onnx_op_constant = {"Constant", 0, 0, 1, 0, constant_shape, NULL, NULL, 0};

/* ---- ConstantOfShape ---- */

static int fill(struct onnx_value *to, const struct onnx_value *one, struct err *err)
{
    int64_t *ints = one->ints == NULL ? NULL : onnx_set_ints(to);
    if (one->ints != NULL && ints == NULL) {
        return err_set(err, ERR_INVALID, "%zu whole numbers; at most %d are possible", to->count,
                       ONNX_INTS_MAX);
    }
    float *floats = ints == NULL ? onnx_set_floats(to, err) : NULL;
    if (ints == NULL && floats == NULL) {
        return ERR_EXHAUSTED;
    }
    for (size_t i = 0; i < to->count; i++) {
        if (ints != NULL) {
            ints[i] = one->ints[0];
        } else {
            floats[i] = one->floats[0];
        }
    }
    return 0;
}

static int constant_of_shape_shape(struct onnx_step *s, struct err *err)
{
    static const float zero = 0.0F;
    const Onnx__AttributeProto *a = onnx_attribute(s->node, "value");
    struct onnx_value one = {.type = ONNX_FLOAT, .count = 1, .floats = &zero};
    const int64_t *want;
    size_t count;
    int rc = onnx_ints_of(s, 0, NULL, &want, &count, err);
    if (rc == 0 && a != NULL && a->t != NULL) {
        one = (struct onnx_value){.name = "value"};
        rc = onnx_net_tensor(a->t, NULL, &one, err);
    }
    if (rc == 0 && one.count != 1) {
        rc = err_set(err, ERR_INVALID, "its value has %zu numbers; 1 would fit", one.count);
    }
    struct onnx_dims shape = {.rank = count};
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (count > ONNX_DIMS_MAX || want[i] < 0 || want[i] > ONNX_ELEMENTS_MAX) {
            rc = err_set(err, ERR_INVALID, "dimension %zu of %zu is to be %" PRId64, i, count,
                         want[i]);
        } else {
            shape.dims[i] = (size_t)want[i];
        }
    }
    rc = rc != 0 ? rc : onnx_set_shape(s->out[0], one.type, &shape, err);
    rc = rc != 0 ? rc : fill(s->out[0], &one, err);
    onnx_value_release(&one);
    return rc;
}

const struct onnx_op onnx_op_constant_of_shape = {"ConstantOfShape",       1,    1,    1, 0,
                                                  constant_of_shape_shape, NULL, NULL, 1};

/* ---- Shape: from start to end since opset 15 ---- */

static int shape_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    const int64_t rank = (int64_t)in->rank;
    int64_t start = onnx_attribute_int(s->node, "start", 0);
    int64_t end = onnx_attribute_int(s->node, "end", rank);
    start = start < -rank ? 0 : start < 0 ? start + rank : start > rank ? rank : start;
    end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
    const struct onnx_dims shape = {.rank = 1, .dims = {(size_t)(end > start ? end - start : 0)}};
    int rc = onnx_set_shape(s->out[0], ONNX_INT, &shape, err);
    int64_t *ints = rc == 0 ? onnx_set_ints(s->out[0]) : NULL;
    for (int64_t i = start; i < end && ints != NULL; i++) {
        *ints++ = (int64_t)in->dims[i];
    }
    return rc;
}

const struct onnx_op onnx_op_shape = {"Shape", 1, 1, 1, 0, shape_shape, NULL, NULL, 0};

static int range_shape(struct onnx_step *s, struct err *err)
{
    const int64_t *start, *limit, *delta;
    size_t counts[3];
    int rc = onnx_ints_of(s, 0, NULL, &start, &counts[0], err);
    rc = rc != 0 ? rc : onnx_ints_of(s, 1, NULL, &limit, &counts[1], err);
    rc = rc != 0 ? rc : onnx_ints_of(s, 2, NULL, &delta, &counts[2], err);
    if (rc != 0) {
        return rc;
    }
    int64_t span;
    if (counts[0] != 1 || counts[1] != 1 || counts[2] != 1 || *delta == 0 || *delta == INT64_MIN ||
        __builtin_sub_overflow(*limit, *start, &span) || span == INT64_MIN) {
        return err_set(err, ERR_INVALID, "it has no start, limit and step of one number each");
    }
    const int64_t by = *delta > 0 ? *delta : -*delta;
    span = *delta > 0 ? span : -span;
    const uint64_t n = span <= 0 ? 0 : (uint64_t)((span - 1) / by) + 1;
    if (n > ONNX_INTS_MAX) {
        return err_set(err, ERR_INVALID, "it has %" PRIu64 " numbers; at most %d are possible", n,
                       ONNX_INTS_MAX);
    }
    const struct onnx_dims shape = {.rank = 1, .dims = {(size_t)n}};
    rc = onnx_set_shape(s->out[0], ONNX_INT, &shape, err);
    int64_t *ints = onnx_set_ints(s->out[0]);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        ints[i] = *start + (int64_t)i * *delta;
    }
    return rc;
}

const struct onnx_op onnx_op_range = {"Range", 3, 3, 1, 0, range_shape, NULL, NULL, 7};

/* ---- Cast ---- */

static bool type_of(int64_t to, enum onnx_type *type)
{
    switch (to) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        *type = ONNX_FLOAT;
        return true;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        *type = ONNX_INT;
        return true;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        *type = ONNX_BOOL;
        return true;
    default:
        return false;
    }
}

static float cast_one(enum onnx_type to, float x)
{
    return to == ONNX_FLOAT ? x : to == ONNX_INT ? truncf(x) : x != 0.0F ? 1.0F : 0.0F;
}

static int cast_shape(struct onnx_step *s, struct err *err)
{
    enum onnx_type to;
    const int64_t given = onnx_attribute_int(s->node, "to", 0);
    const struct onnx_value *x = s->in[0];
    if (!type_of(given, &to)) {
        return err_set(err, ERR_INVALID,
                       "it casts to type %" PRId64 "; float, int32, int64 or bool would fit",
                       given);
    }
    int rc = onnx_set_shape(s->out[0], to, &x->shape, err);
    if (rc != 0 || (x->ints == NULL && x->floats == NULL) || x->trains) {
        return rc;
    }
    int64_t *ints = to == ONNX_FLOAT ? NULL : onnx_set_ints(s->out[0]);
    float *floats = ints == NULL ? onnx_set_floats(s->out[0], err) : NULL;
    if (ints == NULL && floats == NULL) {
        return ERR_EXHAUSTED;
    }
    for (size_t i = 0; i < x->count; i++) {
        const float f = x->ints != NULL ? (float)x->ints[i] : x->floats[i];
        if (floats != NULL) {
            floats[i] = cast_one(to, f);
        } else if (x->ints != NULL) {
            ints[i] = to == ONNX_BOOL ? x->ints[i] != 0 : x->ints[i];
        } else { /* a value that is no whole number becomes 0 */
            ints[i] = fabsf(f) < 9.0e18F ? (int64_t)cast_one(to, f) : 0;
        }
    }
    return 0;
}

static void cast_forward(const struct onnx_calc *c)
{
    for (size_t i = 0; i < c->step->out[0]->count; i++) {
        c->y[0][i] = cast_one(c->step->out[0]->type, c->x[0][i]);
    }
}

/* Steps have no slope. */
static void cast_backward(const struct onnx_calc *c)
{
    const bool through = c->step->out[0]->type == ONNX_FLOAT && c->step->in[0]->type == ONNX_FLOAT;
    for (size_t i = 0; i < c->step->out[0]->count; i++) {
        c->dx[0][i] = through ? c->dy[0][i] : 0.0F;
    }
}

const struct onnx_op onnx_op_cast = {"Cast",        1, 1, 1, 0, cast_shape, cast_forward,
                                     cast_backward, 0};
