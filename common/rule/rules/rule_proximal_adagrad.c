/* SPDX-License-Identifier: Apache-2.0 */
/* proximal_adagrad: Adagrad with proximal L1 and L2 (Duchi, Hazan & Singer, JMLR 2011, with the
 * composite mirror descent update of their section 5).
 *
 *     n ← max(n, initial_accumulator) + g²
 *     r ← learning_rate / √n
 *     x ← w − r · g
 *     w ← sign(x) · max(|x| − r · l1, 0) / (1 + r · l2)
 *
 * Defaults: learning_rate 0.01, initial_accumulator 0.1, l1 0, l2 0, the formula and the initial
 * value of TensorFlow. The slot begins with 0 and takes the initial value when it is first used.
 *
 * Tables: lazy (touched rows shrink), or dense (all rows shrink at every update).
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct proximal_adagrad_params {
    double learning_rate;
    double initial_accumulator;
    double l1;
    double l2;
};

enum { PROXIMAL_ADAGRAD_RATE, PROXIMAL_ADAGRAD_INITIAL, PROXIMAL_ADAGRAD_L1, PROXIMAL_ADAGRAD_L2 };

static const struct field proximal_adagrad_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct proximal_adagrad_params, learning_rate), "0.01",
     0, 1e6, NULL, "Step length where the accumulator is 1"},
    {"initial_accumulator", FIELD_FLOAT,
     offsetof(struct proximal_adagrad_params, initial_accumulator), "0.1", 1e-30, 1e12, NULL,
     "What the sum of squared gradients begins with"},
    {"l1", FIELD_FLOAT, offsetof(struct proximal_adagrad_params, l1), "0", 0, 1e6, NULL,
     "Weight of the sum of sizes of the parameters in the loss"},
    {"l2", FIELD_FLOAT, offsetof(struct proximal_adagrad_params, l2), "0", 0, 1e6, NULL,
     "Weight of half the sum of squares of the parameters in the loss"},
};

static void proximal_adagrad_prepare(const void *params, uint64_t version, double lr_scale,
                                     struct rule_scalars *out)
{
    const struct proximal_adagrad_params *p = params;
    (void)version;
    out->v[PROXIMAL_ADAGRAD_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[PROXIMAL_ADAGRAD_INITIAL] = (float)p->initial_accumulator;
    out->v[PROXIMAL_ADAGRAD_L1] = (float)p->l1;
    out->v[PROXIMAL_ADAGRAD_L2] = (float)p->l2;
}

VECTOR_CLONES
static void proximal_adagrad_apply(const struct rule_scalars *s, float *out, const float *in,
                                   float *const *slots, const float *gradient, float gradient_scale,
                                   size_t n)
{
    const float rate = s->v[PROXIMAL_ADAGRAD_RATE];
    const float initial = s->v[PROXIMAL_ADAGRAD_INITIAL];
    const float l1 = s->v[PROXIMAL_ADAGRAD_L1];
    const float l2 = s->v[PROXIMAL_ADAGRAD_L2];
    float *restrict squares = slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        squares[i] = kernel_max(initial, squares[i]) + g * g;
        float r = rate / sqrtf(squares[i]);
        float x = in[i] - r * g;
        out[i] = kernel_shrink(x, r * l1) / (1.0F + r * l2);
    }
}

extern const struct rule rule_proximal_adagrad;
const struct rule rule_proximal_adagrad = {
    .name = "proximal_adagrad",
    .help = "Adagrad with L1 and L2 that can make parameters exactly 0",
    .fields = proximal_adagrad_fields,
    .field_count = sizeof proximal_adagrad_fields / sizeof proximal_adagrad_fields[0],
    .params_bytes = sizeof(struct proximal_adagrad_params),
    .slot_count = 1,
    .slot_names = {"squares"},
    .prepare = proximal_adagrad_prepare,
    .apply = proximal_adagrad_apply,
};
