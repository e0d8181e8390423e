/* SPDX-License-Identifier: Apache-2.0 */
/* What programs see: JSON of messages and of errors. */
#include "output_rig.h"

#include "cli/output_diags.h"

static void test_errors_as_json(void **state)
{
    (void)state;
    struct diags diags = {0};
    struct buf out = {0};
    diags_add(&diags, "job.yaml", 3, 7, "training.mode: 'sink' is not known");
    diags_add(&diags, "--set foo=1", 0, 0, "unknown key 'foo'; allowed: data");
    output_diags_json("job.yaml", "invalid", &diags, &out);
    json_t *json = output_parse(&out), *errors = json_object_get(json, "errors");
    assert_string_equal(json_string_value(json_object_get(json, "status")), "invalid");
    assert_int_equal(json_array_size(errors), 2);
    json_t *first = json_array_get(errors, 0), *second = json_array_get(errors, 1);
    assert_string_equal(json_string_value(json_object_get(first, "file")), "job.yaml");
    assert_int_equal(json_integer_value(json_object_get(first, "line")), 3);
    assert_int_equal(json_integer_value(json_object_get(first, "column")), 7);
    assert_string_equal(json_string_value(json_object_get(first, "key")), "training.mode");
    assert_string_equal(json_string_value(json_object_get(first, "message")),
                        "training.mode: 'sink' is not known");
    assert_true(json_is_null(json_object_get(second, "line")));
    assert_string_equal(json_string_value(json_object_get(second, "key")), "foo");
    json_decref(json);
    diags_release(&diags);
}

/* Whatever a peer sent, it is JSON, in one line. */
static void test_message_json(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    char reason[] = "quote \" and \xff\n";
    s.job.reason = reason;
    struct buf out = {0};
    output_message_json(&s.job.base, &out);
    assert_ptr_equal(strchr(buf_str(&out), '\n'), buf_str(&out) + out.len - 1);
    json_t *json = output_parse(&out);
    assert_string_equal(json_string_value(json_object_get(json, "reason")), "quote \" and \\xFF\n");
    assert_int_equal(json_array_size(json_object_get(json, "evaluations")), 14);
    assert_int_equal(json_array_size(json_object_get(json, "workers")), 2);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_as_json),
        cmocka_unit_test(test_message_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
