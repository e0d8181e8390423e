/* SPDX-License-Identifier: Apache-2.0 */
/* The unary methods, over real gRPC. */
#include "ps_rig.h"

#include "checkpoint/shard_file.h"
#include "ps/rpc/ps_shell.h"
#include "support/wait_until.h"

static float values[3][ELEMENTS];
static float gradient[ELEMENTS];

static void fill(float *out, float by)
{
    for (size_t i = 0; i < ELEMENTS; i++) {
        out[i] = by * (float)(i % 17 + 1);
    }
}

static void test_initial_values(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t version;
    char job[] = "a-1";
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 2, &err), 0, &err, "");
    ps_rig_expect(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values[0], &version, &err),
        0, &err, "");
    assert_int_equal(version, 0);
    struct init init = {INIT_GLOROT_UNIFORM, 0, 0, ROWS, COLUMNS};
    /* Bias and kernel are in the plan's order: find the kernel by its first value. */
    init_fill(&init, 7, "dense_1.kernel", 0, ROWS * COLUMNS, values[1]);
    size_t kernel = values[0][0] == 0.5F ? COLUMNS : 0;
    size_t bias = kernel == 0 ? ROWS * COLUMNS : 0;
    assert_memory_equal(values[0] + kernel, values[1], ROWS * COLUMNS * sizeof(float));
    assert_true(values[0][bias] == 0.5F && values[0][bias + COLUMNS - 1] == 0.5F);
    ps_rig_stop(&rig);
}

static void test_push_applies_the_rule(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t version;
    Gradus__V1__PushResult result;
    char job[] = "a-1";
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 2, &err), 0, &err, "");
    (void)ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__VERSION, 0, NULL, values[0], &version,
                      &err);
    fill(gradient, 1);
    ps_rig_expect(ps_rig_push(&rig, job, 0, 1, 2, gradient, ELEMENTS, 10, &result, &err), 0, &err,
                  "");
    assert_int_equal(result, GRADUS__V1__PUSH_RESULT__ACCEPTED);
    fill(gradient, 3);
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 30, &result, &err), 0, &err,
                  "");
    assert_int_equal(result, GRADUS__V1__PUSH_RESULT__APPLIED);
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 30, &result, &err), 0, &err,
                  "");
    assert_int_equal(result, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    (void)ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__VERSION, 1, NULL, values[1], &version,
                      &err);
    assert_int_equal(version, 1);
    for (size_t i = 0; i < ELEMENTS; i++) {
        float g = 4.0F * (float)(i % 17 + 1) * (1.0F / 40.0F);
        float want = values[0][i] - 0.01F * g;
        assert_memory_equal(&values[1][i], &want, sizeof want);
    }
    (void)ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__VERSION, 0, NULL, values[2], &version,
                      &err);
    assert_memory_equal(values[2], values[0], sizeof values[0]);
    ps_rig_stop(&rig);
}

