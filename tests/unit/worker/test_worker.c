/* The worker's core against a small fake cluster under virtual time. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "worker/worker.h"

#define SHARDS 2
#define QUEUE_MAX 4096

/* What the fake cluster knows and what it owes the worker. */
struct fake {
    struct worker *worker;
    struct worker_actions actions;
    struct worker_action queue[QUEUE_MAX]; /* actions not yet answered */
    size_t queued;
    uint64_t now_ms;
    uint64_t version[SHARDS];
    uint64_t generation;
    /* answers to leases */
    uint32_t splits, split_batches, split_next;
    /* seen */
    size_t computed, added, reports, idle_reports, splits_reported, failed_evaluations, failures;
    size_t evaluated, idle_told, failures_again;
    bool split_reported[64];
    struct worker_action last_push[SHARDS];
    uint32_t progress[SHARDS][64];
    size_t applied[SHARDS];
    uint64_t position_reported;
    int reply_code;
    uint64_t reply_position;
    uint64_t timer_ms;
    bool overlap;
    size_t granted_again;
    int fail_exchanges; /* so many answers are errors of fail_code */
    int fail_code;
    bool park; /* exchanges are not answered */
};

static void take_actions(struct fake *f)
{
    for (size_t i = 0; i < f->actions.count; i++) {
        const struct worker_action *a = &f->actions.items[i];
        switch (a->kind) {
        case WORKER_DO_REPLY_ASSIGN:
            f->reply_code = a->code;
            f->reply_position = a->position;
            break;
        case WORKER_DO_TIMER:
            f->timer_ms = a->at_ms;
            break;
        case WORKER_DO_ADD:
            f->added++;
            break;
        case WORKER_DO_FAIL_EVALUATE:
            f->failed_evaluations++;
            break;
        case WORKER_DO_FAIL_JOB:
            f->failures++;
            f->failures_again += a->again ? 1 : 0;
            break;
        case WORKER_DO_PREFETCH:
            break;
        default:
            assert_true(f->queued < QUEUE_MAX);
            f->queue[f->queued++] = *a;
            break;
        }
    }
    f->actions.count = 0;
}

static void feed(struct fake *f, struct worker_event *event)
{
    event->now_ms = f->now_ms;
    worker_step(f->worker, event, &f->actions);
    take_actions(f);
}

static void answer_exchange(struct fake *f, const struct worker_action *a)
{
    struct worker_event e = {.kind = WORKER_EXCHANGED, .exchange = a->exchange};
    if (a->generation < f->generation && a->pull != WORKER_PULL_PINNED) {
        e.code = ERR_ABORTED;
        feed(f, &e);
        return;
    }
    if (f->fail_exchanges > 0) {
        f->fail_exchanges--;
        e.code = f->fail_code;
        e.message = "told to fail";
        feed(f, &e);
        return;
    }
    if (a->idle) {
        f->idle_told++;
    }
    if (a->push) {
        f->last_push[a->shard] = *a;
        f->applied[a->shard]++;
    }
    if (a->push && f->split_batches > 0) { /* async */
        assert_true(a->batch.batch <= f->progress[a->shard][a->batch.split]);
        if (a->batch.batch == f->progress[a->shard][a->batch.split]) { /* else a duplicate */
            f->progress[a->shard][a->batch.split]++;
            f->version[a->shard]++;
        }
    }
    e.version = a->pull == WORKER_PULL_VERSION ? a->version : f->version[a->shard];
    if (a->pull == WORKER_PULL_VERSION && f->version[a->shard] < a->version) {
        f->version[a->shard] = a->version;
    }
    if (a->progress) {
        e.progress = f->progress[a->shard][a->batch.split];
    }
    feed(f, &e);
}

static bool is_named(const struct worker_action *a, uint32_t split)
{
    for (size_t i = 0; i < a->held_count; i++) {
        if (a->held[i].split == split) {
            return true;
        }
    }
    return false;
}

