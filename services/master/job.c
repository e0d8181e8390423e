#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/core.h"

struct job *job_find(struct master *m, const char *id)
{
    for (size_t i = m->job_count; i-- > 0;) {
        if (strcmp(m->jobs[i]->record.id, id) == 0) {
            return m->jobs[i];
        }
    }
    return NULL;
}

static struct job *job_new(struct master *m)
{
    struct job *j = mem_new(1, sizeof *j);
    m->jobs = mem_grow(m->jobs, &m->job_capacity, m->job_count + 1, sizeof(struct job *));
    m->jobs[m->job_count++] = j;
    return j;
}

/* All that is needed only while the job runs or may start. */
void job_release_data(struct job *j)
{
    milestone_release(j);
    evaluate_release(j);
    for (size_t i = 0; i < EPOCHS_OPEN; i++) {
        if (j->epochs[i].used) {
            metrics_release(&j->epochs[i].sums);
        }
    }
    memset(j->epochs, 0, sizeof j->epochs);
    for (size_t i = 0; i < j->shard_count; i++) {
        free(j->shards[i].file);
        ledger_release(&j->shards[i].ledger);
    }
    free(j->shards);
    j->shards = NULL;
    j->shard_count = 0;
    free(j->workers);
    j->workers = NULL;
    j->worker_count = 0;
    j->worker_capacity = 0;
    if (j->has_plan) {
        plan_release(&j->plan);
        memset(&j->plan, 0, sizeof j->plan);
        j->has_plan = false;
    }
    ledger_release(&j->ledger);
    leases_release(&j->leases);
}

void job_free(struct job *j)
{
    job_release_data(j);
    if (j->has_spec) {
        job_spec_release(&j->spec);
    }
    job_record_release(&j->record);
    free(j);
}

void job_changed(struct master *m, struct job *j)
{
    (void)m;
    j->changed = true;
}

void job_store(struct master *m, struct job *j)
{
    action_add(m, MASTER_STORE)->job = &j->record;
    job_changed(m, j);
}

void job_say(struct master *m, struct job *j, const char *reason)
{
    if (strcmp(j->record.reason, reason) != 0) {
        job_record_set(&j->record.reason, reason);
        job_changed(m, j);
    }
}

void job_enter(struct master *m, struct job *j, enum job_state state, const char *reason)
{
    enum job_state from = j->record.state;
    if (!job_state_allows(from, state)) {
        /* A hole in the core, not in its input: seen by every test that runs into it. */
        action_log(m, LOG_LEVEL_ERROR, "job_state_refused", "job=%s from=%s to=%s", j->record.id,
                   job_state_name(from), job_state_name(state));
        return;
    }
    char quoted[1200];
    action_log(m, state == JOB_FAILED ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "job_state",
               "job=%s from=%s to=%s generation=%" PRIu64 " step=%" PRIu64 " reason=%s",
               j->record.id, job_state_name(from), job_state_name(state), j->record.generation,
               j->record.step, log_quote(reason, quoted, sizeof quoted));
    if (j->running) {
        j->training_ms += m->now_ms - j->running_since_ms;
    }
    j->record.state = state;
    j->running = state == JOB_RUNNING;
    j->running_since_ms = m->now_ms;
    j->phase = state == JOB_RECOVERING ? PHASE_WAIT : PHASE_NONE;
    job_record_set(&j->record.reason, reason);
    if (state == JOB_RUNNING && j->record.started_ms == 0) {
        j->record.started_ms = m->wall_ms;
    }
    if (job_state_is_final(state)) {
        j->record.finished_ms = m->wall_ms;
        progress_refresh(j, m->now_ms);
    }
    m->reschedule = true;
    job_store(m, j);
}

struct job_worker *job_worker_of(struct job *j, const struct node *n)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        if (j->workers[i].node == n) {
            return &j->workers[i];
        }
    }
    return NULL;
}

size_t job_workers_started(const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        count += j->workers[i].started;
    }
    return count;
}

void job_names_refresh(struct job *j)
{
    job_names_clear(&j->record.workers);
    for (size_t i = 0; i < j->worker_count; i++) {
        job_names_add(&j->record.workers, j->workers[i].node->id);
    }
}