static void test_refusals_say_what_and_where(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t version;
    char job[] = "a-1";
    char other[] = "b-2";
    char third[] = "c-3";
    char bad[] = "../x";
    ps_rig_start(&rig, 0);
    ps_rig_expect(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values[0], &version, &err),
        ERR_NOT_FOUND, &err, "job a-1 shard 0: not on this server");
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 2, 2, &err), 0, &err, "");
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 2, 2, &err), 0, &err, "");
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 2, &err), ERR_ABORTED, &err,
                  "job a-1 shard 0: generation 1 is over: opened with 2, it is 2 now");
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 1, NULL, &err), ERR_ABORTED,
                  &err, "job a-1 shard 0: generation 1 is over");
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "nosuchrule", 1, 2, &err), ERR_INVALID, &err,
                  "nosuchrule");
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "sgd", 1, 0, &err), ERR_INVALID, &err,
                  "job b-2 shard 0: consistency: 0 replicas");
    ps_rig_expect(ps_rig_open(&rig, bad, "sync", "sgd", 1, 1, &err), ERR_INVALID, &err, "begins");
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "sgd", 1, 2, &err), 0, &err, "");
    ps_rig_expect(ps_rig_open(&rig, third, "sync", "sgd", 1, 2, &err), ERR_EXHAUSTED, &err,
                  "2 jobs have shards here, which is shards_max");
    ps_rig_expect(ps_rig_push(&rig, other, 0, 0, 1, gradient, 5, 1, NULL, &err), ERR_INVALID, &err,
                  "5 gradient elements; expected 60060");
    ps_rig_expect(ps_rig_push(&rig, other, 7, 0, 1, gradient, ELEMENTS, 1, NULL, &err), ERR_RANGE,
                  &err, "step 7, but the shard is at step 0");
    Gradus__V1__PullRequest nothing = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(other, 1);
    nothing.shard = &ref;
    ps_rig_expect(ps_rig_call(&rig, "Pull", &nothing.base, NULL, 0, NULL, &err), ERR_INVALID, &err,
                  "job b-2 shard 0: the request has no pull");
    Gradus__V1__OpenShardRequest empty = GRADUS__V1__OPEN_SHARD_REQUEST__INIT;
    ref.job = third;
    empty.shard = &ref;
    ps_rig_expect(ps_rig_call(&rig, "OpenShard", &empty.base, NULL, 0, NULL, &err), ERR_INVALID,
                  &err, "job c-3 shard 0");
    ps_rig_stop(&rig);
}

/* Every method that is about a shard says so when none is named. */
static void test_a_shard_must_be_named(void **state)
{
    (void)state;
    const Gradus__V1__OpenShardRequest open = GRADUS__V1__OPEN_SHARD_REQUEST__INIT;
    const Gradus__V1__SetMembershipRequest members = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    const Gradus__V1__PullRequest pull = GRADUS__V1__PULL_REQUEST__INIT;
    const Gradus__V1__FillRequest fill = GRADUS__V1__FILL_REQUEST__INIT;
    const Gradus__V1__PinRequest a_pin = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__CheckpointShardRequest file = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    const Gradus__V1__CloseShardRequest end = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
    const struct {
        const char *method;
        const ProtobufCMessage *body;
    } CASES[] = {{"OpenShard", &open.base}, {"SetMembership", &members.base},
                 {"Pull", &pull.base},      {"Pin", &a_pin.base},
                 {"Unpin", &a_pin.base},    {"Checkpoint", &file.base},
                 {"CloseShard", &end.base}, {"Fill", &fill.base}};
    struct ps_rig rig;
    struct err err;
    char directory[] = "a-1/step-000000000";
    file.directory = directory;
    ps_rig_start(&rig, 0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ps_rig_expect(ps_rig_call(&rig, CASES[i].method, CASES[i].body, NULL, 0, NULL, &err),
                      ERR_INVALID, &err, "does not name a shard");
    }
    ps_rig_stop(&rig);
}

