/* SPDX-License-Identifier: Apache-2.0 */
/* lars: You, Gitman & Ginsburg, "Large batch training of convolutional networks", 2017,
 * algorithm 1.
 *
 *     r ← trust · ‖w‖ / (‖g‖ + weight_decay · ‖w‖ + epsilon), or 1 when ‖w‖ or ‖g‖ is 0
 *     m ← momentum · m + learning_rate · r · (g + weight_decay · w)
 *     w ← w − m
 *
 * with the norms of the whole variable. Defaults: learning_rate 0.1, momentum 0.9, trust 0.001,
 * weight_decay 1e-4, epsilon 1e-8. The paper has no epsilon; MXNet adds 1e-8; TensorFlow's and
 * TorchRec's keep m without the learning rate, which differs while the rate changes. Usual practice
 * leaves biases and normalisation out; that is a matter of the job's options.
 *
 * Tables: not for tables: the norm would be that of all rows. */
#include "rule/rules/rule_kernel.h"

struct lars_params {
    double learning_rate;
    double momentum;
    double trust;
    double weight_decay;
    double epsilon;
};

enum { LARS_RATE, LARS_MOMENTUM, LARS_TRUST, LARS_DECAY, LARS_EPSILON };
enum { LARS_LOCAL_RATE };

static const struct field lars_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct lars_params, learning_rate), "0.1", 0, 1e6, NULL,
     "Step length, times the trust ratio of the variable"},
    {"momentum", FIELD_FLOAT, offsetof(struct lars_params, momentum), "0.9", 0, 1, NULL,
     "Share of the last step that is added to the next"},
    {"trust", FIELD_FLOAT, offsetof(struct lars_params, trust), "0.001", 0, 1e6, NULL,
     "Size of a step beside the size of the variable"},
    {"weight_decay", FIELD_FLOAT, offsetof(struct lars_params, weight_decay), "1e-4", 0, 1000, NULL,
     "Share of a parameter that is added to its gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct lars_params, epsilon), "1e-8", 0, 1, NULL,
     "Added to the norm of the gradient"},
};

static void lars_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct lars_params *p = params;
    (void)version;
    out->v[LARS_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[LARS_MOMENTUM] = (float)p->momentum;
    out->v[LARS_TRUST] = (float)p->trust;
    out->v[LARS_DECAY] = (float)p->weight_decay;
    out->v[LARS_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void lars_terms(const struct rule_scalars *s, const struct rule_span *span, size_t at,
                       size_t n, double *terms)
{
    (void)s;
    const float *w = span->in + at;
    const float *gradient = span->gradient + at;
    const float scale = span->gradient_scale;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        double x = (double)w[i], g = (double)(gradient[i] * scale);
        terms[i] = x * x;
        terms[SUMS_BLOCK + i] = g * g;
    }
}

static void lars_reduce(const struct rule_scalars *s, unsigned round, const struct rule_span *span,
                        struct rule_sums *out)
{
    (void)round;
    kernel_reduce(s, span, &out->scalars, lars_terms);
}

static void lars_settle(const struct rule_scalars *s, unsigned round, struct rule_totals *totals,
                        float *const *slots)
{
    (void)round;
    (void)slots;
    double w = sqrt(totals->sums[0]), g = sqrt(totals->sums[1]);
    double ratio = 1;
    if (w != 0 && g != 0) {
        ratio = (double)s->v[LARS_TRUST] * w /
                (g + (double)s->v[LARS_DECAY] * w + (double)s->v[LARS_EPSILON]);
    }
    totals->settled[LARS_LOCAL_RATE] = (float)((double)s->v[LARS_RATE] * ratio);
}

VECTOR_CLONES
static void lars_apply(const struct rule_scalars *s, const struct rule_span *span)
{
    const float momentum = s->v[LARS_MOMENTUM];
    const float decay = s->v[LARS_DECAY];
    const float rate = span->totals->settled[LARS_LOCAL_RATE];
    const float scale = span->gradient_scale;
    const float *in = span->in;
    const float *gradient = span->gradient;
    float *out = span->out;
    float *restrict m = span->slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < span->n; i++) {
        float g = gradient[i] * scale;
        m[i] = momentum * m[i] + rate * (g + decay * in[i]);
        out[i] = in[i] - m[i];
    }
}

extern const struct rule rule_lars;
const struct rule rule_lars = {
    .name = "lars",
    .help = "Momentum with steps in proportion to the norm of each variable",
    .fields = lars_fields,
    .field_count = sizeof lars_fields / sizeof lars_fields[0],
    .params_bytes = sizeof(struct lars_params),
    .slot_count = 1,
    .slot_names = {"momentum"},
    .prepare = lars_prepare,
    .apply_span = lars_apply,
    .rounds = 1,
    .sum_count = {2},
    .reduce = lars_reduce,
    .settle = lars_settle,
};
