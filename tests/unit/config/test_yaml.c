/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "config/yaml.h"

/* Parse @text and expect exactly these problems (and no tree unless @tree). */
static void reports(const char *text, const char *problems, bool tree)
{
    struct diags d = {0};
    struct buf out = {0};
    struct yaml_node *root = yaml_parse(text, strlen(text), "f.yaml", &d);
    diags_format(&d, &out);
    assert_string_equal(buf_str(&out), problems);
    assert_true((root != NULL) == tree);
    yaml_node_free(root);
    buf_release(&out);
    diags_release(&d);
}

static struct yaml_node *parse(const char *text)
{
    struct diags d = {0};
    struct yaml_node *root = yaml_parse(text, strlen(text), "f.yaml", &d);
    assert_int_equal(d.count, 0);
    assert_non_null(root);
    return root;
}

static void test_positions_and_styles(void **state)
{
    (void)state;
    struct yaml_node *root = parse("name: demo # comment\n"
                                   "training:\n"
                                   "  batch_size: 64\n"
                                   "  shape: [28, \"28\"]\n"
                                   "layers:\n"
                                   "  - dense: {units: 10}\n"
                                   "  - relu\n"
                                   "none:\n");
    assert_int_equal(root->kind, YAML_MAPPING);
    assert_int_equal(root->count, 4);
    const struct yaml_entry *training = yaml_find(root, "training");
    assert_true(training->line == 2 && training->column == 1);
    const struct yaml_entry *batch = yaml_find(training->value, "batch_size");
    assert_true(batch->line == 3 && batch->column == 3);
    assert_true(batch->value->line == 3 && batch->value->column == 15);
    assert_string_equal(batch->value->text, "64");
    const struct yaml_node *shape = yaml_find(training->value, "shape")->value;
    assert_int_equal(shape->items[0].value->style, YAML_PLAIN);
    assert_int_equal(shape->items[1].value->style, YAML_QUOTED);
    const struct yaml_node *layers = yaml_find(root, "layers")->value;
    assert_int_equal(layers->kind, YAML_SEQUENCE);
    assert_true(layers->items[1].value->line == 7 && layers->items[1].value->column == 5);
    assert_true(yaml_is_null(yaml_find(root, "none")->value));
    assert_null(yaml_find(root, "nothing"));
    assert_null(yaml_find(layers, "relu"));
    yaml_node_free(root);
}

static void test_empty_text_is_an_empty_mapping(void **state)
{
    (void)state;
    struct yaml_node *root = parse("# nothing\n");
    assert_true(root->kind == YAML_MAPPING && root->count == 0 && root->line == 1);
    yaml_node_free(root);
}

static void test_syntax_errors_have_positions(void **state)
{
    (void)state;
    reports("a: 1\n b: 2\n", "f.yaml:2:3: mapping values are not allowed in this context\n", false);
    reports("a:\n\tb: 1\n",
            "f.yaml:2:1: while scanning for the next token: found character that cannot start any "
            "token; indent with blanks, not with tabs\n",
            false);
    reports("a: [1, 2\n",
            "f.yaml:2:1: while parsing a flow sequence: did not find expected ',' or ']'\n", false);
    reports("a: 'open\n",
            "f.yaml:2:1: while scanning a quoted scalar: found unexpected end of stream\n", false);
    reports("a: 1\nb: \x01\n", "f.yaml:2:4: control characters are not allowed\n", false);
    reports("a: \xff\n", "f.yaml:1:4: invalid leading UTF-8 octet\n", false);
}

static void test_keys_given_twice_are_all_reported(void **state)
{
    (void)state;
    reports("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n",
            "f.yaml:4:3: the key 'c' is given twice; first on line 3\n"
            "f.yaml:5:1: the key 'a' is given twice; first on line 1\n",
            true);
    reports("[a, b]: 1\n? {c: d}\n: 2\n",
            "f.yaml:1:1: a key must be a word\n"
            "f.yaml:2:3: a key must be a word\n",
            true);
}

static void test_what_job_files_do_not_need_is_refused(void **state)
{
    (void)state;
    static const char anchors[] =
        "anchors and aliases (& and *) are not supported; write the value out\n";
    char message[160];
    (void)snprintf(message, sizeof message, "f.yaml:1:4: %s", anchors);
    reports("a: &x [1]\nb: *x\n", message, false);
    reports("a: &x {b: 1}\n", message, false);
    reports("a: &x 1\n", message, false);
    reports("a: *x\n", message, false);
    reports("a: !!str 5\n", "f.yaml:1:4: tags (!) are not supported; write the plain value\n",
            false);
    reports("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins here; only one is allowed\n",
            false);
    reports("a: \"x\\0y\"\n", "f.yaml:1:4: a NUL character is not allowed in text\n", false);
}

