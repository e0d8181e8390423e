/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients and parameters in memory that a client shares, over real gRPC. */
#include "ps_step.h"

#include "support/wait_until.h"

static void offer_shared_memory(struct client *c, struct shared_memory **w)
{
    struct err err;
    assert_int_equal(shared_memory_new(ELEMENTS, w, &err), 0);
    struct chunk k = {.exchange = 0, .job = job, .first = true, .pull = true, .offer = *w};
    struct answer *a = exchange(c, &k);
    assert_int_equal(a->code, 0);
    assert_true(a->shared_memory_open);
    assert_int_equal(a->in_block, 0);
}

/* A push of replica @r that lies in a block, and a pull of the next version into another one. */
static struct chunk in_blocks(struct shared_memory *w, uint64_t number, uint32_t r)
{
    uint32_t g = shared_memory_take_gradient(w);
    assert_true(g != SHARED_MEMORY_NONE);
    memcpy(shared_memory_gradient(w, g), gradient, GRADIENT_BYTES);
    return (struct chunk){.exchange = number,
                          .job = job,
                          .first = true,
                          .push = true,
                          .pull = true,
                          .examples = 10,
                          .lo = r,
                          .hi = r + 1,
                          .total = ELEMENTS,
                          .kind = GRADUS__V1__PULL__KIND__VERSION,
                          .version = 1,
                          .gradient_block = g + 1,
                          .values_block = r + 1};
}

static void test_values_pass_in_memory(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct shared_memory *w;
    step_start(&rig, "sync", 2, 0);
    ps_rig_go_local(&rig);
    exchange_open(&c, &rig);
    offer_shared_memory(&c, &w);
    struct chunk k[2] = {in_blocks(w, 1, 0), in_blocks(w, 2, 1)};
    send_chunk(&c, &k[0]);
    send_chunk(&c, &k[1]);
    for (uint32_t r = 0; r < 2; r++) {
        struct answer *a = wait_answer(&c, 1 + r);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->version, 1);
        assert_int_equal(a->in_block, ELEMENTS);
        assert_false(a->shared_memory_open); /* that was said before */
        assert_int_equal(shared_memory_filled(w, r), ELEMENTS);
        check_step(shared_memory_values(w, r), 2, 20);
    }
    /* What was summed and applied is free again: all of them are. */
    (void)step_parked(&rig);
    for (uint32_t i = 0; i < shared_memory_offer(w)->gradients; i++) {
        assert_int_equal(shared_memory_take_gradient(w), i);
    }
    /* And through the stream as before. */
    forget_answer(&c, 3);
    struct chunk pull = {.exchange = 3, .job = job, .first = true, .pull = true};
    send_chunk(&c, &pull);
    check_step(wait_answer(&c, 3)->values, 2, 20);
    exchange_close(&c);
    ps_rig_stop(&rig);
    shared_memory_unref(w);
}

