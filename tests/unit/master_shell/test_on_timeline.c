/* SPDX-License-Identifier: Apache-2.0 */
/* The picture that the page shows of a running job: what is in it, who shares it, who waits for it,
 * and what is refused. The nodes are asked over real gRPC; requests over HTTP are a table. */
#include "calls/trace_call_rig.h"

#include <stdlib.h>
#include <string.h>

#include "auth/auth_table.h"
#include "base/mem.h"
#include "master/shell/page_asked.h"
#include "service/http.h"
#include "support/wait_until.h"

struct http_call { /* by job_rig.lock */
    unsigned status;
    char *text;
};

void http_call_answer(struct http_call *call, const struct http_answer *a)
{
    pthread_mutex_lock(&job_rig.lock);
    assert_int_equal(call->status, 0);
    call->status = a->status;
    call->text = buf_take(a->body);
    pthread_cond_broadcast(&job_rig.changed);
    pthread_mutex_unlock(&job_rig.lock);
}

const struct auth_identity *http_call_who(const struct http_call *call)
{
    static const struct auth_identity admin = {.roles = AUTH_ADMIN};
    (void)call;
    return &admin;
}

const char *http_call_peer(const struct http_call *call)
{
    (void)call;
    return "ipv4:127.0.0.1:1";
}

const char *http_call_row(const struct http_call *call)
{
    (void)call;
    return "gradus.v1.Jobs/Trace";
}

static void look_at(struct http_call *call, const char *job)
{
    struct page_asked *a = mem_new(1, sizeof *a);
    struct request *r = mem_new(1, sizeof *r);
    *call = (struct http_call){0};
    gradus__v1__trace_job_request__init(&a->body.trace);
    a->job = mem_strdup(job);
    a->body.trace.job = a->job;
    a->body.trace.steps = 12;
    a->body.trace.timeout_ms = 60000;
    a->msg.body = &a->body.trace.base;
    *r = (struct request){
        .shell = &job_rig.shell, .page = call, .asked = a, .msg = &a->msg, .run = run_trace};
    request_post(r);
}

static void look_at_page(struct http_call *call)
{
    look_at(call, job_rig_job);
}

static void page_says(struct http_call *call, unsigned status, const char *part)
{
    pthread_mutex_lock(&job_rig.lock);
    wait_until_signalled(call->status != 0, &job_rig.changed, &job_rig.lock);
    pthread_mutex_unlock(&job_rig.lock);
    if (call->status != status || strstr(call->text, part) == NULL) {
        fail_msg("not %u with %s: %u %s", status, part, call->status, call->text);
    }
}

static void asked_once(struct http_call *call, unsigned status, const char *part)
{
    look_at_page(call);
    page_says(call, status, part);
    free(call->text);
}

/* A picture whose worker records until release() says so. */
static void start_picture(struct http_call *call)
{
    rig.holds = true;
    look_at_page(call);
    wait_until_held();
}

/* ---- tests ---- */

static void a_picture_has_what_gradus_timeline_draws(void **state)
{
    (void)state;
    struct http_call call;
    rig.spans = 3;
    look_at_page(&call);
    page_says(&call, 200, "\"job\":\"demo-1\"");
    const char *const parts[] = {
        "\"lengthNs\":8000000,\"parts\":[\"load\",\"compute\",\"evaluate\",\"wire\",\"wait\","
        "\"apply\"",
        "\"lanes\":[{\"node\":\"w-1\",\"problem\":\"\",\"worker\":true,\"shard\":0},"
        "{\"node\":\"ps-1\",\"problem\":\"\",\"worker\":false,\"shard\":0}]",
        "\"lane\":[0,0,0,0,0,0,1],\"part\":[1,3,4,1,4,1,5],"
        "\"beginNs\":[0,2000000,2100000,3000000,5000000,6000000,2200000],"
        "\"ns\":[2000000,100000,900000,2000000,1000000,2000000,300000],"
        "\"number\":[\"40\",\"0\",\"0\",\"41\",\"0\",\"42\",\"9\"]",
        "\"pushes\":{\"worker\":[0],\"shard\":[1],\"sentNs\":[2000000],\"arrivedNs\":[2100000],"
        "\"begunNs\":[2200000],\"baseVersion\":[\"6\"],\"madeVersion\":[\"9\"],\"staleness\":[2],"
        "\"dropped\":[false],\"spare\":[false]}"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        page_says(&call, 200, parts[i]);
    }
    free(call.text);
    const struct heard *ps = &rig.heard[2 * CLOCKS], *worker = ps + 1;
    assert_int_equal(ps->timeout_ms, 3 * 60000);
    assert_true(worker->steps == 12 && worker->timeout_ms == 60000);
    assert_int_equal(worker->spans_max, 65536 / 3);
    assert_int_equal(under_way(), 0);
}

