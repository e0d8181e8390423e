/* SPDX-License-Identifier: Apache-2.0 */
/* The random answers that a worker's core gets. */
#include "fake.h"

void queue_up(struct fake *f, const struct worker_action *a)
{
    assert_true(f->queued < QUEUE_MAX);
    f->queue[f->queued++] = *a;
}

void take_actions(struct fake *f)
{
    for (size_t i = 0; i < f->actions.count; i++) {
        const struct worker_action *a = &f->actions.items[i];
        switch (a->kind) {
        case WORKER_DO_REPLY_ASSIGN:
            f->reply_code = a->reply.code;
            f->reply_position = a->reply.position;
            break;
        case WORKER_DO_TIMER:
            f->timer_ms = a->timer_ms;
            break;
        case WORKER_DO_ADD:
            f->added++;
            break;
        case WORKER_DO_FAIL_EVALUATE:
            f->failed_evaluations++;
            break;
        case WORKER_DO_FAIL_JOB:
            f->failures++;
            f->failures_again += a->fail_job.again ? 1 : 0;
            f->failure_generation = a->fail_job.generation;
            break;
        case WORKER_DO_PREFETCH:
            break;
        default:
            queue_up(f, a);
            for (size_t k = 0; a->kind == WORKER_DO_COMPUTE && k < a->compute.push_count; k++) {
                const struct worker_action push = {.kind = WORKER_DO_EXCHANGE,
                                                   .exchange = a->compute.pushes[k]};
                queue_up(f, &push);
            }
            break;
        }
    }
    f->actions.count = 0;
}

/* What action @i of the queue, an exchange, asks for. */
struct asked fake_asked_at(const struct fake *f, size_t i)
{
    assert_int_equal(f->queue[i].kind, WORKER_DO_EXCHANGE);
    return asked_of(&f->queue[i].exchange);
}

void fake_feed(struct fake *f, struct worker_event *event)
{
    event->now_ms = f->now_ms;
    worker_step(f->worker, event, &f->actions);
    take_actions(f);
}

void answer_exchange(struct fake *f, const struct asked *a)
{
    struct worker_event event = {.kind = WORKER_EXCHANGED, .exchanged.exchange = a->exchange};
    struct worker_exchanged *e = &event.exchanged;
    if (a->generation < f->generation && a->pull != ASKED_PULL_PINNED) {
        e->code = ERR_ABORTED;
        fake_feed(f, &event);
        return;
    }
    if (f->fail_exchanges > 0) {
        f->fail_exchanges--;
        e->code = f->fail_code;
        e->message = "told to fail";
        fake_feed(f, &event);
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
    e->version = a->pull == ASKED_PULL_VERSION ? a->version : f->version[a->shard];
    if (a->pull == ASKED_PULL_VERSION && f->version[a->shard] < a->version) {
        f->version[a->shard] = a->version;
    }
    if (a->progress) {
        e->answer.train.progress = f->progress[a->shard][a->batch.split];
    }
    fake_feed(f, &event);
}

bool is_named(const struct worker_do_lease *a, uint32_t split)
{
    for (size_t i = 0; i < a->held_count; i++) {
        if (a->held[i].split == split) {
            return true;
        }
    }
    return false;
}

/* As the master: what the worker should have and does not name is given again; two at a time. */
void fake_answer_lease(struct fake *f, const struct worker_do_lease *a)
{
    struct worker_event event = {.kind = WORKER_LEASED, .leased.generation = a->generation};
    struct worker_leased *e = &event.leased;
    if (a->generation < f->generation) {
        e->code = ERR_ABORTED;
        fake_feed(f, &event);
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
        e->kind = WORKER_LEASE_GRANTED;
        e->granted = (struct worker_lease){.split = lost, .batch_end = f->split_batches};
    } else if (f->split_next == f->splits) {
        e->kind = WORKER_LEASE_DONE;
    } else if (out >= WORKER_LEASES_MAX) {
        e->kind = WORKER_LEASE_WAIT;
    } else {
        e->kind = WORKER_LEASE_GRANTED;
        e->granted = (struct worker_lease){.split = f->split_next, .batch_end = f->split_batches};
        e->granted.fresh = f->progress[0][f->split_next] == 0 && f->progress[1][f->split_next] == 0;
        f->split_next++;
    }
    fake_feed(f, &event);
}

void fake_answer(struct fake *f, size_t i)
{
    struct worker_action a = f->queue[i];
    struct asked ask;
    memmove(f->queue + i, f->queue + i + 1, (--f->queued - i) * sizeof a);
    struct worker_event done = {.kind = WORKER_COMPUTED};
    struct worker_event split = {.kind = WORKER_SPLIT_REPORTED};
    struct worker_event progress = {.kind = WORKER_PROGRESS_REPORTED};
    switch (a.kind) {
    case WORKER_DO_COMPUTE:
        f->computed++;
        fake_feed(f, &done);
        break;
    case WORKER_DO_EVALUATE:
        f->evaluated++;
        fake_feed(f, &done);
        break;
    case WORKER_DO_EXCHANGE:
        ask = asked_of(&a.exchange);
        answer_exchange(f, &ask);
        break;
    case WORKER_DO_LEASE:
        fake_answer_lease(f, &a.lease);
        break;
    case WORKER_DO_REPORT_SPLIT:
        split.reported.generation = a.report_split.generation;
        if (split.reported.generation == f->generation) {
            f->splits_reported += f->split_reported[a.report_split.split] ? 0 : 1;
            f->split_reported[a.report_split.split] = true;
        } else {
            split.reported.code = ERR_ABORTED;
        }
        fake_feed(f, &split);
        break;
    case WORKER_DO_REPORT_PROGRESS:
        f->reports++;
        f->idle_reports += a.report_progress.idle ? 1 : 0;
        f->position_reported = a.report_progress.position;
        fake_feed(f, &progress);
        break;
    default:
        fail_msg("unexpected action %d", (int)a.kind);
    }
}

/* Answer everything, in an order drawn from @seed, until the worker is still. Timers fire when
 * nothing else is left. */
void fake_run(struct fake *f, uint64_t seed)
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
            fake_answer(f, candidates[rng_below(seed, n, count)]);
        } else if (f->timer_ms != 0) {
            f->now_ms = f->timer_ms > f->now_ms ? f->timer_ms : f->now_ms;
            f->timer_ms = 0;
            struct worker_event e = {.kind = WORKER_TIMER};
            fake_feed(f, &e);
        } else {
            return;
        }
    }
    fail_msg("the worker never came to rest");
}

