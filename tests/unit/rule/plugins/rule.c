/* SPDX-License-Identifier: Apache-2.0 */
/* A rule, and what can be wrong with one: compiled with -DMISTAKE_<what>, or with none and right.
 * NAME is the rule's. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include <gradus/rule.h>

#ifndef NAME
#define NAME "test_rule"
#endif

#ifdef MISTAKE_UNDEFINED
extern float nowhere(float x);
#else
#define nowhere(x) (x)
#endif

#ifdef MISTAKE_CONSTRUCTOR_CRASHES
__attribute__((constructor)) static void begin(void)
{
    abort();
}
#endif
#ifdef MISTAKE_CONSTRUCTOR_EXITS
__attribute__((constructor)) static void begin(void)
{
    exit(3);
}
#endif
#ifdef MISTAKE_CONSTRUCTOR_HANGS
__attribute__((constructor)) static void begin(void)
{
    for (volatile int i = 0;; i = 1) {
    }
}
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
    const double *crash = (const double *)16;
#ifdef MISTAKE_CRASHES_AT_DEFAULTS
    h = h[0] == 0.5 && h[1] == 0.9 && lr_scale == 1 ? crash : h;
#endif
#ifdef MISTAKE_CRASHES_AT_LEAST
    h = h[0] == 0 && h[1] == 0.9 ? crash : h;
#endif
#ifdef MISTAKE_CRASHES_AT_MOST
    h = h[0] == 1 && h[1] == 0.9 ? crash : h;
#endif
#ifdef MISTAKE_CRASHES_AT_LARGE
    h = h[0] == 0.5 && h[1] == 1e30 ? crash : h;
#endif
#ifdef MISTAKE_CRASHES_LATE
    h = version == 1000000 ? crash : h;
#endif
#ifdef MISTAKE_CRASHES_WHEN_SLOW
    h = version == 1 && lr_scale == 0.125 ? crash : h;
#endif
    scalars[0] = (float)(h[0] * lr_scale);
    scalars[1] = (float)h[1];
#ifdef MISTAKE_PREPARE_CRASHES
    scalars[2] = *(volatile float *)16;
#endif
#ifdef MISTAKE_PREPARE_SPILLS
    scalars[GRADUS_RULE_SCALARS_MAX] = 1;
#endif
#ifdef MISTAKE_PREPARE_READS_ON
    scalars[2] = (float)h[2];
#endif
#ifdef MISTAKE_PREPARE_COUNTS
    static float count;
    scalars[2] = count++;
#endif
#ifdef MISTAKE_PREPARE_WRITES
    ((double *)(uintptr_t)h)[0] = 0;
#endif
#ifdef MISTAKE_PREPARE_HANGS
    for (volatile int i = 0;; i = 1) {
    }
#endif
}

static void apply(const float *s, float *out, const float *in, float *const *slot,
                  const float *gradient, float gradient_scale, size_t n)
{
#ifdef MISTAKE_APPLY_CRASHES
    abort();
#endif
#ifdef MISTAKE_APPLY_HANGS
    for (volatile int i = 0;; i = 1) {
    }
#endif
#ifdef MISTAKE_SCALE_IGNORED
    gradient_scale = 1;
#endif
#ifdef MISTAKE_COUNTS_CALLS
    static float count;
    count += 0.25F;
#else
    const float count = 0;
#endif
    for (size_t i = 0; i < n; i++) {
        float g = nowhere(gradient[i]) * gradient_scale;
        slot[0][i] = s[1] * slot[0][i] + g;
        out[i] = in[i] - s[0] * slot[0][i] + count;
#ifdef MISTAKE_POSITION
        out[i] += (float)i;
#endif
#ifdef MISTAKE_READS_ON
        out[i] += in[i + 1];
#endif
#ifdef MISTAKE_NOT_FINITE
        out[i] = sqrtf(-1 - in[i] * in[i]);
#endif
    }
#ifdef MISTAKE_WRITES_ON
    out[n] = 0;
#endif
#ifdef MISTAKE_WRITES_BEFORE
    out[-1] = 0;
#endif
#ifdef MISTAKE_SPILLS
    if (n == 11) {
        out[n] += 1;
    }
#endif
#ifdef MISTAKE_SLOT_SPILLS
    if (n == 11) {
        slot[0][-2] += 1;
    }
#endif
#ifdef MISTAKE_GRADIENT_WRITTEN
    ((float *)(uintptr_t)gradient)[0] += 1;
#endif
#ifdef MISTAKE_IN_WRITTEN
    if (out != in) {
        ((float *)(uintptr_t)in)[0] += 1;
    }
#endif
#ifdef MISTAKE_SCALARS_WRITTEN
    ((float *)(uintptr_t)s)[0] += 1;
#endif
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
#if defined MISTAKE_HELP_POINTER
    .help = (const char *)16,
#elif !defined MISTAKE_NO_HELP
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