static void test_memory_is_bounded(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char job[] = "a-1";
    ps_rig_start(&rig, 1000000); /* 60060 floats are 240240 bytes; four arrays fit, six do not */
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "adam", 1, 2, &err), ERR_RANGE, &err,
                  "2 slots, their copy for checkpoints and 2 gradients of 60060 elements: 1987200 "
                  "bytes are too many: 0 are in use and memory_bytes_max is 1000000");
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 2, &err), 0, &err, "");
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 1, NULL, &err), 0, &err, "");
    ps_rig_expect(ps_rig_push(&rig, job, 0, 1, 2, gradient, ELEMENTS, 1, NULL, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

static int pin(struct ps_rig *rig, const char *method, char *job, char *id, struct err *err)
{
    Gradus__V1__PinRequest r = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    r.pin_id = id;
    r.slots = 1;
    return ps_rig_call(rig, method, &r.base, NULL, 0, NULL, err);
}

static int checkpoint(struct ps_rig *rig, char *job, char *id, char *directory,
                      struct rpc_msg **reply, struct err *err)
{
    Gradus__V1__CheckpointShardRequest r = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    r.pin_id = id;
    r.directory = directory;
    return ps_rig_call(rig, "Checkpoint", &r.base, NULL, 0, reply, err);
}

static void test_pins_and_checkpoints(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t version;
    struct rpc_msg *reply;
    char job[] = "a-1";
    char id[] = "step-0";
    char directory[] = "a-1/step-000000000";
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "adam", 1, 1, &err), 0, &err, "");
    (void)ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values[0], &version,
                      &err);
    ps_rig_expect(pin(&rig, "Pin", job, id, &err), 0, &err, "");
    for (uint64_t step = 0; step < 5; step++) {
        ps_rig_expect(ps_rig_push(&rig, job, step, 0, 1, gradient, ELEMENTS, 4, NULL, &err), 0,
                      &err, "");
    }
    ps_rig_expect(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, id, values[1], &version, &err), 0,
        &err, "");
    assert_int_equal(version, 0);
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    char *paths[] = {"../x",
                     "/tmp/x",
                     "",
                     ".",
                     "a-1",
                     "a-1/",
                     "a-1//step-000000000",
                     "a-1/step-",
                     "a-1/step-0/../../b-2",
                     "a-1/step-00000000000000000000",
                     "a-1/step-000000000/",
                     "b-2/step-000000000",
                     "a-10/step-000000000",
                     "a-1/step-\n"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        ps_rig_expect(checkpoint(&rig, job, id, paths[i], NULL, &err), ERR_INVALID, &err,
                      "is no checkpoint of job a-1; expected a-1/step-000000500");
    }
    for (int twice = 0; twice < 2; twice++) {
        ps_rig_expect(checkpoint(&rig, job, id, directory, &reply, &err), 0, &err, "");
        const Gradus__V1__CheckpointShardResponse *c =
            (const Gradus__V1__CheckpointShardResponse *)reply->body;
        assert_string_equal(c->file, "shard-0-of-1.safetensors");
        assert_int_equal(c->version, 0);
        char *path = mem_printf("%s/%s/%s", rig.dir, directory, c->file);
        struct shard_file file;
        ps_rig_expect(shard_file_open(&file, path, &err), 0, &err, "");
        assert_string_equal(file.rule, "adam");
        assert_int_equal(file.version, 0);
        const struct safetensors_tensor *kernel =
            safetensors_find(&file.file, "dense_1.kernel[0:1000]");
        assert_non_null(kernel);
        assert_int_equal(safetensors_read(&file.file, kernel, 0, values[1],
                                          ROWS * COLUMNS * sizeof(float), &err),
                         0);
        size_t at = values[0][0] == 0.5F ? COLUMNS : 0;
        assert_memory_equal(values[1], values[0] + at, ROWS * COLUMNS * sizeof(float));
        assert_non_null(safetensors_find(&file.file, "dense_1.bias[0:60]#m"));
        shard_file_close(&file);
        free(path);
        rpc_msg_unref(reply);
    }
    ps_rig_expect(pin(&rig, "Unpin", job, id, &err), 0, &err, "");
    ps_rig_expect(checkpoint(&rig, job, id, directory, NULL, &err), ERR_NOT_FOUND, &err,
                  "no version is pinned as 'step-0'");
    ps_rig_stop(&rig);
}

static void test_a_checkpoint_that_cannot_be_written(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char job[] = "a-1";
    char id[] = "p";
    char directory[] = "a-1/step-000000000";
    ps_rig_start(&rig, 0);
    char *in_the_way = mem_printf("%s/a-1", rig.dir);
    assert_int_equal(file_write_atomic(in_the_way, "x", 1, &err), 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 1, &err), 0, &err, "");
    ps_rig_expect(pin(&rig, "Pin", job, id, &err), 0, &err, "");
    int rc = checkpoint(&rig, job, id, directory, NULL, &err);
    assert_int_not_equal(rc, 0);
    ps_rig_expect(rc, rc, &err, "job a-1 shard 0: checkpoint: ");
    free(in_the_way);
    ps_rig_stop(&rig);
}

/* Room for two versions and a gradient: while the older one is pinned, an update has to wait, and
 * it goes on by itself when the pin is gone. */
