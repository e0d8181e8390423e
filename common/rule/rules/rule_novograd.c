/* SPDX-License-Identifier: Apache-2.0 */
/* novograd: Ginsburg et al., "Stochastic gradient methods with layer-wise adaptive moments for
 * training of deep networks", 2019, algorithm 1.
 *
 *     v ← beta2 · v + (1 − beta2) · ‖g‖²          (at the first update v ← ‖g‖²)
 *     m ← beta1 · m + c · (g / (√v + epsilon) + weight_decay · w)
 *     w ← w − learning_rate · m
 *
 * with one v for a whole variable; c is 1, or 1 − beta1 with grad_averaging. Defaults:
 * learning_rate 0.01, beta1 0.95, beta2 0.98, epsilon 1e-8, weight_decay 0, grad_averaging false,
 * as in the paper. TensorFlow Addons has 0.001, 0.9, 0.999, 1e-7; NVIDIA's programs 0.95, 0.98 and
 * averaging by option.
 *
 * Tables: not for tables: v would be that of all rows. */
#include "rule/rules/rule_kernel.h"

struct novograd_params {
    double learning_rate;
    double beta1, beta2;
    double epsilon;
    double weight_decay;
    bool grad_averaging;
};

enum {
    NOVOGRAD_RATE,
    NOVOGRAD_BETA1,
    NOVOGRAD_SHARE,
    NOVOGRAD_BETA2,
    NOVOGRAD_ONE_MINUS_BETA2,
    NOVOGRAD_EPSILON,
    NOVOGRAD_DECAY
};
enum { NOVOGRAD_INVERSE_NORM };

static const struct field novograd_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct novograd_params, learning_rate), "0.01", 0, 1e6,
     NULL, "Step length of a whole variable, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct novograd_params, beta1), "0.95", 0, 0.999999, NULL,
     "Decay of the momentum"},
    {"beta2", FIELD_FLOAT, offsetof(struct novograd_params, beta2), "0.98", 0, 0.999999, NULL,
     "Decay of the mean of the squared norm of the gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct novograd_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the norm of the gradient"},
    {"weight_decay", FIELD_FLOAT, offsetof(struct novograd_params, weight_decay), "0", 0, 1000,
     NULL, "Weight of the parameter itself in the direction"},
    {"grad_averaging", FIELD_BOOL, offsetof(struct novograd_params, grad_averaging), "false", 0, 0,
     NULL, "Weigh new directions by 1 - beta1"},
};

static void novograd_prepare(const void *params, uint64_t version, double lr_scale,
                             struct rule_scalars *out)
{
    const struct novograd_params *p = params;
    out->v[NOVOGRAD_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[NOVOGRAD_BETA1] = (float)p->beta1;
    out->v[NOVOGRAD_SHARE] = p->grad_averaging ? (float)(1.0 - p->beta1) : 1.0F;
    out->v[NOVOGRAD_BETA2] = version == 0 ? 0.0F : (float)p->beta2;
    out->v[NOVOGRAD_ONE_MINUS_BETA2] = version == 0 ? 1.0F : (float)(1.0 - p->beta2);
    out->v[NOVOGRAD_EPSILON] = (float)p->epsilon;
    out->v[NOVOGRAD_DECAY] = (float)p->weight_decay;
}

VECTOR_CLONES
static void novograd_terms(const struct rule_scalars *s, const struct rule_span *span, size_t at,
                           size_t n, double *terms)
{
    (void)s;
    const float *gradient = span->gradient + at;
    const float scale = span->gradient_scale;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        double g = (double)(gradient[i] * scale);
        terms[i] = g * g;
    }
}

static void novograd_reduce(const struct rule_scalars *s, unsigned round,
                            const struct rule_span *span, struct rule_sums *out)
{
    (void)round;
    kernel_reduce(s, span, &out->scalars, novograd_terms);
}

static void novograd_settle(const struct rule_scalars *s, unsigned round,
                            struct rule_totals *totals, float *const *slots)
{
    (void)round;
    float *v = slots[1];
    double mean = (double)s->v[NOVOGRAD_BETA2] * (double)*v +
                  (double)s->v[NOVOGRAD_ONE_MINUS_BETA2] * totals->sums[0];
    *v = (float)mean;
    totals->settled[NOVOGRAD_INVERSE_NORM] =
        (float)(1.0 / (sqrt(mean) + (double)s->v[NOVOGRAD_EPSILON]));
}

VECTOR_CLONES
static void novograd_apply(const struct rule_scalars *s, const struct rule_span *span)
{
    const float rate = s->v[NOVOGRAD_RATE];
    const float beta1 = s->v[NOVOGRAD_BETA1];
    const float share = s->v[NOVOGRAD_SHARE];
    const float decay = s->v[NOVOGRAD_DECAY];
    const float inverse_norm = span->totals->settled[NOVOGRAD_INVERSE_NORM];
    const float scale = span->gradient_scale;
    const float *in = span->in;
    const float *gradient = span->gradient;
    float *out = span->out;
    float *restrict m = span->slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < span->n; i++) {
        float g = gradient[i] * scale;
        m[i] = beta1 * m[i] + share * (g * inverse_norm + decay * in[i]);
        out[i] = in[i] - rate * m[i];
    }
}

extern const struct rule rule_novograd;
const struct rule rule_novograd = {
    .name = "novograd",
    .help = "Momentum of gradients divided by a running norm of each variable's gradient",
    .fields = novograd_fields,
    .field_count = sizeof novograd_fields / sizeof novograd_fields[0],
    .params_bytes = sizeof(struct novograd_params),
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .slot_kinds = {RULE_SLOT_PARAMETER, RULE_SLOT_VARIABLE},
    .prepare = novograd_prepare,
    .apply_span = novograd_apply,
    .rounds = 1,
    .sum_count = {1},
    .reduce = novograd_reduce,
    .settle = novograd_settle,
};