/* The connection of a viewer does not wait longer. */
static void a_picture_comes_in_time(void **state)
{
    (void)state;
    struct http_call call;
    struct shell s;
    traces_init(&s);
    assert_in_range(s.pictures.all_ms, 2 * s.pictures.call_ms + 3000, HTTP_REQUEST_MS_MAX - 2000);
    job_rig.shell.pictures.all_ms = 60000;
    asked_once(&call, 200, "\"lanes\"");
    const struct heard *worker = &rig.heard[2 * CLOCKS + 1];
    assert_in_range(worker->timeout_ms, 1, 22500); /* with the calls around it */
}

static void a_picture_has_only_so_much(void **state)
{
    (void)state;
    struct http_call call;
    static char *many[70], unknown[] = "w-9";
    for (size_t i = 0; i < 70; i++) {
        many[i] = i == 0 ? worker_id : unknown;
    }
    job_rig.record.workers = (struct job_names){.items = many, .count = 70};
    rig.apart_ns = 150000;
    rig.spans = SPANS_MAX - 1; /* with what is between them more boxes than a picture has */
    look_at_page(&call);
    page_says(&call, 200, "\"workersMore\":6,");
    size_t lanes = 0, boxes = 0;
    for (const char *at = call.text; (at = strstr(at, "\"problem\"")) != NULL; at++) {
        lanes++;
    }
    const char *at = strstr(call.text, "\"boxes\":{\"lane\":["), *end = strchr(at, ']');
    for (; at != end; at++) {
        boxes += *at == ',';
    }
    assert_int_equal(lanes, 64 + 1);
    assert_in_range(boxes, 11900, 12000);
    free(call.text);
    rig.spans = 0;
    job_rig.record.workers = (struct job_names){.items = worker_ids, .count = 1};
    asked_once(&call, 200, "\"lengthNs\":0,"); /* nothing was done in that time */
    job_rig.record.ps = (struct job_names){.items = many, .count = 70};
    asked_once(&call, 200, "\"workersMore\":0,");
    asked_once(&call, 200, "\"serversMore\":6}");
}

static void viewers_share_a_picture(void **state)
{
    (void)state;
    struct http_call first, second;
    start_picture(&first);
    look_at_page(&second);
    wait_until(clients() == 2);
    release();
    page_says(&first, 200, "\"lanes\"");
    page_says(&second, 200, "\"lanes\"");
    assert_string_equal(first.text, second.text);
    assert_int_equal(times(WORKER, RECORD), 1);
    free(first.text);
    free(second.text);
    asked_once(&first, 200, "\"lanes\"");
    assert_int_equal(times(WORKER, RECORD), 2);
}

