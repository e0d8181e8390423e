/* SPDX-License-Identifier: Apache-2.0 */
/* signum: sign of the momentum (Bernstein et al., "signSGD: compressed optimisation for non-convex
 * problems", ICML 2018, algorithm 2).
 *
 *     m ← momentum · m + (1 − momentum) · g
 *     w ← w − learning_rate · sign(m)
 *
 * Defaults: learning_rate 0.01, momentum 0.9, as MXNet, whose weight decays are left to the options
 * of the job. With momentum 0 it is signSGD. sign(0) is 0.
 *
 * Tables: lazy, or dense (all rows); the two differ very much, as without a gradient a parameter
 * goes on by the full learning rate until its momentum has died. */
#include "rule/rules/rule_kernel.h"

struct signum_params {
    double learning_rate;
    double momentum;
};

enum { SIGNUM_RATE, SIGNUM_DECAY, SIGNUM_ONE_MINUS_DECAY };

static const struct field signum_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct signum_params, learning_rate), "0.01", 0, 1e6,
     NULL, "How far every update moves every parameter"},
    {"momentum", FIELD_FLOAT, offsetof(struct signum_params, momentum), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient; 0: the sign of the gradient"},
};

static void signum_prepare(const void *params, uint64_t version, double lr_scale,
                           struct rule_scalars *out)
{
    const struct signum_params *p = params;
    (void)version;
    out->v[SIGNUM_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[SIGNUM_DECAY] = (float)p->momentum;
    out->v[SIGNUM_ONE_MINUS_DECAY] = (float)(1.0 - p->momentum);
}

VECTOR_CLONES
static void signum_apply(const struct rule_scalars *s, float *out, const float *in,
                         float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float rate = s->v[SIGNUM_RATE];
    const float decay = s->v[SIGNUM_DECAY];
    const float one_minus_decay = s->v[SIGNUM_ONE_MINUS_DECAY];
    float *restrict m = slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = decay * m[i] + one_minus_decay * g;
        out[i] = in[i] - rate * kernel_sign(m[i]);
    }
}

extern const struct rule rule_signum;
const struct rule rule_signum = {
    .name = "signum",
    .help = "Steps of one length in the direction of the sign of the mean gradient",
    .fields = signum_fields,
    .field_count = sizeof signum_fields / sizeof signum_fields[0],
    .params_bytes = sizeof(struct signum_params),
    .slot_count = 1,
    .slot_names = {"momentum"},
    .prepare = signum_prepare,
    .apply = signum_apply,
};
