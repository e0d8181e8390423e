/* SPDX-License-Identifier: Apache-2.0 */
/* Hyperparameters of updates that were made with other sections of the job file. */
#include "update_rig.h"

#define AT_VERSION 10

static double rate_at(const struct rule_past *past, uint64_t version, double *lr_scale)
{
    const void *params = past->params;
    double rate;
    *lr_scale = past->lr_scale;
    if (past->at != NULL) {
        past->at(past->context, version, &params, lr_scale);
    }
    memcpy(&rate, params, sizeof rate); /* the first of momentum's */
    return rate;
}

static void past_updates_are_of_their_eras(void **state)
{
    (void)state;
    struct update_spec specs[3];
    struct rig rigs[3];
    struct rule_past past;
    double lr_scale;
    rig_spec(&specs[0], "momentum", "learning_rate=0.5");
    rig_spec(&specs[1], "momentum", "learning_rate=0.25");
    rig_spec(&specs[2], "momentum", "learning_rate=0.125");
    rig_pattern(&specs[1], "dense_1.*")->learning_rate = 3;
    struct schedule *halves = rig_schedule(&specs[2], "learning_rate", SCHEDULE_STEP);
    halves->every = 8;
    halves->rate = 0.5;
    for (size_t i = 0; i < 3; i++) {
        rig_init(&rigs[i], &specs[i], 1, 1, 0);
    }
    update_past(rigs[0].shards[0].update, "ads", &past);
    assert_null(past.at); /* of all updates */
    assert_true(rate_at(&past, 99, &lr_scale) == 0.5);
    update_follows(rigs[1].shards[0].update, rigs[0].shards[0].update, AT_VERSION);
    update_follows(rigs[2].shards[0].update, rigs[1].shards[0].update, 2 * AT_VERSION);
    update_past(rigs[2].shards[0].update, "dense_1.rows", &past);
    assert_true(rate_at(&past, 0, &lr_scale) == 0.5 && lr_scale == 1);
    assert_true(rate_at(&past, AT_VERSION - 1, &lr_scale) == 0.5);
    assert_true(rate_at(&past, AT_VERSION, &lr_scale) == 0.25 && lr_scale == 3);
    assert_true(rate_at(&past, 2 * AT_VERSION - 1, &lr_scale) == 0.25);
    assert_true(rate_at(&past, 2 * AT_VERSION, &lr_scale) == 0.125 * 0.25 && lr_scale == 1);
    assert_true(rate_at(&past, 3 * AT_VERSION, &lr_scale) == 0.125 * 0.125);
    update_past(rigs[2].shards[0].update, "other", &past); /* the first one stays */
    assert_true(rate_at(&past, AT_VERSION, &lr_scale) == 0.25 && lr_scale == 1);
    for (size_t i = 0; i < 3; i++) {
        rig_release(&rigs[i]);
        update_spec_release(&specs[i]);
    }
}

/* Where four versions make an update it is of the era that its last version lies in. */
static void accumulated_updates_are_of_their_last_version(void **state)
{
    (void)state;
    for (uint64_t version = 4; version < 12; version++) {
        struct update_spec specs[2];
        struct rig rigs[2];
        struct rule_past past;
        double lr_scale;
        for (size_t i = 0; i < 2; i++) {
            rig_spec(&specs[i], "momentum", i == 0 ? "learning_rate=0.5" : "learning_rate=0.25");
            specs[i].accumulate = 4;
            rig_init(&rigs[i], &specs[i], 1, 1, 0);
        }
        update_follows(rigs[1].shards[0].update, rigs[0].shards[0].update, version);
        update_past(rigs[1].shards[0].update, "ads", &past);
        for (uint64_t update = 0; update < 5; update++) {
            const uint64_t last = 4 * update + 3; /* the version that it starts from */
            assert_true(rate_at(&past, update, &lr_scale) == (last >= version ? 0.25 : 0.5));
        }
        for (size_t i = 0; i < 2; i++) {
            rig_release(&rigs[i]);
            update_spec_release(&specs[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(past_updates_are_of_their_eras),
        cmocka_unit_test(accumulated_updates_are_of_their_last_version),
    };
    return cmocka_run_group_tests_name("update_eras", tests, NULL, NULL);
}
