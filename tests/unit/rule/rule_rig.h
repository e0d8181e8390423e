/* SPDX-License-Identifier: Apache-2.0 */
/* One variable under one rule, as the tests of rules use it. */
#ifndef GRADUS_TESTS_RULE_RIG_H
#define GRADUS_TESTS_RULE_RIG_H

#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rule/update/update_spec.h"

struct variable {
    const struct rule *rule;
    void *params;
    size_t rows, width, n;
    uint64_t number;
    float *values, *slots[RULE_SLOTS_MAX];
    float *gradient;
    float *base; /* for rules that want it; variable_update() passes it when `delayed` */
    bool delayed;
};

/* @settings: "key=value key=value". Returns owned. */
void *fixture_params(const struct rule *rule, const char *settings);
void variable_init(struct variable *v, const char *rule, const char *settings, size_t rows,
                   size_t width, uint64_t number);
void variable_release(struct variable *v);
/* The gradient of @step, and as base the values or the slot of a little earlier. */
void variable_push(struct variable *v, uint64_t step);
struct rule_span variable_span(const struct variable *v, float scale);
/* One update in one piece. */
void variable_update(struct variable *v, uint64_t version, double lr_scale, float scale);
void assert_same_floats(const float *a, const float *b, size_t n, const char *rule,
                        const char *what);
void assert_same_variable(const struct variable *a, const struct variable *b);

#endif