static void a_trace_begins_when_the_picture_is_over(void **state)
{
    (void)state;
    struct http_call call;
    Gradus__V1__TraceJobRequest q = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    q.job = job_rig_job;
    q.steps = 7;
    q.timeout_ms = 1500;
    start_picture(&call);
    job_rig_ask_nobody(job_rig.channel, "Trace", &q.base);
    wait_until(clients() == 2);
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    release();
    page_says(&call, 200, "\"lanes\"");
    free(call.text);
    pthread_mutex_lock(&job_rig.lock);
    wait_until_signalled(job_rig.ended, &job_rig.changed, &job_rig.lock);
    assert_int_equal(job_rig.end.code, 0);
    pthread_mutex_unlock(&job_rig.lock);
    const struct heard *last = &rig.heard[rig.count - 2];
    assert_true(last->who == WORKER && last->action == RECORD && last->steps == 7);

    start_picture(&call); /* one that goes away before its turn is not recorded for */
    job_rig_ask_nobody(from, "Trace", &q.base);
    wait_until(clients() == 2);
    rpc_channel_free(from);
    wait_until(clients() == 1);
    release();
    page_says(&call, 200, "\"lanes\"");
    free(call.text);
    assert_int_equal(times(WORKER, RECORD), 3);
    assert_int_equal(times(WORKER, TAKE), 0);
    assert_int_equal(under_way(), 0);
}

static void jobs_on_one_server_take_turns(void **state)
{
    (void)state;
    struct http_call first, second;
    Gradus__V1__TraceJobRequest q = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    rig.spans = 3;
    begin_other(one_server);
    start_picture(&first);
    look_at(&second, other_job);
    wait_until(clients() == 2);
    q.job = job_rig_job;
    q.steps = 7;
    q.timeout_ms = 60000;
    job_rig_ask_nobody(job_rig.channel, "Trace", &q.base);
    wait_until(clients() == 3);
    assert_int_equal(asked_to_record(PS, other_job), rig.count);
    release();
    page_says(&first, 200, "\"job\":\"demo-1\"");
    page_says(&second, 200, "\"job\":\"other-2\"");
    page_says(&second, 200, "{\"node\":\"ps-1\",\"problem\":\"\"");
    pthread_mutex_lock(&job_rig.lock);
    wait_until_signalled(job_rig.ended, &job_rig.changed, &job_rig.lock);
    assert_int_equal(job_rig.end.code, 0);
    pthread_mutex_unlock(&job_rig.lock);
    assert_int_equal(times(PS, TAKE), 3);
    const struct heard *last = &rig.heard[rig.count - 1]; /* who came first was first */
    assert_string_equal(last->job, job_rig_job);
    free(first.text);
    free(second.text);

    rig.count = 0; /* a trace of the other one waits as well */
    start_picture(&first);
    q.job = other_job;
    job_rig_ask_nobody(job_rig.channel, "Trace", &q.base);
    wait_until(clients() == 2);
    release();
    page_says(&first, 200, "\"lanes\"");
    pthread_mutex_lock(&job_rig.lock);
    wait_until_signalled(job_rig.ended, &job_rig.changed, &job_rig.lock);
    assert_int_equal(job_rig.end.code, 0);
    pthread_mutex_unlock(&job_rig.lock);
    assert_in_range(asked_to_record(PS, other_job), 1, rig.count - 1);
    free(first.text);
}

static void jobs_on_other_servers_do_not(void **state)
{
    (void)state;
    struct http_call first, second;
    static char elsewhere[] = "ps-2", *servers[] = {elsewhere};
    begin_other(servers);
    start_picture(&first);
    rig.holds = false;
    look_at(&second, other_job);
    page_says(&second, 200, "\"job\":\"other-2\"");
    free(second.text);
    release();
    page_says(&first, 200, "\"lanes\"");
    free(first.text);
}

static void have_no_time(void *ctx)
{
    (void)ctx;
    job_rig.shell.pictures.all_ms = 0;
}

static void a_turn_may_come_too_late(void **state)
{
    (void)state;
    struct http_call first, second;
    begin_other(one_server);
    start_picture(&first);
    look_at(&second, other_job);
    wait_until(clients() == 2);
    assert_int_equal(loop_call(job_rig.shell.loop, have_no_time, NULL, NULL), 0);
    release();
    page_says(&first, 200, "\"lanes\"");
    page_says(&second, 429, "other jobs on its servers are looked at; the picture of job other-2");
    free(first.text);
    free(second.text);
    wait_until_none();
}

