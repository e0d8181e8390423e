/* SPDX-License-Identifier: Apache-2.0 */
/* The picture that the page shows of a running job: what is in it, who shares it, who waits for it,
 * and what is refused. The nodes are asked over real gRPC; requests over HTTP are a table. */
#include "calls/trace_call_rig.h"

#include <stdlib.h>
#include <string.h>

#include "auth/auth_table.h"
#include "base/mem.h"
#include "master/shell/page_asked.h"
#include "master/shell/trace_calls.h"
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

static void look_at_page(struct http_call *call)
{
    struct page_asked *a = mem_new(1, sizeof *a);
    struct request *r = mem_new(1, sizeof *r);
    *call = (struct http_call){0};
    gradus__v1__trace_job_request__init(&a->body.trace);
    a->job = mem_strdup(job_rig_job);
    a->body.trace.job = a->job;
    a->body.trace.steps = 12;
    a->body.trace.timeout_ms = 3000;
    a->msg.body = &a->body.trace.base;
    *r = (struct request){
        .shell = &job_rig.shell, .page = call, .asked = a, .msg = &a->msg, .run = run_trace};
    request_post(r);
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

static void count_clients(void *ctx)
{
    const struct tracing *t = job_rig.shell.traces;
    *(size_t *)ctx = t == NULL ? 0 : t->client_count;
}

static size_t clients(void)
{
    size_t n = 0;
    assert_int_equal(loop_call(job_rig.shell.loop, count_clients, &n, NULL), 0);
    return n;
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
    assert_int_equal(ps->timeout_ms, 3000 + 2 * 1500);
    assert_true(worker->steps == 12 && worker->timeout_ms == 3000);
    assert_int_equal(under_way(), 0);
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
    assert_in_range(boxes, 2000, 12000);
    free(call.text);
    rig.spans = 0;
    job_rig.record.workers = (struct job_names){.items = worker_ids, .count = 1};
    asked_once(&call, 200, "\"lengthNs\":0,"); /* nothing was done in that time */
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

static void a_picture_may_be_refused(void **state)
{
    (void)state;
    struct http_call call;
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    start_held(from);
    asked_once(&call, 409, "somebody records job demo-1 with gradus trace");
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
}

static void viewers_hear_that_the_master_ends(void **state)
{
    (void)state;
    enum { MOST = 32 };
    static struct http_call all[MOST], one;
    start_picture(&all[0]);
    for (size_t i = 1; i < MOST; i++) {
        look_at_page(&all[i]);
    }
    asked_once(&one, 429, "32 viewers wait for this picture already");
    end_master();
    for (size_t i = 0; i < MOST; i++) {
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
        TEST(viewers_share_a_picture),
        TEST(a_trace_begins_when_the_picture_is_over),
        TEST(a_picture_may_be_refused),
        TEST(viewers_hear_that_the_master_ends),
    };
    return cmocka_run_group_tests_name("on_timeline", tests, set_up, tear_down);
}
