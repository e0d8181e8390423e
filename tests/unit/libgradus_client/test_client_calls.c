/* SPDX-License-Identifier: Apache-2.0 */
/* What libgradus-client asks of a master, and what it makes of each answer: the master is of this
 * test, and repeats what it heard. */
#include "support/test.h"
#include "unit/saved/saved_rig.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/client.h"
#include "gradus/v1/jobs.pb-c.h"
#include "rpc/rpc.h"
#include "support/wait_until.h"

static struct rpc_server *server;
static struct {
    pthread_mutex_t lock;
    char method[16];
    ProtobufCMessage *heard;
    int refuses; /* what the next call is answered with */
    unsigned looks, ends_at;
    char checkpoint[256];
} master = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the master ---- */

/* False: the call was refused. */
static bool hear(const char *method, struct rpc_call *call, struct rpc_msg *msg)
{
    uint8_t *bytes = mem_new(protobuf_c_message_get_packed_size(msg->body) + 1, 1);
    const size_t n = protobuf_c_message_pack(msg->body, bytes);
    pthread_mutex_lock(&master.lock);
    if (master.heard != NULL) {
        protobuf_c_message_free_unpacked(master.heard, NULL);
    }
    (void)snprintf(master.method, sizeof master.method, "%s", method);
    master.heard = protobuf_c_message_unpack(msg->body->descriptor, NULL, n, bytes);
    const int code = master.refuses;
    master.refuses = 0;
    pthread_mutex_unlock(&master.lock);
    free(bytes);
    if (code != 0) {
        struct err err;
        (void)err_set(&err, code, "as told");
        (void)rpc_fail(call, &err);
    }
    return code == 0;
}

/* A job with a number of its own in every field; the @n-th one that is shown. */
static void reply_job(struct rpc_call *call, unsigned n, bool list)
{
    char id[] = "j-1", name[] = "jay", owner[] = "ann", reason[] = "because", activity[] = "waits",
         loss[] = "loss", accuracy[] = "accuracy", other[] = "j-2";
    Gradus__V1__MetricValue train = GRADUS__V1__METRIC_VALUE__INIT, test[2] = {train, train};
    Gradus__V1__MetricValue *trains[] = {&train}, *tests[] = {&test[0], &test[1]};
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT, second;
    train.name = test[0].name = loss;
    test[1].name = accuracy;
    train.value = 0.5;
    test[0].value = 0.25;
    test[1].value = 0.75;
    job.id = id;
    job.name = name;
    job.owner = owner;
    job.reason = reason;
    job.activity = activity;
    job.checkpoint = master.checkpoint;
    job.state =
        n >= master.ends_at ? GRADUS__V1__JOB_STATE__SUCCEEDED : GRADUS__V1__JOB_STATE__RUNNING;
    job.step = 11;
    job.steps_total = 12;
    job.epoch = 1.5;
    job.epochs_total = 2.5;
    job.examples = 13;
    job.recoveries = 14;
    job.examples_per_second = 15.5;
    job.seconds = 16.5;
    job.eta_seconds = 17.5;
    job.submitted_ms = 18;
    job.started_ms = 19;
    job.finished_ms = 20;
    job.train = trains;
    job.n_train = 1;
    job.test = tests;
    job.n_test = 2;
    second = job;
    second.id = other;
    if (list) {
        Gradus__V1__Job *jobs[] = {&job, &second};
        Gradus__V1__ListJobsResponse r = GRADUS__V1__LIST_JOBS_RESPONSE__INIT;
        r.jobs = jobs;
        r.n_jobs = 2;
        (void)rpc_reply(call, &r.base, NULL);
    } else {
        (void)rpc_reply(call, &job.base, NULL);
    }
}

static void on_get(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    if (hear("Get", call, msg)) {
        reply_job(call, ++master.looks, false);
    }
}

static void on_list(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    if (hear("List", call, msg)) {
        reply_job(call, 0, true);
    }
}

