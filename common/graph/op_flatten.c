/* SPDX-License-Identifier: Apache-2.0 */
/* flatten: the same numbers as one row. */
#include "graph/layer_onnx.h"
#include "graph/op.h"

static int flatten_plan(struct layer *l, struct err *err)
{
    (void)err;
    l->out = (struct shape){.rank = 1, .dims = {l->in_count}};
    return 0;
}

static int flatten_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    return layer_onnx_is(o, onnx_graph_op(o->graph, "Flatten", "", layer_onnx_last(o, 0), NULL));
}

extern const struct layer_kind layer_flatten;
const struct layer_kind layer_flatten = {
    .name = "flatten",
    .help = "Makes one row of an image or any other shape",
    .view = true,
    .plan = flatten_plan,
    .onnx = flatten_onnx,
};
