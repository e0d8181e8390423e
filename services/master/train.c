#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "job/tree.h"
#include "master/core.h"

#define LEASE_WAIT_MS_MAX 9500 /* below the 10 s after which a worker gives the call up */

bool job_is_sync(const struct job *j)
{
    return j->spec.training.mode == TRAINING_SYNC;
}

static bool is_bound(const struct job *j)
{
    return j->has_spec && !job_is_sync(j) && j->leases.owners != NULL;
}

/* The first so many started workers have a share; the others stand by. */
uint32_t train_active(const struct job *j)
{
    size_t started = job_workers_started(j);
    return job_is_sync(j) && started > j->replicas ? j->replicas : (uint32_t)started;
}

uint64_t train_step(const struct job *j)
{
    return job_is_sync(j) ? j->step_limit
                          : leases_batches_before(&j->leases) + j->leases.done_batches;
}

/* ---- membership ---- */

/* Its leases go to others. */
void train_give_back(struct master *m, struct job *j, struct job_worker *w)
{
    while (w->split_count > 0) {
        leases_return(&j->leases, w->splits[--w->split_count], w->node->number);
        m->counts.leases_returned++;
    }
}

void train_park_clear(struct master *m, struct job *j, struct job_worker *w, int code,
                      const char *why)
{
    if (!w->parked) {
        return;
    }
    w->parked = false;
    if (code == ERR_OK) {
        reply_add(m, w->parked_request)->lease_kind = MASTER_LEASE_WAIT;
    } else {
        reply_error(m, w->parked_request, code, "job %s: %s", j->record.id, why);
    }
}

static void assign_from(struct job *j, uint64_t step)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        j->workers[i].from = step;
    }
}

/* Raise the generation and tell the shards who is there now. A round that is going on is overtaken.
 */
void train_regroup(struct master *m, struct job *j)
{
    calls_forget(m, j, MASTER_CALL_MEMBERSHIP);
    calls_forget(m, j, MASTER_CALL_ASSIGN);
    if (j->phase == PHASE_HOLD && is_bound(j)) {
        /* Who holds has dropped its leases, and the report of it may get lost. One that has not
         * goes on with them; what two compute is applied once. */
        for (size_t i = 0; i < j->worker_count; i++) {
            train_give_back(m, j, &j->workers[i]);
        }
    }
    j->record.generation++;
    j->regroup_needed = false;
    j->phase = PHASE_REGROUP;
    job_changed(m, j);
    action_log(m, LOG_LEVEL_INFO, "job_regroup", "job=%s generation=%" PRIu64 " workers=%zu",
               j->record.id, j->record.generation, job_workers_started(j));
    for (size_t i = 0; i < j->worker_count; i++) {
        train_park_clear(m, j, &j->workers[i], ERR_ABORTED, "a new generation has begun");
        j->workers[i].assigned = false;
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        call_start(m, j, j->shards[i].node, MASTER_CALL_MEMBERSHIP, (uint32_t)i);
    }
}

void train_membership_done(struct master *m, struct job *j)
{
    if (calls_open(m, j, MASTER_CALL_MEMBERSHIP) > 0) {
        return;
    }
    calls_unblock(m, j);
    if (j->phase != PHASE_REGROUP) {
        return; /* the last worker was lost meanwhile */
    }
    if (job_is_sync(j)) {
        uint64_t lowest = UINT64_MAX;
        uint64_t highest = 0;
        for (size_t i = 0; i < j->shard_count; i++) {
            lowest = j->shards[i].version < lowest ? j->shards[i].version : lowest;
            highest = j->shards[i].version > highest ? j->shards[i].version : highest;
        }
        if (highest > j->step_limit || highest - lowest > 1) {
            job_end(m, j, JOB_FAILED,
                    "the shards are at versions %" PRIu64 " to %" PRIu64
                    ", which cannot be with a step limit of %" PRIu64,
                    lowest, highest, j->step_limit);
            return;
        }
        progress_step(m, j, highest);
        assign_from(j, lowest);
    }
    train_assign(m, j);
}

