/* SPDX-License-Identifier: Apache-2.0 */
/* The node that the tests of calls talk to. */
#include "auth/shard_key.h"
#include "shell_call_rig.h"
#include "support/wait_until.h"

const char TEXT[] = "name: demo\n", SECRET[] = "0123456789abcdef";
struct rig_state rig = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
struct shell call_shell;
static struct rpc_server *server;
struct plan plan;
struct ledger ledger;
struct consistency consistency;
struct dataset_info train, test;
void shell_event(struct shell *s, struct master_event *e)
{
    assert_ptr_equal(s, &call_shell);
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
    X(Fill) \
    X(SetMembership) \
    X(Pull) \
    X(Read) \
    X(Exchange) \
    X(Pin) \
    X(Unpin) \
    X(Checkpoint) \
    X(CloseShard) \
    X(Stats) \
    X(Record) \
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

static void make_plan(void)
{
    const struct variable_spec variables[1] = {{"w", {2, {4, 3}}, {INIT_ZEROS, 0, 0, 0, 0}, 0, 0}};
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

int call_set_up(void **state)
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
    call_shell.loop = loop_new(64);
    (void)snprintf(call_shell.checkpoints.owner, sizeof call_shell.checkpoints.owner, "the owner");
    assert_int_equal(loop_start(call_shell.loop, "test", &err), 0);
    return 0;
}

int call_tear_down(void **state)
{
    (void)state;
    loop_stop(call_shell.loop);
    loop_join(call_shell.loop);
    peers_free(&call_shell);
    loop_free(call_shell.loop);
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

uint64_t call_number;

struct master_call call_of(enum master_call_kind kind)
{
    struct master_call call = {.number = ++call_number,
                               .kind = kind,
                               .node = "n-1",
                               .address = rpc_server_address(server, 0),
                               .incarnation = 21,
                               .job = "demo-1",
                               .fence = {.opening = 22},
                               .generation = 23,
                               .start = 24,
                               .shard = 1,
                               .text = TEXT};
    memcpy(call.fence.secret, SECRET, sizeof call.fence.secret);
    return call;
}

static void on_loop(void *ctx)
{
    const struct to_loop *t = ctx;
    shell_call(t->shell, t->call);
}

/* Makes the call; what the node heard, when its event has come. */
const ProtobufCMessage *call_carry_out(const struct master_call *call, const char *method,
                                       const ProtobufCMessage *answer)
{
    pthread_mutex_lock(&rig.lock);
    size_t before = rig.events;
    rig.answer = answer;
    rig.method = "";
    pthread_mutex_unlock(&rig.lock);
    struct to_loop t = {&call_shell, call};
    assert_int_equal(loop_call(call_shell.loop, on_loop, &t, NULL), 0);
    pthread_mutex_lock(&rig.lock);
    wait_until_signalled(rig.events != before, &rig.changed, &rig.lock);
    pthread_mutex_unlock(&rig.lock);
    assert_int_equal(rig.done.number, call->number);
    assert_string_equal(rig.method, method);
    return rig.heard;
}

void call_expect_well(void)
{
    if (rig.done.err != NULL) {
        fail_msg("%s", rig.err.msg);
    }
}

void call_expect_failed(int code, const char *says)
{
    assert_non_null(rig.done.err);
    assert_int_equal(rig.err.code, code);
    if (strstr(rig.err.msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", rig.err.msg, says);
    }
}

void call_expect_secret(const ProtobufCBinaryData *secret)
{
    assert_int_equal(secret->len, FENCE_SECRET_BYTES);
    assert_memory_equal(secret->data, SECRET, FENCE_SECRET_BYTES);
}

void call_expect_worker_secret(const ProtobufCBinaryData *secret)
{
    uint8_t own[SHARD_KEY_SECRET_BYTES], job[SHARD_KEY_SECRET_BYTES];
    memcpy(job, SECRET, sizeof job);
    shard_worker_secret(job, "n-1", own);
    assert_int_equal(secret->len, sizeof own);
    assert_memory_equal(secret->data, own, sizeof own);
}

void call_expect_plan(const Gradus__V1__Plan *in)
{
    struct plan heard = {0};
    struct err err;
    assert_int_equal(wire_plan_from_proto(in, &heard, &err), 0);
    assert_int_equal(heard.shard_count, 2);
    assert_int_equal(heard.partition_count, plan.partition_count);
    plan_release(&heard);
}

void call_expect_ledger(const Gradus__V1__Ledger *in)
{
    struct ledger heard = {0};
    struct err err;
    assert_int_equal(wire_ledger_from_proto(in, &heard, &err), 0);
    assert_true(ledger_equal(&heard, &ledger));
    ledger_release(&heard);
}

void call_expect_consistency(const Gradus__V1__Consistency *in)
{
    struct consistency heard;
    struct err err;
    assert_int_equal(wire_consistency_from_proto(in, &heard, &err), 0);
    assert_true(consistency_equal(&heard, &consistency));
}
