/* SPDX-License-Identifier: Apache-2.0 */
/* yogi: Zaheer et al., "Adaptive methods for nonconvex optimization", NeurIPS 2018, algorithm 2.
 *
 *     m ← beta1 · m + (1 − beta1) · g
 *     v ← v − (1 − beta2) · sign(v − g²) · g²
 *     w ← w − learning_rate · m / (√v + epsilon)                            bias_correction: false
 *     w ← w − learning_rate · (m / (1 − beta1^t)) / (√(v / (1 − beta2^t)) + epsilon)          true
 *
 * Defaults: learning_rate 0.01, beta1 0.9, beta2 0.999, epsilon 1e-3, v from 1e-6, no bias
 * correction, as in the paper. TensorFlow Addons corrects both means.
 *
 * Tables: lazy (touched rows only), or dense (all rows); the two differ, as m and v decay without a
 * gradient too.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/adam_family.h"
#include "rule/rules/rule_kernel.h"

struct yogi_params {
    struct adam_params adam;
    bool bias_correction;
};

static const struct field yogi_fields[] = {
    ADAM_LEARNING_RATE("0.01"),
    ADAM_BETA1("0.9"),
    {"beta2", FIELD_FLOAT, offsetof(struct adam_params, beta2), "0.999", 0, 0.999999, NULL,
     "One minus the share of a squared gradient that its running measure moves by"},
    {"epsilon", FIELD_FLOAT, offsetof(struct adam_params, epsilon), "1e-3", 1e-30, 1, NULL,
     "Added to the root of the measure of the squared gradient"},
    {"bias_correction", FIELD_BOOL, offsetof(struct yogi_params, bias_correction), "false", 0, 0,
     NULL, "Correct the means for their beginning, as Adam does"},
};

static void yogi_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct yogi_params *p = params;
    adam_prepare(params, version, lr_scale, out);
    if (!p->bias_correction) {
        out->v[ADAM_RATE] = (float)(p->adam.learning_rate * lr_scale);
        out->v[ADAM_ROOT] = 1.0F;
    }
}

VECTOR_CLONES
static void yogi_apply(const struct rule_scalars *s, float *out, const float *in,
                       float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const struct adam_scalars c = adam_scalars_of(s);
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
        float square = g * g;
        v[i] = v[i] - c.one_minus_beta2 * (kernel_sign(v[i] - square) * square);
        out[i] = in[i] - c.rate * m[i] / (sqrtf(v[i]) * c.root + c.epsilon);
    }
}

extern const struct rule rule_yogi;
const struct rule rule_yogi = {
    .name = "yogi",
    .help =
        "Adam whose measure of the squared gradient moves by steps that do not grow with itself",
    .fields = yogi_fields,
    .field_count = sizeof yogi_fields / sizeof yogi_fields[0],
    .params_bytes = sizeof(struct yogi_params),
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .slot_initial = {0.0F, 1e-6F},
    .prepare = yogi_prepare,
    .apply = yogi_apply,
};
