/* SPDX-License-Identifier: Apache-2.0 */
/* A rule, and what can be wrong with one: compiled with -DMISTAKE_<what>, or with none and right.
 * NAME is the rule's. */
#include <fenv.h>
#include <math.h>

#include <gradus/rule.h>

#ifndef NAME
#define NAME "test_rule"
#endif

#ifdef MISTAKE_UNDEFINED
extern float nowhere(float x);
#else
#define nowhere(x) (x)
#endif

#ifdef MISTAKE_ROUNDING
__attribute__((constructor)) static void begin(void)
{
    fesetround(FE_UPWARD);
}
#endif

static const struct gradus_hyperparameter hyperparameters[] = {
#if defined MISTAKE_KEY_TAKEN
    {"clip_norm", 0.5, 0, 1, "Taken"},
#elif defined MISTAKE_RANGE
    {"learning_rate", 0.5, 1, 1, "Length"},
#elif defined MISTAKE_RANGE_INFINITE
    {"learning_rate", 0.5, -INFINITY, 1, "Length"},
#elif defined MISTAKE_DEFAULT
    {"learning_rate", 1.5, 0, 1, "Length"},
#elif defined MISTAKE_DEFAULT_NAN
    {"learning_rate", NAN, 0, 1, "Length"},
#elif defined MISTAKE_HELP_OF_KEY
    {"learning_rate", 0.5, 0, 1, "Two\nlines"},
#elif defined MISTAKE_KEY_MALFORMED
    {"learning-rate", 0.5, 0, 1, "Length"},
#else
    {"learning_rate", 0.5, 0, 1, "Length"},
#endif
#ifdef MISTAKE_KEY_TWICE
    {"learning_rate", 0.9, 0, 1, "Again"},
#else
    {"decay", 0.9, 0, INFINITY, "Decay"},
#endif
};

static const struct gradus_slot slots[] = {
#if defined MISTAKE_SLOT_TAKEN
    {"average", 0},
#elif defined MISTAKE_SLOT_NAN
    {"m", NAN},
#else
    {"m", 0},
#endif
#ifdef MISTAKE_SLOT_TWICE
    {"m", 0},
#endif
};

static void prepare(const double *h, uint64_t version, double lr_scale, float *scalars)
{
    scalars[0] = (float)(h[0] * lr_scale);
    scalars[1] = (float)h[1];
}

static void apply(const float *s, float *out, const float *in, float *const *slot,
                  const float *gradient, float gradient_scale, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float g = nowhere(gradient[i]) * gradient_scale;
        slot[0][i] = s[1] * slot[0][i] + g;
        out[i] = in[i] - s[0] * slot[0][i];
    }
}

#ifdef MISTAKE_SYMBOL
#define OBJECT my_rule
#else
#define OBJECT gradus_rule
#endif

const struct gradus_rule OBJECT = {
#ifdef MISTAKE_ABI
    .abi = GRADUS_RULE_ABI + 1,
#else
    .abi = GRADUS_RULE_ABI,
#endif
#ifndef MISTAKE_NO_NAME
    .name = NAME,
#endif
#ifndef MISTAKE_NO_HELP
    .help = "Momentum",
#endif
#ifndef MISTAKE_NO_KEYS
    .hyperparameters = hyperparameters,
#endif
#ifdef MISTAKE_KEYS_MANY
    .hyperparameter_count = GRADUS_RULE_HYPERPARAMETERS_MAX + 1,
#else
    .hyperparameter_count = sizeof hyperparameters / sizeof hyperparameters[0],
#endif
#ifndef MISTAKE_NO_SLOTS
    .slots = slots,
#endif
#ifdef MISTAKE_SLOTS_MANY
    .slot_count = GRADUS_RULE_SLOTS_MAX + 1,
#else
    .slot_count = sizeof slots / sizeof slots[0],
#endif
#ifndef MISTAKE_NO_PREPARE
    .prepare = prepare,
#endif
#ifndef MISTAKE_NO_APPLY
    .apply = apply,
#endif
};
