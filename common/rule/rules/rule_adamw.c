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
    struct adam_params adam;
    double weight_decay;
};

static const struct field adamw_fields[] = {
    ADAM_LEARNING_RATE("0.001"),
    ADAM_BETA1("0.9"),
    ADAM_BETA2("0.999"),
    ADAM_EPSILON("1e-8"),
    {"weight_decay", FIELD_FLOAT, offsetof(struct adamw_params, weight_decay), "0.01", 0, 1000,
     NULL, "Share of a parameter that an update takes away, times the learning rate"},
};

static void adamw_prepare(const void *params, uint64_t version, double lr_scale,
                          struct rule_scalars *out)
{
    const struct adamw_params *p = params;
    adam_prepare(params, version, lr_scale, out);
    out->v[ADAM_OWN] = (float)(p->adam.learning_rate * lr_scale * p->weight_decay);
}

VECTOR_CLONES
static void adamw_apply(const struct rule_scalars *s, float *out, const float *in,
                        float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const struct adam_scalars c = adam_scalars_of(s);
    const float decay = s->v[ADAM_OWN];
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
        v[i] = c.beta2 * v[i] + c.one_minus_beta2 * (g * g);
        out[i] = in[i] - (decay * in[i] + c.rate * m[i] / (sqrtf(v[i]) * c.root + c.epsilon));
    }
}

static struct adam_move adamw_move(const void *params, double lr_scale)
{
    const struct adamw_params *p = params;
    return (struct adam_move){p->adam.learning_rate * lr_scale, p->adam.beta1, p->adam.beta2,
                              p->adam.epsilon, p->weight_decay};
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