void fake_setup(struct fake *f, bool overlap)
{
    memset(f, 0, sizeof *f); /* of 4 MiB: no second one on the stack */
    f->now_ms = 1;
    f->generation = 1;
    f->overlap = overlap;
    struct worker_config config = {
        .generation = 1,
        .shard_count = SHARDS,
        .shape = {.records = 100, .batch_records = 10, .split_batches = 2},
    };
    f->worker = worker_new(&config);
}

void fake_teardown(struct fake *f)
{
    worker_free(f->worker);
    worker_actions_release(&f->actions);
}

void fake_assign_sync(struct fake *f, uint64_t generation, uint32_t replicas, uint32_t first,
                      uint32_t end, uint64_t step, uint64_t limit)
{
    struct ledger ledger = {0};
    struct ledger_shape shape = {.records = 100, .batch_records = 10, .split_batches = 2};
    assert_int_equal(ledger_init(&ledger, &shape, 0, NULL), 0);
    struct worker_event e = {
        .kind = WORKER_ASSIGN,
        .assign = {.tag = 1,
                   .assignment = {.generation = generation,
                                  .consistency = {.mode = TRAINING_SYNC,
                                                  .replicas = replicas,
                                                  .aggregate = replicas},
                                  .replica_first = first,
                                  .replica_end = end,
                                  .step = step,
                                  .step_limit = limit,
                                  .ledger = &ledger}},
    };
    fake_feed(f, &e);
    ledger_release(&ledger);
}

void fake_assign_async(struct fake *f, uint64_t generation, enum training_mode mode, bool hold)
{
    struct ledger ledger = {0};
    struct ledger_shape shape = {.records = 100, .batch_records = 10, .split_batches = 2};
    assert_int_equal(ledger_init(&ledger, &shape, 0, NULL), 0);
    struct worker_event e = {
        .kind = WORKER_ASSIGN,
        .assign = {.tag = 1,
                   .assignment = {.generation = generation,
                                  .consistency = {.mode = mode,
                                                  .replicas = 1,
                                                  .aggregate = 1,
                                                  .push_every = 1,
                                                  .pull_every = 1,
                                                  .overlap = f->overlap},
                                  .ledger = &ledger,
                                  .hold = hold}},
    };
    struct worker_assignment *a = &e.assign.assignment;
    for (uint32_t k = 0; k < f->split_next; k++) { /* its leases, as the master's books have them */
        if (!f->split_reported[k] && a->lease_count < WORKER_LEASES_MAX) {
            a->leases[a->lease_count++] =
                (struct worker_lease){.split = k, .batch_end = f->split_batches};
        }
    }
    fake_feed(f, &e);
    ledger_release(&ledger);
}
