/* SPDX-License-Identifier: Apache-2.0 */
/* Fast numbers beside the slow ones: the same bits, and the same refusals. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/text.h"
#include "data/decimal.h"

static void same_as_text(const char *s)
{
    double expected = 0, value = 0;
    const char *end = NULL;
    bool number = text_to_double(s, &expected);
    if (decimal_read(s, &value, &end) != number || memcmp(&value, &expected, sizeof value) != 0) {
        fail_msg("%s: %.17g, expected %.17g", s, value, expected);
    }
    assert_true(!number || *end == '\0');
}

static void written_numbers_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "+1",
        "1",
        "-1",
        "0.1",
        ".5",
        "-.5",
        "5.",
        "1e5",
        "1E-5",
        "1e+22",
        "1e23",
        "1e-22",
        "1e-23",
        "1.5e308",
        "1e309",
        "1e",
        "1e+",
        "e5",
        ".",
        "",
        "-",
        "+-1",
        "--1",
        "0x10",
        "inf",
        "nan",
        "1_0",
        "1,5",
        "1.2.3",
        "1e5.",
        "1ex5",
        "4.9e-324",
        "1e-400",
        "9007199254740992",
        "9007199254740993",
        "900719925474099200001",
        "0.1000000000000000055511151231257827",
        "123456789012345678901234567890",
        "00000000000000000000000000001.5",
        "1e99999999999999999999",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        same_as_text(texts[i]);
    }
}

static void random_numbers_have_the_same_bits(void **state)
{
    (void)state;
    static const int digits[] = {17, 6, 3, 9, 1};
    for (uint64_t i = 0; i < 20000; i++) {
        char text[400];
        double v = (rng_uniform(1, i) - 0.5) * (i % 3 == 0 ? 1e-9 : i % 3 == 1 ? 1 : 1e12);
        (void)snprintf(text, sizeof text, "%.*g", digits[i % 5], v);
        same_as_text(text);
        (void)snprintf(text, sizeof text, "%.*f", digits[i % 5], v);
        same_as_text(text);
        (void)snprintf(text, sizeof text, "%.*e", digits[i % 5], v);
        same_as_text(text);
    }
}

static void stops_at_blanks(void **state)
{
    (void)state;
    static const char text[] = "1.5 2\t3";
    double value;
    const char *end;
    assert_true(decimal_read(text, &value, &end));
    assert_ptr_equal(end, text + 3);
    assert_true(decimal_read(text + 4, &value, &end));
    assert_ptr_equal(end, text + 5);
    assert_false(decimal_read(" 1", &value, &end));
    char longest[2000];
    memset(longest, '1', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_false(decimal_read(longest, &value, &end));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_numbers_have_the_same_bits),
        cmocka_unit_test(random_numbers_have_the_same_bits),
        cmocka_unit_test(stops_at_blanks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
