/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of shards: a known one, and that everything they are made of counts. */
#include "support/test.h"

#include <string.h>

#include "auth/shard_key.h"

static void test_keys(void **state)
{
    (void)state;
    const uint8_t secret[SHARD_KEY_SECRET_BYTES] = {1, 2,  3,  4,  5,  6,  7,  8,
                                                    9, 10, 11, 12, 13, 14, 15, 16};
    const uint8_t other[SHARD_KEY_SECRET_BYTES] = {1}, none[SHARD_KEY_SECRET_BYTES] = {0};
    char key[SHARD_KEY_BYTES], again[SHARD_KEY_BYTES];
    shard_key(secret, "digits-1", 2, UINT64_C(0x0102030405060708), key);
    assert_string_equal(key, "u01GPiRopNku1HmaZvS3_abeuoKZDRJCz62cifq3PPY");
    shard_key(secret, "digits-1", 2, UINT64_C(0x0102030405060708), again);
    assert_true(shard_key_equal(key, again));
    shard_key(secret, "digits-1", 2, UINT64_C(0x0102030405060709), again);
    assert_false(shard_key_equal(key, again));
    shard_key(secret, "digits-1", 3, UINT64_C(0x0102030405060708), again);
    assert_false(shard_key_equal(key, again));
    shard_key(secret, "digits-2", 2, UINT64_C(0x0102030405060708), again);
    assert_false(shard_key_equal(key, again));
    shard_key(other, "digits-1", 2, UINT64_C(0x0102030405060708), again);
    assert_false(shard_key_equal(key, again));
    assert_false(shard_key_equal(key, ""));
    shard_key(none, "digits-1", 2, 7, again);
    assert_string_equal(again, "");
}

/* Each worker has a secret of its own, and knows nothing of the job's. */
static void test_secrets_of_workers(void **state)
{
    (void)state;
    const uint8_t secret[SHARD_KEY_SECRET_BYTES] = {1, 2,  3,  4,  5,  6,  7,  8,
                                                    9, 10, 11, 12, 13, 14, 15, 16};
    const uint8_t other[SHARD_KEY_SECRET_BYTES] = {1}, none[SHARD_KEY_SECRET_BYTES] = {0};
    const uint8_t expected[SHARD_KEY_SECRET_BYTES] = {0x9c, 0x50, 0x36, 0x91, 0x4e, 0x7e,
                                                      0x50, 0x02, 0xda, 0x5f, 0x62, 0x9f,
                                                      0xd4, 0x1c, 0x88, 0xbd};
    uint8_t own[SHARD_KEY_SECRET_BYTES], again[SHARD_KEY_SECRET_BYTES];
    shard_worker_secret(secret, "worker-1", own);
    assert_memory_equal(own, expected, sizeof own);
    shard_worker_secret(secret, "worker-2", again);
    assert_memory_not_equal(own, again, sizeof own);
    shard_worker_secret(other, "worker-1", again);
    assert_memory_not_equal(own, again, sizeof own);
    shard_worker_secret(none, "worker-1", again);
    assert_memory_equal(again, none, sizeof none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_secrets_of_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
