/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that are not finite: the update fails, is skipped, or is applied, as the job says. */
#include "update_rig.h"

static float bad_once(uint64_t version, uint32_t variable, uint64_t element)
{
    bool bad = version == 1 && variable == 2 && (element == 700 || element == 1500);
    return bad ? -INFINITY : rig_usual(version, variable, element);
}

static void test_fail_names_the_first(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        for (int way = 0; way < 4; way++) {
            struct update_spec spec;
            struct rig r;
            rig_spec(&spec, rule_at(i)->name, "");
            spec.clip_value = way == 1 ? 1 : 0; /* would hide it */
            spec.clip_global_norm = way == 2 ? 1 : 0;
            spec.accumulate = way == 3 ? 8 : 1;
            rig_init(&r, &spec, 3, 4, 12);
            assert_int_not_equal(rig_train(&r, bad_once, 8).outcome, UPDATE_FAILED);
            struct update_result result = rig_train(&r, bad_once, 8);
            assert_int_equal(result.outcome, UPDATE_FAILED);
            assert_int_equal(result.variable, 2);
            assert_int_equal(result.element, 700);
            rig_release(&r);
            update_spec_release(&spec);
        }
    }
}

static void test_skip_leaves_all_as_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        struct update_spec spec;
        struct rig r, before;
        rig_spec(&spec, rule_at(i)->name, "");
        spec.non_finite = UPDATE_NON_FINITE_SKIP;
        spec.average = 0.5;
        spec.clip_value = i % 2 == 0 ? 1 : 0; /* would hide it */
        rig_init(&r, &spec, 3, 4, 12);
        rig_init(&before, &spec, 3, 4, 12);
        (void)rig_train(&r, bad_once, 8);
        (void)rig_train(&before, bad_once, 8);
        struct update_result result = rig_train(&r, bad_once, 8);
        assert_int_equal(result.outcome, UPDATE_SKIPPED);
        assert_int_equal(result.variable, 2);
        assert_int_equal(result.element, 700);
        before.version++; /* which goes on */
        rig_assert_same(&r, &before, spec.rule->name);
        assert_int_equal(rig_train(&r, bad_once, 8).outcome, UPDATE_APPLIED);
        rig_release(&r);
        rig_release(&before);
        update_spec_release(&spec);
    }
}

/* Async: what was accumulated before is left out with the push that is not finite, on all shards.
 */
static void test_skip_remembers(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig r;
    rig_spec(&spec, "sgd", "");
    spec.non_finite = UPDATE_NON_FINITE_SKIP;
    spec.accumulate = 4;
    rig_init(&r, &spec, 2, 3, 6);
    static const enum update_outcome expected[] = {UPDATE_KEPT,    UPDATE_KEPT,   UPDATE_KEPT,
                                                   UPDATE_SKIPPED, UPDATE_KEPT,   UPDATE_KEPT,
                                                   UPDATE_KEPT,    UPDATE_APPLIED};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const double norms[RIG_VARIABLES] = {1, 1, i == 1 ? NAN : 1, 1};
        rig_fill(&r, bad_once);
        for (size_t k = 0; k < r.shard_count; k++) {
            struct update_step step = rig_step(&r, k, 8);
            struct update_result result;
            struct err err = {0};
            step.norms = norms;
            step.norm_count = RIG_VARIABLES;
            assert_int_equal(update_run(r.shards[k].update, &step, r.shards[k].out, &result, &err),
                             0);
            assert_int_equal(result.outcome, expected[i]);
            assert_true(result.variable < RIG_VARIABLES);
        }
        rig_flip(&r);
        assert_true(isfinite(*rig_find(&r, 2, 700, -1)));
    }
    rig_release(&r);
    update_spec_release(&spec);
}

static void test_apply_applies(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig r;
    rig_spec(&spec, "sgd", "");
    spec.non_finite = UPDATE_NON_FINITE_APPLY;
    rig_init(&r, &spec, 2, 2, 3);
    (void)rig_train(&r, bad_once, 8);
    assert_int_equal(rig_train(&r, bad_once, 8).outcome, UPDATE_APPLIED);
    assert_true(isinf(*rig_find(&r, 2, 700, -1)) && isfinite(*rig_find(&r, 2, 701, -1)));
    rig_release(&r);
    update_spec_release(&spec);
}

static float bad_statistic(uint64_t version, uint32_t variable, uint64_t element)
{
    return variable == STATISTIC && element == 7 ? INFINITY : rig_usual(version, variable, element);
}

/* It fails the job as any gradient does; where others may be left out, it alone is. */
static void test_statistics_that_are_not_finite(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct update_spec spec;
        struct rig r;
        rig_spec(&spec, "adam", "");
        spec.non_finite = way == 0   ? UPDATE_NON_FINITE_FAIL
                          : way == 1 ? UPDATE_NON_FINITE_SKIP
                                     : UPDATE_NON_FINITE_APPLY;
        rig_init(&r, &spec, 2, 3, 4);
        const float before = *rig_find(&r, STATISTIC, 7, -1),
                    next = *rig_find(&r, STATISTIC, 8, -1);
        const struct update_result result = rig_train(&r, bad_statistic, 8);
        assert_int_equal(result.outcome, way == 0 ? UPDATE_FAILED : UPDATE_APPLIED);
        if (way == 0) {
            assert_int_equal(result.variable, STATISTIC);
            assert_int_equal(result.element, 7);
        } else {
            assert_true(*rig_find(&r, STATISTIC, 7, -1) == before);
            assert_true(*rig_find(&r, STATISTIC, 8, -1) != next);
        }
        rig_release(&r);
        update_spec_release(&spec);
    }
}

static float bad_scale(uint64_t version, uint32_t variable, uint64_t element)
{
    return variable == 3 ? NAN : rig_usual(version, variable, element);
}

static void test_frozen_counts_nowhere(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig r;
    rig_spec(&spec, "adam", "");
    spec.clip_global_norm = 1;
    rig_pattern(&spec, "sc?le")->frozen = true;
    rig_init(&r, &spec, 1, 1, 0);
    assert_int_equal(rig_train(&r, bad_scale, 8).outcome, UPDATE_APPLIED);
    float before = rig_value(3, 0);
    assert_memory_equal(rig_find(&r, 3, 0, -1), &before, sizeof before);
    rig_release(&r);
    update_spec_release(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen_counts_nowhere),
        cmocka_unit_test(test_statistics_that_are_not_finite),
        cmocka_unit_test(test_fail_names_the_first),
        cmocka_unit_test(test_skip_leaves_all_as_it_is),
        cmocka_unit_test(test_skip_remembers),
        cmocka_unit_test(test_apply_applies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
