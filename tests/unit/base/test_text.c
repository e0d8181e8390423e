/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, names and words in and out, and buffers that text grows in. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"

static void test_names(void **state)
{
    (void)state;
    static const char *const GOOD[] = {"", "a", "digits-1", "Z.9_x", "_", "0123456789"};
    static const char *const BAD[] = {".",   "..",  ".a", "-a",         "a/b",
                                      "a b", "a\n", "é",  "01234567890"};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        assert_true(text_is_name(GOOD[i], 10));
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        assert_false(text_is_name(BAD[i], 10));
    }
}

static void test_spaces(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_add_spaces(&b, 0);
    assert_string_equal(buf_str(&b), "");
    buf_add_str(&b, "a");
    buf_add_spaces(&b, 3);
    assert_string_equal(buf_str(&b), "a   ");
    assert_int_equal(b.len, 4);
    buf_release(&b);
}

/* What is printed fits the room that is there, misses it by one, or is much longer. */
static void test_printf(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    for (int n = 0; n < (int)sizeof text - 1; n += n < 300 ? 1 : 97) {
        struct buf b = {0};
        buf_add_str(&b, "ab");
        buf_printf(&b, "%.*s", n, text);
        buf_printf(&b, "%d", 7);
        assert_int_equal(b.len, 2 + n + 1);
        assert_memory_equal(b.data, "ab", 2);
        assert_memory_equal(b.data + 2, text, (size_t)n);
        assert_string_equal(b.data + 2 + n, "7");
        buf_release(&b);
    }
}

static void test_buffers(void **state)
{
    (void)state;
    struct buf b = {0};
    char *taken = buf_take(&b);
    assert_string_equal(taken, "");
    free(taken);
    buf_reset(&b);
    assert_string_equal(buf_str(&b), "");
    buf_add_char(&b, 'a');
    buf_add(&b, "bcd", 2);
    buf_add(&b, NULL, 0);
    assert_string_equal(buf_str(&b), "abc");
    assert_int_equal(b.len, 3);
    const char *kept = b.data;
    buf_reset(&b);
    assert_string_equal(buf_str(&b), "");
    assert_ptr_equal(b.data, kept);
    buf_add_str(&b, "x");
    taken = buf_take(&b);
    assert_string_equal(taken, "x");
    assert_true(b.data == NULL && b.len == 0 && b.capacity == 0);
    free(taken);
    buf_add_str(&b, "y");
    buf_release(&b);
    assert_true(b.data == NULL && b.len == 0 && b.capacity == 0);
}

/* Memory doubles, so that a buffer of n bytes was copied a few times and not n times. */
static void test_growth(void **state)
{
    (void)state;
    size_t capacity = 0;
    char *p = mem_grow(NULL, &capacity, 1, 1);
    assert_int_equal(capacity, 8);
    assert_ptr_equal(mem_grow(p, &capacity, 8, 1), p);
    assert_int_equal(capacity, 8);
    p = mem_grow(p, &capacity, 9, 1);
    assert_int_equal(capacity, 16);
    p = mem_grow(p, &capacity, 100, 1);
    assert_int_equal(capacity, 128);
    p[127] = 1;
    free(p);
    assert_null(mem_strdup(NULL));
    char *text = mem_printf("%s-%d", "a", 5), *copy = mem_strdup(text);
    assert_string_equal(copy, "a-5");
    assert_ptr_not_equal(copy, text);
    free(text);
    free(copy);
}

static void test_whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } GOOD[] = {{"0", 0},
                {"9", 9},
                {"-7", -7},
                {"+12", 12},
                {"007", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const BAD[] = {"",   " 1", "1 ", "-",   "+",  "--1", "1.0",
                                      "0x", "a",  "1a", "- 1", "/0", ":0",  "9223372036854775808"};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        int64_t value = 99;
        assert_true(text_to_int(GOOD[i].text, &value));
        assert_int_equal(value, GOOD[i].value);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        int64_t value = 99;
        assert_false(text_to_int(BAD[i], &value));
        assert_int_equal(value, 99);
    }
}

static void test_real_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } GOOD[] = {{"0", 0},      {"-1.5", -1.5}, {"+2", 2},    {".5", 0.5}, {"-.25", -0.25},
                {"1e3", 1000}, {"09", 9},      {"0.9", 0.9}, {"1.", 1}};
    static const char *const BAD[] = {"",       " 1",  "1 ",  "-",   ".",   "-.",
                                      "nan",    "inf", "e3",  "0x1", "0X1", "1e999",
                                      "-1e999", "1,5", "./0", ".:",  "1a"};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        double value = 99;
        assert_true(text_to_double(GOOD[i].text, &value));
        assert_true(value == GOOD[i].value);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        double value = 99;
        assert_false(text_to_double(BAD[i], &value));
        assert_true(value == 99);
    }
}

