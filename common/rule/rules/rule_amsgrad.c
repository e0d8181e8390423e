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
#include "rule/rules/rule_kernel.h"

struct amsgrad_params {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
};

enum {
    AMSGRAD_BETA1,
    AMSGRAD_ONE_MINUS_BETA1,
    AMSGRAD_BETA2,
    AMSGRAD_ONE_MINUS_BETA2,
    AMSGRAD_RATE,
    AMSGRAD_ROOT,
    AMSGRAD_EPSILON
};

static const struct field amsgrad_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct amsgrad_params, learning_rate), "0.001", 0, 1e6,
     NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct amsgrad_params, beta1), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient"},
    {"beta2", FIELD_FLOAT, offsetof(struct amsgrad_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean of the squared gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct amsgrad_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the corrected root mean square of the gradient"},
};

static void amsgrad_prepare(const void *params, uint64_t version, double lr_scale,
                            struct rule_scalars *out)
{
    const struct amsgrad_params *p = params;
    const double t = (double)version + 1.0;
    out->v[AMSGRAD_BETA1] = (float)p->beta1;
    out->v[AMSGRAD_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[AMSGRAD_BETA2] = (float)p->beta2;
    out->v[AMSGRAD_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[AMSGRAD_RATE] = (float)(p->learning_rate * lr_scale / (1.0 - pow(p->beta1, t)));
    out->v[AMSGRAD_ROOT] = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    out->v[AMSGRAD_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void amsgrad_apply(const struct rule_scalars *s, float *out, const float *in,
                          float *const *slots, const float *gradient, float gradient_scale,
                          size_t n)
{
    const float beta1 = s->v[AMSGRAD_BETA1];
    const float one_minus_beta1 = s->v[AMSGRAD_ONE_MINUS_BETA1];
    const float beta2 = s->v[AMSGRAD_BETA2];
    const float one_minus_beta2 = s->v[AMSGRAD_ONE_MINUS_BETA2];
    const float rate = s->v[AMSGRAD_RATE];
    const float root = s->v[AMSGRAD_ROOT];
    const float epsilon = s->v[AMSGRAD_EPSILON];
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    float *restrict x = slots[2];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = beta1 * m[i] + one_minus_beta1 * g;
        v[i] = beta2 * v[i] + one_minus_beta2 * (g * g);
        x[i] = kernel_max(x[i], v[i]);
        out[i] = in[i] - rate * m[i] / (sqrtf(x[i]) * root + epsilon);
    }
}

extern const struct rule rule_amsgrad;
const struct rule rule_amsgrad = {
    .name = "amsgrad",
    .help = "Adam whose mean of the squared gradient counts with the largest value it ever had",
    .fields = amsgrad_fields,
    .field_count = sizeof amsgrad_fields / sizeof amsgrad_fields[0],
    .params_bytes = sizeof(struct amsgrad_params),
    .slot_count = 3,
    .slot_names = {"m", "v", "v_max"},
    .prepare = amsgrad_prepare,
    .apply = amsgrad_apply,
};
