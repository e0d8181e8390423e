/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "service/http_crowd.h"

static struct http_guest *enter(struct http_crowd *c, uint64_t now_ms)
{
    struct http_guest *g = http_crowd_enter(c, 7, now_ms);
    assert_non_null(g);
    return g;
}

static void test_a_request_has_a_deadline(void **state)
{
    (void)state;
    struct http_crowd c = {0};
    assert_int_equal(http_crowd_wait_ms(&c, 5), UINT64_MAX);
    struct http_guest *a = enter(&c, 1000);
    struct http_guest *b = enter(&c, 1500);
    assert_int_equal(http_crowd_wait_ms(&c, 1600), HTTP_REQUEST_MS_MAX - 600);
    assert_null(http_crowd_late(&c, 1000 + HTTP_REQUEST_MS_MAX - 1));
    http_crowd_answered(a, 3000);
    assert_int_equal(http_crowd_wait_ms(&c, 3000), HTTP_REQUEST_MS_MAX - 1500);
    assert_ptr_equal(http_crowd_late(&c, 1500 + HTTP_REQUEST_MS_MAX), b);
    assert_null(http_crowd_late(&c, 1500 + HTTP_REQUEST_MS_MAX)); /* it was told already */
    assert_ptr_equal(http_crowd_late(&c, 3000 + HTTP_REQUEST_MS_MAX), a);
    assert_int_equal(http_crowd_wait_ms(&c, 3000), UINT64_MAX);
}

/* Nor is it a surplus; the time for the next request begins when it ends. */
static void test_a_stream_is_not_late(void **state)
{
    (void)state;
    static struct http_crowd c;
    struct http_guest *a = http_crowd_enter(&c, 7, 1000);
    http_crowd_asked(a);
    http_crowd_streams(a);
    assert_int_equal(http_crowd_wait_ms(&c, 1000), UINT64_MAX);
    assert_null(http_crowd_late(&c, 1000 + 10 * HTTP_REQUEST_MS_MAX));
    http_crowd_answered(a, 200000);
    assert_int_equal(http_crowd_wait_ms(&c, 200000), HTTP_REQUEST_MS_MAX);
    assert_ptr_equal(http_crowd_late(&c, 200000 + HTTP_REQUEST_MS_MAX), a);
}

static void test_the_one_that_waits_longest_goes(void **state)
{
    (void)state;
    struct http_crowd c = {0};
    (void)enter(&c, 20);
    struct http_guest *first = enter(&c, 10);
    for (int i = 2; i < HTTP_CONNECTIONS_MAX; i++) {
        (void)enter(&c, 20 + (uint64_t)i);
    }
    assert_null(http_crowd_surplus(&c));
    struct http_guest *probe = enter(&c, 500);
    assert_ptr_equal(http_crowd_surplus(&c), first);
    assert_null(http_crowd_surplus(&c)); /* who is leaving is not counted */
    assert_false(probe->leaving);
    http_crowd_leave(first);
    assert_ptr_equal(enter(&c, 600), first); /* its place is free */
}

static void test_a_request_in_hand_stays(void **state)
{
    (void)state;
    struct http_crowd c = {0};
    struct http_guest *first = enter(&c, 1);
    http_crowd_asked(first);
    struct http_guest *second = enter(&c, 2);
    for (int i = 2; i < HTTP_CONNECTIONS_MAX; i++) {
        http_crowd_asked(enter(&c, 3));
    }
    struct http_guest *newer = enter(&c, 4);
    assert_ptr_equal(http_crowd_surplus(&c), second);
    http_crowd_leave(second);
    http_crowd_asked(newer);
    newer = enter(&c, 5);
    http_crowd_asked(newer);
    assert_null(http_crowd_surplus(&c)); /* all have one */
    http_crowd_answered(newer, 6);
    assert_ptr_equal(http_crowd_surplus(&c), newer);
}

/* All within one millisecond; a newer one has the lowest place. */
static void test_of_those_that_came_at_once_the_first_goes(void **state)
{
    (void)state;
    struct http_crowd c = {0};
    struct http_guest *early = enter(&c, 10);
    struct http_guest *first = enter(&c, 10);
    http_crowd_leave(early);
    for (int i = 2; i < HTTP_CONNECTIONS_MAX; i++) {
        (void)enter(&c, 10);
    }
    struct http_guest *newer = &c.guests[0];
    assert_true(newer->used);
    assert_null(http_crowd_surplus(&c));
    (void)enter(&c, 10);
    (void)enter(&c, 10);
    assert_ptr_equal(http_crowd_surplus(&c), first);
    assert_false(newer->leaving);
}

static void test_room(void **state)
{
    (void)state;
    struct http_crowd c = {0};
    for (int i = 0; i < HTTP_CROWD_ROOM; i++) {
        assert_non_null(http_crowd_enter(&c, i, 0));
    }
    assert_null(http_crowd_enter(&c, 1, 0));
    int gone = 0;
    while (http_crowd_surplus(&c) != NULL) {
        gone++;
    }
    assert_int_equal(gone, HTTP_CROWD_ROOM - HTTP_CONNECTIONS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_has_a_deadline),
        cmocka_unit_test(test_a_stream_is_not_late),
        cmocka_unit_test(test_the_one_that_waits_longest_goes),
        cmocka_unit_test(test_of_those_that_came_at_once_the_first_goes),
        cmocka_unit_test(test_a_request_in_hand_stays),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
