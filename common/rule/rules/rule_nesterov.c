/* SPDX-License-Identifier: Apache-2.0 */
/* nesterov: accelerated gradient (Nesterov, "A method for solving the convex programming problem
 * with convergence rate O(1/k²)", 1983) in the form of Sutskever et al., ICML 2013.
 *
 *     m ← momentum · m + g
 *     w ← w − learning_rate · (g + momentum · m)
 *
 * Defaults: learning_rate 0.01, momentum 0.9. The same as momentum with nesterov: true, under the
 * name that MXNet (NAG) and HugeCTR give it; PyTorch and TensorFlow have it as an option of SGD and
 * MomentumOptimizer. Keras and MXNet keep learning_rate · m in the slot; that is the same until the
 * learning rate changes.
 *
 * Tables: lazy, or catch-up as momentum. */
#include "rule/rules/rule_kernel.h"
#include "rule/rules/momentum_family.h"

struct nesterov_params {
    double learning_rate;
    double momentum;
};

enum { NESTEROV_RATE, NESTEROV_DECAY };

static const struct field nesterov_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct nesterov_params, learning_rate), "0.01", 0, 1e6,
     NULL, "Step length along the negative momentum"},
    {"momentum", FIELD_FLOAT, offsetof(struct nesterov_params, momentum), "0.9", 0, 1, NULL,
     "Share of the momentum that is kept from one update to the next"},
};

static void nesterov_prepare(const void *params, uint64_t version, double lr_scale,
                             struct rule_scalars *out)
{
    const struct nesterov_params *p = params;
    (void)version;
    out->v[NESTEROV_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[NESTEROV_DECAY] = (float)p->momentum;
}

VECTOR_CLONES
static void nesterov_apply(const struct rule_scalars *s, float *out, const float *in,
                           float *const *slots, const float *gradient, float gradient_scale,
                           size_t n)
{
    const float rate = s->v[NESTEROV_RATE];
    const float decay = s->v[NESTEROV_DECAY];
    float *restrict m = slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = decay * m[i] + g;
        out[i] = in[i] - rate * (g + decay * m[i]);
    }
}

static void nesterov_catch_up(const struct rule_past *past, uint64_t from, uint64_t to,
                              float *values, float *const *slots, size_t n)
{
    double left = 1, moved = 0;
    for (uint64_t version = from; version < to && left > MOMENTUM_GONE; version++) {
        double lr_scale;
        const struct nesterov_params *p = kernel_past(past, version, &lr_scale);
        left *= p->momentum;
        moved += p->learning_rate * lr_scale * left * p->momentum;
    }
    momentum_coast(left, moved, values, slots[0], n);
}

extern const struct rule rule_nesterov;
const struct rule rule_nesterov = {
    .name = "nesterov",
    .help = "Gradient descent with Nesterov's accelerated momentum",
    .fields = nesterov_fields,
    .field_count = sizeof nesterov_fields / sizeof nesterov_fields[0],
    .params_bytes = sizeof(struct nesterov_params),
    .slot_count = 1,
    .slot_names = {"momentum"},
    .prepare = nesterov_prepare,
    .apply = nesterov_apply,
    .catch_up = nesterov_catch_up,
};