static void on_submit(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    char id[] = "j-7";
    Gradus__V1__SubmitResponse r = GRADUS__V1__SUBMIT_RESPONSE__INIT;
    (void)service;
    r.job = id;
    if (hear("Submit", call, msg)) {
        (void)rpc_reply(call, &r.base, NULL);
    }
}

#define ANSWERS_WITH_JOB(function, method)                                                         \
    static void function(struct rpc_call *call, struct rpc_msg *msg, void *service)                \
    {                                                                                              \
        (void)service;                                                                             \
        if (hear(method, call, msg)) {                                                             \
            reply_job(call, 0, false);                                                             \
        }                                                                                          \
    }

ANSWERS_WITH_JOB(on_cancel, "Cancel")
ANSWERS_WITH_JOB(on_pause, "Pause")
ANSWERS_WITH_JOB(on_resume, "Resume")
ANSWERS_WITH_JOB(on_set, "Set")

static void on_other(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct err err;
    (void)msg;
    (void)service;
    (void)err_set(&err, ERR_UNSUPPORTED, "nobody asks for that here");
    (void)rpc_fail(call, &err);
}

static const struct rpc_method methods[] = {
    {.name = "Submit", .request = on_submit},   {.name = "Get", .request = on_get},
    {.name = "List", .request = on_list},       {.name = "Watch", .request = on_other},
    {.name = "Cancel", .request = on_cancel},   {.name = "Checkpoint", .request = on_other},
    {.name = "Set", .request = on_set},         {.name = "Nodes", .request = on_other},
    {.name = "Trace", .request = on_other},     {.name = "Pause", .request = on_pause},
    {.name = "Resume", .request = on_resume},   {.name = "Tables", .request = on_other},
    {.name = "DropNode", .request = on_other},  {.name = "Remove", .request = on_other},
    {.name = "Follow", .request = on_other},    {.name = "Logs", .request = on_other},
    {.name = "DrainNode", .request = on_other},
};

static const void *heard(const char *method)
{
    assert_string_equal(master.method, method);
    return master.heard;
}

static int begin(void **state)
{
    static const char *const variables[] = {"GRADUS_MASTER", "GRADUS_TLS_CERT", "GRADUS_TLS_KEY",
                                            "GRADUS_TLS_CA", "GRADUS_TLS_NAME", "GRADUS_TOKEN_FILE",
                                            "GRADUS_TOKEN"};
    const char *addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 1, .grace_ms = 200};
    struct err err;
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        assert_int_equal(unsetenv(variables[i]), 0);
    }
    rpc_init();
    server = rpc_server_new(&options, &err);
    assert_non_null(server);
    assert_int_equal(rpc_server_add(server, &gradus__v1__jobs__descriptor, methods,
                                    sizeof methods / sizeof methods[0], NULL, &err),
                     0);
    assert_int_equal(rpc_server_start(server, &err), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rpc_server_free(server);
    if (master.heard != NULL) {
        protobuf_c_message_free_unpacked(master.heard, NULL);
    }
    rpc_shutdown();
    return 0;
}

static int setup(void **state)
{
    static struct gradus_client *c;
    const struct gradus_client_options o = {
        .size = sizeof o, .master = rpc_server_address(server, 0), .timeout_ms = 60000};
    assert_int_equal(gradus_client_open(&o, &c), GRADUS_CLIENT_OK);
    master.refuses = 0;
    master.looks = 0;
    master.ends_at = UINT32_MAX;
    (void)strcpy(master.checkpoint, "/c/j-1/step-000000012");
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    gradus_client_close(*state);
    return 0;
}

/* ---- opening ---- */

