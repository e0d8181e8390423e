/* SPDX-License-Identifier: Apache-2.0 */
/* dense: y = x · kernel + bias; kernel [in, units]. */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/blas.h"
#include "tensor/kernel.h"

#define BLOCK_FLOATS_MIN ((size_t)64 << 10)
#define BLOCK_ROWS_MIN 64 /* fewer make a slow product */
#define BLOCK_ALIGN 16    /* rows of x are read from a cache line on */
#define BLOCKS_MAX 8

struct dense_params {
    int64_t units;
    int activation;
    bool use_bias;
    struct init_params kernel, bias;
};

static const struct field dense_fields[] = {
    {"units", FIELD_INT, offsetof(struct dense_params, units), NULL, 0, 1 << 24, NULL,
     "Number of outputs; 0 is what the loss needs: one, or softmax_cross_entropy one for each "
     "class of the data"},
    {"activation", FIELD_ENUM, offsetof(struct dense_params, activation), "none", 0, 0,
     activation_names, "Applied to the outputs"},
    {"use_bias", FIELD_BOOL, offsetof(struct dense_params, use_bias), "true", 0, 0, NULL,
     "Add a trainable bias to every output"},
    INIT_FIELDS(struct dense_params, kernel, "kernel", "glorot_uniform"),
    INIT_FIELDS(struct dense_params, bias, "bias", "zeros"),
};

static int dense_plan(struct layer *l, struct err *err)
{
    const struct dense_params *p = l->params;
    const uint64_t units = p->units > 0 ? (uint64_t)p->units : l->loss_outputs;
    if (l->in.rank != 1) {
        char shape[96];
        return err_set(err, ERR_INVALID,
                       "a dense layer needs one row of numbers, but its input is %s; put a "
                       "flatten layer in front of it",
                       shape_format(&l->in, shape, sizeof shape));
    }
    l->out = (struct shape){.rank = 1, .dims = {units}};
    l->activation = p->activation;
    const struct shape kernel = {.rank = 2, .dims = {l->in_count, units}};
    int rc = layer_add_variable(l, "kernel", &kernel, &p->kernel, l->in_count, units, err);
    if (rc == 0 && p->use_bias) {
        rc = layer_add_variable(l, "bias", &l->out, &p->bias, l->in_count, units, err);
    }
    return rc;
}

static void dense_forward(const struct layer_run *r)
{
    const size_t in = r->layer->in_count, units = r->layer->out_count;
    const bool bias = r->layer->variable_count > 1;
    if (bias) {
        kernel_repeat_row(r->count, units, r->values[1], r->y);
    }
    blas_gemm(false, false, r->count, units, in, r->x, r->values[0], bias ? 1.0F : 0.0F, r->y);
}

/* Rows of the kernel whose gradient is made at once. A large one is made in blocks, so that it can
 * leave while the rest is made; a function of the shape alone, for the bits may depend on it. */
static size_t block_rows(size_t in, size_t units)
{
    size_t blocks = in * units / BLOCK_FLOATS_MIN;
    blocks = blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks;
    blocks = blocks > in / BLOCK_ROWS_MIN ? in / BLOCK_ROWS_MIN : blocks;
    if (blocks < 2) {
        return in;
    }
    return ((in + blocks - 1) / blocks + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
}

static void kernel_gradient(const struct layer_run *r)
{
    const size_t in = r->layer->in_count, units = r->layer->out_count;
    const size_t rows = block_rows(in, units);
    for (size_t end = in; end > 0;) {
        const size_t first = (end - 1) / rows * rows;
        blas_gemm_rows(first, end - first, in, units, r->count, r->x, r->dy, r->gradients[0]);
        layer_ready(r, 0, first * units, (end - first) * units);
        end = first;
    }
}

static void dense_backward(const struct layer_run *r)
{
    const size_t in = r->layer->in_count, units = r->layer->out_count;
    if (r->dx != NULL) {
        blas_gemm(false, true, r->count, in, units, r->dy, r->values[0], 0.0F, r->dx);
    }
    if (r->layer->variable_count > 1) {
        kernel_column_sums(r->count, units, r->dy, r->gradients[1]);
        layer_ready(r, 1, 0, units);
    }
    kernel_gradient(r);
}

static int dense_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const char *x = layer_onnx_last(o, 0), *kernel = layer_onnx_variable(o, 0);
    return layer_onnx_is(
        o, o->layer->variable_count > 1
               ? onnx_graph_op(o->graph, "Gemm", "", x, kernel, layer_onnx_variable(o, 1), NULL)
               : onnx_graph_op(o->graph, "MatMul", "", x, kernel, NULL));
}

extern const struct layer_kind layer_dense;
const struct layer_kind layer_dense = {
    .name = "dense",
    .help = "Fully connected: every output is a weighted sum of all inputs",
    .fields = dense_fields,
    .field_count = sizeof dense_fields / sizeof dense_fields[0],
    .params_bytes = sizeof(struct dense_params),
    .tells = true,
    .plan = dense_plan,
    .forward = dense_forward,
    .backward = dense_backward,
    .onnx = dense_onnx,
};
