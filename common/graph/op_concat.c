/* SPDX-License-Identifier: Apache-2.0 */
/* concat: the inputs side by side, along the last dimension. */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"

static size_t width_of(const struct layer_input *in)
{
    return (size_t)in->shape.dims[in->shape.rank - 1];
}

/* True if the shapes are the same but for the last dimension. */
static bool fits(const struct shape *a, const struct shape *b)
{
    bool same = a->rank == b->rank;
    for (size_t i = 0; same && i + 1 < a->rank; i++) {
        same = a->dims[i] == b->dims[i];
    }
    return same;
}

static int concat_plan(struct layer *l, struct err *err)
{
    uint64_t width = 0;
    for (size_t k = 0; k < l->input_count; k++) {
        const struct shape *shape = &l->inputs[k].shape;
        if (shape->rank == 0 || !fits(&l->in, shape)) {
            char first[96], other[96];
            return err_set(err, ERR_INVALID,
                           "its inputs must have one shape but for the last dimension, but the "
                           "first is %s and the %zu. is %s",
                           shape_format(&l->in, first, sizeof first), k + 1,
                           shape_format(shape, other, sizeof other));
        }
        width += width_of(&l->inputs[k]);
    }
    l->out = l->in;
    l->out.dims[l->out.rank - 1] = width;
    return 0;
}

/* Rows of all but the last dimension. */
static size_t rows_of(const struct layer_run *r)
{
    return r->count * (r->layer->in_count / width_of(&r->layer->inputs[0]));
}

static void concat_forward(const struct layer_run *r)
{
    const size_t rows = rows_of(r), all = (size_t)r->layer->out.dims[r->layer->out.rank - 1];
    size_t at = 0;
    for (size_t k = 0; k < r->layer->input_count; k++) {
        const size_t width = width_of(&r->layer->inputs[k]);
        for (size_t i = 0; i < rows; i++) {
            memcpy(r->y + i * all + at, r->xs[k] + i * width, width * sizeof *r->y);
        }
        at += width;
    }
}

static void concat_backward(const struct layer_run *r)
{
    const size_t rows = rows_of(r), all = (size_t)r->layer->out.dims[r->layer->out.rank - 1];
    size_t at = 0;
    for (size_t k = 0; k < r->layer->input_count; k++) {
        const size_t width = width_of(&r->layer->inputs[k]);
        for (size_t i = 0; i < rows && r->dxs[k] != NULL; i++) {
            memcpy(r->dxs[k] + i * width, r->dy + i * all + at, width * sizeof *r->dy);
        }
        at += width;
    }
}

static int concat_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const char *inputs[LAYER_INPUTS_MAX];
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", o->keeps_first ? 1 : -1);
    for (size_t k = 0; k < o->layer->input_count; k++) {
        inputs[k] = layer_onnx_any(o, k);
    }
    return layer_onnx_keep(
        o, onnx_graph_node(o->graph, "Concat", "", inputs, o->layer->input_count, &axis, 1));
}

extern const struct layer_kind layer_concat;
const struct layer_kind layer_concat = {
    .name = "concat",
    .help = "Its inputs side by side, along the last dimension",
    .inputs_min = 2,
    .inputs_max = LAYER_INPUTS_MAX,
    .plan = concat_plan,
    .forward = concat_forward,
    .backward = concat_backward,
    .onnx = concat_onnx,
};
