/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask the master about jobs and nodes: each field of the event that the core gets, of
 * the core's reply in the answer, and of the jobs that only the store still has. Over real gRPC,
 * with a core that is a table. */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"
#include "support/wait_until.h"

#define JOBS 150

static struct shell shell;
static struct store store;
static struct rpc_server *server;
static struct rpc_channel *channel;

/* ---- the core and the store ---- */

static char id[] = "demo-1", text[] = "name: demo\n", reason[] = "as told";
static struct job_record record; /* the newest job; the loop's */

static struct master_node_info nodes[2];
static size_t job_count; /* that master_job_at() knows */
static char nobody[1];
static size_t job_place; /* of the job that a list goes on from */

/* What the core does with the next event: look at it, and answer. */
static void (*look)(const struct master_event *e);
static struct master_reply answer;

const struct job_record *master_job(struct master *m, const char *name, uint64_t now_ms)
{
    (void)m;
    (void)now_ms;
    return strcmp(name, record.id) == 0 ? &record : NULL;
}

const struct job_record *master_job_at(struct master *m, size_t i, uint64_t now_ms)
{
    (void)m;
    (void)now_ms;
    return i < job_count ? &record : NULL;
}

size_t master_job_place(const struct master *m, const char *name)
{
    (void)m;
    assert_string_equal(name, record.id);
    return job_place;
}

bool master_node_at(struct master *m, size_t i, uint64_t now_ms, struct master_node_info *out)
{
    (void)m;
    (void)now_ms;
    if (i < 2) {
        *out = nodes[i];
    }
    return i < 2;
}

void shell_event(struct shell *s, struct master_event *e)
{
    look(e);
    struct master_reply reply = answer;
    reply.request = e->request;
    request_answered(s, &reply);
}

static int get(struct store *s, const char *job, struct buf *packed, struct err *err)
{
    (void)s;
    if (strcmp(job, "old-1") == 0) {
        struct job_record old = record;
        char old_id[] = "old-1";
        old.id = old_id;
        old.state = JOB_CANCELLED;
        job_wire_pack(&old, packed);
        return 0;
    }
    if (strcmp(job, "torn-1") == 0) {
        buf_add_str(packed, "\x7f\xff torn");
        return 0;
    }
    return strcmp(job, "bad-1") == 0 ? err_set(err, ERR_EXHAUSTED, "the disk is full")
                                     : err_set(err, ERR_NOT_FOUND, "no row");
}

/* Bad records of a job's data; of others nothing was stored. */
static int get_text(struct store *s, const char *key, struct buf *value, struct err *err)
{
    (void)s;
    if (strcmp(key, "bad_records:old-1") == 0) {
        buf_add_str(value, "41");
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "no text");
}

/* ---- the rig ---- */

static int set_up(void **state)
{
    (void)state;
    struct err err;
    static const struct store_ops ops = {.get = get, .get_text = get_text};
    const char *addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 1, .grace_ms = 200};
    rpc_init();
    store.ops = &ops;
    shell = (struct shell){.store = &store, .loop = loop_new(64)};
    server = rpc_server_new(&options, &err);
    assert_non_null(server);
    assert_int_equal(rpc_server_add(server, &gradus__v1__jobs__descriptor, jobs_methods,
                                    jobs_method_count, &shell, &err),
                     0);
    assert_int_equal(rpc_server_start(server, &err), 0);
    assert_int_equal(loop_start(shell.loop, "test", &err), 0);
    const struct rpc_channel_options to = {.target = rpc_server_address(server, 0)};
    channel = rpc_channel_new(&to, &err);
    assert_non_null(channel);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rpc_channel_free(channel);
    rpc_server_free(server);
    loop_stop(shell.loop);
    loop_join(shell.loop);
    loop_free(shell.loop);
    job_record_release(&record);
    rpc_shutdown();
    return 0;
}

