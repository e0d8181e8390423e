/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "job/progress/consistency.h"

/* A spec in which every key of `training` that matters has a value of its own. */
static struct job_spec spec_of(enum training_mode mode)
{
    return (struct job_spec){
        .training = {.mode = (int)mode,
                     .replicas = 6,
                     .replicas_to_aggregate = 5,
                     .speculate = false,
                     .speculate_after = 2.5,
                     .staleness = 7,
                     .staleness_policy = POLICY_NONE,
                     .max_staleness = 16,
                     .delay_lambda = 0.04,
                     .push_every = 2,
                     .pull_every = 3},
        .cluster = {.workers = {2, 4}},
    };
}

static struct consistency resolved(const struct job_spec *spec)
{
    struct consistency c;
    struct err err = {0};
    memset(&c, 0x5a, sizeof c);
    consistency_of(spec, &c);
    if (consistency_check(&c, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return c;
}

static void same(const struct consistency *a, const struct consistency *b)
{
    assert_true(consistency_equal(a, b));
}

static void test_sync(void **state)
{
    (void)state;
    struct job_spec spec = spec_of(TRAINING_SYNC);
    struct consistency c = resolved(&spec);
    same(&c,
         &(struct consistency){.replicas = 6, .aggregate = 5, .push_every = 1, .pull_every = 1});
    assert_true(consistency_is_nonblocking(&c) && consistency_is_partial(&c));

    spec.training.replicas = spec.training.replicas_to_aggregate = 0;
    c = resolved(&spec);
    assert_int_equal(c.replicas, 4); /* the most workers */
    assert_int_equal(c.aggregate, 4);
    assert_false(consistency_is_nonblocking(&c) || consistency_is_partial(&c));

    spec.training.replicas_to_aggregate = 4; /* all of them */
    spec.training.speculate = true;
    c = resolved(&spec);
    assert_true(c.speculate == 2.5);
    assert_true(consistency_is_nonblocking(&c));
    assert_false(consistency_is_partial(&c));
}

static void test_async(void **state)
{
    (void)state;
    struct job_spec spec = spec_of(TRAINING_ASYNC);
    spec.training.speculate = true;
    struct consistency c = resolved(&spec);
    /* What async does not look at is neutral, but for the replicas that sync will need. */
    same(&c, &(struct consistency){.mode = TRAINING_ASYNC,
                                   .replicas = 6,
                                   .aggregate = 6,
                                   .push_every = 2,
                                   .pull_every = 3});
    assert_false(consistency_is_nonblocking(&c) || consistency_is_partial(&c));

    spec.training.staleness_policy = POLICY_MAX_STALENESS;
    c = resolved(&spec);
    assert_int_equal(c.policy, POLICY_MAX_STALENESS);
    assert_int_equal(c.max_staleness, 16);
    assert_true(c.lambda == 0);
    spec.training.staleness_policy = POLICY_DELAY_COMPENSATION;
    c = resolved(&spec);
    assert_int_equal(c.max_staleness, 0);
    assert_true(c.lambda == 0.04);
    spec.training.staleness_policy = POLICY_SCALE_LR;
    spec.training.push_every = spec.training.pull_every = 1;
    spec.training.overlap = true;
    c = resolved(&spec);
    assert_int_equal(c.policy, POLICY_SCALE_LR);
    assert_true(c.overlap);
    assert_int_equal(c.staleness, 0);

    spec.training.mode = TRAINING_BOUNDED;
    c = resolved(&spec);
    assert_int_equal(c.mode, TRAINING_BOUNDED);
    assert_int_equal(c.staleness, 7);

    spec.training.mode = TRAINING_SYNC; /* speculates, and aggregates all */
    spec.training.replicas_to_aggregate = 0;
    c = resolved(&spec);
    assert_int_equal(c.policy, POLICY_NONE);
    assert_false(c.overlap);
}

static const struct consistency fine = {.mode = TRAINING_BOUNDED,
                                        .replicas = 4,
                                        .aggregate = 4,
                                        .staleness = 4,
                                        .policy = POLICY_SCALE_LR,
                                        .push_every = 1,
                                        .pull_every = 1};

static void refused(struct consistency c, const char *says)
{
    struct err err = {0};
    assert_int_equal(consistency_check(&c, &err), ERR_INVALID);
    assert_string_equal(err.msg, says);
}

static void test_check(void **state)
{
    (void)state;
    struct consistency c = fine;
    assert_int_equal(consistency_check(&c, NULL), 0);
    c.mode = (enum training_mode)3;
    refused(c, "mode 3");
    c.mode = (enum training_mode) - 1;
    refused(c, "mode -1");
    c = fine;
    c.policy = (enum staleness_policy)4;
    refused(c, "staleness policy 4");
    c = fine;
    c.replicas = 0;
    refused(c, "0 replicas; allowed: 1 to 65536");
    c.replicas = CONSISTENCY_REPLICAS_MAX + 1;
    refused(c, "65537 replicas; allowed: 1 to 65536");
    c = fine;
    c.aggregate = 0;
    refused(c, "0 of 4 replicas to aggregate; allowed: 1 to all");
    c.aggregate = 5;
    refused(c, "5 of 4 replicas to aggregate; allowed: 1 to all");
    const double times[] = {0.5, -1, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        struct err err = {0};
        c = fine;
        c.speculate = times[i];
        assert_int_equal(consistency_check(&c, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "speculation after "));
    }
    const double lambdas[] = {-0.1, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof lambdas / sizeof lambdas[0]; i++) {
        struct err err = {0};
        c = fine;
        c.lambda = lambdas[i];
        assert_int_equal(consistency_check(&c, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "lambda"));
    }
    c = fine;
    c.push_every = 0;
    refused(c, "a push every 0 batches, a pull every 1; at least 1");
    c = fine;
    c.pull_every = 0;
    refused(c, "a push every 1 batches, a pull every 0; at least 1");
}

static void test_what_excludes_each_other(void **state)
{
    (void)state;
    struct consistency c = fine;
    c.mode = TRAINING_SYNC;
    c.aggregate = 3;
    assert_int_equal(consistency_check(&c, NULL), 0);
    c.speculate = 3;
    refused(c, "speculation, and 3 of 4 replicas to aggregate");
    c.aggregate = 4;
    assert_int_equal(consistency_check(&c, NULL), 0);

    c = fine;
    c.overlap = true;
    assert_int_equal(consistency_check(&c, NULL), 0);
    for (int i = 0; i < 3; i++) {
        c = fine;
        c.overlap = true;
        c.push_every += i == 0;
        c.pull_every += i == 1;
        c.policy = i == 2 ? POLICY_MAX_STALENESS : c.policy;
        refused(c, "overlap with push_every, pull_every or the policy max_staleness");
        c.overlap = false;
        assert_int_equal(consistency_check(&c, NULL), 0);
    }
}

static void test_equal(void **state)
{
    (void)state;
    struct consistency others[11];
    for (size_t i = 0; i < 11; i++) {
        others[i] = fine;
    }
    others[0].mode = TRAINING_ASYNC;
    others[1].replicas++;
    others[2].aggregate--;
    others[3].speculate = 3;
    others[4].staleness++;
    others[5].policy = POLICY_NONE;
    others[6].max_staleness++;
    others[7].lambda = 0.5;
    others[8].push_every++;
    others[9].pull_every++;
    others[10].overlap = true;
    same(&fine, &fine);
    for (size_t i = 0; i < 11; i++) {
        assert_false(consistency_equal(&fine, &others[i]));
        assert_false(consistency_equal(&others[i], &fine));
    }
}

/* Whoever takes a split over, from whatever batch, cuts it in the same places. */
static void test_push_end(void **state)
{
    (void)state;
    struct consistency c = fine;
    assert_int_equal(consistency_push_end(&c, 3, 10), 4);
    c.push_every = 4;
    assert_int_equal(consistency_push_end(&c, 0, 10), 4);
    assert_int_equal(consistency_push_end(&c, 3, 10), 4);
    assert_int_equal(consistency_push_end(&c, 4, 10), 8);
    assert_int_equal(consistency_push_end(&c, 8, 10), 10);
    assert_int_equal(consistency_push_end(&c, 2, 3), 3);
    c.push_every = UINT32_MAX;
    assert_int_equal(consistency_push_end(&c, UINT32_MAX - 1, UINT32_MAX), UINT32_MAX);
    assert_int_equal(consistency_push_end(&c, 0, 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync),  cmocka_unit_test(test_async),
        cmocka_unit_test(test_check), cmocka_unit_test(test_what_excludes_each_other),
        cmocka_unit_test(test_equal), cmocka_unit_test(test_push_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
