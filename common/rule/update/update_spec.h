/* SPDX-License-Identifier: Apache-2.0 */
/* The `update` section of a job file: the rule, and what else happens to gradients and parameters
 * on the servers. Parsed and checked by the job room; carried out by rule/update.h. */
#ifndef GRADUS_RULE_UPDATE_UPDATE_SPEC_H
#define GRADUS_RULE_UPDATE_UPDATE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rule/rules/rule.h"
#include "rule/rules/schedule.h"

enum update_non_finite { /* what becomes of a gradient with a value that is not finite */
                         UPDATE_NON_FINITE_FAIL,
                         UPDATE_NON_FINITE_SKIP,
                         UPDATE_NON_FINITE_APPLY,
};

/* Settings of the variables whose names match; the first pattern that matches counts. */
struct update_pattern {
    char *match;          /* "*bias*": * is any text, ? one character */
    double learning_rate; /* a multiplier */
    /* In place of those of the job; for the rule's hyperparameter where it has one of that name. */
    double weight_decay, l1, l2, ridge;
    bool frozen; /* never changes; its gradient counts nowhere */
};

struct update_spec {
    const struct rule *rule;
    void *params;                    /* rule->params_bytes bytes filled through its fields */
    struct rule_schedule *schedules; /* also that of the learning rate */
    size_t schedule_count;
    double l1, l2, weight_decay; /* 0 where the rule has a hyperparameter of that name */
    /* Half of it times the squares of the parameters is beside the sum of the losses of all train
     * records: an l2 of ridge / records in each step, whether it reads a row or not. */
    double ridge;
    uint64_t records; /* train records, as the ledger has them; not of the job file; 0: no ridge */
    double clip_value, clip_norm, clip_global_norm; /* 0: not */
    int64_t accumulate;                             /* versions per update; 0 counts as 1 */
    double average;                                 /* decay; 0: no average */
    bool evaluate_average;
    int non_finite; /* enum update_non_finite */
    struct update_pattern *patterns;
    size_t pattern_count;
    const char **tables; /* names that patterns may match as well; the names are borrowed */
    size_t table_count;
};

void update_spec_release(struct update_spec *u);
/* The rule's hyperparameter @name of a type; NULL when it has none. */
const struct field *update_spec_field(const struct update_spec *u, const char *name,
                                      enum field_type type);
/* The first pattern that matches; pattern_count when none does. */
size_t update_spec_match(const struct update_spec *u, const char *variable);
/* Versions per update, ≥ 1. */
uint64_t update_spec_accumulate(const struct update_spec *u);
/* True if norms of the gradient decide about an update: it clips by them, or skips a gradient that
 * is not finite. */
bool update_spec_takes_norms(const struct update_spec *u);

#endif
