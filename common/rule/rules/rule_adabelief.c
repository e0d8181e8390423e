/* SPDX-License-Identifier: Apache-2.0 */
/* adabelief: Zhuang et al., "AdaBelief optimizer: adapting stepsizes by the belief in observed
 * gradients", NeurIPS 2020, algorithm 2.
 *
 *     t ← version + 1
 *     m ← beta1 · m + (1 − beta1) · g
 *     s ← beta2 · s + (1 − beta2) · (g − m)² + epsilon
 *     w ← w − learning_rate · (m / (1 − beta1^t)) / (√(s / (1 − beta2^t)) + epsilon)
 *
 * Defaults: learning_rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-16, as the authors' program;
 * the paper says 1e-8, TensorFlow Addons and the authors' Keras version 1e-14 and 1e-7. Epsilon
 * stands in both places in all of them. Rectification (radam) is not part of it here.
 *
 * Tables: lazy (touched rows only), or dense (all rows); the two differ, as m and v decay without a
 * gradient too.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct adabelief_params {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
};

enum {
    ADABELIEF_BETA1,
    ADABELIEF_ONE_MINUS_BETA1,
    ADABELIEF_BETA2,
    ADABELIEF_ONE_MINUS_BETA2,
    ADABELIEF_RATE,
    ADABELIEF_ROOT,
    ADABELIEF_EPSILON
};

static const struct field adabelief_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adabelief_params, learning_rate), "0.001", 0,
     1e6, NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct adabelief_params, beta1), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient"},
    {"beta2", FIELD_FLOAT, offsetof(struct adabelief_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean square of what the gradient differs from its mean"},
    {"epsilon", FIELD_FLOAT, offsetof(struct adabelief_params, epsilon), "1e-16", 1e-30, 1, NULL,
     "Added to the mean square at every update, and to its root"},
};

static void adabelief_prepare(const void *params, uint64_t version, double lr_scale,
                              struct rule_scalars *out)
{
    const struct adabelief_params *p = params;
    const double t = (double)version + 1.0;
    out->v[ADABELIEF_BETA1] = (float)p->beta1;
    out->v[ADABELIEF_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[ADABELIEF_BETA2] = (float)p->beta2;
    out->v[ADABELIEF_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[ADABELIEF_RATE] = (float)(p->learning_rate * lr_scale / (1.0 - pow(p->beta1, t)));
    out->v[ADABELIEF_ROOT] = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    out->v[ADABELIEF_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void adabelief_apply(const struct rule_scalars *s, float *out, const float *in,
                            float *const *slots, const float *gradient, float gradient_scale,
                            size_t n)
{
    const float beta1 = s->v[ADABELIEF_BETA1];
    const float one_minus_beta1 = s->v[ADABELIEF_ONE_MINUS_BETA1];
    const float beta2 = s->v[ADABELIEF_BETA2];
    const float one_minus_beta2 = s->v[ADABELIEF_ONE_MINUS_BETA2];
    const float rate = s->v[ADABELIEF_RATE];
    const float root = s->v[ADABELIEF_ROOT];
    const float epsilon = s->v[ADABELIEF_EPSILON];
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = beta1 * m[i] + one_minus_beta1 * g;
        float surprise = g - m[i];
        v[i] = beta2 * v[i] + one_minus_beta2 * (surprise * surprise) + epsilon;
        out[i] = in[i] - rate * m[i] / (sqrtf(v[i]) * root + epsilon);
    }
}

extern const struct rule rule_adabelief;
const struct rule rule_adabelief = {
    .name = "adabelief",
    .help = "Adam with the mean square of what the gradient differs from its mean",
    .fields = adabelief_fields,
    .field_count = sizeof adabelief_fields / sizeof adabelief_fields[0],
    .params_bytes = sizeof(struct adabelief_params),
    .slot_count = 2,
    .slot_names = {"m", "s"},
    .prepare = adabelief_prepare,
    .apply = adabelief_apply,
};
