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
#include "rule/rules/rule_kernel.h"

struct yogi_params {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    bool bias_correction;
};

enum { YOGI_BETA1, YOGI_ONE_MINUS_BETA1, YOGI_ONE_MINUS_BETA2, YOGI_RATE, YOGI_ROOT, YOGI_EPSILON };

static const struct field yogi_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct yogi_params, learning_rate), "0.01", 0, 1e6,
     NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct yogi_params, beta1), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient"},
    {"beta2", FIELD_FLOAT, offsetof(struct yogi_params, beta2), "0.999", 0, 0.999999, NULL,
     "One minus the share of a squared gradient that its running measure moves by"},
    {"epsilon", FIELD_FLOAT, offsetof(struct yogi_params, epsilon), "1e-3", 1e-30, 1, NULL,
     "Added to the root of the measure of the squared gradient"},
    {"bias_correction", FIELD_BOOL, offsetof(struct yogi_params, bias_correction), "false", 0, 0,
     NULL, "Correct the means for their beginning, as Adam does"},
};

static void yogi_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct yogi_params *p = params;
    const double t = (double)version + 1.0;
    const double correction1 = p->bias_correction ? 1.0 - pow(p->beta1, t) : 1.0;
    const double correction2 = p->bias_correction ? 1.0 - pow(p->beta2, t) : 1.0;
    out->v[YOGI_BETA1] = (float)p->beta1;
    out->v[YOGI_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[YOGI_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[YOGI_RATE] = (float)(p->learning_rate * lr_scale / correction1);
    out->v[YOGI_ROOT] = (float)(1.0 / sqrt(correction2));
    out->v[YOGI_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void yogi_apply(const struct rule_scalars *s, float *out, const float *in,
                       float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float beta1 = s->v[YOGI_BETA1];
    const float one_minus_beta1 = s->v[YOGI_ONE_MINUS_BETA1];
    const float one_minus_beta2 = s->v[YOGI_ONE_MINUS_BETA2];
    const float rate = s->v[YOGI_RATE];
    const float root = s->v[YOGI_ROOT];
    const float epsilon = s->v[YOGI_EPSILON];
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = beta1 * m[i] + one_minus_beta1 * g;
        float square = g * g;
        v[i] = v[i] - one_minus_beta2 * (kernel_sign(v[i] - square) * square);
        out[i] = in[i] - rate * m[i] / (sqrtf(v[i]) * root + epsilon);
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