static void test_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes, ms; /* -1: none */
    } CASES[] = {
        {"64", 64, 64},
        {"64 KiB", 65536, -1},
        {"1.5MiB", 1572864, -1},
        {"2GiB", INT64_C(2147483648), -1},
        {"1TiB", INT64_C(1099511627776), -1},
        {"10kB", 10000, -1},
        {"10KB", 10000, -1},
        {"3MB", 3000000, -1},
        {"3GB", INT64_C(3000000000), -1},
        {"7B", 7, -1},
        {"250ms", -1, 250},
        {"3s", -1, 3000},
        {"2m", -1, 120000},
        {"2  min", -1, 120000},
        {"1h", -1, 3600000},
        {"0.0015s", -1, 2},
        {"1 fortnight", -1, -1},
        {"", -1, -1},
        {"s", -1, -1},
        {"1e19", -1, -1},
        {"9e18", -1, -1},
        {"8e18", INT64_C(8000000000000000000), INT64_C(8000000000000000000)},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int64_t bytes = -1, ms = -1;
        assert_int_equal(text_to_bytes(CASES[i].text, &bytes), CASES[i].bytes >= 0);
        assert_int_equal(text_to_ms(CASES[i].text, &ms), CASES[i].ms >= 0);
        assert_int_equal(bytes, CASES[i].bytes);
        assert_int_equal(ms, CASES[i].ms);
    }
    char out[32];
    assert_string_equal(text_bytes(0, out, sizeof out), "0 B");
    assert_string_equal(text_bytes(1023, out, sizeof out), "1023 B");
    assert_string_equal(text_bytes(1024, out, sizeof out), "1.0 KiB");
    assert_string_equal(text_bytes(1536, out, sizeof out), "1.5 KiB");
    assert_string_equal(text_bytes(UINT64_C(3) << 20, out, sizeof out), "3.0 MiB");
    assert_string_equal(text_bytes(UINT64_C(3) << 30, out, sizeof out), "3.0 GiB");
    assert_string_equal(text_bytes(UINT64_C(1) << 40, out, sizeof out), "1.0 TiB");
    assert_string_equal(text_bytes(UINT64_C(1) << 51, out, sizeof out), "2048.0 TiB");
}

static void test_words_that_are_near(void **state)
{
    (void)state;
    static const char *const WORDS[] = {"epochs", "batch_size", "mode"};
    assert_int_equal(text_distance("", ""), 0);
    assert_int_equal(text_distance("abc", "abc"), 0);
    assert_int_equal(text_distance("abc", "ab"), 1);
    assert_int_equal(text_distance("ab", "abc"), 1);
    assert_int_equal(text_distance("abc", "axc"), 1);
    assert_int_equal(text_distance("abc", "acb"), 1); /* next to each other */
    assert_int_equal(text_distance("abcd", "dbca"), 2);
    assert_int_equal(text_distance("ba", "ab"), 1);
    assert_int_equal(text_distance("", "abc"), 3);
    assert_int_equal(text_distance("abcdef", "badcfe"), 3);
    char longest[65], same[65];
    memset(longest, 'a', sizeof longest);
    longest[63] = '\0';
    memcpy(same, longest, sizeof same);
    assert_int_equal(text_distance(longest, same), 0);
    longest[63] = 'a';
    longest[64] = '\0'; /* too long to compare */
    assert_int_equal(text_distance(longest, same), 64);
    assert_int_equal(text_distance(same, longest), 64);
    assert_string_equal(text_nearest("epoch", WORDS, 3), "epochs");
    assert_string_equal(text_nearest("bach_sise", WORDS, 3), "batch_size");
    assert_string_equal(text_nearest("mdoe", WORDS, 3), "mode");
    assert_null(text_nearest("rate", WORDS, 3));
    assert_null(text_nearest("e", WORDS, 0));
    assert_null(text_nearest("epXXXX", WORDS, 1)); /* four edits of six letters */
    assert_string_equal(text_nearest("epXXXs", WORDS, 1), "epochs");
    static const char *const shorts[] = {"set", "ls"};
    assert_null(text_nearest("out", shorts, 2)); /* most of it would be another */
    assert_string_equal(text_nearest("sl", shorts, 2), "ls");
    static const char *const metrics[] = {"auc", "accuracy", "recall", "replicas", "replica"};
    assert_string_equal(text_nearest("acc", metrics, 5), "accuracy");   /* it begins so */
    assert_string_equal(text_nearest("replic", metrics, 5), "replica"); /* two begin so */
}

static void test_lines(void **state)
{
    (void)state;
    struct buf b = {0};
    text_wrap("  one two  three fourfive \xc3\xa9\xc3\xa9 x", 2, 9, &b);
    assert_string_equal(buf_str(&b), "  one two\n  three\n  fourfive\n  \xc3\xa9\xc3\xa9 x\n");
    buf_reset(&b);
    text_wrap("", 2, 9, &b);
    assert_string_equal(buf_str(&b), "\n");
    buf_reset(&b);
    text_wrap("aaaa bbb c", 0, 8, &b); /* just fits */
    assert_string_equal(buf_str(&b), "aaaa bbb\nc\n");
    buf_release(&b);
    assert_int_equal(text_columns("K\xc3\xb6ln", 5), 4);
    assert_int_equal(text_columns("abc", 2), 2);
}

