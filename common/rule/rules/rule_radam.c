/* SPDX-License-Identifier: Apache-2.0 */
/* radam: rectified Adam (Liu et al., "On the variance of the adaptive learning rate and beyond",
 * ICLR 2020, algorithm 2).
 *
 *     t ← version + 1
 *     m ← beta1 · m + (1 − beta1) · g
 *     v ← beta2 · v + (1 − beta2) · g²
 *     ρ ← ρ∞ − 2 t · beta2^t / (1 − beta2^t),  ρ∞ ← 2 / (1 − beta2) − 1
 *     r ← √((ρ − 4)(ρ − 2) ρ∞ / ((ρ∞ − 4)(ρ∞ − 2) ρ))
 *     w ← w − learning_rate · r · (m / (1 − beta1^t)) / (√(v / (1 − beta2^t)) + epsilon)
 *                                                              when ρ > threshold
 *     w ← w − learning_rate · m / (1 − beta1^t)                otherwise
 *
 * Defaults: learning_rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-8, threshold 5, as PyTorch and
 * the authors' program; the paper says 4, TensorFlow Addons has an option. PyTorch adds epsilon to
 * √v before its correction, here it is added after, as in adam.
 *
 * Tables: lazy (touched rows only), or dense (all rows); the two differ, as m and v decay without a
 * gradient too.
 * A gradient beyond 1.8e19 overflows g² to infinity, and its element then stands still. */
#include "rule/rules/adam_family.h"
#include "rule/rules/rule_kernel.h"

struct radam_params {
    struct adam_params adam;
    double threshold;
};

static const struct field radam_fields[] = {
    ADAM_LEARNING_RATE("0.001"),
    ADAM_BETA1("0.9"),
    ADAM_BETA2("0.999"),
    ADAM_EPSILON("1e-8"),
    {"threshold", FIELD_FLOAT, offsetof(struct radam_params, threshold), "5", 4, 1000, NULL,
     "Length of the mean of the squared gradient, in updates, from which on it is used"},
};

/* ρ: over how many updates the mean of the squared gradient reaches. */
static double length_at(const struct radam_params *p, double t)
{
    double power = pow(p->adam.beta2, t);
    return 2.0 / (1.0 - p->adam.beta2) - 1.0 - 2.0 * t * power / (1.0 - power);
}

static double rectification(const struct radam_params *p, double t)
{
    double whole = 2.0 / (1.0 - p->adam.beta2) - 1.0;
    double length = length_at(p, t);
    return sqrt((length - 4.0) * (length - 2.0) * whole / ((whole - 4.0) * (whole - 2.0) * length));
}

static void radam_prepare(const void *params, uint64_t version, double lr_scale,
                          struct rule_scalars *out)
{
    const struct radam_params *p = params;
    const double t = (double)version + 1.0;
    const double rate = p->adam.learning_rate * lr_scale / (1.0 - pow(p->adam.beta1, t));
    adam_prepare(params, version, lr_scale, out);
    if (length_at(p, t) > p->threshold) {
        out->v[ADAM_RATE] = (float)(rate * rectification(p, t));
    } else { /* without the mean of the squared gradient */
        out->v[ADAM_ROOT] = 0.0F;
        out->v[ADAM_EPSILON_AT] = 1.0F;
    }
}

extern const struct rule rule_radam;
const struct rule rule_radam = {
    .name = "radam",
    .help = "Adam that begins as momentum until the mean of the squared gradient is sound",
    .fields = radam_fields,
    .field_count = sizeof radam_fields / sizeof radam_fields[0],
    .params_bytes = sizeof(struct radam_params),
    .slot_count = 2,
    .slot_names = {"m", "v"},
    .prepare = radam_prepare,
    .apply = adam_apply,
};
