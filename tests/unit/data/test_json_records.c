/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of JSON as records: what is read of them, and which are refused, with their line. */
#include "unit/data/data_rig.h"

#include <math.h>

#include "base/buf.h"
#include "data/json_records.h"

#define GOOD "{\"x\": 1.5, \"k\": \"red\"}"

static char none[] = "", csv_name[] = "t.csv", ffm_name[] = "t.ffm", k[] = "k", y[] = "y";

static struct encoder *open_encoder(const struct data_spec *spec)
{
    struct encoder *e = NULL;
    struct err err = {0};
    if (encoder_open(spec, DATA_LABEL_CLASS, &e, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return e;
}

/* Records with the number x and the category k, of which both may be missing. */
static struct encoder *of_columns(void)
{
    fixture_text(csv_name, "x,k,y\n1,red,0\n2,blue,1\n");
    struct data_spec spec = fixture_spec(csv_name, none);
    spec.label = y;
    spec.categorical = k;
    spec.missing = DATA_MISSING_MEAN;
    return open_encoder(&spec);
}

/* Records with the sparse fields "0" and "1". */
static struct encoder *of_fields(void)
{
    fixture_text(ffm_name, "0 0:5:1 1:7:0.5\n1 0:6:1 1:8:2\n");
    static char range[] = "0..1";
    static struct data_column fields = {.column = range, .as = COLUMN_SPARSE};
    struct data_spec spec = fixture_spec(ffm_name, none);
    spec.format = DATA_FORMAT_LIBFFM;
    spec.columns = &fields;
    spec.column_count = 1;
    spec.lists_all = true;
    return open_encoder(&spec);
}

struct reading {
    const struct encoder *e;
    char *id;
    int64_t bad;
};

static int read_bytes(const struct reading *q, const char *bytes, size_t n, struct records *out,
                      struct err *err)
{
    struct data_spec spec = *encoder_spec(q->e);
    spec.id = q->id;
    spec.bad_records = q->bad;
    const struct feed_text text = {
        .where = "lines", .bytes = bytes, .count = n, .line = 1, .spec = &spec};
    *out = (struct records){0};
    return json_records_read(q->e, &text, out, err);
}

static struct records read_text(const struct reading *q, const char *text)
{
    struct records r;
    struct err err = {0};
    if (read_bytes(q, text, strlen(text), &r, &err) != 0) {
        fail_msg("%s: %s", text, err.msg);
    }
    return r;
}

/* The line @bytes[@n] behind a good one, and before another, is refused with @says; where a bad
 * line is allowed the others are there. */
static void refuse_bytes(const struct reading *q, const char *good, const char *bytes, size_t n,
                         const char *says)
{
    struct buf text = {0};
    buf_printf(&text, "%s\n", good);
    buf_add(&text, bytes, n);
    buf_printf(&text, "\n%s\n", good);
    struct records r;
    struct err err = {0};
    assert_int_equal(read_bytes(q, text.data, text.len, &r, &err), ERR_INVALID);
    if (strncmp(err.msg, "lines:2: ", strlen("lines:2: ")) != 0 || strstr(err.msg, says) == NULL) {
        fail_msg("%.60s: %s", bytes, err.msg);
    }
    records_release(&r);
    const struct reading lenient = {.e = q->e, .id = q->id, .bad = 1};
    assert_int_equal(read_bytes(&lenient, text.data, text.len, &r, &err), 0);
    assert_true(r.count == 2 && r.bad_count == 1);
    assert_true(r.places[0].number == 1 && r.places[1].number == 3);
    records_release(&r);
    buf_release(&text);
}

static void refuse(const struct reading *q, const char *line, const char *says)
{
    refuse_bytes(q, GOOD, line, strlen(line), says);
}

static void text_that_is_no_json_object_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{",
        "}",
        "{\"x\"",
        "{\"x\": }",
        "{\"x\": 1",
        "{\"x\": 1,}",
        "{\"x\" 1}",
        "{x: 1}",
        "{'x': 1}",
        "{\"x\": 01}",
        "{\"x\": .5}",
        "{\"x\": 1.}",
        "{\"x\": +1}",
        "{\"x\": 0x10}",
        "{\"x\": nan}",
        "{\"x\": -Infinity}",
        "{\"x\": tru}",
        "{\"x\": \"1}",
        "{\"x\": [1}",
        "{\"x\": 1} {}",
        "{\"x\": 1}}",
        "{\"x\": 1}, ",
        "// {}",
        "\xEF\xBB\xBF{\"x\": 1}",
        "[1]",
        "1",
        "\"x\"",
        "null",
        "true",
        "x,k\t",
    };
    const struct reading q = {.e = of_columns()};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        refuse(&q, lines[i], "JSON");
    }
    encoder_free((struct encoder *)(uintptr_t)q.e);
}

