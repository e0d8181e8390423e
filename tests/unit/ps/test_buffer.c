/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of a parameter server, and what a pool has told it: to the last byte, and the same
 * after whatever was refused. */
#include "support/test.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ps/data/buffer.h"

#define FLOATS 100
#define EACH (FLOATS * sizeof(float))

static void test_budget(void **state)
{
    (void)state;
    struct budget b = {.bytes_max = 100};
    struct err err;
    assert_int_equal(budget_take(&b, 60, "x", &err), 0);
    assert_int_equal(budget_take(&b, 41, "gradients", &err), ERR_EXHAUSTED);
    assert_string_equal(err.msg, "gradients: 41 bytes are too many: 60 are in use and "
                                 "memory_bytes_max is 100");
    assert_int_equal(b.bytes, 60);
    assert_int_equal(budget_take(&b, 40, "x", &err), 0);
    assert_int_equal(budget_take(&b, 101, "x", &err), ERR_EXHAUSTED);
    budget_give(&b, 100);
    assert_int_equal(budget_take(&b, 100, "x", &err), 0);
    assert_int_equal(b.bytes, 100);
    struct budget none = {.bytes_max = 0};
    assert_int_equal(budget_take(&none, UINT64_MAX / 2, "x", &err), 0);
}

static void test_reserved(void **state)
{
    (void)state;
    struct budget b = {.bytes_max = 3 * EACH};
    struct buffer_pool p;
    struct err err;
    assert_int_equal(floats_bytes_max(FLOATS), EACH);
    buffer_pool_init(&p, FLOATS, 3, &b);
    assert_int_equal(buffer_pool_reserve(&p, 2, "gradients", &err), 0);
    assert_int_equal(b.bytes, 2 * EACH);
    assert_int_equal(buffer_pool_reserve(&p, 4, "gradients", &err), ERR_EXHAUSTED);
    assert_int_equal(b.bytes, 2 * EACH);
    assert_int_equal(buffer_pool_bytes(&p), 2 * EACH);
    struct buffer *first = buffer_get(&p, &err); /* of what is reserved */
    assert_non_null(first);
    assert_int_equal(b.bytes, 2 * EACH);
    assert_int_equal(buffer_pool_reserve(&p, 3, "gradients", &err), 0);
    assert_int_equal(b.bytes, 3 * EACH);
    assert_int_equal(buffer_pool_reserve(&p, 0, "gradients", &err), 0); /* one is made */
    assert_int_equal(b.bytes, EACH);
    assert_int_equal(buffer_pool_bytes(&p), EACH);
    buffer_put(first);
    assert_int_equal(buffer_pool_trim(&p, 1, 1), 1); /* and its bytes stay taken */
    assert_int_equal(b.bytes, EACH);
    assert_int_equal(buffer_pool_trim(&p, 1, 1), 0);
    buffer_pool_release(&p);
    assert_int_equal(b.bytes, 0);
}

/* More than an address can name, beside what is there: the budget is not asked. */
static void test_more_than_can_be(void **state)
{
    (void)state;
    struct budget b = {.bytes_max = 2 * EACH};
    struct buffer_pool p;
    struct err err;
    const size_t most = (size_t)(UINT64_MAX / 2 / (EACH + 1));
    buffer_pool_init(&p, FLOATS, 2, &b);
    assert_int_equal(buffer_pool_reserve(&p, 1, "gradients", &err), 0);
    assert_int_equal(buffer_pool_reserve(&p, most + 1, "gradients", &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, " bytes are too many: 400 are in use"));
    assert_int_equal(buffer_pool_reserve(&p, most + 2, "gradients", &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, " gradients do not fit in memory"));
    assert_int_equal(b.bytes, EACH);
    buffer_pool_release(&p);
    struct floats f = {.bytes = 7};
    assert_int_equal(floats_init(&f, SIZE_MAX / 4 / sizeof(float) + 1, 0, &b, "values", &err),
                     ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "values: "));
    assert_non_null(strstr(err.msg, " floats do not fit in memory"));
    assert_int_equal(f.bytes, 7);
    assert_int_equal(b.bytes, 0);
}

#define LARGE (UINT64_C(1) << 20)

static size_t pages_touched(const struct buffer *b)
{
    static unsigned char pages[LARGE * sizeof(float) / 4096 + 32];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t touched = 0;
    assert_int_equal(mincore(b->floats.memory, b->floats.bytes, pages), 0);
    for (size_t i = 0; i < b->floats.bytes / page; i++) {
        touched += pages[i] & 1;
    }
    return touched;
}

/* Who gets a buffer of a cold pool does not wait for its pages. */
static void test_cold(void **state)
{
    (void)state;
    struct budget b = {0};
    struct err err;
    for (int cold = 0; cold < 2; cold++) {
        struct buffer_pool p;
        buffer_pool_init(&p, LARGE, 1, &b);
        p.cold = cold;
        struct buffer *one = buffer_get(&p, &err);
        assert_non_null(one);
        assert_true(cold ? pages_touched(one) == 0 : pages_touched(one) > 0);
        assert_true(one->floats.data[0] == 0.0F && one->floats.data[LARGE - 1] == 0.0F);
        buffer_put(one);
        buffer_pool_release(&p);
        assert_int_equal(b.bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_reserved),
        cmocka_unit_test(test_more_than_can_be),
        cmocka_unit_test(test_cold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
