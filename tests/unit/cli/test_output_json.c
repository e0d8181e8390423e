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
    x.s.job.priority = -2;
    x.s.job.queue_position = 4;
    x.s.job.waiting = GRADUS__V1__WAITING__FOR_TURN;
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
    assert_int_equal(output_number_at(json, "priority"), -2);
    assert_int_equal(output_number_at(json, "queue_position"), 4);
    assert_string_equal(json_string_value(json_object_get(json, "waiting")), "turn");
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

static void assert_json(struct buf *out, const char *expected)
{
    json_error_t error;
    json_t *json = output_parse(out), *wanted = json_loads(expected, 0, &error);
    assert_non_null(wanted);
    if (!json_equal(json, wanted)) {
        char *is = json_dumps(json, JSON_SORT_KEYS | JSON_INDENT(1));
        char *should_be = json_dumps(wanted, JSON_SORT_KEYS | JSON_INDENT(1));
        assert_string_equal(is, should_be);
    }
    json_decref(json);
    json_decref(wanted);
}

static void fill_times(Gradus__V1__StepTimes *t)
{
    gradus__v1__step_times__init(t);
    t->steps = 4;
    t->load_us = 1000;
    t->compute_us = 4000;
    t->wire_us = 2000;
    t->apply_us = 3000;
    t->wait_us = 6000;
}

/* Every member and its value: programs read them by name. */
static void test_all_that_status_says(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    Gradus__V1__StepTimes times;
    Gradus__V1__WorkerTimes of_worker = GRADUS__V1__WORKER_TIMES__INIT, *list[] = {&of_worker};
    char name[] = "digits", text[] = "seed: 3", activity[] = "training", last[] = "/c/step-500";
    char ended_before[] = "FAILED";
    fill_times(&times);
    of_worker.worker = s.worker;
    of_worker.times = &times;
    s.job.name = name;
    s.job.text = text;
    s.job.activity = activity;
    s.job.checkpoint = last;
    s.job.times = &times;
    s.job.worker_times = list;
    s.job.n_worker_times = 1;
    s.job.generation = 3;
    s.job.examples = 32000;
    s.job.bad_records = 7;
    s.job.submitted_ms = 11;
    s.job.started_ms = 12;
    s.job.resumes = 2;
    s.job.ended_before = ended_before;
    s.job.finished_ms = 13;
    s.job.n_evaluations = 1;
    s.job.n_workers = 1;
    struct buf out = {0};
    output_status_json(&s.job, &out);
#define TIMES                                                                                      \
    "\"steps\": 4, \"step_ms\": 4.0, \"load_ms\": 0.25, \"compute_ms\": 1.0, \"wire_ms\": 0.5, "   \
    "\"apply_ms\": 0.75, \"wait_ms\": 1.5"
#define METRICS "{\"loss\": 0.25, \"accuracy\": 0.5}"
    assert_json(&out, "{\"job\": \"digits-1\", \"state\": \"RUNNING\", \"reason\": \"\", "
                      "\"activity\": \"training\", \"steps\": 500, \"epochs\": 2.5, "
                      "\"metrics\": {\"train\": " METRICS ", \"test\": {}}, "
                      "\"examples_per_second\": 61234.4, \"seconds\": 12.34, "
                      "\"checkpoint\": \"/c/step-500\", \"name\": \"digits\", "
                      "\"mode\": \"SYNC\", \"generation\": 3, \"steps_total\": 1000, "
                      "\"epochs_total\": 5, \"examples\": 32000, \"eta_seconds\": 75.0, "
                      "\"submitted_ms\": 11, \"started_ms\": 12, \"finished_ms\": 13, "
                      "\"workers\": [\"worker-1\"], \"ps\": [\"ps-1\"], \"consistency\": null, "
                      "\"staleness\": [], \"bad_records\": 7, \"changed\": [], \"dropped\": 0, "
                      "\"speculated\": 0, "
                      "\"recoveries\": 0, \"owner\": \"\", \"priority\": 0, "
                      "\"queue_position\": 0, \"waiting\": \"\", \"paused\": false, "
                      "\"preemptions\": 0, \"ps_memory\": 0, \"resumes\": 2, "
                      "\"ended_before\": \"FAILED\", "
                      "\"shards\": [], \"times\": {" TIMES "}, "
                      "\"worker_times\": [{\"worker\": \"worker-1\", " TIMES "}], "
                      "\"evaluations\": [{\"step\": 100, \"epoch\": 1, \"train\": {}, "
                      "\"test\": " METRICS "}], \"text\": \"seed: 3\"}");
}

static void test_all_that_is_said_of_nodes(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    struct buf out = {0};
    char address[] = "10.0.0.7:1", http[] = "10.0.0.7:2", version[] = "0.1", host[] = "h7";
    char *jobs[] = {s.id};
    Gradus__V1__NodeInfo node = GRADUS__V1__NODE_INFO__INIT, *nodes[] = {&node};
    node.id = s.worker;
    node.role = GRADUS__V1__NODE_ROLE__WORKER;
    node.address = address;
    node.http_address = http;
    node.alive = true;
    node.jobs = jobs;
    node.n_jobs = 1;
    node.heartbeat_age_ms = 40;
    node.version = version;
    node.host = host;
    node.pid = 77;
    output_nodes_json(nodes, 1, &out);
    assert_json(&out, "[{\"id\": \"worker-1\", \"role\": \"WORKER\", "
                      "\"address\": \"10.0.0.7:1\", \"http_address\": \"10.0.0.7:2\", "
                      "\"alive\": true, \"jobs\": [\"digits-1\"], \"heartbeat_age_ms\": 40, "
                      "\"version\": \"0.1\", \"host\": \"h7\", \"pid\": 77}]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_as_json),
        cmocka_unit_test(test_result_json),
        cmocka_unit_test(test_status_json),
        cmocka_unit_test(test_status_json_of_consistency_and_shards),
        cmocka_unit_test(test_all_that_status_says),
        cmocka_unit_test(test_all_that_is_said_of_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
