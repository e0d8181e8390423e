/* SPDX-License-Identifier: Apache-2.0 */
/* centered_rmsprop: RMSProp with the variance in the place of the mean square (Graves, "Generating
 * sequences with recurrent neural networks", 2013, equations 38-41).
 *
 *     v ← decay · v + (1 − decay) · g²
 *     a ← decay · a + (1 − decay) · g
 *     m ← momentum · m + g / (√max(v − a², 0) + epsilon)
 *     w ← w − learning_rate · m
 *
 * Defaults: learning_rate 0.001, decay 0.9, momentum 0, epsilon 1e-4. Graves has 0.0001, 0.95, 0.9
 * and 1e-4 under the root, as TensorFlow (1e-10) and MXNet (1e-8) have it; PyTorch outside it
 * (1e-8). v − a² is the difference of two nearly equal numbers when the gradient hardly changes,
 * and rounding can make it negative: PyTorch then yields NaN, here it counts as 0. For the same
 * reason epsilon should not be small beside 1e-3 · |g|.
 *
 * Tables: lazy, or dense (all rows); the two differ, as v, a and m decay without a gradient too.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct centered_rmsprop_params {
    double learning_rate;
    double decay;
    double momentum;
    double epsilon;
};

enum {
    CENTERED_RMSPROP_RATE,
    CENTERED_RMSPROP_KEPT,
    CENTERED_RMSPROP_ONE_MINUS_KEPT,
    CENTERED_RMSPROP_MOMENTUM,
    CENTERED_RMSPROP_EPSILON
};

static const struct field centered_rmsprop_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct centered_rmsprop_params, learning_rate), "0.001",
     0, 1e6, NULL, "Step length where the standard deviation of the gradient is 1"},
    {"decay", FIELD_FLOAT, offsetof(struct centered_rmsprop_params, decay), "0.9", 0, 0.999999,
     NULL, "Decay of the means of the gradient and of its square"},
    {"momentum", FIELD_FLOAT, offsetof(struct centered_rmsprop_params, momentum), "0", 0, 1, NULL,
     "Share of the last step that is added to the next; 0: none"},
    {"epsilon", FIELD_FLOAT, offsetof(struct centered_rmsprop_params, epsilon), "1e-4", 1e-30, 1,
     NULL, "Added to the standard deviation of the gradient"},
};

static void centered_rmsprop_prepare(const void *params, uint64_t version, double lr_scale,
                                     struct rule_scalars *out)
{
    const struct centered_rmsprop_params *p = params;
    (void)version;
    out->v[CENTERED_RMSPROP_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[CENTERED_RMSPROP_KEPT] = (float)p->decay;
    out->v[CENTERED_RMSPROP_ONE_MINUS_KEPT] = (float)(1.0 - p->decay);
    out->v[CENTERED_RMSPROP_MOMENTUM] = (float)p->momentum;
    out->v[CENTERED_RMSPROP_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void centered_rmsprop_apply(const struct rule_scalars *s, float *out, const float *in,
                                   float *const *slots, const float *gradient, float gradient_scale,
                                   size_t n)
{
    const float rate = s->v[CENTERED_RMSPROP_RATE];
    const float decay = s->v[CENTERED_RMSPROP_KEPT];
    const float one_minus_decay = s->v[CENTERED_RMSPROP_ONE_MINUS_KEPT];
    const float momentum = s->v[CENTERED_RMSPROP_MOMENTUM];
    const float epsilon = s->v[CENTERED_RMSPROP_EPSILON];
    float *restrict v = slots[0];
    float *restrict a = slots[1];
    float *restrict m = slots[2];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        v[i] = decay * v[i] + one_minus_decay * (g * g);
        a[i] = decay * a[i] + one_minus_decay * g;
        float variance = kernel_max(0.0F, v[i] - a[i] * a[i]);
        m[i] = momentum * m[i] + g / (sqrtf(variance) + epsilon);
        out[i] = in[i] - rate * m[i];
    }
}

extern const struct rule rule_centered_rmsprop;
const struct rule rule_centered_rmsprop = {
    .name = "centered_rmsprop",
    .help = "RMSProp with the standard deviation of the gradient instead of its root mean square",
    .fields = centered_rmsprop_fields,
    .field_count = sizeof centered_rmsprop_fields / sizeof centered_rmsprop_fields[0],
    .params_bytes = sizeof(struct centered_rmsprop_params),
    .slot_count = 3,
    .slot_names = {"v", "mean", "momentum"},
    .prepare = centered_rmsprop_prepare,
    .apply = centered_rmsprop_apply,
};