static void numbers_have_limits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float value;
    } good[] = {{"3.4028234663852886e38", 3.4028234663852886e38F},
                {"-3.4028234663852886e38", -3.4028234663852886e38F},
                {"1.4e-45", 1.4e-45F},
                {"1e-46", 0},
                {"-0.0", -0.0F},
                {"-0", 0},
                {"16777217", 16777216},
                {"9223372036854775808", 0x1p63F},
                {"18446744073709551615", 0x1p64F},
                {"1E2", 100}};
    static const char *const wrong[] = {"3.5e38",     "-1e39", "\"1\"", "true", "[1]",
                                        "{\"a\": 1}", "[]",    "{}",    "\"\""};
    char line[96];
    const struct reading q = {.e = of_columns()};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        (void)snprintf(line, sizeof line, "{\"x\": %s}", good[i].text);
        struct records r = read_text(&q, line);
        assert_true(r.count == 1 && r.values[0] == good[i].value);
        records_release(&r);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(line, sizeof line, "{\"x\": %s}", wrong[i]);
        refuse(&q, line, "\"x\": a number that fits a float is expected, or null");
    }
    refuse(&q, "{\"x\": 1e999}", "JSON");
    refuse(&q, "{\"x\": 18446744073709551616}", "JSON");
    struct records r = read_text(&q, "{}\n{\"x\": null, \"k\": null}");
    assert_true(r.count == 2 && isnan(r.values[0]) && isnan(r.values[1]));
    assert_int_equal(r.categories[0].cells[1], RECORDS_CATEGORY_NONE);
    records_release(&r);
    encoder_free((struct encoder *)(uintptr_t)q.e);
}

static void lists_of_numbers_may_lie_in_lists(void **state)
{
    (void)state;
    const struct reading q = {.e = of_columns()};
    static const char *const good[] = {"{\"features\": [4]}", "{\"features\": [[[4]]]}",
                                       "{\"features\": [[], [4], []]}"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct records r = read_text(&q, good[i]);
        assert_true(r.count == 1 && r.values[0] == 4);
        records_release(&r);
    }
    refuse(&q, "{\"features\": []}", "\"features\": 0 numbers, expected 1");
    refuse(&q, "{\"features\": [1, [2, 3]]}", "\"features\": 3 numbers, expected 1");
    refuse(&q, "{\"features\": [[\"1\"]]}", "\"features\": a number that fits a float is expected");
    refuse(&q, "{\"features\": [{\"x\": 1}]}", "\"features\": a number that fits a float");
    for (size_t depth = 18; depth <= 100000; depth *= 18) { /* too deep, and too deep for anyone */
        struct buf line = {0};
        buf_add_str(&line, "{\"features\": ");
        for (size_t i = 0; i < depth; i++) {
            buf_add_char(&line, '[');
        }
        buf_add_char(&line, '4');
        for (size_t i = 0; i < depth; i++) {
            buf_add_char(&line, ']');
        }
        buf_add_char(&line, '}');
        refuse(&q, buf_str(&line), "");
        buf_release(&line);
    }
    encoder_free((struct encoder *)(uintptr_t)q.e);
}

/* The text of the category of the only record. */
static void assert_category(const struct reading *q, const char *line, const char *text)
{
    struct records r = read_text(q, line);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.categories[0].values.texts[r.categories[0].cells[0]], text);
    records_release(&r);
}

