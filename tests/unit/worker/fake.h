/* SPDX-License-Identifier: Apache-2.0 */
/* One worker's core against a small cluster that answers everything, in random order, under virtual
 * time. */
#ifndef GRADUS_TESTS_UNIT_WORKER_FAKE_H
#define GRADUS_TESTS_UNIT_WORKER_FAKE_H

#include "support/test.h"

#include <string.h>

#include "base/rng.h"
#include "unit/worker/asked.h"

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
    uint64_t failure_generation;
    bool split_reported[64];
    struct asked last_push[SHARDS];
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

void queue_up(struct fake *f, const struct worker_action *a);
void take_actions(struct fake *f);
/* What action @i of the queue, an exchange, asks for. */
struct asked fake_asked_at(const struct fake *f, size_t i);
void fake_feed(struct fake *f, struct worker_event *event);
void answer_exchange(struct fake *f, const struct asked *a);
bool is_named(const struct worker_do_lease *a, uint32_t split);
/* As the master: what the worker should have and does not name is given again; two at a time. */
void fake_answer_lease(struct fake *f, const struct worker_do_lease *a);
void fake_answer(struct fake *f, size_t i);

/* Answer everything, in an order drawn from @seed, until the worker is still. Timers fire when
 * nothing else is left. */
void fake_run(struct fake *f, uint64_t seed);
void fake_setup(struct fake *f, bool overlap);
void fake_teardown(struct fake *f);
void fake_assign_sync(struct fake *f, uint64_t generation, uint32_t replicas, uint32_t first,
                      uint32_t end, uint64_t step, uint64_t limit);
void fake_assign_async(struct fake *f, uint64_t generation, enum training_mode mode, bool hold);

#endif
