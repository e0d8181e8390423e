/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's core: sync with all replicas, leases, evaluations, errors and the end. */
#include "unit/worker/fake.h"

static void test_sync_runs_to_its_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct fake f;
        fake_setup(&f, false);
        fake_assign_sync(&f, 1, 2, 0, 2, 0, 5);
        fake_run(&f, seed);
        assert_int_equal(f.computed, 10);
        assert_int_equal(f.added, 5);
        assert_int_equal(f.applied[0], 5);
        assert_int_equal(f.applied[1], 5);
        assert_int_equal(f.last_push[0].replica_first, 0);
        assert_int_equal(f.last_push[0].replica_end, 2);
        assert_int_equal(f.last_push[0].examples, 20);
        assert_int_equal(f.position_reported, 5);
        assert_int_equal(f.idle_reports, 1);
        /* a higher limit goes on without another pull of what it holds */
        fake_assign_sync(&f, 1, 2, 0, 2, 0, 7);
        assert_int_equal(f.queue[0].kind, WORKER_DO_COMPUTE);
        fake_run(&f, seed);
        assert_int_equal(f.position_reported, 7);
        assert_int_equal(f.idle_reports, 2);
        fake_teardown(&f);
    }
}

/* Replicas [1, 4) of 5: nodes [1, 2) and [2, 4), each pushed once; the last also pulls. */
static void test_sync_pushes_nodes_of_the_tree(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    fake_assign_sync(&f, 1, 5, 1, 4, 0, 1);
    fake_run(&f, 3);
    assert_int_equal(f.computed, 3);
    assert_int_equal(f.added, 1);
    assert_int_equal(f.applied[0], 2);
    fake_teardown(&f);
}

/* A gradient that is pushed as it is leaves while it is made: its pushes stand behind the
 * computation. What is summed before waits for the sum. */
static void test_sync_pushes_with_the_computation(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    fake_assign_sync(&f, 1, 5, 1, 4, 0, 2); /* nodes [1, 2) and [2, 4) */
    fake_answer(&f, 0);                     /* the pulls */
    fake_answer(&f, 0);
    assert_int_equal(f.queued, 1 + SHARDS);
    assert_int_equal(f.queue[0].kind, WORKER_DO_COMPUTE);
    for (uint32_t s = 0; s < SHARDS; s++) {
        const struct asked push = fake_asked_at(&f, 1 + s);
        assert_true(push.push && push.pull == ASKED_PULL_NONE);
        assert_int_equal(push.buffer, f.queue[0].compute.buffer);
        assert_int_equal(push.examples, 10);
        assert_int_equal(push.replica_first, 1);
        assert_int_equal(push.replica_end, 2);
    }
    fake_answer(&f, 1); /* before it is said to be computed: nothing follows from it */
    fake_answer(&f, 1);
    assert_int_equal(f.queued, 1);
    fake_answer(&f, 0);
    assert_int_equal(f.queued, 1); /* replica 2 */
    assert_int_equal(f.queue[0].kind, WORKER_DO_COMPUTE);
    fake_answer(&f, 0);
    assert_int_equal(f.queued, 1); /* replica 3 */
    assert_int_equal(f.added, 0);
    fake_answer(&f, 0);
    assert_int_equal(f.added, 1);
    assert_int_equal(f.queued, SHARDS);
    assert_int_equal(fake_asked_at(&f, 0).pull, ASKED_PULL_VERSION);
    fake_run(&f, 1);
    assert_int_equal(f.position_reported, 2);
    fake_teardown(&f);
}

/* All answers of the step may come before the word that it is computed. */
static void test_the_step_ends_before_the_computation(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    fake_assign_sync(&f, 1, 1, 0, 1, 0, 2);
    fake_answer(&f, 0);
    fake_answer(&f, 0);
    uint32_t buffer = f.queue[0].compute.buffer;
    for (uint64_t step = 0; step < 2; step++) {
        assert_int_equal(f.queued, 1 + SHARDS);
        assert_int_equal(f.queue[0].kind, WORKER_DO_COMPUTE);
        assert_int_equal(f.queue[0].compute.step, step);
        assert_int_equal(f.queue[0].compute.buffer, buffer); /* none is lost */
        assert_int_equal(fake_asked_at(&f, 1).pull, ASKED_PULL_VERSION);
        assert_int_equal(fake_asked_at(&f, 1).version, step + 1);
        fake_answer(&f, 2);
        fake_answer(&f, 1);
        assert_int_equal(f.queued, 1);
        fake_answer(&f, 0);
    }
    fake_run(&f, 0);
    assert_int_equal(f.position_reported, 2);
    assert_int_equal(f.idle_reports, 1);
    fake_teardown(&f);
}

