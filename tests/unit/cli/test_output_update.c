/* SPDX-License-Identifier: Apache-2.0 */
/* What `gradus plan` says of a job's update. */
#include "support/test.h"

#include <string.h>

#include <jansson.h>

#include "cli/output.h"
#include "job/plan/plan_update.h"

#define ROWS 100
#define COLUMNS 8

struct scene {
    struct job_spec spec;
    struct plan plan;
    struct output_update update;
    struct buf text;
    json_t *json;
};

static void begin(struct scene *s, const char *update, const char *mode, int64_t servers)
{
    struct variable_spec variables[] = {
        {.name = "dense_1.kernel", .shape = {2, {ROWS, COLUMNS}}, .init = {.kind = INIT_ZEROS}},
        {.name = "dense_1.bias", .shape = {1, {COLUMNS}}, .init = {.kind = INIT_ZEROS}},
    };
    struct diags diags = {0};
    struct err err;
    struct buf job = {0};
    *s = (struct scene){0};
    buf_printf(&job,
               "name: j\ndata: {train: {file: a.csv}}\nmodel:\n  layers:\n    - dense: {units: 8}\n"
               "  loss: mean_squared_error\nupdate: {%s}\n"
               "training: {mode: %s, batch_size: 10, epochs: 1}\n"
               "cluster: {workers: 3, ps: %d, partitions: %d}\n",
               update, mode, (int)servers, strcmp(mode, "sync") == 0 ? (int)servers : 1);
    int rc = job_spec_parse(job.data, job.len, "j", NULL, 0, &s->spec, &diags);
    if (rc != 0) {
        struct buf why = {0};
        diags_format(&diags, &why);
        fail_msg("%s", buf_str(&why));
    }
    assert_int_equal(plan_make(variables, 2, &s->spec.cluster, &s->plan, &err), 0);
    assert_int_equal(output_update_init(&s->update, &s->plan, &s->spec, &err), 0);
    output_update_text(&s->update, &s->text);
    struct buf json = {0};
    const struct memory_need need = {
        .rows = {{.who = MEMORY_PS, .what = "values", .bytes = 5, .places = 2, .total = 10}},
        .row_count = 1,
        .total = 10};
    const struct host_memory host = {.total = 30, .available = 20};
    const struct plan_speed speed = {.known = false};
    output_plan_json(&s->plan, &s->update, &need, &host, &speed, NULL, &json);
    s->json = json_loads(buf_str(&json), 0, NULL);
    assert_non_null(s->json);
    buf_release(&json);
    buf_release(&job);
    diags_release(&diags);
}

static void end(struct scene *s)
{
    json_decref(s->json);
    buf_release(&s->text);
    output_update_release(&s->update);
    plan_release(&s->plan);
    job_spec_release(&s->spec);
}

static void says(struct scene *s, const char *words)
{
    if (strstr(buf_str(&s->text), words) == NULL) {
        fail_msg("'%s' is not in:\n%s", words, buf_str(&s->text));
    }
}

static json_int_t memory(const struct scene *s, size_t shard, const char *part)
{
    json_t *m =
        json_object_get(json_array_get(json_object_get(s->json, "shards"), shard), "memory");
    json_t *slot = json_object_get(json_object_get(m, "slots"), part);
    return json_integer_value(slot != NULL ? slot : json_object_get(m, part));
}

static void test_rounds_and_memory(void **state)
{
    (void)state;
    const json_int_t whole = (ROWS * COLUMNS + COLUMNS) * 4;
    struct scene s;
    begin(&s, "rule: adafactor, clip_global_norm: 1, average: 0.9", "sync", 1);
    says(&s, "update by adafactor; the servers exchange no sums\n");
    assert_int_equal(memory(&s, 0, "values"), 2 * whole);
    assert_int_equal(memory(&s, 0, "row"), (ROWS + COLUMNS) * 4);
    assert_int_equal(memory(&s, 0, "column"), (COLUMNS + 1) * 4);
    assert_int_equal(memory(&s, 0, "average"), whole);
    assert_int_equal(memory(&s, 0, "bases"), 0);
    end(&s);
    begin(&s, "rule: adafactor, clip_global_norm: 1, average: 0.9", "sync", 2);
    says(&s, "update by adafactor; 3 rounds of sums between the servers in each step\n");
    assert_int_equal(json_integer_value(json_object_get(s.json, "sum_rounds")), 3);
    assert_int_equal(memory(&s, 0, "average") + memory(&s, 1, "average"), whole);
    end(&s);
    begin(&s, "rule: adaptive_revision, clip_norm: 1", "async", 2);
    says(&s, "each push carries the norms of its variables\n");
    says(&s, "what each of 3 workers read");
    /* Three versions, three slots and one on its way. */
    assert_int_equal(memory(&s, 0, "bases"), 7 * memory(&s, 0, "values") / 2);
    json_int_t total = 0;
    static const char *const parts[] = {"values", "sum",       "z",         "z_max",
                                        "bases",  "gradients", "slot_copy", "tables"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        total += memory(&s, 0, parts[i]);
    }
    assert_int_equal(memory(&s, 0, "total"), total);
    end(&s);
}

