/* SPDX-License-Identifier: Apache-2.0 */
/* linear: weights of the keys of sparse fields, each times its key's weight in the data, added up
 * over all keys of all fields: logistic regression, or the wide part of a wide & deep model (Cheng
 * et al. 2016). The gradient is made as embedding makes its own. */
#include <string.h>

#include "graph/lookup_onnx.h"
#include "tensor/kernel.h"

struct linear_params {
    int64_t units;
    bool bias;
    struct lookup_params lookup;
    struct init_params weights;
};

static const struct field linear_fields[] = {
    {"units", FIELD_INT, offsetof(struct linear_params, units), "1", 0, 1 << 24, NULL,
     "Number of outputs; 0 is what the loss needs: one, or softmax_cross_entropy one for each "
     "class of the data"},
    LOOKUP_FIELDS(struct linear_params, lookup),
    {"bias", FIELD_BOOL, offsetof(struct linear_params, bias), "false", 0, 0, NULL,
     "Add a trainable bias to every output, which starts at 0"},
    INIT_FIELDS(struct linear_params, weights, "weights", "zeros"),
};

static const struct init_params usual_init = {.kind = INIT_ZEROS, .spread = 0.05};

static const struct linear_params *params_of(const struct layer *l)
{
    return l->params;
}

static int linear_plan(struct layer *l, struct err *err)
{
    struct linear_params *p = l->params;
    const uint64_t units = p->units > 0 ? (uint64_t)p->units : l->loss_outputs;
    const struct init_params zeros = {.kind = INIT_ZEROS};
    struct lookup_plan plan = {.part = "weights",
                               .width_key = "units",
                               .width = units,
                               .init = &p->weights,
                               .init_default = &usual_init};
    l->out = (struct shape){.rank = 1, .dims = {units}};
    int rc = lookup_plan(l, &p->lookup, &plan, err);
    return rc != 0 || !p->bias ? rc
                               : layer_add_variable(l, "bias", &l->out, &zeros, units, units, err);
}

static void linear_limits(const struct layer *l, uint64_t *keys, size_t *length)
{
    *keys = lookup_keys(&params_of(l)->lookup);
    *length = SIZE_MAX;
}

static void linear_forward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    const size_t units = l->out_count, bias = lookup_variables(l);
    struct lookup_pass pass = lookup_begin(r);
    if (l->variable_count > bias) {
        kernel_repeat_row(r->count, units, r->values[bias], r->y);
    } else {
        memset(r->y, 0, r->count * units * sizeof *r->y);
    }
    for (size_t f = 0; f < l->input_count; f++) {
        for (size_t i = 0; i < r->count; i++) {
            const struct lookup_list list = lookup_next(&pass, &l->inputs[f], i);
            for (size_t k = 0; k < list.count; k++) {
                const uint64_t row = lookup_row(&params_of(l)->lookup, &l->inputs[f], &list, k);
                if (row != LOOKUP_NO_ROW) {
                    kernel_add_scaled(units, lookup_weight(&list, k), pass.values + row * units,
                                      r->y + i * units);
                }
            }
        }
    }
}

static void linear_backward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    const size_t units = l->out_count, bias = lookup_variables(l);
    struct lookup_pass pass = lookup_begin(r);
    lookup_zero_gradient(r);
    if (l->variable_count > bias) {
        kernel_column_sums(r->count, units, r->dy, r->gradients[bias]);
    }
    for (size_t f = 0; f < l->input_count; f++) {
        for (size_t i = 0; i < r->count; i++) {
            const struct lookup_list list = lookup_next(&pass, &l->inputs[f], i);
            for (size_t k = 0; k < list.count; k++) {
                const uint64_t row = lookup_row(&params_of(l)->lookup, &l->inputs[f], &list, k);
                if (row != LOOKUP_NO_ROW) {
                    kernel_add_scaled(units, lookup_weight(&list, k), r->dy + i * units,
                                      pass.gradient + row * units);
                }
            }
        }
    }
}

static int linear_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const size_t bias = lookup_variables(o->layer);
    const struct lookup_onnx l = lookup_onnx(o, &params_of(o->layer)->lookup, o->layer->out_count);
    const bool biased = o->layer->variable_count > bias;
    const char *sum = layer_onnx_sum(o, biased ? "/weights" : "", l.rows, 1, false);
    return layer_onnx_is(
        o,
        biased ? onnx_graph_op(o->graph, "Add", "", sum, layer_onnx_variable(o, bias), NULL) : sum);
}

extern const struct layer_kind layer_linear;
const struct layer_kind layer_linear = {
    .name = "linear",
    .help = "A weighted sum of the keys of sparse fields: a weight for each key and output",
    .fields = linear_fields,
    .field_count = sizeof linear_fields / sizeof linear_fields[0],
    .params_bytes = sizeof(struct linear_params),
    .inputs_max = LAYER_INPUTS_MAX,
    .reads_fields = true,
    .limits = linear_limits,
    .plan = linear_plan,
    .forward = linear_forward,
    .backward = linear_backward,
    .onnx = linear_onnx,
};