/* A generation that ends while a gradient leaves: nothing is begun before all is answered. */
static void test_a_generation_ends_with_a_gradient_on_its_way(void **state)
{
    (void)state;
    for (int computed_first = 0; computed_first < 2; computed_first++) {
        struct fake f;
        fake_setup(&f, false);
        fake_assign_sync(&f, 1, 1, 0, 1, 0, 9);
        fake_answer(&f, 0);
        fake_answer(&f, 0);
        assert_int_equal(f.queued, 1 + SHARDS);
        f.generation = 2;
        fake_assign_sync(&f, 2, 1, 0, 1, 0, 9);
        assert_int_equal(f.queued, 1 + SHARDS);
        size_t computed = computed_first ? 0 : SHARDS;
        for (size_t i = 0; i < 1 + SHARDS; i++) {
            assert_int_equal(f.queued, 1 + SHARDS - i);
            fake_answer(&f, i == computed || computed_first ? 0 : 1);
        }
        assert_int_equal(f.queued, SHARDS); /* the parameters, anew */
        assert_int_equal(fake_asked_at(&f, 0).pull, ASKED_PULL_VERSION);
        assert_int_equal(fake_asked_at(&f, 0).generation, 2);
        fake_run(&f, 0);
        assert_int_equal(f.position_reported, 9);
        fake_teardown(&f);
    }
}

/* 10 batches, 4 replicas: step 2 has two batches for four replicas, the rest is empty. */
static void test_sync_end_of_epoch(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    fake_assign_sync(&f, 1, 4, 2, 4, 2, 3);
    fake_run(&f, 0);
    assert_int_equal(f.computed, 0);
    assert_int_equal(f.applied[0], 1);
    assert_int_equal(f.last_push[0].examples, 0);
    assert_int_equal(f.last_push[0].buffer, WORKER_BUFFER_NONE);
    assert_int_equal(f.position_reported, 3);
    fake_teardown(&f);
}

static void test_sync_new_generation(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    fake_assign_sync(&f, 1, 2, 0, 1, 0, 100);
    f.park = true;
    fake_run(&f, 0);
    assert_int_equal(f.computed, 0); /* waits for the first pull */
    f.generation = 2;                /* the shards fence the old one */
    f.park = false;
    fake_run(&f, 0);
    assert_int_equal(f.computed, 0);
    f.version[0] = 7;
    f.version[1] = 7;
    fake_assign_sync(&f, 2, 2, 0, 2, 7, 9);
    assert_int_equal(f.reply_code, 0);
    fake_run(&f, 0);
    assert_int_equal(f.computed, 4);
    assert_int_equal(f.last_push[1].generation, 2);
    assert_int_equal(f.last_push[1].step, 8);
    fake_assign_sync(&f, 1, 2, 0, 2, 0, 9);
    assert_int_equal(f.reply_code, ERR_ABORTED);
    fake_teardown(&f);
}

static void test_errors_are_retried(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    f.fail_exchanges = 20;
    f.fail_code = ERR_UNAVAILABLE;
    fake_assign_sync(&f, 1, 1, 0, 1, 0, 3);
    fake_run(&f, 1);
    assert_int_equal(f.position_reported, 3);
    assert_true(f.now_ms > WORKER_BACKOFF_MS_MIN);
    assert_int_equal(f.failures, 0);
    fake_teardown(&f);
}

static void test_an_error_that_stays_fails_the_job(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    f.fail_exchanges = 1;
    f.fail_code = ERR_INVALID;
    fake_assign_sync(&f, 1, 1, 0, 1, 0, 3);
    fake_run(&f, 1);
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.computed, 0);
    fake_teardown(&f);
}

static void test_hold(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    fake_assign_sync(&f, 1, 1, 0, 1, 0, 1000);
    for (int i = 0; i < 21; i++) {
        fake_answer(&f, 0);
    }
    struct worker_event e = {
        .kind = WORKER_ASSIGN,
        .assign = {.tag = 2, .assignment = {.generation = 1, .replica_end = 1, .hold = true}},
    };
    fake_feed(&f, &e);
    uint64_t position = f.reply_position;
    fake_run(&f, 0);
    assert_int_equal(f.position_reported, position);
    assert_int_equal(f.computed, position);
    assert_int_equal(f.idle_reports, 1);
    fake_assign_sync(&f, 1, 1, 0, 1, 0, position + 2);
    fake_run(&f, 0);
    assert_int_equal(f.position_reported, position + 2);
    fake_teardown(&f);
}

