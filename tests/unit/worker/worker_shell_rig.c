/* SPDX-License-Identifier: Apache-2.0 */
/* The master and the parameter server of a worker process under test. */
#include "worker_shell_rig.h"

#include "support/wait_until.h"

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

void shell_note(struct fixture *f, enum note what)
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
    r.heartbeat_timeout_ms = 60000;
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
    f->held_start = q->n_jobs == 1 ? q->jobs[0]->opening : 0;
    if (q->n_jobs == 1) {
        (void)snprintf(f->held, sizeof f->held, "%s/%d", q->jobs[0]->job,
                       (int)q->jobs[0]->generation);
    }
    f->works[0] = '\0';
    for (size_t i = 0; i < q->n_works; i++) {
        size_t n = strlen(f->works);
        (void)snprintf(f->works + n, sizeof f->works - n, "%s %s;", q->works[i]->job,
                       q->works[i]->what);
    }
    f->heartbeats++;
    r.stop_jobs = &f->stop_job;
    r.n_stop_jobs = f->stop_job != NULL;
    r.stop_openings = &f->stop_opening;
    r.n_stop_openings = f->stop_opening != 0;
    pthread_cond_broadcast(&f->changed);
    (void)rpc_reply(call, &r.base, NULL);
    pthread_mutex_unlock(&f->lock);
}

static void on_leave(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)msg;
    struct fixture *f = service;
    pthread_mutex_lock(&f->lock);
    shell_note(f, NOTE_LEFT);
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
        shell_note(f, NOTE_IDLE);
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
    shell_note(f, NOTE_ANSWERED);
    send_values(f, call, &m);
}

static void answer_pin(struct fixture *f, struct rpc_call *call, uint64_t exchange)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    m.exchange = exchange;
    m.version = f->version;
    send_values(f, call, &m);
}

static void keep_back(struct fixture *f, struct rpc_call *call, uint64_t exchange)
{
    assert_null(f->held_call);
    f->held_call = rpc_call_ref(call);
    f->held_exchange = exchange;
    pthread_cond_broadcast(&f->changed);
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
        assert_string_equal(q->pinned->pin_id, "pin-1");
        if (f->hold_pins) {
            keep_back(f, call, q->exchange);
        } else {
            answer_pin(f, call, q->exchange);
        }
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
        shell_note(f, NOTE_PUSHED);
        if (f->hold) {
            keep_back(f, call, q->exchange);
        } else {
            answer_push(f, call, q->exchange);
        }
    }
    pthread_mutex_unlock(&f->lock);
}

static void on_fill(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const struct fixture *f = service;
    (f->fill != NULL ? f->fill : not_served)(call, msg, service);
}

static const struct rpc_method ps_methods[] = PS_METHODS_FILL(on_fill, .request = on_exchange);

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
    const struct worker_job_file file = {.id = "job", .text = f->text, .encoding = ""};
    if (worker_model_load(&f->model, &file, NULL, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    const struct dataset_info *info = dataset_info(f->model.train);
    assert_int_equal(info->records, RECORDS);
    assert_int_equal(
        model_new(&f->model.spec.model, &info->features, NULL, info->classes, &f->layers, &err), 0);
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

/* Start one that listens at @listen and has the program @program ("": none). */
static void spawn_worker(struct fixture *f, const char *grace, const char *listen,
                         const char *program)
{
    const char *master = rpc_server_address(f->server, 0);
    const char *flags[] = {"/proc/self/exe",
                           AS_WORKER,
                           f->dir,
                           "--exit-with-parent",
                           "--grace-ms",
                           grace,
                           "--slow-down",
                           "1.5",
                           "--name",
                           "the-name",
                           "--master",
                           master,
                           "--listen",
                           listen,
                           "--program",
                           program,
                           NULL};
    char *argv[sizeof flags / sizeof flags[0]] = {NULL};
    for (size_t i = 0; flags[i] != NULL; i++) {
        argv[i] = mem_strdup(flags[i]);
    }
    struct err err = {0};
    if (spawn_start(&f->worker, "worker", argv, f->log_path, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    for (size_t i = 0; argv[i] != NULL; i++) {
        free(argv[i]);
    }
}

static void connect_to_worker(struct fixture *f, const char *address)
{
    struct err err = {0};
    const struct rpc_channel_options options = {.target = address};
    f->channel = rpc_channel_new(&options, &err);
    assert_non_null(f->channel);
}

void shell_wait_ready(struct fixture *f, char address[64])
{
    struct err err = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    if (spawn_ready_line(&f->worker, line, WAIT_MS, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_true(spawn_line_value(line, "grpc", address, 64));
    assert_true(spawn_line_value(line, "http", f->http, sizeof f->http));
}

static void begin(struct fixture *f, const char *mode)
{
    memset(f, 0, sizeof *f);
    f->start = START;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    make_data(f);
    make_plan(f, mode);
    serve(f);
}

void shell_begin(struct fixture *f, const char *mode, const char *grace)
{
    char address[64];
    begin(f, mode);
    spawn_worker(f, grace, "127.0.0.1:0", "");
    shell_wait_ready(f, address);
    connect_to_worker(f, address);
}

void shell_begin_early(struct fixture *f, const char *mode, const char *program)
{
    begin(f, mode);
    char *address = mem_printf("unix:%s/socket", f->dir);
    spawn_worker(f, "600s", address, program);
    connect_to_worker(f, address);
    free(address);
}

void shell_end(struct fixture *f)
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

void shell_wait_joined(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->heartbeats != 0, &f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

/* Keep back the answer to a push from now on: before the worker begins, or it may be through. */
void shell_hold_pushes(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->hold = true;
    pthread_mutex_unlock(&f->lock);
}

/* Wait until one came. */
void shell_wait_held(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->held_call != NULL || f->failed, &f->changed, &f->lock);
    assert_false(f->failed);
    pthread_mutex_unlock(&f->lock);
}

void shell_let_go(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->hold = false;
    answer_push(f, f->held_call, f->held_exchange);
    pthread_mutex_unlock(&f->lock);
}

void shell_answer_pin(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    answer_pin(f, f->held_call, f->held_exchange);
    pthread_mutex_unlock(&f->lock);
}

void shell_assert_ended(struct fixture *f)
{
    char how[64];
    assert_int_equal(spawn_wait(&f->worker, WAIT_MS, NULL), 0);
    assert_string_equal(spawn_describe(&f->worker, how, sizeof how), "exit code 0");
    pthread_mutex_lock(&f->lock); /* nothing of it changes from now on */
    assert_false(f->failed);
    pthread_mutex_unlock(&f->lock);
}

void shell_wait_for(struct fixture *f, enum note what)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->failed || (f->note_count > 0 && f->notes[f->note_count - 1] == what),
                         &f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

int shell_be_a_worker(int argc, char **argv)
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
    return service_main(argc - 1, argv + 1, &service);
}
