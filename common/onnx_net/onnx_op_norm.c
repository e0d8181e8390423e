/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNormalization and LayerNormalization. Training normalises by the mini-batch's mean and
 * variance, unless the node is frozen; evaluation by the running ones. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/vector.h"
#include "onnx_net/onnx_op.h"
#include "tensor/kernel.h"

enum { X, SCALE, BIAS, MEAN, VARIANCE };

static float epsilon_of(const struct onnx_calc *c)
{
    return onnx_attribute_float(c->step->node, "epsilon", 1e-5F);
}

/* ---- BatchNormalization of [images, channels, …] ---- */

static int batch_norm_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *x = &s->in[X]->shape;
    if (x->rank < 2) {
        return err_set(err, ERR_INVALID,
                       "its input has %zu dimensions; [images, channels, …] would fit", x->rank);
    }
    for (size_t i = SCALE; i <= VARIANCE; i++) {
        if (s->in[i]->count != x->dims[1]) {
            return err_set(err, ERR_INVALID, "input %zu has %zu numbers for %zu channels", i,
                           s->in[i]->count, x->dims[1]);
        }
    }
    s->state_floats = 2 * x->dims[1];
    s->scratch_floats = s->in[X]->count / (x->dims[0] * x->dims[1] + (x->dims[0] == 0));
    return onnx_same_shape(s, err);
}

struct planes { /* images × channels planes of pixels */
    size_t images, channels, pixels;
};

static struct planes planes_of(const struct onnx_calc *c)
{
    const struct onnx_value *x = c->step->in[X];
    return (struct planes){x->shape.dims[0], x->shape.dims[1],
                           x->count / (x->shape.dims[0] * x->shape.dims[1])};
}

static bool by_batch(const struct onnx_calc *c)
{
    return c->training && !c->step->node->frozen;
}

VECTOR_CLONES
static void shift(size_t n, const float *x, float by, float *out)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        out[i] = x[i] - by;
    }
}

VECTOR_CLONES
static void scale(size_t n, const float *x, float factor, float add, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * factor + add;
    }
}

/* factor · (dy - less - (x - mean) · slope) */
VECTOR_CLONES
static void pixels_gradient(size_t n, const float *x, const float *dy, const float terms[4],
                            float *dx)
{
    const float factor = terms[0], less = terms[1], mean = terms[2], slope = terms[3];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        dx[i] = factor * (dy[i] - less - (x[i] - mean) * slope);
    }
}

static void moments(const struct onnx_calc *c, const struct planes *p, size_t channel, float *mean,
                    float *variance)
{
    const double n = (double)(p->images * p->pixels);
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < p->images; i++) {
        sum += (double)kernel_sum(c->x[X] + (i * p->channels + channel) * p->pixels, p->pixels);
    }
    *mean = (float)(sum / n);
    for (size_t i = 0; i < p->images; i++) {
        shift(p->pixels, c->x[X] + (i * p->channels + channel) * p->pixels, *mean, c->scratch);
        squares += (double)kernel_dot(c->scratch, c->scratch, p->pixels);
    }
    *variance = (float)(squares / n);
}

/* Mean and variance of each channel stay in the state. */
static void batch_norm_forward(const struct onnx_calc *c)
{
    const struct planes p = planes_of(c);
    float *mean = c->state, *variance = c->state + p.channels;
    for (size_t k = 0; k < p.channels; k++) {
        if (by_batch(c)) {
            moments(c, &p, k, &mean[k], &variance[k]);
        } else {
            mean[k] = c->x[MEAN][k];
            variance[k] = c->x[VARIANCE][k];
        }
        const float factor = c->x[SCALE][k] / sqrtf(variance[k] + epsilon_of(c));
        const float add = c->x[BIAS][k] - mean[k] * factor;
        for (size_t i = 0; i < p.images; i++) {
            const float *x = c->x[X] + (i * p.channels + k) * p.pixels;
            float *y = c->y[0] + (i * p.channels + k) * p.pixels;
            scale(p.pixels, x, factor, add, y);
        }
    }
}

struct channel_sums {
    double dy, product; /* sum of dy; sum of dy times the normalised values */
};

static struct channel_sums sums_of(const struct onnx_calc *c, const struct planes *p, size_t k)
{
    struct channel_sums s = {0.0, 0.0};
    for (size_t i = 0; i < p->images; i++) {
        const size_t at = (i * p->channels + k) * p->pixels;
        s.dy += (double)kernel_sum(c->dy[0] + at, p->pixels);
        shift(p->pixels, c->x[X] + at, c->state[k], c->scratch);
        s.product += (double)kernel_dot(c->dy[0] + at, c->scratch, p->pixels);
    }
    return s;
}

