/* SPDX-License-Identifier: Apache-2.0 */
/* A curve that grows for years has few points, the newest ones close together. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/curve_thin.h"

/* Takes points as the master does, for as long as @end_ms; returns how many there are. */
static size_t grow(int64_t *times, int64_t end_ms, size_t *most)
{
    bool goes[CURVE_POINTS_MAX];
    size_t count = 0;
    *most = 0;
    for (int64_t now = 0; now < end_ms; now += (int64_t)curve_pause_ms(now)) {
        times[count++] = now;
        *most = count > *most ? count : *most;
        if (count == CURVE_POINTS_MAX) {
            const size_t gone = curve_thin(times, count, goes);
            assert_true(gone >= CURVE_POINTS_MAX / 8);
            size_t kept = 0;
            for (size_t i = 0; i < count; i++) {
                times[kept] = times[i];
                kept += goes[i] ? 0 : 1;
            }
            assert_int_equal(kept, count - gone);
            count = kept;
        }
    }
    return count;
}

static void a_year_has_a_bounded_number_of_points(void **state)
{
    (void)state;
    static int64_t times[CURVE_POINTS_MAX];
    const int64_t year = INT64_C(365) * 24 * 3600 * 1000;
    size_t most;
    const size_t count = grow(times, year, &most);
    assert_int_equal(most, CURVE_POINTS_MAX);
    assert_int_equal(times[0], 0);
    for (size_t i = 1; i < count; i++) { /* no gap is wide for its age */
        const int64_t age = times[count - 1] - times[i - 1];
        assert_true(times[i] > times[i - 1]);
        assert_true(times[i] - times[i - 1] <= 10000 + age / CURVE_PARTS * 2);
    }
}

static void a_short_job_keeps_all(void **state)
{
    (void)state;
    static int64_t times[CURVE_POINTS_MAX];
    bool goes[CURVE_POINTS_MAX];
    size_t most;
    const size_t count = grow(times, 90000, &most);
    assert_int_equal(count, 90);
    assert_int_equal(curve_thin(times, count, goes), 0);
}

static void ends_stay_and_odd_clocks_do_no_harm(void **state)
{
    (void)state;
    bool goes[5];
    assert_int_equal(curve_thin(NULL, 0, goes), 0);
    const int64_t one[] = {7};
    assert_int_equal(curve_thin(one, 1, goes), 0);
    const int64_t close[] = {INT64_C(1) << 40, (INT64_C(1) << 40) + 1, (INT64_C(1) << 40) + 2,
                             (INT64_C(1) << 40) + 3, INT64_C(1) << 41};
    assert_int_equal(curve_thin(close, 5, goes), 3);
    assert_false(goes[0] || goes[4]);
    const int64_t back[] = {900, 100, 800, 50, 60}; /* the clock of the wall was set */
    (void)curve_thin(back, 5, goes);
    assert_false(goes[0] || goes[4]);
}

static void too_many_close_ones_are_halved(void **state)
{
    (void)state;
    int64_t *times = mem_new(100000, sizeof *times);
    bool *goes = mem_new(100000, sizeof *goes);
    for (size_t i = 0; i < 100000; i++) {
        times[i] = 5;
    }
    assert_true(100000 - curve_thin(times, 100000, goes) <= (size_t)CURVE_POINTS_MAX / 8 * 7);
    assert_false(goes[0] || goes[99999]);
    free(times);
    free(goes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_year_has_a_bounded_number_of_points),
        cmocka_unit_test(a_short_job_keeps_all),
        cmocka_unit_test(ends_stay_and_odd_clocks_do_no_harm),
        cmocka_unit_test(too_many_close_ones_are_halved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