/* As the master: what the worker should have and does not name is given again; two at a time. */
static void answer_lease(struct fake *f, const struct worker_action *a)
{
    struct worker_event e = {.kind = WORKER_LEASED, .generation = a->generation};
    if (a->generation < f->generation) {
        e.code = ERR_ABORTED;
        feed(f, &e);
        return;
    }
    uint32_t out = 0;
    uint32_t lost = UINT32_MAX;
    for (uint32_t k = 0; k < f->split_next; k++) {
        if (!f->split_reported[k]) {
            out++;
            lost = is_named(a, k) ? lost : k;
        }
    }
    if (lost != UINT32_MAX) {
        f->granted_again++;
        e.lease = WORKER_LEASE_GRANTED;
        e.granted = (struct worker_lease){.split = lost, .batch_end = f->split_batches};
    } else if (f->split_next == f->splits) {
        e.lease = WORKER_LEASE_DONE;
    } else if (out >= WORKER_LEASES_MAX) {
        e.lease = WORKER_LEASE_WAIT;
    } else {
        e.lease = WORKER_LEASE_GRANTED;
        e.granted = (struct worker_lease){.split = f->split_next, .batch_end = f->split_batches};
        e.granted.fresh = f->progress[0][f->split_next] == 0 && f->progress[1][f->split_next] == 0;
        f->split_next++;
    }
    feed(f, &e);
}

static void answer(struct fake *f, size_t i)
{
    struct worker_action a = f->queue[i];
    memmove(f->queue + i, f->queue + i + 1, (--f->queued - i) * sizeof a);
    struct worker_event done = {.kind = WORKER_COMPUTED};
    struct worker_event split = {.kind = WORKER_SPLIT_REPORTED, .generation = a.generation};
    struct worker_event progress = {.kind = WORKER_PROGRESS_REPORTED};
    switch (a.kind) {
    case WORKER_DO_COMPUTE:
        f->computed++;
        feed(f, &done);
        break;
    case WORKER_DO_EVALUATE:
        f->evaluated++;
        feed(f, &done);
        break;
    case WORKER_DO_EXCHANGE:
        answer_exchange(f, &a);
        break;
    case WORKER_DO_LEASE:
        answer_lease(f, &a);
        break;
    case WORKER_DO_REPORT_SPLIT:
        if (a.generation == f->generation) {
            f->splits_reported += f->split_reported[a.batch.split] ? 0 : 1;
            f->split_reported[a.batch.split] = true;
        } else {
            split.code = ERR_ABORTED;
        }
        feed(f, &split);
        break;
    case WORKER_DO_REPORT_PROGRESS:
        f->reports++;
        f->idle_reports += a.idle_report ? 1 : 0;
        f->position_reported = a.position;
        feed(f, &progress);
        break;
    default:
        fail_msg("unexpected action %d", (int)a.kind);
    }
}

/* Answer everything, in an order drawn from @seed, until the worker is still. Timers fire when
 * nothing else is left. */
static void run(struct fake *f, uint64_t seed)
{
    for (uint64_t n = 0; n < 200000; n++) {
        size_t candidates[QUEUE_MAX];
        size_t count = 0;
        for (size_t i = 0; i < f->queued; i++) {
            if (!(f->park && f->queue[i].kind == WORKER_DO_EXCHANGE)) {
                candidates[count++] = i;
            }
        }
        if (count > 0) {
            answer(f, candidates[rng_below(seed, n, count)]);
        } else if (f->timer_ms != 0) {
            f->now_ms = f->timer_ms > f->now_ms ? f->timer_ms : f->now_ms;
            f->timer_ms = 0;
            struct worker_event e = {.kind = WORKER_TIMER};
            feed(f, &e);
        } else {
            return;
        }
    }
    fail_msg("the worker never came to rest");
}

static void setup(struct fake *f, bool overlap)
{
    *f = (struct fake){.now_ms = 1, .generation = 1, .overlap = overlap};
    struct worker_config config = {
        .shard_count = SHARDS,
        .shape = {.records = 100, .batch_records = 10, .split_batches = 2},
    };
    f->worker = worker_new(&config);
}

static void teardown(struct fake *f)
{
    worker_free(f->worker);
    worker_actions_release(&f->actions);
}

static void assign_sync(struct fake *f, uint64_t generation, uint32_t replicas, uint32_t first,
                        uint32_t end, uint64_t step, uint64_t limit)
{
    struct ledger ledger = {0};
    struct ledger_shape shape = {.records = 100, .batch_records = 10, .split_batches = 2};
    assert_int_equal(ledger_init(&ledger, &shape, 0, NULL), 0);
    struct worker_event e = {
        .kind = WORKER_ASSIGN,
        .tag = 1,
        .assign = {.generation = generation,
                   .consistency = {.mode = TRAINING_SYNC,
                                   .replicas = replicas,
                                   .aggregate = replicas},
                   .replica_first = first,
                   .replica_end = end,
                   .step = step,
                   .step_limit = limit,
                   .ledger = &ledger},
    };
    feed(f, &e);
    ledger_release(&ledger);
}

