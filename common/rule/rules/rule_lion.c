/* SPDX-License-Identifier: Apache-2.0 */
/* lion: Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023, program 1.
 *
 *     u ← sign(beta1 · m + (1 − beta1) · g)
 *     m ← beta2 · m + (1 − beta2) · g
 *     w ← w − learning_rate · (u + weight_decay · w)
 *
 * Defaults: learning_rate 0.0001, beta1 0.9, beta2 0.99, weight_decay 0, as in the paper, Keras and
 * TorchRec; the learning rate is meant to be 3 to 10 times below that of adamw, and the weight
 * decay as much above. sign(0) is 0.
 *
 * Tables: lazy, or dense (all rows); the two differ very much, as without a gradient a parameter
 * goes on by the full learning rate until its momentum has died.
 * An infinite gradient moves by the learning rate once; its momentum stays infinite. */
#include "rule/rules/rule_kernel.h"

struct lion_params {
    double learning_rate;
    double beta1;
    double beta2;
    double weight_decay;
};

enum { LION_BETA1, LION_ONE_MINUS_BETA1, LION_BETA2, LION_ONE_MINUS_BETA2, LION_RATE, LION_DECAY };

static const struct field lion_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct lion_params, learning_rate), "0.0001", 0, 1e6,
     NULL, "How far every update moves every parameter"},
    {"beta1", FIELD_FLOAT, offsetof(struct lion_params, beta1), "0.9", 0, 0.999999, NULL,
     "Share of the momentum in the direction"},
    {"beta2", FIELD_FLOAT, offsetof(struct lion_params, beta2), "0.99", 0, 0.999999, NULL,
     "Decay of the momentum"},
    {"weight_decay", FIELD_FLOAT, offsetof(struct lion_params, weight_decay), "0", 0, 1000, NULL,
     "Share of a parameter that an update takes away, times the learning rate"},
};

static void lion_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct lion_params *p = params;
    (void)version;
    out->v[LION_BETA1] = (float)p->beta1;
    out->v[LION_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[LION_BETA2] = (float)p->beta2;
    out->v[LION_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[LION_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[LION_DECAY] = (float)(p->learning_rate * lr_scale * p->weight_decay);
}

VECTOR_CLONES
static void lion_apply(const struct rule_scalars *s, float *out, const float *in,
                       float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float beta1 = s->v[LION_BETA1];
    const float one_minus_beta1 = s->v[LION_ONE_MINUS_BETA1];
    const float beta2 = s->v[LION_BETA2];
    const float one_minus_beta2 = s->v[LION_ONE_MINUS_BETA2];
    const float rate = s->v[LION_RATE];
    const float decay = s->v[LION_DECAY];
    float *restrict m = slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        float u = kernel_sign(beta1 * m[i] + one_minus_beta1 * g);
        m[i] = beta2 * m[i] + one_minus_beta2 * g;
        out[i] = in[i] - (rate * u + decay * in[i]);
    }
}

extern const struct rule rule_lion;
const struct rule rule_lion = {
    .name = "lion",
    .help = "Steps of one length in the direction of the sign of the momentum",
    .fields = lion_fields,
    .field_count = sizeof lion_fields / sizeof lion_fields[0],
    .params_bytes = sizeof(struct lion_params),
    .slot_count = 1,
    .slot_names = {"m"},
    .prepare = lion_prepare,
    .apply = lion_apply,
};
