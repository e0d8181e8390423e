/* SPDX-License-Identifier: Apache-2.0 */
/* A worker process, what it tells the master, and how it leaves: this program is also the worker,
 * and the test is its master and its parameter server. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include "ps_methods.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "gradus/v1/cluster.pb-c.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "service/address.h"
#include "service/spawn.h"
#include "wire/wire.h"
#include "worker/job/worker_model.h"
#include "worker/job/worker_shell.h"

#define AS_WORKER "as-worker"
#define WAIT_MS 30000
#define RECORDS 64
#define BATCH 8
#define SPLIT_BATCHES 4
#define SPLITS 2
#define GENERATION 3
#define STALENESS 6        /* of each push that was applied */
#define STALENESS_BUCKET 4 /* 0, 1, 2, 3 to 4, 5 to 8 */
#define NOTES_MAX 32

static const char job_text[] = "name: leaving\n"
                               "data: {dir: %s, train: {file: train.csv},\n"
                               "       test: {file: train.csv}}\n"
                               "model:\n"
                               "  layers:\n"
                               "    - dense: {units: 2}\n"
                               "  loss: softmax_cross_entropy\n"
                               "update: {rule: sgd, learning_rate: 0.1}\n"
                               "training: {mode: %s, batch_size: %d, replicas: 1, epochs: 9,\n"
                               "           evaluate_every: never}\n"
                               "cluster: {workers: 1, ps: 1}\n";

/* What the worker did, in order. */
enum note { NOTE_PUSHED, NOTE_ANSWERED, NOTE_IDLE, NOTE_LEFT };

struct fixture {
    char *dir, *log_path, *data_path;
    char text[1024];
    struct worker_model model;
    struct model *layers;
    struct plan plan;
    struct rpc_server *server;
    struct spawn worker;
    struct rpc_channel *channel;
    char http[64]; /* where the worker's metrics are */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    _Atomic uint64_t incarnation; /* of the worker */
    bool hold;                    /* answers to pushes are kept back */
    struct rpc_call *held_call;   /* with this one */
    uint64_t held_exchange;
    uint64_t version;
    bool lease;                /* the second split is free; else nobody gets any */
    unsigned leases;           /* requests for them */
    uint32_t reported[SPLITS]; /* batch_end of the splits that were reported */
    uint64_t staleness[STALENESS_BUCKET + 1], batches, examples;
    bool failed;
    bool refuse;  /* exchanges, so that the worker gives the job up */
    int32_t code; /* of the failure that it reported */
    char message[256];
    unsigned heartbeats;
    char held[64]; /* what the last one said: "job-1/3" */
    uint64_t sequence;
    enum note notes[NOTES_MAX];
    size_t note_count;
};

/* ---- the master ---- */

static void note(struct fixture *f, enum note what)
{
    if (f->note_count < NOTES_MAX) {
        f->notes[f->note_count++] = what;
    }
    pthread_cond_broadcast(&f->changed);
}

