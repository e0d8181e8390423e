/* SPDX-License-Identifier: Apache-2.0 */
/* What is given back is taken again, the last first, and no more of it is kept than was said. The
 * sanitizers' builds keep nothing. */
#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/recycle.h"

static void test_items_are_used_again(void **state)
{
    (void)state;
    struct recycler r = RECYCLER(64, 2);
    void *items[3];
    for (size_t i = 0; i < 3; i++) {
        items[i] = recycler_take(&r);
        memset(items[i], 0xEE, 64);
    }
    recycler_give(&r, NULL);
    assert_int_equal(r.unused_count, 0);
    for (size_t i = 0; i < 3; i++) {
        recycler_give(&r, items[i]);
    }
    bool keeps = r.unused != NULL;
    assert_int_equal(r.unused_count, keeps ? 2 : 0);
    void *first = recycler_take(&r), *second = recycler_take(&r), *third = recycler_take(&r);
    assert_true(first != NULL && second != NULL && third != NULL);
    if (keeps) {
        assert_ptr_equal(first, items[1]);
        assert_ptr_equal(second, items[0]);
    }
    assert_true(third != first && third != second);
    assert_int_equal(r.unused_count, 0);
    assert_null(r.unused);
    free(first);
    free(second);
    free(third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_items_are_used_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
