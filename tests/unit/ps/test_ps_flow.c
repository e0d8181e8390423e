/* SPDX-License-Identifier: Apache-2.0 */
/* Back-pressure: a server without memory for another gradient reads on when it has some. */
#include "ps_step.h"

static void push_async(struct client *c, uint64_t exchange, uint32_t split, uint32_t batch)
{
    for (uint64_t at = 0; at < ELEMENTS; at += ELEMENTS / 4) {
        struct chunk k = async_part(exchange, split, batch, at, ELEMENTS / 4);
        send_chunk(c, &k);
    }
}

#define CROWD 8
#define STEPS 4

/* Every worker sends all at once; the step needs all of them, and there is room for few. */
static void test_a_step_of_more_than_fits(void **state)
{
    (void)state;
    struct ps_rig rig;
    static struct client c[CROWD];
    step_start(&rig, "sync", CROWD, 5); /* four may wait for their siblings */
    for (size_t i = 0; i < CROWD; i++) {
        exchange_open(&c[i], &rig);
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < CROWD; i++) {
            uint32_t replica = (i * 5 + 3) % CROWD; /* siblings are far apart */
            send_push(&c[i], job, step, step, replica, replica + 1, 1 << 13, true);
        }
        for (size_t i = 0; i < CROWD; i++) {
            struct answer *a = wait_answer(&c[i], step);
            assert_int_equal(a->code, 0);
            assert_int_equal(a->version, step + 1);
        }
        assert_true(meter_value(rig.ps->gradient_memory.bytes) <= 5.0 * (double)GRADIENT_BYTES);
    }
    const float *values = c[0].answers[STEPS - 1].values;
    for (size_t i = 0; i < ELEMENTS; i++) {
        float want = initial[i];
        for (size_t step = 0; step < STEPS; step++) {
            want -= 0.01F * (CROWD * (float)(i % 31) * (1.0F / (10 * CROWD)));
        }
        assert_memory_equal(&values[i], &want, sizeof want);
    }
    expect_all_given_back(&rig);
    for (size_t i = 0; i < CROWD; i++) {
        exchange_close(&c[i]);
    }
    ps_rig_stop(&rig);
}

/* Room for one gradient: each push is applied once, on streams that are there and on a new one. */
struct push_once {
    struct ps_rig *rig;
    uint32_t split, batch;
    int rc;
    Gradus__V1__PushResult result;
};

static void *push_once(void *arg)
{
    struct push_once *u = arg;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    struct err err;
    push.split = u->split;
    push.batch = u->batch;
    push.examples = 10;
    u->rc = ps_rig_push_to(u->rig, &ref, &push, gradient, ELEMENTS, &u->result, &err);
    return NULL;
}

static void test_room_for_one(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    struct push_once u = {.rig = &rig, .split = 2};
    pthread_t thread;
    struct err err;
    uint64_t version;
    static float values[ELEMENTS];
    step_start(&rig, "async", 1, 1);
    exchange_open(&c[0], &rig);
    exchange_open(&c[1], &rig);
    begin_gradient(&rig, &c[0], 0);
    push_async(&c[1], 0, 1, 0);
    push_async(&c[1], 1, 1, 1);
    wait_for_waits(&rig, 1);
    assert_int_equal(pthread_create(&thread, NULL, push_once, &u), 0);
    wait_for_waits(&rig, 2);
    (void)ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values, &version, &err);
    assert_int_equal(version, 0); /* who reads does not wait */
    end_gradient(&c[0], 0);
    push_async(&c[0], 1, 0, 1);
    pthread_join(thread, NULL);
    assert_int_equal(u.rc, 0);
    assert_int_equal(u.result, GRADUS__V1__PUSH_RESULT__APPLIED);
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t x = 0; x < 2; x++) {
            struct answer *a = wait_answer(&c[i], x);
            assert_int_equal(a->code, 0);
            assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        }
    }
    (void)ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values, &version, &err);
    assert_int_equal(version, 5);
    expect_all_given_back(&rig);
    assert_true(meter_value(rig.ps->gradient_memory.wait_seconds) > 0);
    exchange_close(&c[0]);
    exchange_close(&c[1]);
    ps_rig_stop(&rig);
}

