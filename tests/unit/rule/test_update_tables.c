/* SPDX-License-Identifier: Apache-2.0 */
/* Clips by norms with tables beside the variables: their rows count wherever they lie, and they are
 * multiplied with what variables are. */
#include "update_rig.h"

#define TABLES 2

/* Of a table of four numbers, each on a shard of its own in another order. */
static const double squares[TABLES][RIG_SHARDS_MAX] = {{9, 0x1p-60, 7, 0}, {0, 2, 0x1p-80, 14}};

static void open_tables(struct rig *r)
{
    for (size_t i = 0; i < r->shard_count; i++) {
        update_add_tables(r->shards[i].update, TABLES, r->shard_count == 1);
    }
}

/* What lies on @shard of @count. */
static void fill_sums(size_t shard, size_t count, struct exact_sum sums[TABLES])
{
    memset(sums, 0, TABLES * sizeof *sums);
    for (size_t t = 0; t < TABLES; t++) {
        for (size_t i = 0; i < RIG_SHARDS_MAX; i++) {
            if (i % count == shard) {
                exact_sum_add(&sums[t], squares[t][i]);
            }
        }
    }
}

static void begin(struct rig *r, struct exact_sum sums[RIG_SHARDS_MAX][TABLES])
{
    rig_fill(r, rig_usual);
    for (size_t i = 0; i < r->shard_count; i++) {
        struct update_step step = rig_step(r, i, 8);
        fill_sums(i, r->shard_count, sums[i]);
        step.tables = sums[i];
        update_begin(r->shards[i].update, &step);
    }
}

static void finish(struct rig *r, enum update_outcome outcome)
{
    for (size_t i = 0; i < r->shard_count; i++) {
        struct update_result result;
        update_finish(r->shards[i].update, r->shards[i].out, &result);
        assert_int_equal(result.outcome, outcome);
    }
}

/* Of variables whose gradient is as it is in the rig: the sum of squares. */
static double dense_squares(const struct update_spec *spec)
{
    struct rig r;
    double norms[RIG_VARIABLES], all = 0;
    rig_init(&r, spec, 1, 1, 0);
    rig_fill(&r, rig_usual);
    assert_int_equal(update_norms(r.shards[0].update, r.shards[0].gradient, 8, norms, NULL), 0);
    for (size_t i = 0; i < RIG_VARIABLES; i++) {
        all += norms[i];
    }
    rig_release(&r);
    return all;
}

static void test_any_number_of_shards(void **state)
{
    (void)state;
    struct update_spec spec;
    rig_spec(&spec, "sgd", "");
    spec.clip_global_norm = 0.5;
    const double want = 0.5 / sqrt(dense_squares(&spec) + 16 + 16 + 0x1p-60 + 0x1p-80);
    struct rig one;
    struct exact_sum sums[RIG_SHARDS_MAX][TABLES];
    rig_init(&one, &spec, 1, 1, 0);
    open_tables(&one);
    begin(&one, sums);
    rig_round(&one, 0);
    const double factor = update_table_factor(one.shards[0].update, 0);
    assert_true(fabs(factor - want) < 1e-9);
    assert_true(factor == update_table_factor(one.shards[0].update, 1));
    finish(&one, UPDATE_APPLIED);
    rig_flip(&one);
    for (size_t shards = 2; shards <= RIG_SHARDS_MAX; shards++) {
        struct rig many;
        rig_init(&many, &spec, shards, 3, shards);
        open_tables(&many);
        begin(&many, sums);
        rig_round(&many, 0);
        for (size_t i = 0; i < shards; i++) {
            assert_true(update_table_factor(many.shards[i].update, 1) == factor);
        }
        finish(&many, UPDATE_APPLIED);
        rig_flip(&many);
        rig_assert_same(&one, &many, "tables");
        rig_release(&many);
    }
    rig_release(&one);
    update_spec_release(&spec);
}

/* Each table is clipped as a variable is, then all together. */
static void test_each_table(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig r;
    struct exact_sum sums[RIG_SHARDS_MAX][TABLES];
    rig_spec(&spec, "sgd", "");
    spec.clip_norm = 1;
    rig_init(&r, &spec, 2, 3, 5);
    open_tables(&r);
    begin(&r, sums);
    rig_round(&r, 0);
    assert_true(fabs(update_table_factor(r.shards[1].update, 0) - 0.25) < 1e-9);
    assert_true(fabs(update_table_factor(r.shards[1].update, 1) - 0.25) < 1e-9);
    assert_true(update_table_factor(r.shards[1].update, 2) == 1);
    rig_release(&r);
    spec.clip_norm = 0;
    rig_init(&r, &spec, 2, 3, 5);
    open_tables(&r);
    assert_false(update_needs_tables(r.shards[0].update)); /* nobody clips */
    rig_release(&r);
    update_spec_release(&spec);
}

