/* SPDX-License-Identifier: Apache-2.0 */
/* The worker as a program: its settings, its place in the cluster, the one job that it has, and its
 * end, at which the job may finish what it is at within a time of grace. */
#include "worker/job/worker_shell.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "os/chrono.h"
#include "os/log.h"
#include "os/log_tail.h"
#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/worker.pb-c.h"
#include "worker/job/slow_down.h"
#include "worker/job/worker_shell_state.h"
#include "worker/program/worker_program.h"
#include "service/pulse.h"

#define LEAVE_TIMEOUT_MS 2000
#define ARRAYS_KEPT_MS 10000 /* of a job that is dropped: it may be started again at once */

const struct field worker_fields[] = {
    {"master", FIELD_STRING, offsetof(struct worker_settings, master), SERVICE_MASTER_ADDRESS, 0, 0,
     NULL, "Address of the master, host:port; of several masters all, with commas"},
    {"name", FIELD_STRING, offsetof(struct worker_settings, name), "", 0, 0, NULL,
     "Id in the cluster; empty: the master chooses one"},
    {"slow_down", FIELD_FLOAT, offsetof(struct worker_settings, slow_down), "1", 1, SLOW_DOWN_MAX,
     NULL, "For experiments: every computation takes so many times as long; 1: off"},
    {"data_root", FIELD_TEXTS, offsetof(struct worker_settings, data_root), "", 0, 0, NULL,
     "Read data files below this directory or s3://BUCKET/PREFIX alone, or below one of a list "
     "([/a, /b]), and quote nothing of them in messages; empty: any file that this user can read"},
    {"cache_dir", FIELD_STRING, offsetof(struct worker_settings, cache_dir), "", 0, 0, NULL,
     "Write indexes of data that do not fit memory (data.loading: stream) into this directory; "
     "empty: beside the data, but nowhere with data_root"},
    {"program", FIELD_STRING, offsetof(struct worker_settings, program), "", 0, 0, NULL,
     "Command that computes models of its own (model.program of a job); it is started with this "
     "worker, and again when it ends"},
    {"compute_dir", FIELD_STRING, offsetof(struct worker_settings, compute_dir), "", 0, 0, NULL,
     "In place of a program: directory of plug-ins (gradus/compute.h); jobs with model.program "
     "NAME "
     "are computed by NAME.so, in a process of its own"},
    {"program_timeout", FIELD_MS, offsetof(struct worker_settings, program_answer_ms), "10 min",
     1000, 86400000.0, NULL,
     "A program that takes longer for one batch, or for saying what its model is, is ended and "
     "started again"},
    {"poll_us", FIELD_STRING, offsetof(struct worker_settings, poll_us), "auto", 0, 0, NULL,
     "Poll for an answer so many microseconds before sleeping; 0: never; auto: twice as long as "
     "answers usually take, where that takes a processor from nobody"},
};
const size_t worker_field_count = sizeof worker_fields / sizeof worker_fields[0];

void worker_shell_set_job(struct worker_shell *w, struct worker_job *job)
{
    w->job = job;
    pthread_mutex_lock(&w->mutex);
    text_copy(w->job_id, sizeof w->job_id, job != NULL ? worker_job_id(job) : "");
    if (job != NULL) {
        text_copy(w->work_id, sizeof w->work_id, w->job_id);
        atomic_store(&w->tells.generation, 0);
    }
    w->job_start = 0;
    pthread_mutex_unlock(&w->mutex);
    w->held = (struct worker_held){.start = 0};
    if (job != NULL) {
        membership_hurry(w->membership);
    }
}

void worker_shell_set_start(struct worker_shell *w, uint64_t start)
{
    w->held.start = start;
    worker_starts_note(&w->starts, &w->held.fence, start);
    pthread_mutex_lock(&w->mutex);
    w->job_start = start;
    pthread_mutex_unlock(&w->mutex);
}

/* Any thread. */
static void on_drained(void *ctx)
{
    struct worker_shell *w = ctx;
    pthread_mutex_lock(&w->mutex);
    w->drained = true;
    pthread_cond_signal(&w->drained_cond);
    pthread_mutex_unlock(&w->mutex);
}

static void forget_arrays(void *ctx)
{
    struct worker_shell *w = ctx;
    worker_arrays_clear(w->arrays);
}

void worker_shell_drop_job(struct worker_shell *w, const char *why)
{
    struct worker_job *job = w->job;
    if (job == NULL) {
        return;
    }
    char quoted[256];
    log_info("job_dropped", "job=%s reason=%s", worker_job_id(job),
             log_quote(why, quoted, sizeof quoted));
    worker_shell_set_job(w, NULL);
    worker_job_free(job);
    log_tail_job(NULL);
    loop_timer_set(w->loop, &w->forget, chrono_now_ms() + ARRAYS_KEPT_MS, forget_arrays, w);
    if (w->draining) {
        on_drained(w);
    }
}