/* A stream that ends while it waits, and one that holds memory. */
static void test_the_ends_of_who_waits(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[3];
    step_start(&rig, "async", 1, 1);
    for (size_t i = 0; i < 3; i++) {
        exchange_open(&c[i], &rig);
    }
    begin_gradient(&rig, &c[0], 0);
    push_async(&c[1], 0, 1, 0);
    wait_for_waits(&rig, 1);
    exchange_close(&c[1]);
    push_async(&c[2], 0, 1, 0);
    wait_for_waits(&rig, 2);
    exchange_close(&c[0]); /* with half a gradient: the third one goes on */
    struct answer *a = wait_answer(&c[2], 0);
    assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(a->version, 1);
    expect_all_given_back(&rig);
    exchange_close(&c[2]);
    ps_rig_stop(&rig);
}

static void test_a_shard_closes_over_those_who_wait(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    struct push_once u = {.rig = &rig, .split = 2};
    pthread_t thread;
    struct err err;
    step_start(&rig, "async", 1, 1);
    exchange_open(&c[0], &rig);
    exchange_open(&c[1], &rig);
    begin_gradient(&rig, &c[0], 0);
    push_async(&c[1], 0, 1, 0);
    assert_int_equal(pthread_create(&thread, NULL, push_once, &u), 0);
    wait_for_waits(&rig, 2);
    Gradus__V1__CloseShardRequest r = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    ps_rig_expect(ps_rig_call(&rig, "CloseShard", &r.base, NULL, 0, NULL, &err), 0, &err, "");
    pthread_join(thread, NULL);
    assert_int_equal(u.rc, ERR_NOT_FOUND);
    for (size_t i = 0; i < 2; i++) { /* half a gradient, or none: it is over */
        wait_over(&c[i]);
        assert_int_equal(c[i].code, ERR_NOT_FOUND);
    }
    expect_all_given_back(&rig);
    exchange_close(&c[0]);
    exchange_close(&c[1]);
    ps_rig_stop(&rig);
}

/* Clients that stopped, one in the middle of a gradient, one that does not read its answers: what
 * they hold is free when the shard is closed, and not when their connections count as lost. */
static void test_a_closed_shard_holds_nothing(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client writer, reader;
    struct err err;
    Gradus__V1__CloseShardRequest r = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    /* Two versions, two slots, their copy and a gradient; not half of it twice. */
    ps_rig_start(&rig, 8 * ELEMENTS * sizeof(float));
    ps_rig_expect(ps_rig_open(&rig, job, "async", "adam", 1, 1, &err), 0, &err, "");
    exchange_open(&writer, &rig);
    exchange_open(&reader, &rig);
    rpc_stream_pause(reader.stream);
    for (uint64_t i = 0; i < EXCHANGES; i++) {
        struct chunk pull = {.exchange = i, .job = job, .first = true, .pull = true};
        send_chunk(&reader, &pull);
    }
    begin_gradient(&rig, &writer, 0);
    r.shard = &ref;
    ps_rig_expect(ps_rig_call(&rig, "CloseShard", &r.base, NULL, 0, NULL, &err), 0, &err, "");
    ps_rig_expect(ps_rig_open(&rig, job, "async", "adam", 2, 1, &err), 0, &err, "");
    wait_over(&writer);
    assert_int_equal(writer.code, ERR_NOT_FOUND);
    rpc_stream_resume(reader.stream);
    exchange_close(&writer);
    exchange_close(&reader);
    ps_rig_stop(&rig);
}

/* The end of the server finds everybody waiting. */
static void test_the_server_stops(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    struct push_once u = {.rig = &rig, .split = 2};
    pthread_t thread;
    step_start(&rig, "async", 1, 1);
    exchange_open(&c[0], &rig);
    exchange_open(&c[1], &rig);
    begin_gradient(&rig, &c[0], 0);
    push_async(&c[1], 0, 1, 0);
    assert_int_equal(pthread_create(&thread, NULL, push_once, &u), 0);
    wait_for_waits(&rig, 2);
    ps_drain(rig.ps);
    pthread_join(thread, NULL);
    assert_int_equal(u.rc, ERR_UNAVAILABLE);
    wait_over(&c[1]);
    assert_int_equal(c[1].code, ERR_UNAVAILABLE);
    exchange_close(&c[0]);
    exchange_close(&c[1]);
    ps_rig_stop(&rig);
}

