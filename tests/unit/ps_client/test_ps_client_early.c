/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are delivered with the first of their values. */
#include "ps_client_early_rig.h"

static void test_the_first_variable_does_not_wait_for_the_last(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_begin(&f, 1, 0);
    assert_true(early_has(&f, 0));
    assert_false(early_has(&f, 1));
    assert_int_equal(early_wait_for(&f, 0), 0);
    early_check_landed(&f, 0, 0, PART, 1);
    early_wait_begin(&f, 1);
    early_send_part(&f, 1, 0, FIRST, PART, 1);
    assert_int_equal(early_wait_end(&f), 0);
    assert_false(early_has(&f, 2));
    early_check_landed(&f, 0, 0, 2 * PART, 1);
    early_wait_begin(&f, 2);
    early_send_part(&f, 1, 0, FIRST + PART, VARIABLES * PART - FIRST - PART, 1);
    assert_int_equal(early_wait_end(&f), 0);
    early_check_landed(&f, 0, 0, VARIABLES * PART, 1);
    early_after_all_that(&f, 2, 0); /* and the tail brought no answer of its own */
    early_finish(&f);
}

static void test_who_does_not_ask_for_it_waits_for_all(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_ask(&f, 1, 0, true, false);
    early_send_part(&f, 1, 0, 0, FIRST, 1);
    early_after_all_that(&f, 2, 0);
    early_send_rest(&f, 1, 0, 1);
    early_wait_answered(&f, 2);
    assert_int_equal(f.answers[1].exchange, 1);
    assert_true(early_has(&f, 2));
    early_check_landed(&f, 0, 0, VARIABLES * PART, 1);
    early_finish(&f);
}

static void test_an_answer_in_one_message_is_there(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_ask(&f, 1, 0, true, true);
    early_send_part(&f, 1, 0, 0, VARIABLES * PART, 1);
    early_wait_answered(&f, 1);
    assert_false(f.answers[0].partial);
    assert_true(early_has(&f, 2));
    assert_int_equal(early_wait_for(&f, 2), 0);
    early_finish(&f);
}

/* Nothing could begin with a part of the first variable; and a few last values are soon there. */
static void test_too_little_is_no_reason(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_ask(&f, 1, 0, true, true);
    early_send_part(&f, 1, 0, 0, PART - 1, 1);
    early_after_all_that(&f, 2, 0);
    early_send_part(&f, 1, 0, PART - 1, VARIABLES * PART - 10 - (PART - 1), 1);
    early_after_all_that(&f, 3, 0);
    early_send_part(&f, 1, 0, VARIABLES * PART - 10, 10, 1);
    early_wait_answered(&f, 3);
    assert_int_equal(f.answers[2].exchange, 1);
    assert_false(f.answers[2].partial);
    early_check_landed(&f, 0, 0, VARIABLES * PART, 1);
    early_finish(&f);
}

static void test_every_shard_is_waited_for(void **state)
{
    (void)state;
    struct fake f;
    early_start(&f);
    early_begin(&f, 1, 0);
    early_begin(&f, 2, 1);
    early_send_rest(&f, 1, 0, 1);
    early_after_all_that(&f, 3, 0);
    assert_true(early_has(&f, 0));
    assert_false(early_has(&f, 1));
    early_wait_begin(&f, 2);
    early_send_rest(&f, 2, 1, 1);
    assert_int_equal(early_wait_end(&f), 0);
    for (uint32_t s = 0; s < SHARDS; s++) {
        early_check_landed(&f, s, 0, VARIABLES * PART, 1);
    }
    early_finish(&f);
}

/* 1 s; four times as long as for the message before; 10 s. */
static void test_the_patience_follows_the_network(void **state)
{
    (void)state;
    const uint64_t ms = 1000000;
    assert_int_equal(ps_client_patience_ns(0), 1000 * ms);
    assert_int_equal(ps_client_patience_ns(250 * ms), 1000 * ms);
    assert_int_equal(ps_client_patience_ns(300 * ms), 1200 * ms);
    assert_int_equal(ps_client_patience_ns(2500 * ms), 10000 * ms);
    assert_int_equal(ps_client_patience_ns(3600000 * ms), 10000 * ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_variable_does_not_wait_for_the_last),
        cmocka_unit_test(test_who_does_not_ask_for_it_waits_for_all),
        cmocka_unit_test(test_an_answer_in_one_message_is_there),
        cmocka_unit_test(test_too_little_is_no_reason),
        cmocka_unit_test(test_every_shard_is_waited_for),
        cmocka_unit_test(test_the_patience_follows_the_network),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