static void texts_are_unicode(void **state)
{
    (void)state;
    const struct reading q = {.e = of_columns()};
    assert_category(&q, "{\"k\": \"r\\u0065d\"}", "red");
    assert_category(&q, "{\"\\u006b\": \"a\\n\\t\\\"\\\\\\/b\"}", "a\n\t\"\\/b");
    assert_category(&q, "{\"k\": \"\\ud83d\\ude00\"}", "\xF0\x9F\x98\x80");
    assert_category(&q, "{\"k\": \"\xC3\xA9\"}", "\xC3\xA9");
    assert_category(&q, "{\"k\": \"\"}", "");
    static const char *const wrong[] = {"{\"k\": \"\\ud83d\"}",        /* half of a pair */
                                        "{\"k\": \"\\ude00\\ud83d\"}", /* the wrong way round */
                                        "{\"k\": \"\\ud83dx\"}",       "{\"k\": \"\\u00g0\"}",
                                        "{\"k\": \"\\x41\"}",          "{\"k\": \"\\u0000\"}",
                                        "{\"k\": \"a\tb\"}",           "{\"k\": \"\xC3\"}",
                                        "{\"k\": \"\xC0\xAF\"}",       "{\"k\": \"\xED\xA0\x80\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        refuse(&q, wrong[i], "JSON");
    }
    static const char nul[] = "{\"k\": \"a\0b\"}", behind[] = "{\"k\": \"a\"}\0", alone[] = "\0";
    refuse_bytes(&q, GOOD, nul, sizeof nul - 1, "JSON");
    refuse_bytes(&q, GOOD, behind, sizeof behind - 1, "JSON");
    refuse_bytes(&q, GOOD, alone, sizeof alone - 1, "JSON");
    refuse(&q, "{\"k\": [\"red\"]}", "\"k\": text is expected, or null");
    refuse(&q, "{\"k\": true}", "\"k\": text is expected, or null");
    encoder_free((struct encoder *)(uintptr_t)q.e);
}

static void numbers_count_as_their_digits(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"7", "7"},
                                           {"-12", "-12"},
                                           {"0.1", "0.1"},
                                           {"1.50", "1.5"},
                                           {"2.0", "2"},
                                           {"9007199254740993", "9007199254740993"},
                                           {"-9007199254740993", "-9007199254740993"},
                                           {"18446744073709551615", "18446744073709551615"}};
    char line[96], id[] = "who";
    const struct reading q = {.e = of_columns()}, asked = {.e = q.e, .id = id};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(line, sizeof line, "{\"k\": %s}", cases[i][0]);
        assert_category(&q, line, cases[i][1]);
        (void)snprintf(line, sizeof line, "{\"who\": %s}", cases[i][0]);
        struct records r = read_text(&asked, line);
        assert_string_equal(r.ids.data, cases[i][1]);
        records_release(&r);
    }
    struct records r = read_text(&asked, "{\"who\": \"a\"}\n{\"who\": \"\", \"x\": 1}");
    assert_int_equal(r.ids.len, 3);
    assert_memory_equal(r.ids.data, "a\0", 3);
    records_release(&r);
    const char *says = "\"who\" (--id): text or a number is expected";
    const char *wrong[] = {"{}", "{\"who\": null}", "{\"who\": [1]}", "{\"who\": true}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        refuse_bytes(&asked, "{\"who\": 1}", wrong[i], strlen(wrong[i]), says);
    }
    encoder_free((struct encoder *)(uintptr_t)q.e);
}

static void members_are_there_once_and_known(void **state)
{
    (void)state;
    const struct reading q = {.e = of_columns()};
    refuse(&q, "{\"x\": 1, \"x\": 1}", "JSON");
    refuse(&q, "{\"x\": 1, \"\\u0078\": 1}", "JSON");
    refuse(&q, "{\"x\": 1, \"z\": 1}", "\"z\": the model has no column of that name");
    refuse(&q, "{\"X\": 1}", "\"X\": the model has no column of that name");
    refuse(&q, "{\"\": 1}", "\"\": the model has no column of that name");
    struct records r = read_text(&q, "{\"y\": [{\"any\": 1}], \"label\": null, \"x\": 1}");
    assert_int_equal(r.count, 1); /* labels are passed over */
    records_release(&r);
    encoder_free((struct encoder *)(uintptr_t)q.e);
}

