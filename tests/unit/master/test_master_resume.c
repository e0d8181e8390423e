/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that have ended and are resumed: from where they go on, what is left of how they ended, and
 * which are refused. */
#include <math.h>

#include "cluster.h"

static void assert_refused(struct cluster *c, const char *id, int code, const char *words)
{
    assert_int_equal(cluster_resume(c, id, NULL, 0), code);
    assert_non_null(strstr(c->reply.err.msg, words));
}

/* A worker reports what nothing helps against. */
static void program_raises(struct cluster *c, const char *id)
{
    for (size_t i = 0; i < c->node_count; i++) {
        struct fake_node *n = &c->nodes[i];
        if (n->role == MASTER_WORKER && n->job.started && strcmp(n->job.job, id) == 0) {
            struct master_event e = fake_event(c, n, MASTER_REPORT_FAILURE);
            e.worker.job = id;
            e.worker.generation = n->job.generation;
            e.worker.code = ERR_UNKNOWN;
            e.worker.message = "the program raised";
            cluster_event(c, &e);
            return;
        }
    }
    fail_msg("no worker has started %s", id);
}

static const char *const MODES[] = {"training.mode=sync", "training.mode=async",
                                    "training.mode=bounded"};

static void a_cancelled_job_goes_on_from_its_checkpoint(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(9100 + i, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, SETS(MODES[i], "training.epochs=40"));
        cluster_until_in(c, id, "TRAIN");
        cluster_run_ms(c, 300);
        assert_int_equal(cluster_cancel(c, id, false), 0);
        const struct job_record *r = cluster_until(c, id, JOB_CANCELLED, 5000);
        uint64_t step = r->step, generation = r->generation;
        int64_t started_ms = r->started_ms;
        assert_true(step > 0 && r->finished_ms > 0);
        cluster_run_ms(c, 5000);
        assert_int_equal(cluster_resume(c, id, NULL, 0), 0);
        r = cluster_job(c, id);
        assert_true(r->state == JOB_PENDING || r->state == JOB_STARTING);
        assert_int_equal(r->resumes, 1);
        assert_int_equal(r->finished_ms, 0);
        assert_int_equal(strncmp(r->ended_before, "CANCELLED: by request, at step ", 31), 0);
        r = cluster_until(c, id, JOB_RUNNING, 5000);
        assert_true(r->step >= step);
        assert_true(r->generation > generation);
        assert_int_equal(r->recoveries, 0);
        r = cluster_run_to_end(c, id);
        assert_int_equal(r->step, r->steps_total);
        assert_int_equal(r->started_ms, started_ms);
        cluster_free(c);
    }
}

/* At any moment, also when nodes still have what the job was. */
static void it_can_be_resumed_at_any_time(void **state)
{
    (void)state;
    for (uint64_t ms = 0; ms < 400; ms += 7) {
        struct cluster *c = cluster_new(9200 + ms, 2, 3);
        char id[64];
        cluster_submit(c, "demo", id,
                       SETS("training.epochs=20", "training.checkpoint_every=9 steps"));
        cluster_run_ms(c, ms);
        cluster_cancel(c, id, true);
        cluster_until(c, id, JOB_CANCELLED, 1000);
        cluster_run_ms(c, ms % 3 * 10);
        uint64_t resumes = cluster_job(c, id)->resumes;
        assert_int_equal(cluster_resume(c, id, NULL, 0), 0);
        assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0); /* once more changes nothing */
        assert_int_equal(cluster_job(c, id)->resumes, resumes + 1);
        cluster_run_to_end(c, id);
        cluster_free(c);
    }
}

static void without_a_checkpoint_it_begins_again(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9300, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=40", "training.checkpoint_every=never"));
    cluster_until_in(c, id, "TRAIN");
    cluster_run_ms(c, 200);
    cluster_cancel(c, id, true);
    cluster_until(c, id, JOB_CANCELLED, 1000);
    c->find_gone = true;
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_resume(c, id, NULL, 0), 0);
    cluster_assert_reason(c, id, "resumed");
    assert_non_null(strstr(buf_str(&c->trace), "CANCELLED PENDING STARTING "));
    cluster_run_to_end(c, id);
    cluster_free(c);
}

