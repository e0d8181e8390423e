#include "worker/worker_shell.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/chrono.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/worker.pb-c.h"
#include "service/loop.h"
#include "service/membership.h"
#include "wire/wire.h"
#include "worker/slow_down.h"
#include "worker/worker_job.h"

#define LEAVE_TIMEOUT_MS 2000
#define JOB_TEXT_BYTES_MAX (1U << 20)

const struct field worker_fields[] = {
    {"master", FIELD_STRING, offsetof(struct worker_settings, master), "127.0.0.1:7000", 0, 0, NULL,
     "Address of the master, host:port"},
    {"name", FIELD_STRING, offsetof(struct worker_settings, name), "", 0, 0, NULL,
     "Wanted node id; the master chooses one when it is empty or taken"},
    {"slow_down", FIELD_FLOAT, offsetof(struct worker_settings, slow_down), "1", 1, SLOW_DOWN_MAX,
     NULL, "For experiments: every computation takes so many times as long; 1: off"},
};
const size_t worker_field_count = sizeof worker_fields / sizeof worker_fields[0];

/* Owner: the node's loop, on a thread of its own; calls and membership events are posted to it. */
struct worker_shell {
    struct service_context *sc;
    struct membership *membership; /* NULL until the server serves */
    struct worker_meters meters;
    struct loop *loop;
    struct worker_job *job; /* NULL: none */
    bool draining;
    pthread_mutex_t mutex;              /* guards what follows */
    char job_id[WIRE_ID_BYTES_MAX + 1]; /* for the heartbeat */
    bool drained;
    pthread_cond_t drained_cond;
};

