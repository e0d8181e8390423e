/* SPDX-License-Identifier: Apache-2.0 */
/* adamw: Adam with decoupled weight decay (Loshchilov & Hutter, "Decoupled weight decay
 * regularization", ICLR 2019, algorithm 2).
 *
 *     t ← version + 1
 *     m ← beta1 · m + (1 − beta1) · g
 *     v ← beta2 · v + (1 − beta2) · g²
 *     w ← w − learning_rate · (m / (1 − beta1^t) / (√(v / (1 − beta2^t)) + epsilon)
 *                              + weight_decay · w)
 *
 * Defaults: learning_rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-8, weight_decay 0.01, as
 * PyTorch. The paper decays by weight_decay times the schedule's factor, without the learning rate;
 * PyTorch, Keras (0.004) and MXNet multiply by the learning rate, as here. With weight_decay 0 it
 * is adam, bit for bit.
 *
 * Tables: lazy (touched rows only, also for the weight decay), or catch-up, equal to the dense
 * update up to rounding.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/adam_family.h"
#include "rule/rules/rule_kernel.h"

struct adamw_params {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
};

enum {
    ADAMW_BETA1,
    ADAMW_ONE_MINUS_BETA1,
    ADAMW_BETA2,
    ADAMW_ONE_MINUS_BETA2,
    ADAMW_RATE,
    ADAMW_ROOT,
    ADAMW_EPSILON,
    ADAMW_DECAY
};

static const struct field adamw_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adamw_params, learning_rate), "0.001", 0, 1e6,
     NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct adamw_params, beta1), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient"},
    {"beta2", FIELD_FLOAT, offsetof(struct adamw_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean of the squared gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct adamw_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the corrected root mean square of the gradient"},
    {"weight_decay", FIELD_FLOAT, offsetof(struct adamw_params, weight_decay), "0.01", 0, 1000,
     NULL, "Share of a parameter that an update takes away, times the learning rate"},
};

static void adamw_prepare(const void *params, uint64_t version, double lr_scale,
                          struct rule_scalars *out)
{
    const struct adamw_params *p = params;
    const double t = (double)version + 1.0;
    out->v[ADAMW_BETA1] = (float)p->beta1;
    out->v[ADAMW_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[ADAMW_BETA2] = (float)p->beta2;
    out->v[ADAMW_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[ADAMW_RATE] = (float)(p->learning_rate * lr_scale / (1.0 - pow(p->beta1, t)));
    out->v[ADAMW_ROOT] = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    out->v[ADAMW_EPSILON] = (float)p->epsilon;
    out->v[ADAMW_DECAY] = (float)(p->learning_rate * lr_scale * p->weight_decay);
}

VECTOR_CLONES
static void adamw_apply(const struct rule_scalars *s, float *out, const float *in,
                        float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float beta1 = s->v[ADAMW_BETA1];
    const float one_minus_beta1 = s->v[ADAMW_ONE_MINUS_BETA1];
    const float beta2 = s->v[ADAMW_BETA2];
    const float one_minus_beta2 = s->v[ADAMW_ONE_MINUS_BETA2];
    const float rate = s->v[ADAMW_RATE];
    const float root = s->v[ADAMW_ROOT];
    const float epsilon = s->v[ADAMW_EPSILON];
    const float decay = s->v[ADAMW_DECAY];
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = beta1 * m[i] + one_minus_beta1 * g;
        v[i] = beta2 * v[i] + one_minus_beta2 * (g * g);
        out[i] = in[i] - (decay * in[i] + rate * m[i] / (sqrtf(v[i]) * root + epsilon));
    }
}

static struct adam_move adamw_move(const void *params, double lr_scale)
{
    const struct adamw_params *p = params;
    return (struct adam_move){p->learning_rate * lr_scale, p->beta1, p->beta2, p->epsilon,
                              p->weight_decay};
}

static void adamw_catch_up(const struct rule_past *past, uint64_t from, uint64_t to, float *values,
                           float *const *slots, size_t n)
{
    adam_family_catch_up(past, adamw_move, from, to, values, slots, n);
}

extern const struct rule rule_adamw;
const struct rule rule_adamw = {
    .name = "adamw",
    .help = "Adam with decoupled weight decay",
    .fields = adamw_fields,
    .field_count = sizeof adamw_fields / sizeof adamw_fields[0],
    .params_bytes = sizeof(struct adamw_params),
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .prepare = adamw_prepare,
    .apply = adamw_apply,
    .catch_up = adamw_catch_up,
};