static void a_picture_may_be_refused(void **state)
{
    (void)state;
    struct http_call call;
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    start_held(from);
    asked_once(&call, 409, "somebody records job demo-1 with gradus trace");
    begin_other(one_server);
    look_at(&call, other_job);
    page_says(&call, 409, "somebody records another job on the servers of job other-2");
    assert_null(strstr(call.text, job_rig_job));
    free(call.text);
    rpc_channel_free(from);
    wait_until_none();
    rig.holds = false;
    job_rig.record.state = JOB_PAUSED;
    asked_once(&call, 409, "job demo-1 is PAUSED; only a running job can be traced");
    job_rig.record.state = JOB_RUNNING;
    job_rig.shell.trace_count = 4; /* the others are for who asks for a trace */
    asked_once(&call, 429, "4 traces are being recorded");
    Gradus__V1__TraceJobRequest q = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    struct rpc_msg *reply;
    q.job = job_rig_job;
    q.steps = 7;
    q.timeout_ms = 1500;
    assert_non_null(job_rig_ask("Trace", &q.base, &reply));
    rpc_msg_unref(reply);
    job_rig.shell.trace_count = 0;
    rig.fails[(int)WORKER] = RECORD;
    asked_once(&call, 429, "no worker of job demo-1 could be traced: w-1: ");
    rig.refusal = ERR_EXISTS; /* another master's trace, say */
    asked_once(&call, 409, "no worker of job demo-1 could be traced: w-1: ");
}

static void only_so_many_wait(void **state)
{
    (void)state;
    enum { MOST = 32 };
    static struct http_call all[MOST], one, other;
    struct rpc_msg *reply;
    Gradus__V1__TraceJobRequest q = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    begin_other(one_server);
    start_picture(&all[0]);
    for (size_t i = 1; i < MOST; i++) {
        look_at_page(&all[i]);
    }
    asked_once(&one, 429, "32 viewers wait for this picture already");
    look_at(&other, other_job); /* has viewers of its own */
    wait_until(clients() == MOST + 1);
    q.job = job_rig_job;
    q.steps = 7;
    q.timeout_ms = 60000;
    for (size_t i = 0; i < 8; i++) { /* and traces have a limit of their own */
        job_rig_ask_nobody(job_rig.channel, "Trace", &q.base);
    }
    wait_until(clients() == MOST + 1 + 8);
    assert_null(job_rig_ask("Trace", &q.base, &reply));
    job_rig_assert_refused(NULL, ERR_EXHAUSTED, "8 traces wait already until a picture is over");
    end_master();
    for (size_t i = 0; i < MOST; i++) {
        page_says(&all[i], 503, "the master is stopping");
        free(all[i].text);
    }
    page_says(&other, 503, "the master is stopping");
    free(other.text);
    release();
    wait_until_none();
    go_on();
}

static void viewers_hear_that_the_master_ends(void **state)
{
    (void)state;
    static struct http_call all[2];
    start_picture(&all[0]);
    look_at_page(&all[1]);
    wait_until(clients() == 2);
    end_master();
    for (size_t i = 0; i < 2; i++) {
        page_says(&all[i], 503, "the master is stopping");
        free(all[i].text);
    }
    release();
    wait_until_none();
    go_on();
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_picture_has_what_gradus_timeline_draws),
        TEST(a_picture_has_only_so_much),
        TEST(a_picture_comes_in_time),
        TEST(viewers_share_a_picture),
        TEST(jobs_on_one_server_take_turns),
        TEST(jobs_on_other_servers_do_not),
        TEST(a_turn_may_come_too_late),
        TEST(a_trace_begins_when_the_picture_is_over),
        TEST(a_picture_may_be_refused),
        TEST(only_so_many_wait),
        TEST(viewers_hear_that_the_master_ends),
    };
    return cmocka_run_group_tests_name("on_timeline", tests, set_up, tear_down);
}