static void test_an_update_waits_for_memory(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t version;
    Gradus__V1__PushResult result;
    char job[] = "a-1";
    char id[] = "p";
    ps_rig_start(&rig, 3 * ELEMENTS * sizeof(float));
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 1, &err), 0, &err, "");
    ps_rig_expect(pin(&rig, "Pin", job, id, &err), 0, &err, "");
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 4, &result, &err), 0, &err,
                  "");
    assert_int_equal(result, GRADUS__V1__PUSH_RESULT__APPLIED);
    ps_rig_expect(ps_rig_push(&rig, job, 1, 0, 1, gradient, ELEMENTS, 4, &result, &err), 0, &err,
                  "");
    assert_int_equal(result, GRADUS__V1__PUSH_RESULT__ACCEPTED);
    ps_rig_expect(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values[0], &version, &err),
        0, &err, "");
    assert_int_equal(version, 1);
    ps_rig_expect(pin(&rig, "Unpin", job, id, &err), 0, &err, "");
    ps_rig_expect(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__VERSION, 2, NULL, values[0], &version, &err),
        0, &err, "");
    assert_int_equal(version, 2);
    ps_rig_stop(&rig);
}

struct later {
    struct ps_rig *rig;
    char *job;
    int rc;
    uint64_t version;
};

static void *pull_version_one(void *arg)
{
    struct later *l = arg;
    struct err err;
    static float mine[ELEMENTS];
    l->rc = ps_rig_pull(l->rig, l->job, GRADUS__V1__PULL__KIND__VERSION, 1, NULL, mine, &l->version,
                        &err);
    return NULL;
}

static uint64_t parked(struct ps_rig *rig)
{
    Gradus__V1__StatsRequest r = GRADUS__V1__STATS_REQUEST__INIT;
    struct rpc_msg *reply;
    struct err err;
    assert_int_equal(ps_rig_call(rig, "Stats", &r.base, NULL, 0, &reply, &err), 0);
    const Gradus__V1__StatsResponse *m = (const Gradus__V1__StatsResponse *)reply->body;
    uint64_t n = 0;
    for (size_t i = 0; i < m->n_shards; i++) {
        assert_int_equal(m->shards[i]->elements, ELEMENTS);
        assert_true(m->shards[i]->bytes >= 2 * ELEMENTS * sizeof(float));
        n += m->shards[i]->requests_parked;
    }
    rpc_msg_unref(reply);
    return n;
}

static void test_pulls_wait_and_are_answered(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char job[] = "a-1";
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 1, &err), 0, &err, "");
    struct later l = {&rig, job, -1, 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, pull_version_one, &l), 0);
    wait_until(parked(&rig) != 0);
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 4, NULL, &err), 0, &err, "");
    pthread_join(thread, NULL);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.version, 1);
    ps_rig_stop(&rig);
}

static void test_who_gives_up_waits_no_longer(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char job[] = "a-1";
    char worker[] = "w0";
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 1, &err), 0, &err, "");
    Gradus__V1__PullRequest r = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    pull.kind = GRADUS__V1__PULL__KIND__VERSION;
    pull.version = 1;
    r.shard = &ref;
    r.worker = worker;
    r.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    r.pull = &pull;
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Pull",
                                        .body = &r.base,
                                        .response_bulk = VALUES};
    struct ps_rig_guest guest;
    ps_rig_ask(&guest, &rig, &request);
    wait_until(parked(&rig) == 1);
    ps_rig_give_up(&guest);
    wait_until(parked(&rig) == 0);
    ps_rig_stop(&rig);
}

