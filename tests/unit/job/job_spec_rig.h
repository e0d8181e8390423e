/* SPDX-License-Identifier: Apache-2.0 */
/* A job file whose lines tests replace, and what the parser makes of it, or says of it. */
#ifndef GRADUS_TESTS_JOB_SPEC_RIG_H
#define GRADUS_TESTS_JOB_SPEC_RIG_H

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "job/spec/job_spec.h"
#include "os/file.h"
#include "rule/rules/rule.h"

/* In expected texts: every rule, as messages list them. */
#define RULE_NAMES "<rules>"

/* Keys of the update section beside adam's own. */
#define ADAM_KEYS                                                                                  \
    "rule, schedule, schedules, variables, l1, l2, ridge, weight_decay, clip_value, clip_norm, "   \
    "clip_global_norm, accumulate, average, evaluate_average, non_finite, learning_rate, beta1, "  \
    "beta2, epsilon"

/* The cases below change single lines of this job. */
static const char *const lines[] = {
    "name: demo",                        /* 1 */
    "data:",                             /* 2 */
    "  train: {file: a.csv}",            /* 3 */
    "model:",                            /* 4 */
    "  layers:",                         /* 5 */
    "    - dense: {units: 8, name: in}", /* 6 */
    "    - relu",                        /* 7 */
    "    - dense:",                      /* 8 */
    "        units: 3",                  /* 9 */
    "  loss: softmax_cross_entropy",     /* 10 */
    "  metrics: [accuracy]",             /* 11 */
    "update:",                           /* 12 */
    "  rule: adam",                      /* 13 */
    "  learning_rate: 0.01",             /* 14 */
    "training:",                         /* 15 */
    "  batch_size: 32",                  /* 16 */
    "cluster:",                          /* 17 */
    "  workers: 2",                      /* 18 */
};
#define LINES (sizeof lines / sizeof lines[0])

/* The job with line @number replaced; 0: none. Returns owned. */
char *job_with(size_t number, const char *replacement);
void job_check_refused(const char *text, const char *const *sets, size_t set_count,
                       const char *problems);
void job_line_refused(size_t number, const char *replacement, const char *problems);
void job_set_refused(const char *set, const char *problems);
void job_parse_with(const char *text, const char *const *sets, size_t set_count,
                    struct job_spec *spec);
void job_parse(const char *text, struct job_spec *spec);
/* A float hyperparameter of the update rule. */
double job_hyperparameter(const struct job_spec *spec, const char *name);
int64_t job_units(const struct job_spec *spec, size_t layer);

#endif
