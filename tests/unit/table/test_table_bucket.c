/* SPDX-License-Identifier: Apache-2.0 */
/* Which shard has a key: all buckets once, balanced, and unrelated to the index. */
#include "support/test.h"

#include "base/rng.h"
#include "table/table_bucket.h"
#include "table/table_line.h"

static void test_ranges(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= TABLE_BUCKETS; shards++) {
        uint32_t least = TABLE_BUCKETS, most = 0;
        assert_int_equal(table_bucket_first(0, shards), 0);
        assert_int_equal(table_bucket_first(shards, shards), TABLE_BUCKETS);
        for (uint32_t shard = 0; shard < shards; shard++) {
            const uint32_t first = table_bucket_first(shard, shards);
            const uint32_t n = table_bucket_first(shard + 1, shards) - first;
            least = n < least ? n : least;
            most = n > most ? n : most;
        }
        assert_in_range(most - least, 0, 1);
    }
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t key = i % 2 == 0 ? i : rng_u64(1, i);
        const uint32_t shards = (uint32_t)(i % TABLE_BUCKETS) + 1;
        const uint32_t bucket = table_bucket_of(key), shard = table_shard_of(key, shards);
        assert_true(bucket >= table_bucket_first(shard, shards));
        assert_true(bucket < table_bucket_first(shard + 1, shards));
    }
    assert_int_equal(table_shard_of(UINT64_MAX, 1), 0);
}

static void test_shares(void **state)
{
    (void)state;
    static const uint64_t totals[] = {0, 1, 1023, 1024, 1025, 1000000, UINT64_MAX};
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        uint64_t sum = 0;
        for (uint32_t bucket = 0; bucket < TABLE_BUCKETS; bucket++) {
            sum += table_bucket_share(bucket, totals[i]);
        }
        assert_true(sum == totals[i]);
    }
}

/* Of each kind of keys: as many in each shard, and the keys of a shard as many in each part of the
 * index, up to five standard deviations. */
static void test_spread(void **state)
{
    (void)state;
    enum { N = 100000, SHARDS = 5, PARTS = 8 };
    for (int kind = 0; kind < 4; kind++) {
        size_t counts[SHARDS][PARTS] = {{0}};
        for (uint64_t i = 0; i < N; i++) {
            const uint64_t key = kind == 0   ? i
                                 : kind == 1 ? i << 40
                                 : kind == 2 ? i * 1024
                                             : rng_u64(3, i);
            counts[table_shard_of(key, SHARDS)][table_share(table_mix(key), PARTS)]++;
        }
        for (size_t shard = 0; shard < SHARDS; shard++) {
            for (size_t part = 0; part < PARTS; part++) {
                assert_in_range(counts[shard][part], 2500 - 250, 2500 + 250);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