static void test_shared_memory_that_are_not_open(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct shared_memory *w, *other;
    struct err err;
    step_start(&rig, "sync", 2, 0);
    ps_rig_go_local(&rig);
    exchange_open(&c, &rig);
    assert_int_equal(shared_memory_new(ELEMENTS, &w, &err), 0);
    struct chunk k = in_blocks(w, 1, 0);
    expect_refusal(&c, &k, ERR_INVALID, "exchange 1: value block 1 is not open");
    k.exchange = 2;
    k.values_block = 0;
    expect_refusal(&c, &k, ERR_INVALID, "exchange 2: gradient block 1 is not open, or in use");
    /* Memory for another number of elements is not opened, and that is no error. */
    assert_int_equal(shared_memory_new(ELEMENTS - 1, &other, &err), 0);
    struct chunk pull = {.exchange = 3, .job = job, .first = true, .pull = true, .offer = other};
    struct answer *a = exchange(&c, &pull);
    assert_int_equal(a->code, 0);
    assert_false(a->shared_memory_open);
    pull.exchange = 4;
    pull.offer = w;
    assert_true(exchange(&c, &pull)->shared_memory_open);
    k.exchange = 5;
    k.values_block = shared_memory_offer(w)->values + 1;
    expect_refusal(&c, &k, ERR_INVALID, "is not open");
    assert_int_equal(shared_memory_take_gradient(w), 0); /* what is refused is given back */
    k = (struct chunk){.exchange = 6,
                       .job = job,
                       .first = true,
                       .push = true,
                       .examples = 1,
                       .hi = 1,
                       .total = ELEMENTS,
                       .gradient_block = 1};
    assert_int_equal(exchange(&c, &k)->push, GRADUS__V1__PUSH_RESULT__ACCEPTED);
    k.exchange = 7;
    k.lo = 1;
    k.hi = 2;
    expect_refusal(&c, &k, ERR_INVALID, "gradient block 1 is not open, or in use");
    k.exchange = 8;
    k.gradient_block = 2;
    k.floats = 3;
    assert_int_equal(shared_memory_take_gradient(w), 1);
    expect_refusal(&c, &k, ERR_INVALID, "12 bytes of values at element 0");
    exchange_close(&c);
    ps_rig_stop(&rig);
    shared_memory_unref(w);
    shared_memory_unref(other);
}

/* The very same offer: it is the way that counts. */
static void test_no_memory_for_who_comes_over_the_network(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct shared_memory *w;
    struct err err;
    step_start(&rig, "sync", 2, 0);
    assert_int_equal(shared_memory_new(ELEMENTS, &w, &err), 0);
    struct chunk pull = {.exchange = 1, .job = job, .first = true, .pull = true, .offer = w};
    exchange_open(&c, &rig);
    struct answer *a = exchange(&c, &pull);
    assert_int_equal(a->code, 0);
    assert_false(a->shared_memory_open);
    struct chunk k = in_blocks(w, 2, 0);
    expect_refusal(&c, &k, ERR_INVALID, "exchange 2: value block 1 is not open");
    exchange_close(&c);
    ps_rig_go_local(&rig);
    exchange_open(&c, &rig);
    assert_true(exchange(&c, &pull)->shared_memory_open);
    exchange_close(&c);
    ps_rig_stop(&rig);
    shared_memory_unref(w);
}

