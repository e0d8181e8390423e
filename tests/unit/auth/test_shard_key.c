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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
