/* SPDX-License-Identifier: Apache-2.0 */
/* ftml: follow the moving leader (Zheng & Kwok, "Follow the moving leader in deep learning", ICML
 * 2017, algorithm 1).
 *
 *     t ← version + 1
 *     v ← beta2 · v + (1 − beta2) · g²
 *     d(t) ← (1 − beta1^t) / learning_rate · (√(v / (1 − beta2^t)) + epsilon)
 *     z ← beta1 · z + (1 − beta1) · g − (d(t) − beta1 · d(t−1)) · w
 *     w ← −z / d(t)
 *
 * As w = −z / d(t−1) before the update, −beta1 · z and beta1 · d(t−1) · w cancel, and what is left
 * is
 *
 *     w ← w − (1 − beta1) · g / d(t)
 *
 * which is computed here: the same numbers with one slot in the place of three (MXNet keeps d, v
 * and z), and without the rounding of w through z and d.
 *
 * Defaults: learning_rate 0.0025, beta1 0.6, beta2 0.999, epsilon 1e-8, as in the paper and MXNet.
 *
 * Tables: lazy, or dense (all rows): parameters do not move without a gradient, but v decays.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/rule_kernel.h"

struct ftml_params {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
};

enum { FTML_BETA2, FTML_ONE_MINUS_BETA2, FTML_RATE, FTML_ROOT, FTML_EPSILON };

static const struct field ftml_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct ftml_params, learning_rate), "0.0025", 0, 1e6,
     NULL, "Bound on how far one update moves a parameter, roughly"},
    {"beta1", FIELD_FLOAT, offsetof(struct ftml_params, beta1), "0.6", 0, 0.999999, NULL,
     "Decay of the weights of past gradients"},
    {"beta2", FIELD_FLOAT, offsetof(struct ftml_params, beta2), "0.999", 0, 0.999999, NULL,
     "Decay of the mean of the squared gradient"},
    {"epsilon", FIELD_FLOAT, offsetof(struct ftml_params, epsilon), "1e-8", 1e-30, 1, NULL,
     "Added to the corrected root mean square of the gradient"},
};

static void ftml_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct ftml_params *p = params;
    const double t = (double)version + 1.0;
    out->v[FTML_BETA2] = (float)p->beta2;
    out->v[FTML_ONE_MINUS_BETA2] = (float)(1.0 - p->beta2);
    out->v[FTML_RATE] =
        (float)(p->learning_rate * lr_scale * (1.0 - p->beta1) / (1.0 - pow(p->beta1, t)));
    out->v[FTML_ROOT] = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    out->v[FTML_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void ftml_apply(const struct rule_scalars *s, float *out, const float *in,
                       float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float beta2 = s->v[FTML_BETA2];
    const float one_minus_beta2 = s->v[FTML_ONE_MINUS_BETA2];
    const float rate = s->v[FTML_RATE];
    const float root = s->v[FTML_ROOT];
    const float epsilon = s->v[FTML_EPSILON];
    float *restrict v = slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        v[i] = beta2 * v[i] + one_minus_beta2 * (g * g);
        out[i] = in[i] - rate * g / (sqrtf(v[i]) * root + epsilon);
    }
}

extern const struct rule rule_ftml;
const struct rule rule_ftml = {
    .name = "ftml",
    .help = "Follow the moving leader: RMSProp seen as a sequence of proximal problems",
    .fields = ftml_fields,
    .field_count = sizeof ftml_fields / sizeof ftml_fields[0],
    .params_bytes = sizeof(struct ftml_params),
    .slot_count = 1,
    .slot_names = {"v"},
    .prepare = ftml_prepare,
    .apply = ftml_apply,
};
