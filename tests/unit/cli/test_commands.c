/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, as people call them: the real program, against a master of this test that repeats
 * what it was asked, and on a machine of its own. What goes to the master, what is printed where,
 * and the exit code. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "rpc/rpc.h"

static char *home, address[64];
static char *program;
static struct rpc_server *server;
static struct buf out, err_out; /* of the last command */

static const char JOB_FILE[] = "name: tiny\n"
                               "data: {train: {file: train.csv}, test: {file: test.csv}}\n"
                               "model:\n  layers:\n    - dense: {units: 2}\n"
                               "  loss: softmax_cross_entropy\n"
                               "update: {rule: sgd, learning_rate: 0.1, average: 0.5}\n"
                               "training: {batch_size: 8, epochs: 2, seed: 3}\n"
                               "cluster: {workers: 1, ps: 1}\n";

/* ---- the master ---- */

static struct {
    pthread_mutex_t lock; /* guards what follows */
    char method[16];      /* of the last call but Nodes, of which every one is the same */
    ProtobufCMessage *heard;
    int32_t state; /* that jobs are in */
    size_t watches, nodes, workers, calls;
    bool evaluates;  /* the job that is watched has been evaluated at two steps */
    bool traces;     /* it has something to say about steps */
    int breaks;      /* what the next watch ends with, after a message; 0: nothing */
    bool interrupts; /* in the middle of a watch somebody presses Ctrl-C */
    char request_ids[2][64];
} master = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char ID[] = "digits-7", NAME[] = "digits", TEXT[sizeof JOB_FILE], REASON[] = "as told",
            CHANGED[sizeof JOB_FILE + 64], PATH[] = "/c/digits-7/step-000000012";

static void hear(const char *method, struct rpc_msg *msg)
{
    uint8_t *bytes = mem_new(protobuf_c_message_get_packed_size(msg->body) + 1, 1);
    size_t n = protobuf_c_message_pack(msg->body, bytes);
    pthread_mutex_lock(&master.lock);
    if (master.heard != NULL) {
        protobuf_c_message_free_unpacked(master.heard, NULL);
    }
    (void)snprintf(master.method, sizeof master.method, "%s", method);
    master.heard = protobuf_c_message_unpack(msg->body->descriptor, NULL, n, bytes);
    master.calls++;
    pthread_mutex_unlock(&master.lock);
    free(bytes);
}

static bool is_known(struct rpc_call *call, const char *job)
{
    if (strcmp(job, ID) == 0) {
        return true;
    }
    struct err err;
    (void)err_set(&err, ERR_NOT_FOUND, "no job %s", job);
    (void)rpc_fail(call, &err);
    return false;
}

static Gradus__V1__Job a_job(void)
{
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    job.id = ID;
    job.name = NAME;
    job.text = TEXT;
    job.reason = REASON;
    job.state = (Gradus__V1__JobState)master.state;
    job.step = 12;
    job.steps_total = 34;
    job.generation = 5;
    return job;
}