static void test_limits(void **state)
{
    (void)state;
    struct buf deep = {0}, many = {0}, large = {0};
    for (int i = 0; i < 100000; i++) {
        buf_add_char(&deep, '[');
    }
    reports(buf_str(&deep), "f.yaml:1:33: nested too deeply; at most 32 levels are allowed\n",
            false);
    buf_add_char(&many, '[');
    for (int i = 0; i < 100000; i++) {
        buf_add_str(&many, "1,");
    }
    reports(buf_str(&many), "f.yaml:1:20000: too many values; at most 10000 are allowed\n", false);
    for (int i = 0; i <= YAML_BYTES_MAX; i++) {
        buf_add_char(&large, ' ');
    }
    reports(buf_str(&large), "f.yaml: the text is too long; at most 1048576 bytes are allowed\n",
            false);
    buf_release(&deep);
    buf_release(&many);
    buf_release(&large);
}

static void test_trees_write_and_read_back(void **state)
{
    (void)state;
    static const char text[] = "name: demo\n"
                               "empty: {}\n"
                               "list: []\n"
                               "shape: [28, 28]\n"
                               "layers:\n"
                               "  - dense:\n"
                               "      units: 10\n"
                               "      name: out\n"
                               "  - relu: {}\n"
                               "  - [1, 2]\n"
                               "  - - a: 1\n"
                               "path: /data/x y.csv\n"
                               "rate: -0.5\n";
    struct yaml_node *root = parse(text);
    struct buf out = {0};
    yaml_write(root, &out);
    assert_string_equal(buf_str(&out), text);
    buf_release(&out);
    yaml_node_free(root);
}

/* Any text survives being written and read, as a value and as a key. */
static void check_text(const char *text)
{
    struct yaml_node *root = yaml_mapping();
    yaml_put(root, "value", yaml_scalar(text, YAML_QUOTED));
    if (text[0] != '\0') {
        yaml_put(root, text, yaml_scalar("1", YAML_PLAIN));
    }
    struct buf out = {0};
    yaml_write(root, &out);
    struct yaml_node *again = parse(buf_str(&out));
    const struct yaml_entry *value =
        yaml_find(again, strcmp(text, "value") == 0 ? "value" : "value");
    if (strcmp(text, "value") != 0) {
        assert_string_equal(value->value->text, text);
        assert_false(yaml_is_null(value->value));
        assert_true(text[0] == '\0' || yaml_find(again, text) != NULL);
    }
    buf_release(&out);
    yaml_node_free(again);
    yaml_node_free(root);
}

static void test_any_text_is_quoted_right(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "plain",
        "two words",
        " lead",
        "trail ",
        "a: b",
        "a #b",
        "#c",
        "~",
        "null",
        "true",
        "No",
        "-",
        "- a",
        "---",
        "...",
        "... x",
        "../x",
        "1",
        "1e3",
        "0x10",
        "[a]",
        "{a}",
        "a,b",
        "*x",
        "&x",
        "!x",
        "|",
        ">",
        "%x",
        "@x",
        "`x",
        "\"q\"",
        "'q'",
        "back\\slash",
        "\n",
        "a\nb\n",
        "\t",
        "\r\n",
        "\x01\x1b\x7f",
        "\xc3\xa9",
        "\xc2\x85",
        "?",
        "? a",
        ":",
        "a:",
        "=",
        "<<",
        "\xe2\x80\xa8",
        "2020-01-01",
        "\xef\xbb\xbf",
        "\xef\xbf\xbe",
        "\xf0\x9f\x98\x80",
        "a  b",
        "12:30",
        "\xc2\xa0x",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        check_text(texts[i]);
    }
}

static void test_put_replaces(void **state)
{
    (void)state;
    struct yaml_node *root = parse("a: 1\nb: {c: 2}\n");
    yaml_put(root, "b", yaml_scalar("x", YAML_FLAG));
    yaml_put(root, "d", yaml_scalar("", YAML_FLAG));
    assert_false(yaml_is_null(yaml_find(root, "d")->value));
    struct buf out = {0};
    yaml_write(root, &out);
    assert_string_equal(buf_str(&out), "a: 1\nb: x\nd: \"\"\n");
    buf_release(&out);
    yaml_node_free(root);
}

/* Whatever the bytes are, parsing ends with a tree or with a reason, and trees can be written. */
static void test_garbage(void **state)
{
    (void)state;
    static const char alphabet[] = "ab:  -\n\n,[]{}#'\"|>&*!?%@`~\t\\0\xc3\xa9\xff";
    for (uint64_t round = 0; round < 4000; round++) {
        char text[80];
        size_t n = (size_t)(rng_u64(round, 0) % sizeof text);
        for (size_t i = 0; i < n; i++) {
            text[i] = alphabet[rng_u64(round, i + 1) % (sizeof alphabet - 1)];
        }
        struct diags d = {0};
        struct yaml_node *root = yaml_parse(text, n, "f", &d);
        assert_true(root != NULL || d.count > 0);
        if (root != NULL) {
            struct buf out = {0};
            yaml_write(root, &out);
            buf_release(&out);
        }
        yaml_node_free(root);
        diags_release(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions_and_styles),
        cmocka_unit_test(test_empty_text_is_an_empty_mapping),
        cmocka_unit_test(test_syntax_errors_have_positions),
        cmocka_unit_test(test_keys_given_twice_are_all_reported),
        cmocka_unit_test(test_what_job_files_do_not_need_is_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_trees_write_and_read_back),
        cmocka_unit_test(test_any_text_is_quoted_right),
        cmocka_unit_test(test_put_replaces),
        cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