static void test_patterns_and_schedules(void **state)
{
    (void)state;
    struct scene s;
    begin(
        &s,
        "rule: sgd, learning_rate: 0.5, accumulate: 4, schedule: {kind: multi_step, at: [10, 20], "
        "rate: 0.1, warmup: 5}, variables: [{match: '*.bias', frozen: true}, "
        "{match: 'dense_1.*', learning_rate: 3, l2: 0.25}]",
        "sync", 1);
    says(&s, "dense_1.bias    *.bias                       frozen\n");
    says(&s, "x 3");
    says(&s, "      0.25           0\n");
    says(&s, "One update every 4 steps.\n");
    says(&s, "\n      UPDATE     learning_rate\n");
    says(&s, "\n          15              0.05\n");
    const uint64_t updates[] = {0, 5, 15, 25};
    const double values[] = {0.5 / 6, 0.5, 0.05, 0.005};
    assert_int_equal(s.update.update_count, 4);
    json_t *list = json_object_get(json_object_get(s.json, "schedules"), "learning_rate");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(s.update.updates[i], updates[i]);
        json_t *value = json_object_get(json_array_get(list, i), "value");
        if (i > 0) {
            assert_float_equal(json_real_value(value), values[i], 1e-9);
        }
    }
    end(&s);
}

/* Of each variable the pattern that it has, whole. */
static void test_patterns_as_json(void **state)
{
    (void)state;
    struct scene s;
    static const char *const keys[] = {"learning_rate", "weight_decay", "l1", "l2", "ridge"};
    static const double values[] = {3, 0.0625, 0.125, 0.25, 2};
    begin(&s,
          "rule: sgd, learning_rate: 0.5, variables: [{match: '*.kernel', learning_rate: 3, "
          "weight_decay: 0.0625, l1: 0.125, l2: 0.25, ridge: 2}]",
          "sync", 1);
    json_t *list = json_object_get(s.json, "variables");
    json_t *kernel = json_array_get(list, 0), *bias = json_array_get(list, 1);
    assert_string_equal(json_string_value(json_object_get(kernel, "name")), "dense_1.kernel");
    assert_string_equal(json_string_value(json_object_get(kernel, "pattern")), "*.kernel");
    assert_true(json_is_false(json_object_get(kernel, "frozen")));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(kernel, keys[i]);
        assert_true(json_is_number(value));
        assert_float_equal(json_number_value(value), values[i], 0);
        assert_null(json_object_get(bias, keys[i]));
    }
    assert_true(json_is_null(json_object_get(bias, "pattern")));
    end(&s);
}

static json_int_t number(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        fail_msg("no number %s", key);
    }
    return json_integer_value(value);
}

/* Which rows of which variable each shard has: the plan itself, by name and number. */
static void test_partitions(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, "rule: sgd", "sync", 2);
    json_t *shards = json_object_get(s.json, "shards");
    assert_int_equal(json_array_size(shards), 2);
    json_int_t rows = 0, elements = 0;
    for (size_t i = 0; i < 2; i++) {
        json_t *shard = json_array_get(shards, i);
        json_t *parts = json_object_get(shard, "partitions");
        size_t count;
        const struct partition *want = plan_shard(&s.plan, (uint32_t)i, &count);
        assert_int_equal(number(shard, "shard"), i);
        assert_int_equal(number(shard, "elements"), s.plan.shard_elements[i]);
        assert_int_equal(number(shard, "bytes"), s.plan.shard_elements[i] * 4);
        assert_true(count > 0);
        assert_int_equal(json_array_size(parts), count);
        for (size_t k = 0; k < count; k++) {
            json_t *part = json_array_get(parts, k);
            assert_string_equal(json_string_value(json_object_get(part, "variable")),
                                want[k].variable == 0 ? "dense_1.kernel" : "dense_1.bias");
            assert_int_equal(number(part, "row_first"), want[k].row_first);
            assert_int_equal(number(part, "row_count"), want[k].row_count);
            assert_int_equal(number(part, "elements"), want[k].count);
            rows += want[k].variable == 0 ? number(part, "row_count") : 0;
            elements += number(part, "elements");
        }
    }
    assert_int_equal(rows, ROWS);
    assert_int_equal(elements, ROWS * COLUMNS + COLUMNS);
    assert_string_equal(json_string_value(json_object_get(s.json, "rule")), "sgd");
    assert_true(json_is_false(json_object_get(s.json, "norms_with_pushes")));
    json_t *host = json_object_get(s.json, "one_host");
    json_t *row = json_array_get(json_object_get(host, "needs"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "who")), "ps");
    assert_string_equal(json_string_value(json_object_get(row, "what")), "values");
    assert_int_equal(number(row, "each"), 5);
    assert_int_equal(number(row, "times"), 2);
    assert_int_equal(number(row, "bytes"), 10);
    assert_int_equal(number(host, "total"), 10);
    assert_int_equal(number(host, "host_total"), 30);
    assert_int_equal(number(host, "host_available"), 20);
    assert_true(json_is_true(json_object_get(host, "fits")));
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_and_memory),
        cmocka_unit_test(test_patterns_and_schedules),
        cmocka_unit_test(test_patterns_as_json),
        cmocka_unit_test(test_partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
