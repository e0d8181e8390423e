/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "config/binding.h"

struct sample {
    char *file;
    int64_t limit, depth;
    struct field_ints shape;
    char *words;
};
static const struct field rows[] = {
    {"train.file", FIELD_STRING, offsetof(struct sample, file), NULL, 0, 0, NULL, "A file"},
    {"train.limit", FIELD_INT, offsetof(struct sample, limit), "0", 0, 9, NULL, "A limit"},
    {"train.net.depth", FIELD_INT, offsetof(struct sample, depth), "1", 1, 9, NULL, "A depth"},
    {"shape", FIELD_INTS, offsetof(struct sample, shape), "[]", 1, 99, NULL, "A shape"},
    {"words", FIELD_TEXTS, offsetof(struct sample, words), "", 0, 0, NULL, "Words"},
};
#define ROWS (sizeof rows / sizeof rows[0])

/* Read @text; the problems have to be @problems, and the values then are @values. */
static void check(const char *text, const char *problems, const char *values)
{
    struct sample s = {0};
    struct diags d = {0};
    struct buf out = {0};
    bool seen[ROWS] = {false};
    static const char *const extra[] = {"kind", NULL};
    const struct binding b = {rows, ROWS, &s, seen, "data", extra, "f", &d, NULL};
    field_defaults(rows, ROWS, &s);
    struct yaml_node *map = yaml_parse(text, strlen(text), "f", &d);
    assert_non_null(map);
    binding_read(&b, map);
    binding_require(&b, map);
    diags_format(&d, &out);
    assert_string_equal(buf_str(&out), problems);
    buf_reset(&out);

    struct yaml_node *written = yaml_mapping();
    binding_write(rows, ROWS, &s, written);
    yaml_write(written, &out);
    assert_string_equal(buf_str(&out), values);
    yaml_node_free(written);
    yaml_node_free(map);
    buf_release(&out);
    diags_release(&d);
    field_release(rows, ROWS, &s);
}

static void test_nested_rows(void **state)
{
    (void)state;
    check("kind: x\ntrain: {file: a, limit: 3, net: {depth: 2}}\nshape: [4, 5]\n", "",
          "train:\n  file: a\n  limit: 3\n  net:\n    depth: 2\nshape: [4, 5]\nwords: \"\"\n");
    check("train:\n  file: b\nshape: 7\n", "",
          "train:\n  file: b\n  limit: 0\n  net:\n    depth: 1\nshape: [7]\nwords: \"\"\n");
}

/* What is written reads back to the same. */
static void test_lists_of_texts(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a.csv", "a.csv"},
        {"[a.csv]", "[a.csv]"},
        {"[a.csv, \"b, c.csv\", 'd\"e', part-*.csv, \"1\"]",
         "[a.csv, \"b, c.csv\", \"d\\\"e\", \"part-*.csv\", \"1\"]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = mem_printf("words: %s\n", cases[i][0]);
        char *values = mem_printf("train:\n  file: \"\"\n  limit: 0\n  net:\n    depth: 1\n"
                                  "shape: []\nwords: %s\n",
                                  cases[i][1]);
        check(text, "f:1:1: data.train.file is missing; allowed: text\n", values);
        free(text);
        free(values);
    }
    check("train: {file: a}\nwords: []\n",
          "f:2:8: data.words: '[]' is not a list of texts; allowed: text, or a list of texts\n",
          "train:\n  file: a\n  limit: 0\n  net:\n    depth: 1\nshape: []\nwords: \"\"\n");
}

static void test_wrong_values_leave_the_defaults(void **state)
{
    (void)state;
    check("train: {limit: 10, net: 3, nett: 1, kind: 1}\nshape: [4, a]\nchape: 1\n",
          "f:1:1: data.train.file is missing; allowed: text\n"
          "f:1:16: data.train.limit: '10' is out of range; allowed: whole number from 0 to 9\n"
          "f:1:25: data.train.net: a single value stands here; allowed: a section of keys\n"
          "f:1:28: unknown key 'nett' in data.train; did you mean 'net'?\n"
          "f:1:37: unknown key 'kind' in data.train; allowed: file, limit, net\n"
          "f:2:8: data.shape: '[4, a]' is not a list of whole numbers; allowed: list of at most 8 "
          "whole numbers, each from 1 to 99\n"
          "f:3:1: unknown key 'chape' in data; did you mean 'shape'?\n",
          "train:\n  file: \"\"\n  limit: 0\n  net:\n    depth: 1\nshape: []\nwords: \"\"\n");
}

static void test_the_extra_keys_are_suggested(void **state)
{
    (void)state;
    check("train: {file: a}\nkinds: 1\n",
          "f:2:1: unknown key 'kinds' in data; did you mean 'kind'?\n",
          "train:\n  file: a\n  limit: 0\n  net:\n    depth: 1\nshape: []\nwords: \"\"\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested_rows),
        cmocka_unit_test(test_lists_of_texts),
        cmocka_unit_test(test_wrong_values_leave_the_defaults),
        cmocka_unit_test(test_the_extra_keys_are_suggested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
