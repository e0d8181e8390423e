/* SPDX-License-Identifier: Apache-2.0 */
/* One job's variables, cut into parts over shards, under struct update. */
#ifndef GRADUS_TESTS_RULE_UPDATE_RIG_H
#define GRADUS_TESTS_RULE_UPDATE_RIG_H

#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rule/update/update.h"

#define RIG_SHARDS_MAX 4
#define RIG_VARIABLES 5
#define STATISTIC (RIG_VARIABLES - 1) /* the last of them */

static const struct update_variable rig_variables[RIG_VARIABLES] = {
    {"dense_1.kernel", 37 * 5, 5, 0},  {"dense_1.bias", 11, 1, 0},
    {"dense_2.kernel", 301 * 9, 9, 0}, {"scale", 1, 1, 0},
    {"norm_1.mean", 23, 1, 0.25F},
};

/* @settings: "key=value …" of the rule. */
void rig_spec(struct update_spec *s, const char *rule, const char *settings);
struct update_pattern *rig_pattern(struct update_spec *s, const char *match);
struct schedule *rig_schedule(struct update_spec *s, const char *name, int kind);

struct rig_shard {
    struct update_part parts[64];
    size_t part_count;
    uint64_t elements;
    struct update *update;
    float *values, *out, *gradient, *more, *then;
    float *slots[UPDATE_SLOTS_MAX];
    struct buf sums;
};

struct rig {
    const struct update_spec *spec;
    struct rig_shard shards[RIG_SHARDS_MAX];
    size_t shard_count;
    uint64_t version;
    double lr_scale; /* 0 counts as 1 */
    bool in_two;     /* half of the gradient comes as `more` */
    float lambda;    /* delay compensation; 0: none */
};

void rig_add_part(struct rig_shard *s, uint32_t variable, uint64_t row, uint64_t rows);
/* Cut every variable into up to @pieces and deal them out at random; @seed 0: whole, in order. */
void rig_deal(struct rig *r, size_t shards, size_t pieces, uint64_t seed);
float *rig_floats(uint64_t n);
float rig_value(uint32_t variable, uint64_t element);
int rig_try_open(struct rig_shard *s, const struct update_spec *spec, struct err *err);
void rig_open(struct rig *r, const struct update_spec *spec);
void rig_init(struct rig *r, const struct update_spec *spec, size_t shards, size_t pieces,
              uint64_t seed);
void rig_release(struct rig *r);
typedef float rig_gradient(uint64_t version, uint32_t variable, uint64_t element);
float rig_usual(uint64_t version, uint32_t variable, uint64_t element);
/* What a worker read, for delay compensation. */
float rig_then(uint32_t variable, uint64_t element);
void rig_fill(struct rig *r, rig_gradient *gradient);
struct update_step rig_step(const struct rig *r, size_t shard, uint64_t examples);
void rig_flip(struct rig *r);
void rig_round(struct rig *r, unsigned round);
/* One version of all shards, with all rounds between them. The gradient is in place. */
struct update_result rig_update(struct rig *r, uint64_t examples);
struct update_result rig_train(struct rig *r, rig_gradient *gradient, uint64_t examples);
const float *rig_find(const struct rig *r, uint32_t variable, uint64_t element, int slot);
/* The same bits everywhere, slots too. */
void rig_assert_same(const struct rig *a, const struct rig *b, const char *what);

#endif