static void test_async_takes_every_batch_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fake f;
        fake_setup(&f, seed % 2 == 0);
        f.splits = 5;
        f.split_batches = 2;
        fake_assign_async(&f, 1, seed % 3 == 0 ? TRAINING_BOUNDED : TRAINING_ASYNC, false);
        fake_run(&f, seed);
        assert_int_equal(f.computed, 10);
        for (int s = 0; s < SHARDS; s++) {
            assert_int_equal(f.applied[s], 10);
            for (int k = 0; k < 5; k++) {
                assert_int_equal(f.progress[s][k], 2);
            }
        }
        assert_int_equal(f.splits_reported, 5);
        assert_int_equal(f.idle_reports, 1);
        assert_int_equal(f.position_reported, 10);
        fake_teardown(&f);
    }
}

/* A split that somebody else began: from the lowest progress of the shards on. */
static size_t count_pushes(const struct fake *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->queued; i++) {
        n += f->queue[i].kind == WORKER_DO_EXCHANGE && fake_asked_at(f, i).push ? 1 : 0;
    }
    return n;
}

/* As in sync; but what overlaps with the push before it has to wait for that one. */
static void test_async_pushes_with_the_computation(void **state)
{
    (void)state;
    for (int overlap = 0; overlap < 2; overlap++) {
        struct fake f;
        fake_setup(&f, overlap);
        f.splits = 5;
        f.split_batches = 2;
        fake_assign_async(&f, 1, TRAINING_ASYNC, false);
        while (f.queue[0].kind != WORKER_DO_COMPUTE) {
            fake_answer(&f, 0);
        }
        assert_int_equal(count_pushes(&f), overlap ? 0 : SHARDS);
        for (size_t i = 1; !overlap && i <= SHARDS; i++) {
            assert_true(fake_asked_at(&f, i).push &&
                        fake_asked_at(&f, i).buffer == f.queue[0].compute.buffer);
        }
        fake_run(&f, 1);
        assert_int_equal(f.computed, 10);
        assert_int_equal(f.splits_reported, 5);
        fake_teardown(&f);
    }
}

static void test_async_takes_over(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, true);
    f.splits = 2;
    f.split_batches = 2;
    f.progress[0][0] = 1;
    f.progress[1][0] = 1;
    f.progress[0][1] = 2;
    f.progress[1][1] = 2;
    fake_assign_async(&f, 1, TRAINING_ASYNC, false);
    fake_run(&f, 5);
    assert_int_equal(f.computed, 1);
    assert_int_equal(f.splits_reported, 2);
    fake_teardown(&f);
}

/* Other workers come and go: this one keeps its splits, and none is left half done. */
static void test_async_keeps_its_leases(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct fake f;
        fake_setup(&f, seed % 2 == 0);
        f.splits = 5;
        f.split_batches = 2;
        fake_assign_async(&f, 1, TRAINING_ASYNC, false);
        for (uint64_t g = 2; g <= 4; g++) {
            for (uint64_t n = 0; n < 4 + seed % 11 && f.queued > 0; n++) {
                fake_answer(&f, rng_below(seed + g, n, f.queued));
            }
            f.generation = g;
            fake_assign_async(&f, g, TRAINING_ASYNC, false);
        }
        fake_run(&f, seed);
        for (int s = 0; s < SHARDS; s++) {
            for (int k = 0; k < 5; k++) {
                assert_int_equal(f.progress[s][k], 2);
            }
        }
        assert_int_equal(f.splits_reported, 5);
        assert_int_equal(f.failures, 0);
        fake_teardown(&f);
    }
}

static void test_async_hold_gives_back(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, true);
    f.splits = 5;
    f.split_batches = 2;
    fake_assign_async(&f, 1, TRAINING_ASYNC, false);
    for (int i = 0; i < 6; i++) {
        fake_answer(&f, 0);
    }
    fake_assign_async(&f, 1, TRAINING_ASYNC, true);
    fake_run(&f, 0);
    assert_true(f.computed < 10);
    assert_int_equal(f.applied[0], f.computed);
    assert_int_equal(f.applied[1], f.computed);
    assert_int_equal(f.idle_reports, 1);
    fake_teardown(&f);
}

/* Others may wait at the shards for a worker that holds; it must not count among the slowest. */
static void test_bounded_hold_lets_others_pass(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, true);
    f.splits = 5;
    f.split_batches = 2;
    fake_assign_async(&f, 1, TRAINING_BOUNDED, false);
    for (int i = 0; i < 6; i++) {
        fake_answer(&f, 0);
    }
    size_t before = f.idle_told; /* while it had no lease */
    fake_assign_async(&f, 1, TRAINING_BOUNDED, true);
    fake_run(&f, 0);
    assert_true(f.computed < 10);
    assert_int_equal(f.applied[0], f.computed);
    assert_int_equal(f.idle_told, before + 2); /* each shard once */
    assert_int_equal(f.idle_reports, 1);
    fake_teardown(&f);
}

