/* SPDX-License-Identifier: Apache-2.0 */
/* How often a request is tried and how long it waits between; nobody waits here. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "storage/s3_retry.h"

static uint64_t slept_ms, pauses[16];
static unsigned sleeps, pause_count;
static atomic_bool stop;
static unsigned stop_after; /* sleeps; 0: never */

/* In the place of the C library's, for the whole program. */
int nanosleep(const struct timespec *wanted, struct timespec *left);
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)left;
    assert_int_equal(wanted->tv_sec, 0);
    assert_in_range(wanted->tv_nsec, 1, 50 * 1000000); /* to see soon that it is to end */
    slept_ms += (uint64_t)wanted->tv_nsec / 1000000;
    if (++sleeps == stop_after) {
        atomic_store(&stop, true);
    }
    return 0;
}

struct asked {
    unsigned calls, good_at; /* the call that succeeds; 0: none */
    unsigned brings_at;      /* that had brought something */
    unsigned final_at;       /* after which it makes no sense to try again */
    uint64_t retry_after_s;
};

static int ask(void *ctx, struct s3_attempt *now, struct err *err)
{
    struct asked *a = ctx;
    if (a->calls > 0) {
        pauses[pause_count++] = slept_ms;
    }
    slept_ms = 0;
    a->calls++;
    if (a->calls == a->good_at) {
        return 0;
    }
    now->again = a->calls != a->final_at;
    now->brought = a->calls == a->brings_at;
    now->retry_after_s = a->retry_after_s;
    return err_set(err, ERR_UNAVAILABLE, "call %u", a->calls);
}

static int retry(struct asked *a, unsigned attempts, struct err *err)
{
    slept_ms = 0;
    sleeps = pause_count = 0;
    atomic_store(&stop, false);
    return s3_retry(attempts, &stop, ask, a, err);
}

static int setup(void **state)
{
    (void)state;
    stop_after = 0;
    return 0;
}

static void test_until_it_is_well(void **state)
{
    (void)state;
    struct err err = {0};
    struct asked a = {.good_at = 1};
    assert_int_equal(retry(&a, 5, &err), 0);
    assert_int_equal(sleeps, 0);
    a = (struct asked){.good_at = 8};
    assert_int_equal(retry(&a, 9, &err), 0);
    assert_int_equal(a.calls, 8);
    assert_int_equal(pause_count, 7);
    uint64_t most = 200;
    for (unsigned i = 0; i < 7; i++) { /* half of it is by chance */
        assert_in_range(pauses[i], most / 2, most);
        most = 2 * most < 10000 ? 2 * most : 10000;
    }
}

static void test_not_for_ever(void **state)
{
    (void)state;
    struct err err = {0};
    struct asked a = {0};
    assert_int_equal(retry(&a, 3, &err), ERR_UNAVAILABLE);
    assert_int_equal(a.calls, 3);
    assert_string_equal(err.msg, "after 3 attempts: call 3");
    a = (struct asked){.final_at = 2};
    assert_int_equal(retry(&a, 3, &err), ERR_UNAVAILABLE);
    assert_int_equal(a.calls, 2);
    assert_string_equal(err.msg, "call 2");
    a = (struct asked){.brings_at = 2}; /* from there on it is counted anew */
    assert_int_equal(retry(&a, 3, &err), ERR_UNAVAILABLE);
    assert_int_equal(a.calls, 4);
    assert_string_equal(err.msg, "after 3 attempts: call 4");
    assert_in_range(pauses[1], 100, 200);
}

static void test_the_store_says_when(void **state)
{
    (void)state;
    struct err err = {0};
    struct asked a = {.good_at = 2, .retry_after_s = 3};
    assert_int_equal(retry(&a, 3, &err), 0);
    assert_int_equal(pauses[0], 3000);
    a = (struct asked){.good_at = 2, .retry_after_s = 31};
    assert_int_equal(retry(&a, 3, &err), 0);
    assert_int_equal(pauses[0], 30000);
}

static void test_somebody_gives_up(void **state)
{
    (void)state;
    struct err err = {0};
    struct asked a = {.retry_after_s = 10};
    stop_after = 3;
    assert_int_equal(retry(&a, 3, &err), ERR_CANCELLED);
    assert_string_equal(err.msg, "given up");
    assert_int_equal(a.calls, 1);
    assert_int_equal(sleeps, 3);
    assert_true(s3_stopped(&stop));
    assert_false(s3_stopped(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_until_it_is_well, setup),
        cmocka_unit_test_setup(test_not_for_ever, setup),
        cmocka_unit_test_setup(test_the_store_says_when, setup),
        cmocka_unit_test_setup(test_somebody_gives_up, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