/* A push brings the norms of tables, too. */
static void test_norms_of_a_push(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig r;
    struct err err = {0};
    struct update_result result;
    double norms[RIG_VARIABLES + TABLES] = {0};
    rig_spec(&spec, "sgd", "");
    spec.clip_global_norm = 1;
    rig_init(&r, &spec, 1, 1, 0);
    update_add_tables(r.shards[0].update, TABLES, false); /* and all variables */
    assert_true(update_needs_norms(r.shards[0].update));
    rig_fill(&r, rig_usual);
    struct update_step step = rig_step(&r, 0, 8);
    float *out = r.shards[0].out;
    assert_int_equal(update_run(r.shards[0].update, &step, out, &result, &err), ERR_INVALID);
    assert_string_equal(err.msg, "the push has no norms of its variables");
    step.norms = norms;
    step.norm_count = RIG_VARIABLES;
    assert_int_equal(update_run(r.shards[0].update, &step, out, &result, &err), ERR_INVALID);
    assert_string_equal(err.msg, "norms of 5 variables and tables instead of 7");
    step.norm_count += TABLES;
    norms[RIG_VARIABLES] = 9;
    norms[RIG_VARIABLES + 1] = 16;
    assert_int_equal(update_run(r.shards[0].update, &step, out, &result, &err), 0);
    assert_true(fabs(update_table_factor(r.shards[0].update, 0) - 0.2) < 1e-9);
    rig_release(&r);
    update_spec_release(&spec);
}

/* A sum of rows that is not finite counts for the step as a whole. */
static void test_not_finite(void **state)
{
    (void)state;
    struct update_spec spec;
    rig_spec(&spec, "sgd", "");
    spec.clip_global_norm = 1;
    for (int policy = UPDATE_NON_FINITE_FAIL; policy <= UPDATE_NON_FINITE_SKIP; policy++) {
        struct rig r;
        struct exact_sum sums[RIG_SHARDS_MAX][TABLES];
        struct update_result result;
        spec.non_finite = policy;
        rig_init(&r, &spec, 2, 3, 5);
        open_tables(&r);
        begin(&r, sums);
        sums[1][1].not_finite = 1;
        rig_round(&r, 0);
        for (size_t i = 0; i < 2; i++) {
            update_finish(r.shards[i].update, r.shards[i].out, &result);
            assert_int_equal(result.outcome,
                             policy == UPDATE_NON_FINITE_FAIL ? UPDATE_FAILED : UPDATE_SKIPPED);
            assert_int_equal(result.variable, RIG_VARIABLES + 1);
            assert_true(result.element == UINT64_MAX);
        }
        rig_release(&r);
    }
    update_spec_release(&spec);
}

static void test_messages_that_are_wrong(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig r;
    struct exact_sum sums[RIG_SHARDS_MAX][TABLES];
    struct buf mine[2] = {0}, totals = {0};
    struct err err = {0};
    rig_spec(&spec, "sgd", "");
    spec.clip_global_norm = 1;
    rig_init(&r, &spec, 2, 3, 5);
    open_tables(&r);
    begin(&r, sums);
    for (size_t i = 0; i < 2; i++) {
        update_reduce(r.shards[i].update, 0, &mine[i]);
    }
    const void *parts[] = {mine[0].data, mine[1].data};
    size_t bytes[] = {mine[0].len, mine[1].len};
    assert_int_equal(update_join(parts, bytes, 2, &totals, &err), 0);
    struct update *u = r.shards[0].update;
    assert_int_equal(update_settle(u, 0, totals.data, totals.len - 8, &err), ERR_INVALID);
    assert_string_equal(err.msg, "totals of round 0: the message ends in the middle of a sum");
    totals.data[20] = 1; /* tables */
    assert_int_equal(update_settle(u, 0, totals.data, totals.len, &err), ERR_INVALID);
    assert_string_equal(err.msg, "totals of round 0: sums over 1 tables instead of 2");
    totals.data[23] = 1;
    assert_int_equal(update_settle(u, 0, totals.data, totals.len, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "tables do not fit into"));
    mine[1].data[20] = 1;
    assert_int_equal(update_join(parts, bytes, 2, &totals, &err), ERR_INVALID);
    assert_string_equal(err.msg, "join sums: message 1: sums of 1 tables, others have 2");
    mine[1].data[20] = 2;
    bytes[1] -= 8;
    assert_int_equal(update_join(parts, bytes, 2, &totals, &err), ERR_INVALID);
    buf_release(&mine[0]);
    buf_release(&mine[1]);
    buf_release(&totals);
    rig_release(&r);
    update_spec_release(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_shards),    cmocka_unit_test(test_each_table),
        cmocka_unit_test(test_norms_of_a_push),         cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_messages_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