static void test_close_ends_who_waits(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t version;
    char job[] = "a-1";
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 1, &err), 0, &err, "");
    struct later l = {&rig, job, -1, 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, pull_version_one, &l), 0);
    wait_until(parked(&rig) != 0);
    Gradus__V1__CloseShardRequest r = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    ps_rig_expect(ps_rig_call(&rig, "CloseShard", &r.base, NULL, 0, NULL, &err), 0, &err, "");
    pthread_join(thread, NULL);
    assert_int_equal(l.rc, ERR_NOT_FOUND);
    ps_rig_expect(ps_rig_call(&rig, "CloseShard", &r.base, NULL, 0, NULL, &err), 0, &err, "");
    ps_rig_expect(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values[0], &version, &err),
        ERR_NOT_FOUND, &err, "not on this server");
    ps_rig_expect(ps_rig_open(&rig, job, "async", "sgd", 1, 1, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

static void test_membership_over_the_wire(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char job[] = "a-1";
    char w1[] = "w1";
    char *workers[] = {w1};
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "bounded", "sgd", 1, 1, &err), 0, &err, "");
    Gradus__V1__SetMembershipRequest r = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 2);
    r.shard = &ref;
    r.workers = workers;
    r.n_workers = 1;
    Gradus__V1__Consistency bad = GRADUS__V1__CONSISTENCY__INIT;
    bad.mode = (Gradus__V1__Mode)9;
    r.consistency = &bad;
    ps_rig_expect(ps_rig_call(&rig, "SetMembership", &r.base, NULL, 0, NULL, &err), ERR_INVALID,
                  &err, "job a-1 shard 0: ");
    bad.mode = GRADUS__V1__MODE__ASYNC;
    bad.policy = (Gradus__V1__StalenessPolicy)9;
    ps_rig_expect(ps_rig_call(&rig, "SetMembership", &r.base, NULL, 0, NULL, &err), ERR_INVALID,
                  &err, "policy 9");
    r.consistency = NULL;
    struct rpc_msg *reply;
    ps_rig_expect(ps_rig_call(&rig, "SetMembership", &r.base, NULL, 0, &reply, &err), 0, &err, "");
    const Gradus__V1__ShardState *m = (const Gradus__V1__ShardState *)reply->body;
    assert_int_equal(m->generation, 2);
    assert_int_equal(m->ledger->n_done, 3);
    rpc_msg_unref(reply);
    ps_rig_stop(&rig);
}

static void test_a_new_start_replaces_what_an_old_one_left(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    uint64_t version;
    char job[] = "a-1";
    struct ps_shard *shards[PS_SHARDS_MAX];
    ps_rig_start(&rig, 1000000); /* there is no memory for two */
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 2, &err), 0, &err, "");
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 2, gradient, ELEMENTS, 1, NULL, &err), 0, &err, "");
    ps_rig_expect(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values[0], &version, &err),
        0, &err, "");
    assert_int_equal(version, 1);
    Gradus__V1__SetMembershipRequest r = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 2);
    char w0[] = "w0";
    char *workers[] = {w0};
    r.shard = &ref;
    r.workers = workers;
    r.n_workers = 1;
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 2, 2, &err), 0, &err, "");
    struct rpc_msg *reply;
    ref.generation = 3;
    ps_rig_expect(ps_rig_call(&rig, "SetMembership", &r.base, NULL, 0, &reply, &err), 0, &err, "");
    assert_int_equal(((const Gradus__V1__ShardState *)reply->body)->version, 0);
    rpc_msg_unref(reply);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 2, 2, &err), ERR_ABORTED, &err,
                  "generation 2 is over");
    size_t n = ps_list(rig.ps, job, shards);
    assert_int_equal(n, 1);
    ps_shard_unref(shards[0]);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_push_applies_the_rule),
        cmocka_unit_test(test_refusals_say_what_and_where),
        cmocka_unit_test(test_a_shard_must_be_named),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_pins_and_checkpoints),
        cmocka_unit_test(test_a_checkpoint_that_cannot_be_written),
        cmocka_unit_test(test_an_update_waits_for_memory),
        cmocka_unit_test(test_pulls_wait_and_are_answered),
        cmocka_unit_test(test_who_gives_up_waits_no_longer),
        cmocka_unit_test(test_close_ends_who_waits),
        cmocka_unit_test(test_membership_over_the_wire),
        cmocka_unit_test(test_a_new_start_replaces_what_an_old_one_left),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
