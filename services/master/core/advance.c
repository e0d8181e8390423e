/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a job is: this file alone moves a job from phase to phase.
 *
 * Whatever happens to a job (an answer, a report, a lost node, a request of a client) is a fact
 * that its handler records. After each event job_advance() looks at the facts of every job that was
 * touched and takes one transition after the other until none is left. Each phase has a function
 * that says what the job waits for there, and where it goes when that has come; what is done on
 * arrival is in the table ENTER.
 * ARCHITECTURE.md has the picture.
 *
 * The sync point that is being worked on (evaluation, checkpoint) goes on beside it: sync_point.c.
 */
#include "base/mutant.h"
#include "master/core/core.h"

/* The answer of a phase's function: stay, or go to another phase (or enter the same one anew). */
struct step {
    bool goes;
    enum phase to;
};

static const struct step STAY = {0};

static struct step go(enum phase to)
{
    return (struct step){.goes = true, .to = to};
}

static void lost_with_cancel(struct master *m, struct job *j)
{
    job_must_end(j, JOB_CANCELLED, "cancelled after its last worker was lost; %s",
                 job_checkpoint_words(m, j));
}

/* ---- start: for the first time, or from a checkpoint ---- */

/* The data of the job are known. */
static struct step data_known(struct master *m, struct job *j)
{
    if (start_data_known(m, j) != 0) {
        return STAY; /* it ends */
    }
    if (quota_memory_is_reached(m, j)) {
        job_must_yield(j, "has seen that its owner may not have the memory that it needs now");
        return STAY;
    }
    if (j->resume) {
        return go(PHASE_FIND);
    }
    if (job_history_start(&j->record.history, 0, 0)) {
        job_store(m, j);
        j->row_generation = j->row;
    }
    return go(PHASE_OPEN);
}

/* The same, of a job that an earlier master led: its shards and workers are there. */
static struct step adopted_data_known(struct master *m, struct job *j)
{
    if (!adopt_data_known(m, j)) {
        return STAY; /* it goes back */
    }
    for (size_t i = 0; i < j->worker_count; i++) {
        if (!j->workers[i].started) { /* it came meanwhile */
            call_start(m, j, j->workers[i].node, MASTER_CALL_START, 0);
        }
    }
    if (job_workers_started(j) == 0) {
        j->resume = false;
        return go(PHASE_WAIT);
    }
    start_end(m, j);
    return go(PHASE_REGROUP);
}

static struct step none(struct master *m, struct job *j)
{
    if (!j->chosen) {
        return STAY;
    }
    j->chosen = false;
    if (j->adopts) {
        /* what workers say of the present one is not for this master */
        j->record.generation += MUTANT(adopted_as_it_was) ? 0 : 1;
        job_store(m, j);
        j->row_generation = j->row;
        return go(start_recalls(j) ? PHASE_RECALL : PHASE_INSPECT);
    }
    start_begin(m, j);
    if (j->resume && j->train.records > 0) {
        return data_known(m, j); /* StartJob compares the data of each worker with it */
    }
    return go(start_recalls(j) ? PHASE_RECALL : PHASE_INSPECT);
}

static struct step recall(struct master *m, struct job *j)
{
    (void)m;
    if (!j->found) {
        return STAY;
    }
    j->found = false;
    return go(PHASE_INSPECT);
}

static struct step inspect(struct master *m, struct job *j)
{
    if (j->inspected) {
        j->inspected = false;
        return j->adopts ? adopted_data_known(m, j) : data_known(m, j);
    }
    if (j->worker_count == 0 && j->hold_cancel) {
        lost_with_cancel(m, j);
    } else if (j->worker_count > 0 && calls_open(&m->calls, j, MASTER_CALL_INSPECT) == 0) {
        /* the worker that was asked is gone */
        call_start(m, j, j->workers[0].node, MASTER_CALL_INSPECT, 0);
    }
    return STAY;
}

static struct step find(struct master *m, struct job *j)
{
    if (!j->found) {
        return STAY;
    }
    j->found = false;
    job_store(m, j); /* the row names the checkpoint that was found */
    if (j->history_starts && !MUTANT(era_start_not_awaited)) {
        j->row_generation = j->row; /* where a change begins is stored before a shard knows it */
    }
    j->history_starts = false;
    return go(PHASE_OPEN);
}

static struct step open_shards(struct master *m, struct job *j)
{
    return calls_open(&m->calls, j, MASTER_CALL_OPEN) > 0 ? STAY : go(PHASE_START);
}

/* True if enough workers have started. Workers that still load the data come in later, like
 * newcomers: a worker that came back a moment ago must not hold up the others, or a job whose
 * workers come and go would only ever load. */
