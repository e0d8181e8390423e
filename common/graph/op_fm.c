/* SPDX-License-Identifier: Apache-2.0 */
/* fm: the second order of a factorization machine (Rendle 2010) over all keys of sparse fields,
 * x_i being the weight of a key and v_i its row: the sum over i < j of x_i v_i ∘ x_j v_j, which is
 * ((Σ x v)² - Σ x² v²) / 2, element by element. As factorization, of lists of any length. The
 * gradient is made as embedding makes its own. */
#include <string.h>

#include "graph/lookup_onnx.h"
#include "tensor/kernel.h"

enum { OUTPUT_SUM, OUTPUT_VECTOR };
static const char *const output_names[] = {"sum", "vector", NULL};

struct fm_params {
    int64_t dim;
    int output;
    struct lookup_params lookup;
    struct init_params embeddings;
};

static const struct field fm_fields[] = {
    {"dim", FIELD_INT, offsetof(struct fm_params, dim), "0", 0, 1 << 16, NULL,
     "Numbers of a row, 1 or more; 0 is for a table: those of its rows"},
    LOOKUP_FIELDS(struct fm_params, lookup),
    {"output", FIELD_ENUM, offsetof(struct fm_params, output), "sum", 0, 0, output_names,
     "One number, or one for every element of a row (bi-interaction)"},
    INIT_FIELDS(struct fm_params, embeddings, "embeddings", "normal"),
};

static const struct init_params usual_init = {.kind = INIT_NORMAL, .spread = 0.05};

static const struct fm_params *params_of(const struct layer *l)
{
    return l->params;
}

static int fm_plan(struct layer *l, struct err *err)
{
    struct fm_params *p = l->params;
    struct lookup_plan plan = {.part = "embeddings",
                               .width_key = "dim",
                               .width = (uint64_t)p->dim,
                               .init = &p->embeddings,
                               .init_default = &usual_init};
    int rc = lookup_plan(l, &p->lookup, &plan, err);
    p->dim = (int64_t)plan.width;
    l->out = (struct shape){.rank = 1, .dims = {p->output == OUTPUT_VECTOR ? plan.width : 1}};
    /* of the keys so far: the sum, and the products */
    l->state_bytes = 2 * plan.width * sizeof(float);
    l->scratch_bytes = 2 * plan.width * sizeof(float);
    return rc;
}

static void fm_limits(const struct layer *l, uint64_t *keys, size_t *length)
{
    *keys = lookup_keys(&params_of(l)->lookup);
    *length = SIZE_MAX;
}

/* Adds for each key x v ∘ (the sum of those before it), which is no difference of large numbers. */
static void add_list(struct lookup_pass *pass, const struct layer_input *in, size_t record)
{
    const struct fm_params *p = params_of(pass->run->layer);
    const size_t dim = (size_t)p->dim;
    float *sum = (float *)pass->run->state + record * 2 * dim, *products = sum + dim;
    float *v = pass->run->scratch, *product = v + dim;
    const struct lookup_list list = lookup_next(pass, in, record);
    for (size_t k = 0; k < list.count; k++) {
        const uint64_t row = lookup_row(&p->lookup, in, &list, k);
        if (row == LOOKUP_NO_ROW) {
            continue;
        }
        memset(v, 0, dim * sizeof *v);
        kernel_add_scaled(dim, lookup_weight(&list, k), pass->values + row * dim, v);
        kernel_multiply(dim, v, sum, product);
        kernel_add(dim, product, products);
        kernel_add(dim, v, sum);
    }
}

static void fm_forward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    const size_t dim = (size_t)params_of(l)->dim;
    float *state = (float *)r->state;
    struct lookup_pass pass = lookup_begin(r);
    memset(state, 0, r->count * 2 * dim * sizeof *state);
    for (size_t f = 0; f < l->input_count; f++) {
        for (size_t i = 0; i < r->count; i++) {
            add_list(&pass, &l->inputs[f], i);
        }
    }
    for (size_t i = 0; i < r->count; i++) {
        const float *products = state + i * 2 * dim + dim;
        if (params_of(l)->output == OUTPUT_VECTOR) {
            memcpy(r->y + i * dim, products, dim * sizeof *products);
        } else {
            r->y[i] = kernel_sum(products, dim);
        }
    }
}

/* d/dv_i = x_i dy ∘ (Σ x v - x_i v_i) */
static void add_gradients(struct lookup_pass *pass, const struct layer_input *in, size_t record)
{
    const struct layer_run *r = pass->run;
    const struct fm_params *p = params_of(r->layer);
    const size_t dim = (size_t)p->dim;
    const float *sum = (const float *)r->state + record * 2 * dim;
    float *others = r->scratch, *slope = others + dim;
    const struct lookup_list list = lookup_next(pass, in, record);
    for (size_t k = 0; k < list.count; k++) {
        const uint64_t row = lookup_row(&p->lookup, in, &list, k);
        const float x = lookup_weight(&list, k);
        if (row == LOOKUP_NO_ROW) {
            continue;
        }
        memcpy(others, sum, dim * sizeof *others);
        kernel_add_scaled(dim, -x, pass->values + row * dim, others);
        if (p->output == OUTPUT_VECTOR) {
            kernel_multiply(dim, r->dy + record * dim, others, slope);
            kernel_add_scaled(dim, x, slope, pass->gradient + row * dim);
        } else {
            kernel_add_scaled(dim, x * r->dy[record], others, pass->gradient + row * dim);
        }
    }
}

static void fm_backward(const struct layer_run *r)
{
    struct lookup_pass pass = lookup_begin(r);
    lookup_zero_gradient(r);
    for (size_t f = 0; f < r->layer->input_count; f++) {
        for (size_t i = 0; i < r->count; i++) {
            add_gradients(&pass, &r->layer->inputs[f], i);
        }
    }
}

/* By the difference of squares, because lists have any length. */
static int fm_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    struct onnx_graph *g = o->graph;
    const struct fm_params *p = params_of(o->layer);
    const struct lookup_onnx l = lookup_onnx(o, &p->lookup, (size_t)p->dim);
    const char *each = onnx_graph_op(g, "Mul", "/square", l.rows, l.rows, NULL);
    const char *sum = layer_onnx_sum(o, "/rows", l.rows, 1, false);
    const char *squares = layer_onnx_sum(o, "/each", each, 1, false);
    const char *all = onnx_graph_op(g, "Mul", "/all", sum, sum, NULL);
    const char *twice = onnx_graph_op(g, "Sub", "/twice", all, squares, NULL);
    const char *half = onnx_graph_float(g, "/half", 0.5F);
    if (p->output == OUTPUT_VECTOR) {
        return layer_onnx_is(o, onnx_graph_op(g, "Mul", "", twice, half, NULL));
    }
    const char *vector = onnx_graph_op(g, "Mul", "/vector", twice, half, NULL);
    return layer_onnx_is(o, layer_onnx_sum(o, "", vector, 1, true));
}

extern const struct layer_kind layer_fm;
const struct layer_kind layer_fm = {
    .name = "fm",
    .help = "The second order of a factorization machine over the keys of sparse fields, with "
            "their weights: a row of a variable or table for each key",
    .fields = fm_fields,
    .field_count = sizeof fm_fields / sizeof fm_fields[0],
    .params_bytes = sizeof(struct fm_params),
    .inputs_max = LAYER_INPUTS_MAX,
    .reads_fields = true,
    .limits = fm_limits,
    .plan = fm_plan,
    .forward = fm_forward,
    .backward = fm_backward,
    .onnx = fm_onnx,
};
