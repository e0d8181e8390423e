/* SPDX-License-Identifier: Apache-2.0 */
/* ftrl: follow the regularized leader, proximal, per coordinate (McMahan et al., "Ad click
 * prediction: a view from the trenches", KDD 2013, algorithm 1).
 *
 *     N ← max(n, initial_accumulator),  n ← N + g²
 *     z ← z + g − (n^q − N^q) / learning_rate · w                          q = −learning_rate_power
 *     w ← 0 where |z| ≤ l1, else (sign(z) · l1 − z) / ((beta + n^q) / learning_rate + x)
 *
 * form: tensorflow has x = 2 · l2 (Ftrl of TensorFlow and Keras), form: mcmahan x = l2 (the paper,
 * MXNet, Angel, Monolith). Defaults: tensorflow, learning_rate 0.1, learning_rate_power −0.5,
 * initial_accumulator 0.1, beta 0, l1 0, l2 0. The paper's own: mcmahan, initial_accumulator 0,
 * beta
 * 1. Keras has learning_rate 0.001. Monolith's sign() is signbit(), which gives another l1.
 *
 * The parameters are a function of z and n. So a schedule of the learning rate rescales them all at
 * once, it cannot fall to 0 (1e-12 is the least), and what parameters began with is lost with their
 * first update: dense updates begin with 0 where there is no gradient.
 *
 * A power other than −0.5 runs at the speed of pow().
 *
 * Tables: lazy: rows do not move while they are not touched; catch-up: they follow the learning
 * rate, as dense updates would. The two are the same for rows that were touched before, while the
 * learning rate is constant. */
#include "rule/rules/rule_kernel.h"

struct ftrl_params {
    int form;
    double learning_rate;
    double learning_rate_power;
    double initial_accumulator;
    double beta;
    double l1, l2;
};

enum ftrl_form { FTRL_TENSORFLOW, FTRL_MCMAHAN };
static const char *const ftrl_forms[] = {"tensorflow", "mcmahan", NULL};

enum {
    FTRL_INVERSE_RATE,
    FTRL_POWER,
    FTRL_INITIAL,
    FTRL_OFFSET, /* part of the denominator: beta / learning_rate and the share of l2 */
    FTRL_L1
};

#define FTRL_RATE_MIN 1e-12

static const struct field ftrl_fields[] = {
    {"form", FIELD_ENUM, offsetof(struct ftrl_params, form), "tensorflow", 0, 0, ftrl_forms,
     "How l2 counts: twice (tensorflow) or once (mcmahan)"},
    {"learning_rate", FIELD_FLOAT, offsetof(struct ftrl_params, learning_rate), "0.1", 1e-12, 1e6,
     NULL, "Step length where the accumulator is 1"},
    {"learning_rate_power", FIELD_FLOAT, offsetof(struct ftrl_params, learning_rate_power), "-0.5",
     -1, 0, NULL, "Power of the accumulator in the rate of a parameter"},
    {"initial_accumulator", FIELD_FLOAT, offsetof(struct ftrl_params, initial_accumulator), "0.1",
     0, 1e12, NULL, "What the sum of squared gradients begins with"},
    {"beta", FIELD_FLOAT, offsetof(struct ftrl_params, beta), "0", 0, 1e6, NULL,
     "Added to the root of the accumulator"},
    {"l1", FIELD_FLOAT, offsetof(struct ftrl_params, l1), "0", 0, 1e6, NULL,
     "Weight of the sum of sizes of the parameters in the loss; makes many of them 0"},
    {"l2", FIELD_FLOAT, offsetof(struct ftrl_params, l2), "0", 0, 1e6, NULL,
     "Weight of the sum of squares of the parameters in the loss"},
};

