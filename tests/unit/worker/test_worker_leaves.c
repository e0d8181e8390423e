/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker process leaves: what is in hand is finished, or the grace period ends it; and what
 * the master hears before. */
#include "worker_shell_rig.h"

#include "service/membership.h"
#include "support/wait_until.h"

void __real_membership_leave(struct membership *m, unsigned timeout_ms);
void __wrap_membership_leave(struct membership *m, unsigned timeout_ms);

/* In the worker: a master that stands still for seconds hears of it all the same. */
void __wrap_membership_leave(struct membership *m, unsigned timeout_ms)
{
    assert_in_range(timeout_ms, 1, 10000);
    __real_membership_leave(m, 60000);
}

/* SIGTERM, and wait until the job knows of it: it takes no more work. */
static void ask_end(struct fixture *f)
{
    struct err err = {0};
    spawn_ask_end(&f->worker);
    int rc = 0;
    wait_until((rc = shell_assign(f, GENERATION, false, &err)) != 0);
    assert_int_equal(rc, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "this worker is leaving"));
}

static void assert_notes(struct fixture *f, const enum note *expected, size_t count)
{
    pthread_mutex_lock(&f->lock);
    size_t first = f->note_count > count ? f->note_count - count : 0;
    assert_true(f->note_count >= count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(f->notes[first + i], expected[i]);
    }
    pthread_mutex_unlock(&f->lock);
}

#define ASSERT_LAST(f, ...)                                                                        \
    assert_notes(f, (const enum note[]){__VA_ARGS__},                                              \
                 sizeof(const enum note[]){__VA_ARGS__} / sizeof(enum note))

static void test_what_the_master_hears_in_async(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "async", "600s");
    pthread_mutex_lock(&f.lock);
    f.lease = true;
    pthread_mutex_unlock(&f.lock);
    shell_start_job(&f);
    assert_int_equal(shell_assign(&f, GENERATION, false, NULL), 0);
    shell_wait_for(&f, NOTE_IDLE);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    ASSERT_LAST(&f, NOTE_IDLE, NOTE_LEFT);
    assert_int_equal(f.leases, 2);
    assert_int_equal(f.reported[0], SPLIT_BATCHES);
    assert_int_equal(f.reported[1], SPLIT_BATCHES);
    assert_int_equal(f.version, RECORDS / BATCH);
    assert_int_equal(f.batches, RECORDS / BATCH);
    assert_int_equal(f.examples, RECORDS);
    for (size_t i = 0; i <= STALENESS_BUCKET; i++) {
        assert_int_equal(f.staleness[i], i == STALENESS_BUCKET ? RECORDS / BATCH : 0);
    }
    shell_end(&f);
}

/* Pushes of steps have no staleness. */
static void test_what_the_master_hears_in_sync(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "sync", "600s");
    shell_start_job(&f);
    shell_hold_pushes(&f);
    assert_int_equal(shell_assign(&f, GENERATION, false, NULL), 0);
    shell_wait_held(&f);
    ask_end(&f);
    shell_let_go(&f);
    shell_assert_ended(&f);
    assert_int_equal(f.batches, f.version);
    assert_int_equal(f.staleness[STALENESS_BUCKET], 0);
    shell_end(&f);
}

static void drain_in(const char *mode)
{
    struct fixture f;
    shell_begin(&f, mode, "60s");
    shell_start_job(&f);
    shell_hold_pushes(&f);
    assert_int_equal(shell_assign(&f, GENERATION, false, NULL), 0);
    shell_wait_held(&f);
    ask_end(&f);
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0); /* a hold is nothing new to it */
    shell_let_go(&f);
    shell_assert_ended(&f);
    ASSERT_LAST(&f, NOTE_PUSHED, NOTE_ANSWERED, NOTE_IDLE, NOTE_LEFT);
    shell_end(&f);
}

static void test_work_in_hand_is_finished_in_sync(void **state)
{
    (void)state;
    drain_in("sync");
}

static void test_work_in_hand_is_finished_in_async(void **state)
{
    (void)state;
    drain_in("async");
}

static void test_work_in_hand_is_finished_in_bounded(void **state)
{
    (void)state;
    drain_in("bounded");
}

static void test_a_generation_that_is_over_is_not_waited_for(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "sync", "600s");
    shell_start_job(&f);
    shell_hold_pushes(&f);
    assert_int_equal(shell_assign(&f, GENERATION, false, NULL), 0);
    shell_wait_held(&f);
    ask_end(&f);
    assert_int_equal(shell_assign(&f, GENERATION + 1, false, NULL), ERR_UNAVAILABLE);
    shell_assert_ended(&f);
    ASSERT_LAST(&f, NOTE_PUSHED, NOTE_LEFT);
    shell_end(&f);
}

static void test_the_grace_period_ends_it(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "async", "1ms");
    shell_start_job(&f);
    shell_hold_pushes(&f);
    assert_int_equal(shell_assign(&f, GENERATION, false, NULL), 0);
    shell_wait_held(&f);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    ASSERT_LAST(&f, NOTE_PUSHED, NOTE_LEFT);
    shell_end(&f);
}

/* Nothing is in hand: without a job, without an assignment, standing still. */
static void test_idle_workers_leave_at_once(void **state)
{
    (void)state;
    struct fixture f;
    shell_begin(&f, "sync", "600s");
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    shell_end(&f);
    shell_begin(&f, "sync", "600s");
    shell_start_job(&f);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    ASSERT_LAST(&f, NOTE_LEFT);
    shell_end(&f);
    shell_begin(&f, "async", "600s");
    shell_start_job(&f);
    assert_int_equal(shell_assign(&f, GENERATION, true, NULL), 0);
    shell_wait_for(&f, NOTE_IDLE);
    spawn_ask_end(&f.worker);
    shell_assert_ended(&f);
    ASSERT_LAST(&f, NOTE_IDLE, NOTE_LEFT);
    shell_end(&f);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], AS_WORKER) == 0) {
        return shell_be_a_worker(argc - 1, argv + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_master_hears_in_async),
        cmocka_unit_test(test_what_the_master_hears_in_sync),
        cmocka_unit_test(test_work_in_hand_is_finished_in_sync),
        cmocka_unit_test(test_work_in_hand_is_finished_in_async),
        cmocka_unit_test(test_work_in_hand_is_finished_in_bounded),
        cmocka_unit_test(test_a_generation_that_is_over_is_not_waited_for),
        cmocka_unit_test(test_the_grace_period_ends_it),
        cmocka_unit_test(test_idle_workers_leave_at_once),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
