/* SPDX-License-Identifier: Apache-2.0 */
/* What a table refuses, and says; and what it tells of its hottest keys. */
#include "table_model.h"
#include "table_rig.h"

#include <string.h>

#include "base/rng.h"

static void assert_says(int rc, int expected, const struct err *err, const char *what)
{
    assert_int_equal(rc, expected);
    if (strstr(err->msg, what) == NULL || strstr(err->msg, "table users") == NULL) {
        fail_msg("%s", err->msg);
    }
}

static void test_configs(void **state)
{
    (void)state;
    struct table *t = NULL;
    struct err err;
    const struct table_config good = model_config("adamax", 3);
    const struct rule_past past = {0};
    struct table_config c = good;
    c.shard = 1;
    assert_says(table_new(&c, 0, &t, &err), ERR_INVALID, &err, "shard 1 of 1");
    c.shards = TABLE_BUCKETS + 1;
    assert_says(table_new(&c, 0, &t, &err), ERR_INVALID, &err, "of 1025");
    c = good;
    c.eviction.rows_max = TABLE_BUCKETS - 1;
    assert_says(table_new(&c, 0, &t, &err), ERR_INVALID, &err, "1023 rows");
    c = good;
    c.past = &past;
    assert_says(table_new(&c, 0, &t, &err), ERR_INVALID, &err, "adamax cannot catch up");
    c = good;
    c.bytes_max = 200000;
    assert_says(table_new(&c, 0, &t, &err), ERR_INVALID, &err, "no row fits in 200000");
    c = good;
    c.dim = 0;
    assert_says(table_new(&c, 0, &t, &err), ERR_INVALID, &err, "dim 0");
    c = good;
    c.admission = (struct table_admission_spec){.kind = TABLE_ADMIT_PROBABILITY, .probability = 2};
    assert_says(table_new(&c, 0, &t, &err), ERR_INVALID, &err, "probability 2");
    table_free(NULL);
}

static void test_bad_calls(void **state)
{
    (void)state;
    struct table_config c = model_config("sgd", 2);
    c.shards = 2;
    c.shard = table_shard_of(7, 2);
    struct table *t = rig_open(&c);
    struct err err;
    uint64_t key = 7, version = 0, count = 0;
    uint32_t seen_once = 1;
    float row[2] = {1, 1};
    const struct rule_scalars scalars = {0};
    struct table_step step = {.version = 2,
                              .gradient = {2, 1, &key, &seen_once, row},
                              .gradient_scale = 1.0F,
                              .scalars = &scalars};
    struct table_cursor cursor = {0};
    struct table_chunk chunk = {.capacity = 1, .n = 1, .keys = &key};
    assert_says(table_update(t, &step, &err), ERR_RANGE, &err, "version 2 is to be made of 0");
    step.version = 1;
    step.gradient.dim = 3;
    assert_says(table_update(t, &step, &err), ERR_INVALID, &err, "rows of 3 floats");
    step.gradient.dim = 2;
    for (key = 8; table_shard_of(key, 2) == c.shard; key++) {
    }
    assert_says(table_update(t, &step, &err), ERR_INVALID, &err, "belongs to shard");
    assert_int_equal(table_restore_rows(t, &chunk, NULL), 0); /* of another shard */
    assert_int_equal(rig_rows(t), 0);
    key = 7;
    assert_int_equal(table_update(t, &step, NULL), 0);
    assert_says(table_gather(t, 0, &key, 1, row, &err), ERR_RANGE, &err,
                "version 0 cannot be read; 1 can");
    assert_int_equal(table_pin(t, &version, NULL), 0);
    step.version = 2;
    assert_int_equal(table_update(t, &step, NULL), 0);
    assert_says(table_walk(t, 0, &cursor, &chunk, &err), ERR_RANGE, &err, "read; 2, 1 can");
    assert_int_equal(chunk.n, 0);
    assert_says(table_count(t, 3, &count, &err), ERR_RANGE, &err, "version 3");
    assert_says(table_unpin(t, 2, &err), ERR_RANGE, &err, "version 2 is not pinned");
    assert_says(table_restore_rows(t, &chunk, &err), ERR_STATE, &err, "in use");
    assert_int_equal(table_unpin(t, 1, NULL), 0);
    table_free(t);
}