/* Its file may be changed so that it ends before the version that it would go on from. */
static void a_cancelled_job_that_is_to_end_before_its_checkpoint_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(9350 + i, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, SETS(MODES[i], "training.epochs=400"));
        cluster_until_in(c, id, "TRAIN");
        cluster_run_ms(c, 3000);
        assert_int_equal(cluster_cancel(c, id, false), 0);
        const struct job_record *r = cluster_until(c, id, JOB_CANCELLED, 5000);
        assert_true(r->epoch > 2);
        cluster_run_ms(c, 5000);
        assert_int_equal(cluster_resume(c, id, SETS("training.epochs=1")), ERR_STATE);
        assert_non_null(strstr(c->reply.err.msg, "job demo-1 is CANCELLED, with "));
        assert_non_null(strstr(c->reply.err.msg, " epochs in its newest checkpoint, which is more "
                                                 "than training.epochs=1; to train on, set more: "
                                                 "training.epochs="));
        assert_int_equal(cluster_resume(c, id, SETS("training.steps=2")), ERR_STATE);
        assert_non_null(strstr(c->reply.err.msg, "which is more than training.steps=2; "));
        assert_int_equal(cluster_job(c, id)->state, JOB_CANCELLED);
        assert_int_equal(cluster_job(c, id)->resumes, 0);
        char more[64];
        (void)snprintf(more, sizeof more, "training.epochs=%.0f", ceil(r->epoch));
        assert_int_equal(cluster_resume(c, id, SETS(more)), 0);
        cluster_run_to_end(c, id);
        cluster_free(c);
    }
}

/* What was behind its newest checkpoint is done again, up to an end that lies before where it was.
 */
static void what_no_checkpoint_has_counts_for_nothing(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9360, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=400", "training.checkpoint_every=never"));
    cluster_until_in(c, id, "TRAIN");
    cluster_run_ms(c, 3000);
    cluster_cancel(c, id, true);
    const struct job_record *r = cluster_until(c, id, JOB_CANCELLED, 1000);
    assert_true(r->epoch > 2);
    assert_string_equal(r->checkpoint, "");
    c->find_gone = true;
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_resume(c, id, SETS("training.epochs=1")), 0);
    r = cluster_run_to_end(c, id);
    assert_true(r->epoch < 1.001);
    cluster_free(c);
}

static void a_failed_job_goes_on_and_may_fail_again(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9400, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=60", "training.checkpoint_every=60 steps"));
    for (uint64_t i = 1; i <= 3; i++) {
        cluster_until_in(c, id, "TRAIN");
        cluster_run_ms(c, 200);
        program_raises(c, id);
        const struct job_record *r = cluster_until(c, id, JOB_FAILED, 1000);
        assert_non_null(strstr(r->reason, "the program raised"));
        uint64_t had = r->checkpoint[0] == '\0' ? 0 : cluster_checkpoint(c, id)->step;
        assert_int_equal(cluster_resume(c, id, SETS("training.mode=async")), 0);
        r = cluster_until(c, id, JOB_RUNNING, 20000);
        assert_true(r->step >= had);
        assert_int_equal(r->consistency.mode, TRAINING_ASYNC);
        assert_int_equal(r->resumes, i);
        assert_non_null(strstr(r->ended_before, "the program raised"));
    }
    cluster_run_to_end(c, id);
    cluster_free(c);
}

static void one_that_succeeded_needs_more_to_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(9500 + i, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, SETS(MODES[i]));
        const struct job_record *r = cluster_run_to_end(c, id);
        uint64_t steps = r->step;
        assert_refused(c, id, ERR_STATE,
                       "job demo-1 has SUCCEEDED after 3 epochs, which are all of its file; to "
                       "train on, set more: training.epochs=8");
        assert_int_equal(cluster_job(c, id)->state, JOB_SUCCEEDED);
        assert_int_equal(cluster_resume(c, id, SETS("training.epochs=5")), 0);
        r = cluster_run_to_end(c, id);
        assert_true(r->epoch > 4.999 && r->step > steps);
        assert_refused(c, id, ERR_STATE, "training.epochs=10");
        assert_int_equal(cluster_resume(c, id, SETS("training.epochs=9", "training.steps=3")),
                         ERR_STATE);
        assert_non_null(strstr(c->reply.err.msg, "steps, which are all of its file"));
        cluster_free(c);
    }
}