/* Gradients of the old workers make room when a new generation begins. */
static void test_a_generation_makes_room(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[3];
    struct err err;
    char w0[] = "w0";
    char *workers[] = {w0};
    step_start(&rig, "sync", 2, 2);
    for (size_t i = 0; i < 3; i++) {
        exchange_open(&c[i], &rig);
    }
    send_push(&c[0], job, 0, 0, 0, 1, ELEMENTS, false);
    assert_int_equal(wait_answer(&c[0], 0)->push, GRADUS__V1__PUSH_RESULT__ACCEPTED);
    struct chunk half = {.exchange = 0,
                         .job = job,
                         .first = true,
                         .push = true,
                         .examples = 10,
                         .lo = 1,
                         .hi = 2,
                         .total = ELEMENTS,
                         .floats = ELEMENTS / 2};
    send_chunk(&c[1], &half);
    wait_for_bytes(&rig, 2);
    send_push(&c[2], job, 0, 0, 1, 2, ELEMENTS, false);
    wait_for_waits(&rig, 1);
    Gradus__V1__SetMembershipRequest r = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 2);
    r.shard = &ref;
    r.workers = workers;
    r.n_workers = 1;
    ps_rig_expect(ps_rig_call(&rig, "SetMembership", &r.base, NULL, 0, NULL, &err), 0, &err, "");
    assert_int_equal(wait_answer(&c[2], 0)->code, -ERR_ABORTED);
    for (uint32_t i = 0; i < 2; i++) {
        struct chunk whole = {.exchange = 1,
                              .job = job,
                              .generation = 2,
                              .first = true,
                              .push = true,
                              .examples = 10,
                              .lo = i,
                              .hi = i + 1,
                              .total = ELEMENTS,
                              .floats = ELEMENTS};
        if (i == 1) { /* what an old one has not sent to its end holds memory as long */
            send_chunk(&c[2], &whole);
            wait_for_waits(&rig, 2);
            half.first = false;
            half.offset = ELEMENTS / 2;
            send_chunk(&c[1], &half);
            assert_int_equal(wait_answer(&c[1], 0)->code, -ERR_ABORTED);
            assert_int_equal(wait_answer(&c[2], 1)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        } else {
            assert_int_equal(exchange(&c[0], &whole)->push, GRADUS__V1__PUSH_RESULT__ACCEPTED);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        exchange_close(&c[i]);
    }
    ps_rig_stop(&rig);
}

static void test_interleaved_gradients_need_room_for_all(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    step_start(&rig, "async", 1, 1);
    exchange_open(&c, &rig);
    begin_gradient(&rig, &c, 0);
    struct chunk other = async_part(1, 1, 0, 0, ELEMENTS);
    expect_refusal(&c, &other, ERR_EXHAUSTED,
                   "job a-1 shard 0: exchange 1: no memory for another gradient before the one of "
                   "exchange 0 is complete");
    end_gradient(&c, 0);
    assert_int_equal(wait_answer(&c, 0)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(exchange(&c, &other)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

static void test_what_a_job_needs_at_least(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char other[] = "b-2";
    step_start(&rig, "sync", 4, 3);
    ps_rig_expect(ps_rig_open(&rig, other, "async", "sgd", 1, 1, &err), ERR_EXHAUSTED, &err,
                  "job b-2 shard 0: 1 gradients of 240240 bytes, which it may have to hold at a "
                  "time, are too many: 720720 bytes are promised to others and "
                  "--gradient-bytes-max is 720720");
    ps_drop(rig.ps, job, 0);
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "sgd", 1, 6, &err), ERR_RANGE, &err,
                  "4 gradients of 240240 bytes");
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "sgd", 1, 4, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_of_more_than_fits),
        cmocka_unit_test(test_room_for_one),
        cmocka_unit_test(test_the_ends_of_who_waits),
        cmocka_unit_test(test_a_shard_closes_over_those_who_wait),
        cmocka_unit_test(test_a_closed_shard_holds_nothing),
        cmocka_unit_test(test_the_server_stops),
        cmocka_unit_test(test_a_generation_makes_room),
        cmocka_unit_test(test_interleaved_gradients_need_room_for_all),
        cmocka_unit_test(test_what_a_job_needs_at_least),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