struct job_worker *job_worker_add(struct job *j, struct node *n)
{
    node_take(n, j);
    j->workers = mem_grow(j->workers, &j->worker_capacity, j->worker_count + 1, sizeof *j->workers);
    struct job_worker *w = &j->workers[j->worker_count++];
    *w = (struct job_worker){.node = n};
    job_names_refresh(j);
    return w;
}

/* Its lease and its chunk go to others. The order of the rest stays: shares depend on it. */
void job_worker_remove(struct master *m, struct job *j, struct job_worker *w)
{
    train_park_clear(m, j, w, ERR_NOT_FOUND, "the worker is not part of the job");
    train_give_back(m, j, w);
    for (size_t i = 0; i < m->call_count; i++) {
        if (m->calls[i].job == j && m->calls[i].node == w->node &&
            m->calls[i].kind == MASTER_CALL_EVALUATE) {
            evaluate_returned(j, m->calls[i].index);
        }
    }
    calls_forget_node(m, w->node, j);
    size_t i = (size_t)(w - j->workers);
    memmove(w, w + 1, (j->worker_count - i - 1) * sizeof *w);
    j->worker_count--;
    job_names_refresh(j);
    job_changed(m, j);
}

const char *job_checkpoint_words(struct master *m, const struct job *j)
{
    if (j->record.checkpoint[0] == '\0') {
        return "there is no checkpoint";
    }
    return action_printf(m, "the newest checkpoint is %s", j->record.checkpoint);
}

/* Tell every node to drop the job; each keeps its place taken until it has answered. */
static void release_nodes(struct master *m, struct job *j)
{
    for (size_t i = j->worker_count; i-- > 0;) {
        struct node *n = j->workers[i].node;
        job_worker_remove(m, j, &j->workers[i]);
        if (n->alive && node_serves(n, j)) {
            call_start(m, j, n, MASTER_CALL_STOP, 0);
        }
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        struct node *n = j->shards[i].node;
        j->shards[i].node = NULL;
        if (n == NULL || !n->alive || !node_serves(n, j)) {
            continue;
        }
        if (j->shards[i].opened) {
            call_start(m, j, n, MASTER_CALL_CLOSE, (uint32_t)i);
        } else {
            node_drop(m, n, j);
        }
    }
}

void job_end(struct master *m, struct job *j, enum job_state state, const char *fmt, ...)
{
    if (job_state_is_final(j->record.state)) {
        return;
    }
    struct buf reason = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&reason, fmt, args);
    va_end(args);
    calls_forget_job(m, j);
    struct job_names workers = j->record.workers; /* who served it is still shown */
    j->record.workers = (struct job_names){0};
    job_enter(m, j, state, buf_str(&reason));
    milestone_waiters(m, j, true, ERR_ABORTED,
                      action_printf(m, "job %s ended %s: %s", j->record.id, job_state_name(state),
                                    buf_str(&reason)));
    buf_release(&reason);
    j->work = WORK_NONE;
    j->restartable = false;
    release_nodes(m, j);
    job_names_clear(&j->record.workers);
    free(j->record.workers.items);
    j->record.workers = workers;
    job_cleaned(m, j);
}

void job_restart(struct master *m, struct job *j, const char *why)
{
    if (++j->start_attempts >= START_ATTEMPTS_MAX) {
        job_end(m, j, JOB_FAILED, "could not be started in %d attempts: %s", START_ATTEMPTS_MAX,
                why);
        return;
    }
    calls_forget_job(m, j);
    job_enter(m, j, JOB_PENDING, action_printf(m, "starts again: %s", why));
    release_nodes(m, j);
    job_names_clear(&j->record.ps);
    j->restartable = true;
    job_cleaned(m, j);
}

static bool is_clean(const struct master *m, const struct job *j)
{
    return (job_state_is_final(j->record.state) || j->restartable) &&
           calls_open(m, j, MASTER_CALL_STOP) == 0 && calls_open(m, j, MASTER_CALL_CLOSE) == 0;
}

void job_cleaned(struct master *m, struct job *j)
{
    m->sweep = m->sweep || is_clean(m, j);
}

