/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm (Ioffe, Szegedy 2015) of every feature, the last dimension of a record, with trainable
 * gamma and beta. Training normalises by the mini-batch's mean and variance, everything else by
 * running ones, which are variables of the servers: their gradient is the statistic of the batch
 * times its records, so that they move towards the mean over all records of a step. */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/kernel.h"

enum { GAMMA, BETA, MEAN, VARIANCE };

struct batch_norm_params {
    double momentum, epsilon;
};

#define AT(member) offsetof(struct batch_norm_params, member)
static const struct field batch_norm_fields[] = {
    {"momentum", FIELD_FLOAT, AT(momentum), "0.9", 0, 0.99999, NULL,
     "Of the running mean and variance: what an update keeps of them; the batch has the rest"},
    {"epsilon", FIELD_FLOAT, AT(epsilon), "1e-5", 1e-12, 1, NULL,
     "Added to the variance before its root is taken"},
};

static size_t width_of(const struct layer *l)
{
    return (size_t)l->in.dims[l->in.rank - 1];
}

static int add_variables(struct layer *l, uint64_t width, struct err *err)
{
    static const struct init_params ones = {.kind = INIT_CONSTANT, .mean = 1.0};
    static const struct init_params zeros = {.kind = INIT_ZEROS};
    const struct batch_norm_params *p = l->params;
    const struct shape row = {.rank = 1, .dims = {width}};
    int rc = layer_add_variable(l, "gamma", &row, &ones, width, width, err);
    rc = rc != 0 ? rc : layer_add_variable(l, "beta", &row, &zeros, width, width, err);
    rc = rc != 0 ? rc : layer_add_variable(l, "mean", &row, &zeros, width, width, err);
    rc = rc != 0 ? rc : layer_add_variable(l, "variance", &row, &ones, width, width, err);
    if (rc == 0) {
        l->own[MEAN].statistic = l->own[VARIANCE].statistic = 1.0 - p->momentum;
    }
    return rc;
}

static int batch_norm_plan(struct layer *l, struct err *err)
{
    if (l->in.rank == 0) {
        return err_set(err, ERR_INVALID,
                       "its input has no features; one of a dimension or more would fit");
    }
    const size_t width = width_of(l);
    l->records_min = l->in_count == width ? 2 : 1; /* one value has no variance */
    l->batch_state_bytes = 2 * sizeof(float) * width;
    l->scratch_bytes = (2 * sizeof(double) + sizeof(float)) * width;
    int rc = add_variables(l, width, err);
    return rc != 0 ? rc : layer_plan_same_shape(l, err);
}

static void batch_norm_forward(const struct layer_run *r)
{
    const struct batch_norm_params *p = r->layer->params;
    const size_t width = width_of(r->layer), rows = r->count * (r->layer->in_count / width);
    double *sums = r->scratch;
    float *factors = (float *)(void *)(sums + 2 * width), *mean = r->state;
    float *variance = mean + width;
    if (r->training) {
        kernel_column_moments(rows, width, r->x, sums, mean, variance);
        kernel_batch_norm(rows, width, (float)p->epsilon, r->x, mean, variance, r->values[GAMMA],
                          r->values[BETA], factors, r->y);
    } else {
        kernel_batch_norm(rows, width, (float)p->epsilon, r->x, r->values[MEAN],
                          r->values[VARIANCE], r->values[GAMMA], r->values[BETA], factors, r->y);
    }
}

/* Tells the batch's statistics. The variance of all records is estimated without bias. A batch of
 * one value says nothing about it: the running one stays. */
static void tell_statistics(const struct layer_run *r, size_t rows, const float *mean,
                            const float *variance)
{
    const size_t width = width_of(r->layer);
    const float records = (float)r->count;
    const float unbiased = rows > 1 ? (float)rows / (float)(rows - 1) : 1.0F;
    for (size_t j = 0; j < width; j++) {
        r->gradients[MEAN][j] = records * mean[j];
        r->gradients[VARIANCE][j] =
            records * (rows > 1 ? variance[j] * unbiased : r->values[VARIANCE][j]);
    }
}

static void batch_norm_backward(const struct layer_run *r)
{
    const struct batch_norm_params *p = r->layer->params;
    const size_t width = width_of(r->layer), rows = r->count * (r->layer->in_count / width);
    double *sums = r->scratch;
    float *factors = (float *)(void *)(sums + 2 * width);
    const float *mean = r->state, *variance = mean + width;
    kernel_batch_norm_backward(rows, width, (float)p->epsilon, r->x, mean, variance,
                               r->values[GAMMA], r->dy, sums, factors, r->dx, r->gradients[GAMMA],
                               r->gradients[BETA]);
    tell_statistics(r, rows, mean, variance);
}

static int batch_norm_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const struct batch_norm_params *p = o->layer->params;
    const char *inputs[5] = {layer_onnx_first(o, 0)};
    const struct onnx_attr epsilon = ONNX_ATTR_FLOAT("epsilon", (float)p->epsilon);
    for (size_t i = GAMMA; i <= VARIANCE; i++) {
        inputs[1 + i] = layer_onnx_variable(o, i);
    }
    return layer_onnx_is_first(
        o, onnx_graph_node(o->graph, "BatchNormalization", "", inputs, 5, &epsilon, 1));
}

extern const struct layer_kind layer_batch_norm;
const struct layer_kind layer_batch_norm = {
    .name = "batch_norm",
    .help = "Brings every feature (the last dimension; channels of images) to mean 0 and variance "
            "1 over the mini-batch, then scales it; evaluation takes a running mean and variance",
    .fields = batch_norm_fields,
    .field_count = sizeof batch_norm_fields / sizeof batch_norm_fields[0],
    .params_bytes = sizeof(struct batch_norm_params),
    .plan = batch_norm_plan,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
    .onnx = batch_norm_onnx,
};