static void on_join(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fixture *f = service;
    const Gradus__V1__JoinRequest *q = (const Gradus__V1__JoinRequest *)msg->body;
    assert_int_equal(q->role, GRADUS__V1__NODE_ROLE__WORKER);
    assert_string_equal(q->name, "the-name");
    assert_non_null(strchr(q->address, ':'));
    assert_non_null(strchr(q->http_address, ':'));
    atomic_store(&f->incarnation, q->incarnation);
    char id[] = "worker-1";
    Gradus__V1__JoinResponse r = GRADUS__V1__JOIN_RESPONSE__INIT;
    r.id = id;
    r.heartbeat_interval_ms = 50;
    r.heartbeat_timeout_ms = 3000;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_heartbeat(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fixture *f = service;
    const Gradus__V1__HeartbeatRequest *q = (const Gradus__V1__HeartbeatRequest *)msg->body;
    Gradus__V1__HeartbeatResponse r = GRADUS__V1__HEARTBEAT_RESPONSE__INIT;
    pthread_mutex_lock(&f->lock);
    assert_true(q->n_jobs <= 1);
    f->held[0] = '\0';
    if (q->n_jobs == 1) {
        (void)snprintf(f->held, sizeof f->held, "%s/%d", q->jobs[0]->job,
                       (int)q->jobs[0]->generation);
    }
    f->heartbeats++;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_leave(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)msg;
    struct fixture *f = service;
    pthread_mutex_lock(&f->lock);
    note(f, NOTE_LEFT);
    pthread_mutex_unlock(&f->lock);
    Gradus__V1__LeaveResponse r = GRADUS__V1__LEAVE_RESPONSE__INIT;
    (void)rpc_reply(call, &r.base, NULL);
}

/* Every report says of whom and of what it is. */
static void check_sender(struct fixture *f, const Gradus__V1__NodeRef *node, const char *job,
                         uint64_t generation)
{
    assert_string_equal(node->id, "worker-1");
    assert_true(node->incarnation == atomic_load(&f->incarnation));
    assert_string_equal(job, "job-1");
    assert_true(generation == GENERATION || generation == GENERATION + 1);
}

/* Nothing is free, and the call waits; or the second split, and then no more. */
static void on_lease(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fixture *f = service;
    const Gradus__V1__LeaseSplitRequest *q = (const Gradus__V1__LeaseSplitRequest *)msg->body;
    Gradus__V1__LeaseSplitResponse r = GRADUS__V1__LEASE_SPLIT_RESPONSE__INIT;
    Gradus__V1__Lease lease = GRADUS__V1__LEASE__INIT;
    lease.split = 1;
    lease.batch_end = SPLIT_BATCHES;
    lease.fresh = true;
    check_sender(f, q->node, q->job, q->generation);
    pthread_mutex_lock(&f->lock);
    bool free_one = f->lease;
    if (f->leases++ == 0) {
        assert_int_equal(q->n_held, 1);
        assert_int_equal(q->held[0]->split, 0);
        assert_int_equal(q->held[0]->batch_end, SPLIT_BATCHES);
        r.kind = GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__LEASE;
        r.lease = &lease;
    } else {
        assert_true(q->n_held >= 1 && q->n_held <= SPLITS);
        assert_int_equal(q->held[q->n_held - 1]->split, 1);
        r.kind = GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__DONE;
    }
    pthread_mutex_unlock(&f->lock);
    if (free_one) {
        (void)rpc_reply(call, &r.base, NULL);
    }
}

static void on_split(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fixture *f = service;
    const Gradus__V1__ReportSplitRequest *q = (const Gradus__V1__ReportSplitRequest *)msg->body;
    check_sender(f, q->node, q->job, q->generation);
    pthread_mutex_lock(&f->lock);
    assert_int_equal(q->epoch, 0);
    assert_true(q->split < SPLITS);
    f->reported[q->split] = q->batch_end;
    pthread_mutex_unlock(&f->lock);
    Gradus__V1__ReportSplitResponse r = GRADUS__V1__REPORT_SPLIT_RESPONSE__INIT;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_progress(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fixture *f = service;
    const Gradus__V1__ReportProgressRequest *q =
        (const Gradus__V1__ReportProgressRequest *)msg->body;
    check_sender(f, q->node, q->job, q->generation);
    pthread_mutex_lock(&f->lock);
    assert_true(q->sequence == f->sequence || q->sequence == f->sequence + 1);
    f->sequence = q->sequence;
    for (size_t i = 0; i < q->n_epochs; i++) {
        assert_true(q->epochs[i]->batches > 0);
        assert_non_null(q->epochs[i]->sums);
        assert_true(q->epochs[i]->sums->n_values > 0);
    }
    assert_true(q->n_epochs == 0 || (q->times != NULL && q->times->steps > 0));
    for (size_t i = 0; i < q->n_staleness && i <= STALENESS_BUCKET; i++) {
        f->staleness[i] += q->staleness[i];
    }
    for (size_t i = 0; i < q->n_epochs; i++) {
        f->batches += q->epochs[i]->batches;
        f->examples += q->epochs[i]->examples;
    }
    if (q->idle) {
        note(f, NOTE_IDLE);
    }
    pthread_mutex_unlock(&f->lock);
    Gradus__V1__ReportProgressResponse r = GRADUS__V1__REPORT_PROGRESS_RESPONSE__INIT;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_failure(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fixture *f = service;
    const Gradus__V1__ReportFailureRequest *q = (const Gradus__V1__ReportFailureRequest *)msg->body;
    check_sender(f, q->node, q->job, q->generation);
    pthread_mutex_lock(&f->lock);
    if (!f->refuse) {
        print_error("the worker failed: %s\n", q->message);
    }
    f->failed = true;
    f->code = q->code;
    (void)snprintf(f->message, sizeof f->message, "%s", q->message);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    Gradus__V1__ReportFailureResponse r = GRADUS__V1__REPORT_FAILURE_RESPONSE__INIT;
    (void)rpc_reply(call, &r.base, NULL);
}

static const struct rpc_method master_methods[] = {
    {.name = "Join", .request = on_join},
    {.name = "Heartbeat", .request = on_heartbeat},
    {.name = "Leave", .request = on_leave},
    {.name = "LeaseSplit", .request = on_lease},
    {.name = "ReportSplit", .request = on_split},
    {.name = "ReportProgress", .request = on_progress},
    {.name = "ReportFailure", .request = on_failure},
};

/* ---- the parameter server ---- */

static void send_values(struct fixture *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m)
{
    static const float zeros[64];
    assert_true(f->plan.shard_elements[0] <= sizeof zeros / sizeof zeros[0]);
    struct rpc_piece piece = {zeros, f->plan.shard_elements[0] * sizeof(float)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    m->total = f->plan.shard_elements[0];
    (void)rpc_send(call, &m->base, &blob);
}

/* A push is the whole step here, and its answer has the next version. */
static void answer_push(struct fixture *f, struct rpc_call *call, uint64_t exchange)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    m.exchange = exchange;
    Gradus__V1__Trained trained = GRADUS__V1__TRAINED__INIT;
    trained.push = GRADUS__V1__PUSH_RESULT__APPLIED;
    trained.staleness = STALENESS;
    m.answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED;
    m.trained = &trained;
    m.version = ++f->version;
    note(f, NOTE_ANSWERED);
    send_values(f, call, &m);
}

static void on_exchange(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fixture *f = service;
    const Gradus__V1__ExchangeRequest *q = (const Gradus__V1__ExchangeRequest *)msg->body;
    pthread_mutex_lock(&f->lock);
    const Gradus__V1__Training *t = q->training;
    if (f->refuse) {
        char message[] = "told to refuse";
        Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
        m.exchange = q->exchange;
        m.code = -ERR_RANGE;
        m.message = message;
        (void)rpc_send(call, &m.base, NULL);
        pthread_mutex_unlock(&f->lock);
        return;
    }
    if (q->what_case == GRADUS__V1__EXCHANGE_REQUEST__WHAT_PINNED) {
        Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
        m.exchange = q->exchange;
        m.version = f->version;
        assert_string_equal(q->pinned->pin_id, "pin-1");
        send_values(f, call, &m);
        pthread_mutex_unlock(&f->lock);
        return;
    }
    assert_int_equal(q->what_case, GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING);
    if (t->push == NULL) {
        Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
        Gradus__V1__Trained trained = GRADUS__V1__TRAINED__INIT;
        m.exchange = q->exchange;
        m.version = f->version;
        m.answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED;
        m.trained = &trained;
        if (t->pull != NULL) {
            send_values(f, call, &m);
        } else { /* bounded: idle */
            (void)rpc_send(call, &m.base, NULL);
        }
    } else {
        assert_non_null(t->pull);
        note(f, NOTE_PUSHED);
        if (f->hold) {
            assert_null(f->held_call);
            f->held_call = rpc_call_ref(call);
            f->held_exchange = q->exchange;
        } else {
            answer_push(f, call, q->exchange);
        }
    }
    pthread_mutex_unlock(&f->lock);
}

static const struct rpc_method ps_methods[] = PS_METHODS(.request = on_exchange);

/* ---- set-up ---- */

static void make_data(struct fixture *f)
{
    f->dir = tmp_dir_make("worker");
    f->log_path = file_join(f->dir, "log");
    f->data_path = file_join(f->dir, "train.csv");
    FILE *file = fopen(f->data_path, "w");
    assert_non_null(file);
    for (int i = 0; i < RECORDS; i++) {
        (void)fprintf(file, "%d,%d,%d\n", i, RECORDS - i, i % 2);
    }
    assert_int_equal(fclose(file), 0);
}

static void make_plan(struct fixture *f, const char *mode)
{
    struct err err = {0};
    (void)snprintf(f->text, sizeof f->text, job_text, f->dir, mode, BATCH);
    if (worker_model_load(&f->model, f->text, NULL, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    const struct dataset_info *info = dataset_info(f->model.train);
    assert_int_equal(info->records, RECORDS);
    assert_int_equal(
        model_new(&f->model.spec.model, &info->features, info->classes, &f->layers, &err), 0);
    struct variable_spec variables[2];
    assert_int_equal(model_variable_count(f->layers), 2);
    variables[0] = *model_variable(f->layers, 0);
    variables[1] = *model_variable(f->layers, 1);
    assert_int_equal(plan_make(variables, 2, &f->model.spec.cluster, &f->plan, &err), 0);
}

static void serve(struct fixture *f)
{
    struct err err = {0};
    const char *listen = "127.0.0.1:0";
    struct rpc_server_options options = {.addresses = &listen, .address_count = 1, .grace_ms = 1};
    f->server = rpc_server_new(&options, &err);
    assert_non_null(f->server);
    assert_int_equal(rpc_server_add(f->server, &gradus__v1__cluster__descriptor, master_methods,
                                    sizeof master_methods / sizeof master_methods[0], f, &err),
                     0);
    assert_int_equal(rpc_server_add(f->server, &gradus__v1__parameter_server__descriptor,
                                    ps_methods, sizeof ps_methods / sizeof ps_methods[0], f, &err),
                     0);
    assert_int_equal(rpc_server_start(f->server, &err), 0);
}

static void start_worker(struct fixture *f, const char *grace)
{
    const char *master = rpc_server_address(f->server, 0);
    const char *flags[] = {"/proc/self/exe",
                           AS_WORKER,
                           "--exit-with-parent",
                           "--grace-ms",
                           grace,
                           "--slow-down",
                           "1.5",
                           "--name",
                           "the-name",
                           "--master",
                           master,
                           NULL};
    char *argv[sizeof flags / sizeof flags[0]] = {NULL};
    for (size_t i = 0; flags[i] != NULL; i++) {
        argv[i] = mem_strdup(flags[i]);
    }
    struct err err = {0};
    char line[SPAWN_LINE_BYTES_MAX], address[64];
    if (spawn_start(&f->worker, "worker", argv, f->log_path, &err) != 0 ||
        spawn_ready_line(&f->worker, line, WAIT_MS, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    for (size_t i = 0; argv[i] != NULL; i++) {
        free(argv[i]);
    }
    assert_true(spawn_line_value(line, "grpc", address, sizeof address));
    assert_true(spawn_line_value(line, "http", f->http, sizeof f->http));
    const struct rpc_channel_options options = {.target = address};
    f->channel = rpc_channel_new(&options, &err);
    assert_non_null(f->channel);
}

static void begin(struct fixture *f, const char *mode, const char *grace)
{
    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    make_data(f);
    make_plan(f, mode);
    serve(f);
    start_worker(f, grace);
}

static void end(struct fixture *f)
{
    rpc_channel_free(f->channel);
    spawn_release(&f->worker);
    rpc_call_unref(f->held_call);
    rpc_server_free(f->server);
    plan_release(&f->plan);
    model_free(f->layers);
    worker_model_release(&f->model);
    tmp_dir_remove(f->dir);
    free(f->log_path);
    free(f->data_path);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* ---- what the master asks for ---- */

static int call_for(struct fixture *f, const char *method, const ProtobufCMessage *body,
                    struct rpc_msg **reply, struct err *err)
{
    const struct rpc_request request = {
        .service = &gradus__v1__worker__descriptor,
        .method = method,
        .body = body,
        .timeout_ms = WAIT_MS,
    };
    return rpc_call_blocking(f->channel, &request, reply, err);
}

static int call(struct fixture *f, const char *method, const ProtobufCMessage *body,
                struct err *err)
{
    struct rpc_msg *reply = NULL;
    int rc = call_for(f, method, body, &reply, err);
    rpc_msg_unref(reply);
    return rc;
}

static char job_id[] = "job-1";
static uint8_t secret_bytes[FENCE_SECRET_BYTES] = {4, 5, 6};
static ProtobufCBinaryData secret = {sizeof secret_bytes, secret_bytes};

static void start_job(struct fixture *f)
{
    char node[] = "ps-1";
    char *address = mem_strdup(rpc_server_address(f->server, 0));
    Gradus__V1__ShardLocation location = GRADUS__V1__SHARD_LOCATION__INIT, *locations = &location;
    location.node = node;
    location.address = address;
    Gradus__V1__Plan plan;
    wire_plan_to_proto(&f->plan, &plan);
    Gradus__V1__StartJobRequest r = GRADUS__V1__START_JOB_REQUEST__INIT;
    r.job = job_id;
    r.text = f->text;
    r.plan = &plan;
    r.shards = &locations;
    r.n_shards = 1;
    r.generation = GENERATION;
    r.secret = secret;
    struct err err = {0};
    int rc;
    do { /* it may not know yet that it has joined, or not have asked */
        r.incarnation = atomic_load(&f->incarnation);
        rc = call(f, "StartJob", &r.base, &err);
    } while ((rc == ERR_UNAVAILABLE || r.incarnation == 0) && sched_yield() == 0);
    if (rc != 0) {
        fail_msg("%s", err.msg);
    }
    wire_plan_release(&plan);
    free(address);
}

static int assign(struct fixture *f, uint64_t generation, bool hold, struct err *err)
{
    const struct ledger_shape shape = {RECORDS, BATCH, SPLIT_BATCHES};
    struct ledger ledger;
    struct consistency c;
    assert_int_equal(ledger_init(&ledger, &shape, 0, NULL), 0);
    consistency_of(&f->model.spec, &c);
    Gradus__V1__Ledger packed_ledger;
    Gradus__V1__Consistency consistency;
    Gradus__V1__Lease lease = GRADUS__V1__LEASE__INIT, *leases = &lease;
    wire_ledger_to_proto(&ledger, &packed_ledger);
    wire_consistency_to_proto(&c, &consistency);
    lease.batch_end = SPLIT_BATCHES;
    lease.fresh = true;
    Gradus__V1__AssignRequest r = GRADUS__V1__ASSIGN_REQUEST__INIT;
    r.job = job_id;
    r.generation = generation;
    r.consistency = &consistency;
    r.replica_end = 1;
    r.step_limit = 1000;
    r.ledger = &packed_ledger;
    r.leases = &leases;
    r.n_leases = 1;
    r.hold = hold;
    r.secret = secret;
    int rc = call(f, "Assign", &r.base, err);
    ledger_release(&ledger);
    return rc;
}

/* Keep back the answer to a push from now on: before the worker begins, or it may be through. */
static void hold_pushes(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->hold = true;
    pthread_mutex_unlock(&f->lock);
}

/* Wait until one came. */
static void wait_held(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->held_call == NULL && !f->failed) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    assert_false(f->failed);
    pthread_mutex_unlock(&f->lock);
}

static void let_go(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->hold = false;
    answer_push(f, f->held_call, f->held_exchange);
    pthread_mutex_unlock(&f->lock);
}

/* SIGTERM, and wait until the job knows of it: it takes no more work. */
static void ask_end(struct fixture *f)
{
    struct err err = {0};
    spawn_ask_end(&f->worker);
    int rc;
    do {
        rc = assign(f, GENERATION, false, &err);
    } while (rc == 0);
    assert_int_equal(rc, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "this worker is leaving"));
}

static void assert_ended(struct fixture *f)
{
    char how[64];
    assert_int_equal(spawn_wait(&f->worker, WAIT_MS, NULL), 0);
    assert_string_equal(spawn_describe(&f->worker, how, sizeof how), "exit code 0");
    pthread_mutex_lock(&f->lock); /* nothing of it changes from now on */
    assert_false(f->failed);
    pthread_mutex_unlock(&f->lock);
}

static void assert_notes(struct fixture *f, const enum note *expected, size_t count)
{
    pthread_mutex_lock(&f->lock);
    size_t first = f->note_count > count ? f->note_count - count : 0;
    assert_true(f->note_count >= count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(f->notes[first + i], expected[i]);
    }
    pthread_mutex_unlock(&f->lock);
}

#define ASSERT_LAST(f, ...)                                                                        \
    assert_notes(f, (const enum note[]){__VA_ARGS__},                                              \
                 sizeof(const enum note[]){__VA_ARGS__} / sizeof(enum note))

static void wait_for(struct fixture *f, enum note what)
{
    pthread_mutex_lock(&f->lock);
    while (!f->failed && (f->note_count == 0 || f->notes[f->note_count - 1] != what)) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
}

/* ---- tests ---- */

static void test_what_the_master_hears_in_async(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "async", "600s");
    pthread_mutex_lock(&f.lock);
    f.lease = true;
    pthread_mutex_unlock(&f.lock);
    start_job(&f);
    assert_int_equal(assign(&f, GENERATION, false, NULL), 0);
    wait_for(&f, NOTE_IDLE);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    ASSERT_LAST(&f, NOTE_IDLE, NOTE_LEFT);
    assert_int_equal(f.leases, 2);
    assert_int_equal(f.reported[0], SPLIT_BATCHES);
    assert_int_equal(f.reported[1], SPLIT_BATCHES);
    assert_int_equal(f.version, RECORDS / BATCH);
    assert_int_equal(f.batches, RECORDS / BATCH);
    assert_int_equal(f.examples, RECORDS);
    for (size_t i = 0; i <= STALENESS_BUCKET; i++) {
        assert_int_equal(f.staleness[i], i == STALENESS_BUCKET ? RECORDS / BATCH : 0);
    }
    end(&f);
}

/* Pushes of steps have no staleness. */
static void test_what_the_master_hears_in_sync(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "sync", "600s");
    start_job(&f);
    hold_pushes(&f);
    assert_int_equal(assign(&f, GENERATION, false, NULL), 0);
    wait_held(&f);
    ask_end(&f);
    let_go(&f);
    assert_ended(&f);
    assert_int_equal(f.batches, f.version);
    assert_int_equal(f.staleness[STALENESS_BUCKET], 0);
    end(&f);
}

static void drain_in(const char *mode)
{
    struct fixture f;
    begin(&f, mode, "60s");
    start_job(&f);
    hold_pushes(&f);
    assert_int_equal(assign(&f, GENERATION, false, NULL), 0);
    wait_held(&f);
    ask_end(&f);
    assert_int_equal(assign(&f, GENERATION, true, NULL), 0); /* a hold is nothing new to it */
    let_go(&f);
    assert_ended(&f);
    ASSERT_LAST(&f, NOTE_PUSHED, NOTE_ANSWERED, NOTE_IDLE, NOTE_LEFT);
    end(&f);
}

static void test_work_in_hand_is_finished_in_sync(void **state)
{
    (void)state;
    drain_in("sync");
}

static void test_work_in_hand_is_finished_in_async(void **state)
{
    (void)state;
    drain_in("async");
}

static void test_work_in_hand_is_finished_in_bounded(void **state)
{
    (void)state;
    drain_in("bounded");
}

static void test_a_generation_that_is_over_is_not_waited_for(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "sync", "600s");
    start_job(&f);
    hold_pushes(&f);
    assert_int_equal(assign(&f, GENERATION, false, NULL), 0);
    wait_held(&f);
    ask_end(&f);
    assert_int_equal(assign(&f, GENERATION + 1, false, NULL), ERR_UNAVAILABLE);
    assert_ended(&f);
    ASSERT_LAST(&f, NOTE_PUSHED, NOTE_LEFT);
    end(&f);
}

static void test_the_grace_period_ends_it(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "async", "1ms");
    start_job(&f);
    hold_pushes(&f);
    assert_int_equal(assign(&f, GENERATION, false, NULL), 0);
    wait_held(&f);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    ASSERT_LAST(&f, NOTE_PUSHED, NOTE_LEFT);
    end(&f);
}

/* Nothing is in hand: without a job, without an assignment, standing still. */
static void test_idle_workers_leave_at_once(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "sync", "600s");
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
    begin(&f, "sync", "600s");
    start_job(&f);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    ASSERT_LAST(&f, NOTE_LEFT);
    end(&f);
    begin(&f, "async", "600s");
    start_job(&f);
    assert_int_equal(assign(&f, GENERATION, true, NULL), 0);
    wait_for(&f, NOTE_IDLE);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    ASSERT_LAST(&f, NOTE_IDLE, NOTE_LEFT);
    end(&f);
}

static void assert_refused(struct fixture *f, const char *method, const ProtobufCMessage *body,
                           int code)
{
    struct err err = {0};
    int rc = call(f, method, body, &err);
    if (rc != code) {
        fail_msg("%s: %d, not %d: %s", method, rc, code, err.msg);
    }
}

/* Whoever does not know what only its master knows, whatever generation it names. */
static void test_it_obeys_its_master_alone(void **state)
{
    (void)state;
    struct fixture f;
    char other_job[] = "job-2";
    uint8_t other[FENCE_SECRET_BYTES] = {4, 5, 7};
    const ProtobufCBinaryData secrets[] = {{0}, {sizeof other, other}, {3, other}};
    begin(&f, "async", "600s");
    start_job(&f);
    hold_pushes(&f);
    assert_int_equal(assign(&f, GENERATION, false, NULL), 0);
    wait_held(&f);
    for (size_t i = 0; i < 3; i++) {
        Gradus__V1__StopJobRequest stop = GRADUS__V1__STOP_JOB_REQUEST__INIT;
        stop.job = job_id;
        stop.generation = UINT64_MAX;
        stop.secret = secrets[i];
        assert_refused(&f, "StopJob", &stop.base, ERR_UNAUTHENTICATED);
        Gradus__V1__AssignRequest hold = GRADUS__V1__ASSIGN_REQUEST__INIT;
        hold.job = job_id;
        hold.generation = 999;
        hold.secret = secrets[i];
        assert_refused(&f, "Assign", &hold.base, ERR_UNAUTHENTICATED);
        Gradus__V1__EvaluateRequest evaluate = GRADUS__V1__EVALUATE_REQUEST__INIT;
        evaluate.job = job_id;
        evaluate.secret = secrets[i];
        assert_refused(&f, "Evaluate", &evaluate.base, ERR_UNAUTHENTICATED);
        Gradus__V1__StartJobRequest start = GRADUS__V1__START_JOB_REQUEST__INIT;
        start.job = job_id;
        start.generation = 999;
        start.secret = secrets[i];
        start.incarnation = atomic_load(&f.incarnation);
        assert_refused(&f, "StartJob", &start.base, ERR_UNAUTHENTICATED);
    }
    /* A job of another name would push this one out. */
    Gradus__V1__InspectDataRequest inspect = GRADUS__V1__INSPECT_DATA_REQUEST__INIT;
    inspect.job = other_job;
    inspect.text = f.text;
    inspect.secret = secret;
    for (uint64_t i = 0; i < 2; i++) {
        inspect.incarnation = i == 0 ? 0 : atomic_load(&f.incarnation) + 1;
        assert_refused(&f, "InspectData", &inspect.base, ERR_ABORTED);
        Gradus__V1__StartJobRequest start = GRADUS__V1__START_JOB_REQUEST__INIT;
        start.job = other_job;
        start.text = f.text;
        start.generation = 1;
        start.secret = secret;
        start.incarnation = inspect.incarnation;
        assert_refused(&f, "StartJob", &start.base, ERR_ABORTED);
    }
    let_go(&f);
    wait_for(&f, NOTE_ANSWERED); /* and goes on */
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
}

/* ---- what is asked and answered ---- */

static void wait_for_heartbeat(struct fixture *f, const char *held)
{
    pthread_mutex_lock(&f->lock);
    while (strcmp(f->held, held) != 0) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
}

/* Until the worker knows that it has joined. */
static void wait_joined(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->heartbeats == 0) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
}

