/* SPDX-License-Identifier: Apache-2.0 */
#include "base/name_index.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/rng.h"
#include "support/test.h"

#define NAMES 600
#define STEPS 20000

static void test_an_empty_one_finds_nothing(void **state)
{
    (void)state;
    struct name_index x = {0};
    assert_null(name_index_find(&x, "job-1"));
    name_index_remove(&x, "job-1");
    assert_int_equal(x.count, 0);
    name_index_release(&x);
}

static void test_a_name_is_found_until_it_is_removed(void **state)
{
    (void)state;
    struct name_index x = {0};
    int first = 1, second = 2;
    name_index_put(&x, "job-1", &first);
    name_index_put(&x, "job-2", &second);
    char same[] = "job-1"; /* by what it says, not by where it is */
    assert_ptr_equal(name_index_find(&x, same), &first);
    name_index_remove(&x, same);
    assert_null(name_index_find(&x, "job-1"));
    assert_ptr_equal(name_index_find(&x, "job-2"), &second);
    name_index_release(&x);
    assert_null(name_index_find(&x, "job-2"));
}

/* Names that come and go in any order, beside a plain list. */
static void test_it_is_as_a_list(void **state)
{
    (void)state;
    static char names[NAMES][16];
    static bool there[NAMES];
    struct name_index x = {0};
    size_t count = 0;
    for (size_t i = 0; i < NAMES; i++) {
        (void)snprintf(names[i], sizeof names[i], "job-%zu", i);
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        size_t i = (size_t)(rng_u64(7, step) % NAMES);
        if (there[i]) {
            name_index_remove(&x, names[i]);
        } else {
            name_index_put(&x, names[i], names[i]);
        }
        there[i] = !there[i];
        count += there[i] ? 1 : (size_t)-1;
        assert_int_equal(x.count, count);
        assert_true(x.count * 2 <= x.capacity);
        size_t k = (size_t)(rng_u64(8, step) % NAMES);
        assert_ptr_equal(name_index_find(&x, names[k]), there[k] ? names[k] : NULL);
    }
    for (size_t i = 0; i < NAMES; i++) {
        assert_ptr_equal(name_index_find(&x, names[i]), there[i] ? names[i] : NULL);
    }
    name_index_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_one_finds_nothing),
        cmocka_unit_test(test_a_name_is_found_until_it_is_removed),
        cmocka_unit_test(test_it_is_as_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
