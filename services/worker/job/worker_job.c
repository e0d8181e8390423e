/* SPDX-License-Identifier: Apache-2.0 */
/* One job, from its thread's start to its end: carries out what the worker's core decides. */
#include "worker/job/worker_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/worker.pb-c.h"
#include "os/chrono.h"
#include "wire/wire.h"
#include "worker/job/worker_job_state.h"

#define LOOP_MESSAGES 16384 /* more than shards, calls and reports there can be at once */

/* ---- computing ---- */

static void do_add(struct worker_job *j, const struct worker_do_add *a)
{
    struct err err = {0};
    uint64_t begin = chrono_now_ns();
    if (worker_model_add(&j->model, a->buffer, a->buffer_from, &err) != 0) {
        worker_job_fail(j, &err);
        return;
    }
    worker_job_sums_changed(&j->sums, a->buffer);
    worker_job_busy(j, STEP_COMPUTE, TRACE_ADD, begin, chrono_now_ns());
}

struct fetch {
    struct worker_job *job;
    const struct worker_request *request;
    bool lost; /* rows did not come */
};

static int fetch_rows(void *ctx, struct err *err)
{
    struct fetch *f = ctx;
    worker_job_rows_begin(f->job, f->request);
    int rc = worker_job_rows_wait(f->job, err);
    f->lost = rc != 0;
    return rc;
}

/* An error of the computation, which comes again whenever it is tried, ends the job, as one in a
 * gradient does. Not so records that there are not, and what servers or a store do not give now. */
static bool is_lasting(const struct fetch *f, int rc)
{
    const bool passes = rc == ERR_RANGE || rc == ERR_UNAVAILABLE || rc == ERR_CANCELLED;
    return rc != 0 && !f->lost && !passes;
}

static void do_evaluate(struct worker_job *j, const struct worker_do_evaluate *a)
{
    struct err err = {0};
    struct fetch fetch = {j, &a->request, false};
    const struct worker_model_fetch rows = {fetch_rows, &fetch};
    struct metrics sums;
    metrics_init(&sums, j->model.spec.model.metrics);
    work_begin(&j->tells->work, "Evaluate", 0, "");
    uint64_t begin = chrono_now_ns();
    uint64_t used = chrono_thread_ns();
    int rc = worker_model_evaluate(&j->model, a->first, a->count, &rows, &sums, &err);
    slow_down_wait(&j->slow_down, begin, chrono_thread_ns() - used);
    work_end(&j->tells->work);
    worker_job_busy(j, STEP_WAIT, TRACE_EVALUATE, begin, chrono_now_ns());
    struct rpc_call *call = worker_job_take_call(j, a->tag);
    if (call != NULL) {
        if (rc == 0) {
            Gradus__V1__EvaluateResponse response = GRADUS__V1__EVALUATE_RESPONSE__INIT;
            Gradus__V1__MetricSums packed;
            wire_metrics_to_proto(&sums, &packed);
            response.sums = &packed;
            (void)rpc_reply(call, &response.base, NULL);
            wire_metrics_release(&packed);
        } else {
            (void)rpc_fail(call, &err);
        }
        rpc_call_unref(call);
    }
    metrics_release(&sums);
    meter_add(j->meters->evaluations, 1);
    if (is_lasting(&fetch, rc)) {
        worker_job_fail(j, &err);
        return;
    }
    worker_job_tell_computed(j, 0, false);
}

static void do_place(struct worker_job *j, const struct worker_do_place *a)
{
    struct err err = {0};
    const struct ps_client_place place = {a->place.address, a->place.opening};
    if (ps_client_place(j->client, a->shard, &place, &err) != 0) {
        worker_job_fail(j, &err);
    }
}

static void do_join(struct worker_job *j, const struct worker_do_join *a)
{
    struct err err = {0};
    if (worker_job_sums_join(&j->sums, a, &err) != 0) {
        worker_job_fail(j, &err);
    }
}

static void on_timer(void *ctx)
{
    struct worker_event event = {.kind = WORKER_TIMER};
    worker_job_step(ctx, &event);
}

static void reply_assign(struct worker_job *j, const struct worker_do_reply *a)
{
    struct rpc_call *call = worker_job_take_call(j, a->tag);
    if (call == NULL) {
        return;
    }
    if (a->code != 0) {
        worker_job_fail_call(call, a->code, a->message);
    } else {
        Gradus__V1__AssignResponse response = GRADUS__V1__ASSIGN_RESPONSE__INIT;
        response.position = a->position;
        atomic_store(&j->tells->generation, worker_generation(j->core));
        (void)rpc_reply(call, &response.base, NULL);
    }
    rpc_call_unref(call);
}

static bool needs_the_data(enum worker_action_kind kind)
{
    return kind == WORKER_DO_COMPUTE || kind == WORKER_DO_EVALUATE || kind == WORKER_DO_ADD ||
           kind == WORKER_DO_EXCHANGE || kind == WORKER_DO_JOIN;
}

/* True if the action belongs to training; evaluations do not. */
static bool begins_work(const struct worker_action *a)
{
    const struct exchange_request *ask = &a->exchange.ask;
    return a->kind == WORKER_DO_COMPUTE ||
           (a->kind == WORKER_DO_EXCHANGE && (ask->has_push || ask->has_pull));
}

