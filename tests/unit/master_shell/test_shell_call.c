/* SPDX-License-Identifier: Apache-2.0 */
/* What the master's shell says to nodes for each call of the core, field by field, over real gRPC
 * to a node that repeats what it heard; and what becomes of each answer. */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "master/shell/shell.h"
#include "wire/wire.h"

static const char TEXT[] = "name: demo\n", SECRET[] = "0123456789abcdef";

static struct {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    /* The node's: the last request, and what it answers. */
    const char *method;
    ProtobufCMessage *heard;
    const ProtobufCMessage *answer; /* NULL: it refuses */
    /* The core's: the last event. */
    size_t events;
    struct master_call_done done;
    struct err err;
    struct ledger ledger;
    double sums[2];
    char file[64], problem[64];
} rig = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct shell shell;
static struct rpc_server *server;
static struct plan plan;
static struct ledger ledger;
static struct consistency consistency;
static struct dataset_info train, test;

/* ---- the core, in place of master_shell.c's ---- */

void shell_event(struct shell *s, struct master_event *e)
{
    assert_ptr_equal(s, &shell);
    assert_int_equal(e->kind, MASTER_CALL_DONE);
    pthread_mutex_lock(&rig.lock);
    const struct master_call_done *d = &e->call;
    rig.done = *d;
    rig.err = d->err == NULL ? (struct err){0} : *d->err;
    ledger_release(&rig.ledger);
    rig.ledger = (struct ledger){0};
    if (d->ledger != NULL) {
        ledger_copy(&rig.ledger, d->ledger);
    }
    memset(rig.sums, 0, sizeof rig.sums);
    for (size_t i = 0; d->err == NULL && i < d->sum_count && i < 2; i++) {
        rig.sums[i] = d->sums[i];
    }
    (void)snprintf(rig.file, sizeof rig.file, "%s", d->file == NULL ? "" : d->file);
    (void)snprintf(rig.problem, sizeof rig.problem, "%s", d->problem == NULL ? "" : d->problem);
    rig.events++;
    pthread_cond_broadcast(&rig.changed);
    pthread_mutex_unlock(&rig.lock);
}

/* ---- the node ---- */

static void on_request(const char *method, struct rpc_call *call, struct rpc_msg *msg)
{
    uint8_t *bytes = mem_new(protobuf_c_message_get_packed_size(msg->body) + 1, 1);
    size_t n = protobuf_c_message_pack(msg->body, bytes);
    pthread_mutex_lock(&rig.lock);
    if (rig.heard != NULL) {
        protobuf_c_message_free_unpacked(rig.heard, NULL);
    }
    rig.method = method;
    rig.heard = protobuf_c_message_unpack(msg->body->descriptor, NULL, n, bytes);
    if (rig.answer != NULL) {
        (void)rpc_reply(call, rig.answer, NULL);
    } else {
        struct err err;
        (void)err_set(&err, ERR_STATE, "not now");
        (void)rpc_fail(call, &err);
    }
    pthread_mutex_unlock(&rig.lock);
    free(bytes);
}

/* clang-format off */
#define PS_METHODS(X) \
    X(OpenShard) \
    X(SetMembership) \
    X(Pull) \
    X(Push) \
    X(PushPull) \
    X(Exchange) \
    X(Pin) \
    X(Unpin) \
    X(Checkpoint) \
    X(CloseShard) \
    X(Stats) \
    X(Trace)
#define WORKER_METHODS(X) \
    X(InspectData) \
    X(StartJob) \
    X(Assign) \
    X(Evaluate) \
    X(StopJob) \
    X(WorkerTrace)
