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
#include "rule/rules/adam_family.h"
#include "rule/rules/rule_kernel.h"

static const struct field adabelief_fields[] = {
    ADAM_LEARNING_RATE("0.001"),
    ADAM_BETA1("0.9"),
    {"beta2", FIELD_FLOAT, offsetof(struct adam_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean square of what the gradient differs from its mean"},
    {"epsilon", FIELD_FLOAT, offsetof(struct adam_params, epsilon), "1e-16", 1e-30, 1, NULL,
     "Added to the mean square at every update, and to its root"},
};

VECTOR_CLONES
static void adabelief_apply(const struct rule_scalars *s, float *out, const float *in,
                            float *const *slots, const float *gradient, float gradient_scale,
                            size_t n)
{
    const struct adam_scalars c = adam_scalars_of(s);
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
        float surprise = g - m[i];
        v[i] = c.beta2 * v[i] + c.one_minus_beta2 * (surprise * surprise) + c.epsilon;
        out[i] = in[i] - c.rate * m[i] / (sqrtf(v[i]) * c.root + c.epsilon);
    }
}

extern const struct rule rule_adabelief;
const struct rule rule_adabelief = {
    .name = "adabelief",
    .help = "Adam with the mean square of what the gradient differs from its mean",
    .fields = adabelief_fields,
    .field_count = sizeof adabelief_fields / sizeof adabelief_fields[0],
    .params_bytes = sizeof(struct adam_params),
    .slot_count = 2,
    .slot_names = {"m", "s"},
    .prepare = adam_prepare,
    .apply = adabelief_apply,
};
