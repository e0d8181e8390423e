/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of an answer that was delivered early: it fails, is lost, or nobody wants it any more.
 */
#include "ps_client_early_rig.h"

static void break_stream(struct fake *f)
{
    struct err err;
    (void)err_set(&err, ERR_UNAVAILABLE, "told to break");
    (void)rpc_fail(f->calls[0], &err);
}

static void refuse(struct fake *f)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    char message[] = "told to refuse";
    m.exchange = 1;
    m.code = -ERR_INVALID;
    m.message = message;
    early_respond(f, &m, 0, NULL);
}

static void leave_a_gap(struct fake *f)
{
    early_send_part(f, 1, 0, FIRST + 1, 10, 1);
}

static void mix_versions(struct fake *f)
{
    early_send_version(f, 1, 0, FIRST, 10, 1, VERSION + 1);
}

static void cancel(struct fake *f)
{
    ps_client_cancel(f->client);
}

static void send_nothing(struct fake *f)
{
    (void)f;
}

/* Whatever befalls the tail: no second answer, and the wait ends. */
static void test_a_tail_that_fails_ends_the_wait(void **state)
{
    (void)state;
    static const struct {
        void (*what)(struct fake *f);
        const char *says;
    } cases[] = {
        {break_stream, "told to break"},
        {refuse, "told to refuse"},
        {leave_a_gap, "expected"},
        {mix_versions, "mixed versions"},
        {cancel, ""},
        {send_nothing, "and then nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake f;
        early_start(&f);
        early_begin(&f, 1, 0);
        early_wait_begin(&f, 1);
        cases[i].what(&f);
        assert_int_equal(early_wait_end(&f), ERR_UNAVAILABLE);
        assert_non_null(strstr(f.err.msg, "shard 0"));
        assert_non_null(strstr(f.err.msg, cases[i].says));
        assert_int_equal(f.answered, 1);
        assert_true(early_has(&f, 0)); /* which came */
        assert_int_equal(early_wait_for(&f, 2), ERR_UNAVAILABLE);
        early_finish(&f);
    }
}

static void test_what_was_lost_is_pulled_anew(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_begin(&f, 1, 0);
    break_stream(&f);
    assert_int_equal(early_wait_for(&f, 1), ERR_UNAVAILABLE);
    early_ask(&f, 2, 0, true, false);
    assert_true(early_has(
        &f, 1)); /* nothing is known to be missing: the answer will say when it is there */
    early_send_part(&f, 2, 0, 0, FIRST, 2);
    early_send_rest(&f, 2, 0, 2);
    early_wait_answered(&f, 2);
    early_check_landed(&f, 0, 0, VARIABLES * PART, 2);
    early_begin(&f, 3, 0); /* and the next one is early again */
    assert_false(early_has(&f, 1));
    early_send_rest(&f, 3, 0, 1);
    assert_int_equal(early_wait_for(&f, 2), 0);
    early_check_landed(&f, 0, 0, VARIABLES * PART, 1);
    early_finish(&f);
}

/* The rest of an answer that nobody wants any more touches nothing. */
static void test_a_new_pull_detaches_the_tail(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_begin(&f, 1, 0);
    early_ask(&f, 2, 0, true, true);
    early_send_rest(&f, 1, 0, 1);
    early_after_all_that(&f, 3, 0);
    early_check_landed(&f, 0, FIRST, VARIABLES * PART - FIRST, 0);
    early_send_part(&f, 2, 0, 0, FIRST, 2);
    early_wait_answered(&f, 3);
    assert_int_equal(f.answers[2].exchange, 2);
    assert_false(early_has(&f, 1));
    early_send_rest(&f, 2, 0, 2);
    assert_int_equal(early_wait_for(&f, 2), 0);
    early_check_landed(&f, 0, 0, VARIABLES * PART, 2);
    early_finish(&f);
}

/* It may be going wrong, too. */
static void test_a_detached_tail_fails_alone(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_begin(&f, 1, 0);
    early_ask(&f, 2, 0, true, true);
    leave_a_gap(&f);
    early_send_part(&f, 2, 0, 0, FIRST, 2);
    early_wait_answered(&f, 2);
    assert_int_equal(f.answers[1].exchange, 2);
    assert_int_equal(f.answers[1].code, 0);
    early_send_rest(&f, 2, 0, 2);
    assert_int_equal(early_wait_for(&f, 2), 0);
    early_check_landed(&f, 0, 0, VARIABLES * PART, 2);
    early_finish(&f);
}

/* Tails that are detached while they land: the array is never written to behind the next pull. */
static void test_detaching_waits_for_what_is_landing(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_begin(&f, 1, 0);
    for (uint64_t n = 1; n < 200; n++) {
        early_send_rest(&f, n, 0, 1);
        early_ask(&f, n + 1, 0, true, true);
        if (n % 2 == 0) {
            memset(f.values, 0, FLAT_COUNT * sizeof(float)); /* it is the job's thread's alone */
        }
        size_t before = f.answered;
        early_send_part(&f, n + 1, 0, 0, FIRST, 1);
        early_wait_answered(&f, before + 1);
        if (before + 1 == ANSWERS_MAX) {
            f.answered = 0;
        }
    }
    early_send_rest(&f, 200, 0, 1);
    assert_int_equal(early_wait_for(&f, 2), 0);
    early_check_landed(&f, 0, 0, VARIABLES * PART, 1);
    early_finish(&f);
}

static void test_closing_with_a_tail_on_its_way(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_begin(&f, 1, 0);
    early_begin(&f, 2, 1);
    early_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tail_that_fails_ends_the_wait),
        cmocka_unit_test(test_what_was_lost_is_pulled_anew),
        cmocka_unit_test(test_a_new_pull_detaches_the_tail),
        cmocka_unit_test(test_a_detached_tail_fails_alone),
        cmocka_unit_test(test_detaching_waits_for_what_is_landing),
        cmocka_unit_test(test_closing_with_a_tail_on_its_way),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