static bool have_started(struct master *m, struct job *j)
{
    size_t started = job_workers_started(j);
    bool enough = started >= (size_t)j->spec.cluster.workers.min;
    if (started == j->worker_count) {
        return true;
    }
    if (j->go_ms != 0 && j->go_ms <= m->now_ms) {
        j->go_ms = 0;
        j->regroup_needed = j->regroup_needed || enough;
        return enough;
    }
    if (enough && j->go_ms == 0) {
        j->go_ms = m->now_ms + START_GRACE_MS;
    }
    return false;
}

static struct step start(struct master *m, struct job *j)
{
    if (!have_started(m, j)) {
        return STAY;
    }
    start_end(m, j);
    if (j->regroup_needed) {
        return go(PHASE_REGROUP);
    }
    train_assign_from(j, j->step_map.step);
    return go(PHASE_ASSIGN);
}

/* ---- training ---- */

/* The shards have said where they are. */
static struct step regroup(struct master *m, struct job *j)
{
    if (calls_open(&m->calls, j, MASTER_CALL_MEMBERSHIP) > 0) {
        return STAY;
    }
    if (j->adopts && adopt_again(j)) {
        return go(PHASE_REGROUP);
    }
    if (train_regroup_end(m, j) != 0) {
        return STAY;
    }
    if (!j->quiesced) {
        return go(PHASE_ASSIGN);
    }
    /* What only some shards have may have to be brought to every shard. */
    j->leases.levelling = !leases_level(&j->leases) && !MUTANT(unlevel_cut);
    return go(j->leases.levelling ? PHASE_ASSIGN : PHASE_QUIESCED);
}

static struct step assign(struct master *m, struct job *j)
{
    if (calls_open(&m->calls, j, MASTER_CALL_ASSIGN) > 0) {
        return STAY;
    }
    job_changed(j);
    return go(PHASE_TRAIN);
}

static struct step train(struct master *m, struct job *j)
{
    bool level = !j->leases.levelling || leases_level(&j->leases);
    if (train_is_at_end(j) && level) {
        j->leases.levelling = false;
        return go(PHASE_QUIESCED);
    }
    if (level && (train_wants_hold(j) || j->leases.levelling) && !j->hold_limit &&
        !job_is_pinning(j)) {
        return go(PHASE_HOLD);
    }
    if (!job_is_sync(j)) {
        if (j->work == WORK_NONE && !j->leases.levelling && !stop_wants_stand(j) &&
            train_step(j) >= j->next_evaluate) {
            sync_point_begin(m, j, false);
        }
        train_grant(m, j);
    }
    return STAY;
}

static struct step hold(struct master *m, struct job *j)
{
    if (!train_hold_end(m, j)) {
        return STAY;
    }
    return go(job_is_sync(j) ? PHASE_ASSIGN : PHASE_REGROUP);
}

static struct step quiesced(struct master *m, struct job *j)
{
    if (j->work == WORK_NONE) {
        progress_step(m, j, train_step(j));
        sync_point_begin(m, j, true);
    }
    return STAY;
}

static struct step finish(struct master *m, struct job *j)
{
    (void)m;
    (void)j;
    return STAY; /* the job ends with its last sync point */
}

/* A worker has come: workers that stood still go on. */
static struct step wait(struct master *m, struct job *j)
{
    if (job_workers_started(j) == 0) {
        return STAY;
    }
    job_enter(m, j, JOB_RUNNING, "");
    return go(j->over ? PHASE_FINISH : PHASE_REGROUP);
}

/* ---- transitions that are possible in several phases ---- */

static struct step begin_change(struct master *m, struct job *j)
{
    if (change_begin(m, j)) {
        return go(PHASE_REGROUP);
    }
    /* the change does not fit: the job goes on without it */
    j->released |= j->change == NULL && !job_is_ending(j);
    return STAY;
}

/* Nothing is due where the job stands, or that is pinned. In other phases than QUIESCED it has been
 * overtaken by a regrouping or a hold: then only the limit moves. */
static struct step released_sync(struct master *m, struct job *j)
{
    if (j->phase == PHASE_QUIESCED && j->change != NULL) {
        return begin_change(m, j);
    }
    j->step_limit = checkpoint_due_next(j, j->step_limit);
    if (j->phase != PHASE_QUIESCED && j->phase != PHASE_ASSIGN && j->phase != PHASE_TRAIN) {
        return STAY;
    }
    train_assign_from(j, j->sync_point.step);
    return go(PHASE_ASSIGN);
}

