/* SPDX-License-Identifier: Apache-2.0 */
/* momentum: heavy-ball momentum (Polyak, "Some methods of speeding up the convergence of iteration
 * methods", 1964), and Nesterov's variant in the form of Sutskever et al., "On the importance of
 * initialization and momentum in deep learning", ICML 2013.
 *
 *     m ← momentum · m + g
 *     w ← w − learning_rate · m                      (nesterov: false)
 *     w ← w − learning_rate · (g + momentum · m)     (nesterov: true)
 *
 * Defaults: learning_rate 0.01, momentum 0.9, nesterov false. This is the form of TensorFlow's
 * MomentumOptimizer and of PyTorch with dampening 0. Keras, Caffe and MXNet keep learning_rate · m
 * in the slot instead; that is the same until the learning rate changes, and then differs for a
 * while.
 *
 * Tables: lazy, where a row rests while it is not touched (PyTorch's sparse gradients, MXNet's
 * lazy_update); or catch-up, where it then makes all the moves that its momentum still had in it.
 */
#include "rule/rules/rule_kernel.h"
#include "rule/rules/momentum_family.h"

struct momentum_params {
    double learning_rate;
    double momentum;
    bool nesterov;
};

enum { MOMENTUM_RATE, MOMENTUM_DECAY, MOMENTUM_NESTEROV };

static const struct field momentum_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct momentum_params, learning_rate), "0.01", 0, 1e6,
     NULL, "Step length along the negative momentum"},
    {"momentum", FIELD_FLOAT, offsetof(struct momentum_params, momentum), "0.9", 0, 1, NULL,
     "Share of the momentum that is kept from one update to the next"},
    {"nesterov", FIELD_BOOL, offsetof(struct momentum_params, nesterov), "false", 0, 0, NULL,
     "Look ahead along the momentum (Nesterov)"},
};

static void momentum_prepare(const void *params, uint64_t version, double lr_scale,
                             struct rule_scalars *out)
{
    const struct momentum_params *p = params;
    (void)version;
    out->v[MOMENTUM_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[MOMENTUM_DECAY] = (float)p->momentum;
    out->v[MOMENTUM_NESTEROV] = p->nesterov ? 1.0F : 0.0F;
}

VECTOR_CLONES
static void momentum_apply(const struct rule_scalars *s, float *out, const float *in,
                           float *const *slots, const float *gradient, float gradient_scale,
                           size_t n)
{
    const float rate = s->v[MOMENTUM_RATE];
    const float decay = s->v[MOMENTUM_DECAY];
    float *restrict m = slots[0];
    if (s->v[MOMENTUM_NESTEROV] != 0.0F) {
        VECTOR_LOOP
        for (size_t i = 0; i < n; i++) {
            float g = gradient[i] * gradient_scale;
            m[i] = decay * m[i] + g;
            out[i] = in[i] - rate * (g + decay * m[i]);
        }
    } else {
        VECTOR_LOOP
        for (size_t i = 0; i < n; i++) {
            m[i] = decay * m[i] + gradient[i] * gradient_scale;
            out[i] = in[i] - rate * m[i];
        }
    }
}

static void momentum_catch_up(const struct rule_past *past, uint64_t from, uint64_t to,
                              float *values, float *const *slots, size_t n)
{
    double left = 1, moved = 0;
    for (uint64_t version = from; version < to && left > MOMENTUM_GONE; version++) {
        double lr_scale;
        const struct momentum_params *p = kernel_past(past, version, &lr_scale);
        left *= p->momentum;
        moved += p->learning_rate * lr_scale * left * (p->nesterov ? p->momentum : 1.0);
    }
    momentum_coast(left, moved, values, slots[0], n);
}

extern const struct rule rule_momentum;
const struct rule rule_momentum = {
    .name = "momentum",
    .help = "Gradient descent with momentum, heavy-ball or Nesterov",
    .fields = momentum_fields,
    .field_count = sizeof momentum_fields / sizeof momentum_fields[0],
    .params_bytes = sizeof(struct momentum_params),
    .slot_count = 1,
    .slot_names = {"momentum"},
    .slot_initial = {0.0F},
    .prepare = momentum_prepare,
    .apply = momentum_apply,
    .catch_up = momentum_catch_up,
};
