/* SPDX-License-Identifier: Apache-2.0 */
/* One worker's core and a test that plays everybody else, action by action. */
#ifndef GRADUS_TESTS_UNIT_WORKER_SCRIPT_H
#define GRADUS_TESTS_UNIT_WORKER_SCRIPT_H

#include "support/test.h"

#include <string.h>

#include "unit/worker/asked.h"

#define SCRIPT_SHARDS 2
#define SCRIPT_OPEN_MAX 256

struct script {
    struct worker *worker;
    struct worker_actions actions;
    struct worker_action open[SCRIPT_OPEN_MAX]; /* not answered yet, oldest first; pushes that go
                                                   with a computation stand behind it */
    size_t open_count;
    size_t adds, failures;
    char failure[256];
    struct worker_do_reply reply; /* to the last assignment */
    struct worker_do_add add;     /* the last one */
    uint64_t now_ms, timer_ms;
    struct ledger ledger;
};

void script_open(struct script *t, const struct worker_action *a);
void script_feed(struct script *t, struct worker_event e);
void script_begin_rounds(struct script *t, uint32_t split_batches, uint32_t rounds);
/* Steps go in rounds of sums from this one on. */
void script_begin_rounds_from(struct script *t, uint32_t split_batches, uint32_t rounds,
                              uint64_t version);
void script_begin(struct script *t, uint32_t split_batches);
void script_begin_tables(struct script *t, uint32_t split_batches); /* the model has some */
void script_end(struct script *t);
void script_assign(struct script *t, const struct worker_assignment *a);
void script_timer(struct script *t);
/* The oldest open action of @kind is taken out of the list; the test fails if there is none. */
struct worker_action script_take(struct script *t, enum worker_action_kind kind);
/* The oldest exchange with @shard. */
struct asked script_exchange(struct script *t, uint32_t shard);
struct asked script_take_exchange(struct script *t);
/* What the @i-th open action, an exchange, asks for. */
struct asked script_asked(const struct script *t, size_t i);
size_t script_count(const struct script *t, enum worker_action_kind kind);
struct worker_event script_answer_of(const struct asked *a, uint64_t version,
                                     enum push_result push);
void script_answer(struct script *t, const struct asked *a, uint64_t version,
                   enum push_result push);
void script_refuse(struct script *t, const struct asked *a, int code);
/* Both shards answer their oldest exchange. */
void script_answer_both(struct script *t, uint64_t version, enum push_result push);
struct worker_do_compute script_compute(struct script *t);
/* The next report of progress, made now and heard. */
struct worker_do_report_progress script_report(struct script *t);

#endif
