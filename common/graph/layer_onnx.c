/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of values, and nodes that several kinds need. */
#include "graph/layer_onnx.h"

/* ---- layouts ---- */

static const char *turn(struct onnx_graph *g, const char *name, const char *x, const int64_t *perm,
                        size_t rank)
{
    const struct onnx_attr attr = ONNX_ATTR_INTS("perm", perm, rank);
    return onnx_graph_node(g, "Transpose", name, &x, 1, &attr, 1);
}

const char *layer_onnx_value_last(struct onnx_graph *g, struct layer_onnx_value *v)
{
    const size_t rank = v->shape.rank + 1;
    int64_t perm[ONNX_DIMS_MAX] = {0};
    for (size_t i = 1; i + 1 < rank; i++) {
        perm[i] = (int64_t)i + 1;
    }
    perm[rank - 1] = 1;
    if (v->last == NULL) {
        v->last = rank < 3 ? v->first : turn(g, "/features_last", v->first, perm, rank);
    }
    return v->last;
}

static const char *layer_onnx_value_first(struct onnx_graph *g, struct layer_onnx_value *v)
{
    const size_t rank = v->shape.rank + 1;
    int64_t perm[ONNX_DIMS_MAX] = {0, (int64_t)rank - 1};
    for (size_t i = 2; i < rank; i++) {
        perm[i] = (int64_t)i - 1;
    }
    if (v->first == NULL) {
        v->first = rank < 3 ? v->last : turn(g, "/features_first", v->last, perm, rank);
    }
    return v->first;
}

const char *layer_onnx_last(struct layer_onnx *o, size_t k)
{
    return layer_onnx_value_last(o->graph, o->inputs[k]);
}

const char *layer_onnx_first(struct layer_onnx *o, size_t k)
{
    return layer_onnx_value_first(o->graph, o->inputs[k]);
}

const char *layer_onnx_any(struct layer_onnx *o, size_t k)
{
    return o->keeps_first ? layer_onnx_first(o, k) : layer_onnx_last(o, k);
}

int layer_onnx_is(struct layer_onnx *o, const char *y)
{
    o->y.last = y;
    return 0;
}

int layer_onnx_is_first(struct layer_onnx *o, const char *y)
{
    o->y.first = y;
    return 0;
}

int layer_onnx_keep(struct layer_onnx *o, const char *y)
{
    return o->keeps_first ? layer_onnx_is_first(o, y) : layer_onnx_is(o, y);
}

/* ---- nodes ---- */

const char *layer_onnx_variable(struct layer_onnx *o, size_t i)
{
    const struct variable_spec *v = &o->layer->variables[i];
    return onnx_graph_floats(o->graph, v->name, &v->shape, o->values[i]);
}

const char *layer_onnx_sum(struct layer_onnx *o, const char *name, const char *x, int64_t axis,
                           bool keep)
{
    const struct onnx_attr attr = ONNX_ATTR_INT("keepdims", keep);
    const char *inputs[2] = {x, onnx_graph_ints(o->graph, "/axes", 1, &axis)};
    return onnx_graph_node(o->graph, "ReduceSum", name, inputs, 2, &attr, 1);
}

const char *layer_onnx_unsqueeze(struct layer_onnx *o, const char *name, const char *x,
                                 int64_t axis)
{
    const char *axes = onnx_graph_ints(o->graph, "/axes", 1, &axis);
    return onnx_graph_op(o->graph, "Unsqueeze", name, x, axes, NULL);
}

int layer_onnx_chain(struct layer_onnx *o, const char *op)
{
    const size_t count = o->layer->input_count;
    const char *y = layer_onnx_any(o, 0);
    for (size_t k = 1; k < count; k++) {
        y = onnx_graph_op(o->graph, op, k + 1 < count ? "/part" : "", y, layer_onnx_any(o, k),
                          NULL);
    }
    return layer_onnx_keep(o, y);
}

const char *layer_onnx_rows(struct layer_onnx *o)
{
    const char *rows[LAYER_INPUTS_MAX];
    const size_t count = o->layer->input_count;
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 1);
    for (size_t k = 0; k < count; k++) {
        rows[k] = layer_onnx_last(o, k);
        if (o->layer->inputs[k].shape.rank == 1) {
            rows[k] = layer_onnx_unsqueeze(o, "/row", rows[k], 1);
        }
    }
    return count == 1 ? rows[0]
                      : onnx_graph_node(o->graph, "Concat", "/rows", rows, count, &axis, 1);
}

/* ---- images ---- */

const char *layer_onnx_image(struct layer_onnx *o)
{
    if (o->layer->in.rank == 3) {
        return layer_onnx_first(o, 0);
    }
    return layer_onnx_unsqueeze(o, "/image", layer_onnx_last(o, 0), 1);
}

/* Padding behind the image, so that all windows are whole. */
static int64_t pad_behind(size_t in, size_t size, size_t stride, size_t out, size_t before)
{
    const size_t reach = (out - 1) * stride + size;
    return reach > in + before ? (int64_t)(reach - in - before) : 0;
}

void layer_onnx_window(const struct layer_onnx *o, struct layer_onnx_window *out)
{
    const struct window *w = &o->layer->window;
    *out = (struct layer_onnx_window){
        .size = {(int64_t)w->height, (int64_t)w->width},
        .stride = {(int64_t)w->stride_height, (int64_t)w->stride_width},
        .pads = {(int64_t)w->pad_top, (int64_t)w->pad_left,
                 pad_behind(w->in_height, w->height, w->stride_height, w->out_height, w->pad_top),
                 pad_behind(w->in_width, w->width, w->stride_width, w->out_width, w->pad_left)},
        .count = 3};
    out->attrs[0] = ONNX_ATTR_INTS("kernel_shape", out->size, 2);
    out->attrs[1] = ONNX_ATTR_INTS("strides", out->stride, 2);
    out->attrs[2] = ONNX_ATTR_INTS("pads", out->pads, 4);
}
