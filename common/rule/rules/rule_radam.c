/* SPDX-License-Identifier: Apache-2.0 */
/* radam: rectified Adam (Liu et al., "On the variance of the adaptive learning rate and beyond",
 * ICLR 2020, algorithm 2).
 *
 *     t ← version + 1
 *     m ← beta1 · m + (1 − beta1) · g
 *     v ← beta2 · v + (1 − beta2) · g²
 *     ρ ← ρ∞ − 2 t · beta2^t / (1 − beta2^t),  ρ∞ ← 2 / (1 − beta2) − 1
 *     r ← √((ρ − 4)(ρ − 2) ρ∞ / ((ρ∞ − 4)(ρ∞ − 2) ρ))
 *     w ← w − learning_rate · r · (m / (1 − beta1^t)) / (√(v / (1 − beta2^t)) + epsilon)
 *                                                              when ρ > threshold
 *     w ← w − learning_rate · m / (1 − beta1^t)                otherwise
 *
 * Defaults: learning_rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-8, threshold 5, as PyTorch and
 * the authors' program; the paper says 4, TensorFlow Addons has an option. PyTorch adds epsilon to
 * √v before its correction, here it is added after, as in adam.
 *
 * Tables: lazy (touched rows only), or dense (all rows); the two differ, as m and v decay without a
 * gradient too.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct radam_params {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double threshold;
};

enum {
    RADAM_BETA1,
    RADAM_ONE_MINUS_BETA1,
    RADAM_BETA2,
    RADAM_ONE_MINUS_BETA2,
    RADAM_RATE,
    RADAM_ROOT,
    RADAM_EPSILON
};

static const struct field radam_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct radam_params, learning_rate), "0.001", 0, 1e6,
     NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct radam_params, beta1), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient"},
    {"beta2", FIELD_FLOAT, offsetof(struct radam_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean of the squared gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct radam_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the corrected root mean square of the gradient"},
    {"threshold", FIELD_FLOAT, offsetof(struct radam_params, threshold), "5", 4, 1000, NULL,
     "Length of the mean of the squared gradient, in updates, from which on it is used"},
};

/* ρ: over how many updates the mean of the squared gradient reaches. */
static double length_at(const struct radam_params *p, double t)
{
    double power = pow(p->beta2, t);
    return 2.0 / (1.0 - p->beta2) - 1.0 - 2.0 * t * power / (1.0 - power);
}

static double rectification(const struct radam_params *p, double t)
{
    double whole = 2.0 / (1.0 - p->beta2) - 1.0;
    double length = length_at(p, t);
    return sqrt((length - 4.0) * (length - 2.0) * whole / ((whole - 4.0) * (whole - 2.0) * length));
}

static void radam_prepare(const void *params, uint64_t version, double lr_scale,
                          struct rule_scalars *out)
{
    const struct radam_params *p = params;
    const double t = (double)version + 1.0;
    const double rate = p->learning_rate * lr_scale / (1.0 - pow(p->beta1, t));
    const bool rectified = length_at(p, t) > p->threshold;
    out->v[RADAM_BETA1] = (float)p->beta1;
    out->v[RADAM_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[RADAM_BETA2] = (float)p->beta2;
    out->v[RADAM_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[RADAM_RATE] = (float)(rectified ? rate * rectification(p, t) : rate);
    out->v[RADAM_ROOT] = rectified ? (float)(1.0 / sqrt(1.0 - pow(p->beta2, t))) : 0.0F;
    out->v[RADAM_EPSILON] = rectified ? (float)p->epsilon : 1.0F;
}

VECTOR_CLONES
static void radam_apply(const struct rule_scalars *s, float *out, const float *in,
                        float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float beta1 = s->v[RADAM_BETA1];
    const float one_minus_beta1 = s->v[RADAM_ONE_MINUS_BETA1];
    const float beta2 = s->v[RADAM_BETA2];
    const float one_minus_beta2 = s->v[RADAM_ONE_MINUS_BETA2];
    const float rate = s->v[RADAM_RATE];
    const float root = s->v[RADAM_ROOT];
    const float epsilon = s->v[RADAM_EPSILON];
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = beta1 * m[i] + one_minus_beta1 * g;
        v[i] = beta2 * v[i] + one_minus_beta2 * (g * g);
        out[i] = in[i] - rate * m[i] / (sqrtf(v[i]) * root + epsilon);
    }
}

extern const struct rule rule_radam;
const struct rule rule_radam = {
    .name = "radam",
    .help = "Adam that begins as momentum until the mean of the squared gradient is sound",
    .fields = radam_fields,
    .field_count = sizeof radam_fields / sizeof radam_fields[0],
    .params_bytes = sizeof(struct radam_params),
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .prepare = radam_prepare,
    .apply = radam_apply,
};
