/* SPDX-License-Identifier: Apache-2.0 */
/* The master's orders about a job, and those that come late. */
#include "support/test.h"

#include <string.h>

#include "worker/core/worker.h"

static const struct fence own = {.opening = 3, .secret = {1, 2}};
static const struct fence other = {.opening = 3, .secret = {1, 3}};

/* Has had start 7, and no other. */
static struct worker_starts had_7(void)
{
    struct worker_starts starts = {.count = 0};
    worker_starts_note(&starts, &own, 7);
    return starts;
}

static void another_master_may_start_nothing(void **state)
{
    (void)state;
    const struct worker_held held = {7, own};
    const struct fence again = {.opening = 4, .secret = {1, 2}};
    const struct worker_starts starts = had_7();
    struct err err = {0};
    for (uint64_t start = 6; start < 9; start++) {
        assert_int_equal(worker_start_decide(&starts, &held, start, &other, &err),
                         WORKER_START_REFUSED);
        assert_int_equal(err.code, ERR_UNAUTHENTICATED);
    }
    assert_int_equal(worker_start_decide(&starts, &held, 8, &again, &err), WORKER_START_AGAIN);
}

static void the_first_start_is_taken(void **state)
{
    (void)state;
    const struct worker_held inspected = {0, own};
    const struct worker_starts starts = {.count = 0};
    struct err err = {0};
    assert_int_equal(worker_start_decide(&starts, NULL, 7, &own, &err), WORKER_START_NEW);
    assert_int_equal(worker_start_decide(&starts, &inspected, 7, &own, &err), WORKER_START_NEW);
    assert_int_equal(err.code, 0);
    assert_int_equal(worker_start_decide(&starts, NULL, 0, &own, &err), WORKER_START_REFUSED);
    assert_int_equal(err.code, ERR_INVALID);
}

static void a_repeated_one_is_the_same(void **state)
{
    (void)state;
    const struct worker_held held = {7, own};
    const struct worker_starts starts = had_7();
    struct err err = {0};
    assert_int_equal(worker_start_decide(&starts, &held, 7, &own, &err), WORKER_START_SAME);
    assert_int_equal(err.code, 0);
}

static void a_later_one_starts_anew_and_an_older_one_is_refused(void **state)
{
    (void)state;
    const struct worker_held held = {7, own};
    const struct worker_starts starts = had_7();
    struct err err = {0};
    assert_int_equal(worker_start_decide(&starts, &held, 8, &own, &err), WORKER_START_AGAIN);
    assert_int_equal(err.code, 0);
    assert_int_equal(worker_start_decide(&starts, &held, 6, &own, &err), WORKER_START_REFUSED);
    assert_int_equal(err.code, ERR_ABORTED);
}

/* Though nothing of the job is here, or only its data are looked at. */
static void what_is_over_is_not_started_again(void **state)
{
    (void)state;
    const struct worker_held inspected = {0, own};
    struct worker_starts starts = had_7();
    for (uint64_t start = 6; start < 8; start++) {
        struct err err = {0};
        assert_int_equal(worker_start_decide(&starts, NULL, start, &own, &err),
                         WORKER_START_REFUSED);
        assert_int_equal(err.code, ERR_ABORTED);
        assert_int_equal(worker_start_decide(&starts, &inspected, start, &own, &err),
                         WORKER_START_REFUSED);
    }
    struct err err = {0};
    assert_int_equal(worker_start_decide(&starts, NULL, 8, &own, &err), WORKER_START_NEW);
    assert_int_equal(worker_start_decide(&starts, NULL, 1, &other, &err), WORKER_START_NEW);
    worker_starts_note(&starts, &own, 3); /* late: it takes nothing back */
    assert_int_equal(worker_start_decide(&starts, NULL, 7, &own, &err), WORKER_START_REFUSED);
    for (uint8_t i = 0; i < WORKER_STARTS_SEEN - 1; i++) {
        const struct fence next = {.secret = {9, i}};
        worker_starts_note(&starts, &next, 1);
    }
    assert_int_equal(worker_start_decide(&starts, NULL, 7, &own, &err), WORKER_START_REFUSED);
    worker_starts_note(&starts, &other, 1); /* one job too many to remember */
    assert_int_equal(worker_start_decide(&starts, NULL, 7, &own, &err), WORKER_START_NEW);
}

static void an_order_is_for_its_own_start(void **state)
{
    (void)state;
    const struct worker_held held = {7, own};
    struct err err = {0};
    assert_int_equal(worker_held_check(&held, 7, &err), 0);
    assert_int_equal(worker_held_check(&held, 6, &err), ERR_NOT_FOUND);
    assert_int_equal(worker_held_check(&held, 8, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "start 8"));
}

static void a_stop_is_for_starts_up_to_its_own(void **state)
{
    (void)state;
    const struct worker_held inspected = {0, own};
    const struct worker_held held = {7, own};
    assert_true(worker_stop_decide(&inspected, 0));
    assert_true(worker_stop_decide(&held, 7));
    assert_true(worker_stop_decide(&held, 9));
    assert_false(worker_stop_decide(&held, 6));
}

static void a_heartbeat_ends_what_it_named(void **state)
{
    (void)state;
    const struct worker_held inspected = {0, own};
    const struct worker_held held = {7, own};
    assert_true(worker_drop_decide(&inspected, 0));
    assert_false(worker_drop_decide(&held, 0));
    assert_true(worker_drop_decide(&held, 7));
    assert_false(worker_drop_decide(&held, 6));
    assert_false(worker_drop_decide(&inspected, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_master_may_start_nothing),
        cmocka_unit_test(the_first_start_is_taken),
        cmocka_unit_test(a_repeated_one_is_the_same),
        cmocka_unit_test(a_later_one_starts_anew_and_an_older_one_is_refused),
        cmocka_unit_test(what_is_over_is_not_started_again),
        cmocka_unit_test(an_order_is_for_its_own_start),
        cmocka_unit_test(a_stop_is_for_starts_up_to_its_own),
        cmocka_unit_test(a_heartbeat_ends_what_it_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
