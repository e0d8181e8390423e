/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of one number each. */
#include <math.h>
#include <string.h>

#include "base/vector.h"
#include "base/mem.h"
#include "onnx_net/onnx_op.h"
#include "tensor/activation.h"
#include "tensor/kernel.h"

static size_t count_of(const struct onnx_calc *c)
{
    return c->step->out[0]->count;
}

/* y of x, and dx of x, y and dy, of a function of the tensor room. */
#define OF_TENSOR(name, kernel, needs)                                                             \
    static void name##_forward(const struct onnx_calc *c)                                          \
    {                                                                                              \
        kernel(count_of(c), c->x[0], c->y[0]);                                                     \
    }                                                                                              \
    static void name##_backward(const struct onnx_calc *c)                                         \
    {                                                                                              \
        kernel##_backward(count_of(c), needs, c->dy[0], c->dx[0]);                                 \
    }
OF_TENSOR(relu, activation_relu, c->y[0])
OF_TENSOR(sigmoid, activation_sigmoid, c->y[0])
OF_TENSOR(tanh, activation_tanh, c->y[0])
OF_TENSOR(erf, activation_erf, c->x[0])
OF_TENSOR(softplus, activation_softplus, c->x[0])

/* By expressions of x, y, dy and the settings a and b. */
#define BY_FORMULA(name, value, gradient)                                                          \
    VECTOR_CLONES                                                                                  \
    static void name##_forward(const struct onnx_calc *c)                                          \
    {                                                                                              \
        const float *restrict in = c->x[0];                                                        \
        float *restrict out = c->y[0];                                                             \
        const float a = setting(c, 0), b = setting(c, 1);                                          \
        for (size_t i = 0; i < count_of(c); i++) {                                                 \
            const float x = in[i];                                                                 \
            out[i] = (value);                                                                      \
        }                                                                                          \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
    }                                                                                              \
    VECTOR_CLONES                                                                                  \
    static void name##_backward(const struct onnx_calc *c)                                         \
    {                                                                                              \
        const float *restrict in = c->x[0];                                                        \
        const float *restrict out = c->y[0];                                                       \
        float *restrict to = c->dx[0];                                                             \
        const float a = setting(c, 0), b = setting(c, 1);                                          \
        for (size_t i = 0; i < count_of(c); i++) {                                                 \
            const float x = in[i], y = out[i], dy = c->dy[0][i];                                   \
            to[i] = (gradient);                                                                    \
            (void)x;                                                                               \
            (void)y;                                                                               \
        }                                                                                          \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
    }

static float setting(const struct onnx_calc *c, size_t i)
{
    const float *settings = c->step->plan;
    return settings == NULL ? 0.0F : settings[i];
}

static int with_settings(struct onnx_step *s, float a, float b, struct err *err)
{
    float *settings = mem_new(2, sizeof *settings);
    settings[0] = a;
    settings[1] = b;
    s->plan = settings;
    return onnx_same_shape(s, err);
}

BY_FORMULA(sqrt, sqrtf(x), dy * 0.5F / y)
BY_FORMULA(exp, expf(x), dy *y)
BY_FORMULA(log, logf(x), dy / x)
BY_FORMULA(neg, -x, -dy)
BY_FORMULA(abs, fabsf(x), x<0.0F ? -dy : x> 0.0F ? dy : 0.0F)
BY_FORMULA(reciprocal, 1.0F / x, -dy *y *y)
BY_FORMULA(leaky_relu, x < 0.0F ? a * x : x, x < 0.0F ? a * dy : dy)
BY_FORMULA(elu, x < 0.0F ? a * (expf(x) - 1.0F) : x, x < 0.0F ? dy * (y + a) : dy)
BY_FORMULA(clip, x<a ? a : x> b ? b : x, x<a || x> b ? 0.0F : dy)

static int leaky_relu_shape(struct onnx_step *s, struct err *err)
{
    return with_settings(s, onnx_attribute_float(s->node, "alpha", 0.01F), 0, err);
}

static int elu_shape(struct onnx_step *s, struct err *err)
{
    return with_settings(s, onnx_attribute_float(s->node, "alpha", 1.0F), 0, err);
}