/* clang-format on */
#define HANDLER(Name)                                                                              \
    static void on_##Name(struct rpc_call *call, struct rpc_msg *msg, void *service)               \
    {                                                                                              \
        (void)service;                                                                             \
        on_request(#Name, call, msg);                                                              \
    }
PS_METHODS(HANDLER)
WORKER_METHODS(HANDLER)
#define ROW(Name) {.name = #Name, .request = on_##Name},
static const struct rpc_method ps_served[] = {PS_METHODS(ROW)};
static const struct rpc_method worker_served[] = {
    {.name = "InspectData", .request = on_InspectData},
    {.name = "StartJob", .request = on_StartJob},
    {.name = "Assign", .request = on_Assign},
    {.name = "Evaluate", .request = on_Evaluate},
    {.name = "StopJob", .request = on_StopJob},
    {.name = "Trace", .request = on_WorkerTrace},
};

/* ---- the rig ---- */

static void make_plan(void)
{
    const struct variable_spec variables[1] = {{"w", {2, {4, 3}}, {INIT_ZEROS, 0, 0, 0, 0}}};
    const struct cluster_spec cluster = {
        .workers = {1, 1}, .ps = 2, .partitioner = PARTITIONER_FIXED, .partitions = 2};
    assert_int_equal(plan_make(variables, 1, &cluster, &plan, NULL), 0);
    const struct ledger_shape shape = {.records = 50, .batch_records = 10, .split_batches = 2};
    assert_int_equal(ledger_init(&ledger, &shape, 6, NULL), 0);
    ledger.done[1] = 1;
    consistency =
        (struct consistency){.replicas = 3, .aggregate = 2, .push_every = 1, .pull_every = 1};
    train = (struct dataset_info){.records = 50,
                                  .features = {1, {4}},
                                  .label_is_class = true,
                                  .classes = 3,
                                  .label_scale = 1,
                                  .fingerprint = 11};
    test = train;
    test.records = 20;
    test.fingerprint = 12;
}

static int set_up(void **state)
{
    (void)state;
    struct err err;
    const char *addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 1, .grace_ms = 200};
    rpc_init();
    make_plan();
    server = rpc_server_new(&options, &err);
    assert_non_null(server);
    assert_int_equal(rpc_server_add(server, &gradus__v1__parameter_server__descriptor, ps_served,
                                    sizeof ps_served / sizeof *ps_served, NULL, &err),
                     0);
    assert_int_equal(rpc_server_add(server, &gradus__v1__worker__descriptor, worker_served,
                                    sizeof worker_served / sizeof *worker_served, NULL, &err),
                     0);
    assert_int_equal(rpc_server_start(server, &err), 0);
    shell.loop = loop_new(64);
    (void)snprintf(shell.checkpoints.owner, sizeof shell.checkpoints.owner, "the owner");
    assert_int_equal(loop_start(shell.loop, "test", &err), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    loop_stop(shell.loop);
    loop_join(shell.loop);
    peers_free(&shell);
    loop_free(shell.loop);
    rpc_server_free(server);
    if (rig.heard != NULL) {
        protobuf_c_message_free_unpacked(rig.heard, NULL);
    }
    ledger_release(&rig.ledger);
    ledger_release(&ledger);
    plan_release(&plan);
    rpc_shutdown();
    return 0;
}

static uint64_t number;
static struct master_call call_of(enum master_call_kind kind)
{
    struct master_call call = {.number = ++number,
                               .kind = kind,
                               .node = "n-1",
                               .address = rpc_server_address(server, 0),
                               .incarnation = 21,
                               .job = "demo-1",
                               .fence = {.opening = 22},
                               .generation = 23,
                               .shard = 1,
                               .text = TEXT};
    memcpy(call.fence.secret, SECRET, sizeof call.fence.secret);
    return call;
}

struct to_loop {
    struct shell *shell;
    const struct master_call *call;
};

static void on_loop(void *ctx)
{
    const struct to_loop *t = ctx;
    shell_call(t->shell, t->call);
}

/* Makes the call; what the node heard, when its event has come. */
static const ProtobufCMessage *carry_out(const struct master_call *call, const char *method,
                                         const ProtobufCMessage *answer)
{
    pthread_mutex_lock(&rig.lock);
    size_t before = rig.events;
    rig.answer = answer;
    rig.method = "";
    pthread_mutex_unlock(&rig.lock);
    struct to_loop t = {&shell, call};
    assert_int_equal(loop_call(shell.loop, on_loop, &t, NULL), 0);
    pthread_mutex_lock(&rig.lock);
    while (rig.events == before) {
        pthread_cond_wait(&rig.changed, &rig.lock);
    }
    pthread_mutex_unlock(&rig.lock);
    assert_int_equal(rig.done.number, call->number);
    assert_string_equal(rig.method, method);
    return rig.heard;
}

static void expect_well(void)
{
    if (rig.done.err != NULL) {
        fail_msg("%s", rig.err.msg);
    }
}

static void expect_failed(int code, const char *says)
{
    assert_non_null(rig.done.err);
    assert_int_equal(rig.err.code, code);
    if (strstr(rig.err.msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", rig.err.msg, says);
    }
}

static void expect_secret(const ProtobufCBinaryData *secret)
{
    assert_int_equal(secret->len, FENCE_SECRET_BYTES);
    assert_memory_equal(secret->data, SECRET, FENCE_SECRET_BYTES);
}

static void expect_shard(const Gradus__V1__ShardRef *ref)
{
    assert_non_null(ref);
    assert_string_equal(ref->job, "demo-1");
    assert_int_equal(ref->shard, 1);
    assert_int_equal(ref->generation, 23);
    assert_int_equal(ref->opening, 22);
    expect_secret(&ref->secret);
}

static void expect_plan(const Gradus__V1__Plan *in)
{
    struct plan heard = {0};
    struct err err;
    assert_int_equal(wire_plan_from_proto(in, &heard, &err), 0);
    assert_int_equal(heard.shard_count, 2);
    assert_int_equal(heard.partition_count, plan.partition_count);
    plan_release(&heard);
}

static void expect_ledger(const Gradus__V1__Ledger *in)
{
    struct ledger heard = {0};
    struct err err;
    assert_int_equal(wire_ledger_from_proto(in, &heard, &err), 0);
    assert_true(ledger_equal(&heard, &ledger));
    ledger_release(&heard);
}

static void expect_consistency(const Gradus__V1__Consistency *in)
{
    struct consistency heard;
    struct err err;
    assert_int_equal(wire_consistency_from_proto(in, &heard, &err), 0);
    assert_true(consistency_equal(&heard, &consistency));
}

static const char *const WORKERS[] = {"w-1", "w-2"};

static void expect_workers(size_t n, char **workers)
{
    assert_int_equal(n, 2);
    assert_string_equal(workers[0], "w-1");
    assert_string_equal(workers[1], "w-2");
}

/* ---- parameter servers ---- */

/* The state of a shard, in an answer, and what of it reaches the core. */
static Gradus__V1__ShardState a_state(Gradus__V1__Ledger *message)
{
    static char problem[] = "no disk";
    Gradus__V1__ShardState state = GRADUS__V1__SHARD_STATE__INIT;
    wire_ledger_to_proto(&ledger, message);
    state.ledger = message;
    state.version = 31;
    state.examples = 32;
    state.pushes = 33;
    state.duplicates = 34;
    state.dropped = 35;
    state.checkpoint_problem = problem;
    return state;
}

static void expect_state(void)
{
    expect_well();
    assert_int_equal(rig.done.version, 31);
    assert_int_equal(rig.done.examples, 32);
    assert_int_equal(rig.done.pushes, 33);
    assert_int_equal(rig.done.duplicates, 34);
    assert_int_equal(rig.done.dropped, 35);
    assert_string_equal(rig.problem, "no disk");
    assert_non_null(rig.done.ledger);
    assert_true(ledger_equal(&rig.ledger, &ledger));
}

static void open_shard_says_all(void **state)
{
    (void)state;
    Gradus__V1__Ledger message;
    Gradus__V1__ShardState well = a_state(&message);
    struct master_call call = call_of(MASTER_CALL_OPEN);
    call.plan = &plan;
    call.ledger = &ledger;
    call.version = 24;
    call.restore = "demo-1/step-000000007";
    call.consistency = &consistency;
    call.workers = WORKERS;
    call.worker_count = 2;
    const Gradus__V1__OpenShardRequest *q =
        (const Gradus__V1__OpenShardRequest *)carry_out(&call, "OpenShard", &well.base);
    expect_shard(q->shard);
    assert_string_equal(q->text, TEXT);
    expect_plan(q->plan);
    expect_ledger(q->ledger);
    expect_consistency(q->consistency);
    assert_int_equal(q->version, 24);
    assert_string_equal(q->restore, "demo-1/step-000000007");
    assert_string_equal(q->owner, "the owner");
    expect_workers(q->n_workers, q->workers);
    assert_int_equal(q->incarnation, 21);
    expect_state();
}

static void membership_says_what_changes(void **state)
{
    (void)state;
    Gradus__V1__Ledger message;
    Gradus__V1__ShardState well = a_state(&message);
    struct master_call call = call_of(MASTER_CALL_MEMBERSHIP);
    call.workers = WORKERS;
    call.worker_count = 2;
    call.version = 24;
    call.consistency = &consistency;
    const Gradus__V1__SetMembershipRequest *q =
        (const Gradus__V1__SetMembershipRequest *)carry_out(&call, "SetMembership", &well.base);
    expect_shard(q->shard);
    expect_workers(q->n_workers, q->workers);
    assert_true(q->ledger == NULL && q->consistency == NULL && q->version == 0);
    expect_state();
    call = call_of(MASTER_CALL_MEMBERSHIP);
    call.version = 24;
    call.ledger = &ledger;
    call.consistency = &consistency;
    well.ledger = NULL; /* sync: the master knows */
    q = (const Gradus__V1__SetMembershipRequest *)carry_out(&call, "SetMembership", &well.base);
    assert_int_equal(q->n_workers, 0);
    expect_ledger(q->ledger);
    expect_consistency(q->consistency);
    assert_int_equal(q->version, 24);
    expect_well();
    assert_null(rig.done.ledger);
    Gradus__V1__Ledger damaged = GRADUS__V1__LEDGER__INIT;
    well.ledger = &damaged;
    (void)carry_out(&call, "SetMembership", &well.base);
    expect_failed(ERR_INVALID, "");
    assert_null(rig.done.ledger);
}

static void pins_are_named(void **state)
{
    (void)state;
    Gradus__V1__Ledger message;
    Gradus__V1__ShardState well = a_state(&message);
    for (int slots = 0; slots < 2; slots++) {
        struct master_call call = call_of(MASTER_CALL_PIN);
        call.pin_id = "p-7";
        call.slots = slots != 0;
        const Gradus__V1__PinRequest *q =
            (const Gradus__V1__PinRequest *)carry_out(&call, "Pin", &well.base);
        expect_shard(q->shard);
        assert_string_equal(q->pin_id, "p-7");
        assert_int_equal(q->slots != 0, slots);
        expect_state();
    }
    struct master_call call = call_of(MASTER_CALL_UNPIN);
    call.pin_id = "p-8";
    const Gradus__V1__PinRequest *q =
        (const Gradus__V1__PinRequest *)carry_out(&call, "Unpin", &well.base);
    expect_shard(q->shard);
    assert_string_equal(q->pin_id, "p-8");
    expect_state();
}

static void checkpoints_are_of_an_owner(void **state)
{
    (void)state;
    static char file[] = "shard-1-of-2.safetensors";
    Gradus__V1__Ledger message;
    Gradus__V1__CheckpointShardResponse well = GRADUS__V1__CHECKPOINT_SHARD_RESPONSE__INIT;
    wire_ledger_to_proto(&ledger, &message);
    well.file = file;
    well.bytes = 41;
    well.checksum = 42;
    well.version = 43;
    well.ledger = &message;
    struct master_call call = call_of(MASTER_CALL_CHECKPOINT);
    call.pin_id = "p-7";
    call.directory = "demo-1/step-000000009";
    const Gradus__V1__CheckpointShardRequest *q =
        (const Gradus__V1__CheckpointShardRequest *)carry_out(&call, "Checkpoint", &well.base);
    expect_shard(q->shard);
    assert_string_equal(q->pin_id, "p-7");
    assert_string_equal(q->directory, "demo-1/step-000000009");
    assert_string_equal(q->owner, "the owner");
    expect_well();
    assert_string_equal(rig.file, file);
    assert_int_equal(rig.done.bytes, 41);
    assert_int_equal(rig.done.checksum, 42);
    assert_int_equal(rig.done.version, 43);
    assert_true(rig.done.ledger != NULL && ledger_equal(&rig.ledger, &ledger));
    well.ledger = NULL;
    (void)carry_out(&call, "Checkpoint", &well.base);
    expect_well();
    assert_null(rig.done.ledger);
    Gradus__V1__Ledger damaged = GRADUS__V1__LEDGER__INIT;
    well.ledger = &damaged;
    (void)carry_out(&call, "Checkpoint", &well.base);
    expect_failed(ERR_INVALID, "");
}

static void shards_are_closed(void **state)
{
    (void)state;
    Gradus__V1__CloseShardResponse well = GRADUS__V1__CLOSE_SHARD_RESPONSE__INIT;
    struct master_call call = call_of(MASTER_CALL_CLOSE);
    const Gradus__V1__CloseShardRequest *q =
        (const Gradus__V1__CloseShardRequest *)carry_out(&call, "CloseShard", &well.base);
    expect_shard(q->shard);
    expect_well();
}

/* ---- workers ---- */

static void data_are_inspected(void **state)
{
    (void)state;
    Gradus__V1__DataInfo well;
    wire_data_to_proto(&train, &test, &well);
    struct master_call call = call_of(MASTER_CALL_INSPECT);
    const Gradus__V1__InspectDataRequest *q =
        (const Gradus__V1__InspectDataRequest *)carry_out(&call, "InspectData", &well.base);
    assert_string_equal(q->job, "demo-1");
    assert_string_equal(q->text, TEXT);
    assert_int_equal(q->incarnation, 21);
    expect_secret(&q->secret);
    expect_well();
    assert_int_equal(rig.done.train.records, 50);
    assert_int_equal(rig.done.train.fingerprint, 11);
    assert_int_equal(rig.done.test.records, 20);
    well.train_records = 0; /* of nothing */
    (void)carry_out(&call, "InspectData", &well.base);
    expect_failed(ERR_INVALID, "");
}

static void a_start_says_where_shards_are(void **state)
{
    (void)state;
    static const struct dataset_info none = {0};
    const struct master_shard_location shards[] = {{0, "ps-1", "a:1"}, {1, "ps-2", "b:2"}};
    Gradus__V1__StartJobResponse well = GRADUS__V1__START_JOB_RESPONSE__INIT;
    struct master_call call = call_of(MASTER_CALL_START);
    call.plan = &plan;
    call.shards = shards;
    call.shard_count = 2;
    call.train = &train;
    call.test = &test;
    const Gradus__V1__StartJobRequest *q =
        (const Gradus__V1__StartJobRequest *)carry_out(&call, "StartJob", &well.base);
    assert_string_equal(q->job, "demo-1");
    assert_string_equal(q->text, TEXT);
    expect_plan(q->plan);
    assert_int_equal(q->n_shards, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(q->shards[i]->shard, i);
        assert_string_equal(q->shards[i]->node, shards[i].node);
        assert_string_equal(q->shards[i]->address, shards[i].address);
    }
    assert_int_equal(q->data->train_records, 50);
    assert_int_equal(q->data->test_records, 20);
    assert_int_equal(q->generation, 23);
    assert_int_equal(q->opening, 22);
    assert_int_equal(q->incarnation, 21);
    expect_secret(&q->secret);
    expect_well();
    call.test = &none;
    q = (const Gradus__V1__StartJobRequest *)carry_out(&call, "StartJob", &well.base);
    assert_int_equal(q->data->test_records, 0);
    assert_int_equal(q->data->test_fingerprint, 0);
}

static void an_assignment_says_all(void **state)
{
    (void)state;
    const struct lease leases[] = {{.epoch = 51, .split = 52, .batch_end = 53, .fresh = true},
                                   {.epoch = 54, .split = 55, .batch_end = 56, .fresh = false}};
    Gradus__V1__AssignResponse well = GRADUS__V1__ASSIGN_RESPONSE__INIT;
    well.position = 57;
    for (int hold = 0; hold < 2; hold++) {
        struct master_call call = call_of(MASTER_CALL_ASSIGN);
        call.consistency = &consistency;
        call.ledger = &ledger;
        call.replica_first = 61;
        call.replica_end = 62;
        call.step = 63;
        call.step_limit = 64;
        call.ledger_step = 65;
        call.hold = hold != 0;
        call.leases = leases;
        call.lease_count = 2;
        const Gradus__V1__AssignRequest *q =
            (const Gradus__V1__AssignRequest *)carry_out(&call, "Assign", &well.base);
        assert_string_equal(q->job, "demo-1");
        assert_int_equal(q->generation, 23);
        expect_consistency(q->consistency);
        expect_ledger(q->ledger);
        assert_int_equal(q->replica_first, 61);
        assert_int_equal(q->replica_end, 62);
        assert_int_equal(q->step, 63);
        assert_int_equal(q->step_limit, 64);
        assert_int_equal(q->ledger_step, 65);
        assert_int_equal(q->hold != 0, hold);
        assert_int_equal(q->n_leases, 2);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(q->leases[i]->epoch, leases[i].epoch);
            assert_int_equal(q->leases[i]->split, leases[i].split);
            assert_int_equal(q->leases[i]->batch_end, leases[i].batch_end);
            assert_int_equal(q->leases[i]->fresh != 0, leases[i].fresh);
        }
        assert_int_equal(q->number, call.number);
        assert_int_equal(q->incarnation, 21);
        expect_secret(&q->secret);
        expect_well();
        assert_int_equal(rig.done.position, 57);
    }
}

static void evaluations_have_sums(void **state)
{
    (void)state;
    double sums[] = {7.5, 8.5};
    Gradus__V1__EvaluateResponse well = GRADUS__V1__EVALUATE_RESPONSE__INIT;
    Gradus__V1__MetricSums message = GRADUS__V1__METRIC_SUMS__INIT;
    message.values = sums;
    message.n_values = 2;
    well.sums = &message;
    struct master_call call = call_of(MASTER_CALL_EVALUATE);
    call.pin_id = "p-7";
    call.first = 1024;
    call.count = 77;
    const Gradus__V1__EvaluateRequest *q =
        (const Gradus__V1__EvaluateRequest *)carry_out(&call, "Evaluate", &well.base);
    assert_string_equal(q->job, "demo-1");
    assert_string_equal(q->pin_id, "p-7");
    assert_int_equal(q->first, 1024);
    assert_int_equal(q->count, 77);
    expect_secret(&q->secret);
    expect_well();
    assert_int_equal(rig.done.sum_count, 2);
    assert_true(rig.sums[0] == 7.5 && rig.sums[1] == 8.5);
    well.sums = NULL;
    (void)carry_out(&call, "Evaluate", &well.base);
    expect_failed(ERR_INTERNAL, "the answer has no sums");
}

static void stops_have_a_reason(void **state)
{
    (void)state;
    Gradus__V1__StopJobResponse well = GRADUS__V1__STOP_JOB_RESPONSE__INIT;
    struct master_call call = call_of(MASTER_CALL_STOP);
    call.reason = "it was cancelled";
    const Gradus__V1__StopJobRequest *q =
        (const Gradus__V1__StopJobRequest *)carry_out(&call, "StopJob", &well.base);
    assert_string_equal(q->job, "demo-1");
    assert_string_equal(q->reason, "it was cancelled");
    assert_int_equal(q->generation, 23);
    expect_secret(&q->secret);
    expect_well();
}

/* ---- what goes wrong ---- */

static void refusals_reach_the_core(void **state)
{
    (void)state;
    struct master_call call = call_of(MASTER_CALL_CLOSE);
    (void)carry_out(&call, "CloseShard", NULL);
    expect_failed(ERR_STATE, "not now");
    call = call_of(MASTER_CALL_STOP);
    call.reason = "";
    call.address = "no address";
    (void)carry_out(&call, "", NULL);
    assert_true(rig.err.code < 0);
    call.address = "127.0.0.1:1"; /* nobody listens */
    (void)carry_out(&call, "", NULL);
    expect_failed(ERR_UNAVAILABLE, "127.0.0.1:1");
}

static void a_channel_is_kept(void **state)
{
    (void)state;
    struct err err;
    peers_free(&shell);
    struct rpc_channel *first = peer_channel(&shell, "127.0.0.1:2", &err);
    struct rpc_channel *second = peer_channel(&shell, "127.0.0.1:3", &err);
    assert_true(first != NULL && second != NULL && first != second);
    assert_ptr_equal(peer_channel(&shell, "127.0.0.1:2", &err), first);
    assert_ptr_equal(peer_channel(&shell, "127.0.0.1:3", &err), second);
    assert_string_equal(rpc_channel_target(first), "127.0.0.1:2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_shard_says_all),
        cmocka_unit_test(membership_says_what_changes),
        cmocka_unit_test(pins_are_named),
        cmocka_unit_test(checkpoints_are_of_an_owner),
        cmocka_unit_test(shards_are_closed),
        cmocka_unit_test(data_are_inspected),
        cmocka_unit_test(a_start_says_where_shards_are),
        cmocka_unit_test(an_assignment_says_all),
        cmocka_unit_test(evaluations_have_sums),
        cmocka_unit_test(stops_have_a_reason),
        cmocka_unit_test(refusals_reach_the_core),
        cmocka_unit_test(a_channel_is_kept),
    };
    return cmocka_run_group_tests_name("shell_call", tests, set_up, tear_down);
}
