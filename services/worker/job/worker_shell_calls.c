/* SPDX-License-Identifier: Apache-2.0 */
/* The master's calls to a worker: any thread posts them to the node's loop, which finds the job. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/worker.pb-c.h"
#include "os/log.h"
#include "os/log_tail.h"
#include "worker/core/worker.h"
#include "worker/job/worker_shell_state.h"

#define JOB_TEXT_BYTES_MAX (1U << 20)

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

/* A job is taken from the master that this process has joined, which alone knows its incarnation.
 * False: the call is answered. */
static bool is_meant(struct worker_shell *w, struct rpc_call *call, uint64_t incarnation)
{
    struct membership_node node = {.incarnation = 0};
    if (w->membership == NULL) {
        (void)fail(call, ERR_UNAVAILABLE, "this worker is starting");
        return false;
    }
    (void)membership_node(w->membership, &node);
    if (incarnation != node.incarnation) {
        (void)fail(call, ERR_ABORTED,
                   "this was meant for another process, or comes from a master that this worker "
                   "has not joined");
        return false;
    }
    return true;
}

/* Is it the present job's master who asks? False: the call is answered. */
static bool is_master(const struct worker_shell *w, struct rpc_call *call,
                      const ProtobufCBinaryData *secret)
{
    const struct fence asked = wire_fence_from_proto(0, secret);
    struct err err;
    if (fence_check_secret(&w->held.fence, &asked, &err) != 0) {
        (void)rpc_fail(call, &err);
        return false;
    }
    return true;
}

/* The job @id, made (and any other dropped) when this worker does not have it. NULL: the call is
 * answered. */
static struct worker_job *job_for(struct worker_shell *w, struct rpc_call *call, const char *id,
                                  const char *text, const struct fence *fence)
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
    if (w->draining) {
        (void)fail(call, ERR_UNAVAILABLE, "this worker is leaving");
        return NULL;
    }
    worker_shell_drop_job(w, "another job is started");
    struct worker_job_options options = {
        .id = id,
        .text = text,
        .membership = w->membership,
        .meters = &w->meters,
        .tells = &w->tells,
        .data = w->data,
        .message_bytes_max = (size_t)service_common(w->sc)->message_bytes_max,
        .credentials = service_credentials(w->sc),
        .secret = fence->secret,
        .local_sockets = service_local_dir(w->sc),
        .shared_memory = service_common(w->sc)->shared_memory,
        .polling = service_polling(w->sc),
        .program = w->program,
        .arrays = w->arrays,
        .slow_down = ((const struct worker_settings *)service_config(w->sc))->slow_down,
    };
    struct worker_job *job;
    log_tail_job(id);
    worker_arrays_of(w->arrays, id);
    if (worker_job_new(&options, &job, &err) != 0) {
        log_tail_job(NULL);
        (void)rpc_fail(call, &err);
        return NULL;
    }
    log_info("job_taken", "job=%s", id);
    worker_shell_set_job(w, job);
    w->held.fence = *fence;
    return job;
}

/* The job @id when this worker has it, with @secret (NULL: whoever asks). NULL: the call is
 * answered. */
static struct worker_job *job_of(struct worker_shell *w, struct rpc_call *call, const char *id,
                                 const ProtobufCBinaryData *secret)
{
    if (w->job == NULL || strcmp(worker_job_id(w->job), id) != 0) {
        struct err err;
        err_set(&err, ERR_NOT_FOUND, "this worker does not have job %.128s", id);
        (void)rpc_fail(call, &err);
        return NULL;
    }
    return secret == NULL || is_master(w, call, secret) ? w->job : NULL;
}

/* The job @id when this worker has it, started with @start, for its master. NULL: the call is
 * answered. */
static struct worker_job *started_job(struct worker_shell *w, struct rpc_call *call, const char *id,
                                      const ProtobufCBinaryData *secret, uint64_t start)
{
    struct worker_job *job = job_of(w, call, id, secret);
    struct err err;
    if (job != NULL && worker_held_check(&w->held, start, &err) != 0) {
        (void)rpc_fail(call, &err);
        return NULL;
    }
    return job;
}

