/* SPDX-License-Identifier: Apache-2.0 */
/* adam: Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1.
 *
 *     t ← version + 1
 *     m ← beta1 · m + (1 − beta1) · g
 *     v ← beta2 · v + (1 − beta2) · g²
 *     w ← w − learning_rate · (m / (1 − beta1^t)) / (√(v / (1 − beta2^t)) + epsilon)
 *
 * Defaults: learning_rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-8, as in the paper and PyTorch.
 * TensorFlow and Keras add epsilon to √v before its correction (the paper's "epsilon hat"), so
 * their epsilon weighs 1/√(1 − beta2^t) times more: 32 times at the first update, equal after a few
 * thousand; Keras' default is 1e-7. The powers of beta are taken in double from the version, so
 * there is no shared counter that could race, and a restored shard corrects exactly as before.
 *
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still.
 *
 * Tables: lazy (TensorFlow's LazyAdam, PyTorch's SparseAdam: only touched rows change, with the
 * common t), or catch-up, equal to the dense update up to rounding (TensorFlow's Adam on sparse
 * gradients, MXNet without lazy_update), at a cost for touched rows only. */
#include "rule/rules/adam_family.h"
#include "rule/rules/rule_kernel.h"

struct adam_params {
    double learning_rate;
    double beta1, beta2;
    double epsilon;
};

enum {
    ADAM_BETA1,
    ADAM_ONE_MINUS_BETA1,
    ADAM_BETA2,
    ADAM_ONE_MINUS_BETA2,
    ADAM_RATE,
    ADAM_ROOT,
    ADAM_EPSILON
};

static const struct field adam_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adam_params, learning_rate), "0.001", 0, 1e6,
     NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct adam_params, beta1), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient"},
    {"beta2", FIELD_FLOAT, offsetof(struct adam_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean of the squared gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct adam_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the corrected root mean square of the gradient"},
};

static void adam_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct adam_params *p = params;
    const double t = (double)version + 1.0;
    out->v[ADAM_BETA1] = (float)p->beta1;
    out->v[ADAM_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[ADAM_BETA2] = (float)p->beta2;
    out->v[ADAM_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[ADAM_RATE] = (float)(p->learning_rate * lr_scale / (1.0 - pow(p->beta1, t)));
    out->v[ADAM_ROOT] = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    out->v[ADAM_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void adam_apply(const struct rule_scalars *s, float *out, const float *in,
                       float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float beta1 = s->v[ADAM_BETA1];
    const float one_minus_beta1 = s->v[ADAM_ONE_MINUS_BETA1];
    const float beta2 = s->v[ADAM_BETA2];
    const float one_minus_beta2 = s->v[ADAM_ONE_MINUS_BETA2];
    const float rate = s->v[ADAM_RATE];
    const float root = s->v[ADAM_ROOT];
    const float epsilon = s->v[ADAM_EPSILON];
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

static struct adam_move adam_move(const void *params, double lr_scale)
{
    const struct adam_params *p = params;
    return (struct adam_move){p->learning_rate * lr_scale, p->beta1, p->beta2, p->epsilon, 0};
}

static void adam_catch_up(const struct rule_past *past, uint64_t from, uint64_t to, float *values,
                          float *const *slots, size_t n)
{
    adam_family_catch_up(past, adam_move, from, to, values, slots, n);
}

extern const struct rule rule_adam;
const struct rule rule_adam = {
    .name = "adam",
    .help = "Adam: steps scaled by running means of the gradient and of its square",
    .fields = adam_fields,
    .field_count = sizeof adam_fields / sizeof adam_fields[0],
    .params_bytes = sizeof(struct adam_params),
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .slot_initial = {0.0F, 0.0F},
    .prepare = adam_prepare,
    .apply = adam_apply,
    .catch_up = adam_catch_up,
};
