/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/field.h"

struct sample {
    bool flag;
    int64_t number, any, bytes, ms;
    double rate;
    char *text;
    int mode;
    struct field_interval every;
    struct field_range workers, any_range;
    struct field_ints shape, kernel;
};

static const char *const modes[] = {"sync", "async", "bounded", NULL};

#define AT(member) offsetof(struct sample, member)
static const struct field rows[] = {
    {"flag", FIELD_BOOL, AT(flag), "true", 0, 0, NULL, "A flag"},
    {"number", FIELD_INT, AT(number), "64", 1, 1024, NULL, "A number"},
    {"any", FIELD_INT, AT(any), "-3", 0, 0, NULL, "A number without a range"},
    {"bytes", FIELD_BYTES, AT(bytes), "64 KiB", 1, 1073741824, NULL, "A size"},
    {"ms", FIELD_MS, AT(ms), "3s", 1, 60000, NULL, "A time"},
    {"rate", FIELD_FLOAT, AT(rate), "0.001", 0, 1, NULL, "A rate"},
    {"text", FIELD_STRING, AT(text), NULL, 0, 0, NULL, "A text"},
    {"mode", FIELD_ENUM, AT(mode), "sync", 0, 0, modes, "A mode"},
    {"every", FIELD_INTERVAL, AT(every), "1 epoch", 0, 0, NULL, "An interval"},
    {"workers", FIELD_RANGE, AT(workers), "1..2", 1, 1024, NULL, "A range"},
    {"any_range", FIELD_RANGE, AT(any_range), "0", 0, 0, NULL, "A range without bounds"},
    {"shape", FIELD_INTS, AT(shape), "[]", 1, 65536, NULL, "A shape"},
    {"kernel", FIELD_INTS, AT(kernel), "[3, 3]", 1, INFINITY, NULL, "A kernel"},
};
#define ROWS (sizeof rows / sizeof rows[0])

static const struct field *row(const char *path)
{
    const struct field *f = field_find(rows, ROWS, path);
    assert_non_null(f);
    return f;
}

static void refused(const char *path, const char *text, const char *message)
{
    struct sample s = {0}, before;
    struct err err = {0};
    field_defaults(rows, ROWS, &s);
    memcpy(&before, &s, sizeof s);
    assert_int_equal(field_set(row(path), &s, text, &err), ERR_INVALID);
    assert_string_equal(err.msg, message);
    assert_memory_equal(&s, &before, sizeof s); /* the old value stays */
    field_release(rows, ROWS, &s);
}

/* @text is accepted, and formats as @canonical, which reads back as the same. */
static void accepted(const char *path, const char *text, const char *canonical)
{
    struct sample s = {0};
    struct err err = {0};
    struct buf out = {0}, again = {0};
    field_defaults(rows, ROWS, &s);
    if (field_set(row(path), &s, text, &err) != 0) {
        fail_msg("%s = '%s': %s", path, text, err.msg);
    }
    field_format(row(path), &s, &out);
    assert_string_equal(buf_str(&out), canonical);
    assert_int_equal(field_set(row(path), &s, buf_str(&out), &err), 0);
    field_format(row(path), &s, &again);
    assert_string_equal(buf_str(&again), canonical);
    buf_release(&out);
    buf_release(&again);
    field_release(rows, ROWS, &s);
}

static void test_defaults(void **state)
{
    (void)state;
    struct sample s = {0};
    field_defaults(rows, ROWS, &s);
    assert_true(s.flag);
    assert_int_equal(s.number, 64);
    assert_int_equal(s.any, -3);
    assert_int_equal(s.bytes, 65536);
    assert_int_equal(s.ms, 3000);
    assert_true(s.rate == 0.001);
    assert_null(s.text);
    assert_int_equal(s.mode, 0);
    assert_true(s.every.count == 1 && s.every.epochs);
    assert_int_equal(s.shape.count, 0);
    assert_true(s.kernel.count == 2 && s.kernel.values[1] == 3);
    assert_null(field_find(rows, ROWS, "nothing"));
    field_release(rows, ROWS, &s);
}

