/* SPDX-License-Identifier: Apache-2.0 */
/* How the server is started, called and stopped. */
#include "ps_rig.h"

#include "support/wait_until.h"

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

uint64_t ps_rig_rows = ROWS;
unsigned ps_rig_shards_max = PS_RIG_SHARDS_MAX;

size_t ps_rig_elements(void)
{
    return ps_rig_rows * COLUMNS + COLUMNS;
}

int ps_rig_begin(void **state)
{
    (void)state;
    rpc_init();
    return 0;
}

int ps_rig_teardown(void **state)
{
    (void)state;
    rpc_shutdown();
    return 0;
}

static void ps_rig_listen_locally(struct ps_rig *rig)
{
    char path[LOCAL_SOCKET_BYTES], address[LOCAL_SOCKET_BYTES + 8];
    struct err err;
    (void)snprintf(rig->local, sizeof rig->local, "%s/sockets", rig->dir);
    assert_int_equal(local_socket_path(rig->local, rpc_server_address(rig->server, 0), path, &err),
                     0);
    assert_int_equal(local_socket_prepare(path, &err), 0);
    (void)snprintf(address, sizeof address, "unix:%s", path);
    assert_int_equal(rpc_server_bind_also(rig->server, address, &err), 0);
}

static void on_refused(void *ctx, struct rpc_call *call, const char *of_job, const struct err *why)
{
    struct ps_rig *rig = ctx;
    assert_non_null(rpc_peer(call));
    assert_true(of_job[0] != '\0');
    assert_true(why->code == ERR_UNAUTHENTICATED || why->code == ERR_PERMISSION);
    atomic_fetch_add(&rig->refused, 1);
}

void ps_rig_start_full(struct ps_rig *rig, uint64_t memory_bytes_max, uint64_t gradient_bytes_max,
                       unsigned apply_threads)
{
    struct err err;
    *rig = (struct ps_rig){.dir = tmp_dir_make("ps")};
    rig->meters = meter_registry_new();
    struct ps_options options = {.checkpoint_dir = rig->dir,
                                 .shards_max = ps_rig_shards_max,
                                 .memory_bytes_max = memory_bytes_max,
                                 .gradient_bytes_max = gradient_bytes_max,
                                 .chunk_bytes = 64 << 10,
                                 .apply_threads = apply_threads,
                                 .shared_memory = true,
                                 .standby = true,
                                 .meters = rig->meters,
                                 .refused = on_refused,
                                 .refused_ctx = rig};
    rig->ps = ps_new(&options, &err);
    assert_non_null(rig->ps);
    const char *addresses[] = {"127.0.0.1:0"};
    struct rpc_server_options server = {.addresses = addresses,
                                        .address_count = 1,
                                        .grace_ms = 200,
                                        .descriptors = gradus_descriptors,
                                        .descriptors_bytes =
                                            (size_t)(gradus_descriptors_end - gradus_descriptors)};
    rig->server = rpc_server_new(&server, &err);
    assert_non_null(rig->server);
    assert_int_equal(rpc_server_add(rig->server, &gradus__v1__parameter_server__descriptor,
                                    ps_methods, ps_method_count, rig->ps, &err),
                     0);
    assert_int_equal(rpc_server_bind(rig->server, &err), 0);
    ps_rig_listen_locally(rig);
    assert_int_equal(rpc_server_start(rig->server, &err), 0);
    struct rpc_channel_options channel = {.target = rpc_server_address(rig->server, 0)};
    rig->channel = rpc_channel_new(&channel, &err);
    assert_non_null(rig->channel);
}

void ps_rig_start(struct ps_rig *rig, uint64_t memory_bytes_max)
{
    ps_rig_start_full(rig, memory_bytes_max, 0, 0);
}

void ps_rig_go_local(struct ps_rig *rig)
{
    struct err err;
    const struct rpc_channel_options local = {.target = rpc_server_address(rig->server, 1)};
    rpc_channel_free(rig->channel);
    rig->channel = rpc_channel_new(&local, &err);
    assert_non_null(rig->channel);
}