/* At the beginning of a step, when no action points to any of it. */
void jobs_sweep(struct master *m)
{
    size_t finished = 0;
    m->sweep = false;
    for (size_t i = m->job_count; i-- > 0;) {
        struct job *j = m->jobs[i];
        if (!is_clean(m, j)) {
            continue;
        }
        job_release_data(j);
        m->reschedule = m->reschedule || j->restartable;
        j->restartable = false;
        if (!job_state_is_final(j->record.state)) {
            continue;
        }
        if (j->has_spec) {
            job_spec_release(&j->spec);
            j->has_spec = false;
        }
        if (++finished > m->config.finished_max) {
            job_free(j);
            memmove(m->jobs + i, m->jobs + i + 1, (m->job_count - i - 1) * sizeof(struct job *));
            m->job_count--;
        }
    }
}

void job_worker_lost(struct master *m, struct job *j, struct node *n, const char *why)
{
    struct job_worker *w = job_worker_of(j, n);
    if (w == NULL) {
        return; /* it was only being told to drop the job */
    }
    char quoted[256];
    action_log(m, LOG_LEVEL_WARN, "worker_lost", "job=%s node=%s reason=%s", j->record.id, n->id,
               log_quote(why, quoted, sizeof quoted));
    bool started = w->started;
    job_worker_remove(m, j, w);
    m->reschedule = true;
    if (j->record.state == JOB_STARTING) {
        start_worker_gone(m, j);
        return;
    }
    if (j->record.state != JOB_RUNNING || !started) {
        return;
    }
    bool evaluates = j->work == WORK_EVALUATE || (j->work == WORK_PIN && j->milestone.evaluate);
    if (job_workers_started(j) == 0 && (!j->over || evaluates)) {
        if (j->hold_cancel) {
            job_end(m, j, JOB_CANCELLED, "cancelled after its last worker was lost; %s",
                    job_checkpoint_words(m, j));
            return;
        }
        calls_forget(m, j, MASTER_CALL_ASSIGN);
        job_enter(m, j, JOB_RECOVERING,
                  action_printf(m, "waits for a worker: lost the last one, %s (%s)", n->id, why));
        return;
    }
    evaluate_pump(m, j); /* it may have left a chunk behind */
    if (!j->over) {
        train_regroup(m, j);
    }
}

void job_ps_lost(struct master *m, struct job *j, struct node *n, const char *why)
{
    if (j->record.state == JOB_STARTING) {
        job_restart(m, j, action_printf(m, "parameter server %s was lost (%s)", n->id, why));
    } else if (j->record.state == JOB_RUNNING || j->record.state == JOB_RECOVERING) {
        job_end(m, j, JOB_FAILED, "parameter server %s was lost (%s); %s", n->id, why,
                job_checkpoint_words(m, j));
    }
}

/* ---- requests of clients ---- */

static size_t open_jobs(const struct master *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->job_count; i++) {
        count += !job_state_is_final(m->jobs[i]->record.state);
    }
    return count;
}

static void spec_take(struct job *j, struct job_spec *spec)
{
    j->spec = *spec;
    j->has_spec = true;
    memset(spec, 0, sizeof *spec);
}

/* One more than the highest number that a job of this name has. */
static uint64_t number_after(const struct master *m, const char *name)
{
    uint64_t next = 1;
    size_t n = strlen(name);
    for (size_t i = 0; i < m->job_count; i++) {
        const struct job_record *r = &m->jobs[i]->record;
        if (strcmp(r->name, name) == 0 && strlen(r->id) > n + 1) {
            uint64_t number = strtoull(r->id + n + 1, NULL, 10);
            next = number >= next ? number + 1 : next;
        }
    }
    return next;
}

