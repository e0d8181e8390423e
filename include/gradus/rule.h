/* SPDX-License-Identifier: Apache-2.0 */
/* Update rules of your own for Gradus: the C interface of plug-ins, version 1.
 *
 * An update rule says how a gradient changes a variable. To add one without building Gradus again,
 * write a C file that includes only this header and defines one object named `gradus_rule`,
 *
 *     const struct gradus_rule gradus_rule = {.abi = GRADUS_RULE_ABI, .name = "my_rule", …};
 *
 * build it as a shared object (cc -std=c11 -O2 -fPIC -shared -o my_rule.so my_rule.c), put it into
 * a directory, and start every program of the cluster with --rules-dir and that directory. Jobs
 * then name the rule as they name any other. docs/plugins.md tells more; examples/rule-plugin is
 * one.
 *
 * What is said here stays as it is as long as GRADUS_RULE_ABI is 1. A program takes plug-ins of the
 * version that it knows, and no others.
 *
 * A rule is pure arithmetic on the arrays that it is given: no memory of its own between calls, no
 * files, clocks, locks or threads. Its functions are called by several threads at the same time.
 * When a program starts it checks what a plug-in says of itself, and not what it computes: what is
 * asked for below is for its author to keep. */
#ifndef GRADUS_RULE_H
#define GRADUS_RULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRADUS_RULE_ABI 1

#define GRADUS_RULE_SLOTS_MAX 4
#define GRADUS_RULE_SCALARS_MAX 12
#define GRADUS_RULE_HYPERPARAMETERS_MAX 16
#define GRADUS_RULE_NAME_BYTES_MAX 31  /* of all names */
#define GRADUS_RULE_HELP_BYTES_MAX 255 /* of all helps */

/* Names are lower-case letters, digits and underscores, and begin with a letter. Helps are one line
 * of UTF-8: a sentence without a full stop. */

/* A number that a job may give under `update:`, beside `rule:`. */
struct gradus_hyperparameter {
    const char *name;     /* not one of the keys that `update` has for every rule */
    double default_value; /* without a value in the job; from min to max */
    double min;           /* finite */
    double max;           /* > min; INFINITY: no upper bound */
    const char *help;
};

/* State of the rule: one float for each parameter, kept between updates and in checkpoints. */
struct gradus_slot {
    const char *name;
    float initial;
};

struct gradus_rule {
    uint32_t abi;     /* GRADUS_RULE_ABI */
    const char *name; /* not that of a rule that is there already */
    const char *help;
    const struct gradus_hyperparameter *hyperparameters;
    size_t hyperparameter_count;
    const struct gradus_slot *slots;
    size_t slot_count; /* 0: none */

    /* Once per update: what apply() needs, into @scalars[GRADUS_RULE_SCALARS_MAX], which are 0
     * before.
     *
     * @hyperparameters are the job's values, in the order of the table; each is in its range, but a
     * job may change it from update to update (a schedule). @version counts updates from 0. The
     * learning rate, where there is one, must be taken times @lr_scale: that is below 1 when the
     * gradient is stale. The result depends on the arguments alone. */
    void (*prepare)(const double *hyperparameters, uint64_t version, double lr_scale,
                    float *scalars);

    /* One update of @n parameters: reads @in, writes @out (which may be @in, else the two do not
     * overlap), updates @slots[slot_count] in place.
     *
     * The gradient of element i is @gradient[i] × @gradient_scale. Element i of the result may
     * depend on elements i of the arrays and on the scalars, and on nothing else: a variable is cut
     * in any way, and the bits must be the same. Nothing but @out[0..n) and the slots' [0..n) may
     * be written. Arrays are aligned to 4 bytes, no more.
     *
     * Subnormal floats count as zero in the threads that call it. Do not build with -ffast-math,
     * which gives other results at the ends of arrays than in the middle, and may change the
     * floating-point mode of the whole process. */
    void (*apply)(const float *scalars, float *out, const float *in, float *const *slots,
                  const float *gradient, float gradient_scale, size_t n);
};

/* What a plug-in defines. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct gradus_rule gradus_rule;

#ifdef __cplusplus
}
#endif

#endif
