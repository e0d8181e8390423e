/* SPDX-License-Identifier: Apache-2.0 */
/* What shards did, as Trace gives it out. */
#include "exchange_rig.h"

#include "os/chrono.h"

static char job[] = "a-1";

static int trace(struct ps_rig *rig, int action, char *of, uint64_t id, struct rpc_msg **reply,
                 struct err *err)
{
    Gradus__V1__TraceRequest q = GRADUS__V1__TRACE_REQUEST__INIT;
    q.action = (Gradus__V1__TraceRequest__Action)action;
    q.job = of;
    q.id = id;
    q.timeout_ms = 600000;
    return ps_rig_call(rig, "Trace", &q.base, NULL, 0, reply, err);
}

static void start(struct ps_rig *rig)
{
    struct err err;
    ps_rig_start(rig, 0);
    ps_rig_expect(ps_rig_open(rig, job, "sync", "sgd", 1, 2, &err), 0, &err, "");
}

static const Gradus__V1__Span *find(const Gradus__V1__TraceResponse *r, Gradus__V1__SpanKind kind,
                                    const char *worker)
{
    for (size_t i = 0; i < r->n_spans; i++) {
        const Gradus__V1__Span *s = r->spans[i];
        bool is_its = worker == NULL || (s->worker > 0 && s->worker <= r->n_workers &&
                                         strcmp(r->workers[s->worker - 1], worker) == 0);
        if (s->kind == kind && is_its) {
            return s;
        }
    }
    return NULL;
}

static uint64_t end_of(const Gradus__V1__Span *s)
{
    return s->begin_ns + s->ns;
}

static void test_a_step(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    struct err err;
    struct rpc_msg *reply;
    start(&rig);
    exchange_open(&c[0], &rig);
    exchange_open(&c[1], &rig);
    uint64_t before_ns = chrono_now_ns();
    ps_rig_expect(trace(&rig, 1, job, 5, NULL, &err), 0, &err, "");
    for (uint32_t w = 0; w < 2; w++) {
        send_push(&c[w], job, 3, 0, w, w + 1, 1 << 14, true);
    }
    assert_int_equal(wait_answer(&c[0], 3)->code, 0);
    assert_int_equal(wait_answer(&c[1], 3)->code, 0);
    ps_rig_expect(trace(&rig, 2, job, 5, &reply, &err), 0, &err, "");
    const Gradus__V1__TraceResponse *r = (const Gradus__V1__TraceResponse *)reply->body;
    assert_true(r->clock_ns >= before_ns && r->clock_ns <= chrono_now_ns());
    assert_int_equal(r->lost, 0);
    assert_int_equal(r->n_workers, 1); /* both clients say the same name */
    const Gradus__V1__Span *chunk = find(r, GRADUS__V1__SPAN_KIND__SPAN_CHUNK, "w0");
    const Gradus__V1__Span *queue = find(r, GRADUS__V1__SPAN_KIND__SPAN_QUEUE, "w0");
    const Gradus__V1__Span *apply = find(r, GRADUS__V1__SPAN_KIND__SPAN_APPLY, NULL);
    const Gradus__V1__Span *answer = find(r, GRADUS__V1__SPAN_KIND__SPAN_ANSWER, "w0");
    assert_true(chunk != NULL && queue != NULL && apply != NULL && answer != NULL);
    assert_int_equal(chunk->bytes, (1 << 14) * sizeof(float));
    assert_int_equal(chunk->exchange, 3);
    assert_int_equal(apply->step, 1);
    assert_true(chunk->begin_ns >= before_ns && end_of(chunk) <= apply->begin_ns);
    assert_int_equal(end_of(queue), apply->begin_ns);
    assert_true(answer->begin_ns >= apply->begin_ns); /* inside of it, or behind */
    rpc_msg_unref(reply);
    exchange_close(&c[0]);
    exchange_close(&c[1]);
    ps_rig_stop(&rig);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct rpc_msg *reply;
    char none[] = "b-1", all[] = "";
    start(&rig);
    ps_rig_expect(trace(&rig, 0, none, 0, &reply, &err), 0, &err, ""); /* the clock alone */
    const Gradus__V1__TraceResponse *r = (const Gradus__V1__TraceResponse *)reply->body;
    assert_true(r->clock_ns > 0 && r->clock_ns <= chrono_now_ns());
    assert_int_equal(r->n_spans, 0);
    rpc_msg_unref(reply);
    ps_rig_expect(trace(&rig, 1, none, 1, NULL, &err), ERR_NOT_FOUND, &err, "job b-1");
    ps_rig_expect(trace(&rig, 1, all, 1, NULL, &err), ERR_NOT_FOUND, &err, "no shard");
    ps_rig_expect(trace(&rig, 2, job, 1, NULL, &err), ERR_NOT_FOUND, &err, "no such trace");
    ps_rig_expect(trace(&rig, 1, job, 1, NULL, &err), ERR_CANCELLED, &err, "taken already");
    ps_rig_expect(trace(&rig, 1, job, 2, NULL, &err), 0, &err, "");
    ps_rig_expect(trace(&rig, 1, job, 2, NULL, &err), 0, &err, ""); /* said twice */
    ps_rig_expect(trace(&rig, 1, job, 3, NULL, &err), ERR_EXISTS, &err, "job a-1");
    ps_rig_expect(trace(&rig, 2, job, 3, NULL, &err), ERR_NOT_FOUND, &err, "no such trace");
    ps_rig_expect(trace(&rig, 3, job, 2, NULL, &err), ERR_INVALID, &err, "action 3");
    ps_rig_expect(trace(&rig, 2, job, 2, NULL, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step),
        cmocka_unit_test(test_what_is_refused),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