/* A contribution that waits for its siblings lives on when its stream is gone, and counts. */
static void test_a_block_outlives_its_stream(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct shared_memory *w;
    step_start(&rig, "sync", 2, 0);
    ps_rig_go_local(&rig);
    exchange_open(&c, &rig);
    offer_shared_memory(&c, &w);
    struct chunk k = in_blocks(w, 1, 0);
    send_chunk(&c, &k);
    wait_until(step_parked(&rig) == 1);
    exchange_close(&c);
    shared_memory_unref(w);
    exchange_open(&c, &rig);
    send_push(&c, job, 2, 0, 1, 2, ELEMENTS, true);
    assert_int_equal(wait_answer(&c, 2)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    check_step(c.answers[2].values, 2, 20);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* ---- within the limit ---- */

/* As many gradients as there is room for, and mapped pages where they leave room. */
static void expect_within_the_limit(struct ps_rig *rig)
{
    struct gradient_memory *m = &rig->ps->gradient_memory;
    const struct gradient_budget *b = &m->budget;
    pthread_mutex_lock(&m->lock);
    assert_true(b->held <= b->bytes_max && b->allocated <= b->bytes_max);
    pthread_mutex_unlock(&m->lock);
}

static void expect_nothing_mapped(struct ps_rig *rig)
{
    wait_until(meter_value(rig->ps->gradient_memory.mapped) == 0); /* the call ends first */
}

static void test_a_gradient_in_memory_waits_for_room(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    struct shared_memory *w;
    step_start(&rig, "async", 1, 1);
    ps_rig_go_local(&rig);
    exchange_open(&c[0], &rig);
    exchange_open(&c[1], &rig);
    offer_shared_memory(&c[1], &w);
    begin_gradient(&rig, &c[0], 1);
    uint32_t g = shared_memory_take_gradient(w);
    memcpy(shared_memory_gradient(w, g), gradient, GRADIENT_BYTES);
    struct chunk k = async_part(1, 1, 0, 0, 0);
    k.gradient_block = g + 1;
    send_chunk(&c[1], &k);
    wait_for_waits(&rig, 1);
    assert_false(c[1].answers[1].complete);
    end_gradient(&c[0], 1);
    assert_int_equal(wait_answer(&c[0], 1)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(wait_answer(&c[1], 1)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(c[1].answers[1].version, 2);
    expect_all_given_back(&rig);
    expect_within_the_limit(&rig);
    exchange_close(&c[0]);
    exchange_close(&c[1]);
    expect_nothing_mapped(&rig);
    shared_memory_unref(w);
    ps_rig_stop(&rig);
}

#define CROWD 8
#define STEPS 4

/* Every worker has its gradient and its answer in memory; the step needs all of them, and there is
 * room for few. */
static void test_a_step_of_more_than_fits(void **state)
{
    (void)state;
    struct ps_rig rig;
    static struct client c[CROWD];
    struct shared_memory *w[CROWD];
    step_start(&rig, "sync", CROWD, 5); /* four may wait for their siblings */
    ps_rig_go_local(&rig);
    for (size_t i = 0; i < CROWD; i++) {
        exchange_open(&c[i], &rig);
        offer_shared_memory(&c[i], &w[i]);
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < CROWD; i++) {
            struct chunk k = in_blocks(w[i], step + 1, (i * 5 + 3) % CROWD); /* siblings are far */
            k.step = step;
            k.version = step + 1;
            k.values_block = 1;
            send_chunk(&c[i], &k);
        }
        for (size_t i = 0; i < CROWD; i++) {
            struct answer *a = wait_answer(&c[i], step + 1);
            assert_int_equal(a->code, 0);
            assert_int_equal(a->version, step + 1);
            assert_int_equal(a->in_block, ELEMENTS);
            if (step == 0) {
                check_step(shared_memory_values(w[i], 0), CROWD, 10 * CROWD);
            }
            assert_memory_equal(shared_memory_values(w[i], 0), shared_memory_values(w[0], 0),
                                GRADIENT_BYTES);
            expect_within_the_limit(&rig);
        }
    }
    expect_all_given_back(&rig);
    for (size_t i = 0; i < CROWD; i++) {
        exchange_close(&c[i]);
        shared_memory_unref(w[i]);
    }
    expect_nothing_mapped(&rig);
    ps_rig_stop(&rig);
}

/* Memory of a stream that ended is not the server's any more; the next stream's is. */
static void test_streams_come_and_go(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct shared_memory *w;
    step_start(&rig, "sync", 1, 3);
    ps_rig_go_local(&rig);
    for (uint64_t step = 0; step < 3; step++) {
        exchange_open(&c, &rig);
        offer_shared_memory(&c, &w);
        struct chunk k = in_blocks(w, 1, 0);
        k.step = step;
        k.version = step + 1;
        assert_int_equal(exchange(&c, &k)->in_block, ELEMENTS);
        expect_all_given_back(&rig);
        /* the gradient's block, and the answer's */
        wait_until(meter_value(rig.ps->gradient_memory.mapped) >= 2.0 * (double)GRADIENT_BYTES);
        expect_within_the_limit(&rig);
        exchange_close(&c);
        shared_memory_unref(w);
        expect_nothing_mapped(&rig);
    }
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_pass_in_memory),
        cmocka_unit_test(test_shared_memory_that_are_not_open),
        cmocka_unit_test(test_no_memory_for_who_comes_over_the_network),
        cmocka_unit_test(test_a_block_outlives_its_stream),
        cmocka_unit_test(test_a_gradient_in_memory_waits_for_room),
        cmocka_unit_test(test_a_step_of_more_than_fits),
        cmocka_unit_test(test_streams_come_and_go),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