static void assign_async(struct fake *f, uint64_t generation, enum training_mode mode, bool hold)
{
    struct ledger ledger = {0};
    struct ledger_shape shape = {.records = 100, .batch_records = 10, .split_batches = 2};
    assert_int_equal(ledger_init(&ledger, &shape, 0, NULL), 0);
    struct worker_event e = {
        .kind = WORKER_ASSIGN,
        .tag = 1,
        .assign = {.generation = generation,
                   .consistency = {.mode = mode,
                                   .replicas = 1,
                                   .aggregate = 1,
                                   .push_every = 1,
                                   .pull_every = 1,
                                   .overlap = f->overlap},
                   .ledger = &ledger,
                   .hold = hold},
    };
    for (uint32_t k = 0; k < f->split_next; k++) { /* its leases, as the master's books have them */
        if (!f->split_reported[k] && e.assign.lease_count < WORKER_LEASES_MAX) {
            e.assign.leases[e.assign.lease_count++] =
                (struct worker_lease){.split = k, .batch_end = f->split_batches};
        }
    }
    feed(f, &e);
    ledger_release(&ledger);
}

static void test_sync_runs_to_its_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct fake f;
        setup(&f, false);
        assign_sync(&f, 1, 2, 0, 2, 0, 5);
        run(&f, seed);
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
        assign_sync(&f, 1, 2, 0, 2, 0, 7);
        assert_int_equal(f.queue[0].kind, WORKER_DO_COMPUTE);
        run(&f, seed);
        assert_int_equal(f.position_reported, 7);
        assert_int_equal(f.idle_reports, 2);
        teardown(&f);
    }
}

/* Replicas [1, 4) of 5: nodes [1, 2) and [2, 4), each pushed once; the last also pulls. */
static void test_sync_pushes_nodes_of_the_tree(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    assign_sync(&f, 1, 5, 1, 4, 0, 1);
    run(&f, 3);
    assert_int_equal(f.computed, 3);
    assert_int_equal(f.added, 1);
    assert_int_equal(f.applied[0], 2);
    teardown(&f);
}

/* 10 batches, 4 replicas: step 2 has two batches for four replicas, the rest is empty. */
static void test_sync_end_of_epoch(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    assign_sync(&f, 1, 4, 2, 4, 2, 3);
    run(&f, 0);
    assert_int_equal(f.computed, 0);
    assert_int_equal(f.applied[0], 1);
    assert_int_equal(f.last_push[0].examples, 0);
    assert_int_equal(f.last_push[0].slot, WORKER_SLOT_NONE);
    assert_int_equal(f.position_reported, 3);
    teardown(&f);
}

static void test_sync_new_generation(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    assign_sync(&f, 1, 2, 0, 1, 0, 100);
    f.park = true;
    run(&f, 0);
    assert_int_equal(f.computed, 0); /* waits for the first pull */
    f.generation = 2;                /* the shards fence the old one */
    f.park = false;
    run(&f, 0);
    assert_int_equal(f.computed, 0);
    f.version[0] = 7;
    f.version[1] = 7;
    assign_sync(&f, 2, 2, 0, 2, 7, 9);
    assert_int_equal(f.reply_code, 0);
    run(&f, 0);
    assert_int_equal(f.computed, 4);
    assert_int_equal(f.last_push[1].generation, 2);
    assert_int_equal(f.last_push[1].step, 8);
    assign_sync(&f, 1, 2, 0, 2, 0, 9);
    assert_int_equal(f.reply_code, ERR_ABORTED);
    teardown(&f);
}

static void test_errors_are_retried(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    f.fail_exchanges = 20;
    f.fail_code = ERR_UNAVAILABLE;
    assign_sync(&f, 1, 1, 0, 1, 0, 3);
    run(&f, 1);
    assert_int_equal(f.position_reported, 3);
    assert_true(f.now_ms > WORKER_BACKOFF_MS_MIN);
    assert_int_equal(f.failures, 0);
    teardown(&f);
}

static void test_an_error_that_stays_fails_the_job(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    f.fail_exchanges = 1;
    f.fail_code = ERR_INVALID;
    assign_sync(&f, 1, 1, 0, 1, 0, 3);
    run(&f, 1);
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.computed, 0);
    teardown(&f);
}