void ps_rig_stop(struct ps_rig *rig)
{
    rpc_channel_free(rig->channel);
    ps_drain(rig->ps);
    rpc_server_free(rig->server);
    ps_free(rig->ps);
    meter_registry_free(rig->meters);
    tmp_dir_remove(rig->dir);
}

int ps_rig_call(struct ps_rig *rig, const char *method, const ProtobufCMessage *body,
                const float *values, size_t floats, struct rpc_msg **reply, struct err *err)
{
    struct rpc_piece piece = {values, floats * sizeof *values};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    bool fills = strcmp(method, "Fill") == 0;
    bool pulls = strcmp(method, "Pull") == 0 || strcmp(method, "Read") == 0;
    const struct rpc_header key = {.key = SHARD_KEY_HEADER, .value = rig->key};
    struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                  .method = method,
                                  .body = body,
                                  .blob = floats > 0 ? &blob : NULL,
                                  .request_bulk = fills ? VALUES : 0,
                                  .response_bulk = pulls ? VALUES : 0,
                                  .timeout_ms = 60000,
                                  .wait_for_ready = true,
                                  .headers = &key,
                                  .header_count = rig->key != NULL ? 1 : 0};
    return rpc_call_blocking(rig->channel, &request, reply, err);
}

static void on_given_up(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct ps_rig_guest *g = ctx;
    (void)reply;
    g->code = status->err.code;
}

void ps_rig_ask(struct ps_rig_guest *g, struct ps_rig *rig, const struct rpc_request *request)
{
    struct err err;
    const struct rpc_channel_options own = {.target = rpc_server_address(rig->server, 0),
                                            .own_connection = true};
    *g = (struct ps_rig_guest){.channel = rpc_channel_new(&own, &err)};
    assert_non_null(g->channel);
    assert_int_equal(rpc_call_start(g->channel, request, on_given_up, g, &err), 0);
}

void ps_rig_give_up(struct ps_rig_guest *g)
{
    rpc_channel_free(g->channel); /* waits until the call has ended */
    assert_int_equal(g->code, ERR_CANCELLED);
}

Gradus__V1__ShardRef ps_rig_ref(char *job, uint64_t generation)
{
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    ref.job = job;
    ref.generation = generation;
    return ref;
}

char *ps_rig_text(const char *mode, const char *rule, const char *more, const char *tables)
{
    return mem_printf("name: demo\n"
                      "data:\n"
                      "  train: {file: a.csv}\n"
                      "model:\n"
                      "  layers:\n"
                      "    - dense: {units: 60}\n"
                      "  loss: softmax_cross_entropy\n"
                      "  tables: %s\n"
                      "update: {rule: %s}\n"
                      "training: {mode: %s, batch_size: 10, seed: 7%s}\n"
                      "cluster: {workers: 2}\n",
                      tables, rule, mode, more);
}

struct consistency ps_rig_consistency(const char *mode, uint32_t replicas)
{
    enum training_mode m = strcmp(mode, "sync") == 0    ? TRAINING_SYNC
                           : strcmp(mode, "async") == 0 ? TRAINING_ASYNC
                                                        : TRAINING_BOUNDED;
    return (struct consistency){
        .mode = m, .replicas = replicas, .aggregate = replicas, .push_every = 1, .pull_every = 1};
}

void ps_rig_plan(uint32_t shards, struct plan *plan)
{
    const uint64_t rows = ps_rig_rows;
    struct variable_spec variables[2] = {
        {"dense_1.kernel", {2, {rows, COLUMNS}}, {INIT_GLOROT_UNIFORM, 0, 0, rows, COLUMNS}, 0, 0},
        {"dense_1.bias", {1, {COLUMNS}}, {INIT_CONSTANT, 0.5, 0, 0, 0}, 0, 0},
    };
    struct cluster_spec cluster = {
        .workers = {1, 1}, .ps = shards, .partitioner = PARTITIONER_FIXED, .partitions = shards};
    struct err err;
    *plan = (struct plan){0};
    assert_int_equal(plan_make(variables, 2, &cluster, plan, &err), 0);
}