/* ---- membership ---- */

struct stop_message {
    struct worker_shell *shell;
    char job[WIRE_ID_BYTES_MAX + 1]; /* empty: whichever it is */
    uint64_t start;                  /* the start that is meant; 0: the job was not started */
    bool whatever;                   /* it has */
    char why[128];
};

static void stop_run(void *ctx)
{
    struct stop_message *m = ctx;
    struct worker_shell *w = m->shell;
    if (!loop_discarding(w->loop) && w->job != NULL &&
        (m->job[0] == '\0' || strcmp(worker_job_id(w->job), m->job) == 0) &&
        (m->whatever || worker_drop_decide(&w->held, m->start))) {
        worker_shell_drop_job(w, m->why);
    }
    free(m);
}

static void post_stop(struct worker_shell *w, const struct stop_message *what)
{
    struct stop_message *m = mem_new(1, sizeof *m);
    *m = *what;
    m->shell = w;
    if (loop_post(w->loop, stop_run, m, NULL) != 0) {
        free(m);
    }
}

static void on_joined(void *ctx, const struct membership_node *node)
{
    struct worker_shell *w = ctx;
    service_set_absent(w->sc, NULL);
    log_info("joined", "node=%s", node->id);
}

static void on_lost(void *ctx, const struct err *reason)
{
    char quoted[512];
    log_warn("lost", "reason=%s", log_quote(reason->msg, quoted, sizeof quoted));
    service_set_absent(((struct worker_shell *)ctx)->sc, reason->msg);
    post_stop(ctx, &(struct stop_message){.whatever = true,
                                          .why = "the master does not know this worker any more"});
}

static void on_stop_job(void *ctx, const char *job)
{
    struct stop_message m = {.why = "the master says that the job is over"};
    text_copy(m.job, sizeof m.job, job);
    post_stop(ctx, &m);
}

static void on_stop_opening(void *ctx, uint64_t opening)
{
    if (opening != 0) { /* 0 would mean a job that was not started */
        post_stop(ctx, &(struct stop_message){
                           .start = opening,
                           .why = "the master says that this start of the job is over"});
    }
}

static void on_jobs(void *ctx, struct membership_jobs *jobs)
{
    struct worker_shell *w = ctx;
    pthread_mutex_lock(&w->mutex);
    if (w->job_id[0] != '\0') {
        membership_jobs_add(jobs, w->job_id, atomic_load(&w->tells.generation), w->job_start);
    }
    pthread_mutex_unlock(&w->mutex);
}

static void on_works(void *ctx, struct membership_works *works)
{
    struct worker_shell *w = ctx;
    pthread_mutex_lock(&w->mutex);
    work_tell(&w->tells.work, w->work_id, works);
    work_tell(&w->tells.fills, w->work_id, works);
    work_tell(&w->tells.evaluations, w->work_id, works);
    pthread_mutex_unlock(&w->mutex);
}

static void on_trouble(void *ctx, const struct err *err, uint64_t tried_ms)
{
    (void)ctx;
    if (err == NULL) {
        log_info("master_reached", "tried_ms=%llu", (unsigned long long)tried_ms);
    } else {
        char quoted[512];
        log_warn("master_trouble", "tried_ms=%llu error=%s", (unsigned long long)tried_ms,
                 log_quote(err->msg, quoted, sizeof quoted));
    }
}

static const struct membership_events membership_hooks = {
    .joined = on_joined,
    .lost = on_lost,
    .stop_job = on_stop_job,
    .stop_opening = on_stop_opening,
    .jobs = on_jobs,
    .works = on_works,
    .trouble = on_trouble,
};

/* ---- hooks of the service ---- */

static int start_program(struct worker_shell *w, const struct worker_settings *settings,
                         struct err *err)
{
    const bool plugins = settings->compute_dir[0] != '\0';
    if (plugins && settings->program[0] != '\0') {
        return err_set(err, ERR_INVALID, "program and compute_dir: a worker has one of the two");
    }
    if (!plugins && settings->program[0] == '\0') {
        return 0;
    }
    char *command = plugins ? worker_program_plugins_command(settings->compute_dir)
                            : mem_strdup(settings->program);
    int rc = worker_program_new(command, (uint64_t)settings->program_answer_ms, &w->program, err);
    free(command);
    return rc;
}