static void evaluate(struct fake *f, const char *pin, uint64_t first)
{
    struct worker_event e = {
        .kind = WORKER_EVALUATE,
        .evaluate = {.tag = 9, .generation = 1, .pin_id = pin, .first = first, .count = 10}};
    fake_feed(f, &e);
}

static void test_evaluation_between_batches(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct fake f;
        fake_setup(&f, false);
        fake_assign_sync(&f, 1, 1, 0, 1, 0, 6);
        evaluate(&f, "p1", 0);
        evaluate(&f, "p1", 10);
        evaluate(&f, "p2", 0);
        fake_run(&f, seed);
        assert_int_equal(f.evaluated, 3);
        assert_int_equal(f.computed, 6);
        assert_int_equal(f.failed_evaluations, 0);
        fake_teardown(&f);
    }
}

static void test_evaluation_that_cannot_pull(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    f.fail_exchanges = 1;
    f.fail_code = ERR_NOT_FOUND;
    evaluate(&f, "gone", 0);
    evaluate(&f, "gone", 10);
    fake_run(&f, 2);
    assert_int_equal(f.failed_evaluations, 1);
    assert_int_equal(f.evaluated, 1);
    struct worker_event stop = {.kind = WORKER_STOP};
    fake_feed(&f, &stop);
    evaluate(&f, "late", 0);
    assert_int_equal(f.failed_evaluations, 2);
    fake_teardown(&f);
}

/* Answers come in after the stop too: the loop runs what was posted before it. */
static void test_answers_after_the_stop(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    fake_assign_sync(&f, 1, 1, 0, 1, 0, 6);
    evaluate(&f, "p1", 0);
    evaluate(&f, "p1", 10);
    struct worker_event stop = {.kind = WORKER_STOP};
    fake_feed(&f, &stop);
    assert_int_equal(f.failed_evaluations, 2);
    f.fail_exchanges = 2 * SHARDS; /* of the pulls for training and for the evaluation */
    f.fail_code = ERR_INVALID;
    fake_run(&f, 3);
    assert_int_equal(f.failures, 0);
    assert_int_equal(f.failed_evaluations, 2);
    assert_int_equal(f.computed, 0);
    fake_assign_sync(&f, 2, 1, 0, 1, 0, 6);
    assert_int_equal(f.reply_code, ERR_CANCELLED);
    fake_run(&f, 3);
    assert_int_equal(f.queued, 0);
    fake_teardown(&f);
}

/* Two shards refuse: the master is told once, and whoever waits for an evaluation is answered. */
static void test_a_job_fails_once(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    f.fail_exchanges = SHARDS;
    f.fail_code = ERR_INTERNAL;
    fake_assign_sync(&f, 1, 1, 0, 1, 0, 3);
    evaluate(&f, "p1", 0);
    fake_run(&f, 0);
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.failed_evaluations, 1);
    assert_int_equal(f.evaluated, 0);
    fake_teardown(&f);
}

/* An event that says where shards are: which of them it makes the shell look for elsewhere, a bit
 * for each. */
static unsigned moved(struct fake *f, enum worker_event_kind kind, uint64_t generation,
                      const char *lead, const char *other, uint64_t opening)
{
    const struct worker_place places[SHARDS] = {{lead, 7}, {other, opening}};
    struct worker_event e = {.kind = kind, .now_ms = f->now_ms};
    if (kind == WORKER_EVALUATE) {
        e.evaluate = (struct worker_evaluate){
            .generation = generation, .pin_id = "pin", .count = 1, .places = places};
    } else {
        e.assign.places = places;
        e.assign.assignment = (struct worker_assignment){
            .generation = generation, .consistency = {.mode = TRAINING_SYNC, .replicas = 1}};
    }
    unsigned bits = 0;
    worker_step(f->worker, &e, &f->actions);
    for (size_t i = 0; i < f->actions.count; i++) {
        const struct worker_do_place *a = &f->actions.items[i].place;
        if (f->actions.items[i].kind == WORKER_DO_PLACE) {
            assert_string_equal(a->place.address, places[a->shard].address);
            assert_int_equal(a->place.opening, places[a->shard].opening);
            assert_int_equal(bits >> a->shard, 0);
            bits |= 1U << a->shard;
        }
    }
    f->actions.count = 0;
    return bits;
}