static int begin(void **state)
{
    (void)state;
    job_record_release(&record);
    job_record_init(&record);
    job_record_set(&record.id, id);
    job_record_set(&record.text, text);
    job_record_set(&record.reason, reason);
    record.state = JOB_RUNNING;
    record.step = 12;
    job_count = 1;
    answer = (struct master_reply){.job = &record};
    return 0;
}

static struct err failure;

static struct rpc_msg *call(const char *method, const ProtobufCMessage *body)
{
    const struct rpc_request request = {.service = &gradus__v1__jobs__descriptor,
                                        .method = method,
                                        .body = body,
                                        .timeout_ms = 60000,
                                        .wait_for_ready = true};
    struct rpc_msg *reply = NULL;
    failure = (struct err){0};
    (void)rpc_call_blocking(channel, &request, &reply, &failure);
    return reply;
}

static const void *well(const char *method, const ProtobufCMessage *body, struct rpc_msg **reply)
{
    *reply = call(method, body);
    if (*reply == NULL) {
        fail_msg("%s: %s", method, failure.msg);
    }
    return (*reply)->body;
}

static void refused(const char *method, const ProtobufCMessage *body, int code, const char *says)
{
    assert_null(call(method, body));
    assert_int_equal(failure.code, code);
    if (strstr(failure.msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", failure.msg, says);
    }
}

static Gradus__V1__GetJobRequest ask_of(char *job)
{
    Gradus__V1__GetJobRequest q = GRADUS__V1__GET_JOB_REQUEST__INIT;
    q.job = job;
    return q;
}

/* ---- jobs ---- */

static void jobs_are_shown(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    char old[] = "old-1", none[] = "none-1", bad[] = "bad-1", torn[] = "torn-1";
    Gradus__V1__GetJobRequest q = ask_of(id);
    const Gradus__V1__Job *job = well("Get", &q.base, &reply);
    assert_string_equal(job->id, id);
    assert_string_equal(job->text, text); /* all of it */
    assert_string_equal(job->reason, reason);
    assert_int_equal(job->state, JOB_RUNNING);
    assert_int_equal(job->step, 12);
    assert_int_equal(job->bad_records, 0);
    rpc_msg_unref(reply);
    q.job = old; /* that only the store has */
    job = well("Get", &q.base, &reply);
    assert_string_equal(job->id, old);
    assert_string_equal(job->text, text);
    assert_int_equal(job->state, JOB_CANCELLED);
    assert_int_equal(job->bad_records, 41);
    rpc_msg_unref(reply);
    q.job = none;
    refused("Get", &q.base, ERR_NOT_FOUND, "no job none-1");
    q.job = bad;
    refused("Get", &q.base, ERR_EXHAUSTED, "the disk is full");
    q.job = torn;
    refused("Get", &q.base, ERR_CORRUPT, "");
}

/* All, those of a state, and those behind the third. */
static void jobs_are_listed(void **state)
{
    (void)state;
    static const struct {
        uint32_t limit;
        size_t jobs, listed;
        bool more, behind;
        int state; /* 0: any */
    } rows[] = {{0, JOBS, 100, true, false, 0},      {3, JOBS, 3, true, false, 0},
                {7, 2, 2, false, false, 0},          {5000, 1200, 1000, true, false, 0},
                {1, 0, 0, false, false, 0},          {5, 5, 5, false, false, 0},
                {5, 5, 0, false, false, JOB_FAILED}, {2, 5, 2, true, false, JOB_RUNNING},
                {3, 5, 2, false, true, JOB_RUNNING}, {1, 5, 1, true, true, 0}};
    struct rpc_msg *reply;
    Gradus__V1__ListJobsRequest q = GRADUS__V1__LIST_JOBS_REQUEST__INIT;
    job_place = 2;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Gradus__V1__JobState one = (Gradus__V1__JobState)rows[i].state;
        q.limit = rows[i].limit;
        q.states = &one;
        q.n_states = one != 0;
        q.before = rows[i].behind ? id : nobody;
        job_count = rows[i].jobs;
        const Gradus__V1__ListJobsResponse *r = well("List", &q.base, &reply);
        assert_int_equal(r->n_jobs, rows[i].listed);
        assert_int_equal(r->more, rows[i].more);
        for (size_t j = 0; j < r->n_jobs; j++) {
            assert_string_equal(r->jobs[j]->id, id);
            assert_string_equal(r->jobs[j]->text, ""); /* in brief */
        }
        rpc_msg_unref(reply);
    }
    job_place = SIZE_MAX;
    q.before = id;
    refused("List", &q.base, ERR_NOT_FOUND, "to go on from");
}