/* ---- assignments ---- */

static void ask(struct master *m, struct job *j, bool hold)
{
    calls_forget(m, j, MASTER_CALL_ASSIGN);
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
    ask(m, j, false);
}

static void hold_begin(struct master *m, struct job *j)
{
    j->phase = PHASE_HOLD;
    for (size_t i = 0; i < j->worker_count; i++) {
        train_park_clear(m, j, &j->workers[i], ERR_OK, NULL);
    }
    ask(m, j, true);
}

/* Sync: all answered: run to the highest step that one of them has begun. Async and bounded:
 * whoever holds no lease, or says that it is idle, has nothing in hand. */
static void hold_check(struct master *m, struct job *j)
{
    if (calls_open(m, j, MASTER_CALL_ASSIGN) > 0) {
        return;
    }
    uint64_t step = j->record.step;
    for (size_t i = 0; i < j->worker_count; i++) {
        struct job_worker *w = &j->workers[i];
        if (w->assigned && !job_is_sync(j) && !w->idle && w->split_count > 0) {
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
        j->phase = PHASE_STAND;
        train_check(m, j);
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
    if (hold) {
        w->held = true;
        w->position = position;
        hold_check(m, j);
    } else if (j->phase == PHASE_ASSIGN && calls_open(m, j, MASTER_CALL_ASSIGN) == 0) {
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
    for (size_t i = 0; i < m->call_count; i++) {
        if (m->calls[i].kind == MASTER_CALL_ASSIGN && m->calls[i].node == w->node) {
            return;
        }
    }
    w->idle = false;
    call_start(m, j, w->node, MASTER_CALL_ASSIGN, 0);
}

/* ---- what comes next ---- */

static bool all_at_limit(const struct job *j)
{
    size_t assigned = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        const struct job_worker *w = &j->workers[i];
        if (w->assigned && !(w->idle && w->position == j->step_limit)) {
            return false;
        }
        assigned += w->assigned;
    }
    return assigned > 0;
}

static void grant(struct master *m, struct job_worker *w, const struct lease *lease)
{
    w->idle = false;
    m->counts.leases_granted++;
    struct master_reply *reply = reply_add(m, w->parked_request);
    reply->lease_kind = MASTER_LEASE_GRANTED;
    reply->lease = *lease;
    w->parked = false;
}

static void grant_parked(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        struct job_worker *w = &j->workers[i];
        struct lease lease;
        if (w->parked && w->split_count < LEASES_PER_WORKER &&
            leases_take(&j->leases, w->node->number, &lease)) {
            w->splits[w->split_count++] = lease.split;
            grant(m, w, &lease);
        }
    }
}

static void leases_finish(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        if (j->workers[i].parked) {
            j->workers[i].parked = false;
            reply_add(m, j->workers[i].parked_request)->lease_kind = MASTER_LEASE_DONE;
        }
    }
}

/* A milestone at which all stand is being pinned. */
static bool is_pinning(const struct job *j)
{
    return j->work == WORK_PIN && j->milestone.stand;
}

/* Nothing may be computed before the next milestone is pinned. */
static bool is_at_end(const struct job *j)
{
    return job_is_sync(j) ? all_at_limit(j) : is_pinning(j) || leases_epoch_done(&j->leases);
}

