/* SPDX-License-Identifier: Apache-2.0 */
/* rmsprop: Tieleman & Hinton, "Lecture 6.5: rmsprop", Coursera, 2012, with optional momentum.
 *
 *     v ← decay · v + (1 − decay) · g²
 *     m ← momentum · m + g / (√v + epsilon)
 *     w ← w − learning_rate · m
 *
 * Defaults: learning_rate 0.001, decay 0.9, momentum 0, epsilon 1e-8. PyTorch has the same formula
 * with learning_rate 0.01, decay ("alpha") 0.99. TensorFlow adds epsilon (1e-10) under the root and
 * keeps learning_rate · m in the slot, which is the same until the learning rate changes; Keras and
 * MXNet likewise, with 1e-7 and 1e-8.
 *
 * Tables: lazy, or dense (all rows); the two differ, as v and m decay without a gradient too.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct rmsprop_params {
    double learning_rate;
    double decay;
    double momentum;
    double epsilon;
};

enum { RMSPROP_RATE, RMSPROP_KEPT, RMSPROP_ONE_MINUS_KEPT, RMSPROP_MOMENTUM, RMSPROP_EPSILON };

static const struct field rmsprop_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct rmsprop_params, learning_rate), "0.001", 0, 1e6,
     NULL, "Step length where the root mean square of the gradient is 1"},
    {"decay", FIELD_FLOAT, offsetof(struct rmsprop_params, decay), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the squared gradient"},
    {"momentum", FIELD_FLOAT, offsetof(struct rmsprop_params, momentum), "0", 0, 1, NULL,
     "Share of the last step that is added to the next; 0: none"},
    {"epsilon", FIELD_FLOAT, offsetof(struct rmsprop_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the root mean square of the gradient"},
};

static void rmsprop_prepare(const void *params, uint64_t version, double lr_scale,
                            struct rule_scalars *out)
{
    const struct rmsprop_params *p = params;
    (void)version;
    out->v[RMSPROP_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[RMSPROP_KEPT] = (float)p->decay;
    out->v[RMSPROP_ONE_MINUS_KEPT] = (float)(1.0 - p->decay);
    out->v[RMSPROP_MOMENTUM] = (float)p->momentum;
    out->v[RMSPROP_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void rmsprop_apply(const struct rule_scalars *s, float *out, const float *in,
                          float *const *slots, const float *gradient, float gradient_scale,
                          size_t n)
{
    const float rate = s->v[RMSPROP_RATE];
    const float decay = s->v[RMSPROP_KEPT];
    const float one_minus_decay = s->v[RMSPROP_ONE_MINUS_KEPT];
    const float momentum = s->v[RMSPROP_MOMENTUM];
    const float epsilon = s->v[RMSPROP_EPSILON];
    float *restrict v = slots[0];
    float *restrict m = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        v[i] = decay * v[i] + one_minus_decay * (g * g);
        m[i] = momentum * m[i] + g / (sqrtf(v[i]) + epsilon);
        out[i] = in[i] - rate * m[i];
    }
}

extern const struct rule rule_rmsprop;
const struct rule rule_rmsprop = {
    .name = "rmsprop",
    .help =
        "RMSProp: steps divided by the root mean square of the gradient, with optional momentum",
    .fields = rmsprop_fields,
    .field_count = sizeof rmsprop_fields / sizeof rmsprop_fields[0],
    .params_bytes = sizeof(struct rmsprop_params),
    .slot_count = 2,
    .slot_names = {"v", "momentum"},
    .prepare = rmsprop_prepare,
    .apply = rmsprop_apply,
};
