/* SPDX-License-Identifier: Apache-2.0 */
/* The master of the tests of commands, and the program that is run against it. */
#include "commands_rig.h"

char *home, address[64];
static char *program;
struct rpc_server *server;
struct buf out, err_out; /* of the last command */
const char JOB_FILE[] = "name: tiny\n"
                        "data: {train: {file: train.csv}, test: {file: test.csv}}\n"
                        "model:\n  layers:\n    - dense: {units: 2}\n"
                        "  loss: softmax_cross_entropy\n"
                        "update: {rule: sgd, learning_rate: 0.1, average: 0.5}\n"
                        "training: {batch_size: 8, epochs: 2, seed: 3}\n"
                        "cluster: {workers: 1, ps: 1}\n";

struct master_state master = {.lock = PTHREAD_MUTEX_INITIALIZER};
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
    r.more = master.lists_more;
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

static bool is_refused(struct rpc_call *call)
{
    struct err err;
    if (master.refuses == 0) {
        return false;
    }
    (void)err_set(&err, master.refuses, "the disk is full");
    master.refuses = 0;
    (void)rpc_fail(call, &err);
    return true;
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
        (void)err_set(&err, master.breaks, "not now\x1b[31m");
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
    if (!is_refused(call)) {
        (void)rpc_reply(call, &job.base, NULL);
    }
}

static void on_pause(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Pause", msg);
    Gradus__V1__Job job = a_job();
    if (!is_refused(call)) {
        (void)rpc_reply(call, &job.base, NULL);
    }
}

static void on_resume(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Resume", msg);
    Gradus__V1__Job job = a_job();
    if (!is_refused(call)) {
        (void)rpc_reply(call, &job.base, NULL);
    }
}

static void on_checkpoint(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Checkpoint", msg);
    if (master.interrupts) {
        interrupt();
        return;
    }
    if (is_refused(call)) {
        return;
    }
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
    char id[] = "worker-3", host[] = "h", at[] = "a:1", version[] = "9", why[] = "a backup joins";
    Gradus__V1__NodeInfo node = GRADUS__V1__NODE_INFO__INIT, *nodes[] = {&node};
    Gradus__V1__NodesResponse r = GRADUS__V1__NODES_RESPONSE__INIT;
    node.id = id;
    node.host = host;
    node.address = at;
    node.http_address = at;
    node.version = version;
    node.role = GRADUS__V1__NODE_ROLE__WORKER;
    node.alive = true;
    node.unready = master.nodes < master.unready_until ? why : node.unready;
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

/* One server of a table, and one that is gone. */
static void on_tables(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Tables", msg);
    char ids[][8] = {"ps-1", "ps-2"}, none[] = "", problem[] = "it is gone", name[] = "ads";
    Gradus__V1__TableStats table = GRADUS__V1__TABLE_STATS__INIT, *tables[] = {&table};
    Gradus__V1__ShardTables shards[2], *list[2];
    Gradus__V1__TablesResponse r = GRADUS__V1__TABLES_RESPONSE__INIT;
    table.name = name;
    table.rows = 12;
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__shard_tables__init(&shards[i]);
        shards[i].ps = ids[i];
        shards[i].problem = i == 0 ? none : problem;
        shards[i].tables = tables;
        shards[i].n_tables = i == 0;
        list[i] = &shards[i];
    }
    r.job = ID;
    r.table = ((const Gradus__V1__TablesRequest *)msg->body)->table;
    r.shards = list;
    r.n_shards = 2;
    (void)rpc_reply(call, &r.base, NULL);
}