static bool now;

static void look_cancel(const struct master_event *e)
{
    assert_int_equal(e->kind, MASTER_CANCEL);
    assert_string_equal(e->cancel.job, id);
    assert_int_equal(e->cancel.now, now);
}

static void jobs_are_cancelled(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    Gradus__V1__CancelRequest q = GRADUS__V1__CANCEL_REQUEST__INIT;
    look = look_cancel;
    q.job = id;
    for (int i = 0; i < 2; i++) {
        now = i == 1;
        q.now = now;
        const Gradus__V1__Job *job = well("Cancel", &q.base, &reply);
        assert_string_equal(job->id, id);
        assert_string_equal(job->text, "");
        rpc_msg_unref(reply);
    }
    (void)err_set(&answer.err, ERR_STATE, "it has ended");
    refused("Cancel", &q.base, ERR_STATE, "it has ended");
}

static enum master_event_kind turn;

static void look_turn(const struct master_event *e)
{
    assert_int_equal(e->kind, turn);
    assert_string_equal(e->job, id); /* the first member of resume, too */
}

static void jobs_are_paused_and_resumed(void **state)
{
    (void)state;
    Gradus__V1__GetJobRequest q = ask_of(id);
    Gradus__V1__ResumeRequest resume = GRADUS__V1__RESUME_REQUEST__INIT;
    char *sets[] = {(char[]){"training.epochs=9"}}, old[] = "old-1";
    look = look_turn;
    resume.job = id;
    struct rpc_msg *reply;
    turn = MASTER_PAUSE;
    (void)well("Pause", &q.base, &reply);
    rpc_msg_unref(reply);
    turn = MASTER_RESUME;
    (void)well("Resume", &resume.base, &reply);
    rpc_msg_unref(reply);
    resume.sets = sets; /* of what is not paused and has not ended */
    resume.n_sets = 1;
    refused("Resume", &resume.base, ERR_STATE, "what runs or waits is changed with Set");
    resume.job = old;
    refused("Resume", &resume.base, ERR_STATE, "so long ago that the master has put it away");
}

static void jobs_are_checkpointed(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    Gradus__V1__GetJobRequest q = ask_of(id);
    look = look_turn;
    turn = MASTER_CHECKPOINT;
    answer.path = "/c/demo-1/step-000000012";
    answer.step = 12;
    const Gradus__V1__CheckpointJobResponse *r = well("Checkpoint", &q.base, &reply);
    assert_string_equal(r->path, answer.path);
    assert_int_equal(r->step, 12);
    rpc_msg_unref(reply);
    (void)err_set(&answer.err, ERR_EXHAUSTED, "the disk is full");
    refused("Checkpoint", &q.base, ERR_EXHAUSTED, "the disk is full");
}

