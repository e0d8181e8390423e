/* SPDX-License-Identifier: Apache-2.0 */
/* amsgrad: Reddi, Kale & Kumar, "On the convergence of Adam and beyond", ICLR 2018.
 *
 *     t ← version + 1
 *     m ← beta1 · m + (1 − beta1) · g
 *     v ← beta2 · v + (1 − beta2) · g²
 *     x ← max(x, v)
 *     w ← w − learning_rate · (m / (1 − beta1^t)) / (√(x / (1 − beta2^t)) + epsilon)
 *
 * Defaults: learning_rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-8. The paper has no bias
 * corrections; PyTorch has these. Keras adds epsilon before the correction. Monolith and ElasticDL
 * have it as an option of Adam.
 *
 * Tables: lazy (touched rows only), or dense (all rows); the two differ, as m and v decay without a
 * gradient too.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/adam_family.h"
#include "rule/rules/rule_kernel.h"

static const struct field amsgrad_fields[] = {
    ADAM_LEARNING_RATE("0.001"),
    ADAM_BETA1("0.9"),
    ADAM_BETA2("0.999"),
    ADAM_EPSILON("1e-8"),
};

VECTOR_CLONES
static void amsgrad_apply(const struct rule_scalars *s, float *out, const float *in,
                          float *const *slots, const float *gradient, float gradient_scale,
                          size_t n)
{
    const struct adam_scalars c = adam_scalars_of(s);
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    float *restrict x = slots[2];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
        v[i] = c.beta2 * v[i] + c.one_minus_beta2 * (g * g);
        x[i] = kernel_max(x[i], v[i]);
        out[i] = in[i] - c.rate * m[i] / (sqrtf(x[i]) * c.root + c.epsilon);
    }
}

extern const struct rule rule_amsgrad;
const struct rule rule_amsgrad = {
    .name = "amsgrad",
    .help = "Adam whose mean of the squared gradient counts with the largest value it ever had",
    .fields = amsgrad_fields,
    .field_count = sizeof amsgrad_fields / sizeof amsgrad_fields[0],
    .params_bytes = sizeof(struct adam_params),
    .slot_count = 3,
    .slot_names = {"m", "v", "v_max"},
    .prepare = adam_prepare,
    .apply = amsgrad_apply,
};
