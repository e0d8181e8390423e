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
#include "rule/rules/adam_family.h"
#include "rule/rules/rule_kernel.h"

struct nadam_params {
    struct adam_params adam;
    double momentum_decay;
};

static const struct field nadam_fields[] = {
    ADAM_LEARNING_RATE("0.002"),
    {"beta1", FIELD_FLOAT, offsetof(struct adam_params, beta1), "0.9", 0, 0.9999, NULL,
     "Decay of the mean of the gradient, and the momentum in the end"},
    ADAM_BETA2("0.999"),
    ADAM_EPSILON("1e-8"),
    {"momentum_decay", FIELD_FLOAT, offsetof(struct nadam_params, momentum_decay), "0.004", 0, 1,
     NULL, "How fast the momentum rises from half of beta1 to beta1"},
};

#define PRODUCT_GONE 1e-20 /* beside 1 */

/* Π(t). It falls at least as beta1^t, so few factors count, whatever t is. */
static double momentum_product(const struct nadam_params *p, double t)
{
    double product = 1;
    for (double i = 1; i <= t && product > PRODUCT_GONE; i++) {
        product *= p->adam.beta1 * (1.0 - 0.5 * pow(0.96, i * p->momentum_decay));
    }
    return product;
}

/* The rate of m; that of g is a scalar of its own. */
static void nadam_prepare(const void *params, uint64_t version, double lr_scale,
                          struct rule_scalars *out)
{
    const struct nadam_params *p = params;
    const double t = (double)version + 1.0;
    const double rate = p->adam.learning_rate * lr_scale;
    const double now = p->adam.beta1 * (1.0 - 0.5 * pow(0.96, t * p->momentum_decay));
    const double next = p->adam.beta1 * (1.0 - 0.5 * pow(0.96, (t + 1.0) * p->momentum_decay));
    const double product = momentum_product(p, t);
    adam_prepare(params, version, lr_scale, out);
    out->v[ADAM_RATE] = (float)(rate * next / (1.0 - product * next));
    out->v[ADAM_OWN] = (float)(rate * (1.0 - now) / (1.0 - product));
}

VECTOR_CLONES
static void nadam_apply(const struct rule_scalars *s, float *out, const float *in,
                        float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const struct adam_scalars c = adam_scalars_of(s);
    const float rate_g = s->v[ADAM_OWN];
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
        v[i] = c.beta2 * v[i] + c.one_minus_beta2 * (g * g);
        out[i] = in[i] - (rate_g * g + c.rate * m[i]) / (sqrtf(v[i]) * c.root + c.epsilon);
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