static void ftrl_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct ftrl_params *p = params;
    (void)version;
    double rate = p->learning_rate * lr_scale;
    rate = rate > FTRL_RATE_MIN ? rate : FTRL_RATE_MIN;
    out->v[FTRL_INVERSE_RATE] = (float)(1.0 / rate);
    out->v[FTRL_POWER] = (float)-p->learning_rate_power;
    out->v[FTRL_INITIAL] = (float)p->initial_accumulator;
    out->v[FTRL_OFFSET] = (float)(p->beta / rate + (p->form == FTRL_TENSORFLOW ? 2 : 1) * p->l2);
    out->v[FTRL_L1] = (float)p->l1;
}

/* w from z and the power of n. A denominator of 0 has z 0 over it. */
VECTOR_INLINE float ftrl_value(const struct rule_scalars *s, float z, float power)
{
    float denominator = s->v[FTRL_OFFSET] + power * s->v[FTRL_INVERSE_RATE];
    denominator = denominator == 0.0F ? 1.0F : denominator;
    return -kernel_shrink(z, s->v[FTRL_L1]) / denominator;
}

VECTOR_CLONES
static void ftrl_apply_root(const struct rule_scalars *scalars, float *out, const float *in,
                            float *restrict z, float *restrict squares, const float *gradient,
                            float gradient_scale, size_t n)
{
    const struct rule_scalars s = *scalars;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        float before = kernel_max(s.v[FTRL_INITIAL], squares[i]);
        squares[i] = before + g * g;
        float root = sqrtf(squares[i]);
        float sigma = (root - sqrtf(before)) * s.v[FTRL_INVERSE_RATE];
        z[i] = z[i] + (g - sigma * in[i]);
        out[i] = ftrl_value(&s, z[i], root);
    }
}

static void ftrl_apply_power(const struct rule_scalars *s, float *out, const float *in, float *z,
                             float *squares, const float *gradient, float gradient_scale, size_t n)
{
    const double q = (double)s->v[FTRL_POWER];
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        float before = kernel_max(s->v[FTRL_INITIAL], squares[i]);
        squares[i] = before + g * g;
        double power = pow((double)squares[i], q);
        double sigma = (power - pow((double)before, q)) * (double)s->v[FTRL_INVERSE_RATE];
        z[i] = z[i] + (g - (float)sigma * in[i]);
        out[i] = ftrl_value(s, z[i], (float)power);
    }
}

static void ftrl_apply(const struct rule_scalars *s, float *out, const float *in,
                       float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    if (s->v[FTRL_POWER] == 0.5F) {
        ftrl_apply_root(s, out, in, slots[0], slots[1], gradient, gradient_scale, n);
    } else {
        ftrl_apply_power(s, out, in, slots[0], slots[1], gradient, gradient_scale, n);
    }
}

static void ftrl_catch_up(const struct rule_past *past, uint64_t from, uint64_t to, float *values,
                          float *const *slots, size_t n)
{
    if (from == to) {
        return;
    }
    double lr_scale;
    const void *params = kernel_past(past, to - 1, &lr_scale);
    struct rule_scalars s;
    ftrl_prepare(params, to - 1, lr_scale, &s);
    for (size_t i = 0; i < n; i++) {
        float power = kernel_max(s.v[FTRL_INITIAL], slots[1][i]);
        power = s.v[FTRL_POWER] == 0.5F ? sqrtf(power)
                                        : (float)pow((double)power, (double)s.v[FTRL_POWER]);
        values[i] = ftrl_value(&s, slots[0][i], power);
    }
}

extern const struct rule rule_ftrl;
const struct rule rule_ftrl = {
    .name = "ftrl",
    .help = "Follow the regularized leader: Adagrad with L1 and L2 that give sparse models",
    .fields = ftrl_fields,
    .field_count = sizeof ftrl_fields / sizeof ftrl_fields[0],
    .params_bytes = sizeof(struct ftrl_params),
    .slot_count = 2,
    .slot_names = {"z", "squares"},
    .prepare = ftrl_prepare,
    .apply = ftrl_apply,
    .catch_up = ftrl_catch_up,
};