static void assert_refused_saying(struct fixture *f, const char *method,
                                  const ProtobufCMessage *body, int code, const char *says)
{
    struct err err = {0};
    int rc = call(f, method, body, &err);
    if (rc != code || strstr(err.msg, says) == NULL) {
        fail_msg("%s: %d, not %d with '%s': %s", method, rc, code, says, err.msg);
    }
}

static void stop_job(struct fixture *f, uint64_t generation)
{
    struct err err = {0};
    char reason[] = "enough";
    Gradus__V1__StopJobRequest stop = GRADUS__V1__STOP_JOB_REQUEST__INIT;
    stop.job = job_id;
    stop.generation = generation;
    stop.reason = reason;
    stop.secret = secret;
    if (call(f, "StopJob", &stop.base, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

/* Heartbeats say which job this is, and of which generation the newest assignment; a stop of a
 * generation that is over changes nothing. */
static void test_heartbeats_say_what_it_holds(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "async", "600s");
    wait_joined(&f);
    wait_for_heartbeat(&f, "");
    start_job(&f);
    wait_for_heartbeat(&f, "job-1/0");
    assert_int_equal(assign(&f, GENERATION, true, NULL), 0);
    wait_for_heartbeat(&f, "job-1/3");
    assert_int_equal(assign(&f, GENERATION + 1, true, NULL), 0);
    wait_for_heartbeat(&f, "job-1/4");
    stop_job(&f, GENERATION - 1);
    start_job(&f); /* what is there already is answered well */
    wait_for_heartbeat(&f, "job-1/4");
    stop_job(&f, GENERATION + 1);
    wait_for_heartbeat(&f, "");
    assert_int_equal(assign(&f, GENERATION + 2, true, NULL), ERR_NOT_FOUND);
    stop_job(&f, GENERATION + 1); /* unknown is fine */
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
}

static void test_data_are_inspected(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    char bad[] = "name: x\n", odd[] = "no name/";
    begin(&f, "sync", "600s");
    wait_joined(&f);
    Gradus__V1__InspectDataRequest q = GRADUS__V1__INSPECT_DATA_REQUEST__INIT;
    q.job = job_id;
    q.text = f.text;
    q.secret = secret;
    q.incarnation = atomic_load(&f.incarnation);
    for (int i = 0; i < 2; i++) { /* the second time it is loaded already */
        if (call_for(&f, "InspectData", &q.base, &reply, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        const Gradus__V1__DataInfo *info = (const Gradus__V1__DataInfo *)reply->body;
        assert_int_equal(info->train_records, RECORDS);
        assert_int_equal(info->test_records, RECORDS);
        assert_int_equal(info->classes, 2);
        assert_int_equal(info->n_feature_dims, 1);
        assert_int_equal(info->feature_dims[0], 2);
        assert_true(info->train_fingerprint == dataset_info(f.model.train)->fingerprint);
        rpc_msg_unref(reply);
    }
    wait_for_heartbeat(&f, "job-1/0");
    q.job = odd;
    assert_refused_saying(&f, "InspectData", &q.base, ERR_INVALID, "job");
    char other[] = "job-2";
    q.job = other;
    q.text = bad;
    assert_refused_saying(&f, "InspectData", &q.base, ERR_INVALID, "");
    wait_for_heartbeat(&f, "job-2/0"); /* which has pushed the other one out */
    assert_int_equal(assign(&f, GENERATION, true, &err), ERR_NOT_FOUND);
    char *large = mem_new((2U << 20) + 1, 1);
    memset(large, '#', 2U << 20);
    char third[] = "job-3";
    q.job = third;
    q.text = large;
    assert_refused_saying(&f, "InspectData", &q.base, ERR_INVALID, "larger than 1 MiB");
    free(large);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
}

/* One thing is wrong in each start; the job must be stopped before it may be tried again. */
static void test_starts_that_cannot_be(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    begin(&f, "sync", "600s");
    wait_joined(&f);
    char node[] = "ps-1", *address = mem_strdup(rpc_server_address(f.server, 0));
    for (int wrong = 0; wrong < 5; wrong++) {
        Gradus__V1__ShardLocation at[2], *list[2] = {&at[0], &at[1]};
        for (size_t i = 0; i < 2; i++) {
            gradus__v1__shard_location__init(&at[i]);
            at[i].node = node;
            at[i].address = address;
        }
        Gradus__V1__Plan plan;
        Gradus__V1__DataInfo data;
        wire_plan_to_proto(&f.plan, &plan);
        struct dataset_info train = *dataset_info(f.model.train);
        train.records += wrong == 0 ? 1 : 0;
        wire_data_to_proto(&train, dataset_info(f.model.test), &data);
        Gradus__V1__StartJobRequest r = GRADUS__V1__START_JOB_REQUEST__INIT;
        r.job = job_id;
        r.text = f.text;
        r.plan = wrong == 1 ? NULL : &plan;
        r.data = &data;
        r.shards = list;
        r.n_shards = wrong == 2 ? 0 : wrong == 3 ? 2 : 1;
        at[0].shard = wrong == 4 ? 7 : 0;
        r.generation = GENERATION;
        r.secret = secret;
        r.incarnation = atomic_load(&f.incarnation);
        static const char *const SAYS[] = {"train records", "plan", "of shard 0 is missing",
                                           "of shard 0 is given twice or unknown",
                                           "of shard 7 is given twice or unknown"};
        assert_refused_saying(&f, "StartJob", &r.base, wrong == 0 ? ERR_STATE : ERR_INVALID,
                              SAYS[wrong]);
        assert_int_equal(assign(&f, GENERATION, true, &err), ERR_STATE);
        assert_non_null(strstr(err.msg, "not started"));
        Gradus__V1__EvaluateRequest evaluate = GRADUS__V1__EVALUATE_REQUEST__INIT;
        evaluate.job = job_id;
        evaluate.secret = secret;
        assert_refused_saying(&f, "Evaluate", &evaluate.base, ERR_STATE, "not started");
        r.plan = &plan;
        assert_refused_saying(&f, "StartJob", &r.base, ERR_STATE, "an earlier start");
        wire_plan_release(&plan);
        stop_job(&f, GENERATION);
    }
    start_job(&f); /* and now nothing is */
    assert_int_equal(assign(&f, GENERATION, true, NULL), 0);
    free(address);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
}

static void test_evaluations_are_of_a_pin(void **state)
{
    (void)state;
    struct fixture f;
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    char none[] = "", pin[] = "pin-1", longest[WIRE_ID_BYTES_MAX + 2];
    memset(longest, 'p', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    begin(&f, "sync", "600s");
    start_job(&f);
    assert_int_equal(assign(&f, GENERATION, true, NULL), 0);
    Gradus__V1__EvaluateRequest q = GRADUS__V1__EVALUATE_REQUEST__INIT;
    q.job = job_id;
    q.secret = secret;
    q.first = 10;
    q.count = 20;
    q.pin_id = none;
    assert_refused_saying(&f, "Evaluate", &q.base, ERR_INVALID, "pin_id must have 1 to 128");
    q.pin_id = longest;
    assert_refused_saying(&f, "Evaluate", &q.base, ERR_INVALID, "pin_id must have 1 to 128");
    q.pin_id = pin;
    if (call_for(&f, "Evaluate", &q.base, &reply, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    const Gradus__V1__EvaluateResponse *r = (const Gradus__V1__EvaluateResponse *)reply->body;
    struct metrics sums;
    metrics_init(&sums, f.model.spec.model.metrics);
    assert_int_equal(wire_metrics_from_proto(r->sums, &sums, &err), 0);
    assert_int_equal(sums.examples, 20);
    metrics_release(&sums);
    rpc_msg_unref(reply);
    q.first = RECORDS - 5; /* past the end */
    q.count = 10;
    assert_int_equal(call(&f, "Evaluate", &q.base, &err), ERR_RANGE);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
}

/* The page of metrics, into @page. */
static void read_metrics(const struct fixture *f, char *page, size_t bytes)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct address at;
    struct err err = {0};
    size_t n = 0;
    assert_int_equal(address_parse(f->http, &at, &err), 0);
    int fd = address_connect(&at, WAIT_MS, &err);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
    for (ssize_t k; n < bytes - 1 && (k = read(fd, page + n, bytes - 1 - n)) > 0;) {
        n += (size_t)k;
    }
    page[n] = '\0';
    (void)close(fd);
}

static double metric(const char *page, const char *name)
{
    const char *line = strstr(page, name);
    if (line == NULL) {
        fail_msg("no %s in %s", name, page);
        return -1;
    }
    return strtod(line + strlen(name), NULL);
}

/* Wait until all of an epoch is computed and reported. */
static void train_an_epoch(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->lease = true;
    pthread_mutex_unlock(&f->lock);
    start_job(f);
    assert_int_equal(assign(f, GENERATION, false, NULL), 0);
    wait_for(f, NOTE_IDLE);
}

static void test_metrics_count_what_was_done(void **state)
{
    (void)state;
    static char page[1 << 17];
    static const char *const PARTS[] = {"load", "compute", "wire", "apply", "wait"};
    struct fixture f;
    begin(&f, "async", "600s");
    train_an_epoch(&f);
    read_metrics(&f, page, sizeof page);
    assert_true(metric(page, "\ngradus_worker_batches_total ") == RECORDS / BATCH);
    assert_true(metric(page, "\ngradus_worker_examples_total ") == RECORDS);
    assert_true(metric(page, "\ngradus_worker_steps_total ") == RECORDS / BATCH);
    assert_true(metric(page, "\ngradus_worker_evaluations_total ") == 0);
    assert_true(metric(page, "\ngradus_worker_exchanges_failed_total ") == 0);
    assert_true(metric(page, "\ngradus_worker_batches_given_up_total ") == 0);
    double seconds = 0;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "\ngradus_worker_step_seconds_total{part=\"%s\"} ",
                       PARTS[i]);
        seconds += metric(page, name);
    }
    assert_true(seconds > 0 && seconds < 60);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
}

static const Gradus__V1__TraceResponse *trace(struct fixture *f, Gradus__V1__TraceRequest *q,
                                              Gradus__V1__TraceRequest__Action action,
                                              struct rpc_msg **reply)
{
    struct err err = {0};
    q->action = action;
    if (call_for(f, "Trace", &q->base, reply, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return (const Gradus__V1__TraceResponse *)(*reply)->body;
}

/* All answers tell the clock; a record that nothing happens in ends with its time, or when it is
 * taken. */
static void test_traces(void **state)
{
    (void)state;
    struct fixture f;
    struct rpc_msg *reply = NULL;
    char nobody[] = "job-9";
    begin(&f, "async", "600s");
    Gradus__V1__TraceRequest q = GRADUS__V1__TRACE_REQUEST__INIT;
    q.job = nobody;
    uint64_t before = chrono_now_ns();
    const Gradus__V1__TraceResponse *r =
        trace(&f, &q, GRADUS__V1__TRACE_REQUEST__ACTION__CLOCK, &reply);
    assert_true(r->clock_ns >= before && r->clock_ns <= chrono_now_ns());
    assert_true(r->boot[0] != '\0');
    rpc_msg_unref(reply);
    q.action = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD;
    assert_refused_saying(&f, "Trace", &q.base, ERR_NOT_FOUND, "does not have job job-9");
    q.action = (Gradus__V1__TraceRequest__Action)9;
    assert_refused_saying(&f, "Trace", &q.base, ERR_INVALID, "no such action");
    start_job(&f);
    assert_int_equal(assign(&f, GENERATION, true, NULL), 0);
    q.job = job_id;
    q.id = 77;
    q.action = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD;
    assert_refused_saying(&f, "Trace", &q.base, ERR_INVALID, "a trace of 0 steps");
    q.steps = 3;
    q.timeout_ms = 1;
    q.spans_max = 100;
    r = trace(&f, &q, GRADUS__V1__TRACE_REQUEST__ACTION__RECORD, &reply);
    assert_true(r->clock_ns > before);
    assert_int_equal(r->steps, 0);
    assert_int_equal(r->n_spans, 0);
    rpc_msg_unref(reply);
    r = trace(&f, &q, GRADUS__V1__TRACE_REQUEST__ACTION__TAKE, &reply);
    assert_true(r->clock_ns > before);
    rpc_msg_unref(reply);
    q.action = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD; /* too late: it was taken */
    assert_refused_saying(&f, "Trace", &q.base, ERR_CANCELLED, "stopped before it began");
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
}

/* What a shard refuses for good ends the job here, and the master hears why. */
static void test_failures_are_reported(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "async", "600s");
    start_job(&f);
    pthread_mutex_lock(&f.lock);
    f.refuse = true;
    pthread_mutex_unlock(&f.lock);
    assert_int_equal(assign(&f, GENERATION, false, NULL), 0);
    pthread_mutex_lock(&f.lock);
    while (!f.failed) {
        pthread_cond_wait(&f.changed, &f.lock);
    }
    assert_int_equal(f.code, -ERR_RANGE);
    assert_non_null(strstr(f.message, "shard 0: told to refuse"));
    f.failed = false;
    pthread_mutex_unlock(&f.lock);
    spawn_ask_end(&f.worker);
    assert_ended(&f);
    end(&f);
}

static int be_a_worker(int argc, char **argv)
{
    const struct service service = {
        .name = "worker",
        .summary = "for tests",
        .fields = worker_fields,
        .field_count = worker_field_count,
        .config_bytes = sizeof(struct worker_settings),
        .start = worker_shell_start,
        .ready = worker_shell_ready,
        .drain = worker_shell_drain,
        .stop = worker_shell_stop,
    };
    return service_main(argc, argv, &service);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], AS_WORKER) == 0) {
        return be_a_worker(argc - 1, argv + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_master_hears_in_async),
        cmocka_unit_test(test_what_the_master_hears_in_sync),
        cmocka_unit_test(test_work_in_hand_is_finished_in_sync),
        cmocka_unit_test(test_work_in_hand_is_finished_in_async),
        cmocka_unit_test(test_work_in_hand_is_finished_in_bounded),
        cmocka_unit_test(test_a_generation_that_is_over_is_not_waited_for),
        cmocka_unit_test(test_the_grace_period_ends_it),
        cmocka_unit_test(test_it_obeys_its_master_alone),
        cmocka_unit_test(test_idle_workers_leave_at_once),
        cmocka_unit_test(test_heartbeats_say_what_it_holds),
        cmocka_unit_test(test_data_are_inspected),
        cmocka_unit_test(test_starts_that_cannot_be),
        cmocka_unit_test(test_evaluations_are_of_a_pin),
        cmocka_unit_test(test_metrics_count_what_was_done),
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_failures_are_reported),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
