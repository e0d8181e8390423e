/* dense: y = x · kernel + bias; kernel [in, units]. */
#include "graph/op.h"
#include "tensor/blas.h"
#include "tensor/kernel.h"

struct dense_params {
    int64_t units;
    int activation;
    bool use_bias;
    struct init_params kernel, bias;
};

static const struct field dense_fields[] = {
    {"units", FIELD_INT, offsetof(struct dense_params, units), NULL, 1, 1 << 24, NULL,
     "Number of outputs"},
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
    const uint64_t units = (uint64_t)p->units;
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

static void dense_backward(const struct layer_run *r)
{
    const size_t in = r->layer->in_count, units = r->layer->out_count;
    blas_gemm(true, false, in, units, r->count, r->x, r->dy, 0.0F, r->gradients[0]);
    if (r->layer->variable_count > 1) {
        kernel_column_sums(r->count, units, r->dy, r->gradients[1]);
    }
    if (r->dx != NULL) {
        blas_gemm(false, true, r->count, in, units, r->dy, r->values[0], 0.0F, r->dx);
    }
}

extern const struct layer_kind layer_dense;
const struct layer_kind layer_dense = {
    .name = "dense",
    .help = "Fully connected: every output is a weighted sum of all inputs",
    .fields = dense_fields,
    .field_count = sizeof dense_fields / sizeof dense_fields[0],
    .params_bytes = sizeof(struct dense_params),
    .plan = dense_plan,
    .forward = dense_forward,
    .backward = dense_backward,
};
