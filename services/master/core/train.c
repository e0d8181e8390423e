/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "job/progress/tree.h"
#include "master/core/core.h"

bool job_is_sync(const struct job *j)
{
    return j->record.consistency.mode == TRAINING_SYNC;
}

/* The first so many started workers have a share; the others stand by. */
uint32_t train_active(const struct job *j)
{
    size_t started = job_workers_started(j);
    uint32_t replicas = j->record.consistency.replicas;
    return job_is_sync(j) && started > replicas ? replicas : (uint32_t)started;
}

uint64_t train_step(const struct job *j)
{
    return job_is_sync(j) ? j->step_limit : course_step(&j->course, leases_batches(&j->leases));
}

void train_ledger(const struct job *j, uint64_t step, struct ledger *out)
{
    if (job_is_sync(j)) {
        course_ledger(&j->course, step, out);
    } else {
        ledger_copy(out, &j->leases.ledger);
    }
}

/* ---- assignments ---- */

static void ask(struct master *m, struct job *j, bool hold)
{
    calls_forget(&m->calls, j, MASTER_CALL_ASSIGN);
    uint32_t active = train_active(j);
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
    j->phase = PHASE_ASSIGN;
    j->standing = false;
    ask(m, j, false);
}

void train_begin(struct master *m, struct job *j)
{
    if (j->regroup_needed) {
        train_regroup(m, j);
        return;
    }
    train_assign_from(j, j->course.step);
    train_assign(m, j);
}

static void hold_begin(struct master *m, struct job *j)
{
    j->phase = PHASE_HOLD;
    j->leases.levelling = false;
    for (size_t i = 0; i < j->worker_count; i++) {
        train_park_clear(m, j, &j->workers[i], ERR_OK, NULL);
    }
    ask(m, j, true);
}

/* Sync: all answered: run to the highest step that one of them has begun. Async and bounded:
 * whoever holds no lease, or says that it is idle, has nothing in hand. */
static void hold_check(struct master *m, struct job *j)
{
    if (calls_open(&m->calls, j, MASTER_CALL_ASSIGN) > 0) {
        return;
    }
    uint64_t step = j->record.step;
    for (size_t i = 0; i < j->worker_count; i++) {
        struct job_worker *w = &j->workers[i];
        if (w->assigned && !job_is_sync(j) && !w->idle && w->lease_count > 0) {
            return;
        }
        if (w->assigned && w->position > step) {
            step = w->position;
        }
    }
    if (!job_is_sync(j)) {
        for (size_t i = 0; i < j->worker_count; i++) {
            train_give_back(m, j, &j->workers[i]);
        }
        j->standing = true;
        train_regroup(m, j); /* nobody is at work: what the shards answer is how it stays */
        return;
    }
    if (step > j->step_limit) {
        job_end(m, j, JOB_FAILED, "a worker says it began step %" PRIu64 "; its limit was %" PRIu64,
                step, j->step_limit);
        return;
    }
    j->step_limit = step;
    j->hold_limit = true;
    for (size_t i = 0; i < j->worker_count; i++) {
        j->workers[i].from = j->workers[i].position; /* each goes on where it stands */
    }
    train_assign(m, j);
}

void train_assign_done(struct master *m, struct job *j, struct node *n, bool hold,
                       uint64_t position)
{
    struct job_worker *w = job_worker_of(j, n);
    if (w == NULL) {
        return;
    }
    w->taken = j->record.generation; /* calls of older ones are forgotten */
    if (hold) {
        w->held = true;
        w->position = job_is_sync(j) ? position - j->version_shift : position;
        hold_check(m, j);
    } else if (j->phase == PHASE_ASSIGN && calls_open(&m->calls, j, MASTER_CALL_ASSIGN) == 0) {
        j->phase = PHASE_TRAIN;
        job_changed(m, j);
        train_check(m, j);
    }
}

/* A worker that stands still although it should not has lost its last Assign to an older one that
 * came late, or its report was sent before that Assign; saying it again is right in both cases. */
void train_stands(struct master *m, struct job *j, struct job_worker *w)
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

/* Whoever holds the version at the limit has it from every shard, and none can go beyond. Where no
 * worker is late for long it is worth waiting for all: their last reports come first. */
static bool are_at_limit(const struct job *j)
{
    size_t assigned = 0;
    size_t there = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        const struct job_worker *w = &j->workers[i];
        there += w->assigned && w->idle && w->position == j->step_limit;
        assigned += w->assigned;
    }
    return there > 0 && (there == assigned || consistency_is_loose(&j->record.consistency));
}

/* A milestone at which all stand is being pinned. */
static bool is_pinning(const struct job *j)
{
    return j->work == WORK_PIN && j->milestone.stand;
}

/* Nothing may be computed before the next milestone is pinned. */
static bool is_at_end(const struct job *j)
{
    return job_is_sync(j) ? are_at_limit(j) : is_pinning(j) || leases_epoch_done(&j->leases);
}

