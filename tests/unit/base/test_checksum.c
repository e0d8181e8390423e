/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums are those of XXH3, at once and piece by piece. */
#include "support/test.h"

#include <string.h>

#include "base/checksum.h"

static void test_sums(void **state)
{
    (void)state;
    unsigned char data[5000];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 31 + i / 256);
    }
    assert_true(checksum_of("", 0) == UINT64_C(0x2d06800538d394c2)); /* of nothing, seed 0 */
    uint64_t whole = checksum_of(data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut += 499) {
        struct checksum *c = checksum_new();
        checksum_add(c, data, cut);
        assert_true(checksum_value(c) == checksum_of(data, cut));
        checksum_add(c, data + cut, sizeof data - cut);
        assert_true(checksum_value(c) == whole);
        checksum_free(c);
    }
    data[4999] ^= 1;
    assert_true(checksum_of(data, sizeof data) != whole);
    checksum_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