static void test_what_cannot_be_opened(void **state)
{
    (void)state;
    struct gradus_client *c = (struct gradus_client *)(uintptr_t)1;
    struct gradus_client_options o = {.size = sizeof o.size - 1};
    assert_int_equal(gradus_client_open(&o, NULL), GRADUS_CLIENT_INVALID);
    assert_string_equal(gradus_client_error(NULL), "there is no place for the client");
    assert_int_equal(gradus_client_open(&o, &c), GRADUS_CLIENT_INVALID);
    assert_string_equal(gradus_client_error(NULL),
                        "options.size is not sizeof(struct gradus_client_options)");
    o = (struct gradus_client_options){.size = sizeof o, .tls_cert = "c", .tls_key = "k"};
    assert_int_equal(gradus_client_open(&o, &c), GRADUS_CLIENT_INVALID);
    assert_null(c);
    assert_string_not_equal(gradus_client_error(NULL), "");
    assert_int_equal(gradus_client_abi(), GRADUS_CLIENT_ABI);
    gradus_client_close(NULL);
}

/* What is not given comes from the environment; what is behind an older struct is not looked at. */
static void test_where_the_master_is(void **state)
{
    (void)state;
    struct gradus_client *c = NULL;
    struct gradus_job_status job;
    assert_int_equal(setenv("GRADUS_MASTER", rpc_server_address(server, 0), 1), 0);
    assert_int_equal(gradus_client_open(NULL, &c), GRADUS_CLIENT_OK);
    assert_string_equal(gradus_client_error(NULL), "");
    /* with 5 s for each call, which no option changes here */
    wait_until(gradus_client_job(c, "j-1", &job) == GRADUS_CLIENT_OK);
    gradus_client_close(c);
    struct gradus_client_options o = {.size = offsetof(struct gradus_client_options, tls_cert),
                                      .master = rpc_server_address(server, 0),
                                      .tls_cert = "/nowhere"};
    assert_int_equal(setenv("GRADUS_MASTER", "127.0.0.1:1", 1), 0); /* what is given goes before */
    assert_int_equal(gradus_client_open(&o, &c), GRADUS_CLIENT_OK);
    wait_until(gradus_client_job(c, "j-1", &job) == GRADUS_CLIENT_OK);
    gradus_client_close(c);
    o = (struct gradus_client_options){.size = sizeof o, .timeout_ms = 1};
    assert_int_equal(gradus_client_open(&o, &c), GRADUS_CLIENT_OK);
    assert_int_equal(gradus_client_job(c, "j-1", &job), GRADUS_CLIENT_UNREACHABLE);
    assert_non_null(strstr(gradus_client_error(c), "127.0.0.1:1"));
    gradus_client_close(c);
    assert_int_equal(unsetenv("GRADUS_MASTER"), 0);
}

/* ---- calls ---- */

static void test_submissions(void **state)
{
    struct gradus_client *c = *state;
    static const char *const sets[] = {"training.epochs=3", "training.seed=4"};
    char job[GRADUS_JOB_ID_BYTES] = "";
    struct gradus_submission s = {.size = sizeof s, .text = "name: j"};
    assert_int_equal(gradus_client_submit(c, &s, job), GRADUS_CLIENT_OK);
    assert_string_equal(job, "j-7");
    const Gradus__V1__SubmitRequest *q = heard("Submit");
    assert_string_equal(q->text, "name: j");
    assert_string_equal(q->file, "job.yaml");
    assert_string_equal(q->request_id, "");
    assert_int_equal(q->n_sets, 0);
    s.name = "mine.yaml";
    s.request_id = "r-1";
    s.sets = sets;
    s.set_count = 2;
    assert_int_equal(gradus_client_submit(c, &s, job), GRADUS_CLIENT_OK);
    q = heard("Submit");
    assert_string_equal(q->file, "mine.yaml");
    assert_string_equal(q->request_id, "r-1");
    assert_int_equal(q->n_sets, 2);
    assert_string_equal(q->sets[0], sets[0]);
    assert_string_equal(q->sets[1], sets[1]);
    s.sets = NULL;
    assert_int_equal(gradus_client_submit(c, &s, job), GRADUS_CLIENT_INVALID);
    assert_string_equal(gradus_client_error(c), "the submission has no sets, but their number");
    s = (struct gradus_submission){.size = sizeof s};
    assert_int_equal(gradus_client_submit(c, &s, job), GRADUS_CLIENT_INVALID);
    assert_string_equal(gradus_client_error(c), "the submission has no text");
    assert_int_equal(gradus_client_submit(c, NULL, job), GRADUS_CLIENT_INVALID);
    s = (struct gradus_submission){.size = sizeof s, .text = "x"};
    (void)strcpy(job, "as it was");
    master.refuses = ERR_INVALID;
    assert_int_equal(gradus_client_submit(c, &s, job), GRADUS_CLIENT_INVALID);
    assert_string_equal(job, "as it was");
}

