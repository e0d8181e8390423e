/* SPDX-License-Identifier: Apache-2.0 */
/* What an exchange asks for, flat: a test looks at a few fields of it, whatever its kind. */
#ifndef GRADUS_TESTS_UNIT_WORKER_ASKED_H
#define GRADUS_TESTS_UNIT_WORKER_ASKED_H

#include "worker/core/worker.h"

enum asked_pull {
    ASKED_PULL_NONE,
    ASKED_PULL_LATEST,
    ASKED_PULL_VERSION,
    ASKED_PULL_AT_LEAST,
    ASKED_PULL_PINNED,
};

struct asked {
    uint64_t exchange;
    uint32_t shard;
    uint64_t generation;
    bool push, idle, early;
    uint64_t step; /* of the push, the spare replica, the sums or the totals */
    uint32_t replica_first, replica_end;
    struct {
        uint64_t epoch;
        uint32_t split, batch;
    } batch; /* of the push; without one of the pull */
    uint32_t batch_end;
    uint64_t examples, base_version;
    bool decided, spare;
    enum asked_pull pull;
    uint64_t version; /* that it pulls */
    bool progress, joins;
    uint64_t clock;
    bool has_decision;
    uint64_t decision_step;
    const uint8_t *decision;
    size_t decision_bytes;
    bool ask_spare, ask_sums, totals;
    uint32_t round;
    enum worker_set set;
    uint32_t slot;
};

static inline enum asked_pull asked_pull(const struct exchange_request *q)
{
    static const enum asked_pull kinds[] = {[PULL_LATEST] = ASKED_PULL_LATEST,
                                            [PULL_VERSION] = ASKED_PULL_VERSION,
                                            [PULL_AT_LEAST] = ASKED_PULL_AT_LEAST};
    return q->kind == EXCHANGE_PINNED ? ASKED_PULL_PINNED
           : q->has_pull              ? kinds[q->pull.kind]
                                      : ASKED_PULL_NONE;
}

static inline struct asked asked_of(const struct worker_request *r)
{
    const struct exchange_request *q = &r->ask;
    const struct exchange_round *of = q->kind == EXCHANGE_TOTALS ? &q->totals.of : &q->sums;
    return (struct asked){
        .exchange = r->exchange,
        .shard = r->shard,
        .generation = r->generation,
        .push = q->has_push,
        .idle = q->idle,
        .early = r->early,
        .step = q->has_push                 ? q->push.step
                : q->kind == EXCHANGE_SPARE ? q->spare_step
                                            : of->step,
        .replica_first = q->push.replica_first,
        .replica_end = q->push.replica_end,
        .batch = {.epoch = q->has_push ? q->push.epoch : q->pull.epoch,
                  .split = q->has_push ? q->push.split : q->pull.split,
                  .batch = q->push.batch},
        .batch_end = q->push.batch_end,
        .examples = q->push.examples,
        .base_version = q->push.base_version,
        .decided = q->push.decided,
        .spare = q->push.spare,
        .pull = asked_pull(q),
        .version = q->pull.version,
        .progress = q->pull.progress,
        .joins = q->pull.joins,
        .clock = q->has_push ? q->push.clock : q->pull.clock,
        .has_decision = q->has_decision,
        .decision_step = q->decision.step,
        .decision = q->decision.replicas,
        .decision_bytes = q->decision.bytes,
        .ask_spare = q->kind == EXCHANGE_SPARE,
        .ask_sums = q->kind == EXCHANGE_SUMS,
        .totals = q->kind == EXCHANGE_TOTALS,
        .round = of->round,
        .set = r->set,
        .slot = r->slot,
    };
}

#endif