static void test_what_is_shown(void **state)
{
    (void)state;
    char out[8];
    assert_string_equal(text_shown("1234567", out, sizeof out), "1234567");
    assert_string_equal(text_shown("12345678", out, sizeof out), "1234...");
    assert_string_equal(text_shown("123\xc3\xb6"
                                   "678",
                                   out, sizeof out),
                        "123...");
    assert_string_equal(text_shown("12\xc3\xb6"
                                   "5678",
                                   out, sizeof out),
                        "12\xc3\xb6...");
    assert_string_equal(text_shown("\xc3\xb6\x01\x7f", out, sizeof out), "\xc3\xb6??");
    char line[] = "a\nb\tc\rd\x01\xc2\x85"
                  "e\xc2\xa0";
    text_plain(line, sizeof line - 1);
    assert_string_equal(line, "a b c d???e\xc2\xa0");
    char half[] = "a\xc2\x85";
    text_plain(half, 2); /* the second byte is not ours */
    assert_string_equal(half, "a\xc2\x85");
    assert_true(text_is_control(0x1f, 0) && text_is_control(0x7f, 0) && !text_is_control(' ', 0));
    assert_true(text_is_control(0xc2, 0x80) && text_is_control(0xc2, 0x9f));
    assert_false(text_is_control(0xc2, 0xa0) || text_is_control(0xc2, 0x7f));
    text_copy(out, sizeof out, "12345678");
    assert_string_equal(out, "1234567");
    text_copy(out, sizeof out, "ab");
    assert_string_equal(out, "ab");
    text_copy(out, 1, "ab");
    assert_string_equal(out, "");
    text_copy(NULL, 0, "ab");
}

/* The limits of each length, and what lies beyond them (RFC 3629). */
static void test_utf8(void **state)
{
    (void)state;
    static const char *const GOOD[] = {"",
                                       "a",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       ("\xc3\xb6"
                                        "b\xe2\x82\xac")};
    static const char *const BAD[] = {"\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      ("\xc2"
                                       "a"),
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xe2\x82",
                                      "\xe2\x82"
                                      "a",
                                      "\xe2"
                                      "a\x82",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xf0\x9f\x98",
                                      "\xff",
                                      "a\xc3",
                                      "\xc3\xc3",
                                      "\xf0\x9f\x98"
                                      "a"};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        assert_true(text_is_utf8(GOOD[i], strlen(GOOD[i])));
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        assert_false(text_is_utf8(BAD[i], strlen(BAD[i])));
    }
    assert_false(text_is_utf8("a\0b", 3));
}

static void test_bytes_become_utf8(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"b\xc3\xb6se", "b\xc3\xb6se"},
        {"b\xf6se\x80", "b\\xF6se\\x80"},
        {"\xc3", "\\xC3"},
        {"\xff\xfe\xe2\x82\xac", "\\xFF\\xFE\xe2\x82\xac"},
    };
    char out[32];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text_utf8(cases[i][0], out, sizeof out);
        assert_string_equal(out, cases[i][1]);
    }
    text_utf8("abc\xe2\x82\xac", out, 6); /* no half character, no half escape */
    assert_string_equal(out, "abc");
    text_utf8("ab\xff", out, 6);
    assert_string_equal(out, "ab");
}

/* All of them read back, and hardly one is written in another way. */
static void test_floats(void **state)
{
    (void)state;
    static const float some[] = {
        0,     1,         0.5F,  0.1F,  9.9999997e8F, 1e-4F,  9.9999e-5F, 1e30F,
        -2.5F, 0.999999F, 1e-3F, 10.0F, 123456789.0F, 100.0F, 0.25e-3F,   -1e-3F};
    char text[TEXT_FLOAT_BYTES], plain[TEXT_FLOAT_BYTES];
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        (void)snprintf(plain, sizeof plain, "%.9g", (double)some[i]);
        assert_string_equal(text_float(some[i], text), plain);
    }
    uint64_t key = rng_key(1, "floats"), others = 0;
    for (uint64_t i = 0; i < 400000; i++) {
        const float x = (float)pow(10, 16 * rng_uniform(key, 2 * i) - 6) *
                        (rng_uniform(key, 2 * i + 1) < 0.2 ? -1.0F : 1.0F);
        (void)snprintf(plain, sizeof plain, "%.9g", (double)x);
        others += strcmp(text_float(x, text), plain) != 0;
        if (strtof(text, NULL) != x) {
            fail_msg("%s is not %.9g", text, (double)x);
        }
    }
    assert_true(others < 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_real_numbers),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_words_that_are_near),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_what_is_shown),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_bytes_become_utf8),
        cmocka_unit_test(test_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
