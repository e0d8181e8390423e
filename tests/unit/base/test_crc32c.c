/* SPDX-License-Identifier: Apache-2.0 */
/* The sums that RFC 3720, B.4 lists, and both ways to compute them. */
#include "support/test.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/rng.h"

static void both(const void *data, size_t n, uint32_t expected)
{
    assert_int_equal(crc32c_of(data, n), expected);
    assert_int_equal(crc32c_by_tables(data, n), expected);
}

static void known_sums(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    both(bytes, 32, 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    both(bytes, 32, 0x62A8AB43);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    both(bytes, 32, 0x46DD794E);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    both(bytes, 32, 0x113FDB5C);
    both("123456789", 9, 0xE3069283);
    both("", 0, 0);
}

static void masked_is_rotated_and_shifted(void **state)
{
    (void)state;
    const uint32_t c = 0xE3069283;
    assert_int_equal(crc32c_masked("123456789", 9), (uint32_t)((c >> 15 | c << 17) + 0xA282EAD8U));
}

static void both_ways_agree(void **state)
{
    (void)state;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)rng_below(1, i, 256);
    }
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t n = 0; n + begin <= sizeof bytes; n++) {
            both(bytes + begin, n, crc32c_by_tables(bytes + begin, n));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_sums),
        cmocka_unit_test(masked_is_rotated_and_shifted),
        cmocka_unit_test(both_ways_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