/* Two lines at first; then, behind them, the last one. */
static void on_logs(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Logs", msg);
    const Gradus__V1__LogsRequest *q = (const Gradus__V1__LogsRequest *)msg->body;
    char own[] = "master", node[] = "worker-1", level[] = "INFO", event[] = "printed";
    char texts[3][24] = {"job=digits-7 x=1", "hello", "job=digits-77"};
    Gradus__V1__JobLine lines[3], *list[3];
    char *gone[] = {node};
    Gradus__V1__LogsResponse r = GRADUS__V1__LOGS_RESPONSE__INIT;
    for (size_t i = 0; i < 3; i++) {
        gradus__v1__job_line__init(&lines[i]);
        lines[i].time_ms = 1500 + (int64_t)i;
        lines[i].node = i == 0 ? own : node;
        lines[i].level = level;
        lines[i].event = event;
        lines[i].text = texts[i];
        lines[i].lost = i == 1 ? 9 : 0;
        list[i] = &lines[i];
    }
    r.lines = q->after == 0 ? list : list + 2;
    r.n_lines = q->after == 0 ? 2 : 1;
    r.next = q->after + 2;
    r.complete = q->after != 0;
    r.forgotten = q->after == 0;
    r.gone = gone;
    r.n_gone = 1;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_drop(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("DropNode", msg);
    Gradus__V1__DropNodeResponse r = GRADUS__V1__DROP_NODE_RESPONSE__INIT;
    r.node = ((const Gradus__V1__DropNodeRequest *)msg->body)->node;
    r.was_alive = strcmp(r.node, "ps-1") != 0;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_remove(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    hear("Remove", msg);
    Gradus__V1__RemoveJobResponse r = GRADUS__V1__REMOVE_JOB_RESPONSE__INIT;
    r.checkpoints =
        ((const Gradus__V1__RemoveJobRequest *)msg->body)->checkpoints ? r.checkpoints : PATH;
    if (!is_refused(call)) {
        (void)rpc_reply(call, &r.base, NULL);
    }
}

/* No command asks for it. */
static void on_follow(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct err err = {.code = ERR_UNSUPPORTED};
    (void)service;
    hear("Follow", msg);
    (void)rpc_fail(call, &err);
}

/* ps-2 has something the first time, and so has ps-3, which ends then. */
static void on_drain(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    static unsigned asked, asked_of_3;
    (void)service;
    hear("DrainNode", msg);
    const Gradus__V1__DrainNodeRequest *q = (const Gradus__V1__DrainNodeRequest *)msg->body;
    Gradus__V1__DrainNodeResponse r = GRADUS__V1__DRAIN_NODE_RESPONSE__INIT;
    Gradus__V1__HeldByNode rows[2], *list[2] = {&rows[0], &rows[1]};
    uint32_t shards[] = {0, 2}, backup = 1;
    char job[] = "digits-7", other[] = "digits-8", why[] = "there is no other server for it";
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__held_by_node__init(&rows[i]);
        rows[i].job = i == 0 ? job : other;
    }
    rows[0].shards = shards;
    rows[0].n_shards = 2;
    rows[0].backups = &backup;
    rows[0].n_backups = 1;
    rows[0].problem = why;
    r.held = list;
    r.n_held = strcmp(q->node, "ps-2") == 0 && !q->undo && asked++ == 0 ? 2 : 0;
    const bool ended = strcmp(q->node, "ps-3") == 0 && asked_of_3++ > 0;
    r.n_held = strcmp(q->node, "ps-3") == 0 && !ended ? 1 : r.n_held;
    r.node = q->node;
    r.alive = strcmp(q->node, "ps-1") != 0 && !ended;
    r.draining = r.alive && !q->undo;
    (void)rpc_reply(call, &r.base, NULL);
}

static const struct rpc_method METHODS[] = {
    {.name = "Submit", .request = on_submit},   {.name = "Get", .request = on_get},
    {.name = "List", .request = on_list},       {.name = "Watch", .request = on_watch},
    {.name = "Cancel", .request = on_cancel},   {.name = "Checkpoint", .request = on_checkpoint},
    {.name = "Set", .request = on_set},         {.name = "Nodes", .request = on_nodes},
    {.name = "Trace", .request = on_trace},     {.name = "Pause", .request = on_pause},
    {.name = "Resume", .request = on_resume},   {.name = "Tables", .request = on_tables},
    {.name = "DropNode", .request = on_drop},   {.name = "Remove", .request = on_remove},
    {.name = "Follow", .request = on_follow},   {.name = "Logs", .request = on_logs},
    {.name = "DrainNode", .request = on_drain},
};

void cli_put(const char *name, const char *text)
{
    char *path = file_join(home, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    free(path);
}

int cli_set_up(void **state)
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
    cli_put("job.yaml", JOB_FILE);
    cli_put("bad.yaml", "name: tiny\nmodle: 1\n");
    struct buf rows = {0};
    for (int i = 0; i < 32; i++) {
        buf_printf(&rows, "%d.%d,%d,%d\n", i % 2 * 4, i % 7, i % 3, i % 2);
    }
    cli_put("train.csv", buf_str(&rows));
    cli_put("test.csv", buf_str(&rows));
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

int cli_tear_down(void **state)
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

void cli_read_file(const char *name, struct buf *to)
{
    char *path = file_join(home, name);
    buf_reset(to);
    assert_int_equal(file_read(path, 1U << 24, to, NULL), 0);
    free(path);
}

/* `gradus @words`, in @home; what it prints in `out` and `err_out`. */
int cli_gradus(const char *words)
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
    cli_read_file("out", &out);
    cli_read_file("err", &err_out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void cli_expect(int code, const char *words)
{
    int found = cli_gradus(words);
    if (found != code) {
        fail_msg("gradus %s: exit code %d, not %d\n%s%s", words, found, code, buf_str(&out),
                 buf_str(&err_out));
    }
}

/* The same, with the master's address behind it. */
void cli_expect_of(int code, const char *words)
{
    char *all = mem_printf("%s --master %s", words, address);
    cli_expect(code, all);
    free(all);
}

void cli_says(const struct buf *where, const char *what)
{
    if (strstr(buf_str(where), what) == NULL) {
        fail_msg("'%s' is not in:\n%s", what, buf_str(where));
    }
}

void cli_says_not(const struct buf *where, const char *what)
{
    if (strstr(buf_str(where), what) != NULL) {
        fail_msg("'%s' is in:\n%s", what, buf_str(where));
    }
}

/* What the master heard last. */
const void *cli_heard(const char *method)
{
    assert_string_equal(master.method, method);
    return master.heard;
}