static void test_values_round_trip(void **state)
{
    (void)state;
    accepted("flag", "false", "false");
    accepted("number", "1024", "1024");
    accepted("number", "+7", "7");
    accepted("any", "-9223372036854775808", "-9223372036854775808");
    accepted("any", "9223372036854775807", "9223372036854775807");
    accepted("bytes", "1.5MiB", "1536 KiB");
    accepted("bytes", "1000", "1000");
    accepted("bytes", "1 GiB", "1 GiB");
    accepted("ms", "250", "250ms");
    accepted("ms", "1m", "1m");
    accepted("ms", "0.5s", "500ms");
    accepted("rate", "1e-3", "0.001");
    accepted("rate", "0.1", "0.1");
    accepted("rate", "0.30000000000000004", "0.30000000000000004");
    accepted("rate", "1", "1");
    accepted("rate", "1e-8", "1.0e-08");
    accepted("rate", "1.5e-8", "1.5e-08");
    accepted("text", "", "");
    accepted("text", "\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9");
    accepted("mode", "bounded", "bounded");
    accepted("every", "never", "never");
    accepted("every", "500", "500 steps");
    accepted("every", "1 step", "1 step");
    accepted("every", "2 epochs", "2 epochs");
    accepted("every", "1 epoch", "1 epoch");
    accepted("workers", "4", "4");
    accepted("workers", "4..4", "4");
    accepted("workers", "2..8", "2..8");
    accepted("workers", "1..1024", "1..1024");
    accepted("any_range", "-3..-1", "-3..-1");
    accepted("any_range", "-9223372036854775808..9223372036854775807",
             "-9223372036854775808..9223372036854775807");
    accepted("shape", "[]", "[]");
    accepted("shape", "[ ]", "[]");
    accepted("shape", "5", "[5]");
    accepted("shape", "28, 28 ,1", "[28, 28, 1]");
    accepted("kernel", "[ 3,5 ]", "[3, 5]");
    accepted("kernel", "[1, 2, 3, 4, 5, 6, 7, 8]", "[1, 2, 3, 4, 5, 6, 7, 8]");
}

static void test_wrong_values_say_what_is_allowed(void **state)
{
    (void)state;
    refused("flag", "yes", "'yes' is not a truth value; allowed: true or false");
    refused("number", "12x", "'12x' is not a whole number; allowed: whole number from 1 to 1024");
    refused("number", "", "'' is not a whole number; allowed: whole number from 1 to 1024");
    refused("number", "1.5", "'1.5' is not a whole number; allowed: whole number from 1 to 1024");
    refused("number", "0", "'0' is out of range; allowed: whole number from 1 to 1024");
    refused("number", "1025", "'1025' is out of range; allowed: whole number from 1 to 1024");
    refused("any", "9223372036854775808",
            "'9223372036854775808' is not a whole number; allowed: whole number");
    refused("bytes", "-1", "'-1' is not a size; allowed: size such as 64 MiB from 1 to 1 GiB");
    refused("bytes", "2 GiB",
            "'2 GiB' is out of range; allowed: size such as 64 MiB from 1 to 1 GiB");
    refused("ms", "soon", "'soon' is not a time; allowed: time such as 250ms or 3s from 1ms to 1m");
    refused("rate", "fast", "'fast' is not a number; allowed: number from 0 to 1");
    refused("rate", "nan", "'nan' is not a number; allowed: number from 0 to 1");
    refused("rate", "1.001", "'1.001' is out of range; allowed: number from 0 to 1");
    refused("text", "\xff", "the text is not valid UTF-8; allowed: text");
    refused("mode", "snyc",
            "'snyc' is not known (did you mean 'sync'?); allowed: one of sync, async, bounded");
    refused("mode", "hogwild", "'hogwild' is not known; allowed: one of sync, async, bounded");
    refused("every", "0",
            "'0' is out of range; allowed: interval such as 500 steps, 2 epochs or never");
    refused("every", "2 days",
            "'2 days' is not an interval; allowed: interval such as 500 steps, 2 epochs or never");
    refused("every", "",
            "'' is not an interval; allowed: interval such as 500 steps, 2 epochs or never");
}

