/* SPDX-License-Identifier: Apache-2.0 */
/* A store that refuses rows for a time: nothing of a job ends for it, and nothing is said or done
 * that a restarted master would not know. */
#include "cluster.h"

static void a_job_outlives_a_store_that_is_full(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7000, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=30", "training.checkpoint_every=10"));
    cluster_until(c, id, JOB_RUNNING, 60000);
    c->store_fails = true;
    size_t manifests = c->manifests;
    while (c->manifests < manifests + 2) {
        cluster_advance(c); /* it goes on, checkpoints and all */
    }
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    cluster_assert_reason(
        c, id, "its state cannot be stored, which is tried again: database or disk is full");
    c->store_fails = false;
    cluster_run_ms(c, 6000);
    assert_string_equal(cluster_job(c, id)->reason, "");
    cluster_until(c, id, JOB_SUCCEEDED, 600000);
    cluster_free(c);
}

/* The harness sees to it that no call has a generation that is not stored. */
static void a_generation_waits_for_its_row(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7001, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=30"));
    cluster_until_in(c, id, "TRAIN");
    uint64_t generation = c->stored[cluster_stored(c, id)].generation;
    c->store_fails = true;
    cluster_kill(&c->nodes[3]);
    cluster_run_ms(c, 60000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    assert_string_equal(master_job_phase(c->m, id), "REGROUP");
    assert_int_equal(c->stored[cluster_stored(c, id)].generation, generation);
    cluster_assert_reason(c, id, "cannot be stored");
    c->store_fails = false;
    const struct job_record *r = cluster_until(c, id, JOB_SUCCEEDED, 600000);
    assert_int_equal(r->step, 210);
    assert_true(c->stored[cluster_stored(c, id)].generation > generation);
    cluster_free(c);
}

static void an_end_is_told_when_it_is_stored(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct cluster *c = cluster_new(7002, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0);
        cluster_until_in(c, id, cancel ? "TRAIN" : "FINISH");
        c->store_fails = true;
        if (cancel) {
            assert_int_equal(cluster_cancel(c, id, true), 0);
        }
        cluster_run_ms(c, 30000);
        assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
        assert_int_equal(cluster_job(c, id)->finished_ms, 0);
        cluster_assert_reason(c, id,
                              cancel ? "is CANCELLED as soon as that is stored: cancelled at once"
                                     : "is SUCCEEDED as soon as that is stored");
        size_t k = cluster_ask_checkpoint(c, id);
        assert_int_equal(cluster_answer(c, k, 1000), ERR_STATE);
        c->store_fails = false;
        const struct job_record *r =
            cluster_until(c, id, cancel ? JOB_CANCELLED : JOB_SUCCEEDED, 10000);
        assert_true(r->finished_ms > 0);
        cluster_free(c);
    }
}

/* Whoever cancels is told of the end itself where that can be stored, else at once what is to come.
 */
static void a_cancel_is_answered_with_the_end(void **state)
{
    (void)state;
    static const char *const PHASES[] = {"INSPECT", "TRAIN"};
    for (size_t i = 0; i < 4; i++) {
        struct cluster *c = cluster_new(7004 + i, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0);
        cluster_until_in(c, id, PHASES[i / 2]);
        enum job_state before = cluster_job(c, id)->state;
        c->store_fails = i % 2 == 1;
        assert_int_equal(cluster_cancel(c, id, true), 0);
        assert_int_equal(c->reply.request, c->request);
        assert_int_equal(c->reply_state, c->store_fails ? before : JOB_CANCELLED);
        if (c->store_fails) {
            assert_int_equal(cluster_cancel(c, id, true), 0); /* again */
            assert_int_equal(c->reply.request, c->request);
            assert_int_equal(c->reply_state, before);
        }
        c->store_fails = false;
        cluster_until(c, id, JOB_CANCELLED, 10000);
        cluster_free(c);
    }
}

static void what_cannot_be_stored_is_not_taken(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7003, 2, 2);
    char id[64];
    c->store_fails = true;
    assert_int_equal(cluster_try(c, "demo", NULL, 0, id), ERR_UNAVAILABLE);
    assert_non_null(strstr(c->reply.err.msg, "is not taken: database or disk is full"));
    assert_null(master_job_at(c->m, 0, c->now));
    c->store_fails = false;
    cluster_submit(c, "demo", id, SETS("training.epochs=7"));
    assert_string_equal(id, "demo-1");
    cluster_until_in(c, id, "TRAIN");
    c->store_fails = true;
    size_t k = cluster_set(c, id, SETS("training.mode=async"));
    cluster_run_ms(c, 10000);
    c->store_fails = false;
    assert_int_equal(cluster_answer(c, k, 60000), 0); /* with the generation it came into force */
    assert_int_equal(cluster_job(c, id)->consistency.mode, TRAINING_ASYNC);
    cluster_until(c, id, JOB_SUCCEEDED, 600000);
    cluster_free(c);
}

static void a_change_of_what_waits_is_stored_before_it_is_answered(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7004, 0, 0);
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    c->store_fails = true;
    size_t k = cluster_set(c, id, SETS("training.mode=async"));
    assert_int_equal(cluster_answer(c, k, 1000), ERR_UNAVAILABLE);
    assert_non_null(strstr(c->answer[k].msg, "cannot be stored yet"));
    c->store_fails = false;
    cluster_run_ms(c, 6000);
    assert_int_equal(cluster_job(c, id)->consistency.mode, TRAINING_ASYNC);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_outlives_a_store_that_is_full),
        cmocka_unit_test(a_generation_waits_for_its_row),
        cmocka_unit_test(an_end_is_told_when_it_is_stored),
        cmocka_unit_test(a_cancel_is_answered_with_the_end),
        cmocka_unit_test(what_cannot_be_stored_is_not_taken),
        cmocka_unit_test(a_change_of_what_waits_is_stored_before_it_is_answered),
    };
    return cmocka_run_group_tests_name("master_rows", tests, NULL, NULL);
}
