/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `gradus plan` about time: options as they are typed, a computation that is tried out,
 * and what is said of servers that do not keep up. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/job_file.h"
#include "cli/plan_speed.h"
#include "cli/step_cost.h"
#include "os/file.h"

struct scene {
    char *dir;
    struct job_spec spec;
    struct model *model;
    struct dataset *train, *test;
    struct plan plan;
    struct plan_speed speed;
    struct buf text;
    json_t *json;
};

/* 40 records of 3 numbers and a class of two; a dense layer of @units before the last one. */
static void begin(struct scene *s, int batch, int units, const char *cluster)
{
    struct diags diags = {0};
    struct buf job = {0};
    struct err err;
    *s = (struct scene){.dir = tmp_dir_make("speed")};
    char *path = file_join(s->dir, "train.csv");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 40; i++) {
        (void)fprintf(f, "%d,%d,1.5,%d\n", i, 3 * i, i % 2);
    }
    assert_int_equal(fclose(f), 0);
    free(path);
    buf_printf(&job,
               "name: j\ndata: {dir: %s, train: {file: train.csv}}\nmodel:\n  layers:\n"
               "    - dense: {units: %d}\n    - dense: {units: 2}\n  loss: softmax_cross_entropy\n"
               "update: {rule: sgd, learning_rate: 0.1}\n"
               "training: {batch_size: %d, epochs: 1, evaluate_every: never}\ncluster: {%s}\n",
               s->dir, units, batch, cluster);
    if (job_spec_parse(job.data, job.len, "j", NULL, 0, &s->spec, &diags) != 0) {
        struct buf why = {0};
        diags_format(&diags, &why);
        fail_msg("%s", buf_str(&why));
    }
    if (job_file_model(&s->spec, &s->model, &s->train, &s->test, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    const size_t n = model_variable_count(s->model);
    struct variable_spec variables[8];
    assert_in_range(n, 1, 8);
    for (size_t i = 0; i < n; i++) {
        variables[i] = *model_variable(s->model, i);
    }
    if (plan_make_job(variables, n, &s->spec, &s->plan, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    diags_release(&diags);
    buf_release(&job);
}

static void end(struct scene *s)
{
    json_decref(s->json);
    buf_release(&s->text);
    plan_release(&s->plan);
    model_free(s->model);
    dataset_free(s->train);
    dataset_free(s->test);
    job_spec_release(&s->spec);
    tmp_dir_remove(s->dir);
}

static int predict(struct scene *s, const char *compute, const char *link, const char *server_link,
                   const char *round_trip, struct err *err)
{
    char texts[4][32];
    snprintf(texts[0], sizeof texts[0], "%s", compute);
    snprintf(texts[1], sizeof texts[1], "%s", link);
    snprintf(texts[2], sizeof texts[2], "%s", server_link);
    snprintf(texts[3], sizeof texts[3], "%s", round_trip);
    const struct plan_speed_options o = {texts[0], texts[1], texts[2], texts[3], 0};
    int rc = plan_speed_of(&o, &s->spec, &s->plan, s->model, s->train, &s->speed, err);
    if (rc == 0) {
        s->text.len = 0;
        plan_speed_text(&s->speed, &s->text);
        json_decref(s->json);
        s->json = plan_speed_json(&s->speed);
    }
    return rc;
}

static void says(const struct scene *s, const char *what)
{
    if (strstr(buf_str(&s->text), what) == NULL) {
        fail_msg("'%s' is not in:\n%s", what, buf_str(&s->text));
    }
}

static double number(const struct scene *s, const char *key)
{
    assert_true(json_is_number(json_object_get(s->json, key)));
    return json_number_value(json_object_get(s->json, key));
}

static void near(double got, double want, double by)
{
    if (!(fabs(got - want) <= by)) {
        fail_msg("%.12g, not %.12g", got, want);
    }
}

static void quantities(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } SECONDS[] = {{"5ms", 5e-3}, {"5", 5e-3}, {"800us", 8e-4}, {"1.5 s", 1.5}, {"0.25ms", 2.5e-4}},
      BITS[] = {
          {"1Gbit", 1e9}, {"2.5 Gbit/s", 2.5e9}, {"100Mbit", 1e8}, {"64kbit/s", 64e3}, {"none", 0}};
    static const char *const NO_SECONDS[] = {"",     "ms",  "5 min", "-1ms",   "1e3ms",
                                             "5ms ", "0ms", "nan",   "99999s", "1.2.3ms"};
    static const char *const NO_BITS[] = {
        "",       "1",     "Gbit",
        "1GB",    "0Gbit", "-1Gbit",
        "1 gbit", "nonee", "99999999999999999999999999999999999Gbit"};
    double v;
    for (size_t i = 0; i < sizeof SECONDS / sizeof SECONDS[0]; i++) {
        assert_true(plan_speed_seconds(SECONDS[i].text, false, &v));
        near(v, SECONDS[i].value, 1e-12);
        assert_true(plan_speed_bits(BITS[i].text, &v));
        near(v, BITS[i].value, 1e-3);
    }
    for (size_t i = 0; i < sizeof NO_SECONDS / sizeof NO_SECONDS[0]; i++) {
        assert_false(plan_speed_seconds(NO_SECONDS[i], false, &v));
    }
    for (size_t i = 0; i < sizeof NO_BITS / sizeof NO_BITS[0]; i++) {
        assert_false(plan_speed_bits(NO_BITS[i], &v));
    }
    assert_true(plan_speed_seconds("0", true, &v));
}

static void stated(void **state)
{
    (void)state;
    struct scene s;
    struct err err;
    begin(&s, 10, 4, "workers: 1, ps: 1");
    assert_int_equal(predict(&s, "5ms", "1Gbit", "", "2ms", &err), 0);
    near(number(&s, "compute_ms"), 5, 1e-9);
    near(number(&s, "latency_ms"), 2 + forecast_costs.exchange_s * 1e3, 1e-9);
    near(number(&s, "batch_compute_ms"), 5, 1e-9);
    assert_string_equal(json_string_value(json_object_get(s.json, "limit")), "compute");
    near(number(&s, "step_ms"),
         number(&s, "compute_ms") + number(&s, "worker_link_ms") + number(&s, "server_link_ms") +
             number(&s, "server_cpu_ms") + number(&s, "latency_ms"),
         1e-6);
    near(number(&s, "examples_per_second"), 10e3 / number(&s, "step_ms"), 1e-3);
    assert_true(number(&s, "server_link_busy") < number(&s, "step_ms"));
    near(number(&s, "held_up_by_servers"), 1, 0.01);
    assert_true(json_is_true(json_object_get(s.json, "keeps_up")));
    assert_true(json_is_true(json_object_get(s.json, "stated")));
    assert_true(json_is_null(json_object_get(s.json, "servers_enough")));
    says(&s, "PREDICTED FOR A STEP");
    says(&s, "what limits is the workers' computation");
    says(&s, "5.000 ms (as stated)");
    says(&s, "workers 1 Gbit/s, servers 1 Gbit/s");
    assert_null(strstr(buf_str(&s.text), "warning"));
    assert_int_equal(predict(&s, "5ms", "none", "250Mbit", "0", &err), 0);
    says(&s, "workers no limit, servers 250 Mbit/s");
    end(&s);
}

static void servers_that_cannot(void **state)
{
    (void)state;
    struct scene s;
    struct err err;
    begin(&s, 10, 1000, "workers: 40, ps: 1");
    assert_int_equal(predict(&s, "1ms", "100Mbit", "", "0", &err), 0);
    says(&s, "warning: the servers cannot keep up: a step takes");
    says(&s, "with equal parts of the parameters would do (cluster.ps)");
    assert_true(json_is_false(json_object_get(s.json, "keeps_up")));
    assert_true(number(&s, "servers_enough") > 1);
    assert_true(number(&s, "held_up_by_servers") > FORECAST_HELD_UP);
    assert_int_equal(predict(&s, "1ms", "100Mbit", "none", "0", &err), 0);
    assert_null(strstr(buf_str(&s.text), "warning"));
    assert_int_equal(predict(&s, "1ms", "none", "1kbit", "0", &err), 0);
    says(&s, "No number of them helps");
    s.spec.training.mode = TRAINING_ASYNC;
    assert_int_equal(predict(&s, "1ms", "100Mbit", "", "0", &err), 0);
    says(&s, "PREDICTED FOR A BATCH");
    says(&s, "cannot keep up: a batch takes");
    end(&s);
    begin(&s, 10, 1000, "workers: 3, ps: 3, partitioner: fixed, partitions: 1");
    assert_int_equal(predict(&s, "1ms", "100Mbit", "", "0", &err), 0);
    says(&s, "would do if the parameters were in equal parts");
    end(&s);
}

static void tried_out(void **state)
{
    (void)state;
    struct scene s;
    struct err err;
    begin(&s, 10, 4, "workers: 1, ps: 1");
    assert_int_equal(predict(&s, "", "10Gbit", "", "100us", &err), 0);
    assert_true(number(&s, "batch_compute_ms") > 0);
    assert_true(json_is_false(json_object_get(s.json, "stated")));
    says(&s, "(tried out here)");
    end(&s);
    begin(&s, 41, 4, "workers: 1, ps: 1"); /* 40 records */
    assert_int_equal(predict(&s, "", "10Gbit", "", "100us", &err), 0);
    says(&s, "not predicted: there are fewer records than in a batch");
    assert_true(json_is_null(s.json));
    dataset_free(s.train);
    s.train = NULL;
    assert_int_equal(predict(&s, "", "10Gbit", "", "100us", &err), 0);
    says(&s, "not predicted: the data are not here; say what");
    end(&s);
}

static void too_large_to_try(void **state)
{
    (void)state;
    struct scene s;
    struct err err;
    double seconds;
    begin(&s, 40, 16777216, "workers: 1, ps: 1"); /* 84 M parameters, and activations */
    assert_int_equal(step_cost_measure(&s.spec, s.model, s.train, &seconds, &err), ERR_UNSUPPORTED);
    assert_string_equal(err.msg, "it would take more than 1 GiB to try it out");
    end(&s);
}

static void refused(void **state)
{
    (void)state;
    struct scene s;
    struct err err;
    begin(&s, 10, 4, "workers: 1, ps: 1");
    assert_int_equal(predict(&s, "5 apples", "1Gbit", "", "0", &err), ERR_INVALID);
    assert_string_equal(err.msg, "--step-compute: '5 apples' is no time such as 5ms or 800us");
    assert_int_equal(predict(&s, "5ms", "fast", "", "0", &err), ERR_INVALID);
    assert_string_equal(err.msg, "--link: 'fast' is no speed such as 100Mbit or 10Gbit, or none");
    assert_int_equal(predict(&s, "5ms", "1Gbit", "1", "0", &err), ERR_INVALID);
    assert_string_equal(err.msg,
                        "--server-link: '1' is no speed such as 100Mbit or 10Gbit, or none");
    assert_int_equal(predict(&s, "5ms", "1Gbit", "", "soon", &err), ERR_INVALID);
    assert_string_equal(err.msg, "--round-trip: 'soon' is no time such as 100us or 2ms");
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities),          cmocka_unit_test(stated),
        cmocka_unit_test(servers_that_cannot), cmocka_unit_test(tried_out),
        cmocka_unit_test(too_large_to_try),    cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