static void on_submit(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Submit", msg);
    const char *id = ((const Gradus__V1__SubmitRequest *)msg->body)->request_id;
    pthread_mutex_lock(&master.lock);
    memcpy(master.request_ids[1], master.request_ids[0], sizeof master.request_ids[0]);
    (void)snprintf(master.request_ids[0], sizeof master.request_ids[0], "%s", id);
    pthread_mutex_unlock(&master.lock);
    Gradus__V1__SubmitResponse r = GRADUS__V1__SUBMIT_RESPONSE__INIT;
    r.job = ID;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_get(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    Gradus__V1__Job job = a_job();
    if (is_known(call, ((const Gradus__V1__GetJobRequest *)msg->body)->job)) {
        (void)rpc_reply(call, &job.base, NULL);
    }
}

static void on_list(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("List", msg);
    Gradus__V1__Job job = a_job(), *jobs[] = {&job};
    Gradus__V1__ListJobsResponse r = GRADUS__V1__LIST_JOBS_RESPONSE__INIT;
    r.jobs = jobs;
    r.n_jobs = 1;
    (void)rpc_reply(call, &r.base, NULL);
}

/* Ctrl-C for the command that runs. */
static void interrupt(void)
{
    struct buf pid = {0};
    char *path = file_join(home, "pid");
    assert_int_equal(file_read(path, 64, &pid, NULL), 0);
    assert_int_equal(kill((pid_t)strtol(buf_str(&pid), NULL, 10), SIGINT), 0);
    buf_release(&pid);
    free(path);
}

/* RUNNING, then at once what it is told. */
static void on_watch(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    Gradus__V1__Job job = a_job();
    if (!is_known(call, ((const Gradus__V1__GetJobRequest *)msg->body)->job)) {
        return;
    }
    job.state = GRADUS__V1__JOB_STATE__RUNNING;
    (void)rpc_send(call, &job.base, NULL);
    master.watches++;
    if (master.breaks != 0) {
        struct err err;
        (void)err_set(&err, master.breaks, "not now");
        master.breaks = 0;
        (void)rpc_fail(call, &err);
        return;
    }
    if (master.interrupts) {
        interrupt();
        return;
    }
    Gradus__V1__Evaluation evaluations[2], *list[2] = {&evaluations[0], &evaluations[1]};
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__evaluation__init(&evaluations[i]);
        evaluations[i].step = 5 * (i + 1);
        evaluations[i].epoch = 0.5 * (double)(i + 1);
    }
    char loss[] = "loss";
    Gradus__V1__MetricValue train = GRADUS__V1__METRIC_VALUE__INIT, *values[] = {&train};
    train.name = loss;
    train.value = 0.25;
    job.evaluations = list;
    if (master.evaluates) {
        job.n_evaluations = 1;
        (void)rpc_send(call, &job.base, NULL); /* what workers report of it comes later */
        evaluations[0].train = values;
        evaluations[0].n_train = 1;
        job.n_evaluations = 2;
    }
    job.state = (Gradus__V1__JobState)master.state;
    (void)rpc_send(call, &job.base, NULL);
    (void)rpc_finish(call);
}

static void on_cancel(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Cancel", msg);
    Gradus__V1__Job job = a_job();
    (void)rpc_reply(call, &job.base, NULL);
}