/* Attributes before opset 11, inputs since. */
static int clip_shape(struct onnx_step *s, struct err *err)
{
    float low = onnx_attribute_float(s->node, "min", -INFINITY);
    float high = onnx_attribute_float(s->node, "max", INFINITY);
    int rc = onnx_scalar_of(s, 1, &low, err);
    rc = rc != 0 ? rc : onnx_scalar_of(s, 2, &high, err);
    return rc != 0 ? rc : with_settings(s, low, high, err);
}

static bool gelu_by_tanh(const struct onnx_calc *c)
{
    return onnx_attribute_is(c->step->node, "approximate", "tanh");
}

static void gelu_forward(const struct onnx_calc *c)
{
    (gelu_by_tanh(c) ? activation_gelu_tanh : activation_gelu)(count_of(c), c->x[0], c->y[0]);
}

static void gelu_backward(const struct onnx_calc *c)
{
    (gelu_by_tanh(c) ? activation_gelu_tanh_backward
                     : activation_gelu_backward)(count_of(c), c->x[0], c->dy[0], c->dx[0]);
}

#define UNARY(symbol, type)                                                                        \
    const struct onnx_op onnx_op_##symbol = {                                                      \
        type, 1, 1, 1, 0, onnx_same_shape, symbol##_forward, symbol##_backward, 0};
UNARY(relu, "Relu")
UNARY(sigmoid, "Sigmoid")
UNARY(tanh, "Tanh")
UNARY(erf, "Erf")
UNARY(sqrt, "Sqrt")
UNARY(exp, "Exp")
UNARY(log, "Log")
UNARY(neg, "Neg")
UNARY(abs, "Abs")
UNARY(reciprocal, "Reciprocal")
UNARY(softplus, "Softplus")
UNARY(gelu, "Gelu")
const struct onnx_op onnx_op_leaky_relu = {
    "LeakyRelu", 1, 1, 1, 0, leaky_relu_shape, leaky_relu_forward, leaky_relu_backward, 0};
const struct onnx_op onnx_op_elu = {"Elu", 1, 1, 1, 0, elu_shape, elu_forward, elu_backward, 0};
const struct onnx_op onnx_op_clip = {"Clip",        1, 3, 1, 0, clip_shape, clip_forward,
                                     clip_backward, 6};

/* ---- Dropout ---- */

static int dropout_shape(struct onnx_step *s, struct err *err)
{
    float ratio = onnx_attribute_float(s->node, "ratio", 0.5F);
    int rc = onnx_scalar_of(s, 1, &ratio, err);
    if (rc == 0 && !(ratio >= 0.0F && ratio < 1.0F)) {
        rc = err_set(err, ERR_INVALID, "ratio is %g; from 0 to less than 1 would fit",
                     (double)ratio);
    }
    rc = rc != 0 ? rc : with_settings(s, ratio, 0, err);
    s->state_floats = rc != 0 ? 0 : s->out[0]->count / sizeof(float) + 1;
    return rc;
}

static void dropout_forward(const struct onnx_calc *c)
{
    const float ratio = setting(c, 0);
    if (!c->training || ratio == 0.0F) {
        memcpy(c->y[0], c->x[0], count_of(c) * sizeof(float));
        return;
    }
    uint8_t *keep = (uint8_t *)(void *)c->state;
    kernel_dropout_mask(c->key, (double)ratio, count_of(c), keep);
    kernel_mask(count_of(c), keep, 1.0F / (1.0F - ratio), c->x[0], c->y[0]);
}

static void dropout_backward(const struct onnx_calc *c)
{
    const float ratio = setting(c, 0);
    if (!c->training || ratio == 0.0F) {
        memcpy(c->dx[0], c->dy[0], count_of(c) * sizeof(float));
        return;
    }
    kernel_mask(count_of(c), (const uint8_t *)(const void *)c->state, 1.0F / (1.0F - ratio),
                c->dy[0], c->dx[0]);
}

const struct onnx_op onnx_op_dropout = {
    "Dropout", 1, 3, 1, 0, dropout_shape, dropout_forward, dropout_backward, 6};
