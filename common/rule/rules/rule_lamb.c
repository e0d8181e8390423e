/* SPDX-License-Identifier: Apache-2.0 */
/* lamb: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR
 * 2020, algorithm 2.
 *
 *     t ← version + 1
 *     m ← beta1 · m + (1 − beta1) · g
 *     v ← beta2 · v + (1 − beta2) · g²
 *     u ← (m / (1 − beta1^t)) / (√(v / (1 − beta2^t)) + epsilon) + weight_decay · w
 *     w ← w − learning_rate · ‖w‖ / ‖u‖ · u      (the ratio is 1 when ‖w‖ or ‖u‖ is 0)
 *
 * with the norms of the whole variable. Defaults: learning_rate 0.001, beta1 0.9, beta2 0.999,
 * epsilon 1e-6, weight_decay 0.01, as the authors' program. The paper's φ is the identity, as in
 * nearly all implementations; MXNet can bound ‖w‖; NVIDIA's normalises g by its global norm first.
 *
 * Tables: not for tables: the norms would be those of all rows.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then moves by the weight decay
 * only. */
#include "rule/rules/rule_kernel.h"

struct lamb_params {
    double learning_rate;
    double beta1, beta2;
    double epsilon;
    double weight_decay;
};

enum {
    LAMB_BETA1,
    LAMB_ONE_MINUS_BETA1,
    LAMB_BETA2,
    LAMB_ONE_MINUS_BETA2,
    LAMB_RATE,
    LAMB_CORRECTION,
    LAMB_ROOT,
    LAMB_EPSILON,
    LAMB_DECAY
};
enum { LAMB_LOCAL_RATE };

static const struct field lamb_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct lamb_params, learning_rate), "0.001", 0, 1e6,
     NULL, "Size of a step beside the size of the variable"},
    {"beta1", FIELD_FLOAT, offsetof(struct lamb_params, beta1), "0.9", 0, 0.999999, NULL,
     "Decay of the mean of the gradient"},
    {"beta2", FIELD_FLOAT, offsetof(struct lamb_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean of the squared gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct lamb_params, epsilon), "1e-6", 1e-30, 1, NULL,
     "Added to the corrected root mean square of the gradient"},
    {"weight_decay", FIELD_FLOAT, offsetof(struct lamb_params, weight_decay), "0.01", 0, 1000, NULL,
     "Weight of the parameter itself in the direction"},
};

static void lamb_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct lamb_params *p = params;
    const double t = (double)version + 1.0;
    out->v[LAMB_BETA1] = (float)p->beta1;
    out->v[LAMB_ONE_MINUS_BETA1] = (float)(1.0 - p->beta1);
    out->v[LAMB_BETA2] = (float)p->beta2;
    out->v[LAMB_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[LAMB_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[LAMB_CORRECTION] = (float)(1.0 / (1.0 - pow(p->beta1, t)));
    out->v[LAMB_ROOT] = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    out->v[LAMB_EPSILON] = (float)p->epsilon;
    out->v[LAMB_DECAY] = (float)p->weight_decay;
}

/* u, from the new m and v. */
VECTOR_INLINE float lamb_direction(const struct rule_scalars *s, float m, float v, float w)
{
    return s->v[LAMB_CORRECTION] * m / (sqrtf(v) * s->v[LAMB_ROOT] + s->v[LAMB_EPSILON]) +
           s->v[LAMB_DECAY] * w;
}

VECTOR_INLINE float lamb_m(const struct rule_scalars *s, float m, float g)
{
    return s->v[LAMB_BETA1] * m + s->v[LAMB_ONE_MINUS_BETA1] * g;
}

VECTOR_INLINE float lamb_v(const struct rule_scalars *s, float v, float g)
{
    return s->v[LAMB_BETA2] * v + s->v[LAMB_ONE_MINUS_BETA2] * (g * g);
}

VECTOR_CLONES
static void lamb_terms(const struct rule_scalars *scalars, const struct rule_span *span, size_t at,
                       size_t n, double *terms)
{
    const struct rule_scalars s = *scalars;
    const float *w = span->in + at;
    const float *gradient = span->gradient + at;
    const float *m = span->slots[0] + at;
    const float *v = span->slots[1] + at;
    const float scale = span->gradient_scale;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * scale;
        double x = (double)w[i];
        double u = (double)lamb_direction(&s, lamb_m(&s, m[i], g), lamb_v(&s, v[i], g), w[i]);
        terms[i] = x * x;
        terms[SUMS_BLOCK + i] = u * u;
    }
}

static void lamb_reduce(const struct rule_scalars *s, unsigned round, const struct rule_span *span,
                        struct rule_sums *out)
{
    (void)round;
    kernel_reduce(s, span, &out->scalars, lamb_terms);
}

static void lamb_settle(const struct rule_scalars *s, unsigned round, struct rule_totals *totals,
                        float *const *slots)
{
    (void)round;
    (void)slots;
    double w = sqrt(totals->sums[0]), u = sqrt(totals->sums[1]);
    double ratio = w != 0 && u != 0 ? w / u : 1.0;
    totals->settled[LAMB_LOCAL_RATE] = (float)((double)s->v[LAMB_RATE] * ratio);
}

VECTOR_CLONES
static void lamb_apply(const struct rule_scalars *scalars, const struct rule_span *span)
{
    const struct rule_scalars s = *scalars;
    const float rate = span->totals->settled[LAMB_LOCAL_RATE];
    const float scale = span->gradient_scale;
    const float *in = span->in;
    const float *gradient = span->gradient;
    float *out = span->out;
    float *restrict m = span->slots[0];
    float *restrict v = span->slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < span->n; i++) {
        float g = gradient[i] * scale;
        m[i] = lamb_m(&s, m[i], g);
        v[i] = lamb_v(&s, v[i], g);
        out[i] = in[i] - rate * lamb_direction(&s, m[i], v[i], in[i]);
    }
}

extern const struct rule rule_lamb;
const struct rule rule_lamb = {
    .name = "lamb",
    .help = "Adam with steps in proportion to the norm of each variable",
    .fields = lamb_fields,
    .field_count = sizeof lamb_fields / sizeof lamb_fields[0],
    .params_bytes = sizeof(struct lamb_params),
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .prepare = lamb_prepare,
    .apply_span = lamb_apply,
    .rounds = 1,
    .sum_count = {2},
    .reduce = lamb_reduce,
    .settle = lamb_settle,
};