static void test_shards_are_where_the_newest_generation_says(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    assert_int_equal(moved(&f, WORKER_ASSIGN, 2, "a:1", "b:1", 8), 3);
    assert_int_equal(moved(&f, WORKER_ASSIGN, 3, "a:1", "b:1", 8), 0);
    assert_int_equal(moved(&f, WORKER_ASSIGN, 4, "a:1", "c:1", 8), 2);
    assert_int_equal(moved(&f, WORKER_ASSIGN, 5, "a:1", "c:1", 9), 2); /* opened anew there */
    assert_int_equal(moved(&f, WORKER_ASSIGN, 4, "a:1", "b:1", 8), 0); /* refused */
    assert_int_equal(moved(&f, WORKER_ASSIGN, 5, "x:1", "x:1", 8), 0); /* a limit, say */
    fake_teardown(&f);
}

/* What comes late from before the job was started again speaks of shards that are no more. */
static void test_no_request_is_of_an_earlier_start(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false); /* generation 1 */
    assert_int_equal(moved(&f, WORKER_ASSIGN, 0, "a:1", "b:1", 7), 0);
    assert_int_equal(moved(&f, WORKER_EVALUATE, 0, "a:1", "b:1", 7), 0);
    assert_int_equal(moved(&f, WORKER_ASSIGN, 1, "a:1", "b:1", 8), 3);
    fake_teardown(&f);
}

/* They need no assignment, and may be the first to bring news, or come late. */
static void test_evaluations_say_where_shards_are(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    assert_int_equal(moved(&f, WORKER_EVALUATE, 2, "a:1", "b:1", 8), 3);
    assert_int_equal(moved(&f, WORKER_ASSIGN, 2, "a:1", "b:1", 8), 0);
    assert_int_equal(moved(&f, WORKER_EVALUATE, 3, "d:1", "b:1", 8), 1);
    assert_int_equal(moved(&f, WORKER_EVALUATE, 2, "a:1", "b:1", 8), 0);
    assert_int_equal(moved(&f, WORKER_ASSIGN, 3, "d:1", "b:1", 8), 0);
    assert_int_equal(moved(&f, WORKER_ASSIGN, 4, "a:1", "b:1", 8), 1);
    fake_teardown(&f);
}

static void test_a_lease_of_what_is_not_there(void **state)
{
    (void)state;
    static const struct {
        uint32_t split, batch_end;
    } cases[] = {{5, 1}, {0, 3}, {UINT32_MAX, UINT32_MAX}, {4, UINT32_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake f;
        fake_setup(&f, true);
        fake_assign_async(&f, 1, TRAINING_ASYNC, false);
        assert_int_equal(f.queue[0].kind, WORKER_DO_LEASE);
        struct worker_event lease = {
            .kind = WORKER_LEASED,
            .leased = {.generation = 1,
                       .kind = WORKER_LEASE_GRANTED,
                       .granted = {.split = cases[i].split, .batch_end = cases[i].batch_end}}};
        f.queued = 0;
        fake_feed(&f, &lease);
        assert_int_equal(f.failures, 1);
        assert_int_equal(f.queued, 0);
        fake_teardown(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_runs_to_its_limit),
        cmocka_unit_test(test_sync_pushes_nodes_of_the_tree),
        cmocka_unit_test(test_sync_pushes_with_the_computation),
        cmocka_unit_test(test_the_step_ends_before_the_computation),
        cmocka_unit_test(test_a_generation_ends_with_a_gradient_on_its_way),
        cmocka_unit_test(test_async_pushes_with_the_computation),
        cmocka_unit_test(test_sync_end_of_epoch),
        cmocka_unit_test(test_sync_new_generation),
        cmocka_unit_test(test_errors_are_retried),
        cmocka_unit_test(test_an_error_that_stays_fails_the_job),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_async_takes_every_batch_once),
        cmocka_unit_test(test_async_takes_over),
        cmocka_unit_test(test_async_keeps_its_leases),
        cmocka_unit_test(test_async_hold_gives_back),
        cmocka_unit_test(test_bounded_hold_lets_others_pass),
        cmocka_unit_test(test_evaluation_between_batches),
        cmocka_unit_test(test_evaluation_that_cannot_pull),
        cmocka_unit_test(test_answers_after_the_stop),
        cmocka_unit_test(test_a_job_fails_once),
        cmocka_unit_test(test_shards_are_where_the_newest_generation_says),
        cmocka_unit_test(test_no_request_is_of_an_earlier_start),
        cmocka_unit_test(test_evaluations_say_where_shards_are),
        cmocka_unit_test(test_a_lease_of_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
