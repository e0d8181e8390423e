/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norm (Ba, Kiros, Hinton 2016) over the last dimension, with trainable gamma and beta. */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/kernel.h"

struct layer_norm_params {
    double epsilon;
};

static const struct field layer_norm_fields[] = {
    {"epsilon", FIELD_FLOAT, offsetof(struct layer_norm_params, epsilon), "1e-5", 1e-12, 1, NULL,
     "Added to the variance before its root is taken"},
};

static size_t width_of(const struct layer *l)
{
    return (size_t)l->in.dims[l->in.rank - 1];
}

static int layer_norm_plan(struct layer *l, struct err *err)
{
    static const struct init_params ones = {.kind = INIT_CONSTANT, .mean = 1.0};
    static const struct init_params zeros = {.kind = INIT_ZEROS};
    if (l->in.rank == 0 || width_of(l) < 2) {
        char shape[96];
        return err_set(err, ERR_INVALID,
                       "its input %s has nothing to normalise over; a last dimension of 2 or more "
                       "would fit",
                       shape_format(&l->in, shape, sizeof shape));
    }
    const uint64_t width = width_of(l);
    const struct shape row = {.rank = 1, .dims = {width}};
    l->state_bytes = 2 * sizeof(float) * (l->in_count / width);
    int rc = layer_add_variable(l, "gamma", &row, &ones, width, width, err);
    if (rc == 0) {
        rc = layer_add_variable(l, "beta", &row, &zeros, width, width, err);
    }
    return rc != 0 ? rc : layer_plan_same_shape(l, err);
}

static void layer_norm_forward(const struct layer_run *r)
{
    const struct layer_norm_params *p = r->layer->params;
    const size_t width = width_of(r->layer);
    const size_t rows = r->count * (r->layer->in_count / width);
    float *mean = r->state, *rstd = mean + rows;
    kernel_layer_norm(rows, width, (float)p->epsilon, r->x, r->values[0], r->values[1], r->y, mean,
                      rstd);
}

static void layer_norm_backward(const struct layer_run *r)
{
    const size_t width = width_of(r->layer);
    const size_t rows = r->count * (r->layer->in_count / width);
    const float *mean = r->state, *rstd = mean + rows;
    memset(r->gradients[0], 0, width * sizeof *r->gradients[0]);
    memset(r->gradients[1], 0, width * sizeof *r->gradients[1]);
    kernel_layer_norm_backward(rows, width, r->x, r->values[0], mean, rstd, r->dy, r->dx,
                               r->gradients[0], r->gradients[1]);
}

static int layer_norm_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const struct layer_norm_params *p = o->layer->params;
    const char *inputs[3] = {layer_onnx_last(o, 0), layer_onnx_variable(o, 0),
                             layer_onnx_variable(o, 1)};
    const struct onnx_attr attrs[] = {ONNX_ATTR_INT("axis", -1),
                                      ONNX_ATTR_FLOAT("epsilon", (float)p->epsilon)};
    return layer_onnx_is(o,
                         onnx_graph_node(o->graph, "LayerNormalization", "", inputs, 3, attrs, 2));
}

extern const struct layer_kind layer_layer_norm;
const struct layer_kind layer_layer_norm = {
    .name = "layer_norm",
    .help = "Brings the last dimension of every record to mean 0 and variance 1, then scales it",
    .fields = layer_norm_fields,
    .field_count = sizeof layer_norm_fields / sizeof layer_norm_fields[0],
    .params_bytes = sizeof(struct layer_norm_params),
    .plan = layer_norm_plan,
    .forward = layer_norm_forward,
    .backward = layer_norm_backward,
    .onnx = layer_norm_onnx,
};