/* Cancelled where it was to be evaluated: it stands for that before it trains on. */
static void an_evaluation_that_was_left_out_is_made_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(9550 + i, 2, 2);
        char id[64];
        c->test_records = 2500;
        cluster_submit(c, "demo", id,
                       SETS(MODES[i], "data.test.file=b.csv", "training.evaluate_every=1",
                            "training.epochs=60"));
        cluster_until_in(c, id, "TRAIN");
        cluster_run_ms(c, 300);
        cluster_cancel(c, id, false);
        const struct job_record *r = cluster_until(c, id, JOB_CANCELLED, 5000);
        uint64_t step = r->step;
        size_t count = r->evaluation_count;
        assert_true(count == 0 || r->evaluations[count - 1].step < step);
        assert_int_equal(cluster_resume(c, id, NULL, 0), 0);
        for (int k = 0; cluster_job(c, id)->evaluation_count == count && k < 20000; k++) {
            cluster_advance(c);
        }
        assert_int_equal(cluster_job(c, id)->evaluations[count].step, step);
        cluster_free(c);
    }
}

static void one_that_was_stopped_early_gets_new_patience(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9600, 2, 2);
    char id[64];
    c->test_records = 2500;
    c->best_step = 6;
    cluster_submit(c, "demo", id,
                   SETS("data.test.file=b.csv", "training.stop.metric=accuracy",
                        "training.stop.patience=2", "training.evaluate_every=2"));
    const struct job_record *r = cluster_run_to_end(c, id); /* 21 steps in three epochs */
    assert_int_equal(r->step, 10);
    assert_int_equal(cluster_resume(c, id, NULL, 0), 0);
    r = cluster_run_to_end(c, id);
    assert_int_equal(r->step, 14); /* two more evaluations without a better one */
    assert_int_equal(r->best.step, 6);
    assert_int_equal(r->evaluation_count, 7);
    assert_non_null(strstr(r->reason, "stopped early: no better accuracy than 1 of step 6"));
    assert_int_equal(cluster_resume(c, id, SETS("training.stop.patience=0")), 0);
    assert_int_equal(cluster_run_to_end(c, id)->step, 21);
    cluster_free(c);
}

/* What it had written last is damaged, and no evaluation falls on the step where it had ended. */
static void patience_begins_behind_the_end_that_was_taken_back(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9610, 2, 2);
    char id[64];
    c->test_records = 2500;
    c->best_step = 6;
    cluster_submit(c, "demo", id,
                   SETS("data.test.file=b.csv", "training.stop.metric=accuracy",
                        "training.stop.patience=2", "training.evaluate_every=2",
                        "training.checkpoint_every=4"));
    while (cluster_checkpoint(c, id) == NULL) {
        cluster_advance(c);
    }
    struct fake_checkpoint early = *cluster_checkpoint(c, id);
    assert_int_equal(cluster_run_to_end(c, id)->step, 10);
    assert_int_equal(cluster_resume(c, id, SETS("training.evaluate_every=3")), 0);
    *cluster_checkpoint(c, id) = early;
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->step, 15); /* 9, and then two without a better one: 12 and 15 */
    assert_int_equal(r->best.step, 6);
    assert_int_equal(r->best.without, 2);
    cluster_free(c);
}

static void what_cannot_be_resumed_says_why(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9700, 2, 2);
    char id[64], other[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=400"));
    cluster_until_in(c, id, "TRAIN");
    assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0); /* it is as it is wanted */
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    assert_refused(c, id, ERR_ABORTED, "is RUNNING by now");
    c->store_fails = true;
    cluster_cancel(c, id, true);
    assert_int_equal(cluster_ask(c, id, MASTER_RESUME), ERR_STATE);
    assert_string_equal(c->reply.err.msg, "job demo-1 is ending");
    c->store_fails = false;
    cluster_until(c, id, JOB_CANCELLED, 20000);
    assert_int_equal(cluster_ask(c, id, MASTER_RESUME), ERR_ABORTED); /* without a file */
    cluster_free(c);
    const struct master_config few = {.jobs_max = 1, .finished_max = 10};
    c = cluster_new_with(9701, 2, 2, &few);
    cluster_submit(c, "demo", id, SETS("training.epochs=2"));
    cluster_run_to_end(c, id);
    cluster_submit(c, "more", other, SETS("training.epochs=2"));
    assert_int_equal(cluster_resume(c, id, SETS("training.epochs=9")), ERR_EXHAUSTED);
    assert_non_null(strstr(c->reply.err.msg, "this master takes no more"));
    cluster_free(c);
}

/* What runs stays; what has ended goes when its nodes know that, and then nobody can go on with it.
 */