void ps_rig_ledger(const struct ps_rig_opening *o, struct ledger *ledger)
{
    const struct ledger_shape shape = {.records = 50, .batch_records = 10, .split_batches = 2};
    struct err err;
    assert_int_equal(ledger_init(ledger, &shape, o->epoch, &err), 0);
    memcpy(ledger->done, o->done, sizeof o->done);
}

int ps_rig_open_as(struct ps_rig *rig, const struct ps_rig_opening *o, struct rpc_msg **reply,
                   struct err *err)
{
    static const char *const modes[] = {"sync", "async", "bounded"};
    struct plan plan;
    struct ledger ledger;
    Gradus__V1__OpenShardRequest r = GRADUS__V1__OPEN_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(o->job, o->generation);
    Gradus__V1__Plan plan_message;
    Gradus__V1__Ledger ledger_message;
    Gradus__V1__Consistency consistency;
    char names[PS_RIG_WORKERS_MAX][8];
    char *workers[PS_RIG_WORKERS_MAX];
    for (size_t i = 0; i < PS_RIG_WORKERS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "w%zu", i);
        workers[i] = names[i];
    }
    char *text =
        ps_rig_text(modes[o->consistency.mode], o->rule, o->training == NULL ? "" : o->training,
                    o->tables == NULL ? "null" : o->tables);
    ps_rig_plan(o->shards == 0 ? 1 : o->shards, &plan);
    plan.variables[0].init.kind = o->given ? INIT_GIVEN : plan.variables[0].init.kind;
    ps_rig_ledger(o, &ledger);
    wire_plan_to_proto(&plan, &plan_message);
    wire_ledger_to_proto(&ledger, &ledger_message);
    wire_consistency_to_proto(&o->consistency, &consistency);
    ref.shard = o->shard;
    ref.opening = o->opening;
    ref.secret = o->secret;
    r.shard = &ref;
    r.text = text;
    r.plan = &plan_message;
    r.ledger = &ledger_message;
    r.consistency = &consistency;
    r.version = o->version;
    r.workers = workers;
    r.n_workers = o->workers == 0 ? 2 : o->workers;
    if (o->restore != NULL) {
        r.restore = o->restore;
    }
    Gradus__V1__ShardLocation backup = GRADUS__V1__SHARD_LOCATION__INIT;
    if (o->backup_at != NULL) {
        backup.shard = o->shard;
        backup.address = o->backup_at;
        backup.opening = o->backup;
        r.backup = &backup;
    }
    r.is_backup = o->is_backup;
    r.joins = o->joins;
    if (o->rows_from != NULL) {
        r.rows_from = o->rows_from;
        r.rows_manifest = o->rows_manifest;
    }
    int rc = ps_rig_call(rig, "OpenShard", &r.base, NULL, 0, reply, err);
    wire_plan_release(&plan_message);
    ledger_release(&ledger);
    plan_release(&plan);
    free(text);
    return rc;
}

int ps_rig_open(struct ps_rig *rig, char *job, const char *mode, const char *rule,
                uint64_t generation, uint32_t replicas, struct err *err)
{
    struct ps_rig_opening o = {.job = job,
                               .rule = rule,
                               .generation = generation,
                               .consistency = ps_rig_consistency(mode, replicas)};
    return ps_rig_open_as(rig, &o, NULL, err);
}

void ps_rig_expect(int rc, int code, const struct err *err, const char *says)
{
    if (rc != code || (code != 0 && strstr(err->msg, says) == NULL)) {
        fail_msg("code %d, expected %d with '%s': %s", rc, code, says, rc == 0 ? "" : err->msg);
    }
}