static void on_checkpoint(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Checkpoint", msg);
    Gradus__V1__CheckpointJobResponse r = GRADUS__V1__CHECKPOINT_JOB_RESPONSE__INIT;
    r.path = PATH;
    r.step = 12;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_set(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Set", msg);
    Gradus__V1__Job job = a_job();
    job.text = CHANGED;
    job.generation = 6;
    (void)rpc_reply(call, &job.base, NULL);
}

static void on_nodes(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    (void)msg;
    char id[] = "worker-3", host[] = "h", at[] = "a:1", version[] = "9";
    Gradus__V1__NodeInfo node = GRADUS__V1__NODE_INFO__INIT, *nodes[] = {&node};
    Gradus__V1__NodesResponse r = GRADUS__V1__NODES_RESPONSE__INIT;
    node.id = id;
    node.host = host;
    node.address = at;
    node.http_address = at;
    node.version = version;
    node.role = GRADUS__V1__NODE_ROLE__WORKER;
    node.alive = true;
    r.nodes = nodes;
    r.n_nodes = master.workers;
    master.nodes++;
    (void)rpc_reply(call, &r.base, NULL);
}

/* One worker of two steps, one that did too much in three, a server, and one that is gone. */
static void reply_trace(struct rpc_call *call)
{
    char ids[][16] = {"worker-3", "worker-4", "ps-1", "ps-2"}, none[] = "", problem[] = "no room";
    Gradus__V1__TraceResponse traces[4];
    Gradus__V1__NodeTrace nodes[4], *list[4];
    Gradus__V1__TraceJobResponse r = GRADUS__V1__TRACE_JOB_RESPONSE__INIT;
    for (size_t i = 0; i < 4; i++) {
        gradus__v1__trace_response__init(&traces[i]);
        gradus__v1__node_trace__init(&nodes[i]);
        nodes[i].node = ids[i];
        nodes[i].host = none;
        nodes[i].role = i < 2 ? GRADUS__V1__NODE_ROLE__WORKER : GRADUS__V1__NODE_ROLE__PS;
        nodes[i].trace = i < 3 ? &traces[i] : NULL;
        nodes[i].problem = i < 3 ? none : problem;
        traces[i].steps = i < 2 ? 2 + (uint32_t)i : 0;
        list[i] = &nodes[i];
    }
    traces[1].lost = 17;
    r.job = ID;
    r.nodes = list;
    r.n_nodes = 4;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_trace(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Trace", msg);
    if (master.traces) {
        reply_trace(call);
        return;
    }
    struct err err;
    (void)err_set(&err, ERR_STATE, "it does not run");
    (void)rpc_fail(call, &err);
}

static const struct rpc_method METHODS[] = {
    {.name = "Submit", .request = on_submit}, {.name = "Get", .request = on_get},
    {.name = "List", .request = on_list},     {.name = "Watch", .request = on_watch},
    {.name = "Cancel", .request = on_cancel}, {.name = "Checkpoint", .request = on_checkpoint},
    {.name = "Set", .request = on_set},       {.name = "Nodes", .request = on_nodes},
    {.name = "Trace", .request = on_trace},
};

/* ---- the machine ---- */

static void put(const char *name, const char *text)
{
    char *path = file_join(home, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    free(path);
}

static int set_up(void **state)
{
    (void)state;
    const char *bin = getenv("GRADUS_BIN_DIR");
    program = file_join(bin == NULL ? "." : bin, "gradus");
    home = tmp_dir_make("commands");
    memcpy(TEXT, JOB_FILE, sizeof TEXT);
    (void)snprintf(CHANGED, sizeof CHANGED, "%s", JOB_FILE);
    char *epochs = strstr(CHANGED, "epochs: 2");
    assert_non_null(epochs);
    epochs[8] = '9';
    put("job.yaml", JOB_FILE);
    put("bad.yaml", "name: tiny\nmodle: 1\n");
    struct buf rows = {0};
    for (int i = 0; i < 32; i++) {
        buf_printf(&rows, "%d.%d,%d,%d\n", i % 2 * 4, i % 7, i % 3, i % 2);
    }
    put("train.csv", buf_str(&rows));
    put("test.csv", buf_str(&rows));
    buf_release(&rows);
    assert_int_equal(setenv("HOME", home, 1), 0);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(unsetenv("GRADUS_MASTER"), 0);
    assert_int_equal(unsetenv("GRADUS_STATE_DIR"), 0);
    rpc_init();
    struct err err;
    const char *addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 1, .grace_ms = 200};
    server = rpc_server_new(&options, &err);
    assert_non_null(server);
    assert_int_equal(rpc_server_add(server, &gradus__v1__jobs__descriptor, METHODS,
                                    sizeof METHODS / sizeof *METHODS, NULL, &err),
                     0);
    assert_int_equal(rpc_server_start(server, &err), 0);
    (void)snprintf(address, sizeof address, "%s", rpc_server_address(server, 0));
    master.state = GRADUS__V1__JOB_STATE__RUNNING;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rpc_server_free(server);
    rpc_shutdown();
    if (master.heard != NULL) {
        protobuf_c_message_free_unpacked(master.heard, NULL);
    }
    buf_release(&out);
    buf_release(&err_out);
    tmp_dir_remove(home);
    free(program);
    return 0;
}

static void read_file(const char *name, struct buf *to)
{
    char *path = file_join(home, name);
    buf_reset(to);
    assert_int_equal(file_read(path, 1U << 24, to, NULL), 0);
    free(path);
}

/* `gradus @words`, in @home; what it prints in `out` and `err_out`. */
static int gradus(const char *words)
{
    if (!file_exists(program)) {
        print_message("skipped: %s is not there\n", program);
        skip();
    }
    char *line =
        mem_printf("cd %s && timeout 120 sh -c 'echo $$ >pid; exec %s %s' >out 2>err </dev/null",
                   home, program, words);
    int status = system(line);
    free(line);
    read_file("out", &out);
    read_file("err", &err_out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(int code, const char *words)
{
    int found = gradus(words);
    if (found != code) {
        fail_msg("gradus %s: exit code %d, not %d\n%s%s", words, found, code, buf_str(&out),
                 buf_str(&err_out));
    }
}

/* The same, with the master's address behind it. */
static void expect_of(int code, const char *words)
{
    char *all = mem_printf("%s --master %s", words, address);
    expect(code, all);
    free(all);
}

static void says(const struct buf *where, const char *what)
{
    if (strstr(buf_str(where), what) == NULL) {
        fail_msg("'%s' is not in:\n%s", what, buf_str(where));
    }
}

static void says_not(const struct buf *where, const char *what)
{
    if (strstr(buf_str(where), what) != NULL) {
        fail_msg("'%s' is in:\n%s", what, buf_str(where));
    }
}

/* What the master heard last. */
static const void *heard(const char *method)
{
    assert_string_equal(master.method, method);
    return master.heard;
}

/* ---- what is asked of a master ---- */

static void test_lists(void **state)
{
    (void)state;
    expect_of(0, "list --limit 3");
    assert_int_equal(((const Gradus__V1__ListJobsRequest *)heard("List"))->limit, 3);
    says(&out, "JOB          STATE");
    says(&out, "digits-7");
    says_not(&out, "--master"); /* it was typed */
    expect_of(0, "list --json");
    assert_int_equal(((const Gradus__V1__ListJobsRequest *)heard("List"))->limit, 100);
    says(&out, "\"job\": \"digits-7\"");
    char *master_is = mem_printf("\"master\": \"%s\"", address);
    says(&out, master_is);
    free(master_is);
    master.workers = 1;
    expect_of(0, "nodes");
    says(&out, "worker-3         WORKER  yes");
    expect_of(0, "nodes --json");
    says(&out, "\"worker-3\"");
    master.workers = 0;
    expect_of(0, "status digits-7");
    says(&out, "job         digits-7\nstate       RUNNING: as told");
    says(&out, "generation  5");
    says_not(&out, "state dir");
    expect_of(0, "status digits-7 --json");
    says(&out, "\"job\": \"digits-7\"");
    expect_of(5, "status nobody-1");
    says(&err_out, "no job nobody-1");
    assert_int_equal(out.len, 0);
}

static void test_cancels(void **state)
{
    (void)state;
    expect_of(0, "cancel digits-7");
    const Gradus__V1__CancelRequest *q = heard("Cancel");
    assert_string_equal(q->job, "digits-7");
    assert_false(q->now);
    says(&out, "job digits-7: RUNNING");
    expect_of(0, "cancel digits-7 --now --json");
    assert_true(((const Gradus__V1__CancelRequest *)heard("Cancel"))->now);
    says(&out, "\"job\": \"digits-7\"");
    size_t calls = master.calls;
    expect_of(5, "cancel nobody-1");
    assert_int_equal(master.calls, calls);
}

static void test_checkpoints(void **state)
{
    (void)state;
    expect_of(0, "checkpoint digits-7");
    assert_string_equal(((const Gradus__V1__GetJobRequest *)heard("Checkpoint"))->job, "digits-7");
    assert_string_equal(buf_str(&out), "/c/digits-7/step-000000012\n");
    expect_of(0, "checkpoint digits-7 --json");
    says(&out, "\"checkpoint\": \"/c/digits-7/step-000000012\"");
    expect_of(1, "trace digits-7");
    assert_string_equal(((const Gradus__V1__TraceJobRequest *)heard("Trace"))->job, "digits-7");
    says(&err_out, "it does not run");
    expect_of(5, "trace nobody-1");
    says(&err_out, "no job nobody-1");
}

static void test_traces(void **state)
{
    (void)state;
    struct buf file = {0};
    master.traces = true;
    expect_of(0, "trace digits-7 --steps 3 --timeout 2s");
    const Gradus__V1__TraceJobRequest *q = heard("Trace");
    assert_int_equal(q->steps, 3);
    assert_int_equal(q->timeout_ms, 2000);
    says(&out, "2 steps of job digits-7 in digits-7.trace.json; open it in");
    says(&err_out, "warning: worker-3 made only 2 of 3 steps");
    says_not(&err_out, "worker-4 made only");
    says(&err_out, "warning: worker-4 did more than could be recorded: 17 spans are missing");
    says(&err_out, "warning: ps-2 is missing: no room");
    says_not(&err_out, "ps-1");
    read_file("digits-7.trace.json", &file);
    says(&file, "\"traceEvents\"");
    says(&file, "worker-4");
    expect_of(0, "trace digits-7 --steps 2 -o other.json --json");
    says(&out, "\"job\": \"digits-7\"");
    says(&out, "\"file\": \"other.json\"");
    says_not(&err_out, "made only");
    read_file("other.json", &file);
    expect_of(5, "trace digits-7 -o nowhere/x.json");
    says(&err_out, "nowhere/x.json");
    master.traces = false;
    buf_release(&file);
}

static void test_sets(void **state)
{
    (void)state;
    master.workers = 1;
    expect_of(0, "set digits-7 training.epochs=9 training.mode=async");
    const Gradus__V1__SetJobRequest *q = heard("Set");
    assert_string_equal(q->job, "digits-7");
    assert_int_equal(q->n_sets, 2);
    assert_string_equal(q->sets[0], "training.epochs=9");
    assert_string_equal(q->sets[1], "training.mode=async");
    says(&out, "training.epochs: 2 -> 9\n");
    says(&out, "job digits-7: RUNNING, generation 6");
    expect_of(0, "set digits-7 training.epochs=9 --json");
    says(&out, "\"training.epochs\"");
    expect_of(2, "set digits-7"); /* nothing to set */
    master.workers = 0;
}

static void test_submits(void **state)
{
    (void)state;
    size_t nodes = master.nodes;
    expect_of(0, "submit job.yaml --set training.epochs=3 --set training.seed=4");
    const Gradus__V1__SubmitRequest *q = heard("Submit");
    assert_string_equal(q->file, "job.yaml");
    assert_string_equal(q->text, JOB_FILE);
    assert_int_equal(q->n_sets, 3);
    assert_string_equal(q->sets[0], "training.epochs=3");
    assert_string_equal(q->sets[1], "training.seed=4");
    char *data = mem_printf("data.dir=%s", home);
    assert_string_equal(q->sets[2], data);
    free(data);
    assert_string_equal(buf_str(&out), "digits-7\n");
    says(&err_out, "the workers look there");
    char *follow = mem_printf("`gradus watch digits-7 --master %s` follows it", address);
    says(&err_out, follow);
    free(follow);
    says(&err_out, "parameter server"); /* the cluster has none */
    assert_int_equal(master.nodes, nodes + 1);
    expect_of(0, "submit job.yaml --json");
    says(&out, "\"job\": \"digits-7\"");
    assert_int_equal(strlen(master.request_ids[0]), 32); /* another one each time */
    assert_int_equal(strlen(master.request_ids[1]), 32);
    assert_string_not_equal(master.request_ids[0], master.request_ids[1]);
    master.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    size_t watches = master.watches;
    expect_of(0, "submit job.yaml --watch");
    assert_int_equal(master.watches, watches + 1);
    says(&err_out, "job digits-7 submitted");
    says(&out, "state       SUCCEEDED");
    master.state = GRADUS__V1__JOB_STATE__RUNNING;
    size_t calls = master.calls;
    expect_of(2, "submit bad.yaml");
    expect_of(5, "submit missing.yaml");
    assert_int_equal(master.calls, calls);
}

static void test_watches(void **state)
{
    (void)state;
    static const struct {
        int32_t state;
        int code;
        const char *says;
    } ENDS[] = {{GRADUS__V1__JOB_STATE__SUCCEEDED, 0, "state       SUCCEEDED"},
                {GRADUS__V1__JOB_STATE__FAILED, 1, "state       FAILED: as told"},
                {GRADUS__V1__JOB_STATE__CANCELLED, 3, "state       CANCELLED: as told"}};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        master.state = ENDS[i].state;
        expect_of(ENDS[i].code, "watch digits-7");
        says(&out, ENDS[i].says);
        expect_of(ENDS[i].code, "watch digits-7 --json");
        says(&out, "\"job\": \"digits-7\"");
    }
    master.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    master.evaluates = true; /* each is told once */
    expect_of(0, "watch digits-7");
    const char *told = "epoch   0.50  step       5  train  loss 0.2500\n"
                       "epoch   1.00  step      10\n";
    says(&err_out, told); /* a line of progress may come before, where time went by */
    assert_null(strstr(strstr(buf_str(&err_out), told) + 1, "epoch   0.50"));
    master.evaluates = false;
    size_t watches = master.watches;
    master.breaks = ERR_UNAVAILABLE; /* a master that starts again */
    expect_of(0, "watch digits-7");
    assert_int_equal(master.watches, watches + 2);
    says(&err_out, "no word from the master; trying again for ");
    says(&err_out, ": not now");
    master.breaks = ERR_PERMISSION; /* that will not pass */
    expect_of(1, "watch digits-7");
    says(&err_out, ": not now");
    says_not(&err_out, "trying again");
    size_t calls = master.calls;
    master.interrupts = true;
    expect_of(130, "watch digits-7"); /* it only looks */
    char *again = mem_printf("job digits-7 goes on; `gradus watch digits-7 --master %s` watches it "
                             "again, `gradus cancel digits-7 --master %s` stops it\n",
                             address, address);
    says(&err_out, again);
    assert_int_equal(master.calls, calls);
    master.interrupts = false;
    free(again);
    expect_of(5, "watch nobody-1");
    master.state = GRADUS__V1__JOB_STATE__RUNNING;
}

static void test_environment(void **state)
{
    (void)state;
    assert_int_equal(setenv("GRADUS_MASTER", address, 1), 0);
    expect(0, "cancel digits-7");
    expect(0, "submit job.yaml");
    says(&err_out, "`gradus watch digits-7` follows it"); /* the environment says where */
    expect(5, "status digits-7 --state-dir nowhere");     /* what is typed goes before */
    assert_int_equal(unsetenv("GRADUS_MASTER"), 0);
    expect(4, "status digits-7 --master 127.0.0.1:1");
    says(&err_out, "cannot be reached at 127.0.0.1:1");
}

/* ---- without a master ---- */

static void test_words(void **state)
{
    (void)state;
    expect(2, "");
    says(&err_out, "Usage: gradus COMMAND");
    expect(0, "--help");
    says(&out, "  submit      Send a job to a master and print its id\n");
    says(&out, "Exit codes: 0 done");
    expect(0, "help list");
    says(&out, "Usage: gradus list [FLAGS]");
    says(&out, "Examples:\n  gradus list\n");
    expect(2, "help lst");
    expect(2, "lst");
    says(&err_out, "unknown command lst; did you mean `gradus list`?");
    expect(2, "somethingelse");
    says(&err_out, "`gradus --help` lists them");
    expect(2, "list extra");
    says(&err_out, "unexpected argument 'extra'");
    says(&err_out, "`gradus list --help` tells more.");
    expect(2, "list --limit 0");
    expect(0, "--version");
    assert_string_equal(buf_str(&out), "gradus " GRADUS_VERSION "\n");
    expect(0, "list --version");
    assert_string_equal(buf_str(&out), "gradus " GRADUS_VERSION "\n");
    expect(0, "version --json");
    says(&out, "\"version\": \"" GRADUS_VERSION "\"");
}

static void test_validates(void **state)
{
    (void)state;
    expect(0, "validate job.yaml");
    says(&out, "job.yaml is valid and fits its data");
    expect(0, "validate job.yaml --json");
    says(&out, "\"status\": \"valid\"");
    says(&out, "\"checked_against\": \"data\"");
    expect(2, "validate job.yaml --set training.epoch=3");
    says(&err_out, "did you mean 'epochs'?");
    expect(2, "validate bad.yaml --json");
    says(&out, "\"status\": \"invalid\"");
    says(&out, "\"line\": 2");
    expect(0, "validate job.yaml --set data.dir=/nowhere");
    says_not(&out, "fits its data");
    expect(0, "plan job.yaml");
    says(&out, "dense_1.kernel");
    expect(0, "plan job.yaml --json");
    says(&out, "\"elements\": 6");
    expect(0, "schema --json");
    says(&out, "\"$schema\"");
    expect(0, "schema --markdown");
    says(&out, "# ");
    expect(0, "schema");
    says(&out, "training.epochs");
}

static void test_rules(void **state)
{
    (void)state;
    expect(0, "rules");
    says(&out, "RULE               BYTES  WHAT IT DOES; SLOTS\nsgd                    4  ");
    says(&out, "Gradient descent with momentum, heavy-ball or Nesterov; momentum\n");
    says(&out, "squares (per row)\n");
    says_not(&out, "plug-in: ");
    expect(0, "rules momentum");
    says(&out, "momentum: Gradient descent with momentum, heavy-ball or Nesterov\n"
               "  slots: momentum\n  bytes per parameter: 8\n"
               "  table rows: lazy, catch_up, dense\n\n  learning_rate\n      Step length");
    says(&out, "      number from 0 to 1; default 0.9\n");
    expect(0, "rules adafactor");
    says(&out, "  slots: row (per row), column (per column)\n");
    says(&out, "  table rows: none\n");
    expect(0, "rules sgd");
    says(&out, "  slots: none\n");
    says(&out, "  table rows: exact\n");
    expect(0, "rules momentum --json");
    assert_ptr_equal(strstr(buf_str(&out), "[\n  {\n    \"name\": \"momentum\""),
                     buf_str(&out)); /* alone */
    says(&out, "\"help\": \"Gradient descent with momentum, heavy-ball or Nesterov\"");
    says(&out, "\"default\": 0.9,\n        \"min\": 0.0,\n        \"max\": 1.0,\n"
               "        \"help\": \"Share of the momentum");
    says(&out, "\"default\": false,\n        \"min\": null,\n        \"max\": null,\n");
    says(&out, "\"slots\": [\n      \"momentum\"\n    ]");
    says(&out, "\"bytes_per_parameter\": 8");
    says(&out, "\"catch_up\"");
    says_not(&out, "\"choices\"");
    says_not(&out, "\"file\"");
    expect(0, "rules ftrl --json");
    says(&out, "\"choices\": [");
    expect(0, "rules --json");
    says(&out, "\"name\": \"sgd\"");
    says(&out, "\"slots_per\": [\n      \"row\",\n      \"column\"\n    ]");
    expect(0, "rules --markdown");
    says(&out, "| [adafactor](#adafactor) | 4 | `row` (per row), `column` (per column) | none | ");
    says(&out, "\n## momentum\n\nGradient descent with momentum, heavy-ball or Nesterov.\n\n"
               "| Key | Value | Default | Meaning |\n|---|---|---|---|\n"
               "| `learning_rate` | number from 0 to 1000000 | `0.01` | Step length");
    says(&out, "\n## Schedules\n");
    expect(5, "rules sdg");
    says(&err_out, "no rule sdg; did you mean sgd?");
    expect(5, "rules qqqqqq");
    says(&err_out, "no rule qqqqqq; `gradus rules` lists them");
}

static void test_generates(void **state)
{
    (void)state;
    expect(2, "generate digits");
    says(&err_out, "--out DIR is missing");
    expect(2, "generate letters --out d");
    says(&err_out, "unknown data set letters");
    expect(0, "generate digits --out d/e --train 7 --test 5 --seed 2");
    says(&out, "7 train and 5 test images");
    struct buf images = {0};
    read_file("d/e/t10k-images-idx3-ubyte.gz", &images);
    assert_true(images.len > 0);
    buf_release(&images);
}

/* A job of a second, and what is left of it. */
static void test_runs(void **state)
{
    (void)state;
    expect(0, "run job.yaml");
    says(&out, "job         tiny-1\nstate       SUCCEEDED\ntrained     8 steps, 2 epochs");
    says(&err_out, "job tiny-1: 1 master, 1 parameter server, 1 worker");
    expect(0, "list");
    says(&out, "(no master runs there now)");
    says(&out, "tiny-1");
    expect(0, "list --json");
    says(&out, "\"state_dir\": ");
    expect(0, "status tiny-1");
    says(&out, "state       SUCCEEDED");
    says(&out, "(no master runs there now)");
    expect(0, "watch tiny-1");
    says(&out, "state       SUCCEEDED");
    expect(1, "cancel tiny-1");
    says(&err_out, "no master runs in");
    expect(0, "evaluate tiny-1");
    says(&out, "examples    32\n");
    expect(0, "evaluate tiny-1 --on train --json");
    says(&out, "\"data\": \"train\"");
    says(&out, "\"examples\": 32");
    expect(0, "export tiny-1 out.safetensors");
    says(&out, "out.safetensors written from ");
    expect(0, "export --average tiny-1 average.safetensors --json");
    says(&out, "\"file\": \"average.safetensors\"");
    struct buf a = {0}, b = {0};
    read_file("out.safetensors", &a);
    read_file("average.safetensors", &b);
    assert_true(a.len > 0 && a.len == b.len && memcmp(a.data, b.data, a.len) != 0);
    buf_release(&a);
    buf_release(&b);
    expect(2, "export tiny-1");
    says(&err_out, "give the job and the file to write");
    expect(2, "export --from x tiny-1 out.safetensors");
    says(&err_out, "with --from give OUT alone");
    expect(0, "run job.yaml --json");
    says(&out, "\"job\": \"tiny-2\"");
    expect(2, "run bad.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),       cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_checkpoints), cmocka_unit_test(test_sets),
        cmocka_unit_test(test_submits),     cmocka_unit_test(test_watches),
        cmocka_unit_test(test_environment), cmocka_unit_test(test_words),
        cmocka_unit_test(test_validates),   cmocka_unit_test(test_generates),
        cmocka_unit_test(test_rules),       cmocka_unit_test(test_traces),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests_name("commands", tests, set_up, tear_down);
}
