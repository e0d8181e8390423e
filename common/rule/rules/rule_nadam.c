/* SPDX-License-Identifier: Apache-2.0 */
/* nadam: Adam with Nesterov momentum (Dozat, "Incorporating Nesterov momentum into Adam", ICLR 2016
 * workshop, algorithm 2).
 *
 *     t ← version + 1
 *     μ(t) ← beta1 · (1 − 0.96^(t · momentum_decay) / 2),  Π(t) ← μ(1) · … · μ(t)
 *     m ← beta1 · m + (1 − beta1) · g
 *     v ← beta2 · v + (1 − beta2) · g²
 *     d ← √(v / (1 − beta2^t)) + epsilon
 *     w ← w − learning_rate · (g · (1 − μ(t)) / (1 − Π(t)) + m · μ(t+1) / (1 − Π(t+1))) / d
 *
 * Defaults: learning_rate 0.002, beta1 0.9, beta2 0.999, epsilon 1e-8, momentum_decay 0.004, as in
 * the paper and PyTorch; Keras has epsilon 1e-7. The others carry the product Π along as a
 * variable; here it is a function of the version, so that all shards and restored ones agree.
 *
 * Tables: lazy (touched rows only), or dense (all rows); the two differ, as m and v decay without a
 * gradient too.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct nadam_params {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double momentum_decay;
};

enum {
    NADAM_BETA1,
    NADAM_ONE_MINUS_BETA1,
    NADAM_BETA2,
    NADAM_ONE_MINUS_BETA2,
    NADAM_RATE_G,
    NADAM_RATE_M,
    NADAM_ROOT,
    NADAM_EPSILON
};

static const struct field nadam_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct nadam_params, learning_rate), "0.002", 0, 1e6,
     NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct nadam_params, beta1), "0.9", 0, 0.9999, NULL,
     "Decay of the mean of the gradient, and the momentum in the end"},
    {"beta2", FIELD_FLOAT, offsetof(struct nadam_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean of the squared gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct nadam_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the corrected root mean square of the gradient"},
    {"momentum_decay", FIELD_FLOAT, offsetof(struct nadam_params, momentum_decay), "0.004", 0, 1,
     NULL, "How fast the momentum rises from half of beta1 to beta1"},
};

#define PRODUCT_GONE 1e-20 /* beside 1 */

/* Π(t). It falls at least as beta1^t, so few factors count, whatever t is. */
static double momentum_product(const struct nadam_params *p, double t)
{
    double product = 1;
    for (double i = 1; i <= t && product > PRODUCT_GONE; i++) {
        product *= p->beta1 * (1.0 - 0.5 * pow(0.96, i * p->momentum_decay));
    }
    return product;
}

static void nadam_prepare(const void *params, uint64_t version, double lr_scale,
                          struct rule_scalars *out)
{
    const struct nadam_params *p = params;
    const double t = (double)version + 1.0;
    const double rate = p->learning_rate * lr_scale;
    const double now = p->beta1 * (1.0 - 0.5 * pow(0.96, t * p->momentum_decay));
    const double next = p->beta1 * (1.0 - 0.5 * pow(0.96, (t + 1.0) * p->momentum_decay));
    const double product = momentum_product(p, t);
    out->v[NADAM_BETA1] = (float)p->beta1;
    out->v[NADAM_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[NADAM_BETA2] = (float)p->beta2;
    out->v[NADAM_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[NADAM_RATE_G] = (float)(rate * (1.0 - now) / (1.0 - product));
    out->v[NADAM_RATE_M] = (float)(rate * next / (1.0 - product * next));
    out->v[NADAM_ROOT] = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    out->v[NADAM_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void nadam_apply(const struct rule_scalars *s, float *out, const float *in,
                        float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float beta1 = s->v[NADAM_BETA1];
    const float one_minus_beta1 = s->v[NADAM_ONE_MINUS_BETA1];
    const float beta2 = s->v[NADAM_BETA2];
    const float one_minus_beta2 = s->v[NADAM_ONE_MINUS_BETA2];
    const float rate_g = s->v[NADAM_RATE_G];
    const float rate_m = s->v[NADAM_RATE_M];
    const float root = s->v[NADAM_ROOT];
    const float epsilon = s->v[NADAM_EPSILON];
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = beta1 * m[i] + one_minus_beta1 * g;
        v[i] = beta2 * v[i] + one_minus_beta2 * (g * g);
        out[i] = in[i] - (rate_g * g + rate_m * m[i]) / (sqrtf(v[i]) * root + epsilon);
    }
}

extern const struct rule rule_nadam;
const struct rule rule_nadam = {
    .name = "nadam",
    .help = "Adam with Nesterov momentum",
    .fields = nadam_fields,
    .field_count = sizeof nadam_fields / sizeof nadam_fields[0],
    .params_bytes = sizeof(struct nadam_params),
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .prepare = nadam_prepare,
    .apply = nadam_apply,
};