static void assert_shown(const struct gradus_job_status *j, const char *id)
{
    assert_int_equal(j->size, sizeof *j);
    assert_string_equal(j->id, id);
    assert_string_equal(j->name, "jay");
    assert_string_equal(j->owner, "ann");
    assert_int_equal(j->state, GRADUS_JOB_RUNNING);
    assert_string_equal(j->state_name, "RUNNING");
    assert_string_equal(j->reason, "because");
    assert_string_equal(j->activity, "waits");
    assert_string_equal(j->checkpoint, "/c/j-1/step-000000012");
    assert_true(j->steps == 11 && j->steps_total == 12);
    assert_true(j->epochs == 1.5 && j->epochs_total == 2.5);
    assert_true(j->examples == 13 && j->recoveries == 14);
    assert_true(j->examples_per_second == 15.5 && j->seconds == 16.5 && j->eta_seconds == 17.5);
    assert_true(j->submitted_ms == 18 && j->started_ms == 19 && j->finished_ms == 20);
    assert_int_equal(j->train_count, 1);
    assert_string_equal(j->train[0].name, "loss");
    assert_true(j->train[0].value == 0.5);
    assert_int_equal(j->test_count, 2);
    assert_string_equal(j->test[1].name, "accuracy");
    assert_true(j->test[0].value == 0.25 && j->test[1].value == 0.75);
}

static int count_two(void *ctx, const struct gradus_job_status *job)
{
    unsigned *calls = ctx;
    assert_shown(job, ++*calls == 1 ? "j-1" : "j-2");
    return 0;
}

static int stop(void *ctx, const struct gradus_job_status *job)
{
    unsigned *calls = ctx;
    (void)job;
    ++*calls;
    return 1;
}

static void test_jobs(void **state)
{
    struct gradus_client *c = *state;
    struct gradus_job_status job;
    unsigned calls = 0;
    for (unsigned i = 0; i < 2; i++) { /* the one before is given back */
        assert_int_equal(gradus_client_job(c, "j-1", &job), GRADUS_CLIENT_OK);
        assert_string_equal(((const Gradus__V1__GetJobRequest *)heard("Get"))->job, "j-1");
        assert_shown(&job, "j-1");
    }
    assert_int_equal(gradus_client_list(c, NULL, 0, count_two, &calls), GRADUS_CLIENT_OK);
    assert_int_equal(calls, 2);
    const Gradus__V1__ListJobsRequest *q = heard("List");
    assert_string_equal(q->owner, "");
    assert_int_equal(q->limit, 0);
    calls = 0;
    assert_int_equal(gradus_client_list(c, "ann", 7, stop, &calls), GRADUS_CLIENT_STOPPED);
    assert_int_equal(calls, 1);
    q = heard("List");
    assert_string_equal(q->owner, "ann");
    assert_int_equal(q->limit, 7);
    master.refuses = ERR_PERMISSION;
    assert_int_equal(gradus_client_list(c, NULL, 0, stop, &calls), GRADUS_CLIENT_DENIED);
    assert_int_equal(calls, 1);
}