static void handle_inspect(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__InspectDataRequest *r = (const Gradus__V1__InspectDataRequest *)msg->body;
    const struct fence fence = wire_fence_from_proto(0, &r->secret);
    bool here = w->job != NULL && strcmp(worker_job_id(w->job), r->job) == 0;
    if (!is_meant(w, call, r->incarnation) || (here && !is_master(w, call, &r->secret))) {
        return;
    }
    struct worker_job *job = job_for(w, call, r->job, r->text, &fence);
    if (job != NULL) {
        worker_job_inspect(job, call, msg);
    }
}

static void handle_start(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__StartJobRequest *r = (const Gradus__V1__StartJobRequest *)msg->body;
    const struct fence fence = wire_fence_from_proto(0, &r->secret);
    struct err err = {0};
    if (!is_meant(w, call, r->incarnation)) {
        return;
    }
    bool here = w->job != NULL && strcmp(worker_job_id(w->job), r->job) == 0;
    switch (worker_start_decide(&w->starts, here ? &w->held : NULL, r->start, &fence, &err)) {
    case WORKER_START_REFUSED:
        (void)rpc_fail(call, &err);
        return;
    case WORKER_START_AGAIN:
        worker_shell_drop_job(w, "the job is started again");
        break;
    case WORKER_START_NEW:
    case WORKER_START_SAME:
        break;
    }
    struct worker_job *job = job_for(w, call, r->job, r->text, &fence);
    if (job != NULL) {
        worker_shell_set_start(w, r->start);
        worker_job_start(job, call, msg);
    }
}

static void handle_assign(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__AssignRequest *r = (const Gradus__V1__AssignRequest *)msg->body;
    struct worker_job *job = started_job(w, call, r->job, &r->secret, r->start);
    if (job != NULL) {
        worker_job_assign(job, call, msg);
    }
}

static void handle_evaluate(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__EvaluateRequest *r = (const Gradus__V1__EvaluateRequest *)msg->body;
    struct worker_job *job = started_job(w, call, r->job, &r->secret, r->start);
    if (job != NULL) {
        worker_job_evaluate(job, call, msg);
    }
}

static void handle_stop(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__StopJobRequest *r = (const Gradus__V1__StopJobRequest *)msg->body;
    bool here = w->job != NULL && strcmp(worker_job_id(w->job), r->job) == 0;
    if (here && !is_master(w, call, &r->secret)) {
        return;
    }
    const struct fence fence = wire_fence_from_proto(0, &r->secret);
    worker_starts_note(&w->starts, &fence, r->start);
    if (here && worker_stop_decide(&w->held, r->start)) {
        worker_shell_drop_job(w, r->reason[0] != '\0' ? r->reason : "stopped by the master");
    }
    Gradus__V1__StopJobResponse response = GRADUS__V1__STOP_JOB_RESPONSE__INIT;
    (void)rpc_reply(call, &response.base, NULL);
}

static void handle_trace(struct worker_shell *w, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__TraceRequest *r = (const Gradus__V1__TraceRequest *)msg->body;
    struct worker_job *job = job_of(w, call, r->job, NULL);
    if (job != NULL) {
        worker_job_trace(job, call, msg);
    }
}

/* The clock is told at once: on its way to the job's thread it would get old. */
static void on_trace(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__TraceRequest *r = (const Gradus__V1__TraceRequest *)msg->body;
    if (r->action == GRADUS__V1__TRACE_REQUEST__ACTION__CLOCK) {
        struct wire_trace reply;
        wire_trace_to_proto(NULL, &reply);
        (void)rpc_reply(call, &reply.response.base, NULL);
        wire_trace_release(&reply);
    } else if (r->action == GRADUS__V1__TRACE_REQUEST__ACTION__RECORD ||
               r->action == GRADUS__V1__TRACE_REQUEST__ACTION__TAKE) {
        post(service, call, msg, handle_trace);
    } else {
        (void)fail(call, ERR_INVALID, "a worker knows no such action of a trace");
    }
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

const struct rpc_method worker_shell_methods[] = {
    {.name = "InspectData", .request = on_inspect}, {.name = "StartJob", .request = on_start},
    {.name = "Assign", .request = on_assign},       {.name = "Evaluate", .request = on_evaluate},
    {.name = "StopJob", .request = on_stop},        {.name = "Trace", .request = on_trace},
};
const size_t worker_shell_method_count =
    sizeof worker_shell_methods / sizeof worker_shell_methods[0];
