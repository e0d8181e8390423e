/* SPDX-License-Identifier: Apache-2.0 */
/* Who submits jobs to the load, changes each of them once, watches it to its end and submits the
 * next one. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "bench/load.h"
#include "gradus/v1/jobs.pb-c.h"
#include "os/chrono.h"

#define EPOCHS 1
#define CHANGE_MS 3000 /* after it began to run */
#define AGAIN_MS 1000  /* after a submission that was refused */
#define SPREAD_MS 50   /* from the first submission of one client to that of the next */
#define TIMEOUT_MS 20000

struct client {
    struct load *load;
    char job[LOAD_ID_ROOM];
    struct load_job *books; /* of that job */
    struct rpc_stream *watch;
    struct loop_timer timer;
    bool running;
};

struct word { /* from the thread of gRPC */
    struct client *client;
    void (*take)(struct client *c, int code, const ProtobufCMessage *body);
    int code;
    struct rpc_msg *msg;
};

static void deliver(void *ctx)
{
    struct word *w = ctx;
    struct load *l = w->client->load;
    if (!loop_discarding(l->loop) && !l->ending) {
        w->take(w->client, w->code, w->msg == NULL ? NULL : w->msg->body);
    }
    rpc_msg_unref(w->msg);
    free(w);
}

static void post(struct client *c, void (*take)(struct client *, int, const ProtobufCMessage *),
                 int code, struct rpc_msg *msg)
{
    struct word *w = mem_new(1, sizeof *w);
    *w = (struct word){c, take, code, msg == NULL ? NULL : rpc_msg_ref(msg)};
    if (loop_post(c->load->loop, deliver, w, NULL) != 0) {
        rpc_msg_unref(w->msg);
        free(w);
    }
}

static void submit(void *ctx);

static void later(struct client *c, uint64_t ms, void (*fn)(void *ctx))
{
    loop_timer_set(c->load->loop, &c->timer, chrono_now_ms() + ms, fn, c);
}

static int ask(struct client *c, const char *method, const ProtobufCMessage *body,
               void (*done)(void *ctx, const struct rpc_status *status, struct rpc_msg *reply))
{
    struct err err;
    const struct rpc_request request = {.service = &gradus__v1__jobs__descriptor,
                                        .method = method,
                                        .body = body,
                                        .timeout_ms = TIMEOUT_MS,
                                        .wait_for_ready = true};
    int rc = rpc_call_start(c->load->client, &request, done, c, &err);
    if (rc != 0) {
        load_complain(c->load, method, &err);
    }
    return rc;
}

/* ---- a change ---- */

static void taken_change(struct client *c, int code, const ProtobufCMessage *body)
{
    (void)body;
    c->load->changed += code == 0; /* a job may have ended before */
    c->books->stands = false;
}

static void changed(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)reply;
    post(ctx, taken_change, status->err.code, NULL);
}

static void change(void *ctx)
{
    struct client *c = ctx;
    if (c->load->paused) {
        later(c, CHANGE_MS, change);
        return;
    }
    Gradus__V1__SetJobRequest q = GRADUS__V1__SET_JOB_REQUEST__INIT;
    char set[] = "training.pull_every=2";
    char *sets[] = {set};
    q.job = c->job;
    q.sets = sets;
    q.n_sets = 1;
    c->books->stands = ask(c, "Set", &q.base, changed) == 0;
}

/* ---- watching ---- */

static bool is_end(Gradus__V1__JobState state)
{
    return state == GRADUS__V1__JOB_STATE__SUCCEEDED || state == GRADUS__V1__JOB_STATE__FAILED ||
           state == GRADUS__V1__JOB_STATE__CANCELLED;
}

static void seen(struct client *c, int code, const ProtobufCMessage *body)
{
    (void)code;
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)body;
    if (job->state == GRADUS__V1__JOB_STATE__RUNNING && !c->running) {
        c->running = true;
        c->books = load_job(c->load, c->job); /* its shards have made them */
        c->load->running++;
        later(c, CHANGE_MS, change);
    }
    if (is_end(job->state)) {
        c->load->running -= c->running;
        c->running = false;
        c->load->ended++;
        if (job->state != GRADUS__V1__JOB_STATE__SUCCEEDED) {
            struct err err;
            c->load->failed++;
            err_set(&err, ERR_UNKNOWN, "%s", job->reason);
            load_complain(c->load, c->job, &err);
        }
    }
}

static void on_seen(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    post(ctx, seen, 0, msg);
}

static void watched(struct client *c, int code, const ProtobufCMessage *body)
{
    (void)body;
    rpc_stream_free(c->watch);
    c->watch = NULL;
    if (code != 0) {
        c->load->errors++;
    }
    submit(c);
}

static void on_watched(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    post(ctx, watched, status->err.code, NULL);
}

static void watch(struct client *c)
{
    static const struct rpc_stream_events events = {.message = on_seen, .done = on_watched};
    struct err err;
    Gradus__V1__GetJobRequest q = GRADUS__V1__GET_JOB_REQUEST__INIT;
    q.job = c->job;
    const struct rpc_request request = {
        .service = &gradus__v1__jobs__descriptor, .method = "Watch", .body = &q.base};
    c->watch = rpc_stream_open(c->load->client, &request, &events, c, &err);
    if (c->watch == NULL) {
        load_complain(c->load, "Watch", &err);
    }
}

/* ---- submitting ---- */

static void submitted(struct client *c, int code, const ProtobufCMessage *body)
{
    if (code != 0) {
        struct err err;
        err_set(&err, code, "%s", err_code_name(code));
        load_complain(c->load, "Submit", &err);
        later(c, AGAIN_MS, submit);
        return;
    }
    c->load->submitted++;
    text_copy(c->job, sizeof c->job, ((const Gradus__V1__SubmitResponse *)body)->job);
    watch(c);
}

static void on_submitted(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    post(ctx, submitted, status->err.code, reply);
}

static void submit(void *ctx)
{
    struct client *c = ctx;
    const struct load_options *o = &c->load->options;
    if (c->load->paused) {
        later(c, AGAIN_MS, submit);
        return;
    }
    Gradus__V1__SubmitRequest q = GRADUS__V1__SUBMIT_REQUEST__INIT;
    char *text = mem_printf("name: load\n"
                            "data: {train: {file: a.csv}}\n"
                            "model: {layers: [dense: {units: 10}], loss: softmax_cross_entropy}\n"
                            "update: {rule: sgd}\n"
                            "training: {mode: async, batch_size: 1, split_batches: 1, epochs: %d}\n"
                            "cluster: {workers: %zu..%zu, ps: %zu}\n",
                            EPOCHS, (o->job_workers + 1) / 2, o->job_workers, o->job_servers);
    q.text = text;
    if (ask(c, "Submit", &q.base, on_submitted) != 0) {
        later(c, AGAIN_MS, submit);
    }
    free(text);
}

void load_clients_begin(struct load *l)
{
    size_t count = l->options.jobs + l->options.queue;
    struct client *clients = mem_new(count, sizeof *clients); /* as long as the process */
    for (size_t i = 0; i < count; i++) {
        clients[i].load = l;
        later(&clients[i], i * SPREAD_MS, submit);
    }
}
