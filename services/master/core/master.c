/* SPDX-License-Identifier: Apache-2.0 */
/* The entrance of the master's core: takes one event, passes it to the file that handles its kind,
 * and says when it wants to be called again. Also what others may read of jobs and nodes. */
#include "master/core/master.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

struct master *master_new(const struct master_config *config)
{
    struct master *m = mem_new(1, sizeof *m);
    m->config = *config;
    m->late_ms = master_late_ms(config);
    m->calls.late_ms = m->late_ms;
    return m;
}

void master_free(struct master *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; i < m->job_count; i++) {
        job_free(m->jobs[i]);
    }
    for (size_t i = 0; i < m->node_count; i++) {
        node_free(m->nodes[i]);
    }
    free(m->jobs);
    free(m->live);
    free(m->nodes);
    name_index_release(&m->job_index);
    name_index_release(&m->node_index);
    calls_release(&m->calls);
    free(m);
}

static void on_tick(struct master *m)
{
    nodes_tick(m);
    calls_tick(m);
    leases_tick(m);
    rows_tick(m);
    sync_points_tick(m);
}

/* Pauses between starts, and before a worker is asked again, are over with whichever event is the
 * first to come after them. */
static void end_pauses(struct master *m)
{
    for (size_t i = 0; i < m->live_count; i++) {
        struct job *j = m->live[i];
        if (j->start_after_ms != 0 && j->start_after_ms <= m->now_ms) {
            j->start_after_ms = 0;
            m->reschedule = true;
        }
        m->reschedule =
            m->reschedule || (job_waits_to_start(j) && j->resume &&
                              m->before_ms < j->resume_fewer_ms && j->resume_fewer_ms <= m->now_ms);
        if (j->moves && job_waits_to_start(j) && m->before_ms >= j->resume_fewer_ms) {
            resize_let_go(m, j); /* nor did it begin with fewer: it waits like others */
        }
        if (j->phase == PHASE_START && j->go_ms != 0 && j->go_ms <= m->now_ms) {
            job_touch(j);
        }
        if (checkpoint_due_ms(j) <= m->now_ms) {
            j->hold_checkpoint = true;
            job_touch(j);
        }
        if (j->yield_again_ms != 0 && j->yield_again_ms <= m->now_ms) {
            j->yield_again_ms = 0;
            job_touch(j);
        }
        if (j->refill_after_ms != 0 && j->refill_after_ms <= m->now_ms) {
            j->refill_after_ms = 0;
            job_touch(j);
        }
        uint64_t preempt_ms = preempt_time(m, j);
        m->reschedule = m->reschedule || (m->before_ms < preempt_ms && preempt_ms <= m->now_ms);
        for (size_t k = 0; j->refused_count > 0 && k < JOB_REFUSED_MAX; k++) {
            if (j->refused[k].node != 0 && j->refused[k].until_ms <= m->now_ms) {
                j->refused[k] = (struct refusal){0};
                m->reschedule = true;
            }
        }
    }
}

/* Of a client, or of the store. Returns false for any other. */
static bool dispatch_request(struct master *m, const struct master_event *e)
{
    switch (e->kind) {
    case MASTER_RESTORE:
        on_restore(m, e);
        break;
    case MASTER_SUBMIT:
        on_submit(m, e);
        break;
    case MASTER_CANCEL:
        on_cancel(m, e);
        break;
    case MASTER_CHECKPOINT:
        on_checkpoint(m, e);
        break;
    case MASTER_SET:
        on_set(m, e);
        break;
    case MASTER_PAUSE:
        on_pause(m, e);
        break;
    case MASTER_RESUME:
        on_resume(m, e);
        break;
    case MASTER_REMOVE:
        on_remove(m, e);
        break;
    case MASTER_DROP:
        on_drop(m, e);
        break;
    case MASTER_DRAIN:
        on_drain(m, e);
        break;
    default:
        return false;
    }
    return true;
}

static void dispatch(struct master *m, const struct master_event *e)
{
    if (dispatch_request(m, e)) {
        return;
    }
    switch (e->kind) {
    case MASTER_JOIN:
        on_join(m, e);
        break;
    case MASTER_HEARTBEAT:
        on_heartbeat(m, e);
        break;
    case MASTER_LEAVE:
        on_leave(m, e);
        break;
    case MASTER_UNREACHABLE:
        on_unreachable(m, e);
        break;
    case MASTER_LEASE_SPLIT:
        on_lease_split(m, e);
        break;
    case MASTER_REPORT_SPLIT:
        on_report_split(m, e);
        break;
    case MASTER_REPORT_PROGRESS:
        on_report_progress(m, e);
        break;
    case MASTER_REPORT_FAILURE:
        on_report_failure(m, e);
        break;
    case MASTER_CALL_DONE:
        on_call_done(m, &e->call);
        break;
    case MASTER_PREPARE_DONE:
        on_prepare_done(m, &e->prepare);
        break;
    case MASTER_FOUND:
        on_found(m, &e->found);
        break;
    case MASTER_MANIFEST_DONE:
        on_manifest_done(m, &e->manifest);
        break;
    case MASTER_STORED:
        on_stored(m, &e->stored);
        break;
    case MASTER_TICK:
        on_tick(m);
        break;
    default:
        break;
    }
}

