/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange stream, over real gRPC. */
#include "ps_step.h"

#include "os/chrono.h"
#include "support/wait_until.h"

static void test_chunks_out_and_back(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    const uint64_t sizes[] = {ELEMENTS, 1 << 14, 1001};
    for (size_t i = 0; i < 3; i++) {
        step_start(&rig, "sync", 1, 0);
        exchange_open(&c, &rig);
        send_push(&c, job, 3, 0, 0, 1, sizes[i], true);
        struct answer *a = wait_answer(&c, 3);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        assert_int_equal(a->version, 1);
        assert_int_equal(a->generation, 1);
        assert_int_equal(a->messages, (ELEMENTS * sizeof(float) + (64 << 10) - 1) / (64 << 10));
        check_step(a->values, 1, 10);
        exchange_close(&c);
        ps_rig_stop(&rig);
    }
}

static void test_two_clients_make_a_step(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    step_start(&rig, "sync", 2, 0);
    exchange_open(&c[0], &rig);
    exchange_open(&c[1], &rig);
    for (uint64_t step = 0; step < 5; step++) {
        for (uint32_t w = 0; w < 2; w++) {
            send_push(&c[w], job, step, step, w, w + 1, 1 << 14, true);
        }
        struct answer *a = wait_answer(&c[0], step);
        struct answer *b = wait_answer(&c[1], step);
        assert_int_equal(a->code, 0);
        assert_int_equal(b->code, 0);
        assert_int_equal(a->version, step + 1);
        assert_memory_equal(a->values, b->values, ELEMENTS * sizeof(float));
    }
    check_step(c[0].answers[0].values, 2, 20);
    send_push(&c[1], job, 9, 2, 1, 2, ELEMENTS, false); /* an answer that got lost */
    assert_int_equal(wait_answer(&c[1], 9)->push, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    exchange_close(&c[0]);
    exchange_close(&c[1]);
    ps_rig_stop(&rig);
}

/* What the shard says of the time of an exchange is between what can be measured outside. */
static void test_answers_say_how_long_it_took(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    step_start(&rig, "sync", 2, 0);
    exchange_open(&c[0], &rig);
    exchange_open(&c[1], &rig);
    uint64_t sent_ns = chrono_now_ns();
    send_push(&c[0], job, 0, 0, 0, 1, ELEMENTS, true);
    send_push(&c[0], job, 1, 0, 0, 1, ELEMENTS, false); /* behind it on the same stream */
    assert_int_equal(wait_answer(&c[0], 1)->push, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    uint64_t waits_ns = chrono_now_ns();
    wait_until(chrono_now_ns() >= waits_ns + 2000000);
    send_push(&c[1], job, 0, 0, 1, 2, ELEMENTS, true);
    const struct answer *first = wait_answer(&c[0], 0);
    const struct answer *last = wait_answer(&c[1], 0);
    uint64_t over_us = (chrono_now_ns() - sent_ns) / 1000;
    assert_int_equal(first->code, 0);
    assert_true(first->waited_us >= 2000);
    assert_true(first->waited_us + first->applied_us <= over_us + 1);
    assert_true(last->waited_us + last->applied_us + 2000 <= over_us + 1);
    exchange_close(&c[0]);
    exchange_close(&c[1]);
    ps_rig_stop(&rig);
}

static void test_exchanges_interleave(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    step_start(&rig, "sync", 2, 0);
    exchange_open(&c, &rig);
    const uint64_t half = ELEMENTS / 2;
    for (uint64_t part = 0; part < 2; part++) {
        for (uint32_t r = 0; r < 2; r++) {
            struct chunk k = {.exchange = r,
                              .job = job,
                              .first = part == 0,
                              .push = true,
                              .examples = 10,
                              .lo = r,
                              .hi = r + 1,
                              .offset = part * half,
                              .total = ELEMENTS,
                              .floats = half};
            send_chunk(&c, &k);
        }
    }
    assert_int_equal(wait_answer(&c, 0)->push, GRADUS__V1__PUSH_RESULT__ACCEPTED);
    assert_int_equal(wait_answer(&c, 1)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    struct chunk pull = {.exchange = 2, .job = job, .first = true, .pull = true};
    send_chunk(&c, &pull);
    check_step(wait_answer(&c, 2)->values, 2, 20);
    struct chunk empty = {
        .exchange = 4, .job = job, .first = true, .push = true, .step = 1, .hi = 2};
    send_chunk(&c, &empty);
    assert_int_equal(wait_answer(&c, 4)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(c.answers[4].total, 0);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* As a gradient is made: its last part first, with a gap that is filled at the end. */
static void test_chunks_in_any_order(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    const uint64_t bounds[] = {0, 17, 20000, 40000, ELEMENTS};
    const size_t order[] = {3, 1, 0, 2};
    step_start(&rig, "sync", 1, 0);
    exchange_open(&c, &rig);
    for (size_t i = 0; i < 4; i++) {
        struct chunk k = {.job = job,
                          .first = i == 0,
                          .push = true,
                          .pull = true,
                          .examples = 10,
                          .hi = 1,
                          .offset = bounds[order[i]],
                          .total = ELEMENTS,
                          .floats = bounds[order[i] + 1] - bounds[order[i]]};
        send_chunk(&c, &k);
    }
    struct answer *a = wait_answer(&c, 0);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    check_step(a->values, 1, 10);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* Until so many messages of an exchange came: one may be refused, and its number used again. */
static void wait_messages(struct client *c, uint64_t exchange, unsigned count)
{
    pthread_mutex_lock(&c->lock);
    wait_until_signalled(c->answers[exchange].messages >= count, &c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

/* Each element once: what comes again ends the exchange, whose rest is skipped. */
static void test_chunks_that_overlap(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    step_start(&rig, "sync", 1, 0);
    exchange_open(&c, &rig);
    struct chunk k = {.job = job,
                      .first = true,
                      .push = true,
                      .examples = 10,
                      .hi = 1,
                      .offset = ELEMENTS - 100,
                      .total = ELEMENTS,
                      .floats = 100};
    send_chunk(&c, &k);
    k.first = false;
    k.offset = ELEMENTS - 150;
    k.floats = 51;
    expect_refusal(&c, &k, ERR_INVALID,
                   "job a-1 shard 0: exchange 0: 204 bytes of values at element 59910: element "
                   "59960 came before");
    k.offset = 0;
    k.floats = ELEMENTS - 151;
    send_chunk(&c, &k);
    send_push(&c, job, 0, 0, 0, 1, ELEMENTS, false); /* nothing of it is left */
    wait_messages(&c, 0, 2);
    assert_int_equal(c.answers[0].push, GRADUS__V1__PUSH_RESULT__APPLIED);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* An error ends its exchange, and nothing else. */
static void test_garbage_is_refused(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char other[] = "b-2";
    struct err err;
    step_start(&rig, "sync", 1, 0);
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "sgd", 1, 1, &err), 0, &err, "");
    exchange_open(&c, &rig);
    struct chunk k = {.exchange = 0, .job = job, .total = 8};
    expect_refusal(&c, &k, ERR_INVALID, "exchange 0: its first message does not name a shard");
    char nowhere[] = "z-9";
    k = (struct chunk){.exchange = 1, .job = nowhere, .first = true, .pull = true};
    expect_refusal(&c, &k, ERR_NOT_FOUND, "job z-9 shard 0: not on this server");
    k = (struct chunk){
        .exchange = 2, .job = job, .first = true, .push = true, .total = 7, .floats = 7};
    expect_refusal(&c, &k, ERR_INVALID,
                   "job a-1 shard 0: exchange 2: 7 gradient elements; expected 60060");
    k = (struct chunk){.exchange = 3, .job = job, .first = true, .pull = true, .total = ELEMENTS};
    expect_refusal(&c, &k, ERR_INVALID, "expected 0");
    k = (struct chunk){.exchange = 4,
                       .job = job,
                       .first = true,
                       .push = true,
                       .hi = 1,
                       .examples = 1,
                       .offset = ELEMENTS - 5,
                       .total = ELEMENTS,
                       .floats = 10};
    expect_refusal(&c, &k, ERR_INVALID,
                   "40 bytes of values at element 60055: there are 60060 elements");
    k.first = false;
    k.offset = 0;
    k.floats = ELEMENTS - 10;
    send_chunk(&c, &k); /* what the client had sent meanwhile is skipped */
    k = (struct chunk){.exchange = 5, .job = other, .first = true, .pull = true};
    expect_refusal(&c, &k, ERR_INVALID, "job b-2 shard 0: this stream carries another shard");
    k = (struct chunk){.exchange = 6, .job = job, .first = true};
    expect_refusal(&c, &k, ERR_INVALID, "neither a push nor a pull");
    k = (struct chunk){.exchange = 8, .job = job, .first = true, .nothing = true};
    expect_refusal(&c, &k, ERR_INVALID,
                   "job a-1 shard 0: exchange 8: its first message does not say what it is");
    k = (struct chunk){
        .exchange = 9, .job = job, .first = true, .nothing = true, .total = ELEMENTS};
    expect_refusal(&c, &k, ERR_INVALID, "does not say what it is");
    k = (struct chunk){
        .exchange = 7, .job = job, .first = true, .pull = true, .kind = (Gradus__V1__Pull__Kind)77};
    expect_refusal(&c, &k, ERR_INVALID, "kind of pull 77");
    assert_int_equal(c.answers[4].messages, 1);
    send_push(&c, job, 4, 0, 0, 1, ELEMENTS, false); /* the number may be used again */
    wait_messages(&c, 4, 2);
    assert_int_equal(c.answers[4].push, GRADUS__V1__PUSH_RESULT__APPLIED);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

static void test_too_many_exchanges_end_the_stream(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    step_start(&rig, "sync", 1, 0);
    exchange_open(&c, &rig);
    for (uint64_t i = 0; i < 70; i++) {
        struct chunk k = {.exchange = 100 + i,
                          .job = job,
                          .first = true,
                          .push = true,
                          .total = ELEMENTS,
                          .floats = 1};
        send_chunk(&c, &k);
    }
    wait_over(&c);
    assert_int_equal(c.code, ERR_EXHAUSTED);
    exchange_close(&c);
    /* Its buffers are free again. */
    exchange_open(&c, &rig);
    send_push(&c, job, 1, 0, 0, 1, ELEMENTS, true);
    assert_int_equal(wait_answer(&c, 1)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

static void test_a_broken_stream_leaves_nothing_waiting(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    step_start(&rig, "sync", 2, 0);
    exchange_open(&c, &rig);
    send_push(&c, job, 1, 0, 0, 1, ELEMENTS, true);
    struct chunk pull = {.exchange = 2,
                         .job = job,
                         .first = true,
                         .pull = true,
                         .kind = GRADUS__V1__PULL__KIND__VERSION,
                         .version = 2};
    send_chunk(&c, &pull);
    struct chunk torso = {
        .exchange = 3, .job = job, .first = true, .push = true, .total = ELEMENTS, .floats = 100};
    send_chunk(&c, &torso); /* half of a push */
    wait_until(step_parked(&rig) == 2);
    exchange_close(&c);
    wait_until(step_parked(&rig) == 0);
    /* The push is in; sent again it is a duplicate, and the step goes on. */
    exchange_open(&c, &rig);
    send_push(&c, job, 1, 0, 0, 1, ELEMENTS, true);
    send_push(&c, job, 2, 0, 1, 2, ELEMENTS, true);
    assert_int_equal(wait_answer(&c, 1)->push, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    assert_int_equal(wait_answer(&c, 2)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    check_step(c.answers[1].values, 2, 20);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

static void test_half_close_waits_for_the_answers(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err;
    step_start(&rig, "sync", 1, 0);
    exchange_open(&c, &rig);
    struct chunk pull = {.exchange = 2,
                         .job = job,
                         .first = true,
                         .pull = true,
                         .kind = GRADUS__V1__PULL__KIND__VERSION,
                         .version = 1};
    send_chunk(&c, &pull);
    assert_int_equal(rpc_stream_half_close(c.stream), 0);
    wait_until(step_parked(&rig) == 1);
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 10, NULL, &err), 0, &err, "");
    wait_over(&c);
    assert_int_equal(c.code, 0);
    assert_true(c.answers[2].complete);
    check_step(c.answers[2].values, 1, 10);
    exchange_close(&c);
    exchange_open(&c, &rig); /* without a word */
    assert_int_equal(rpc_stream_half_close(c.stream), 0);
    wait_over(&c);
    assert_int_equal(c.code, 0);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* Whatever version a slow reader gets, it is whole. */
static void test_a_slow_reader_holds_nobody_up(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client slow;
    struct client fast;
    step_start(&rig, "sync", 1, 0);
    exchange_open(&slow, &rig);
    exchange_open(&fast, &rig);
    rpc_stream_pause(slow.stream);
    for (uint64_t step = 0; step < EXCHANGES; step++) {
        if (step == 4) {
            rpc_stream_resume(slow.stream);
        }
        struct chunk pull = {.exchange = step, .job = job, .first = true, .pull = true};
        send_chunk(&slow, &pull);
        send_push(&fast, job, step, step, 0, 1, ELEMENTS, true);
        struct answer *a = wait_answer(&fast, step);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->version, step + 1);
    }
    for (uint64_t step = 0; step < EXCHANGES; step++) {
        struct answer *a = wait_answer(&slow, step);
        assert_int_equal(a->code, 0);
        assert_memory_equal(a->values,
                            a->version == 0 ? initial : fast.answers[a->version - 1].values,
                            ELEMENTS * sizeof(float));
    }
    exchange_close(&slow);
    exchange_close(&fast);
    ps_rig_stop(&rig);
}

static void test_the_server_stops_with_open_streams(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    step_start(&rig, "sync", 2, 0);
    exchange_open(&c, &rig);
    send_push(&c, job, 1, 0, 0, 1, ELEMENTS, true);
    wait_until(step_parked(&rig) == 1);
    ps_drain(rig.ps);
    assert_int_equal(wait_answer(&c, 1)->code, -ERR_NOT_FOUND);
    rpc_server_stop(rig.server);
    wait_over(&c);
    assert_int_equal(c.code, ERR_UNAVAILABLE);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* ---- pins of a job that evaluates a moving average ---- */

static void pin(struct ps_rig *rig, char *id, bool slots)
{
    Gradus__V1__PinRequest r = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    struct err err;
    r.shard = &ref;
    r.pin_id = id;
    r.slots = slots;
    ps_rig_expect(ps_rig_call(rig, "Pin", &r.base, NULL, 0, NULL, &err), 0, &err, "");
}

/* By both ways of pulling. */
static void check_pinned(struct ps_rig *rig, struct client *c, char *id, const float *want)
{
    static float got[ELEMENTS];
    uint64_t version;
    struct err err;
    ps_rig_expect(ps_rig_pull(rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, id, got, &version, &err),
                  0, &err, "");
    assert_int_equal(version, 3);
    assert_memory_equal(got, want, sizeof got);
    struct chunk k = {.exchange = 2, .job = job, .first = true, .pin_id = id};
    struct answer *a = exchange(c, &k);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->version, 3);
    assert_true(a->messages > 1);
    assert_memory_equal(a->values, want, sizeof got);
}

static void test_pins_answer_with_the_average(void **state)
{
    (void)state;
    static float values[ELEMENTS], average[ELEMENTS];
    struct ps_rig rig;
    struct client c;
    struct err err;
    uint64_t version;
    char with[] = "with", without[] = "without";
    ps_rig_start(&rig, 0);
    ps_rig_expect(
        ps_rig_open(&rig, job, "sync", "adam, average: 0.5, evaluate_average: true", 1, 1, &err), 0,
        &err, "");
    exchange_open(&c, &rig);
    for (uint64_t step = 0;; step++) {
        (void)ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values, &version,
                          &err);
        assert_int_equal(version, step);
        for (size_t i = 0; i < ELEMENTS; i++) {
            average[i] = step == 0 ? values[i] : 0.5F * average[i] + 0.5F * values[i];
        }
        if (step == 3) {
            break;
        }
        forget_answer(&c, 1);
        send_push(&c, job, 1, step, 0, 1, ELEMENTS, true);
        assert_int_equal(wait_answer(&c, 1)->code, 0);
    }
    assert_memory_not_equal(average, values, sizeof values);
    pin(&rig, with, true);
    pin(&rig, without, false);
    forget_answer(&c, 1);
    send_push(&c, job, 1, 3, 0, 1, ELEMENTS, true); /* training goes on */
    assert_int_equal(wait_answer(&c, 1)->code, 0);
    check_pinned(&rig, &c, with, average);
    check_pinned(&rig, &c, without, values);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_out_and_back),
        cmocka_unit_test(test_two_clients_make_a_step),
        cmocka_unit_test(test_answers_say_how_long_it_took),
        cmocka_unit_test(test_exchanges_interleave),
        cmocka_unit_test(test_chunks_in_any_order),
        cmocka_unit_test(test_chunks_that_overlap),
        cmocka_unit_test(test_garbage_is_refused),
        cmocka_unit_test(test_too_many_exchanges_end_the_stream),
        cmocka_unit_test(test_a_broken_stream_leaves_nothing_waiting),
        cmocka_unit_test(test_half_close_waits_for_the_answers),
        cmocka_unit_test(test_a_slow_reader_holds_nobody_up),
        cmocka_unit_test(test_the_server_stops_with_open_streams),
        cmocka_unit_test(test_pins_answer_with_the_average),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
