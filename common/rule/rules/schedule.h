/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: what a hyperparameter is at each version, as a factor of the value in the job.
 *
 * A pure function of the version, so that all shards, restored ones too, compute the same number
 * and nothing is shared. Formulas are those of PyTorch and Keras where both agree; t is the
 * version, less the updates of the warm-up when there is one; b is the base value.
 *
 *     constant         b
 *     step             b · rate^⌊t / every⌋
 *     multi_step       b · rate^(number of `at` that are ≤ t)
 *     exponential      b · rate^(t / every)
 *     inverse_time     b / (1 + rate · t / every)
 *     polynomial       b · (end + (1 − end) · (1 − min(t, length) / length)^power)
 *     cosine           b · (end + (1 − end) · (1 + cos(π · min(t, length) / length)) / 2)
 *                      (Loshchilov & Hutter, "SGDR", ICLR 2017)
 *     cosine_restarts  the same over periods of length, length · growth, length · growth², …; each
 *                      period begins at `height` times the height of the one before
 *     one_cycle        from b / 25 up to b over the share `up` of length, down to b · end at its
 *                      end, both along a cosine (Smith & Topin, "Super-convergence", 2018)
 *     noam             b · width^(−½) · min((t+1)^(−½), (t+1) · rise^(−3/2)), rise being `length`
 *                      (Vaswani et al., "Attention is all you need", 2017, section 5.3)
 *     piecewise        b · factors[number of `at` that are ≤ t]
 *
 * A warm-up of `warmup` updates comes before any of them: linear from b · warmup_start to what the
 * schedule begins with, or along half a cosine. */
#ifndef GRADUS_RULE_RULES_SCHEDULE_H
#define GRADUS_RULE_RULES_SCHEDULE_H

#include "config/field.h"
#include "rule/rules/rule.h"

#define SCHEDULE_POINTS_MAX                                                                        \
    8 /* of multi_step and piecewise: as many as a list of a field holds                           \
       */

enum schedule_kind {
    SCHEDULE_CONSTANT,
    SCHEDULE_STEP,
    SCHEDULE_MULTI_STEP,
    SCHEDULE_EXPONENTIAL,
    SCHEDULE_INVERSE_TIME,
    SCHEDULE_POLYNOMIAL,
    SCHEDULE_COSINE,
    SCHEDULE_COSINE_RESTARTS,
    SCHEDULE_ONE_CYCLE,
    SCHEDULE_NOAM,
    SCHEDULE_PIECEWISE,
    SCHEDULE_KIND_COUNT
};
extern const char *const schedule_kind_names[SCHEDULE_KIND_COUNT + 1];

enum schedule_warmup { SCHEDULE_WARMUP_LINEAR, SCHEDULE_WARMUP_COSINE };

struct schedule {
    int kind;
    int64_t length; /* updates; of the first period, or of the rise */
    int64_t every;
    double rate;
    double end;
    double power;
    double growth;
    double height;
    double up;
    int64_t width;
    struct field_ints at; /* rising */
    char *factors;        /* "1, 0.5, 0.1" */
    int64_t warmup;
    int warmup_shape;
    double warmup_start;
    double values[SCHEDULE_POINTS_MAX + 1]; /* factors as numbers: schedule_check() */
    size_t value_count;
};

extern const struct field schedule_fields[];
extern const size_t schedule_field_count;

/* What single fields cannot know: `at` rising, as many factors as it takes. Fills values.
 * Errors: ERR_INVALID. */
int schedule_check(struct schedule *s, struct err *err);
/* The factor at @version; @s is checked. Finite for every version. */
double schedule_factor(const struct schedule *s, uint64_t version);

/* A schedule of one of a rule's hyperparameters. */
struct rule_schedule {
    const struct field *field; /* FIELD_FLOAT of the rule */
    struct schedule schedule;
};
/* Copy @params with each scheduled hyperparameter as it is at @version, kept in its range.
 * @out has rule->params_bytes. */
void rule_params_at(const struct rule *rule, const void *params,
                    const struct rule_schedule *schedules, size_t count, uint64_t version,
                    void *out);

#endif