static void earlier(uint64_t *next, uint64_t candidate)
{
    *next = candidate < *next ? candidate : *next;
}

/* Extends deadlines when this process stood still. A process that stood still (SIGSTOP, a slow
 * disk, a machine without memory) has not heard what came meanwhile: answers may lie in its
 * sockets. So every deadline is extended by the time that it was late, which it knows because it
 * never sleeps for long while a node could be given up. */
static void look_at_the_clock(struct master *m)
{
    uint64_t since_ms = m->timer_ms > m->before_ms ? m->timer_ms : m->before_ms;
    if (m->timer_ms == 0 || m->now_ms <= since_ms || MUTANT(late_and_does_not_know)) {
        return;
    }
    uint64_t late_ms = m->now_ms - since_ms; /* since the last event it has not stood still */
    nodes_late(m, late_ms);
    calls_late(&m->calls, late_ms, m->now_ms);
}

static void job_timer(const struct master *m, const struct job *j, uint64_t *next)
{
    if (j->phase == PHASE_START && j->go_ms != 0) {
        earlier(next, j->go_ms);
    }
    if (j->start_after_ms != 0) {
        earlier(next, j->start_after_ms);
    }
    if (job_waits_to_start(j) && j->resume && j->resume_fewer_ms > m->now_ms) {
        earlier(next, j->resume_fewer_ms);
    }
    earlier(next, checkpoint_due_ms(j));
    if (j->store_again_ms != 0) {
        earlier(next, j->store_again_ms);
    }
    if (j->yield_again_ms != 0) {
        earlier(next, j->yield_again_ms);
    }
    if (j->refill_after_ms != 0) {
        earlier(next, j->refill_after_ms);
    }
    if (preempt_time(m, j) > m->now_ms) {
        earlier(next, preempt_time(m, j));
    }
    for (size_t k = 0; j->refused_count > 0 && k < JOB_REFUSED_MAX; k++) {
        if (j->refused[k].node != 0) {
            earlier(next, j->refused[k].until_ms);
        }
    }
    if (j->retry_ms != 0) {
        earlier(next, j->retry_ms);
    }
    for (size_t k = 0; j->parked_count > 0 && k < j->worker_count; k++) {
        if (j->workers[k].parked) {
            earlier(next, j->workers[k].parked_until_ms);
        }
    }
}

static uint64_t next_timer(const struct master *m)
{
    uint64_t next = m->sweep ? m->now_ms : UINT64_MAX;
    if (m->heard_first != NULL) {
        earlier(&next, nodes_timer(m));
        earlier(&next, m->now_ms + nodes_watch_ms(m));
    }
    earlier(&next, calls_timer(&m->calls));
    for (size_t i = 0; i < m->live_count; i++) {
        job_timer(m, m->live[i], &next);
    }
    return next;
}

/* A client that is told what became of the job that its request was about. */
static void answer(struct master *m)
{
    struct job *j = m->answer_job;
    m->answer_job = NULL;
    if (j != NULL && job_state_is_final(j->record.state)) {
        row_reply(m, j, m->answer_request, true); /* told as it is: its end is stored in a moment */
    } else if (j != NULL) {
        reply_add(m, m->answer_request)->job = job_shown(j);
    }
}

void master_step(struct master *m, const struct master_event *event, struct master_actions *actions)
{
    if (m->sweep) {
        jobs_sweep(m);
    }
    actions_clear(actions);
    m->actions = actions;
    m->before_ms = m->now_ms;
    m->now_ms = event->now_ms;
    m->wall_ms = event->wall_ms;
    look_at_the_clock(m);
    dispatch(m, event);
    jobs_advance(m);
    answer(m);
    end_pauses(m);
    jobs_advance(m);
    if (m->reschedule) {
        schedule(m);
        resizes_look(m);
        jobs_advance(m);
    }
    jobs_remove(m);
    for (size_t i = 0; m->changed && i < m->live_count; i++) {
        if (m->live[i]->changed) {
            m->live[i]->changed = false;
            action_add(m, MASTER_CHANGED)->job = job_shown(m->live[i]);
        }
    }
    m->changed = false;
    actions->timer_ms = next_timer(m);
    m->timer_ms = actions->timer_ms == UINT64_MAX ? 0 : actions->timer_ms;
    m->actions = NULL;
}

