/* SPDX-License-Identifier: Apache-2.0 */
/* Leads the workers of a job through its steps: gives them work up to a limit, and sees when all
 * stand there. Holds them before it when a client or a checkpoint needs that. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "job/progress/tree.h"
#include "master/core/core.h"

uint64_t train_step(const struct job *j)
{
    return job_is_sync(j) ? j->step_limit : step_map_step(&j->step_map, leases_batches(&j->leases));
}

void train_ledger(const struct job *j, uint64_t step, struct ledger *out)
{
    if (job_is_sync(j)) {
        step_map_ledger(&j->step_map, step, out);
    } else {
        ledger_copy(out, &j->leases.ledger);
    }
}

/* ---- assignments ---- */

static void ask(struct master *m, struct job *j, bool hold)
{
    calls_forget(&m->calls, j, MASTER_CALL_ASSIGN);
    uint32_t active = job_workers_active(j);
    for (size_t i = 0; i < j->worker_count; i++) {
        struct job_worker *w = &j->workers[i];
        w->assigned = w->started && active > 0;
        w->idle = false;
        w->held = false;
        if (!w->assigned) {
            continue;
        }
        active--;
        if (hold) {
            call_start_hold(m, j, w->node);
        } else {
            call_start(m, j, w->node, MASTER_CALL_ASSIGN, 0);
        }
    }
}

void train_assign(struct master *m, struct job *j)
{
    j->quiesced = false;
    ask(m, j, false);
}

void train_hold(struct master *m, struct job *j)
{
    j->leases.levelling = false;
    for (size_t i = 0; i < j->worker_count; i++) {
        train_park_clear(m, j, &j->workers[i], ERR_OK, NULL);
    }
    ask(m, j, true);
}

static void give_back_all(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        train_give_back(m, j, &j->workers[i]);
    }
}

/* A hold is broken. A worker that holds has dropped its leases, and its report of that may get
 * lost. A worker that does not hold goes on with its leases; what two workers compute is applied
 * once. */
void train_hold_broken(struct master *m, struct job *j)
{
    if (j->phase == PHASE_HOLD && train_leases(j)) {
        give_back_all(m, j);
    }
}

/* The highest step that a worker has begun; NO_STEP: one is still at work. Async and bounded:
 * whoever holds no lease, or says that it is idle, has nothing in hand. */
static uint64_t held_at(const struct job *j)
{
    uint64_t step = j->record.step;
    for (size_t i = 0; i < j->worker_count; i++) {
        const struct job_worker *w = &j->workers[i];
        if (w->assigned && !job_is_sync(j) && !w->idle && w->lease_count > 0) {
            return NO_STEP;
        }
        if (w->assigned && w->position > step) {
            step = w->position;
        }
    }
    return step;
}

bool train_hold_end(struct master *m, struct job *j)
{
    uint64_t step = calls_open(&m->calls, j, MASTER_CALL_ASSIGN) > 0 ? NO_STEP : held_at(j);
    if (step == NO_STEP) {
        return false;
    }
    if (!job_is_sync(j)) {
        give_back_all(m, j);
        j->quiesced = true; /* no worker is active: what the shards answer stays true */
        return true;
    }
    if (step > j->step_limit) {
        job_must_end(j, JOB_FAILED,
                     "a worker says it began step %" PRIu64 "; its limit was %" PRIu64, step,
                     j->step_limit);
        return false;
    }
    j->step_limit = step;
    j->hold_limit = true;
    for (size_t i = 0; i < j->worker_count; i++) {
        j->workers[i].from = j->workers[i].position; /* each worker goes on where it stands */
    }
    return true;
}

void train_assign_done(struct job *j, struct node *n, bool hold, uint64_t position)
{
    struct job_worker *w = job_worker_of(j, n);
    if (w == NULL) {
        return;
    }
    w->taken = j->record.generation; /* calls of older ones are forgotten */
    if (hold) {
        w->held = true;
        w->position = job_is_sync(j) ? position - j->version_shift : position;
    }
}

/* A worker that stands still although it should not has lost its last Assign to an older one that
 * came late, or its report was sent before that Assign; saying it again is right in both cases. */
void train_assign_idle(struct master *m, struct job *j, struct job_worker *w)
{
    if (j->phase != PHASE_TRAIN || !w->assigned || !w->idle ||
        (job_is_sync(j) && w->position >= j->step_limit)) {
        return;
    }
    if (calls_open_to(&m->calls, w->node, MASTER_CALL_ASSIGN)) {
        return;
    }
    w->idle = false;
    call_start(m, j, w->node, MASTER_CALL_ASSIGN, 0);
}

/* ---- what comes next ---- */

/* True if all workers are at the limit. A worker that holds the version at the limit has it from
 * every shard, and none can go beyond. Where no worker is late for long it is worth waiting for
 * all: their last reports come first. */
static bool are_at_limit(const struct job *j)
{
    size_t assigned = 0;
    size_t there = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        const struct job_worker *w = &j->workers[i];
        there += w->assigned && w->idle && w->position == j->step_limit;
        assigned += w->assigned;
    }
    return there > 0 && (there == assigned || consistency_is_nonblocking(&j->record.consistency));
}

/* Nothing may be computed before the next sync point is pinned. */
bool train_is_at_end(const struct job *j)
{
    return job_is_sync(j) ? are_at_limit(j) : job_is_pinning(j) || leases_epoch_done(&j->leases);
}

/* Async, bounded: the next evaluation is due, and all are to stand for it. */
static bool is_stop_due(const struct job *j)
{
    return !job_is_sync(j) && j->work == WORK_NONE && stop_wants_stand(j) &&
           train_step(j) >= j->next_evaluate;
}

/* True if all workers must stop soon: for a client, or (async, bounded) for a checkpoint within an
 * epoch, which is of one cut through all shards, or for an evaluation that may end the training. */
bool train_wants_hold(const struct job *j)
{
    return j->hold_checkpoint || j->hold_cancel || j->change != NULL || job_yields_now(j) ||
           (!job_is_sync(j) && j->work == WORK_NONE && train_step(j) >= j->next_checkpoint) ||
           is_stop_due(j);
}

/* The last step is done and pinned: no more leases. */
void train_over(struct master *m, struct job *j)
{
    j->over = true;
    calls_forget(&m->calls, j, MASTER_CALL_ASSIGN);
    train_no_more_leases(m, j);
}
