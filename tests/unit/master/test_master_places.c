/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that have ended rest beside those that go on, and are found and listed as before. */
#include "cluster.h"

#define JOBS 6

static void check_places(struct cluster *c, char ids[JOBS][64])
{
    for (size_t i = 0; i < JOBS; i++) {
        assert_int_equal(master_job_place(c->m, ids[i]), JOBS - 1 - i);
        assert_string_equal(master_job_at(c->m, JOBS - 1 - i, c->now)->id, ids[i]);
    }
    assert_null(master_job_at(c->m, JOBS, c->now));
    assert_int_equal(master_job_place(c->m, "none-1"), SIZE_MAX);
}

static void jobs_keep_their_places(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7020, 2, 2);
    char ids[JOBS][64];
    for (size_t i = 0; i < JOBS; i++) {
        cluster_submit(c, "demo", ids[i], SETS("training.epochs=2"));
    }
    check_places(c, ids);
    for (size_t i = 1; i < JOBS; i += 2) { /* in the middle and at the end */
        assert_int_equal(cluster_cancel(c, ids[i], true), 0);
    }
    cluster_run_ms(c, 2000);
    check_places(c, ids);
    for (size_t i = 0; i < JOBS; i++) { /* the others have their turn all the same */
        cluster_until(c, ids[i], i % 2 == 0 ? JOB_SUCCEEDED : JOB_CANCELLED, 600000);
    }
    cluster_run_ms(c, 2000);
    check_places(c, ids);
    cluster_free(c);
}

static void one_that_rests_is_answered_about(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7021, 2, 2);
    char first[64], second[64];
    cluster_submit(c, "demo", first, SETS("training.epochs=1"));
    cluster_until(c, first, JOB_SUCCEEDED, 600000);
    cluster_run_ms(c, 2000);
    assert_int_equal(cluster_cancel(c, first, true), 0); /* changes nothing */
    assert_int_equal(c->reply_state, JOB_SUCCEEDED);
    assert_string_equal(cluster_job(c, first)->activity, "");
    cluster_submit(c, "demo", second, SETS("training.epochs=1"));
    cluster_until(c, second, JOB_SUCCEEDED, 600000);
    assert_int_equal(cluster_job(c, first)->state, JOB_SUCCEEDED);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_keep_their_places),
        cmocka_unit_test(one_that_rests_is_answered_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