static void test_bad_restores(void **state)
{
    (void)state;
    struct table_config c = model_config("sgd", 2);
    static uint8_t block[2 * TABLE_BLOOM_BLOCK] = {[0] = 1, [TABLE_BLOOM_BLOCK] = 1};
    uint64_t twice[] = {3, 3}, seen[] = {5, 6};
    uint32_t counts[] = {1, 1};
    struct table_chunk chunk = {.capacity = 2, .n = 2, .keys = twice};
    struct table_counts_chunk counted = {
        .capacity = 2, .n = 2, .keys = twice, .counts = counts, .counters = block};
    struct table *t = NULL;
    struct err err;
    float values[2];
    assert_int_equal(table_new(&c, 5, &t, NULL), 0);
    assert_int_equal(table_restore_reserve(t, 2, 0, NULL), 0);
    assert_says(table_restore_rows(t, &chunk, &err), ERR_CORRUPT, &err, "key 3 comes twice");
    assert_says(table_restore_reserve(t, 2, 0, &err), ERR_STATE, &err, "it has rows already");
    twice[0] = 4;
    twice[1] = 5;
    chunk.seen = seen;
    assert_says(table_restore_rows(t, &chunk, &err), ERR_CORRUPT, &err, "at version 6, after 5");
    assert_int_equal(table_gather(t, 5, twice, 1, values, NULL), 0);
    struct rig_listing l = rig_list(t, 5); /* without values: initial ones, seen now */
    assert_true(l.n == 2 && l.chunk.seen[0] == 5 && l.chunk.seen[1] == 5);
    assert_memory_equal(l.chunk.values + 2 * rig_find(&l, 4), values, sizeof values);
    rig_drop(&l);
    table_free(t);

    twice[0] = twice[1] = 3;
    c.admission.sightings = 2;
    for (c.admission.kind = TABLE_ADMIT_COUNTED; c.admission.kind <= TABLE_ADMIT_BLOOM;
         c.admission.kind++) {
        t = rig_open(&c);
        assert_says(table_restore_counts(t, &counted, &err), ERR_CORRUPT, &err, "twice");
        table_free(t);
    }
    c.admission.kind = TABLE_ADMIT_BLOOM;
    t = rig_open(&c);
    twice[0] = 1 << 14;
    assert_says(table_restore_counts(t, &counted, &err), ERR_CORRUPT, &err, "block 16384");
    table_free(t);

    c = model_config("sgd", RIG_DIM_MAX);
    c.bytes_max = 300000;
    t = rig_open(&c);
    int rc = 0;
    for (uint64_t key = 0; rc == 0; key++) {
        const struct table_chunk one = {.capacity = 1, .n = 1, .keys = &key};
        rc = table_restore_rows(t, &one, &err);
    }
    assert_says(rc, ERR_EXHAUSTED, &err, "it is full");
    table_free(t);
}

/* Of all rows, however many are read at a time. */
static struct table_hottest hottest_of(const struct table *t, size_t rows)
{
    struct table_hottest h = {.count = 0};
    while (table_hottest(t, &h, rows)) {
    }
    return h;
}

static void test_hottest(void **state)
{
    (void)state;
    const struct table_config c = model_config("sgd", 2);
    struct table *t = rig_open(&c);
    assert_int_equal(hottest_of(t, 1000).count, 0);
    for (size_t n = 30; n > 0; n--) { /* key number i comes 30 - i times, but for the last ones */
        assert_int_equal(rig_update(t, 0, n < 25 ? n : 30, NULL), 0);
    }
    struct table_hottest h = hottest_of(t, 1000);
    assert_int_equal(h.count, TABLE_HOTTEST_MAX);
    for (size_t i = 0; i < TABLE_HOTTEST_MAX; i++) {
        assert_int_equal(h.keys[i].key, rng_u64(9, i));
        assert_int_equal(h.keys[i].sightings, 30 - i);
    }
    table_free(t);
    t = rig_open(&c);
    assert_int_equal(rig_update(t, 0, 30, NULL), 0);
    h = hottest_of(t, 1);
    assert_int_equal(h.count, TABLE_HOTTEST_MAX);
    for (size_t i = 0; i < TABLE_HOTTEST_MAX; i++) { /* as many each: by key */
        assert_int_equal(h.keys[i].key, rig_keys[i]);
    }
    table_free(t);
}

/* A call reads no more than it is told to, or a few; rows may change meanwhile. */
static void test_hottest_in_parts(void **state)
{
    (void)state;
    const struct table_config c = model_config("sgd", 2);
    struct table *t = rig_open(&c);
    struct table_hottest h = {.count = 0};
    size_t calls = 1;
    assert_int_equal(rig_update(t, 0, 3000, NULL), 0);
    while (table_hottest(t, &h, 500)) {
        assert_int_equal(rig_update(t, 0, 10, NULL), 0);
        calls++;
    }
    assert_in_range(calls, 3000 / 1000, 3000 / 500 + 1);
    for (size_t i = 0; i < h.count; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(h.keys[k].key, h.keys[i].key); /* none comes twice */
        }
    }
    table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs),          cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_bad_restores),     cmocka_unit_test(test_hottest),
        cmocka_unit_test(test_hottest_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