static void lines_may_be_long_blank_and_without_an_end(void **state)
{
    (void)state;
    enum { LONG = 3 << 20 };
    const struct reading q = {.e = of_columns()};
    struct records r = read_text(&q, "\n  \t\r\n" GOOD "\r\n\n" GOOD);
    assert_true(r.count == 2 && r.places[0].number == 3 && r.places[1].number == 5);
    records_release(&r);
    r = read_text(&q, "\n \n");
    assert_int_equal(r.count, 0);
    records_release(&r);
    for (size_t n = 1; n < strlen(GOOD); n++) { /* the last line is cut off */
        char text[128];
        struct err err = {0};
        (void)snprintf(text, sizeof text, GOOD "\n%.*s", (int)n, GOOD);
        assert_int_equal(read_bytes(&q, text, strlen(text), &r, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "lines:2: JSON"));
        records_release(&r);
    }
    struct buf line = {0};
    buf_add_str(&line, "{\"k\": \"");
    for (size_t i = 0; i < LONG; i++) {
        buf_add_char(&line, (char)('a' + i % 26));
    }
    buf_add_str(&line, "\", \"x\": 2}");
    r = read_text(&q, buf_str(&line));
    assert_int_equal(strlen(r.categories[0].values.texts[r.categories[0].cells[0]]), LONG);
    assert_true(r.values[0] == 2);
    records_release(&r);
    buf_reset(&line);
    buf_add_str(&line, "{\"features\": [1");
    for (size_t i = 1; i < LONG / 4; i++) {
        buf_add_str(&line, ",1");
    }
    buf_add_str(&line, "]}");
    refuse(&q, buf_str(&line), "\"features\": 786432 numbers, expected 1");
    buf_release(&line);
    encoder_free((struct encoder *)(uintptr_t)q.e);
}

static void keys_are_whole_numbers(void **state)
{
    (void)state;
    const struct reading q = {.e = of_fields()};
    struct records r = read_text(
        &q,
        "{\"0\": [18446744073709551615, [3, 0.5]], \"1\": null}\n{\"0\": []}\n{\"1\": [[0, -1]]}");
    assert_int_equal(r.count, 3);
    const struct sparse_list first = sparse_fields_list(&r.fields, 0, 0);
    assert_int_equal(first.count, 2); /* keys rise */
    assert_true(first.keys[0] == 3 && first.keys[1] == UINT64_MAX);
    assert_true(first.weights[0] == 0.5F && first.weights[1] == 1);
    assert_int_equal(sparse_fields_list(&r.fields, 1, 0).count, 0);
    const struct sparse_list last = sparse_fields_list(&r.fields, 2, 1);
    assert_true(last.count == 1 && last.keys[0] == 0 && last.weights[0] == -1);
    records_release(&r);
    static const char *const wrong[] = {"-1",         "1.5",       "\"1\"",      "null",
                                        "true",       "{}",        "[1]",        "[1, 2, 3]",
                                        "[1, \"2\"]", "[1, 1e39]", "[-1, 1]",    "[1.5, 1]",
                                        "[1, [2]]",   "[]",        "[\"1\", 1]", "1e2"};
    char line[64];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(line, sizeof line, "{\"0\": [4, %s]}", wrong[i]);
        refuse_bytes(&q, "{}", line, strlen(line),
                     "\"0\": a list of keys, whole numbers from 0 on");
    }
    static const char *const no_lists[] = {"1", "\"1\"", "{\"1\": 2}", "false"};
    for (size_t i = 0; i < sizeof no_lists / sizeof no_lists[0]; i++) {
        (void)snprintf(line, sizeof line, "{\"1\": %s}", no_lists[i]);
        refuse_bytes(&q, "{}", line, strlen(line), "\"1\": a list of keys");
    }
    encoder_free((struct encoder *)(uintptr_t)q.e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_is_no_json_object_is_refused),
        cmocka_unit_test(numbers_have_limits),
        cmocka_unit_test(lists_of_numbers_may_lie_in_lists),
        cmocka_unit_test(texts_are_unicode),
        cmocka_unit_test(numbers_count_as_their_digits),
        cmocka_unit_test(members_are_there_once_and_known),
        cmocka_unit_test(lines_may_be_long_blank_and_without_an_end),
        cmocka_unit_test(keys_are_whole_numbers),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