static void test_hold(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    assign_sync(&f, 1, 1, 0, 1, 0, 1000);
    for (int i = 0; i < 21; i++) {
        answer(&f, 0);
    }
    struct worker_event e = {
        .kind = WORKER_ASSIGN,
        .tag = 2,
        .assign = {.generation = 1, .replica_end = 1, .hold = true},
    };
    feed(&f, &e);
    uint64_t position = f.reply_position;
    run(&f, 0);
    assert_int_equal(f.position_reported, position);
    assert_int_equal(f.computed, position);
    assert_int_equal(f.idle_reports, 1);
    assign_sync(&f, 1, 1, 0, 1, 0, position + 2);
    run(&f, 0);
    assert_int_equal(f.position_reported, position + 2);
    teardown(&f);
}

static void test_async_takes_every_batch_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fake f;
        setup(&f, seed % 2 == 0);
        f.splits = 5;
        f.split_batches = 2;
        assign_async(&f, 1, seed % 3 == 0 ? TRAINING_BOUNDED : TRAINING_ASYNC, false);
        run(&f, seed);
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
        teardown(&f);
    }
}

/* A split that somebody else began: from the lowest progress of the shards on. */
static void test_async_takes_over(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, true);
    f.splits = 2;
    f.split_batches = 2;
    f.progress[0][0] = 1;
    f.progress[1][0] = 1;
    f.progress[0][1] = 2;
    f.progress[1][1] = 2;
    assign_async(&f, 1, TRAINING_ASYNC, false);
    run(&f, 5);
    assert_int_equal(f.computed, 1);
    assert_int_equal(f.splits_reported, 2);
    teardown(&f);
}

/* Other workers come and go: this one keeps its splits, and none is left half done. */
static void test_async_keeps_its_leases(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct fake f;
        setup(&f, seed % 2 == 0);
        f.splits = 5;
        f.split_batches = 2;
        assign_async(&f, 1, TRAINING_ASYNC, false);
        for (uint64_t g = 2; g <= 4; g++) {
            for (uint64_t n = 0; n < 4 + seed % 11 && f.queued > 0; n++) {
                answer(&f, rng_below(seed + g, n, f.queued));
            }
            f.generation = g;
            assign_async(&f, g, TRAINING_ASYNC, false);
        }
        run(&f, seed);
        for (int s = 0; s < SHARDS; s++) {
            for (int k = 0; k < 5; k++) {
                assert_int_equal(f.progress[s][k], 2);
            }
        }
        assert_int_equal(f.splits_reported, 5);
        assert_int_equal(f.failures, 0);
        teardown(&f);
    }
}

static void test_async_hold_gives_back(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, true);
    f.splits = 5;
    f.split_batches = 2;
    assign_async(&f, 1, TRAINING_ASYNC, false);
    for (int i = 0; i < 6; i++) {
        answer(&f, 0);
    }
    assign_async(&f, 1, TRAINING_ASYNC, true);
    run(&f, 0);
    assert_true(f.computed < 10);
    assert_int_equal(f.applied[0], f.computed);
    assert_int_equal(f.applied[1], f.computed);
    assert_int_equal(f.idle_reports, 1);
    teardown(&f);
}

/* Others may wait at the shards for a worker that holds; it must not count among the slowest. */
static void test_bounded_hold_lets_others_pass(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, true);
    f.splits = 5;
    f.split_batches = 2;
    assign_async(&f, 1, TRAINING_BOUNDED, false);
    for (int i = 0; i < 6; i++) {
        answer(&f, 0);
    }
    size_t before = f.idle_told; /* while it had no lease */
    assign_async(&f, 1, TRAINING_BOUNDED, true);
    run(&f, 0);
    assert_true(f.computed < 10);
    assert_int_equal(f.applied[0], f.computed);
    assert_int_equal(f.idle_told, before + 2); /* each shard once */
    assert_int_equal(f.idle_reports, 1);
    teardown(&f);
}

static void evaluate(struct fake *f, const char *pin, uint64_t first)
{
    struct worker_event e = {
        .kind = WORKER_EVALUATE, .tag = 9, .pin_id = pin, .first = first, .count = 10};
    feed(f, &e);
}

static void test_evaluation_between_batches(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct fake f;
        setup(&f, false);
        assign_sync(&f, 1, 1, 0, 1, 0, 6);
        evaluate(&f, "p1", 0);
        evaluate(&f, "p1", 10);
        evaluate(&f, "p2", 0);
        run(&f, seed);
        assert_int_equal(f.evaluated, 3);
        assert_int_equal(f.computed, 6);
        assert_int_equal(f.failed_evaluations, 0);
        teardown(&f);
    }
}