static void nodes_are_listed(void **state)
{
    (void)state;
    static const char *const jobs[] = {"demo-1", "demo-2"};
    struct rpc_msg *reply;
    Gradus__V1__NodesRequest q = GRADUS__V1__NODES_REQUEST__INIT;
    nodes[0] = (struct master_node_info){.id = "worker-1",
                                         .address = "a:1",
                                         .http_address = "h:2",
                                         .version = "v3",
                                         .host = "north",
                                         .role = MASTER_WORKER,
                                         .alive = true,
                                         .jobs = jobs,
                                         .job_count = 2,
                                         .joined_ms = 4,
                                         .heartbeat_age_ms = 5,
                                         .pid = 6};
    nodes[1] = nodes[0];
    nodes[1].id = "ps-1";
    nodes[1].role = MASTER_PS;
    nodes[1].alive = false;
    nodes[1].job_count = 0;
    nodes[1].gone = true;
    q.all = true;
    const Gradus__V1__NodesResponse *r = well("Nodes", &q.base, &reply);
    assert_int_equal(r->n_nodes, 2);
    const Gradus__V1__NodeInfo *n = r->nodes[0];
    assert_string_equal(n->id, "worker-1");
    assert_string_equal(n->address, "a:1");
    assert_string_equal(n->http_address, "h:2");
    assert_string_equal(n->version, "v3");
    assert_string_equal(n->host, "north");
    assert_int_equal(n->role, GRADUS__V1__NODE_ROLE__WORKER);
    assert_true(n->alive && n->n_jobs == 2);
    assert_string_equal(n->jobs[0], "demo-1");
    assert_string_equal(n->jobs[1], "demo-2");
    assert_int_equal(n->joined_ms + n->heartbeat_age_ms * 10, 54);
    assert_int_equal(n->pid, 6);
    n = r->nodes[1];
    assert_string_equal(n->id, "ps-1");
    assert_int_equal(n->role, GRADUS__V1__NODE_ROLE__PS);
    assert_false(n->alive || n->n_jobs > 0);
    rpc_msg_unref(reply);
    q.all = false; /* it is gone */
    r = well("Nodes", &q.base, &reply);
    assert_int_equal(r->n_nodes, 1);
    rpc_msg_unref(reply);
    q.all = false; /* it is gone */
    r = well("Nodes", &q.base, &reply);
    assert_int_equal(r->n_nodes, 1);
    rpc_msg_unref(reply);
}

/* ---- watching ---- */

struct watch {
    struct rpc_stream *stream;
    size_t messages;
    int32_t state; /* of the last one */
    uint64_t step;
    size_t evaluations;
    bool done;
    struct err err;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all struct watch */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct watch *w = ctx;
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)msg->body;
    pthread_mutex_lock(&lock);
    w->messages++;
    w->state = (int32_t)job->state;
    w->step = job->step;
    w->evaluations = job->n_evaluations;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct watch *w = ctx;
    pthread_mutex_lock(&lock);
    w->done = true;
    w->err = status->err;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void watch(struct watch *w, char *job)
{
    static const struct rpc_stream_events events = {.message = on_message, .done = on_done};
    const Gradus__V1__GetJobRequest q = ask_of(job);
    const struct rpc_request request = {
        .service = &gradus__v1__jobs__descriptor, .method = "Watch", .body = &q.base};
    struct err err = {0};
    *w = (struct watch){.messages = 0};
    w->stream = rpc_stream_open(channel, &request, &events, w, &err);
    assert_non_null(w->stream);
}

static void wait_messages(struct watch *w, size_t count)
{
    pthread_mutex_lock(&lock);
    wait_until_signalled(w->messages >= count || w->done, &changed, &lock);
    assert_true(w->messages >= count);
    pthread_mutex_unlock(&lock);
}

static void wait_end(struct watch *w, int code, const char *says)
{
    pthread_mutex_lock(&lock);
    wait_until_signalled(w->done, &changed, &lock);
    pthread_mutex_unlock(&lock);
    assert_int_equal(w->err.code, code);
    assert_non_null(strstr(w->err.msg, says));
    rpc_stream_free(w->stream);
}

static void step_on(void *ctx)
{
    record.step = *(uint64_t *)ctx;
    watchers_changed(&shell, &record);
}

static void step(uint64_t to)
{
    assert_int_equal(loop_call(shell.loop, step_on, &to, NULL), 0);
}

static void another_changes(void *ctx)
{
    (void)ctx;
    char other_id[] = "demo-2";
    struct job_record other = record;
    other.id = other_id;
    other.state = JOB_FAILED;
    watchers_changed(&shell, &other);
}