static void test_orders(void **state)
{
    struct gradus_client *c = *state;
    static const char *const sets[] = {"priority=5"};
    assert_int_equal(gradus_client_cancel(c, "j-1", 0), GRADUS_CLIENT_OK);
    const Gradus__V1__CancelRequest *q = heard("Cancel");
    assert_string_equal(q->job, "j-1");
    assert_false(q->now);
    assert_int_equal(gradus_client_cancel(c, "j-1", 2), GRADUS_CLIENT_OK);
    assert_int_equal(((const Gradus__V1__CancelRequest *)heard("Cancel"))->now, 1);
    assert_int_equal(gradus_client_pause(c, "j-1"), GRADUS_CLIENT_OK);
    assert_string_equal(((const Gradus__V1__GetJobRequest *)heard("Pause"))->job, "j-1");
    assert_int_equal(gradus_client_resume(c, "j-2"), GRADUS_CLIENT_OK);
    assert_string_equal(((const Gradus__V1__ResumeRequest *)heard("Resume"))->job, "j-2");
    assert_int_equal(gradus_client_resume_set(c, "j-3", sets, 1), GRADUS_CLIENT_OK);
    const Gradus__V1__ResumeRequest *resume = heard("Resume");
    assert_string_equal(resume->job, "j-3");
    assert_int_equal(resume->n_sets, 1);
    assert_string_equal(resume->sets[0], "priority=5");
    assert_int_equal(gradus_client_set(c, "j-1", sets, 1), GRADUS_CLIENT_OK);
    const Gradus__V1__SetJobRequest *set = heard("Set");
    assert_string_equal(set->job, "j-1");
    assert_int_equal(set->n_sets, 1);
    assert_string_equal(set->sets[0], "priority=5");
    struct gradus_job_status job;
    static const char *const names[] = {NULL, ""};
    for (size_t i = 0; i < 2; i++) { /* nothing is sent */
        assert_int_equal(gradus_client_cancel(c, names[i], 0), GRADUS_CLIENT_INVALID);
        assert_int_equal(gradus_client_pause(c, names[i]), GRADUS_CLIENT_INVALID);
        assert_int_equal(gradus_client_resume(c, names[i]), GRADUS_CLIENT_INVALID);
        assert_int_equal(gradus_client_resume_set(c, names[i], sets, 1), GRADUS_CLIENT_INVALID);
        assert_int_equal(gradus_client_set(c, names[i], sets, 1), GRADUS_CLIENT_INVALID);
        assert_int_equal(gradus_client_job(c, names[i], &job), GRADUS_CLIENT_INVALID);
        assert_string_equal(gradus_client_error(c), "no job is named");
    }
    (void)heard("Set");
}