static void execute(struct worker_job *j, const struct worker_action *a)
{
    struct rpc_call *call;
    if (j->halted && needs_the_data(a->kind)) {
        return;
    }
    if (begins_work(a)) {
        j->idle = false;
        j->report_idle = false;
    }
    if ((a->kind == WORKER_DO_COMPUTE || a->kind == WORKER_DO_EVALUATE) && j->client != NULL) {
        ps_client_busy(j->client);
    }
    switch (a->kind) {
    case WORKER_DO_COMPUTE:
        work_begin(&j->tells->work, "step", 0, "");
        worker_job_compute(j, &a->compute);
        work_end(&j->tells->work);
        break;
    case WORKER_DO_EVALUATE:
        do_evaluate(j, &a->evaluate);
        break;
    case WORKER_DO_PLACE:
        do_place(j, &a->place);
        break;
    case WORKER_DO_JOIN:
        do_join(j, &a->join);
        break;
    case WORKER_DO_ADD:
        do_add(j, &a->add);
        break;
    case WORKER_DO_EXCHANGE:
        worker_job_exchange(j, &a->exchange);
        break;
    case WORKER_DO_LEASE:
        worker_job_lease(j, &a->lease);
        break;
    case WORKER_DO_REPORT_SPLIT:
        worker_job_report_split(j, &a->report_split);
        break;
    case WORKER_DO_REPORT_PROGRESS:
        worker_job_report_progress(j, &a->report_progress);
        break;
    case WORKER_DO_PREFETCH:
        worker_model_prefetch(&j->model, &a->prefetch);
        break;
    case WORKER_DO_TIMER:
        loop_timer_set(j->loop, &j->timer, a->timer_ms, on_timer, j);
        break;
    case WORKER_DO_REPLY_ASSIGN:
        reply_assign(j, &a->reply);
        break;
    case WORKER_DO_FAIL_EVALUATE:
        call = worker_job_take_call(j, a->reply.tag);
        if (call != NULL) {
            worker_job_fail_call(call, a->reply.code, a->reply.message);
            rpc_call_unref(call);
        }
        break;
    case WORKER_DO_FAIL_JOB:
        worker_job_report_failure(j, &a->fail_job);
        break;
    }
}

/* ---- life ---- */

int worker_job_new(const struct worker_job_options *o, struct worker_job **out, struct err *err)
{
    struct worker_job *j = mem_new(1, sizeof *j);
    j->id = mem_strdup(o->id);
    j->text = mem_strdup(o->text);
    j->membership = o->membership;
    j->meters = o->meters;
    j->tells = o->tells;
    j->data = o->data;
    j->message_bytes_max = o->message_bytes_max;
    j->credentials = o->credentials;
    memcpy(j->secret, o->secret, sizeof j->secret);
    j->local_sockets = o->local_sockets;
    j->shared_memory = o->shared_memory;
    j->polling = o->polling;
    trace_init(&j->trace.recorder);
    slow_down_init(&j->slow_down, o->slow_down);
    j->model.program = o->program;
    j->model.arrays = o->arrays;
    j->execute = execute;
    j->loop = loop_new(LOOP_MESSAGES);
    j->mail = mem_new(1, sizeof *j->mail);
    pthread_mutex_init(&j->mail->mutex, NULL);
    j->mail->loop = j->loop;
    j->mail->refs = 1;
    int rc = loop_start(j->loop, "job", err);
    if (rc != 0) {
        loop_free(j->loop);
        worker_job_mail_drop(j->mail);
        slow_down_release(&j->slow_down);
        trace_release(&j->trace.recorder);
        free(j->id);
        free(j->text);
        free(j);
        return rc;
    }
    *out = j;
    return 0;
}

const char *worker_job_id(const struct worker_job *j)
{
    return j->id;
}

static void stop(void *ctx)
{
    struct worker_job *j = ctx;
    struct worker_event event = {.kind = WORKER_STOP};
    worker_job_step(j, &event);
    loop_stop(j->loop);
}

void worker_job_free(struct worker_job *j)
{
    if (j == NULL) {
        return;
    }
    if (loop_post(j->loop, stop, j, NULL) != 0) {
        loop_stop(j->loop);
    }
    slow_down_end(&j->slow_down);
    worker_model_interrupt(&j->model);
    pthread_mutex_lock(&j->mail->mutex);
    if (j->client != NULL) {
        ps_client_cancel(j->client); /* the thread may be waiting for a server */
    }
    pthread_mutex_unlock(&j->mail->mutex);
    loop_join(j->loop);
    pthread_mutex_lock(&j->mail->mutex);
    j->mail->loop = NULL;
    pthread_mutex_unlock(&j->mail->mutex);
    if (j->client != NULL) {
        ps_client_close(j->client);
    }
    worker_job_trace_end(j);
    worker_job_fill_end(j, ERR_CANCELLED, "the job was stopped");
    loop_free(j->loop);
    ps_client_free(j->client);
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].call != NULL) {
            worker_job_fail_call(j->calls[i].call, ERR_CANCELLED, "the job was stopped");
            rpc_call_unref(j->calls[i].call);
        }
    }
    work_end(&j->tells->evaluations);
    worker_job_mail_drop(j->mail);
    worker_free(j->core);
    worker_actions_release(&j->actions);
    worker_job_measurements_clear(&j->measured);
    worker_job_measurements_clear(&j->reporting);
    worker_job_sums_release(&j->sums);
    worker_model_release(&j->model);
    plan_release(&j->plan);
    slow_down_release(&j->slow_down);
    trace_release(&j->trace.recorder);
    free(j->id);
    free(j->text);
    free(j);
}
