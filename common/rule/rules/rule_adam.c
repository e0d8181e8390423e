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

static const struct field adam_fields[] = {
    ADAM_LEARNING_RATE("0.001"),
    ADAM_BETA1("0.9"),
    ADAM_BETA2("0.999"),
    ADAM_EPSILON("1e-8"),
};

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