static void set_job(struct worker_shell *w, struct worker_job *job)
{
    w->job = job;
    pthread_mutex_lock(&w->mutex);
    text_copy(w->job_id, sizeof w->job_id, job != NULL ? worker_job_id(job) : "");
    pthread_mutex_unlock(&w->mutex);
    if (job != NULL) {
        membership_hurry(w->membership);
    }
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

static void drop_job(struct worker_shell *w, const char *why)
{
    struct worker_job *job = w->job;
    if (job == NULL) {
        return;
    }
    char quoted[256];
    log_info("job_dropped", "job=%s reason=%s", worker_job_id(job),
             log_quote(why, quoted, sizeof quoted));
    set_job(w, NULL);
    worker_job_free(job);
    if (w->draining) {
        on_drained(w);
    }
}

/* ---- calls: any thread → the node's loop ---- */

struct request {
    struct worker_shell *shell;
    struct rpc_call *call;
    struct rpc_msg *msg;
    void (*handle)(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg);
};

static void request_run(void *ctx)
{
    struct request *r = ctx;
    if (loop_discarding(r->shell->loop)) {
        struct err err;
        err_set(&err, ERR_UNAVAILABLE, "the worker is stopping");
        (void)rpc_fail(r->call, &err);
    } else {
        r->handle(r->shell, r->call, r->msg);
    }
    rpc_msg_unref(r->msg);
    rpc_call_unref(r->call);
    free(r);
}

static void post(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg,
                 void (*handle)(struct worker_shell *, struct rpc_call *, struct rpc_msg *))
{
    struct request *r = mem_new(1, sizeof *r);
    *r = (struct request){w, rpc_call_ref(call), rpc_msg_ref(msg), handle};
    struct err err = {0};
    if (loop_post(w->loop, request_run, r, &err) != 0) {
        (void)rpc_fail(call, &err);
        rpc_msg_unref(msg);
        rpc_call_unref(call);
        free(r);
    }
}

static int fail(struct rpc_call *call, int code, const char *message)
{
    struct err err;
    err_set(&err, code, "%s", message);
    return rpc_fail(call, &err);
}

/* The job @id, made (and any other dropped) when this worker does not have it. NULL: the call is
 * answered. */
static struct worker_job *job_for(struct worker_shell *w, struct rpc_call *call, const char *id,
                                  const char *text)
{
    struct err err = {0};
    if (wire_id_check(id, "job", &err) != 0) {
        (void)rpc_fail(call, &err);
        return NULL;
    }
    if (strlen(text) > JOB_TEXT_BYTES_MAX) {
        (void)fail(call, ERR_INVALID, "the job file is larger than 1 MiB");
        return NULL;
    }
    if (w->job != NULL && strcmp(worker_job_id(w->job), id) == 0) {
        return w->job;
    }
    if (w->membership == NULL) {
        (void)fail(call, ERR_UNAVAILABLE, "this worker is starting");
        return NULL;
    }
    if (w->draining) {
        (void)fail(call, ERR_UNAVAILABLE, "this worker is leaving");
        return NULL;
    }
    drop_job(w, "another job is started");
    struct worker_job_options options = {
        .id = id,
        .text = text,
        .membership = w->membership,
        .meters = &w->meters,
        .message_bytes_max = (size_t)service_common(w->sc)->message_bytes_max,
        .slow_down = ((const struct worker_settings *)service_config(w->sc))->slow_down,
    };
    struct worker_job *job;
    if (worker_job_new(&options, &job, &err) != 0) {
        (void)rpc_fail(call, &err);
        return NULL;
    }
    log_info("job_taken", "job=%s", id);
    set_job(w, job);
    return job;
}

/* The job @id when this worker has it. NULL: the call is answered. */
static struct worker_job *job_of(struct worker_shell *w, struct rpc_call *call, const char *id)
{
    if (w->job == NULL || strcmp(worker_job_id(w->job), id) != 0) {
        struct err err;
        err_set(&err, ERR_NOT_FOUND, "this worker does not have job %.128s", id);
        (void)rpc_fail(call, &err);
        return NULL;
    }
    return w->job;
}

static void handle_inspect(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__InspectDataRequest *r = (const Gradus__V1__InspectDataRequest *)msg->body;
    struct worker_job *job = job_for(w, call, r->job, r->text);
    if (job != NULL) {
        worker_job_inspect(job, call, msg);
    }
}

static void handle_start(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__StartJobRequest *r = (const Gradus__V1__StartJobRequest *)msg->body;
    struct worker_job *job = job_for(w, call, r->job, r->text);
    if (job != NULL) {
        worker_job_start(job, call, msg);
    }
}

static void handle_assign(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__AssignRequest *r = (const Gradus__V1__AssignRequest *)msg->body;
    struct worker_job *job = job_of(w, call, r->job);
    if (job != NULL) {
        worker_job_assign(job, call, msg);
    }
}

static void handle_evaluate(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__EvaluateRequest *r = (const Gradus__V1__EvaluateRequest *)msg->body;
    struct worker_job *job = job_of(w, call, r->job);
    if (job != NULL) {
        worker_job_evaluate(job, call, msg);
    }
}

static void handle_stop(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__StopJobRequest *r = (const Gradus__V1__StopJobRequest *)msg->body;
    if (w->job != NULL && strcmp(worker_job_id(w->job), r->job) == 0) {
        drop_job(w, r->reason[0] != '\0' ? r->reason : "stopped by the master");
    }
    Gradus__V1__StopJobResponse response = GRADUS__V1__STOP_JOB_RESPONSE__INIT;
    (void)rpc_reply(call, &response.base, NULL);
}

static void on_inspect(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    post(service, call, msg, handle_inspect);
}

static void on_start(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    post(service, call, msg, handle_start);
}

static void on_assign(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    post(service, call, msg, handle_assign);
}

static void on_evaluate(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    post(service, call, msg, handle_evaluate);
}

static void on_stop(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    post(service, call, msg, handle_stop);
}

static const struct rpc_method methods[] = {
    {.name = "InspectData", .request = on_inspect}, {.name = "StartJob", .request = on_start},
    {.name = "Assign", .request = on_assign},       {.name = "Evaluate", .request = on_evaluate},
    {.name = "StopJob", .request = on_stop},
};

/* ---- membership ---- */

struct stop_message {
    struct worker_shell *shell;
    char job[WIRE_ID_BYTES_MAX + 1]; /* empty: whichever it is */
    char why[128];
};

static void stop_run(void *ctx)
{
    struct stop_message *m = ctx;
    struct worker_job *job = m->shell->job;
    if (!loop_discarding(m->shell->loop) && job != NULL &&
        (m->job[0] == '\0' || strcmp(worker_job_id(job), m->job) == 0)) {
        drop_job(m->shell, m->why);
    }
    free(m);
}

static void post_stop(struct worker_shell *w, const char *job, const char *why)
{
    struct stop_message *m = mem_new(1, sizeof *m);
    m->shell = w;
    text_copy(m->job, sizeof m->job, job);
    text_copy(m->why, sizeof m->why, why);
    if (loop_post(w->loop, stop_run, m, NULL) != 0) {
        free(m);
    }
}

static void on_joined(void *ctx, const struct membership_node *node)
{
    (void)ctx;
    log_info("joined", "node=%s", node->id);
}

static void on_lost(void *ctx, const struct err *reason)
{
    char quoted[512];
    log_warn("lost", "reason=%s", log_quote(reason->msg, quoted, sizeof quoted));
    post_stop(ctx, "", "the master does not know this worker any more");
}

static void on_stop_job(void *ctx, const char *job)
{
    post_stop(ctx, job, "the master says that the job is over");
}

static void on_jobs(void *ctx, struct membership_jobs *jobs)
{
    struct worker_shell *w = ctx;
    pthread_mutex_lock(&w->mutex);
    if (w->job_id[0] != '\0') {
        membership_jobs_add(jobs, w->job_id);
    }
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
    .jobs = on_jobs,
    .trouble = on_trouble,
};

/* ---- hooks of the service ---- */

static void make_meters(struct worker_meters *m, struct meter_registry *r)
{
    m->batches = meter_counter(r, "worker_batches_total", "Mini-batches computed", NULL, 0);
    m->examples = meter_counter(r, "worker_examples_total", "Training examples computed", NULL, 0);
    m->evaluations =
        meter_counter(r, "worker_evaluations_total", "Chunks of test records evaluated", NULL, 0);
    m->exchanges_failed = meter_counter(r, "worker_exchanges_failed_total",
                                        "Exchanges with shards that failed", NULL, 0);
    m->compute_seconds = meter_total(r, "worker_compute_seconds_total",
                                     "Time spent in forward and backward passes", NULL, 0);
    m->wait_seconds =
        meter_total(r, "worker_wait_seconds_total",
                    "Time between computations: parameters, leases, evaluations", NULL, 0);
}

int worker_shell_start(struct service_context *sc, struct err *err)
{
    struct worker_shell *w = mem_new(1, sizeof *w);
    w->sc = sc;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* as chrono_now_ms() */
    pthread_cond_init(&w->drained_cond, &attributes);
    pthread_condattr_destroy(&attributes);
    w->loop = loop_new(0);
    make_meters(&w->meters, service_meters(sc));
    struct service_methods served = {
        .service = &gradus__v1__worker__descriptor,
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .ctx = w,
    };
    int rc = service_serve(sc, &served, err);
    if (rc == 0) {
        rc = loop_start(w->loop, "node", err);
    }
    if (rc != 0) {
        loop_free(w->loop);
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

/* On the node's loop, which owns the membership: a call may come as soon as the master knows us. */
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
        .events = &membership_hooks,
        .ctx = w,
    };
    w->membership = membership_start(&options, j->err);
}

int worker_shell_ready(struct service_context *sc, struct err *err)
{
    struct worker_shell *w = service_state(sc);
    struct join j = {w, err};
    int rc = loop_call(w->loop, join, &j, err);
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
    drop_job(ctx, "the worker stops");
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
    membership_free(w->membership); /* its events post to the loop */
    loop_free(w->loop);
    pthread_cond_destroy(&w->drained_cond);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}
