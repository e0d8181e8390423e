/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "job/spec/job_spec.h"

/* The schema at a path of keys and numbers: "model.layers.items". */
static json_t *property(json_t *schema, const char *path)
{
    char *words = mem_strdup(path), *rest = NULL;
    for (char *word = strtok_r(words, ".", &rest); word != NULL && schema != NULL;
         word = strtok_r(NULL, ".", &rest)) {
        schema = json_object_get(json_object_get(schema, "properties"), word);
    }
    free(words);
    return schema;
}

/* Whether every row is a property with its help, its default and a closed object around it. */
static void check_rows(json_t *schema, const struct field *fields, size_t count)
{
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
    for (size_t i = 0; i < count; i++) {
        json_t *row = property(schema, fields[i].path);
        if (row == NULL) {
            fail_msg("the schema lacks %s", fields[i].path);
        }
        assert_string_equal(json_string_value(json_object_get(row, "description")), fields[i].help);
        assert_true((json_object_get(row, "default") != NULL) == (fields[i].def != NULL));
        assert_true(json_object_get(row, "type") != NULL || json_object_get(row, "enum") != NULL);
    }
}

static json_t *schema(void)
{
    struct buf out = {0};
    json_error_t error;
    job_spec_schema_json(&out);
    json_t *root = json_loads(buf_str(&out), JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        fail_msg("line %d: %s", error.line, error.text);
    }
    buf_release(&out);
    return root;
}

/* A path, say, or a label: that may be a number without quotes. */
static void test_a_text_may_be_a_number(void **state)
{
    (void)state;
    json_t *root = schema();
    const json_t *types = json_object_get(property(root, "data.label"), "type");
    assert_int_equal(json_array_size(types), 2);
    assert_string_equal(json_string_value(json_array_get(types, 0)), "string");
    assert_string_equal(json_string_value(json_array_get(types, 1)), "number");
    json_decref(root);
}

static void test_schema_has_every_row(void **state)
{
    (void)state;
    json_t *root = schema();
    assert_string_equal(json_string_value(json_object_get(root, "$schema")),
                        "https://json-schema.org/draft/2020-12/schema");
    assert_true(json_is_false(json_object_get(root, "additionalProperties")));
    check_rows(property(root, "data"), data_fields, data_field_count);
    assert_true(
        json_is_false(json_object_get(property(root, "data.train"), "additionalProperties")));
    static const char *const paths[] = {
        "name",          "model.input",         "model.loss",  "model.layers",
        "model.metrics", "training.mode",       "cluster.ps",  "training.evaluate_every",
        "training.seed", "cluster.slice_bytes", "data.header", "cluster.partitioner",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        json_t *row = property(root, paths[i]);
        if (row == NULL || json_object_get(row, "description") == NULL) {
            fail_msg("the schema lacks %s", paths[i]);
        }
    }
    json_decref(root);
}

static const char *refers_to(json_t *schema, const char *path)
{
    const char *to = json_string_value(json_object_get(property(schema, path), "$ref"));
    return to == NULL ? "" : to;
}

/* What stands beside a rule's own keys. */
static void check_update_keys(json_t *form, const struct rule *rule)
{
    static const char *const keys[] = {
        "l1",
        "l2",
        "ridge",
        "weight_decay",
        "clip_value",
        "clip_norm",
        "clip_global_norm",
        "accumulate",
        "average",
        "evaluate_average",
        "non_finite",
        "variables",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (property(form, keys[i]) == NULL) {
            fail_msg("%s lacks %s", rule->name, keys[i]);
        }
    }
    bool rate = property(form, "learning_rate") != NULL;
    assert_string_equal(refers_to(form, "schedule"), rate ? "#/$defs/schedule" : "");
    assert_string_equal(refers_to(form, "schedules.learning_rate"), rate ? "#/$defs/schedule" : "");
    json_t *items = json_object_get(property(form, "variables"), "items");
    assert_string_equal(json_string_value(json_object_get(items, "$ref")), "#/$defs/pattern");
}

static void test_schema_has_shared_parts(void **state)
{
    (void)state;
    json_t *root = schema(), *shared = json_object_get(root, "$defs");
    check_rows(json_object_get(shared, "schedule"), schedule_fields, schedule_field_count);
    json_t *pattern = json_object_get(shared, "pattern");
    assert_true(json_is_false(json_object_get(pattern, "additionalProperties")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(pattern, "required"), 0)),
                        "match");
    assert_non_null(json_object_get(property(pattern, "learning_rate"), "default"));
    assert_null(json_object_get(property(pattern, "weight_decay"), "default"));
    json_decref(root);
}

static void test_schema_has_every_layer_and_rule(void **state)
{
    (void)state;
    json_t *root = schema();
    json_t *forms =
        json_object_get(json_object_get(property(root, "model.layers"), "items"), "oneOf");
    size_t kinds = 0;
    for (; layer_kind_at(kinds) != NULL; kinds++) {
        size_t count;
        const struct field *fields = layer_kind_fields(layer_kind_at(kinds), &count);
        json_t *form = json_array_get(forms, kinds + 1); /* behind the bare names */
        json_t *params = property(form, layer_kind_name(layer_kind_at(kinds)));
        assert_non_null(params);
        check_rows(params, fields, count);
        assert_non_null(property(params, "name"));
    }
    assert_int_equal(json_array_size(forms), kinds + 1);

    json_t *rules = json_object_get(property(root, "update"), "oneOf");
    size_t count = 0;
    for (; rule_at(count) != NULL; count++) {
        const struct rule *rule = rule_at(count);
        json_t *form = json_array_get(rules, count);
        check_rows(form, rule->fields, rule->field_count);
        check_update_keys(form, rule);
        assert_string_equal(json_string_value(json_object_get(property(form, "rule"), "const")),
                            rule->name);
    }
    assert_int_equal(json_array_size(rules), count);
    json_decref(root);
}