/* ---- reading ---- */

static void refresh(struct master *m, struct job *j, uint64_t now_ms)
{
    struct buf words = {0};
    if (!j->live) {
        return; /* it ended so long ago that nothing changes */
    }
    progress_refresh(j, now_ms);
    job_record_set(&j->record.activity, activity_words(m, j, now_ms, &words));
    buf_release(&words);
}

const struct job_record *master_job(struct master *m, const char *id, uint64_t now_ms)
{
    struct job *j = job_find(m, id);
    if (j == NULL || j->row_stored == 0) {
        return NULL;
    }
    refresh(m, j, now_ms);
    return job_shown(j);
}

const struct job_record *master_job_at(struct master *m, size_t i, uint64_t now_ms)
{
    if (i >= m->job_count) {
        return NULL;
    }
    struct job *j = m->jobs[m->job_count - 1 - i];
    refresh(m, j, now_ms);
    return job_shown(j);
}

/* Their places rise. */
size_t master_job_place(const struct master *m, const char *id)
{
    const struct job *j = name_index_find(&m->job_index, id);
    size_t low = 0, high = m->job_count;
    while (j != NULL && low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->jobs[middle]->place < j->place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return j == NULL ? SIZE_MAX : m->job_count - 1 - low;
}

const char *master_job_phase(const struct master *m, const char *id)
{
    static const char *const NAMES[PHASE_COUNT] = {
        [PHASE_NONE] = "-",          [PHASE_RECALL] = "RECALL",     [PHASE_INSPECT] = "INSPECT",
        [PHASE_FIND] = "FIND",       [PHASE_OPEN] = "OPEN",         [PHASE_START] = "START",
        [PHASE_REGROUP] = "REGROUP", [PHASE_ASSIGN] = "ASSIGN",     [PHASE_TRAIN] = "TRAIN",
        [PHASE_HOLD] = "HOLD",       [PHASE_QUIESCED] = "QUIESCED", [PHASE_FINISH] = "FINISH",
        [PHASE_WAIT] = "WAIT"};
    const struct job *j = name_index_find(&m->job_index, id);
    return j == NULL ? "-" : NAMES[j->phase];
}

const char *master_job_work(const struct master *m, const char *id)
{
    static const char *const NAMES[WORK_COUNT] = {"-",          "PIN",      "EVALUATE", "PREPARE",
                                                  "CHECKPOINT", "MANIFEST", "DISCARD",  "UNPIN"};
    const struct job *j = name_index_find(&m->job_index, id);
    return j == NULL ? "-" : NAMES[j->work];
}

bool master_node_at(struct master *m, size_t i, uint64_t now_ms, struct master_node_info *out)
{
    if (i >= m->node_count) {
        return false;
    }
    const struct node *n = m->nodes[i];
    for (size_t k = 0; k < n->job_count; k++) {
        m->job_names[k] = n->jobs[k]->record.id;
    }
    *out = (struct master_node_info){
        .id = n->id,
        .address = n->address,
        .http_address = n->http_address,
        .version = n->version,
        .host = n->host,
        .role = n->role,
        .alive = n->alive,
        .gone = !n->alive && (n->left || n->replaced),
        .jobs = m->job_names,
        .job_count = n->job_count,
        .joined_ms = n->joined_wall_ms,
        .heartbeat_age_ms = now_ms > n->heartbeat_ms ? now_ms - n->heartbeat_ms : 0,
        .pid = n->pid,
        .incarnation = n->incarnation,
        .late = n->alive && node_is_late(m, n, now_ms),
        .draining = n->alive && n->draining,
    };
    node_unready(m, n, out->unready, sizeof out->unready);
    return true;
}

void master_counts(const struct master *m, struct master_counts *out)
{
    *out = m->counts;
    out->calls_open = m->calls.count;
    for (size_t i = 0; i < m->job_count; i++) {
        out->jobs[m->jobs[i]->record.state]++;
        out->leases_out += m->jobs[i]->leases.leased_count;
        out->shards_alone += standby_missing(m->jobs[i]);
    }
    for (const struct node *n = m->heard_first; n != NULL && node_is_silent(m, n, m->now_ms);
         n = n->heard_after) {
        out->servers_awaited += n->role == MASTER_PS;
    }
    memcpy(out->nodes_alive, m->alive, sizeof m->alive);
}
