/* SPDX-License-Identifier: Apache-2.0 */
/* softmax over the last dimension: y = e^x / sum of e^x. */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

static size_t last_dimension(const struct layer *l)
{
    return (size_t)l->out.dims[l->out.rank - 1];
}

static int softmax_plan(struct layer *l, struct err *err)
{
    if (l->in.rank == 0) {
        return err_set(err, ERR_INVALID,
                       "softmax needs a row of numbers, but its input is one "
                       "number; use sigmoid");
    }
    return layer_plan_same_shape(l, err);
}

static void softmax_forward(const struct layer_run *r)
{
    const size_t width = last_dimension(r->layer);
    activation_softmax(r->count * r->layer->out_count / width, width, r->x, r->y);
}

static void softmax_backward(const struct layer_run *r)
{
    const size_t width = last_dimension(r->layer);
    if (r->dx != NULL) {
        activation_softmax_backward(r->count * r->layer->out_count / width, width, r->y, r->dy,
                                    r->dx);
    }
}

static int softmax_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const char *x = layer_onnx_last(o, 0);
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", -1);
    return layer_onnx_is(o, onnx_graph_node(o->graph, "Softmax", "", &x, 1, &axis, 1));
}

extern const struct layer_kind layer_softmax;
const struct layer_kind layer_softmax = {
    .name = "softmax",
    .help = "Turns the last dimension into probabilities that add up to 1",
    .in_place = true,
    .reads_output = true,
    .plan = softmax_plan,
    .forward = softmax_forward,
    .backward = softmax_backward,
    .onnx = softmax_onnx,
};