static void allows(enum field_type type, double min, double max, const char *expected)
{
    const struct field field = {.path = "x", .type = type, .min = min, .max = max};
    struct buf out = {0};
    field_allowed(&field, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
}

/* In the notation of the type, as short as it is exact. */
static void test_bounds_are_written_as_values_are(void **state)
{
    (void)state;
    allows(FIELD_FLOAT, 0.5, 1e6, "number from 0.5 to 1000000");
    allows(FIELD_FLOAT, -1e9, 1e12, "number from -1000000000 to 1.0e+12");
    allows(FIELD_FLOAT, 1.0 / 3.0, INFINITY, "number of at least 0.3333333333333333");
    allows(FIELD_FLOAT, 0, 0, "number");
    allows(FIELD_INT, 1, 1e12, "whole number from 1 to 1000000000000");
    allows(FIELD_INT, -5, 1e19, "whole number from -5 to 1.0e+19");
    allows(FIELD_BYTES, 1000, 3 << 20, "size such as 64 MiB from 1000 to 3 MiB");
    allows(FIELD_MS, 0, 90000, "time such as 250ms or 3s from 0 to 90s");
    allows(FIELD_RANGE, 1, 8, "whole number, or a range such as 2..8, from 1 to 8");
    allows(FIELD_INTS, 1, 9, "list of at most 8 whole numbers, each from 1 to 9");
}

static void test_wrong_lists(void **state)
{
    (void)state;
#define LIST "allowed: list of at most 8 whole numbers, each"
    refused("kernel", "[]", "the list is empty; " LIST " of at least 1");
    refused("kernel", "", "the list is empty; " LIST " of at least 1");
    refused("kernel", "[3, 0]", "'[3, 0]' is out of range; " LIST " of at least 1");
    static const char *const broken[] = {"[3,", "[3, ]", "[,3]", "3]",   "[3 3]", "[",
                                         "]",   "3,,3",  "[a]",  "[3]]", "[[3]]", "[3.5]"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char message[128];
        (void)snprintf(message, sizeof message, "'%s' is not a list of whole numbers; %s",
                       broken[i], LIST " of at least 1");
        refused("kernel", broken[i], message);
    }
    refused("shape", "1,1,1,1,1,1,1,1,1",
            "'1,1,1,1,1,1,1,1,1' is too long; " LIST " from 1 to 65536");
}

static void test_wrong_ranges(void **state)
{
    (void)state;
#define RANGE "; allowed: whole number, or a range such as 2..8, from 1 to 1024"
    static const char *const broken[] = {
        "",
        "x",
        "..",
        "2..",
        "..8",
        "2..x",
        "x..8",
        "2...8",
        "2.8",
        "2 .. 8",
        "2-8",
        "1.5",
        "2,8",
        "2..4..8",
        " 2..8",
        "2..8 ",
        "0x2..8",
        "00000000000000000000000002..8",
        "99999999999999999999",
        "1..99999999999999999999",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char message[160];
        (void)snprintf(message, sizeof message, "'%s' is not a whole number or a range" RANGE,
                       broken[i]);
        refused("workers", broken[i], message);
    }
    refused("workers", "8..2", "'8..2' ends before it begins" RANGE);
    refused("workers", "0", "'0' is out of range" RANGE);
    refused("workers", "0..4", "'0..4' is out of range" RANGE);
    refused("workers", "2..1025", "'2..1025' is out of range" RANGE);
    refused("any_range", "x",
            "'x' is not a whole number or a range; allowed: whole number, or a range such as 2..8");
}

static void test_a_long_or_strange_value_is_shown_safely(void **state)
{
    (void)state;
    char text[5001];
    memset(text, 'x', 5000);
    text[5000] = '\0';
    struct sample s = {0};
    struct err err = {0};
    assert_int_equal(field_set(row("number"), &s, text, &err), ERR_INVALID);
    assert_true(strlen(err.msg) < 160);
    assert_non_null(strstr(err.msg, "xxx...'"));
    assert_int_equal(field_set(row("number"), &s, "\x1b[2J\n", &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "'?[2J?'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values_round_trip),
        cmocka_unit_test(test_wrong_values_say_what_is_allowed),
        cmocka_unit_test(test_bounds_are_written_as_values_are),
        cmocka_unit_test(test_wrong_lists),
        cmocka_unit_test(test_wrong_ranges),
        cmocka_unit_test(test_a_long_or_strange_value_is_shown_safely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