static bool requires(json_t *object, const char *key)
{
    size_t i;
    json_t *word;
    json_array_foreach(json_object_get(object, "required"), i, word)
    {
        if (strcmp(json_string_value(word), key) == 0) {
            return true;
        }
    }
    return false;
}

/* One of the forms that a schema may have. */
static json_t *form(json_t *schema, size_t i)
{
    return json_array_get(json_object_get(schema, "anyOf"), i);
}

static void test_schema_values(void **state)
{
    (void)state;
    json_t *root = schema();
    assert_true(requires(root, "name") && requires(root, "model") && requires(root, "update"));
    assert_true(requires(form(root, 0), "data")); /* or there is a program */
    assert_true(requires(property(form(root, 1), "model"), "program"));
    assert_false(requires(root, "training"));
    assert_true(requires(property(root, "data"), "train"));
    assert_true(requires(property(root, "data.train"), "file"));
    assert_true(requires(form(property(root, "model"), 0), "layers"));
    assert_true(requires(form(property(root, "model"), 0), "loss"));
    assert_true(requires(form(property(root, "model"), 1), "program"));
    assert_false(requires(property(root, "model"), "metrics"));
    json_t *batch = property(root, "training.batch_size");
    assert_int_equal(json_integer_value(json_object_get(batch, "default")), 64);
    assert_int_equal(json_integer_value(json_object_get(batch, "minimum")), 1);
    assert_true(json_is_integer(json_object_get(batch, "maximum")));
    json_t *workers = property(root, "cluster.workers");
    assert_int_equal(json_integer_value(json_object_get(workers, "default")), 1);
    assert_int_equal(json_array_size(json_object_get(workers, "type")), 2);
    assert_string_equal(json_string_value(json_object_get(workers, "pattern")),
                        "^[0-9]+([.][.][0-9]+)?$");
    json_t *header = json_object_get(property(root, "data.header"), "enum");
    assert_int_equal(json_array_size(header),
                     5); /* auto, and true and false as word and as truth */
    assert_true(json_is_array(json_object_get(property(root, "model.input"), "default")));
    json_decref(root);
}

/* Each table's keys, in a text that a person reads. */
static void check_reference(void (*reference)(struct buf *out), const char *before,
                            const char *after)
{
    struct buf out = {0};
    reference(&out);
    char *line;
    for (size_t i = 0; i < data_field_count; i++) {
        line = mem_printf("%sdata.%s%s", before, data_fields[i].path, after);
        assert_non_null(strstr(buf_str(&out), line));
        free(line);
    }
    static const char *const keys[] = {"model.layers",   "model.metrics",       "update.rule",
                                       "update.beta1",   "training.batch_size", "cluster.workers",
                                       "update.average", "update.schedules",    "warmup",
                                       "match"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        line = mem_printf("%s%s%s", before, keys[i], after);
        assert_non_null(strstr(buf_str(&out), line));
        free(line);
    }
    for (size_t i = 0; layer_kind_at(i) != NULL; i++) {
        assert_non_null(strstr(buf_str(&out), layer_kind_help(layer_kind_at(i))));
    }
    buf_release(&out);
}

static void test_text_reference(void **state)
{
    (void)state;
    check_reference(job_spec_reference_text, "\n  ", "\n");
    struct buf out = {0};
    job_spec_reference_text(&out);
    assert_non_null(strstr(buf_str(&out), "  training.mode\n"));
    assert_non_null(strstr(buf_str(&out), "one of sync, async, bounded; default sync\n"));
    assert_non_null(strstr(buf_str(&out), "text; required\n"));
    buf_release(&out);
}

static void test_markdown_reference(void **state)
{
    (void)state;
    check_reference(job_spec_reference_markdown, "\n| `", "` | ");
    struct buf out = {0};
    job_spec_reference_markdown(&out);
    assert_memory_equal(buf_str(&out), "## job\n", 7);
    buf_release(&out);
}

static void test_manual_reference(void **state)
{
    (void)state;
    struct buf out = {0};
    job_spec_reference_manual(&out);
    assert_memory_equal(buf_str(&out), ".TH GRADUS\\-JOB 5 ", 18);
    assert_non_null(strstr(buf_str(&out), ".SS \"data\"\nWhere the records are and how they"));
    assert_non_null(strstr(buf_str(&out), ".TP\n\\fBtraining.mode\\fR\n"));
    assert_non_null(strstr(buf_str(&out), ".br\none of sync, async, bounded; default sync\n"));
    assert_non_null(strstr(buf_str(&out), ".br\ntext; required\n"));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_has_every_row),
        cmocka_unit_test(test_a_text_may_be_a_number),
        cmocka_unit_test(test_schema_has_every_layer_and_rule),
        cmocka_unit_test(test_schema_has_shared_parts),
        cmocka_unit_test(test_schema_values),
        cmocka_unit_test(test_text_reference),
        cmocka_unit_test(test_markdown_reference),
        cmocka_unit_test(test_manual_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