static void go_on_async(struct master *m, struct job *j)
{
    if (j->work == WORK_NONE && milestone_due(j, train_step(j))) {
        milestone_begin(m, j, false);
    }
    grant_parked(m, j);
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
        if (is_at_end(j)) {
            j->phase = PHASE_STAND;
        } else if ((j->hold_checkpoint || j->hold_cancel) && !j->hold_limit && !is_pinning(j)) {
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
        j->step_limit = milestone_next(j, j->step_limit);
        if (j->phase == PHASE_STAND || j->phase == PHASE_ASSIGN || j->phase == PHASE_TRAIN) {
            assign_from(j, j->milestone.step);
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
    bool held = false;
    for (size_t i = 0; i < j->worker_count; i++) {
        held = held || j->workers[i].held;
    }
    if (held) {
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
    calls_forget(m, j, MASTER_CALL_ASSIGN);
    leases_finish(m, j);
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

static void lease_again(struct master *m, struct job *j, struct job_worker *w, size_t i)
{
    struct lease lease;
    leases_again(&j->leases, w->splits[i], &lease);
    grant(m, w, &lease);
}

void on_lease_split(struct master *m, const struct master_event *e)
{
    struct job *j = NULL;
    struct job_worker *w = train_sender(m, e, &j);
    if (w == NULL || !train_is_present(m, j, e)) {
        return;
    }
    if (!is_bound(j)) {
        reply_error(m, e->request, ERR_STATE, "job %s leases no splits", j->record.id);
        return;
    }
    train_park_clear(m, j, w, ERR_OK, NULL); /* an earlier call that nobody listens to any more */
    if (j->over) {
        reply_add(m, e->request)->lease_kind = MASTER_LEASE_DONE;
        return;
    }
    w->parked = true;
    w->silent = true;
    w->parked_request = e->request;
    uint64_t wait = e->worker.wait_ms < LEASE_WAIT_MS_MAX ? e->worker.wait_ms : LEASE_WAIT_MS_MAX;
    w->parked_until_ms = m->now_ms + wait;
    if (w->split_count == LEASES_PER_WORKER) {
        lease_again(m, j, w, LEASES_PER_WORKER - 1); /* the answer to its last request was lost */
        return;
    }
    train_check(m, j);
}

void leases_tick(struct master *m)
{
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        for (size_t k = 0; k < j->worker_count; k++) {
            struct job_worker *w = &j->workers[k];
            if (!w->parked || w->parked_until_ms > m->now_ms) {
                continue;
            }
            /* It asked, and for all that time reported nothing of what it holds: perhaps it never
             * learned that it does. A lease that it gets twice costs one pull. */
            if (w->silent && w->split_count > 0 && j->phase == PHASE_TRAIN) {
                lease_again(m, j, w, 0);
            } else {
                train_park_clear(m, j, w, ERR_OK, NULL);
            }
        }
    }
}

static void forget_split(struct job_worker *w, uint32_t split)
{
    for (size_t i = w->split_count; i-- > 0;) {
        if (w->splits[i] == split) {
            memmove(w->splits + i, w->splits + i + 1, (w->split_count - i - 1) * sizeof *w->splits);
            w->split_count--;
        }
    }
}

void on_report_split(struct master *m, const struct master_event *e)
{
    struct job *j = NULL;
    struct job_worker *w = train_sender(m, e, &j);
    if (w == NULL || !train_is_present(m, j, e)) {
        return;
    }
    if (!is_bound(j)) {
        reply_error(m, e->request, ERR_STATE, "job %s leases no splits", j->record.id);
        return;
    }
    uint64_t epoch = j->leases.ledger.epoch;
    if (e->worker.epoch > epoch ||
        (e->worker.epoch == epoch && !leases_report(&j->leases, e->worker.split))) {
        reply_error(m, e->request, ERR_INVALID,
                    "job %s: split %u of epoch %" PRIu64 " was never leased", j->record.id,
                    e->worker.split, e->worker.epoch);
        return;
    }
    reply_add(m, e->request);
    if (e->worker.epoch < epoch) {
        return; /* said before; the epoch ended with it */
    }
    w->silent = false;
    for (size_t i = 0; i < j->worker_count; i++) {
        forget_split(&j->workers[i], e->worker.split); /* whoever had it */
    }
    progress_step(m, j, train_step(j));
    train_check(m, j);
}

void on_report_failure(struct master *m, const struct master_event *e)
{
    struct job *j = NULL;
    struct job_worker *w = train_sender(m, e, &j);
    if (w == NULL) {
        return;
    }
    reply_add(m, e->request);
    job_end(m, j, JOB_FAILED, "worker %s: %s (%s)", w->node->id, e->worker.message,
            err_code_name(e->worker.code));
}