static struct step released_async(struct master *m, struct job *j)
{
    if (leases_epoch_done(&j->leases)) {
        leases_next_epoch(&j->leases);
    }
    if (j->phase != PHASE_QUIESCED) {
        return STAY;
    }
    if (j->change != NULL && j->quiesced) {
        return begin_change(m, j);
    }
    if (j->change != NULL) {
        j->quiesced = true; /* at the end of an epoch the workers stand still without a hold */
        return go(PHASE_REGROUP);
    }
    return go(j->quiesced ? PHASE_ASSIGN : PHASE_TRAIN);
}

/* The last worker is gone. */
static struct step lost_last(struct master *m, struct job *j)
{
    if (j->hold_cancel) {
        lost_with_cancel(m, j);
        return STAY;
    }
    calls_forget(&m->calls, j, MASTER_CALL_ASSIGN);
    job_enter(m, j, JOB_RECOVERING, j->lost_last);
    return go(PHASE_WAIT);
}

static bool has_no_worker(const struct job *j)
{
    if (j->record.state != JOB_RUNNING || job_workers_started(j) > 0) {
        return false;
    }
    bool evaluates = j->work == WORK_EVALUATE || (j->work == WORK_PIN && j->sync_point.evaluate);
    return !j->over || evaluates;
}

/* ---- the machine ---- */

static struct step (*const PHASES[PHASE_COUNT])(struct master *, struct job *) = {
    [PHASE_NONE] = none,       [PHASE_RECALL] = recall,     [PHASE_INSPECT] = inspect,
    [PHASE_FIND] = find,       [PHASE_OPEN] = open_shards,  [PHASE_START] = start,
    [PHASE_REGROUP] = regroup, [PHASE_ASSIGN] = assign,     [PHASE_TRAIN] = train,
    [PHASE_HOLD] = hold,       [PHASE_QUIESCED] = quiesced, [PHASE_FINISH] = finish,
    [PHASE_WAIT] = wait,
};

/* What is done on arrival in a phase. */
static void (*const ENTER[PHASE_COUNT])(struct master *, struct job *) = {
    [PHASE_RECALL] = start_find,   [PHASE_INSPECT] = start_inspect, [PHASE_FIND] = start_find,
    [PHASE_OPEN] = start_open,     [PHASE_START] = start_workers,   [PHASE_REGROUP] = train_regroup,
    [PHASE_ASSIGN] = train_assign, [PHASE_HOLD] = train_hold,
};

static struct step next_step(struct master *m, struct job *j)
{
    if (job_is_ending(j)) {
        job_settle(m, j);
        return go(PHASE_NONE);
    }
    if (job_is_starting(j) && j->worker_count == 0 && !j->adopts) {
        job_must_restart(j, "all its workers were lost while it started");
        return STAY;
    }
    if (has_no_worker(j)) {
        return lost_last(m, j);
    }
    calls_unblock(m, j);
    sync_point_advance(m, j);
    if (job_is_ending(j)) {
        return STAY;
    }
    if (j->record.state == JOB_RUNNING && j->over && j->phase != PHASE_FINISH) {
        return go(PHASE_FINISH);
    }
    if (j->released) {
        j->released = false;
        return job_is_sync(j) ? released_sync(m, j) : released_async(m, j);
    }
    drain_job(m, j);
    standby_refill(m, j);
    if (standby_names(m, j)) {
        return go(PHASE_REGROUP);
    }
    if (j->standby_moved && (j->phase == PHASE_FINISH || j->phase == PHASE_WAIT)) {
        train_regroup(m, j); /* nobody trains: it is all that there is to do */
    }
    if (j->record.state == JOB_RUNNING && (j->regroup_needed || j->standby_moved) && !j->over) {
        train_hold_broken(m, j);
        return go(PHASE_REGROUP);
    }
    return PHASES[j->phase](m, j);
}

void job_advance(struct master *m, struct job *j)
{
    struct step step;
    job_stored(m, j);
    do {
        step = next_step(m, j);
        if (step.goes) {
            j->phase = step.to;
            if (ENTER[j->phase] != NULL) {
                ENTER[j->phase](m, j);
            }
        }
    } while (step.goes || j->released || job_is_ending(j));
    job_cleaned(m, j);
    j->touched = false;
}

void jobs_advance(struct master *m)
{
    if (!m->touched) {
        return;
    }
    /* a job may touch another one that has had its turn, which then comes in the next round */
    m->touched = false;
    for (size_t i = 0; i < m->live_count; i++) {
        if (m->live[i]->touched) {
            job_advance(m, m->live[i]);
        }
    }
}
