/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's request, flat. */
#include "asked.h"

static enum asked_pull asked_pull(const struct exchange_request *q)
{
    static const enum asked_pull kinds[] = {[PULL_LATEST] = ASKED_PULL_LATEST,
                                            [PULL_VERSION] = ASKED_PULL_VERSION,
                                            [PULL_AT_LEAST] = ASKED_PULL_AT_LEAST};
    return q->kind == EXCHANGE_PINNED ? ASKED_PULL_PINNED
           : q->has_pull              ? kinds[q->pull.kind]
                                      : ASKED_PULL_NONE;
}

struct asked asked_of(const struct worker_request *r)
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
        .buffer = r->buffer,
        .brings_rows = r->brings_rows,
        .rows_of = r->rows_of,
    };
}