static bool name_is_good(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n + 21 <= JOB_ID_BYTES_MAX && name[0] != '.' && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

void on_submit(struct master *m, const struct master_event *e)
{
    const struct master_submit_event *submit = &e->submit;
    for (size_t i = 0; submit->request_id[0] != '\0' && i < m->job_count; i++) {
        if (strcmp(m->jobs[i]->record.request_id, submit->request_id) == 0) {
            reply_add(m, e->request)->job = &m->jobs[i]->record;
            return;
        }
    }
    if (!name_is_good(submit->spec->name)) {
        reply_error(m, e->request, ERR_INVALID,
                    "name: at most %d letters, digits, '.', '_' and '-', not beginning with '.' "
                    "or '-'",
                    JOB_ID_BYTES_MAX - 21);
        return;
    }
    if (open_jobs(m) >= m->config.jobs_max) {
        reply_error(m, e->request, ERR_EXHAUSTED,
                    "%zu jobs wait or run already; this master takes no more", open_jobs(m));
        return;
    }
    uint64_t number = number_after(m, submit->spec->name);
    number = submit->number > number ? submit->number : number;
    struct job *j = job_new(m);
    job_record_init(&j->record);
    free(j->record.id);
    j->record.id = mem_printf("%s-%" PRIu64, submit->spec->name, number);
    job_record_set(&j->record.name, submit->spec->name);
    job_record_set(&j->record.text, submit->spec->text);
    job_record_set(&j->record.request_id, submit->request_id);
    j->record.state = JOB_PENDING;
    j->record.mode = submit->spec->training.mode;
    j->record.submitted_ms = m->wall_ms;
    spec_take(j, submit->spec);
    m->reschedule = true;
    action_log(m, LOG_LEVEL_INFO, "job_submitted", "job=%s", j->record.id);
    job_store(m, j);
    reply_add(m, e->request)->job = &j->record;
}

void on_cancel(struct master *m, const struct master_event *e)
{
    struct job *j = job_find(m, e->cancel.job);
    if (j == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no job %.128s", e->cancel.job);
        return;
    }
    if (job_state_is_final(j->record.state)) {
        /* nothing to cancel */
    } else if (e->cancel.now) {
        job_end(m, j, JOB_CANCELLED, "cancelled at once; %s", job_checkpoint_words(m, j));
    } else if (j->record.state == JOB_RECOVERING && !j->over) {
        job_end(m, j, JOB_CANCELLED, "cancelled while no worker was left; %s",
                job_checkpoint_words(m, j));
    } else if (j->record.state == JOB_PENDING || j->record.state == JOB_STARTING) {
        job_end(m, j, JOB_CANCELLED, "cancelled before it ran");
    } else if (j->over) {
        j->milestone.cancel = true; /* its last checkpoint is being written anyway */
        job_say(m, j, "is being cancelled: its checkpoint is being written");
    } else {
        j->hold_cancel = true;
        job_say(m, j, "is being cancelled: stops at the next step");
        train_check(m, j);
    }
    reply_add(m, e->request)->job = &j->record;
}

void on_checkpoint(struct master *m, const struct master_event *e)
{
    struct job *j = job_find(m, e->job);
    if (j == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no job %.128s", e->job);
    } else if (j->record.state != JOB_RUNNING) {
        reply_error(m, e->request, ERR_STATE,
                    "job %s is %s; only a running job has a state to save", j->record.id,
                    job_state_name(j->record.state));
    } else if (j->waiter_count == MASTER_CHECKPOINT_WAITERS) {
        reply_error(m, e->request, ERR_EXHAUSTED, "%d requests wait for a checkpoint of job %s",
                    MASTER_CHECKPOINT_WAITERS, j->record.id);
    } else {
        j->waiters[j->waiter_count++] = (struct waiter){.request = e->request, .served = j->over};
        if (!j->over) {
            j->hold_checkpoint = true;
            train_check(m, j);
        }
    }
}

void on_store_failed(struct master *m, const struct master_event *e)
{
    struct job *j = job_find(m, e->job);
    if (j != NULL) {
        job_end(m, j, JOB_FAILED, "its state cannot be stored: %s", e->err->msg);
    }
}

void on_restore(struct master *m, const struct master_event *e)
{
    const struct master_restore_event *restore = &e->restore;
    struct job *j = job_new(m);
    j->record = *restore->record;
    memset(restore->record, 0, sizeof *restore->record);
    enum job_state state = j->record.state;
    m->sweep = true;
    if (job_state_is_final(state)) {
        return;
    }
    if (state != JOB_PENDING) {
        job_end(m, j, JOB_FAILED, "the master restarted while the job was %s; %s",
                job_state_name(state), job_checkpoint_words(m, j));
    } else if (restore->spec == NULL) {
        job_end(m, j, JOB_FAILED, "the master restarted and cannot read the job file: %s",
                restore->spec_error == NULL ? "it is missing" : restore->spec_error);
    } else {
        spec_take(j, restore->spec);
        m->reschedule = true;
    }
}
