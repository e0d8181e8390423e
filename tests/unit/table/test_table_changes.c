/* SPDX-License-Identifier: Apache-2.0 */
/* What changed in a table since a version: rows that changed say so themselves, those that went are
 * noted, as far as there is memory for notes. */
#include "table_rig.h"

#include <string.h>

#define LISTED 10000

static struct table *open_table(uint64_t unseen, uint64_t copies)
{
    struct table_config c = {
        .name = "t",
        .seed = 1,
        .dim = 4,
        .rule = rule_find("adagrad"),
        .eviction = {.unseen = unseen},
        .bytes_max = 1 << 22,
        .copies_bytes_max = copies,
        .notes_evicted = true,
        .shards = 1,
    };
    return rig_open(&c);
}

static int evicted(struct table *t, uint64_t since, uint64_t version, uint64_t *keys, size_t *count)
{
    size_t at = 0, n = 1;
    int rc = 0;
    *count = 0;
    while (rc == 0 && n > 0) {
        rc = table_evicted_since(t, since, version, &at, keys + *count, 7, &n, NULL);
        *count += n;
    }
    return rc;
}

static size_t changed(struct table *t, uint64_t since, uint64_t version, size_t looks)
{
    struct table_cursor cursor = {0};
    size_t n = 0;
    while (!cursor.end) {
        uint64_t keys[100];
        struct table_chunk c = {.capacity = 100,
                                .kept = true,
                                .changed = true,
                                .since = since,
                                .looks = looks,
                                .keys = keys};
        assert_int_equal(table_walk(t, version, &cursor, &c, NULL), 0);
        assert_true(looks == 0 || c.n <= looks);
        n += c.n;
    }
    return n;
}

static void test_rows_that_changed(void **state)
{
    (void)state;
    struct table *t = open_table(0, 1 << 20);
    uint64_t pinned = 0;
    assert_int_equal(rig_update(t, 0, 1000, NULL), 0); /* version 1 */
    assert_int_equal(rig_update(t, 500, 10, NULL), 0); /* 2 */
    assert_int_equal(rig_update(t, 990, 20, NULL), 0); /* 3 */
    assert_int_equal(changed(t, 1, 3, 0), 30);
    assert_int_equal(changed(t, 2, 3, 13), 20);
    assert_int_equal(changed(t, 0, 3, 64), 1010);
    assert_int_equal(changed(t, 3, 3, 64), 0);
    assert_int_equal(table_pin(t, &pinned, NULL), 0);
    assert_int_equal(rig_update(t, 0, 400, NULL), 0);    /* 4 */
    assert_int_equal(rig_update(t, 2000, 100, NULL), 0); /* 5 */
    assert_int_equal(changed(t, 1, 3, 5), 30);           /* as it was then */
    assert_int_equal(changed(t, 1, 5, 0), 530);
    table_free(t);
}

static void test_rows_that_went(void **state)
{
    (void)state;
    uint64_t keys[LISTED];
    size_t n = 0;
    struct table *t = open_table(2, 1 << 20);
    assert_int_equal(rig_update(t, 0, 100, NULL), 0);   /* version 1 */
    assert_int_equal(rig_update(t, 100, 100, NULL), 0); /* 2 */
    assert_int_equal(rig_update(t, 200, 100, NULL), 0); /* 3: those of 1 go */
    assert_int_equal(rig_update(t, 0, 30, NULL), 0);    /* 4: some are back, those of 2 go */
    assert_int_equal(evicted(t, 0, 4, keys, &n), 0);
    assert_int_equal(n, 200);
    assert_int_equal(evicted(t, 0, 3, keys, &n), 0);
    assert_int_equal(n, 100);
    assert_int_equal(evicted(t, 3, 4, keys, &n), 0);
    assert_int_equal(n, 100);
    struct err err;
    size_t at = 0;
    assert_int_equal(table_evicted_since(t, 2, 4, &at, keys, 7, &n, &err), ERR_RANGE);
    assert_non_null(strstr(err.msg, "which rows went since version 2 is not known"));
    table_free(t);
}

/* Notes that do not fit are forgotten; from then on all is known again. */
static void test_notes_that_do_not_fit(void **state)
{
    (void)state;
    uint64_t keys[LISTED];
    size_t n = 0;
    struct table *t = open_table(1, 64 << 10); /* 512 notes */
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(rig_update(t, 100 * i, 100, NULL), 0);
    }
    assert_int_equal(evicted(t, 0, 6, keys, &n), 0);
    assert_int_equal(n, 500);
    assert_int_equal(rig_update(t, 600, 100, NULL), 0); /* version 7 */
    assert_int_equal(evicted(t, 0, 7, keys, &n), ERR_RANGE);
    assert_int_equal(evicted(t, 6, 7, keys, &n), ERR_RANGE);
    assert_int_equal(evicted(t, 7, 7, keys, &n), 0);
    assert_int_equal(rig_update(t, 0, 1, NULL), 0);
    assert_int_equal(evicted(t, 7, 8, keys, &n), 0);
    assert_int_equal(n, 100);
    assert_true(table_give_up_pins(t)); /* notes, too */
    assert_int_equal(evicted(t, 7, 8, keys, &n), ERR_RANGE);
    assert_false(table_give_up_pins(t));
    table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_that_changed),
        cmocka_unit_test(test_rows_that_went),
        cmocka_unit_test(test_notes_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