static void test_evaluation_that_cannot_pull(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    f.fail_exchanges = 1;
    f.fail_code = ERR_NOT_FOUND;
    evaluate(&f, "gone", 0);
    evaluate(&f, "gone", 10);
    run(&f, 2);
    assert_int_equal(f.failed_evaluations, 1);
    assert_int_equal(f.evaluated, 1);
    struct worker_event stop = {.kind = WORKER_STOP};
    feed(&f, &stop);
    evaluate(&f, "late", 0);
    assert_int_equal(f.failed_evaluations, 2);
    teardown(&f);
}

/* Answers come in after the stop too: the loop runs what was posted before it. */
static void test_answers_after_the_stop(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    assign_sync(&f, 1, 1, 0, 1, 0, 6);
    evaluate(&f, "p1", 0);
    evaluate(&f, "p1", 10);
    struct worker_event stop = {.kind = WORKER_STOP};
    feed(&f, &stop);
    assert_int_equal(f.failed_evaluations, 2);
    f.fail_exchanges = 2 * SHARDS; /* of the pulls for training and for the evaluation */
    f.fail_code = ERR_INVALID;
    run(&f, 3);
    assert_int_equal(f.failures, 0);
    assert_int_equal(f.failed_evaluations, 2);
    assert_int_equal(f.computed, 0);
    assign_sync(&f, 2, 1, 0, 1, 0, 6);
    assert_int_equal(f.reply_code, ERR_CANCELLED);
    run(&f, 3);
    assert_int_equal(f.queued, 0);
    teardown(&f);
}

/* Two shards refuse: the master is told once, and whoever waits for an evaluation is answered. */
static void test_a_job_fails_once(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    f.fail_exchanges = SHARDS;
    f.fail_code = ERR_INTERNAL;
    assign_sync(&f, 1, 1, 0, 1, 0, 3);
    evaluate(&f, "p1", 0);
    run(&f, 0);
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.failed_evaluations, 1);
    assert_int_equal(f.evaluated, 0);
    teardown(&f);
}

static void test_a_failure_is_told_until_it_is_heard(void **state)
{
    (void)state;
    struct fake f;
    setup(&f, false);
    assign_sync(&f, 1, 1, 0, 1, 0, 3);
    f.queued = 0;
    struct worker_event failed = {
        .kind = WORKER_FAIL, .code = ERR_EXHAUSTED, .message = "no memory for gradients"};
    feed(&f, &failed);
    assert_int_equal(f.failures, 1);
    struct worker_event reported = {.kind = WORKER_FAILURE_REPORTED, .code = ERR_UNAVAILABLE};
    for (size_t i = 1; i <= 5; i++) {
        feed(&f, &reported);
        assert_true(f.timer_ms > f.now_ms);
        f.now_ms = f.timer_ms;
        struct worker_event timer = {.kind = WORKER_TIMER};
        feed(&f, &timer);
        feed(&f, &timer); /* one that comes early says nothing */
        assert_int_equal(f.failures, 1 + i);
    }
    assert_int_equal(f.failures_again, 5);
    reported.code = 0;
    f.timer_ms = 0;
    feed(&f, &reported);
    assert_int_equal(f.timer_ms, 0);
    assert_int_equal(f.queued, 0);
    teardown(&f);
}

static void test_a_lease_of_what_is_not_there(void **state)
{
    (void)state;
    static const struct {
        uint32_t split, batch_end;
    } cases[] = {{5, 1}, {0, 3}, {UINT32_MAX, UINT32_MAX}, {4, UINT32_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake f;
        setup(&f, true);
        assign_async(&f, 1, TRAINING_ASYNC, false);
        assert_int_equal(f.queue[0].kind, WORKER_DO_LEASE);
        struct worker_event lease = {
            .kind = WORKER_LEASED,
            .generation = 1,
            .lease = WORKER_LEASE_GRANTED,
            .granted = {.split = cases[i].split, .batch_end = cases[i].batch_end}};
        f.queued = 0;
        feed(&f, &lease);
        assert_int_equal(f.failures, 1);
        assert_int_equal(f.queued, 0);
        teardown(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_runs_to_its_limit),
        cmocka_unit_test(test_sync_pushes_nodes_of_the_tree),
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
        cmocka_unit_test(test_a_failure_is_told_until_it_is_heard),
        cmocka_unit_test(test_a_lease_of_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
