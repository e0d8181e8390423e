/* SPDX-License-Identifier: Apache-2.0 */
/* proximal_sgd: gradient descent with proximal L1 and L2 (Duchi & Singer, "Efficient online and
 * batch learning using forward backward splitting", JMLR 2009).
 *
 *     x ← w − learning_rate · g
 *     w ← sign(x) · max(|x| − learning_rate · l1, 0) / (1 + learning_rate · l2)
 *
 * Defaults: learning_rate 0.01, l1 0, l2 0, the formula of TensorFlow's ProximalGradientDescent.
 * Angel's SGD is the same. L1 makes parameters exactly 0.
 *
 * Tables: lazy (touched rows shrink), or dense (all rows shrink at every update). */
#include "rule/rules/rule_kernel.h"

struct proximal_sgd_params {
    double learning_rate;
    double l1;
    double l2;
};

enum { PROXIMAL_SGD_RATE, PROXIMAL_SGD_L1, PROXIMAL_SGD_SHRINK };

static const struct field proximal_sgd_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct proximal_sgd_params, learning_rate), "0.01", 0,
     1e6, NULL, "Step length along the negative gradient"},
    {"l1", FIELD_FLOAT, offsetof(struct proximal_sgd_params, l1), "0", 0, 1e6, NULL,
     "Weight of the sum of sizes of the parameters in the loss"},
    {"l2", FIELD_FLOAT, offsetof(struct proximal_sgd_params, l2), "0", 0, 1e6, NULL,
     "Weight of half the sum of squares of the parameters in the loss"},
};

static void proximal_sgd_prepare(const void *params, uint64_t version, double lr_scale,
                                 struct rule_scalars *out)
{
    const struct proximal_sgd_params *p = params;
    (void)version;
    out->v[PROXIMAL_SGD_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[PROXIMAL_SGD_L1] = (float)(p->learning_rate * lr_scale * p->l1);
    out->v[PROXIMAL_SGD_SHRINK] = (float)(1.0 + p->learning_rate * lr_scale * p->l2);
}

VECTOR_CLONES
static void proximal_sgd_apply(const struct rule_scalars *s, float *out, const float *in,
                               float *const *slots, const float *gradient, float gradient_scale,
                               size_t n)
{
    const float rate = s->v[PROXIMAL_SGD_RATE];
    const float l1 = s->v[PROXIMAL_SGD_L1];
    const float shrink = s->v[PROXIMAL_SGD_SHRINK];
    (void)slots;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        float x = in[i] - rate * g;
        out[i] = kernel_shrink(x, l1) / shrink;
    }
}

extern const struct rule rule_proximal_sgd;
const struct rule rule_proximal_sgd = {
    .name = "proximal_sgd",
    .help = "Gradient descent with L1 and L2 that can make parameters exactly 0",
    .fields = proximal_sgd_fields,
    .field_count = sizeof proximal_sgd_fields / sizeof proximal_sgd_fields[0],
    .params_bytes = sizeof(struct proximal_sgd_params),
    .slot_count = 0,
    .prepare = proximal_sgd_prepare,
    .apply = proximal_sgd_apply,
};