int worker_shell_start(struct service_context *sc, struct err *err)
{
    struct worker_shell *w = mem_new(1, sizeof *w);
    const struct worker_settings *settings = service_config(sc);
    int rc = data_roots_read(settings->data_root, &w->roots, err);
    if (rc != 0) {
        free(w);
        return rc;
    }
    w->sc = sc;
    rc = start_program(w, settings, err);
    if (rc != 0) {
        data_roots_release(&w->roots);
        free(w);
        return rc;
    }
    w->data = dataset_cache_new(&w->roots, settings->cache_dir);
    w->arrays = worker_arrays_new();
    pthread_mutex_init(&w->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* as chrono_now_ms() */
    pthread_cond_init(&w->drained_cond, &attributes);
    pthread_condattr_destroy(&attributes);
    w->loop = loop_new(0);
    pulse_begin(service_pulse(sc), "node", w->loop);
    w->membership_pulse = service_pulse(sc);
    service_set_absent(sc, "the master does not know this worker yet");
    worker_meters_init(&w->meters, service_meters(sc));
    struct service_methods served = {
        .service = &gradus__v1__worker__descriptor,
        .methods = worker_shell_methods,
        .method_count = worker_shell_method_count,
        .ctx = w,
    };
    rc = service_serve(sc, &served, err);
    if (rc == 0) {
        rc = loop_start(w->loop, "node", err);
    }
    if (rc != 0) {
        loop_free(w->loop);
        dataset_cache_free(w->data);
        worker_arrays_free(w->arrays);
        data_roots_release(&w->roots);
        worker_program_free(w->program);
        pthread_cond_destroy(&w->drained_cond);
        pthread_mutex_destroy(&w->mutex);
        free(w);
        return rc;
    }
    service_set_state(sc, w);
    return 0;
}

struct join {
    struct worker_shell *shell;
    struct err *err;
};

/* Joins the cluster; on the node's loop, which owns the membership: a call may come as soon as the
 * master knows this worker. */
static void join(void *ctx)
{
    struct join *j = ctx;
    struct worker_shell *w = j->shell;
    const struct worker_settings *settings = service_config(w->sc);
    struct membership_options options = {
        .role = MEMBERSHIP_WORKER,
        .master = settings->master,
        .name = settings->name,
        .address = service_advertised(w->sc),
        .http_address = service_http_advertised(w->sc),
        .credentials = service_credentials(w->sc),
        .events = &membership_hooks,
        .ctx = w,
        .pulse = w->membership_pulse,
    };
    w->membership = membership_start(&options, j->err);
}

static bool is_ending(void *sc)
{
    return service_ending(sc);
}

int worker_shell_ready(struct service_context *sc, struct err *err)
{
    struct worker_shell *w = service_state(sc);
    struct join j = {w, err};
    /* A command that is wrong is told here, and not when a job waits for it. */
    int rc = w->program == NULL ? 0 : worker_program_await(w->program, is_ending, sc, err);
    if (rc != 0) {
        return rc;
    }
    rc = loop_call(w->loop, join, &j, err);
    if (rc == 0 && w->membership == NULL) {
        rc = err->code != 0 ? err->code : ERR_INTERNAL;
    }
    return rc;
}

/* ---- the end ---- */

static void drain_begin(void *ctx)
{
    struct worker_shell *w = ctx;
    w->draining = true;
    if (w->job == NULL || worker_job_drain(w->job, on_drained, w, NULL) != 0) {
        on_drained(w);
    }
}

static void drain_end(void *ctx)
{
    worker_shell_drop_job(ctx, "the worker stops");
}

static bool wait_drained(struct worker_shell *w, uint64_t deadline_ms)
{
    const struct timespec deadline = {.tv_sec = (time_t)(deadline_ms / 1000),
                                      .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
    pthread_mutex_lock(&w->mutex);
    while (!w->drained && pthread_cond_timedwait(&w->drained_cond, &w->mutex, &deadline) == 0) {
    }
    bool drained = w->drained;
    pthread_mutex_unlock(&w->mutex);
    return drained;
}

void worker_shell_drain(struct service_context *sc, int64_t grace_ms)
{
    struct worker_shell *w = service_state(sc);
    uint64_t begin_ms = chrono_now_ms();
    if (loop_call(w->loop, drain_begin, w, NULL) == 0 &&
        !wait_drained(w, begin_ms + (uint64_t)grace_ms)) {
        log_warn("drain_cut", "grace_ms=%lld reason=\"work in hand was not finished\"",
                 (long long)grace_ms);
    }
    (void)loop_call(w->loop, drain_end, w, NULL);
    if (w->membership != NULL) {
        membership_leave(w->membership, LEAVE_TIMEOUT_MS);
    }
    log_info("drained", "ms=%llu", (unsigned long long)(chrono_now_ms() - begin_ms));
}

void worker_shell_stop(struct service_context *sc)
{
    struct worker_shell *w = service_state(sc);
    loop_stop(w->loop);
    loop_join(w->loop);
    worker_job_free(w->job);
    worker_program_free(w->program);
    membership_free(w->membership); /* its events post to the loop */
    dataset_cache_free(w->data);
    worker_arrays_free(w->arrays);
    data_roots_release(&w->roots);
    loop_free(w->loop);
    pthread_cond_destroy(&w->drained_cond);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}