int ps_rig_pull(struct ps_rig *rig, char *job, Gradus__V1__Pull__Kind kind, uint64_t version,
                char *pin_id, float *out, uint64_t *got, struct err *err)
{
    Gradus__V1__PullRequest r = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    struct rpc_msg *reply = NULL;
    char worker[] = "w0";
    pull.kind = kind;
    pull.version = version;
    r.shard = &ref;
    r.worker = worker;
    r.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    r.pull = &pull;
    Gradus__V1__PinnedPull pinned = GRADUS__V1__PINNED_PULL__INIT;
    if (pin_id != NULL) {
        pinned.pin_id = pin_id;
        r.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PINNED;
        r.pinned = &pinned;
    }
    int rc = ps_rig_call(rig, "Pull", &r.base, NULL, 0, &reply, err);
    if (rc != 0) {
        return rc;
    }
    *got = ((const Gradus__V1__PullResponse *)reply->body)->version;
    assert_int_equal(rpc_spans_bytes(reply->bulk), ps_rig_elements() * sizeof(float));
    assert_true(rpc_spans_read_floats(reply->bulk, out, ps_rig_elements()));
    rpc_msg_unref(reply);
    return 0;
}

/* A stream with one exchange, and what came of it. */
struct push {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool answered, over;
    int code;
    char message[ERR_MESSAGE_BYTES];
    Gradus__V1__PushResult result;
};

static void on_push_answer(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct push *p = ctx;
    const Gradus__V1__ExchangeResponse *m = (const Gradus__V1__ExchangeResponse *)msg->body;
    pthread_mutex_lock(&p->lock);
    p->answered = true;
    p->code = -m->code;
    (void)snprintf(p->message, sizeof p->message, "%s", m->message);
    if (m->answer_case == GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED) {
        p->result = m->trained->push;
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_push_over(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct push *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->over = true;
    if (!p->answered) {
        p->code = status->err.code;
        (void)snprintf(p->message, sizeof p->message, "%s", status->err.msg);
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void send_push(struct ps_rig *rig, const ProtobufCMessage *body, const float *values,
                      size_t floats, struct push *p)
{
    static const struct rpc_stream_events events = {.message = on_push_answer,
                                                    .done = on_push_over};
    struct err err;
    struct rpc_piece piece = {values, floats * sizeof *values};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    const struct rpc_header key = {.key = SHARD_KEY_HEADER, .value = rig->key};
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Exchange",
                                        .headers = &key,
                                        .header_count = rig->key != NULL ? 1 : 0,
                                        .request_bulk = VALUES,
                                        .response_bulk = VALUES,
                                        .wait_for_ready = true};
    struct rpc_stream *stream = rpc_stream_open(rig->channel, &request, &events, p, &err);
    assert_non_null(stream);
    (void)rpc_stream_send(stream, body, floats > 0 ? &blob : NULL, &err); /* or it is over */
    pthread_mutex_lock(&p->lock);
    wait_until_signalled(p->answered || p->over, &p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    rpc_stream_cancel(stream);
    pthread_mutex_lock(&p->lock);
    wait_until_signalled(p->over, &p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    rpc_stream_free(stream);
}

int ps_rig_push_to(struct ps_rig *rig, Gradus__V1__ShardRef *ref, Gradus__V1__Push *push,
                   const float *values, size_t floats, Gradus__V1__PushResult *result,
                   struct err *err)
{
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__Training training = GRADUS__V1__TRAINING__INIT;
    struct push p = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    char worker[] = "w0";
    training.push = push;
    m.exchange = 1;
    m.shard = ref;
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    m.training = &training;
    m.total = floats;
    send_push(rig, &m.base, values, floats, &p);
    if (p.code != 0) {
        return err_set(err, p.code, "%s", p.message);
    }
    if (result != NULL) {
        *result = p.result;
    }
    return 0;
}

int ps_rig_push(struct ps_rig *rig, char *job, uint64_t step, uint32_t lo, uint32_t hi,
                const float *values, size_t floats, uint64_t examples,
                Gradus__V1__PushResult *result, struct err *err)
{
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    push.step = step;
    push.replica_first = lo;
    push.replica_end = hi;
    push.examples = examples;
    return ps_rig_push_to(rig, &ref, &push, values, floats, result, err);
}
