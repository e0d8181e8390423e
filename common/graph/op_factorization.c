/* SPDX-License-Identifier: Apache-2.0 */
/* factorization: the second order of a factorization machine (Rendle 2010) over the rows v that the
 * inputs are: the sum over i < j of v_i ∘ v_j, which is ((Σ v)² - Σ v²) / 2, element by element.
 * With `output: sum` the elements are added up to one number; `output: vector` leaves them, as the
 * bi-interaction of neural factorization machines (He, Chua 2017). */
#include <string.h>

#include "base/mem.h"
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/kernel.h"

enum { OUTPUT_SUM, OUTPUT_VECTOR };
static const char *const output_names[] = {"sum", "vector", NULL};

struct factorization_params {
    int output;
};

static const struct field factorization_fields[] = {
    {"output", FIELD_ENUM, offsetof(struct factorization_params, output), "sum", 0, 0, output_names,
     "One number, or one for every element of a row (bi-interaction)"},
};

static bool is_vector(const struct layer *l)
{
    return ((const struct factorization_params *)l->params)->output == OUTPUT_VECTOR;
}

static size_t width_of(const struct layer *l)
{
    return (size_t)l->in.dims[l->in.rank - 1];
}

static int factorization_plan(struct layer *l, struct err *err)
{
    size_t rows, width;
    int rc = layer_plan_rows(l, &rows, &width, err);
    if (rc != 0) {
        return rc;
    }
    l->out = (struct shape){.rank = 1, .dims = {is_vector(l) ? width : 1}};
    l->state_bytes = width * sizeof(float); /* the sum of the rows */
    l->scratch_bytes = 2 * rows * sizeof(float *) + 2 * width * sizeof(float);
    return 0;
}

static void factorization_forward(const struct layer_run *r)
{
    const size_t rows = layer_row_count(r->layer), width = width_of(r->layer);
    const float **x = r->scratch;
    float *half = (float *)(void *)(x + 2 * rows), *square = half + width;
    for (size_t record = 0; record < r->count; record++) {
        float *sum = (float *)r->state + record * width;
        memset(sum, 0, width * sizeof *sum);
        memset(half, 0, width * sizeof *half);
        layer_rows(r, record, x);
        for (size_t i = 0; i < rows; i++) { /* Σ over i of v_i ∘ (v_0 + … + v_i-1): no difference
                                               of large numbers */
            kernel_multiply(width, x[i], sum, square);
            kernel_add(width, square, half);
            kernel_add(width, x[i], sum);
        }
        if (is_vector(r->layer)) {
            memcpy(r->y + record * width, half, width * sizeof *half);
        } else {
            r->y[record] = kernel_sum(half, width);
        }
    }
}

/* d/dv_i = dy ∘ (Σ v - v_i) */
static void row_gradient(const struct layer_run *r, size_t record, const float *x, float *scratch,
                         float *dx)
{
    const size_t width = width_of(r->layer);
    const float *sum = (const float *)r->state + record * width;
    memcpy(scratch, sum, width * sizeof *scratch);
    kernel_add_scaled(width, -1.0F, x, scratch);
    if (is_vector(r->layer)) {
        kernel_multiply(width, r->dy + record * width, scratch, dx);
    } else {
        memset(dx, 0, width * sizeof *dx);
        kernel_add_scaled(width, r->dy[record], scratch, dx);
    }
}

static void factorization_backward(const struct layer_run *r)
{
    const size_t rows = layer_row_count(r->layer);
    const float **x = r->scratch;
    float **dx = (float **)r->scratch + rows;
    float *scratch = (float *)(void *)(dx + rows);
    for (size_t record = 0; record < r->count; record++) {
        layer_rows(r, record, x);
        layer_row_gradients(r, record, dx);
        for (size_t i = 0; i < rows; i++) {
            if (dx[i] != NULL) {
                row_gradient(r, record, x[i], scratch, dx[i]);
            }
        }
    }
}

/* As forward(): the sums of the rows before each are a product with a triangle of ones. */
static int factorization_onnx(struct layer_onnx *o, struct err *err)
{
    struct onnx_graph *g = o->graph;
    const size_t rows = layer_row_count(o->layer);
    float *ones = mem_try_aligned(rows * rows, sizeof *ones, "a triangle of ones", err);
    if (ones == NULL) {
        return ERR_EXHAUSTED;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < i; j++) {
            ones[i * rows + j] = 1.0F;
        }
    }
    const struct shape square = {.rank = 2, .dims = {rows, rows}};
    const char *x = layer_onnx_rows(o);
    const char *before = onnx_graph_op(
        g, "MatMul", "/before", onnx_graph_floats_take(g, "/triangle", &square, ones), x, NULL);
    const char *products = onnx_graph_op(g, "Mul", "/products", x, before, NULL);
    if (is_vector(o->layer)) {
        return layer_onnx_is(o, layer_onnx_sum(o, "", products, 1, false));
    }
    const char *vector = layer_onnx_sum(o, "/vector", products, 1, false);
    return layer_onnx_is(o, layer_onnx_sum(o, "", vector, 1, true));
}

extern const struct layer_kind layer_factorization;
const struct layer_kind layer_factorization = {
    .name = "factorization",
    .help = "The second order of a factorization machine: the products of every two of its inputs, "
            "added up",
    .fields = factorization_fields,
    .field_count = sizeof factorization_fields / sizeof factorization_fields[0],
    .params_bytes = sizeof(struct factorization_params),
    .inputs_max = LAYER_INPUTS_MAX,
    .plan = factorization_plan,
    .forward = factorization_forward,
    .backward = factorization_backward,
    .onnx = factorization_onnx,
};
