/* SPDX-License-Identifier: Apache-2.0 */
/* qhm: quasi-hyperbolic momentum (Ma, Yarats: "Quasi-hyperbolic momentum and Adam for deep
 * learning", ICLR 2019, algorithm 1).
 *
 *     m ← beta · m + (1 − beta) · g
 *     w ← w − learning_rate · ((1 − nu) · g + nu · m)
 *
 * nu = 0 is plain gradient descent, nu = 1 momentum with dampening, nu = beta Nesterov's. The
 * defaults are the paper's.
 *
 * A plug-in for Gradus; docs/plugins.md tells how to build and use one. */
#include <math.h>

#include <gradus/rule.h>

enum { LEARNING_RATE, BETA, NU, HYPERPARAMETERS };    /* places in the job's values */
enum { RATE, KEPT, FRESH, OF_MOMENTUM, OF_GRADIENT }; /* places among the scalars */

static const struct gradus_hyperparameter hyperparameters[HYPERPARAMETERS] = {
    [LEARNING_RATE] = {"learning_rate", 1.0, 0, INFINITY, "Step length"},
    [BETA] = {"beta", 0.999, 0, 1, "Share of the momentum that is kept from update to update"},
    [NU] = {"nu", 0.7, 0, 1, "Share of the momentum in a step; the rest is the gradient"},
};

static const struct gradus_slot slots[] = {{"momentum", 0.0F}};

static void prepare(const double *h, uint64_t version, double lr_scale, float *scalars)
{
    (void)version;
    scalars[RATE] = (float)(h[LEARNING_RATE] * lr_scale);
    scalars[KEPT] = (float)h[BETA];
    scalars[FRESH] = (float)(1 - h[BETA]);
    scalars[OF_MOMENTUM] = (float)h[NU];
    scalars[OF_GRADIENT] = (float)(1 - h[NU]);
}

static void apply(const float *s, float *out, const float *in, float *const *slot,
                  const float *gradient, float gradient_scale, size_t n)
{
    float *momentum = slot[0];
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        float m = s[KEPT] * momentum[i] + s[FRESH] * g;
        momentum[i] = m;
        out[i] = in[i] - s[RATE] * (s[OF_GRADIENT] * g + s[OF_MOMENTUM] * m);
    }
}

const struct gradus_rule gradus_rule = {
    .abi = GRADUS_RULE_ABI,
    .name = "qhm",
    .help = "Quasi-hyperbolic momentum",
    .hyperparameters = hyperparameters,
    .hyperparameter_count = HYPERPARAMETERS,
    .slots = slots,
    .slot_count = sizeof slots / sizeof slots[0],
    .prepare = prepare,
    .apply = apply,
};
