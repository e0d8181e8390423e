/* SPDX-License-Identifier: Apache-2.0 */
/* dot_interaction (DLRM, Naumov et al. 2019): the inner products of every two of the rows that the
 * inputs are; of row i with rows 0 to i - 1, or to i with `self`, for i from 0. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/kernel.h"

struct dot_interaction_params {
    bool self;
};

static const struct field dot_interaction_fields[] = {
    {"self", FIELD_BOOL, offsetof(struct dot_interaction_params, self), "false", 0, 0, NULL,
     "Also the product of every row with itself"},
};

static bool with_self(const struct layer *l)
{
    return ((const struct dot_interaction_params *)l->params)->self;
}

static int dot_interaction_plan(struct layer *l, struct err *err)
{
    size_t rows, width;
    int rc = layer_plan_rows(l, &rows, &width, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t n = rows;
    l->out = (struct shape){.rank = 1, .dims = {with_self(l) ? n * (n + 1) / 2 : n * (n - 1) / 2}};
    l->scratch_bytes = 2 * rows * sizeof(float *);
    return 0;
}

static void dot_interaction_forward(const struct layer_run *r)
{
    const size_t rows = layer_row_count(r->layer), self = with_self(r->layer);
    const size_t width = (size_t)r->layer->in.dims[r->layer->in.rank - 1];
    const float **x = r->scratch;
    float *y = r->y;
    for (size_t record = 0; record < r->count; record++) {
        layer_rows(r, record, x);
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < i + self; j++) {
                *y++ = kernel_dot(x[i], x[j], width);
            }
        }
    }
}

static void add_part(size_t width, float dy, const float *x, float *dx)
{
    if (dx != NULL) {
        kernel_add_scaled(width, dy, x, dx);
    }
}

static void dot_interaction_backward(const struct layer_run *r)
{
    const size_t rows = layer_row_count(r->layer), self = with_self(r->layer);
    const size_t width = (size_t)r->layer->in.dims[r->layer->in.rank - 1];
    const float **x = r->scratch;
    float **dx = (float **)r->scratch + rows;
    const float *dy = r->dy;
    for (size_t k = 0; k < r->layer->input_count; k++) {
        if (r->dxs[k] != NULL) {
            memset(r->dxs[k], 0, r->count * r->layer->inputs[k].count * sizeof(float));
        }
    }
    for (size_t record = 0; record < r->count; record++) {
        layer_rows(r, record, x);
        layer_row_gradients(r, record, dx);
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < i + self; j++, dy++) {
                add_part(width, *dy, x[j], dx[i]);
                add_part(width, *dy, x[i], dx[j]);
            }
        }
    }
}

static int dot_interaction_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    struct onnx_graph *g = o->graph;
    static const int64_t turned[3] = {0, 2, 1};
    const struct onnx_attr perm = ONNX_ATTR_INTS("perm", turned, 3),
                           axis = ONNX_ATTR_INT("axis", 1);
    const size_t rows = layer_row_count(o->layer), self = with_self(o->layer);
    const char *x = layer_onnx_rows(o);
    const char *columns = onnx_graph_node(g, "Transpose", "/columns", &x, 1, &perm, 1);
    const char *all = onnx_graph_op(g, "MatMul", "/all", x, columns, NULL);
    int64_t *places = mem_new(o->layer->out_count, sizeof *places);
    for (size_t i = 0, at = 0; i < rows; i++) {
        for (size_t j = 0; j < i + self; j++) {
            places[at++] = (int64_t)(i * rows + j);
        }
    }
    const char *inputs[2] = {onnx_graph_op(g, "Flatten", "/row", all, NULL),
                             onnx_graph_ints(g, "/places", o->layer->out_count, places)};
    free(places);
    return layer_onnx_is(o, onnx_graph_node(g, "Gather", "", inputs, 2, &axis, 1));
}

extern const struct layer_kind layer_dot_interaction;
const struct layer_kind layer_dot_interaction = {
    .name = "dot_interaction",
    .help = "The inner products of every two of its inputs, as DLRM has them between embeddings",
    .fields = dot_interaction_fields,
    .field_count = sizeof dot_interaction_fields / sizeof dot_interaction_fields[0],
    .params_bytes = sizeof(struct dot_interaction_params),
    .inputs_max = LAYER_INPUTS_MAX,
    .plan = dot_interaction_plan,
    .forward = dot_interaction_forward,
    .backward = dot_interaction_backward,
    .onnx = dot_interaction_onnx,
};
