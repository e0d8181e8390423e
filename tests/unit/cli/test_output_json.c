/* SPDX-License-Identifier: Apache-2.0 */
/* What programs see of a job: JSON. */
#include "output_rig.h"

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

static void test_result_json(void **state)
{
    (void)state;
    static const char *const keys[] = {"job",     "state",      "reason",
                                       "steps",   "epochs",     "metrics",
                                       "seconds", "checkpoint", "examples_per_second",
                                       "activity"};
    struct sample s;
    sample_init(&s);
    s.job.examples_per_second = (double)INFINITY;
    s.accuracy.value = (double)NAN;
    struct buf out = {0};
    output_result_json(&s.job, &out);
    json_t *json = output_parse(&out);
    assert_int_equal(json_object_size(json), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_non_null(json_object_get(json, keys[i]));
    }
    assert_string_equal(json_string_value(json_object_get(json, "job")), "digits-1");
    assert_int_equal(json_integer_value(json_object_get(json, "steps")), 500);
    assert_true(json_is_null(json_object_get(json, "examples_per_second")));
    json_t *train = json_object_get(json_object_get(json, "metrics"), "train");
    assert_true(json_real_value(json_object_get(train, "loss")) == 0.25);
    assert_true(json_is_null(json_object_get(train, "accuracy")));
    json_decref(json);
}

static void test_status_json(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    char reason[] = "quote \" and \xff";
    s.job.reason = reason;
    struct buf out = {0};
    output_status_json(&s.job, &out);
    json_t *json = output_parse(&out); /* whatever a peer sent, it is JSON */
    assert_int_equal(json_array_size(json_object_get(json, "evaluations")), 14);
    assert_int_equal(json_array_size(json_object_get(json, "workers")), 2);
    json_decref(json);
}

static void test_status_json_of_consistency_and_shards(void **state)
{
    (void)state;
    static const char *const keys[] = {"mode",       "replicas",   "aggregate", "speculate",
                                       "staleness",  "policy",     "lambda",    "max_staleness",
                                       "push_every", "pull_every", "overlap"};
    struct shards_sample x;
    shards_init(&x);
    struct buf out = {0};
    output_status_json(&x.s.job, &out);
    json_t *json = output_parse(&out);
    assert_true(json_is_null(json_object_get(json, "consistency")));
    json_decref(json);
    Gradus__V1__Consistency c = GRADUS__V1__CONSISTENCY__INIT;
    c.mode = GRADUS__V1__MODE__BOUNDED;
    c.staleness = 4;
    c.policy = GRADUS__V1__STALENESS_POLICY__SCALE_LR;
    uint64_t staleness[2] = {3, 4};
    x.s.job.consistency = &c;
    x.s.job.staleness = staleness;
    x.s.job.n_staleness = 2;
    x.s.job.dropped = 1;
    x.s.job.speculated = 2;
    x.s.job.recoveries = 3;
    output_status_json(&x.s.job, &out);
    json = output_parse(&out);
    const json_t *o = json_object_get(json, "consistency");
    assert_int_equal(json_object_size(o), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_non_null(json_object_get(o, keys[i]));
    }
    assert_string_equal(json_string_value(json_object_get(o, "mode")), "BOUNDED");
    assert_string_equal(json_string_value(json_object_get(o, "policy")), "SCALE_LR");
    assert_int_equal(output_number_at(o, "staleness"), 4);
    assert_int_equal(output_number_at(json, "dropped"), 1);
    assert_int_equal(output_number_at(json, "speculated"), 2);
    assert_int_equal(output_number_at(json, "recoveries"), 3);
    assert_int_equal(json_array_size(json_object_get(json, "staleness")), 2);
    const json_t *shards = json_object_get(json, "shards");
    assert_int_equal(json_array_size(shards), 2);
    const json_t *first = json_array_get(shards, 0), *second = json_array_get(shards, 1);
    assert_string_equal(json_string_value(json_object_get(first, "ps")), "ps-1");
    assert_int_equal(output_number_at(first, "version"), 120);
    assert_int_equal(output_number_at(first, "examples"), 61234);
    assert_int_equal(output_number_at(first, "duplicates"), 1);
    assert_int_equal(output_number_at(first, "dropped"), 2);
    const json_t *ledger = json_object_get(first, "ledger");
    assert_int_equal(output_number_at(ledger, "epoch"), 2);
    assert_int_equal(output_number_at(ledger, "records"), 53);
    assert_int_equal(output_number_at(ledger, "records_applied"), 2 * 53 + 20 + 10 + 13);
    assert_int_equal(json_array_size(json_object_get(ledger, "done")), 3);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(ledger, "done"), 1)), 1);
    assert_int_equal(output_number_at(second, "shard"), 1);
    assert_true(json_is_null(json_object_get(second, "ledger")));
    json_decref(json);
    x.done[1] = 7; /* more than the split has */
    output_status_json(&x.s.job, &out);
    json = output_parse(&out);
    first = json_array_get(json_object_get(json, "shards"), 0);
    assert_true(json_is_null(json_object_get(first, "ledger")));
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_as_json),
        cmocka_unit_test(test_result_json),
        cmocka_unit_test(test_status_json),
        cmocka_unit_test(test_status_json_of_consistency_and_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