static void channel_gradient(const struct onnx_calc *c, const struct planes *p, size_t k,
                             const struct channel_sums *s, float rstd)
{
    const float factor = c->x[SCALE][k] * rstd, mean = c->state[k];
    const double n = (double)(p->images * p->pixels);
    const bool batch = by_batch(c);
    const float less = batch ? (float)(s->dy / n) : 0.0F;
    const float slope = batch ? (float)(s->product / n) * rstd * rstd : 0.0F;
    for (size_t i = 0; i < p->images; i++) {
        const size_t at = (i * p->channels + k) * p->pixels;
        const float terms[4] = {factor, less, mean, slope};
        pixels_gradient(p->pixels, c->x[X] + at, c->dy[0] + at, terms, c->dx[X] + at);
    }
}

/* Tells the statistics of the batch, as the layer batch_norm does. */
static void tell_statistics(const struct onnx_calc *c, const struct planes *p)
{
    const float records = (float)c->step->records;
    const size_t n = p->images * p->pixels;
    const float unbiased = n > 1 ? (float)n / (float)(n - 1) : 1.0F;
    for (size_t k = 0; k < p->channels; k++) {
        if (c->dx[MEAN] != NULL) {
            c->dx[MEAN][k] = records * c->state[k];
        }
        if (c->dx[VARIANCE] != NULL) {
            c->dx[VARIANCE][k] =
                records * (n > 1 ? c->state[p->channels + k] * unbiased : c->x[VARIANCE][k]);
        }
    }
}

static void batch_norm_backward(const struct onnx_calc *c)
{
    const struct planes p = planes_of(c);
    for (size_t k = 0; k < p.channels; k++) {
        const float rstd = 1.0F / sqrtf(c->state[p.channels + k] + epsilon_of(c));
        const struct channel_sums s = sums_of(c, &p, k);
        if (c->dx[SCALE] != NULL) {
            c->dx[SCALE][k] = (float)s.product * rstd;
        }
        if (c->dx[BIAS] != NULL) {
            c->dx[BIAS][k] = (float)s.dy;
        }
        if (c->dx[X] != NULL) {
            channel_gradient(c, &p, k, &s, rstd);
        }
    }
    tell_statistics(c, &p);
}

const struct onnx_op onnx_op_batch_norm = {
    "BatchNormalization", 5, 5, 1, ONNX_STATISTICS, batch_norm_shape, batch_norm_forward,
    batch_norm_backward,  0};

/* ---- LayerNormalization ---- */

static int layer_norm_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *x = &s->in[X]->shape;
    size_t axis, *width = mem_new(1, sizeof *width);
    s->plan = width;
    int rc = onnx_axis(onnx_attribute_int(s->node, "axis", -1), x->rank, &axis, err);
    if (rc != 0) {
        return rc;
    }
    const struct onnx_cut cut = onnx_cut_at(x, axis);
    *width = cut.along * cut.inner;
    for (size_t i = SCALE; i <= BIAS; i++) {
        if (onnx_in_is(s, i) && s->in[i]->count != *width) {
            return err_set(err, ERR_INVALID, "input %zu has %zu numbers; %zu would fit", i,
                           s->in[i]->count, *width);
        }
    }
    s->state_floats = 2 * cut.outer;
    s->scratch_floats = 2 * *width;
    return onnx_same_shape(s, err);
}

static void layer_norm_forward(const struct onnx_calc *c)
{
    const size_t width = *(const size_t *)c->step->plan, rows = c->step->out[0]->count / width;
    const float *bias = onnx_in_is(c->step, BIAS) ? c->x[BIAS] : c->scratch;
    memset(c->scratch, 0, width * sizeof *c->scratch);
    kernel_layer_norm(rows, width, epsilon_of(c), c->x[X], c->x[SCALE], bias, c->y[0], c->state,
                      c->state + rows);
}

static void layer_norm_backward(const struct onnx_calc *c)
{
    const size_t width = *(const size_t *)c->step->plan, rows = c->step->out[0]->count / width;
    float *scale = c->dx[SCALE] != NULL ? c->dx[SCALE] : c->scratch;
    float *bias =
        onnx_in_is(c->step, BIAS) && c->dx[BIAS] != NULL ? c->dx[BIAS] : c->scratch + width;
    memset(scale, 0, width * sizeof *scale);
    memset(bias, 0, width * sizeof *bias);
    kernel_layer_norm_backward(rows, width, c->x[X], c->x[SCALE], c->state, c->state + rows,
                               c->dy[0], c->dx[X], scale, bias);
}

const struct onnx_op onnx_op_layer_norm = {
    "LayerNormalization", 2, 3, 1, 0, layer_norm_shape, layer_norm_forward, layer_norm_backward, 0};
