/* SPDX-License-Identifier: Apache-2.0 */
/* adamax: Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 2: Adam
 * with the maximum norm.
 *
 *     t ← version + 1
 *     m ← beta1 · m + (1 − beta1) · g
 *     u ← max(beta2 · u, |g| + epsilon)
 *     w ← w − learning_rate / (1 − beta1^t) · m / u
 *
 * Defaults: learning_rate 0.002, beta1 0.9, beta2 0.999, epsilon 1e-8. The paper has no epsilon and
 * divides 0 by 0 where there never was a gradient; PyTorch adds it to |g| as here; Keras (1e-7)
 * adds it to u, MXNet too.
 *
 * Tables: lazy, or dense (all rows); the two differ, as m and u decay without a gradient too. */
#include "rule/rules/rule_kernel.h"

struct adamax_params {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
};

enum { ADAMAX_BETA1, ADAMAX_ONE_MINUS_BETA1, ADAMAX_BETA2, ADAMAX_RATE, ADAMAX_EPSILON };

static const struct field adamax_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adamax_params, learning_rate), "0.002", 0, 1e6,
     NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct adamax_params, beta1), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient"},
    {"beta2", FIELD_FLOAT, offsetof(struct adamax_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the maximum of the gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct adamax_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the size of the gradient"},
};

static void adamax_prepare(const void *params, uint64_t version, double lr_scale,
                           struct rule_scalars *out)
{
    const struct adamax_params *p = params;
    const double t = (double)version + 1.0;
    out->v[ADAMAX_BETA1] = (float)p->beta1;
    out->v[ADAMAX_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[ADAMAX_BETA2] = (float)p->beta2;
    out->v[ADAMAX_RATE] = (float)(p->learning_rate * lr_scale / (1.0 - pow(p->beta1, t)));
    out->v[ADAMAX_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void adamax_apply(const struct rule_scalars *s, float *out, const float *in,
                         float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float beta1 = s->v[ADAMAX_BETA1];
    const float one_minus_beta1 = s->v[ADAMAX_ONE_MINUS_BETA1];
    const float beta2 = s->v[ADAMAX_BETA2];
    const float rate = s->v[ADAMAX_RATE];
    const float epsilon = s->v[ADAMAX_EPSILON];
    float *restrict m = slots[0];
    float *restrict u = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = beta1 * m[i] + one_minus_beta1 * g;
        u[i] = kernel_max(beta2 * u[i], kernel_abs(g) + epsilon);
        out[i] = in[i] - rate * m[i] / u[i];
    }
}

extern const struct rule rule_adamax;
const struct rule rule_adamax = {
    .name = "adamax",
    .help = "Adam with a decaying maximum of the gradient instead of its mean square",
    .fields = adamax_fields,
    .field_count = sizeof adamax_fields / sizeof adamax_fields[0],
    .params_bytes = sizeof(struct adamax_params),
    .slot_count = 2,
    .slot_names = {"m", "u"},
    .prepare = adamax_prepare,
    .apply = adamax_apply,
};
