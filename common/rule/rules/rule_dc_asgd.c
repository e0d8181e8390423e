/* SPDX-License-Identifier: Apache-2.0 */
/* dc_asgd: delay-compensated asynchronous SGD (Zheng et al., "Asynchronous stochastic gradient
 * descent with delay compensation", ICML 2017, algorithm 1 with constant λ).
 *
 *     w ← w − learning_rate · (g + lambda · g² · (w − w_read))
 *
 * where w_read is what the worker read before it computed g: to first order the gradient at the
 * present w, with the diagonal of g · gᵀ in the place of the Hessian.
 *
 * Defaults: learning_rate 0.1, lambda 0.04, as MXNet, which adds momentum and weight decay. The
 * paper's adaptive form (λ divided by the root mean square of g) is not offered. The compensation
 * is of third order in g: where learning_rate · lambda · g² is beyond 1, it diverges.
 *
 * Needs the base values of the push; without delay (sync mode) it is sgd.
 * Tables: a gradient of zero changes nothing, so lazy is exact. */
#include "rule/rules/rule_kernel.h"

struct dc_asgd_params {
    double learning_rate;
    double lambda;
};

enum { DC_ASGD_RATE, DC_ASGD_LAMBDA };

static const struct field dc_asgd_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct dc_asgd_params, learning_rate), "0.1", 0, 1e6,
     NULL, "Step length along the negative gradient"},
    {"lambda", FIELD_FLOAT, offsetof(struct dc_asgd_params, lambda), "0.04", 0, 1e6, NULL,
     "Weight of the compensation for the delay; 0: none"},
};

static void dc_asgd_prepare(const void *params, uint64_t version, double lr_scale,
                            struct rule_scalars *out)
{
    const struct dc_asgd_params *p = params;
    (void)version;
    out->v[DC_ASGD_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[DC_ASGD_LAMBDA] = (float)p->lambda;
}

VECTOR_CLONES
static void dc_asgd_apply(const struct rule_scalars *s, const struct rule_span *span)
{
    const float rate = s->v[DC_ASGD_RATE];
    const float lambda = s->v[DC_ASGD_LAMBDA];
    const float scale = span->gradient_scale;
    const float *in = span->in;
    const float *gradient = span->gradient;
    const float *read = span->base == NULL ? in : span->base;
    float *out = span->out;
    VECTOR_LOOP
    for (size_t i = 0; i < span->n; i++) {
        float g = gradient[i] * scale;
        out[i] = in[i] - rate * (g + lambda * (g * g) * (in[i] - read[i]));
    }
}

extern const struct rule rule_dc_asgd;
const struct rule rule_dc_asgd = {
    .name = "dc_asgd",
    .help = "Gradient descent that compensates for what changed since the worker read",
    .fields = dc_asgd_fields,
    .field_count = sizeof dc_asgd_fields / sizeof dc_asgd_fields[0],
    .params_bytes = sizeof(struct dc_asgd_params),
    .base = RULE_BASE_VALUES,
    .prepare = dc_asgd_prepare,
    .apply_span = dc_asgd_apply,
    .still = true,
};
