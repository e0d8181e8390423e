/* SPDX-License-Identifier: Apache-2.0 */
/* sgd: stochastic gradient descent (Robbins & Monro, "A stochastic approximation method", 1951).
 *
 *     w ← w − learning_rate · g
 *
 * Default: learning_rate 0.01, as Keras and MXNet; TensorFlow's GradientDescentOptimizer and
 * PyTorch's SGD have the same formula and (before PyTorch 2.2) no default. Weight decay and
 * momentum, which PyTorch and MXNet put into their SGD, are rules of their own here.
 *
 * Tables: a gradient of zero changes nothing, so lazy is exact. */
#include "base/vector.h"
#include "rule/rules/rule.h"

struct sgd_params {
    double learning_rate;
};

enum { SGD_RATE };

static const struct field sgd_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct sgd_params, learning_rate), "0.01", 0, 1e6, NULL,
     "Step length along the negative gradient"},
};

static void sgd_prepare(const void *params, uint64_t version, double lr_scale,
                        struct rule_scalars *out)
{
    const struct sgd_params *p = params;
    (void)version;
    out->v[SGD_RATE] = (float)(p->learning_rate * lr_scale);
}

VECTOR_CLONES
static void sgd_apply(const struct rule_scalars *s, float *out, const float *in,
                      float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float rate = s->v[SGD_RATE];
    (void)slots;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        out[i] = in[i] - rate * g;
    }
}

extern const struct rule rule_sgd;
const struct rule rule_sgd = {
    .name = "sgd",
    .help = "Stochastic gradient descent",
    .fields = sgd_fields,
    .field_count = sizeof sgd_fields / sizeof sgd_fields[0],
    .params_bytes = sizeof(struct sgd_params),
    .slot_count = 0,
    .prepare = sgd_prepare,
    .apply = sgd_apply,
    .still = true,
};
