/* SPDX-License-Identifier: Apache-2.0 */
/* adagrad: Duchi, Hazan & Singer, "Adaptive subgradient methods for online learning and stochastic
 * optimization", JMLR 2011 (the diagonal form).
 *
 *     n ← max(n, initial_accumulator) + g²
 *     w ← w − learning_rate · g / (√n + epsilon)
 *
 * Defaults: learning_rate 0.01, initial_accumulator 0, epsilon 1e-10, as PyTorch. TensorFlow 1
 * begins with 0.1 and has no epsilon; Keras begins with 0.1 and adds 1e-7 under the root; MXNet
 * adds 1e-6 outside it; PERSIA begins with 0.01. The slot begins with 0 and takes the initial value
 * when it is first used, so that memory of a new table row need only be zero.
 *
 * Tables: a gradient of zero changes nothing, so lazy is exact.
 * A gradient beyond 1.8e19 overflows n to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct adagrad_params {
    double learning_rate;
    double initial_accumulator;
    double epsilon;
};

enum { ADAGRAD_RATE, ADAGRAD_INITIAL, ADAGRAD_EPSILON };

static const struct field adagrad_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adagrad_params, learning_rate), "0.01", 0, 1e6,
     NULL, "Length of the first step, of which later ones become a falling share"},
    {"initial_accumulator", FIELD_FLOAT, offsetof(struct adagrad_params, initial_accumulator), "0",
     0, 1e12, NULL, "What the sum of squared gradients begins with"},
    {"epsilon", FIELD_FLOAT, offsetof(struct adagrad_params, epsilon), "1e-10", 1e-30, 1, NULL,
     "Added to the root of the sum of squared gradients"},
};

static void adagrad_prepare(const void *params, uint64_t version, double lr_scale,
                            struct rule_scalars *out)
{
    const struct adagrad_params *p = params;
    (void)version;
    out->v[ADAGRAD_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[ADAGRAD_INITIAL] = (float)p->initial_accumulator;
    out->v[ADAGRAD_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void adagrad_apply(const struct rule_scalars *s, float *out, const float *in,
                          float *const *slots, const float *gradient, float gradient_scale,
                          size_t n)
{
    const float rate = s->v[ADAGRAD_RATE];
    const float initial = s->v[ADAGRAD_INITIAL];
    const float epsilon = s->v[ADAGRAD_EPSILON];
    float *restrict squares = slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        squares[i] = kernel_max(initial, squares[i]) + g * g;
        out[i] = in[i] - rate * g / (sqrtf(squares[i]) + epsilon);
    }
}

extern const struct rule rule_adagrad;
const struct rule rule_adagrad = {
    .name = "adagrad",
    .help = "Adagrad: steps divided by the root of the sum of squared gradients",
    .fields = adagrad_fields,
    .field_count = sizeof adagrad_fields / sizeof adagrad_fields[0],
    .params_bytes = sizeof(struct adagrad_params),
    .slot_count = 1,
    .slot_names = {"squares"},
    .prepare = adagrad_prepare,
    .apply = adagrad_apply,
    .still = true,
};
