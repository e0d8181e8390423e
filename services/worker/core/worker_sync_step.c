/* SPDX-License-Identifier: Apache-2.0 */
/* One step of sync: its batches, its computations, its pushes, and the beginning of the next one.
 */
#include "base/mutant.h"
#include "worker/core/worker_state.h"

void worker_sync_batch(const struct worker *w, uint64_t step, uint32_t replica,
                       struct ledger_batch *out)
{
    ledger_sync_batch(&w->ledger, w->a.consistency.replicas, step - w->a.ledger_step, replica, out);
}

void worker_sync_step_begin(struct worker *w)
{
    struct sync_state *s = &w->sync;
    while (s->stack_count > 0) { /* others were faster with the sums that these would be part of */
        worker_buffer_drop(w, s->stack[--s->stack_count].buffer);
    }
    s->step_begun = false;
    s->replica_next = w->a.replica_first;
    s->next_pulled = false;
    s->step_over = false;
    s->lead_holds = 0;
    s->decision_sent = false;
    s->spare_given = false;
    s->spare_ask_ms = 0;
    s->spare_waits = false;
    s->spare_shard = WORKER_LEAD;
    s->level_ms = 0;
    s->steps_back = false;
    worker_sums_step_begin(w);
    s->own_spares = 0;
    for (uint32_t shard = 0; shard < w->config.shard_count; shard++) {
        w->heard[shard] = 0;
    }
    if (s->prefetch_step < w->position) {
        s->prefetch_step = w->position;
        s->prefetch_replica = w->a.replica_first;
    }
}

void worker_sync_compute(struct worker *w, enum computing what, uint32_t replica,
                         const struct ledger_batch *batch)
{
    w->computing_batch = *batch;
    w->computing_buffer = worker_buffer_take(w);
    w->computing = what;
    w->computing_step = w->position;
    w->computing_replica = replica;
    w->landing = false;
    struct worker_do_compute *compute = &worker_add(w, WORKER_DO_COMPUTE)->compute;
    compute->batch = *batch;
    compute->step = w->position;
    compute->replica = replica;
    compute->buffer = w->computing_buffer;
    compute->set = w->current;
    compute->generation = w->a.generation;
    compute->spare = what == COMPUTING_SPARE;
    worker_rows_needed(w, compute, MUTANT(rows_latest) ? ROWS_OF_LATEST : ROWS_OF_VERSION,
                       w->position > 0 && MUTANT(rows_of_last_step) ? w->position - 1
                                                                    : w->position);
}

void worker_sync_push(const struct worker *w, struct exchange_request *ask, struct tree_block node,
                      uint64_t examples)
{
    ask->has_push = true;
    ask->push = (struct exchange_push){
        .step = w->position,
        .replica_first = node.lo,
        .replica_end = node.hi,
        .epoch = w->computing_batch.epoch,
        .split = w->computing_batch.split,
        .batch = w->computing_batch.batch,
        .examples = examples,
    };
}