static void test_what_a_master_refuses(void **state)
{
    struct gradus_client *c = *state;
    static const struct {
        int code, status;
    } cases[] = {
        {ERR_INVALID, GRADUS_CLIENT_INVALID},     {ERR_RANGE, GRADUS_CLIENT_INVALID},
        {ERR_UNSUPPORTED, GRADUS_CLIENT_INVALID}, {ERR_NOT_FOUND, GRADUS_CLIENT_NOT_FOUND},
        {ERR_PERMISSION, GRADUS_CLIENT_DENIED},   {ERR_UNAUTHENTICATED, GRADUS_CLIENT_DENIED},
        {ERR_STATE, GRADUS_CLIENT_STATE},         {ERR_EXHAUSTED, GRADUS_CLIENT_FAILED},
        {ERR_INTERNAL, GRADUS_CLIENT_FAILED},     {ERR_UNAVAILABLE, GRADUS_CLIENT_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        master.refuses = cases[i].code;
        assert_int_equal(gradus_client_pause(c, "j-1"), cases[i].status);
        assert_non_null(strstr(gradus_client_error(c), "as told"));
    }
}

/* ---- following ---- */

struct watched {
    unsigned calls;
    int last;
};

static int watch(void *ctx, const struct gradus_job_status *job)
{
    struct watched *w = ctx;
    w->calls++;
    w->last = job->state;
    return 0;
}

/* Called when something has changed, at the beginning and at the end. */
static void test_watching(void **state)
{
    struct gradus_client *c = *state;
    struct watched w = {0};
    unsigned calls = 0;
    master.ends_at = 3;
    assert_int_equal(gradus_client_watch(c, "j-1", watch, &w), GRADUS_CLIENT_OK);
    assert_int_equal(master.looks, 3);
    assert_int_equal(w.calls, 2);
    assert_int_equal(w.last, GRADUS_JOB_SUCCEEDED);
    assert_int_equal(gradus_client_watch(c, "j-1", NULL, NULL), GRADUS_CLIENT_OK);
    master.looks = 0;
    assert_int_equal(gradus_client_watch(c, "j-1", stop, &calls), GRADUS_CLIENT_STOPPED);
    assert_int_equal(calls, 1);
    assert_int_equal(master.looks, 1);
    master.refuses = ERR_NOT_FOUND;
    assert_int_equal(gradus_client_watch(c, "j-1", stop, &calls), GRADUS_CLIENT_NOT_FOUND);
    assert_int_equal(calls, 1);
}

/* ---- values ---- */

static int show(void *ctx, const struct gradus_values *v)
{
    unsigned *calls = ctx;
    assert_int_equal(v->size, sizeof *v);
    assert_string_equal(v->name, *calls == 0 ? "dense_1.kernel" : "dense_1.bias");
    assert_int_equal(v->rank, *calls == 0 ? 2 : 1);
    assert_int_equal(v->dims[v->rank - 1], 3);
    assert_int_equal(v->count, *calls == 0 ? 6 : 3);
    assert_int_equal(v->step, 5);
    for (uint64_t i = 0; i < v->count; i++) {
        assert_true(v->values[i] == saved_rig_value(*calls, i));
    }
    ++*calls;
    return 0;
}

static int show_one(void *ctx, const struct gradus_values *v)
{
    unsigned *calls = ctx;
    (void)v;
    ++*calls;
    return 1;
}

static void test_values(void **state)
{
    struct gradus_client *c = *state;
    void *rig = NULL;
    unsigned calls = 0;
    assert_int_equal(saved_rig_setup(&rig), 0);
    struct saved_rig *r = rig;
    saved_rig_file(r, "train", "a,b,kind\n1,10,x\n3,30,y\n5,50,z\n");
    char *job =
        saved_rig_job(r, "csv", ", label: kind",
                      "layers: [{dense: {units: 3}}], loss: softmax_cross_entropy", ", rule: sgd");
    char *path = saved_rig_checkpoint(r, job, 5, 0);
    (void)snprintf(master.checkpoint, sizeof master.checkpoint, "%s", path);
    assert_int_equal(gradus_client_values(c, "j-1", show, &calls), GRADUS_CLIENT_OK);
    assert_int_equal(calls, 2);
    calls = 0;
    assert_int_equal(gradus_client_values(c, "j-1", show_one, &calls), GRADUS_CLIENT_STOPPED);
    assert_int_equal(calls, 1);
    char *shard = file_join(path, "shard-1-of-2.safetensors");
    FILE *f = fopen(shard, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    assert_int_equal(fputc(0x55, f), 0x55);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(gradus_client_values(c, "j-1", show, &calls), GRADUS_CLIENT_FAILED);
    assert_non_null(strstr(gradus_client_error(c), "shard-1-of-2"));
    (void)strcpy(master.checkpoint, "/nowhere/step-000000001");
    assert_int_equal(gradus_client_values(c, "j-1", show, &calls), GRADUS_CLIENT_NOT_FOUND);
    master.checkpoint[0] = '\0';
    assert_int_equal(gradus_client_values(c, "j-1", show, &calls), GRADUS_CLIENT_NOT_FOUND);
    assert_string_equal(gradus_client_error(c), "job j-1 has no checkpoint yet");
    assert_int_equal(gradus_client_values(c, "", show, &calls), GRADUS_CLIENT_INVALID);
    assert_int_equal(calls, 1);
    free(shard);
    free(path);
    free(job);
    assert_int_equal(saved_rig_teardown(&rig), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_what_cannot_be_opened),
        TEST(test_where_the_master_is),
        TEST(test_submissions),
        TEST(test_jobs),
        TEST(test_orders),
        TEST(test_what_a_master_refuses),
        TEST(test_watching),
        TEST(test_values),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