/* All must stop soon: for a client, or (async, bounded) for a checkpoint within an epoch, which is
 * of one cut through all shards. */
static bool wants_hold(const struct job *j)
{
    return j->hold_checkpoint || j->hold_cancel || j->change != NULL ||
           (!job_is_sync(j) && j->work == WORK_NONE && train_step(j) >= j->next_checkpoint);
}

static void go_on_async(struct master *m, struct job *j)
{
    if (j->work == WORK_NONE && !j->leases.levelling && train_step(j) >= j->next_evaluate) {
        milestone_begin(m, j, false);
    }
    train_grant(m, j);
}

/* Called after whatever may let the job go on; doing it once too often changes nothing. */
void train_check(struct master *m, struct job *j)
{
    if (j->record.state != JOB_RUNNING) {
        return;
    }
    if (j->phase == PHASE_HOLD) {
        hold_check(m, j);
        return;
    }
    if (j->phase == PHASE_TRAIN) {
        bool level = !j->leases.levelling || leases_level(&j->leases);
        if (is_at_end(j) && level) {
            j->leases.levelling = false;
            j->phase = PHASE_STAND;
        } else if (level && (wants_hold(j) || j->leases.levelling) && !j->hold_limit &&
                   !is_pinning(j)) {
            hold_begin(m, j);
        } else if (!job_is_sync(j)) {
            go_on_async(m, j);
        }
    }
    if (j->phase == PHASE_STAND && j->work == WORK_NONE) {
        progress_step(m, j, train_step(j));
        milestone_begin(m, j, true);
    }
}

/* Nothing is due where the job stands, or it is pinned. */
void train_on(struct master *m, struct job *j)
{
    if (job_is_sync(j)) {
        if (j->phase == PHASE_STAND && j->change != NULL) {
            change_begin(m, j);
            return;
        }
        j->step_limit = milestone_next(j, j->step_limit);
        if (j->phase == PHASE_STAND || j->phase == PHASE_ASSIGN || j->phase == PHASE_TRAIN) {
            train_assign_from(j, j->milestone.step);
            train_assign(m, j);
        }
        return;
    }
    if (leases_epoch_done(&j->leases)) {
        leases_next_epoch(&j->leases);
    }
    if (j->phase != PHASE_STAND) {
        return;
    }
    if (j->change != NULL && !j->standing) {
        j->standing = true; /* at the end of an epoch nobody was asked to hold */
        train_regroup(m, j);
        return;
    }
    if (j->change != NULL) {
        change_begin(m, j);
        return;
    }
    if (j->standing) {
        train_assign(m, j);
        return;
    }
    j->phase = PHASE_TRAIN;
    train_check(m, j);
}

/* The last step is done and pinned: no more leases. */
void train_over(struct master *m, struct job *j)
{
    j->over = true;
    if (j->record.state == JOB_RUNNING) {
        j->phase = PHASE_FINISH;
    }
    calls_forget(&m->calls, j, MASTER_CALL_ASSIGN);
    train_no_more_leases(m, j);
}

/* ---- requests of workers ---- */

/* The sender's place in the job, or NULL after an error reply. */
struct job_worker *train_sender(struct master *m, const struct master_event *e, struct job **job)
{
    const struct master_worker_event *ask = &e->worker;
    struct node *n = node_find(m, ask->node, ask->incarnation);
    if (n == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "this master does not know the node; join again");
        return NULL;
    }
    n->heartbeat_ms = m->now_ms; /* as good as a heartbeat */
    struct job *j = job_find(m, ask->job);
    struct job_worker *w = j == NULL ? NULL : job_worker_of(j, n);
    if (w == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "node %s does not serve job %.128s", n->id,
                    ask->job);
        return NULL;
    }
    *job = j;
    return w;
}

/* True when the request is of the present generation; else it is answered. */
bool train_is_present(struct master *m, const struct job *j, const struct master_event *e)
{
    if (e->worker.generation == j->record.generation) {
        return true;
    }
    reply_error(m, e->request, ERR_ABORTED,
                "job %s is in generation %" PRIu64 "; the request is of %" PRIu64, j->record.id,
                j->record.generation, e->worker.generation);
    return false;
}

void on_report_failure(struct master *m, const struct master_event *e)
{
    struct job *j = NULL;
    struct job_worker *w = train_sender(m, e, &j);
    if (w == NULL || (!MUTANT(failure_of_any_generation) && !train_is_present(m, j, e))) {
        return;
    }
    reply_add(m, e->request);
    const char *why = action_printf(m, "worker %s: %s (%s)", w->node->id, e->worker.message,
                                    err_code_name(e->worker.code));
    if (e->worker.code == ERR_EXHAUSTED) { /* of this process: others may have the memory */
        job_leave_out(m, j, w->node, false, why);
    } else {
        job_end(m, j, JOB_FAILED, "%s", why);
    }
}