static void a_job_that_has_ended_is_removed(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9850, 2, 2);
    char id[64];
    assert_int_equal(cluster_ask(c, "none-1", MASTER_REMOVE), ERR_NOT_FOUND);
    cluster_submit(c, "demo", id, SETS("training.epochs=40"));
    cluster_until_in(c, id, "TRAIN");
    assert_int_equal(cluster_ask(c, id, MASTER_REMOVE), ERR_STATE);
    assert_string_equal(c->reply.err.msg, "job demo-1 is RUNNING; only a job that has ended is "
                                          "removed, and `gradus cancel demo-1` ends it");
    cluster_cancel(c, id, true);
    struct master_event e = {.kind = MASTER_REMOVE, .request = 2000000000};
    c->waiting[0] = e.request;
    e.job = id;
    cluster_event(c, &e);
    assert_false(c->answered[0]); /* its nodes are being told */
    assert_int_equal(cluster_ask(c, id, MASTER_REMOVE), ERR_STATE);
    assert_int_equal(cluster_resume(c, id, SETS("training.epochs=50")), ERR_STATE);
    assert_string_equal(c->reply.err.msg, "job demo-1 is being removed");
    assert_int_equal(cluster_answer(c, 0, 10000), 0);
    cluster_run_ms(c, 1);
    assert_null(master_job(c->m, id, c->now));
    assert_int_equal(cluster_ask(c, id, MASTER_REMOVE), ERR_NOT_FOUND);
    cluster_submit(c, "more", id, SETS("training.epochs=2")); /* one that has ended long ago */
    cluster_run_to_end(c, id);
    cluster_run_ms(c, 10000);
    assert_int_equal(cluster_ask(c, id, MASTER_REMOVE), 0);
    cluster_run_ms(c, 1);
    assert_null(master_job(c->m, id, c->now));
    cluster_free(c);
}

/* More workers than there are were asked for: after a pause it goes on with those that there are.
 */
static void a_pause_with_too_many_wanted_is_no_dead_end(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9860, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=400", "training.mode=async"));
    cluster_until_in(c, id, "TRAIN");
    size_t k = cluster_set(c, id, SETS("cluster.workers=5"));
    assert_int_equal(cluster_answer(c, k, 10000), 0);
    assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
    cluster_until(c, id, JOB_PAUSED, 20000);
    assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0);
    cluster_until(c, id, JOB_PENDING, 10);
    cluster_run_ms(c, 100);
    cluster_assert_reason(c, id,
                          "waits for 3 more workers: 2 of 5 free (goes on with fewer after 10 s)");
    cluster_until(c, id, JOB_RUNNING, 20000);
    cluster_cancel(c, id, true);
    cluster_free(c);
}

/* A row that cannot be stored is no promise; the job goes on when it can. */
static void a_resume_that_is_not_stored_is_not_promised(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9800, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=40"));
    cluster_until_in(c, id, "TRAIN");
    cluster_cancel(c, id, false);
    cluster_until(c, id, JOB_CANCELLED, 5000);
    c->store_fails = true;
    assert_int_equal(cluster_resume(c, id, NULL, 0), ERR_UNAVAILABLE);
    assert_int_equal(c->stored[cluster_stored(c, id)].state, JOB_CANCELLED);
    cluster_run_ms(c, 3000);
    assert_int_equal(c->stored[cluster_stored(c, id)].state, JOB_CANCELLED);
    c->store_fails = false;
    cluster_run_to_end(c, id);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_job_goes_on_from_its_checkpoint),
        cmocka_unit_test(it_can_be_resumed_at_any_time),
        cmocka_unit_test(without_a_checkpoint_it_begins_again),
        cmocka_unit_test(a_cancelled_job_that_is_to_end_before_its_checkpoint_is_refused),
        cmocka_unit_test(what_no_checkpoint_has_counts_for_nothing),
        cmocka_unit_test(a_failed_job_goes_on_and_may_fail_again),
        cmocka_unit_test(one_that_succeeded_needs_more_to_do),
        cmocka_unit_test(an_evaluation_that_was_left_out_is_made_up),
        cmocka_unit_test(one_that_was_stopped_early_gets_new_patience),
        cmocka_unit_test(patience_begins_behind_the_end_that_was_taken_back),
        cmocka_unit_test(what_cannot_be_resumed_says_why),
        cmocka_unit_test(a_resume_that_is_not_stored_is_not_promised),
        cmocka_unit_test(a_job_that_has_ended_is_removed),
        cmocka_unit_test(a_pause_with_too_many_wanted_is_no_dead_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