static void end_job(void *ctx)
{
    (void)ctx;
    record.state = JOB_SUCCEEDED;
    watchers_changed(&shell, &record);
}

static void count(void *ctx)
{
    *(size_t *)ctx = shell.watcher_count + (shell.watchers != NULL);
}

/* Also of those that have just gone away. */
static size_t watchers(void)
{
    size_t n;
    assert_int_equal(loop_call(shell.loop, count, &n, NULL), 0);
    return n;
}

static void who_watches_sees_every_change(void **state)
{
    (void)state;
    struct watch w[3];
    job_record_add_evaluation(&record, &(struct job_evaluation){.step = 10});
    for (size_t i = 0; i < 3; i++) {
        watch(&w[i], id);
        wait_messages(&w[i], 1); /* at once */
    }
    assert_int_equal(w[0].step, 12);
    assert_int_equal(w[0].evaluations, 1);
    rpc_stream_free(w[1].stream); /* the one in the middle */
    wait_until(watchers() == 3);
    step(13);
    wait_messages(&w[0], 2); /* a little later */
    wait_messages(&w[2], 2);
    assert_int_equal(w[0].step, 13);
    wait_messages(&w[0], 3); /* and now and then while it runs */
    assert_int_equal(loop_call(shell.loop, another_changes, NULL, NULL), 0);
    assert_int_equal(loop_call(shell.loop, end_job, NULL, NULL), 0);
    wait_end(&w[0], 0, "");
    wait_end(&w[2], 0, "");
    assert_int_equal(w[0].state, JOB_SUCCEEDED);
    wait_until(watchers() == 0);
}

static void what_has_ended_is_told_once(void **state)
{
    (void)state;
    struct watch w;
    char old[] = "old-1", none[] = "none-1", bad[] = "bad-1";
    watch(&w, old);
    wait_end(&w, 0, "");
    assert_int_equal(w.messages, 1);
    assert_int_equal(w.state, JOB_CANCELLED);
    watch(&w, none);
    wait_end(&w, ERR_NOT_FOUND, "no job none-1");
    watch(&w, bad);
    wait_end(&w, ERR_EXHAUSTED, "the disk is full");
    assert_int_equal(w.messages, 0);
}

static void set_count(void *ctx)
{
    shell.watcher_count = *(size_t *)ctx;
}

static void end_all(void *ctx)
{
    (void)ctx;
    atomic_store(&shell.ending, true);
    watchers_end(&shell);
}

static void watching_has_its_limits(void **state)
{
    (void)state;
    struct watch w, late;
    size_t n = SHELL_WATCHERS_MAX;
    assert_int_equal(loop_call(shell.loop, set_count, &n, NULL), 0);
    watch(&w, id);
    wait_end(&w, ERR_EXHAUSTED, "too many clients watch already");
    n = 0;
    assert_int_equal(loop_call(shell.loop, set_count, &n, NULL), 0);
    watch(&w, id);
    wait_messages(&w, 1);
    assert_int_equal(loop_call(shell.loop, end_all, NULL, NULL), 0);
    wait_end(&w, ERR_UNAVAILABLE, "the master is stopping");
    watch(&late, id);
    wait_end(&late, ERR_UNAVAILABLE, "the master is stopping");
    assert_int_equal(late.messages, 0);
    wait_until(watchers() == 0);
    atomic_store(&shell.ending, false);
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(jobs_are_shown),
        TEST(jobs_are_listed),
        TEST(jobs_are_cancelled),
        TEST(jobs_are_paused_and_resumed),
        TEST(jobs_are_checkpointed),
        TEST(nodes_are_listed),
        TEST(who_watches_sees_every_change),
        TEST(what_has_ended_is_told_once),
        TEST(watching_has_its_limits),
    };
    return cmocka_run_group_tests_name("jobs_service", tests, set_up, tear_down);
}
