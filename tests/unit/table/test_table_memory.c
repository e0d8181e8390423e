/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow in place, and the budget they share. */
#include "support/test.h"

#include <string.h>
#include <sys/resource.h>

#include "table/table_memory.h"

static void test_grows_in_place(void **state)
{
    (void)state;
    struct table_budget budget = {.bytes_max = 64U << 20};
    struct table_memory m;
    assert_int_equal(table_memory_init(&m, &budget, 48U << 20, NULL), 0);
    assert_int_equal(m.bytes, 0);
    assert_int_equal(budget.bytes, 0);
    assert_int_equal((uintptr_t)m.base % (2U << 20), 0);
    char *base = m.base;
    for (size_t need = 1; need <= 48U << 20; need += need / 7 + 4000) {
        const size_t before = m.bytes;
        assert_int_equal(table_memory_grow(&m, need, "test", NULL), 0);
        assert_true(m.bytes >= need);
        assert_true(m.bytes <= need + need / 16 + (2U << 20));
        assert_true(need > (2U << 20) || m.bytes <= need + need / 16 + 65536);
        assert_int_equal(budget.bytes, m.bytes);
        for (size_t at = before; at < m.bytes; at += 4096) {
            assert_int_equal(m.base[at], 0);
        }
        memset(m.base + before, 1, m.bytes - before);
    }
    assert_ptr_equal(m.base, base);
    const size_t bytes = m.bytes;
    assert_int_equal(table_memory_grow(&m, 100, "test", NULL), 0); /* it is longer already */
    assert_int_equal(m.bytes, bytes);
    table_memory_release(&m);
    assert_int_equal(budget.bytes, 0);
    table_memory_release(&m);
}

static void test_limits(void **state)
{
    (void)state;
    struct table_budget budget = {.bytes_max = 1U << 20};
    struct table_memory m;
    struct err err;
    assert_int_equal(table_memory_init(&m, &budget, SIZE_MAX / 2 + 1, &err), ERR_EXHAUSTED);
    assert_int_equal(table_memory_init(&m, &budget, SIZE_MAX / 4, &err), ERR_EXHAUSTED);
    assert_int_equal(table_memory_init(&m, &budget, 4U << 20, &err), 0);
    assert_int_equal(table_memory_grow(&m, 1U << 20, "test", &err), 0); /* to the last byte */
    assert_int_equal(budget.bytes, 1U << 20);
    assert_int_equal(table_memory_grow(&m, (1U << 20) + 1, "rows", &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "rows: "));
    assert_int_equal(m.bytes, 1U << 20);
    budget.bytes_max = 64U << 20;
    assert_int_equal(table_memory_grow(&m, 4U << 20, "test", &err), 0);
    assert_int_equal(table_memory_grow(&m, (4U << 20) + 1, "test", &err), ERR_EXHAUSTED);
    assert_int_equal(m.bytes, 4U << 20);
    assert_int_equal(table_budget_take(&budget, UINT64_MAX, "test", &err), ERR_EXHAUSTED);
    table_memory_release(&m);
    assert_int_equal(budget.bytes, 0);
}

/* The system refuses: an error, and all is as it was. */
static void test_no_memory(void **state)
{
    (void)state;
    struct table_budget budget = {.bytes_max = (uint64_t)1 << 40};
    struct table_memory m;
    struct err err;
    struct rlimit before, little = {.rlim_cur = 256U << 20, .rlim_max = RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    little.rlim_max = before.rlim_max;
    assert_int_equal(table_memory_init(&m, &budget, (size_t)1 << 40, &err), 0);
    assert_int_equal(setrlimit(RLIMIT_DATA, &little), 0);
    int rc = table_memory_grow(&m, (size_t)1 << 30, "rows", &err);
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
    assert_int_equal(rc, ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "rows: no memory for"));
    assert_int_equal(m.bytes, 0);
    assert_int_equal(budget.bytes, 0);
    assert_int_equal(table_memory_grow(&m, 1U << 20, "rows", &err), 0);
    table_memory_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_in_place),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
