/* SPDX-License-Identifier: Apache-2.0 */
/* The real program with its real gRPC server, and a client. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/release.h"
#include "gradus/v1/cluster.pb-c.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/master_shell.h"
#include "os/file.h"
#include "rpc/rpc.h"
#include "service/spawn.h"
#include "support/wait_until.h"

struct running {
    struct spawn process;
    struct rpc_channel *channel;
    char address[128];
};

static char *dir;

static const char GOOD[] = "name: demo\ndata:\n  train: {file: a.csv}\nmodel:\n  layers:\n"
                           "    - dense: {units: 3}\n  loss: softmax_cross_entropy\n"
                           "update:\n  rule: sgd\ntraining:\n  batch_size: 5\n  epochs: 2\n";

static int set_up(void **state)
{
    (void)state;
    dir = tmp_dir_make("master");
    rpc_init();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rpc_shutdown();
    tmp_dir_remove(dir);
    return 0;
}

static void start(struct running *m)
{
    const char *bin = getenv("GRADUS_BIN_DIR");
    char *path = file_join(bin == NULL ? "." : bin, "gradus-master");
    if (!file_exists(path)) {
        print_message("skipped: %s is not there\n", path);
        free(path);
        skip();
    }
    char *state_dir = file_join(dir, "state");
    char *log = file_join(dir, "log");
    memset(m, 0, sizeof *m);
    char *argv[] = {path,       "--state-dir", state_dir,
                    "--listen", "127.0.0.1:0", "--heartbeat-timeout-ms",
                    "600000",   NULL};
    struct err err = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    if (spawn_start(&m->process, "gradus-master", argv, log, &err) < 0 ||
        spawn_ready_line(&m->process, line, 60000, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    assert_true(spawn_line_value(line, "grpc", m->address, sizeof m->address));
    struct rpc_channel_options options = {.target = m->address};
    m->channel = rpc_channel_new(&options, &err);
    assert_non_null(m->channel);
    free(path);
    free(state_dir);
    free(log);
}

static void stop(struct running *m)
{
    rpc_channel_free(m->channel);
    assert_true(spawn_end(&m->process, 60000));
    spawn_release(&m->process);
}

static struct rpc_msg *call(struct running *m, const ProtobufCServiceDescriptor *service,
                            const char *method, const ProtobufCMessage *body, struct err *err)
{
    struct rpc_request request = {.service = service,
                                  .method = method,
                                  .body = body,
                                  .timeout_ms = 60000,
                                  .wait_for_ready = true};
    struct rpc_msg *reply = NULL;
    memset(err, 0, sizeof *err);
    (void)rpc_call_blocking(m->channel, &request, &reply, err);
    return reply;
}

static int submit(struct running *m, char *text, char *request_id, char **sets, size_t set_count,
                  char id[128], struct err *err)
{
    Gradus__V1__SubmitRequest q = GRADUS__V1__SUBMIT_REQUEST__INIT;
    char file[] = "job.yaml";
    q.file = file;
    q.text = text;
    q.request_id = request_id;
    q.sets = sets;
    q.n_sets = set_count;
    struct rpc_msg *reply = call(m, &gradus__v1__jobs__descriptor, "Submit", &q.base, err);
    if (reply != NULL) {
        snprintf(id, 128, "%s", ((const Gradus__V1__SubmitResponse *)reply->body)->job);
    }
    rpc_msg_unref(reply);
    return err->code;
}

static void check_job(struct running *m, char *id, Gradus__V1__JobState state, const char *reason)
{
    struct err err;
    Gradus__V1__GetJobRequest q = GRADUS__V1__GET_JOB_REQUEST__INIT;
    q.job = id;
    struct rpc_msg *reply = call(m, &gradus__v1__jobs__descriptor, "Get", &q.base, &err);
    assert_non_null(reply);
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)reply->body;
    assert_int_equal(job->state, state);
    assert_non_null(strstr(job->reason, reason));
    assert_non_null(strstr(job->text, "batch_size"));
    rpc_msg_unref(reply);
}

static void garbage_is_refused_with_every_error(void **state)
{
    (void)state;
    struct running m;
    start(&m);
    struct err err;
    char id[128] = "";
    char none[] = "";
    char bad[] = "name: demo\nmodle: 1\ntraining:\n  batch_size: -1\n";
    assert_int_equal(submit(&m, bad, none, NULL, 0, id, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "job.yaml:2:"));
    assert_non_null(strstr(err.msg, "job.yaml:4:"));
    char junk[] = "\x01{[:::";
    assert_int_equal(submit(&m, junk, none, NULL, 0, id, &err), ERR_INVALID);
    char good[sizeof GOOD];
    memcpy(good, GOOD, sizeof GOOD);
    char set[] = "training.mode=quick";
    char *sets[] = {set};
    assert_int_equal(submit(&m, good, none, sets, 1, id, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "--set"));
    char *huge = mem_new((2u << 20) + 1, 1);
    memset(huge, '#', 2u << 20);
    assert_int_equal(submit(&m, huge, none, NULL, 0, id, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "1 MiB"));
    free(huge);
    Gradus__V1__HeartbeatRequest heartbeat = GRADUS__V1__HEARTBEAT_REQUEST__INIT;
    assert_null(call(&m, &gradus__v1__cluster__descriptor, "Heartbeat", &heartbeat.base, &err));
    assert_int_equal(err.code, ERR_INVALID); /* without a node */
    Gradus__V1__NodeRef node = GRADUS__V1__NODE_REF__INIT;
    heartbeat.node = &node;
    assert_null(call(&m, &gradus__v1__cluster__descriptor, "Heartbeat", &heartbeat.base, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    Gradus__V1__JoinRequest join = GRADUS__V1__JOIN_REQUEST__INIT;
    assert_null(call(&m, &gradus__v1__cluster__descriptor, "Join", &join.base, &err));
    assert_int_equal(err.code, ERR_INVALID);
    Gradus__V1__GetJobRequest get = GRADUS__V1__GET_JOB_REQUEST__INIT;
    assert_null(call(&m, &gradus__v1__jobs__descriptor, "Get", &get.base, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    stop(&m);
}

static void jobs_are_remembered(void **state)
{
    (void)state;
    struct running m;
    start(&m);
    struct err err;
    char first[128] = "", second[128] = "", again[128] = "";
    char good[sizeof GOOD], none[] = "", request[] = "r-1";
    memcpy(good, GOOD, sizeof GOOD);
    assert_int_equal(submit(&m, good, request, NULL, 0, first, &err), 0);
    assert_int_equal(submit(&m, good, none, NULL, 0, second, &err), 0);
    assert_string_equal(first, "demo-1");
    assert_string_equal(second, "demo-2");
    Gradus__V1__CancelRequest cancel = GRADUS__V1__CANCEL_REQUEST__INIT;
    cancel.job = second;
    rpc_msg_unref(call(&m, &gradus__v1__jobs__descriptor, "Cancel", &cancel.base, &err));
    assert_int_equal(err.code, 0);
    stop(&m);
    start(&m); /* a new master */
    check_job(&m, first, GRADUS__V1__JOB_STATE__PENDING, "waits for");
    check_job(&m, second, GRADUS__V1__JOB_STATE__CANCELLED, "cancelled before it ran");
    assert_int_equal(submit(&m, good, request, NULL, 0, again, &err), 0);
    assert_string_equal(again, first); /* the same request */
    assert_int_equal(submit(&m, good, none, NULL, 0, again, &err), 0);
    assert_string_equal(again, "demo-3");
    Gradus__V1__ListJobsRequest list = GRADUS__V1__LIST_JOBS_REQUEST__INIT;
    struct rpc_msg *reply = call(&m, &gradus__v1__jobs__descriptor, "List", &list.base, &err);
    assert_non_null(reply);
    const Gradus__V1__ListJobsResponse *jobs = (const Gradus__V1__ListJobsResponse *)reply->body;
    assert_int_equal(jobs->n_jobs, 3);
    assert_string_equal(jobs->jobs[0]->id, "demo-3"); /* newest first */
    rpc_msg_unref(reply);
    stop(&m);
}

/* The answer to Jobs.Set, NULL with @err. */
static struct rpc_msg *set(struct running *m, char *job, char **sets, size_t count, struct err *err)
{
    Gradus__V1__SetJobRequest q = GRADUS__V1__SET_JOB_REQUEST__INIT;
    q.job = job;
    q.sets = sets;
    q.n_sets = count;
    return call(m, &gradus__v1__jobs__descriptor, "Set", &q.base, err);
}

static void assert_refused(struct running *m, char *job, char **sets, size_t count, int code,
                           const char *const *words)
{
    struct err err;
    assert_null(set(m, job, sets, count, &err));
    assert_int_equal(err.code, code);
    for (; *words != NULL; words++) {
        if (strstr(err.msg, *words) == NULL) {
            fail_msg("no \"%s\" in \"%s\"", *words, err.msg);
        }
    }
}

static void changes_are_checked_and_kept(void **state)
{
    (void)state;
    struct running m;
    start(&m);
    struct err err;
    char id[128] = "", good[sizeof GOOD], none[] = "", nobody[] = "nobody-1";
    memcpy(good, GOOD, sizeof GOOD);
    assert_int_equal(submit(&m, good, none, NULL, 0, id, &err), 0);
    char mode[] = "training.mode=async", mode_again[] = "training.mode=bounded";
    char seed[] = "training.seed=3", ps[] = "cluster.ps=2", modle[] = "training.modle=1";
    char epochs[] = "training.epochs=x", file[] = "data.train.file=b.csv", word[] = "mode";
    char workers[] = "cluster.workers=2..4";
    static const char *const no_job[] = {"no job nobody-1", NULL};
    assert_refused(&m, nobody, (char *[]){mode}, 1, ERR_NOT_FOUND, no_job);
    static const char *const empty[] = {"0 keys", NULL};
    assert_refused(&m, id, NULL, 0, ERR_INVALID, empty);
    /* Every wrong one is named, and the good one among them changes nothing. */
    static const char *const all[] = {"training.seed=3: fixed when",
                                      "cluster.ps=2: fixed when",
                                      "training.modle=1: ",
                                      "training.epochs=x: ",
                                      "data.train.file=b.csv: fixed",
                                      "mode: ",
                                      NULL};
    assert_refused(&m, id, (char *[]){seed, mode, ps, modle, epochs, file, word}, 7, ERR_INVALID,
                   all);
    check_job(&m, id, GRADUS__V1__JOB_STATE__PENDING, "waits for");
    struct rpc_msg *reply = set(&m, id, (char *[]){mode, workers, mode_again}, 3, &err);
    if (reply == NULL) {
        fail_msg("%s", err.msg);
        return;
    }
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)reply->body;
    assert_int_equal(job->mode, GRADUS__V1__MODE__BOUNDED); /* the last one counts */
    assert_non_null(strstr(job->text, "mode: bounded"));
    assert_non_null(strstr(job->text, "workers: 2..4"));
    rpc_msg_unref(reply);
    stop(&m);
    start(&m); /* a new master knows it, and what is changed once more comes on top */
    reply = set(&m, id, (char *[]){mode}, 1, &err);
    assert_non_null(reply);
    job = (const Gradus__V1__Job *)reply->body;
    assert_non_null(strstr(job->text, "mode: async"));
    assert_non_null(strstr(job->text, "workers: 2..4"));
    rpc_msg_unref(reply);
    Gradus__V1__CancelRequest cancel = GRADUS__V1__CANCEL_REQUEST__INIT;
    cancel.job = id;
    rpc_msg_unref(call(&m, &gradus__v1__jobs__descriptor, "Cancel", &cancel.base, &err));
    static const char *const ended[] = {"ended", NULL};
    assert_refused(&m, id, (char *[]){mode}, 1, ERR_STATE, ended);
    stop(&m);
}

struct answers {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t done, well;
};

static void on_set_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)reply;
    struct answers *a = ctx;
    pthread_mutex_lock(&a->mutex);
    a->done++;
    a->well += status->err.code == 0;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

/* Each is parsed from a text that another one may have changed when it comes to its turn. */
static void changes_at_the_same_time_all_count(void **state)
{
    (void)state;
    enum { COUNT = 4 };
    struct running m;
    start(&m);
    struct err err;
    char id[128] = "", good[sizeof GOOD], none[] = "";
    memcpy(good, GOOD, sizeof GOOD);
    assert_int_equal(submit(&m, good, none, NULL, 0, id, &err), 0);
    char sets[COUNT][40] = {"training.push_every=3", "training.pull_every=5",
                            "training.max_staleness=7", "cluster.workers=1..9"};
    struct answers a = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    for (size_t i = 0; i < COUNT; i++) {
        Gradus__V1__SetJobRequest q = GRADUS__V1__SET_JOB_REQUEST__INIT;
        q.job = id;
        q.sets = (char *[]){sets[i]};
        q.n_sets = 1;
        struct rpc_request request = {.service = &gradus__v1__jobs__descriptor,
                                      .method = "Set",
                                      .body = &q.base,
                                      .timeout_ms = 60000,
                                      .wait_for_ready = true};
        assert_int_equal(rpc_call_start(m.channel, &request, on_set_done, &a, &err), 0);
    }
    pthread_mutex_lock(&a.mutex);
    wait_until_signalled(a.done >= COUNT, &a.changed, &a.mutex);
    pthread_mutex_unlock(&a.mutex);
    assert_int_equal(a.well, COUNT);
    Gradus__V1__GetJobRequest get = GRADUS__V1__GET_JOB_REQUEST__INIT;
    get.job = id;
    struct rpc_msg *reply = call(&m, &gradus__v1__jobs__descriptor, "Get", &get.base, &err);
    assert_non_null(reply);
    const char *text = ((const Gradus__V1__Job *)reply->body)->text;
    assert_non_null(strstr(text, "push_every: 3"));
    assert_non_null(strstr(text, "pull_every: 5"));
    assert_non_null(strstr(text, "max_staleness: 7"));
    assert_non_null(strstr(text, "workers: 1..9"));
    rpc_msg_unref(reply);
    stop(&m);
}

/* master.db is deleted, the checkpoints are kept: a new job must not find those of an old one. */
static void an_id_with_checkpoints_is_not_given_again(void **state)
{
    (void)state;
    char *kept = file_join(dir, "state/checkpoints/demo-7/step-000000005");
    assert_int_equal(file_make_dirs(kept, NULL), 0);
    struct running m;
    start(&m);
    struct err err;
    char id[128] = "", good[sizeof GOOD], none[] = "", request[] = "r-1", again[128] = "";
    memcpy(good, GOOD, sizeof GOOD);
    assert_int_equal(submit(&m, good, request, NULL, 0, id, &err), 0);
    assert_string_equal(id, "demo-8");
    assert_int_equal(submit(&m, good, request, NULL, 0, again, &err), 0);
    assert_string_equal(again, "demo-8"); /* the same request */
    assert_int_equal(submit(&m, good, none, NULL, 0, id, &err), 0);
    assert_string_equal(id, "demo-9");
    stop(&m);
    free(kept);
}

struct watch {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t messages;
    int last_state;
    bool done;
    int code;
};

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct watch *w = ctx;
    pthread_mutex_lock(&w->mutex);
    w->messages++;
    w->last_state = (int)((const Gradus__V1__Job *)msg->body)->state;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct watch *w = ctx;
    pthread_mutex_lock(&w->mutex);
    w->done = true;
    w->code = status->err.code;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static struct rpc_stream *watch(struct running *m, char *id, struct watch *w)
{
    static const struct rpc_stream_events events = {.message = on_message, .done = on_done};
    *w = (struct watch){.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    Gradus__V1__GetJobRequest q = GRADUS__V1__GET_JOB_REQUEST__INIT;
    q.job = id;
    struct rpc_request request = {
        .service = &gradus__v1__jobs__descriptor, .method = "Watch", .body = &q.base};
    struct rpc_stream *stream = rpc_stream_open(m->channel, &request, &events, w, NULL);
    assert_non_null(stream);
    return stream;
}

static void wait_messages(struct watch *w, size_t count, bool done)
{
    pthread_mutex_lock(&w->mutex);
    wait_until_signalled((w->messages >= count && (!done || w->done)) || (w->done && !done),
                         &w->changed, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
}

static void watching_ends_with_the_job(void **state)
{
    (void)state;
    struct running m;
    start(&m);
    struct err err;
    char id[128] = "", good[sizeof GOOD], none[] = "", nobody[] = "nobody-1";
    memcpy(good, GOOD, sizeof GOOD);
    assert_int_equal(submit(&m, good, none, NULL, 0, id, &err), 0);
    struct watch w, v, u;
    struct rpc_stream *stream = watch(&m, id, &w);
    wait_messages(&w, 1, false);
    assert_int_equal(w.last_state, GRADUS__V1__JOB_STATE__PENDING);
    struct rpc_stream *left = watch(&m, id, &v); /* a client that goes away */
    wait_messages(&v, 1, false);
    rpc_stream_cancel(left);
    wait_messages(&v, 1, true);
    Gradus__V1__CancelRequest cancel = GRADUS__V1__CANCEL_REQUEST__INIT;
    cancel.job = id;
    rpc_msg_unref(call(&m, &gradus__v1__jobs__descriptor, "Cancel", &cancel.base, &err));
    wait_messages(&w, 2, true);
    assert_int_equal(w.last_state, GRADUS__V1__JOB_STATE__CANCELLED);
    assert_int_equal(w.code, 0);
    struct rpc_stream *unknown = watch(&m, nobody, &u);
    wait_messages(&u, 0, true);
    assert_int_equal(u.code, ERR_NOT_FOUND);
    struct watch open;
    assert_int_equal(submit(&m, good, none, NULL, 0, id, &err), 0);
    struct rpc_stream *last = watch(&m, id, &open); /* still open when the master stops */
    wait_messages(&open, 1, false);
    assert_true(spawn_end(&m.process, 10000));
    wait_messages(&open, 1, true);
    assert_int_equal(open.code, ERR_UNAVAILABLE);
    rpc_stream_free(stream);
    rpc_stream_free(left);
    rpc_stream_free(unknown);
    rpc_stream_free(last);
    rpc_channel_free(m.channel);
    spawn_release(&m.process);
}

static char *join(struct running *m, uint64_t incarnation)
{
    Gradus__V1__JoinRequest q = GRADUS__V1__JOIN_REQUEST__INIT;
    char address[] = "127.0.0.1:1", version[] = GRADUS_VERSION;
    struct err err;
    q.role = GRADUS__V1__NODE_ROLE__PS;
    q.incarnation = incarnation;
    q.address = address;
    q.version = version;
    q.protocol = RELEASE_PROTOCOL;
    struct rpc_msg *reply = call(m, &gradus__v1__cluster__descriptor, "Join", &q.base, &err);
    assert_non_null(reply);
    const Gradus__V1__JoinResponse *r = (const Gradus__V1__JoinResponse *)reply->body;
    assert_int_equal(r->heartbeat_timeout_ms, 600000);
    assert_int_equal(r->heartbeat_interval_ms, 120000);
    char *id = mem_strdup(r->id);
    rpc_msg_unref(reply);
    return id;
}

static void nodes_are_dropped(void **state)
{
    (void)state;
    struct running m;
    struct err err;
    start(&m);
    char *id = join(&m, 77);
    Gradus__V1__DropNodeRequest q = GRADUS__V1__DROP_NODE_REQUEST__INIT;
    q.node = id;
    for (int again = 0; again < 2; again++) {
        struct rpc_msg *reply = call(&m, &gradus__v1__jobs__descriptor, "DropNode", &q.base, &err);
        assert_non_null(reply);
        const Gradus__V1__DropNodeResponse *r = (const Gradus__V1__DropNodeResponse *)reply->body;
        assert_string_equal(r->node, id);
        assert_int_equal(r->was_alive, again == 0);
        rpc_msg_unref(reply);
    }
    Gradus__V1__HeartbeatRequest heartbeat = GRADUS__V1__HEARTBEAT_REQUEST__INIT;
    Gradus__V1__NodeRef ref = GRADUS__V1__NODE_REF__INIT;
    ref.id = id;
    ref.incarnation = 77;
    heartbeat.node = &ref;
    assert_null(call(&m, &gradus__v1__cluster__descriptor, "Heartbeat", &heartbeat.base, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND); /* it lives all the same, and joins again */
    free(id);
    free(join(&m, 77));
    char nobody[] = "ps-99";
    q.node = nobody;
    assert_null(call(&m, &gradus__v1__jobs__descriptor, "DropNode", &q.base, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "no node ps-99"));
    stop(&m);
}

static void nodes_are_drained(void **state)
{
    (void)state;
    struct running m;
    struct err err;
    start(&m);
    char *id = join(&m, 78);
    Gradus__V1__DrainNodeRequest q = GRADUS__V1__DRAIN_NODE_REQUEST__INIT;
    q.node = id;
    for (int undo = 0; undo < 2; undo++) {
        q.undo = undo;
        struct rpc_msg *reply = call(&m, &gradus__v1__jobs__descriptor, "DrainNode", &q.base, &err);
        assert_non_null(reply);
        const Gradus__V1__DrainNodeResponse *r = (const Gradus__V1__DrainNodeResponse *)reply->body;
        assert_string_equal(r->node, id);
        assert_true(r->alive);
        assert_int_equal(r->draining, !undo);
        assert_int_equal(r->n_held, 0);
        rpc_msg_unref(reply);
    }
    char nobody[] = "ps-99";
    q.node = nobody;
    assert_null(call(&m, &gradus__v1__jobs__descriptor, "DrainNode", &q.base, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    free(id);
    stop(&m);
}

static void heartbeats_are_less_than_half_of_the_time_out(void **state)
{
    (void)state;
    struct master_settings s = {.heartbeat_timeout_ms = 3000};
    struct err err = {0};
    assert_int_equal(master_shell_check(&s, &err), 0);
    s.heartbeat_interval_ms = 1499;
    assert_int_equal(master_shell_check(&s, &err), 0);
    s.heartbeat_interval_ms = 1500;
    assert_int_equal(master_shell_check(&s, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "heartbeat_interval_ms 1500 must be less than half of"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(garbage_is_refused_with_every_error),
        TEST(jobs_are_remembered),
        TEST(changes_are_checked_and_kept),
        TEST(changes_at_the_same_time_all_count),
        TEST(an_id_with_checkpoints_is_not_given_again),
        TEST(watching_ends_with_the_job),
        TEST(nodes_are_dropped),
        TEST(nodes_are_drained),
        TEST(heartbeats_are_less_than_half_of_the_time_out),
    };
    return cmocka_run_group_tests_name("master_shell", tests, NULL, NULL);
}
