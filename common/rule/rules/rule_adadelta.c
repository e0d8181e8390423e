/* SPDX-License-Identifier: Apache-2.0 */
/* adadelta: Zeiler, "ADADELTA: an adaptive learning rate method", 2012, algorithm 1.
 *
 *     v ← decay · v + (1 − decay) · g²
 *     u ← √((d + epsilon) / (v + epsilon)) · g
 *     d ← decay · d + (1 − decay) · u²
 *     w ← w − learning_rate · u
 *
 * Defaults: learning_rate 1, decay 0.95, epsilon 1e-6, as in the paper. PyTorch has decay 0.9,
 * TensorFlow and Keras learning_rate 0.001 (that of their other rules), MXNet epsilon 1e-5.
 *
 * Tables: lazy, or catch-up, where v and d make up the decays they missed; parameters do not move
 * without a gradient.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct adadelta_params {
    double learning_rate;
    double decay;
    double epsilon;
};

enum { ADADELTA_RATE, ADADELTA_KEPT, ADADELTA_ONE_MINUS_KEPT, ADADELTA_EPSILON };

static const struct field adadelta_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adadelta_params, learning_rate), "1", 0, 1e6,
     NULL, "Factor of the step that the rule finds by itself"},
    {"decay", FIELD_FLOAT, offsetof(struct adadelta_params, decay), "0.95", 0, 0.999999, NULL,
     "Decay of the means of squared gradients and squared steps"},
    {"epsilon", FIELD_FLOAT, offsetof(struct adadelta_params, epsilon), "1e-6", 1e-30, 1, NULL,
     "Added under both roots; its root begins the steps"},
};

static void adadelta_prepare(const void *params, uint64_t version, double lr_scale,
                             struct rule_scalars *out)
{
    const struct adadelta_params *p = params;
    (void)version;
    out->v[ADADELTA_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[ADADELTA_KEPT] = (float)p->decay;
    out->v[ADADELTA_ONE_MINUS_KEPT] = (float)(1.0 - p->decay);
    out->v[ADADELTA_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void adadelta_apply(const struct rule_scalars *s, float *out, const float *in,
                           float *const *slots, const float *gradient, float gradient_scale,
                           size_t n)
{
    const float rate = s->v[ADADELTA_RATE];
    const float decay = s->v[ADADELTA_KEPT];
    const float one_minus_decay = s->v[ADADELTA_ONE_MINUS_KEPT];
    const float epsilon = s->v[ADADELTA_EPSILON];
    float *restrict v = slots[0];
    float *restrict d = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        v[i] = decay * v[i] + one_minus_decay * (g * g);
        float u = sqrtf((d[i] + epsilon) / (v[i] + epsilon)) * g;
        d[i] = decay * d[i] + one_minus_decay * (u * u);
        out[i] = in[i] - rate * u;
    }
}

VECTOR_CLONES
static void decay_by(float left, float *restrict v, float *restrict d, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        v[i] *= left;
        d[i] *= left;
    }
}

static void adadelta_catch_up(const struct rule_past *past, uint64_t from, uint64_t to,
                              float *values, float *const *slots, size_t n)
{
    (void)values;
    double left = 1;
    if (past->at == NULL) {
        const struct adadelta_params *p = past->params;
        left = pow(p->decay, (double)(to - from));
    }
    for (uint64_t version = from; past->at != NULL && version < to; version++) {
        double lr_scale;
        const struct adadelta_params *p = kernel_past(past, version, &lr_scale);
        left *= p->decay;
    }
    decay_by((float)left, slots[0], slots[1], n);
}

extern const struct rule rule_adadelta;
const struct rule rule_adadelta = {
    .name = "adadelta",
    .help =
        "Adadelta: steps in the unit of the parameters, from the sizes of past steps and gradients",
    .fields = adadelta_fields,
    .field_count = sizeof adadelta_fields / sizeof adadelta_fields[0],
    .params_bytes = sizeof(struct adadelta_params),
    .slot_count = 2,
    .slot_names = {"v", "d"},
    .prepare = adadelta_prepare,
    .apply = adadelta_apply,
    .catch_up = adadelta_catch_up,
};
