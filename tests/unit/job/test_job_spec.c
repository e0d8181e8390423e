/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "job/spec/job_spec.h"
#include "rule/rules/rule.h"

/* In expected texts: every rule, as messages list them. */
#define RULE_NAMES "<rules>"

/* Keys of the update section beside adam's own. */
#define ADAM_KEYS                                                                                  \
    "rule, schedule, schedules, variables, l1, l2, weight_decay, clip_value, clip_norm, "          \
    "clip_global_norm, accumulate, average, evaluate_average, non_finite, learning_rate, beta1, "  \
    "beta2, epsilon"

/* The cases below change single lines of this job. */
static const char *const lines[] = {
    "name: demo",                        /* 1 */
    "data:",                             /* 2 */
    "  train: {file: a.csv}",            /* 3 */
    "model:",                            /* 4 */
    "  layers:",                         /* 5 */
    "    - dense: {units: 8, name: in}", /* 6 */
    "    - relu",                        /* 7 */
    "    - dense:",                      /* 8 */
    "        units: 3",                  /* 9 */
    "  loss: softmax_cross_entropy",     /* 10 */
    "  metrics: [accuracy]",             /* 11 */
    "update:",                           /* 12 */
    "  rule: adam",                      /* 13 */
    "  learning_rate: 0.01",             /* 14 */
    "training:",                         /* 15 */
    "  batch_size: 32",                  /* 16 */
    "cluster:",                          /* 17 */
    "  workers: 2",                      /* 18 */
};
#define LINES (sizeof lines / sizeof lines[0])

/* The job with line @number replaced; 0: none. Returns owned. */
static char *job_with(size_t number, const char *replacement)
{
    struct buf text = {0};
    for (size_t i = 0; i < LINES; i++) {
        buf_printf(&text, "%s\n", i + 1 == number ? replacement : lines[i]);
    }
    return buf_take(&text);
}

/* @problems with the names of the rules that there are. Returns owned. */
static char *with_rules(const char *problems)
{
    struct buf text = {0};
    const char *at = strstr(problems, RULE_NAMES);
    size_t before = at == NULL ? strlen(problems) : (size_t)(at - problems);
    buf_printf(&text, "%.*s", (int)before, problems);
    for (size_t i = 0; at != NULL && rule_at(i) != NULL; i++) {
        buf_printf(&text, "%s%s", i == 0 ? "" : ", ", rule_at(i)->name);
    }
    buf_printf(&text, "%s", at == NULL ? "" : at + strlen(RULE_NAMES));
    return buf_take(&text);
}

static void check_refused(const char *text, const char *const *sets, size_t set_count,
                          const char *problems)
{
    struct job_spec spec = {0}, zero = {0};
    struct diags d = {0};
    struct buf out = {0};
    int code = job_spec_parse(text, strlen(text), "job.yaml", sets, set_count, &spec, &d);
    diags_format(&d, &out);
    char *expected = with_rules(problems);
    assert_string_equal(buf_str(&out), expected);
    assert_int_equal(code, ERR_INVALID);
    assert_memory_equal(&spec, &zero, sizeof spec);
    free(expected);
    buf_release(&out);
    diags_release(&d);
}

static void line_refused(size_t number, const char *replacement, const char *problems)
{
    char *text = job_with(number, replacement);
    check_refused(text, NULL, 0, problems);
    free(text);
}

static void set_refused(const char *set, const char *problems)
{
    char *text = job_with(0, NULL);
    check_refused(text, &set, 1, problems);
    free(text);
}

static void parse_with(const char *text, const char *const *sets, size_t set_count,
                       struct job_spec *spec)
{
    struct diags d = {0};
    struct buf out = {0};
    int code = job_spec_parse(text, strlen(text), "job.yaml", sets, set_count, spec, &d);
    diags_format(&d, &out);
    if (code != 0) {
        fail_msg("%s", buf_str(&out));
    }
    assert_int_equal(d.count, 0);
    buf_release(&out);
    diags_release(&d);
}

static void parse(const char *text, struct job_spec *spec)
{
    parse_with(text, NULL, 0, spec);
}

/* A float hyperparameter of the update rule. */
static double hyperparameter(const struct job_spec *spec, const char *name)
{
    const struct rule *rule = spec->update.rule;
    const struct field *field = field_find(rule->fields, rule->field_count, name);
    assert_non_null(field);
    return *(const double *)(const void *)((const char *)spec->update.params + field->offset);
}

static int64_t units(const struct job_spec *spec, size_t layer)
{
    size_t count;
    const struct field *fields = layer_kind_fields(spec->model.layers[layer].kind, &count);
    const struct field *field = field_find(fields, count, "units");
    assert_non_null(field);
    return *(const int64_t *)(const void *)((const char *)spec->model.layers[layer].params +
                                            field->offset);
}

static void test_smallest_job_has_defaults(void **state)
{
    (void)state;
    struct job_spec spec = {0};
    parse("name: j\ndata: {train: {file: x}}\nmodel: {layers: [relu], loss: mean_squared_error}\n"
          "update: {rule: sgd}\n",
          &spec);
    assert_string_equal(spec.name, "j");
    assert_string_equal(spec.data.dir, ".");
    assert_int_equal(spec.training.mode, TRAINING_SYNC);
    assert_int_equal(spec.training.batch_size, 64);
    assert_int_equal(spec.training.replicas, 0);
    assert_int_equal(spec.training.epochs, 1);
    assert_int_equal(spec.training.steps, 0);
    assert_int_equal(spec.training.seed, 1);
    assert_int_equal(spec.training.replicas_to_aggregate, 0);
    assert_false(spec.training.speculate);
    assert_true(spec.training.speculate_after == 3);
    assert_int_equal(spec.training.staleness, 4);
    assert_int_equal(spec.training.staleness_policy, POLICY_NONE);
    assert_int_equal(spec.training.max_staleness, 16);
    assert_true(spec.training.delay_lambda == 0.04);
    assert_int_equal(spec.training.push_every, 1);
    assert_int_equal(spec.training.pull_every, 1);
    assert_true(spec.training.evaluate_every.epochs && spec.training.evaluate_every.count == 1);
    assert_int_equal(spec.training.checkpoint_every.count, 0);
    assert_int_equal(spec.training.checkpoints_keep, 3);
    assert_int_equal(spec.cluster.workers.min, 1);
    assert_int_equal(spec.cluster.workers.max, 1);
    assert_int_equal(spec.cluster.ps, 1);
    assert_int_equal(spec.cluster.partitioner, PARTITIONER_BALANCED);
    assert_int_equal(spec.cluster.partitions, 0);
    assert_int_equal(spec.cluster.slice_bytes, 262144);
    assert_int_equal(spec.cluster.blas_threads, 1);
    assert_int_equal(spec.model.input.count, 0);
    assert_int_equal(spec.model.metrics, 1U << METRIC_LOSS | 1U << METRIC_RMSE);
    assert_string_equal(spec.update.rule->name, "sgd");
    assert_int_equal(job_spec_label_kind(&spec), DATA_LABEL_REAL);
    assert_int_equal(job_spec_replicas(&spec), 1);
    job_spec_release(&spec);
}

static void test_a_whole_job(void **state)
{
    (void)state;
    char *text = job_with(16, "  mode: bounded\n  steps: 500\n  evaluate_every: 100 steps");
    struct job_spec spec = {0};
    parse(text, &spec);
    assert_int_equal(spec.training.mode, TRAINING_BOUNDED);
    assert_int_equal(spec.training.steps, 500);
    assert_int_equal(spec.training.epochs, 0); /* steps alone bound the job */
    assert_true(!spec.training.evaluate_every.epochs && spec.training.evaluate_every.count == 100);
    assert_int_equal(spec.model.layer_count, 3);
    assert_string_equal(spec.model.layers[0].name, "in");
    assert_string_equal(spec.model.layers[1].name, "relu_1");
    assert_string_equal(spec.model.layers[2].name, "dense_2");
    assert_string_equal(layer_kind_name(spec.model.layers[2].kind), "dense");
    assert_int_equal(spec.model.layers[2].line, 8);
    assert_int_equal(spec.model.layers[2].column, 7);
    assert_int_equal(units(&spec, 0), 8);
    assert_int_equal(units(&spec, 2), 3);
    assert_true(hyperparameter(&spec, "learning_rate") == 0.01);
    assert_true(hyperparameter(&spec, "beta1") == 0.9);
    assert_int_equal(job_spec_replicas(&spec), 2);
    assert_int_equal(job_spec_label_kind(&spec), DATA_LABEL_CLASS);
    job_spec_release(&spec);
    free(text);
}

static void test_unknown_keys_name_the_nearest(void **state)
{
    (void)state;
    line_refused(
        16, "  bach_size: 32",
        "job.yaml:16:3: unknown key 'bach_size' in training; did you mean 'batch_size'?\n");
    line_refused(15,
                 "trainin:", "job.yaml:15:1: unknown key 'trainin'; did you mean 'training'?\n");
    line_refused(3, "  train: {file: a.csv, lables: b}",
                 "job.yaml:3:24: unknown key 'lables' in data.train; did you mean 'labels'?\n");
    line_refused(11, "  metrik: [accuracy]",
                 "job.yaml:11:3: unknown key 'metrik' in model; did you mean 'metrics'?\n");
    line_refused(14, "  momentum: 0.9",
                 "job.yaml:14:3: unknown key 'momentum' in update; allowed: " ADAM_KEYS "\n");
    line_refused(9, "        unit: 3",
                 "job.yaml:9:9: unknown key 'unit' in model.layers.2; did you mean 'units'?\n"
                 "job.yaml:9:9: model.layers.2.units is missing; allowed: whole number from 1 to "
                 "16777216\n");
    line_refused(14, "  training.seed: 3",
                 "job.yaml:14:3: unknown key 'training.seed' in update; allowed: " ADAM_KEYS "\n");
}

static void test_wrong_types(void **state)
{
    (void)state;
#define BATCH "allowed: whole number from 1 to 1048576\n"
    line_refused(16, "  batch_size: many",
                 "job.yaml:16:15: training.batch_size: 'many' is not a whole number; " BATCH);
    line_refused(16, "  batch_size: 1.5",
                 "job.yaml:16:15: training.batch_size: '1.5' is not a whole number; " BATCH);
    line_refused(16, "  batch_size: '32'",
                 "job.yaml:16:15: training.batch_size: \"32\" in quotes is text; " BATCH);
    line_refused(16, "  batch_size: [32]",
                 "job.yaml:16:15: training.batch_size: a list stands here; " BATCH);
    line_refused(16, "  batch_size: {a: 32}",
                 "job.yaml:16:15: training.batch_size: a section of keys stands here; " BATCH);
    line_refused(16,
                 "  batch_size:", "job.yaml:16:14: training.batch_size: there is no value; " BATCH);
    line_refused(16, "  mode: [sync]",
                 "job.yaml:16:9: training.mode: a list stands here; allowed: one of sync, async, "
                 "bounded\n");
    line_refused(1, "name: [demo]", "job.yaml:1:7: name: a list stands here; allowed: text\n");
    line_refused(
        3, "  train: a.csv",
        "job.yaml:3:3: data.train.file is missing; allowed: text\n"
        "job.yaml:3:10: data.train: a single value stands here; allowed: a section of keys\n");
    line_refused(
        4, "model:\n  input: [28, x]",
        "job.yaml:5:10: model.input: '[28, x]' is not a list of whole numbers; allowed: list "
        "of at most 8 whole numbers, each from 1 to 1048576\n");
    line_refused(4, "model:\n  input: [28, [1]]",
                 "job.yaml:5:15: model.input: a list stands here; allowed: list of at most 8 whole "
                 "numbers, each from 1 to 1048576\n");
    line_refused(11, "  metrics: accuracy",
                 "job.yaml:11:12: model.metrics: allowed: a list of metrics, such as [accuracy]\n");
}

static void test_values_out_of_range(void **state)
{
    (void)state;
    line_refused(16, "  batch_size: 0",
                 "job.yaml:16:15: training.batch_size: '0' is out of range; " BATCH);
    line_refused(
        16, "  seed: -1",
        "job.yaml:16:9: training.seed: '-1' is out of range; allowed: whole number from 0 to "
        "9007199254740992\n");
    line_refused(14, "  beta1: 1",
                 "job.yaml:14:10: update.beta1: '1' is out of range; allowed: number from 0 to "
                 "0.999999\n");
    line_refused(18, "  workers: 0",
                 "job.yaml:18:12: cluster.workers: '0' is out of range; allowed: whole number, or "
                 "a range such "
                 "as 2..8, from 1 to 1024\n");
    line_refused(
        18, "  workers: 4..2",
        "job.yaml:18:12: cluster.workers: '4..2' ends before it begins; allowed: whole number, or "
        "a range such as 2..8, from 1 to 1024\n");
    line_refused(9, "        units: 0",
                 "job.yaml:9:16: model.layers.2.units: '0' is out of range; allowed: whole number "
                 "from 1 to 16777216\n");
    line_refused(16, "  mode: asinc",
                 "job.yaml:16:9: training.mode: 'asinc' is not known (did you mean 'async'?); "
                 "allowed: one of sync, async, bounded\n");
    line_refused(
        18, "  slice_bytes: 1",
        "job.yaml:18:16: cluster.slice_bytes: '1' is out of range; allowed: size such as 64 "
        "MiB from 4 to 1024 GiB\n");
    line_refused(
        16, "  evaluate_every: 0",
        "job.yaml:16:19: training.evaluate_every: '0' is out of range; allowed: interval such "
        "as 500 steps, 2 epochs or never\n");
}

static void test_missing_parts(void **state)
{
    (void)state;
    check_refused("training: {}\n", NULL, 0,
                  "job.yaml:1:1: name is missing; allowed: text\n"
                  "job.yaml:1:1: the section 'data' is missing; allowed: Where the records are and "
                  "how they become numbers\n"
                  "job.yaml:1:1: the section 'model' is missing; allowed: The network, what it "
                  "minimises and what is measured\n"
                  "job.yaml:1:1: the section 'update' is missing; allowed: The rule that turns "
                  "gradients into new values\n");
    check_refused("name: x\ndata:\nmodel:\nupdate:\ntraining:\ncluster:\n", NULL, 0,
                  "job.yaml:2:6: data.train.file is missing; allowed: text\n"
                  "job.yaml:3:7: model.loss is missing; allowed: one of softmax_cross_entropy, "
                  "sigmoid_cross_entropy, mean_squared_error\n"
                  "job.yaml:3:7: model.layers is missing; allowed: a list of 1 to 64 layers\n"
                  "job.yaml:4:8: update.rule is missing; allowed: one of " RULE_NAMES "\n");
    check_refused(
        "", NULL, 0,
        "job.yaml:1:1: the file is empty; allowed: the sections name, data, model, update, "
        "training, cluster\n");
    check_refused("- a\n", NULL, 0,
                  "job.yaml:1:1: this is not a job file; allowed: the sections name, data, model, "
                  "update, training, cluster\n");
    line_refused(13, "  rul: adam",
                 "job.yaml:13:3: update.rule is missing; allowed: one of " RULE_NAMES "\n");
    line_refused(
        13, "  rule: adm",
        "job.yaml:13:9: update.rule: 'adm' is not known (did you mean 'adam'?); allowed: one "
        "of " RULE_NAMES "\n");
    check_refused("name: x\ndata: 3\nmodel: 4\nupdate: 5\n", NULL, 0,
                  "job.yaml:2:7: data: a single value stands here; allowed: a section of keys\n"
                  "job.yaml:3:8: model: a single value stands here; allowed: a section of keys\n"
                  "job.yaml:4:9: update: a single value stands here; allowed: a section of keys\n");
}

static void test_yaml_problems_come_through(void **state)
{
    (void)state;
    line_refused(16, "\tbatch_size: 3",
                 "job.yaml:16:1: while scanning for the next token: found character that cannot "
                 "start any token; indent with blanks, not with tabs\n");
    line_refused(16, "  batch_size: 32\n  batch_size: 64",
                 "job.yaml:17:3: the key 'batch_size' is given twice; first on line 16\n");
    line_refused(16, "  batch_size: &a 32",
                 "job.yaml:16:15: anchors and aliases (& and *) are not supported; write the value "
                 "out\n");
}

static void test_layers(void **state)
{
    (void)state;
    char *text = job_with(7, "    - rleu");
    struct job_spec spec = {0};
    struct diags d = {0};
    assert_int_equal(job_spec_parse(text, strlen(text), "f", NULL, 0, &spec, &d), ERR_INVALID);
    assert_int_equal(d.count, 1);
    assert_true(d.items[0].line == 7 && d.items[0].column == 7);
    assert_non_null(strstr(d.items[0].message, "model.layers.1: 'rleu' is not known (did you mean "
                                               "'relu'?); allowed: one of dense, "));
    diags_release(&d);
    free(text);

    line_refused(8, "    - dense:\n      units: 4\n    - dense:",
                 "job.yaml:8:7: model.layers.2: 2 keys stand side by side; indent the parameters "
                 "below 'dense:'\n");
#define FORM                                                                                       \
    "not a layer; allowed: a name (relu) or one name with parameters (dense: {units: 10})\n"
    line_refused(7, "    - [relu]", "job.yaml:7:7: model.layers.1: " FORM);
    line_refused(7, "    -", "job.yaml:7:6: model.layers.1: " FORM);
    line_refused(7, "    - {}", "job.yaml:7:7: model.layers.1: " FORM);
    line_refused(7, "    - dense",
                 "job.yaml:7:7: model.layers.1.units is missing; allowed: whole number from 1 to "
                 "16777216\n");
    line_refused(7, "    - relu: 3",
                 "job.yaml:7:13: model.layers.1: a single value stands here; allowed: a section of "
                 "keys\n");
    line_refused(7, "    - relu: {name: in}",
                 "job.yaml:7:20: two layers have the name 'in'; give one of them another 'name'\n");
    line_refused(6, "    - dense: {units: 8, name: dense_2}",
                 "job.yaml:8:7: two layers have the name 'dense_2'; give one of them another "
                 "'name'\n");
    line_refused(
        7, "    - relu: {name: a/b}",
        "job.yaml:7:20: model.layers.1.name: not a layer name; allowed: letters, digits, '_' "
        "and '-', at most 63\n");
    line_refused(5, "  layers: []\n  x:",
                 "job.yaml:5:11: model.layers: allowed: a list of 1 to 64 layers\n"
                 "job.yaml:6:3: unknown key 'x' in model; allowed: layers, metrics, input, loss\n");
}

static void test_too_many_layers(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_add_str(&text, "name: j\ndata: {train: {file: x}}\nupdate: {rule: sgd}\n"
                       "model:\n  loss: mean_squared_error\n  layers:\n");
    for (int i = 0; i < 64; i++) {
        buf_add_str(&text, "    - relu\n");
    }
    struct job_spec spec = {0};
    parse(buf_str(&text), &spec);
    assert_int_equal(spec.model.layer_count, 64);
    assert_string_equal(spec.model.layers[63].name, "relu_64");
    job_spec_release(&spec);
    buf_add_str(&text, "    - relu\n");
    check_refused(buf_str(&text), NULL, 0,
                  "job.yaml:71:7: model.layers: 65 layers; allowed: a list of 1 to 64 layers\n");
    buf_release(&text);
}

static void test_what_does_not_fit_together(void **state)
{
    (void)state;
    line_refused(
        16, "  replicas: 1",
        "job.yaml:16:13: training.replicas: 1 replicas leave 1 of 2 workers idle; allowed: at "
        "least 2 (the most of cluster.workers), or 0 for as many\n");
    line_refused(
        16, "  epochs: 0",
        "job.yaml:16:11: training would never end: epochs and steps are both 0; allowed: at "
        "least one of them above 0\n");
    line_refused(
        16, "  mode: bounded\n  staleness: 0",
        "job.yaml:17:14: training.staleness: bounded with 0 would run in lockstep; allowed: "
        "at least 1, or 'mode: sync'\n");
    line_refused(
        11, "  metrics: [accuracy, auc]",
        "job.yaml:11:23: model.metrics: 'auc' does not fit the loss softmax_cross_entropy; "
        "allowed: loss, accuracy\n");
    line_refused(
        11, "  metrics: [rmse]",
        "job.yaml:11:13: model.metrics: 'rmse' does not fit the loss softmax_cross_entropy; "
        "allowed: loss, accuracy\n");
    line_refused(10, "  loss: mean_squared_error",
                 "job.yaml:11:13: model.metrics: 'accuracy' does not fit the loss "
                 "mean_squared_error; allowed: loss, rmse\n");
    line_refused(
        11, "  metrics: [acuracy]",
        "job.yaml:11:13: model.metrics: 'acuracy' is not known (did you mean 'accuracy'?); "
        "allowed: one of loss, accuracy, auc, rmse\n");
    line_refused(
        3, "  train: {file: a.csv}\n  label_kind: real",
        "job.yaml:4:15: data.label_kind: softmax_cross_entropy needs classes; allowed: class "
        "or auto\n");
    line_refused(3, "  train: {file: a.csv}\n  label_scale: standard",
                 "job.yaml:4:16: data.label_scale: classes cannot be scaled; allowed: none "
                 "(softmax_cross_entropy has class labels)\n");
    line_refused(3, "  train: {file: a}\n  test: {file: b}\n  test_fraction: 0.1",
                 "job.yaml:5:18: data.test_fraction: the test records come from data.test.file; "
                 "allowed: only one of the two\n");
    line_refused(
        3, "  train: {file: a}\n  format: idx",
        "job.yaml:3:10: data.train.labels is missing; allowed: the IDX file with the labels "
        "of data.train.file\n");
    line_refused(3, "  train: {file: a}\n  separator: ab",
                 "job.yaml:4:14: data.separator: not a separator; allowed: one character, tab or "
                 "space\n");
    line_refused(4, "model:\n  input: [1, 2, 3, 4]",
                 "job.yaml:5:10: model.input: 4 dimensions; allowed: 1 to 3\n");
    /* A wrong loss says nothing about the metrics. */
    line_refused(10, "  loss: mse",
                 "job.yaml:10:9: model.loss: 'mse' is not known; allowed: one of "
                 "softmax_cross_entropy, sigmoid_cross_entropy, mean_squared_error\n");
}

/* The job with all of @sets (NULL-terminated) is refused. */
static void sets_refused(const char *const *sets, const char *problems)
{
    size_t count = 0;
    while (sets[count] != NULL) {
        count++;
    }
    char *text = job_with(0, NULL);
    check_refused(text, sets, count, problems);
    free(text);
}
#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void sets_taken(const char *const *sets)
{
    size_t count = 0;
    while (sets[count] != NULL) {
        count++;
    }
    char *text = job_with(0, NULL);
    struct job_spec spec = {0};
    parse_with(text, sets, count, &spec);
    job_spec_release(&spec);
    free(text);
}

static void test_replicas_and_workers(void **state)
{
    (void)state;
    struct job_spec spec = {0}, again = {0};
    char *text = job_with(18, "  workers: 2..8");
    parse(text, &spec);
    assert_int_equal(spec.cluster.workers.min, 2);
    assert_int_equal(spec.cluster.workers.max, 8);
    assert_int_equal(job_spec_replicas(&spec), 8);
    assert_non_null(strstr(spec.text, "  workers: 2..8\n"));
    parse(spec.text, &again);
    assert_string_equal(again.text, spec.text);
    job_spec_release(&spec);
    job_spec_release(&again);
    free(text);

    sets_refused(SETS("cluster.workers=2..8", "training.replicas=4"),
                 "--set training.replicas=4: training.replicas: 4 replicas leave 4 of 8 workers "
                 "idle; allowed: at least 8 (the most of cluster.workers), or 0 for as many\n");
    sets_refused(SETS("training.replicas_to_aggregate=3"),
                 "--set training.replicas_to_aggregate=3: training.replicas_to_aggregate: 3 of 2 "
                 "replicas; allowed: at most training.replicas, or 0 for all\n");
    sets_refused(
        SETS("training.replicas=4", "training.replicas_to_aggregate=3", "training.speculate=true"),
        "--set training.speculate=true: training.speculate: late replicas are dropped "
        "already by training.replicas_to_aggregate: 3; allowed: only one of the two\n");
    sets_taken(
        SETS("training.replicas=4", "training.replicas_to_aggregate=4", "training.speculate=true"));
    sets_taken(SETS("training.replicas=4", "training.replicas_to_aggregate=3",
                    "training.speculate=true", "training.mode=async"));
    sets_taken(SETS("training.mode=bounded", "training.replicas=1"));
    sets_taken(SETS("training.mode=async", "training.replicas_to_aggregate=9"));
}

static void test_async_keys(void **state)
{
    (void)state;
    sets_refused(SETS("training.mode=async", "training.overlap=true", "training.push_every=2",
                      "training.pull_every=3", "training.staleness_policy=max_staleness"),
                 "--set training.push_every=2: training.push_every: 2 does not go together with "
                 "'overlap: true'; allowed: 1\n"
                 "--set training.pull_every=3: training.pull_every: 3 does not go together with "
                 "'overlap: true'; allowed: 1\n"
                 "--set training.staleness_policy=max_staleness: training.staleness_policy: "
                 "max_staleness does not go together with 'overlap: true'; allowed: none, scale_lr "
                 "or delay_compensation\n");
    sets_taken(SETS("training.overlap=true", "training.push_every=2"));
    sets_taken(SETS("training.mode=bounded", "training.overlap=true",
                    "training.staleness_policy=delay_compensation"));
    sets_taken(SETS("training.mode=bounded", "training.push_every=4", "training.pull_every=2",
                    "training.staleness_policy=max_staleness", "training.max_staleness=0"));
}

static void test_new_keys_are_checked_one_by_one(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"replicas_to_aggregate=-1", "'-1' is out of range; allowed: whole number from 0 to 1024"},
        {"speculate=yes", "'yes' is not a truth value; allowed: true or false"},
        {"speculate_after=0.5", "'0.5' is out of range; allowed: number from 1 to 1000000"},
        {"staleness_policy=scale",
         "'scale' is not known; allowed: one of none, max_staleness, scale_lr, "
         "delay_compensation"},
        {"staleness_policy=scale_rl",
         "'scale_rl' is not known (did you mean 'scale_lr'?); allowed: one of none, "
         "max_staleness, scale_lr, delay_compensation"},
        {"max_staleness=1000000001",
         "'1000000001' is out of range; allowed: whole number from 0 to 1000000000"},
        {"delay_lambda=-0.1", "'-0.1' is out of range; allowed: number from 0 to 1000000"},
        {"push_every=0", "'0' is out of range; allowed: whole number from 1 to 1000000"},
        {"pull_every=0", "'0' is out of range; allowed: whole number from 1 to 1000000"},
        {"mode=asynk",
         "'asynk' is not known (did you mean 'async'?); allowed: one of sync, async, bounded"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char set[64], problem[320];
        (void)snprintf(set, sizeof set, "training.%s", cases[i][0]);
        (void)snprintf(problem, sizeof problem, "--set %s: training.%.*s: %s\n", set,
                       (int)strcspn(cases[i][0], "="), cases[i][0], cases[i][1]);
        set_refused(set, problem);
    }
}

static void test_new_keys_are_read(void **state)
{
    (void)state;
    const char *const *sets =
        SETS("training.mode=bounded", "training.replicas_to_aggregate=1", "training.speculate=true",
             "training.speculate_after=1.5", "training.staleness_policy=delay_compensation",
             "training.max_staleness=3", "training.delay_lambda=0.5", "training.push_every=4",
             "training.pull_every=2", "cluster.workers=1..3");
    char *text = job_with(0, NULL);
    struct job_spec spec = {0}, again = {0};
    parse_with(text, sets, 10, &spec);
    parse(spec.text, &again);
    assert_string_equal(again.text, spec.text);
    const struct training_spec *t = &again.training;
    assert_int_equal(t->mode, TRAINING_BOUNDED);
    assert_int_equal(t->replicas_to_aggregate, 1);
    assert_true(t->speculate);
    assert_true(t->speculate_after == 1.5);
    assert_int_equal(t->staleness_policy, POLICY_DELAY_COMPENSATION);
    assert_int_equal(t->max_staleness, 3);
    assert_true(t->delay_lambda == 0.5);
    assert_int_equal(t->push_every, 4);
    assert_int_equal(t->pull_every, 2);
    assert_int_equal(again.cluster.workers.min, 1);
    assert_int_equal(again.cluster.workers.max, 3);
    job_spec_release(&spec);
    job_spec_release(&again);
    free(text);
}

static void test_what_is_fixed(void **state)
{
    (void)state;
    static const char *const free_keys[] = {
        "training.mode",           "training.replicas",
        "training.epochs",         "training.overlap",
        "training.push_every",     "training.staleness_policy",
        "training.evaluate_every", "training.checkpoints_keep",
        "cluster.workers",         "training.no_such_key" /* the parser says so better */,
    };
    for (size_t i = 0; i < sizeof free_keys / sizeof free_keys[0]; i++) {
        assert_null(job_spec_fixed(free_keys[i]));
    }
    static const char *const fixed[] = {
        "name",
        "data.dir",
        "model.layers.0.units",
        "update.learning_rate",
        "cluster.ps",
        "cluster",
        "training",
        "training.batch_size",
        "training.seed",
        "training.split_batches",
        "",
        "cluster.workers.min",
    };
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        assert_non_null(job_spec_fixed(fixed[i]));
    }
    assert_string_equal(job_spec_fixed("data.dir"), "fixed when the job was submitted");
    assert_non_null(strstr(job_spec_fixed("training.seed"), "order of the records"));
}

#define LONG_NAME /* 64 bytes, one too many */                                                     \
    "a123456789012345678901234567890123456789012345678901234567890123"

static void test_job_names(void **state)
{
    (void)state;
    static const char *const wrong[] = {"''", "-a", ".a", "a b", "a/b", "\xc3\xa9", LONG_NAME};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "name: %s", wrong[i]);
        line_refused(1, line,
                     "job.yaml:1:7: name: not a job name; allowed: letters, digits, '.', '_' and "
                     "'-', starting with a letter or digit, at most 63\n");
    }
    struct job_spec spec = {0};
    char *text = job_with(1, "name: 7-of.nine_A");
    parse(text, &spec);
    assert_string_equal(spec.name, "7-of.nine_A");
    job_spec_release(&spec);
    free(text);
}

static void test_all_problems_in_one_run(void **state)
{
    (void)state;
    static const char text[] = "name: a b\n"
                               "data:\n"
                               "  train: {fil: x}\n"
                               "model:\n"
                               "  loss: mean_squared_error\n"
                               "  metrics: [auc]\n"
                               "  layers: [relu, {dense: {units: -1, activation: rel}}]\n"
                               "update: {rule: sgd, learning_rate: fast}\n"
                               "training: {epoch: 3}\n"
                               "cluster: {ps: 0}\n";
    static const char *const sets[] = {"training.steps=x", "nonsense"};
    static const unsigned line[] = {1, 3, 3, 6, 7, 7, 8, 9, 10, 0, 0};
    struct job_spec spec = {0};
    struct diags d = {0};
    assert_int_equal(job_spec_parse(text, strlen(text), "f", sets, 2, &spec, &d), ERR_INVALID);
    assert_int_equal(d.count, sizeof line / sizeof line[0]);
    for (size_t i = 0; i < d.count; i++) {
        assert_int_equal(d.items[i].line, line[i]);
    }
    diags_release(&d);
}

static void test_sets_change_any_key(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "name=other",
        "data.dir=/data/with space: and colon",
        "data.label=",
        "update.learning_rate=0.5",
        "training.mode=async",
        "cluster.ps=3",
        "model.layers.0.units=64",
        "model.layers.dense_2.units=5",
        "model.layers.relu_1.name=first",
        "model.input=[28, 28]",
        "model.metrics=[loss]",
        "training.batch_size=7",
        "training.batch_size=8",
    };
    char *text = job_with(0, NULL);
    struct job_spec spec = {0};
    parse_with(text, sets, sizeof sets / sizeof sets[0], &spec);
    assert_string_equal(spec.name, "other");
    assert_string_equal(spec.data.dir, "/data/with space: and colon");
    assert_string_equal(spec.data.label, "");
    assert_true(hyperparameter(&spec, "learning_rate") == 0.5);
    assert_int_equal(spec.training.mode, TRAINING_ASYNC);
    assert_int_equal(spec.cluster.ps, 3);
    assert_int_equal(units(&spec, 0), 64);
    assert_int_equal(units(&spec, 2), 5);
    assert_string_equal(spec.model.layers[1].name, "first");
    assert_int_equal(spec.model.input.count, 2);
    assert_int_equal(spec.model.metrics, 1U << METRIC_LOSS);
    assert_int_equal(spec.training.batch_size, 8); /* the last one counts */
    job_spec_release(&spec);
    free(text);
}

static void test_sets_replace_layers_and_sections(void **state)
{
    (void)state;
    static const char *const sets[] = {"model.layers.1=tanh", "training={epochs: 2}"};
    char *text = job_with(0, NULL);
    struct job_spec spec = {0};
    parse_with(text, sets, 2, &spec);
    assert_string_equal(layer_kind_name(spec.model.layers[1].kind), "tanh");
    assert_int_equal(spec.training.epochs, 2);
    assert_int_equal(spec.training.batch_size, 64);
    job_spec_release(&spec);
    free(text);
}

static void test_wrong_sets(void **state)
{
    (void)state;
    set_refused("update.foo=1",
                "--set update.foo=1: unknown key 'foo' in update; allowed: " ADAM_KEYS "\n");
    set_refused("trainig.epochs=1",
                "--set trainig.epochs=1: unknown key 'trainig'; did you mean 'training'?\n");
    set_refused(
        "training.epochs=x",
        "--set training.epochs=x: training.epochs: 'x' is not a whole number; allowed: whole "
        "number from 0 to 1000000\n");
    set_refused("training.epochs=",
                "--set training.epochs=: training.epochs: '' is not a whole number; allowed: whole "
                "number from 0 to 1000000\n");
    set_refused("training.epochs=0",
                "--set training.epochs=0: training would never end: epochs and steps are both 0; "
                "allowed: at least one of them above 0\n");
    set_refused(
        "training.replicas=1",
        "--set training.replicas=1: training.replicas: 1 replicas leave 1 of 2 workers idle; "
        "allowed: at least 2 (the most of cluster.workers), or 0 for as many\n");
    set_refused("training.batch_size.x=1",
                "--set training.batch_size.x=1: 'batch_size' is not a section of keys\n");
#define KEY_VALUE "key=value is expected, such as training.epochs=5\n"
    set_refused("training", "--set training: there is no '='; " KEY_VALUE);
    set_refused("data.dir", "--set data.dir: there is no '='; " KEY_VALUE);
    set_refused("", "--set : there is no '='; " KEY_VALUE);
    set_refused("=1", "--set =1: this is not a key; " KEY_VALUE);
    set_refused("a..b=1", "--set a..b=1: this is not a key; " KEY_VALUE);
    set_refused(
        "model.layers.9.units=1",
        "--set model.layers.9.units=1: there is no layer '9'; allowed: a number from 0 to 2, "
        "or a layer's name\n");
    set_refused("model.layers.out.units=1",
                "--set model.layers.out.units=1: there is no layer 'out'; allowed: a number from 0 "
                "to 2, or a layer's name\n");
    set_refused("model.layers.0.units.x=1",
                "--set model.layers.0.units.x=1: '0' has no parameters to set\n");
    set_refused("model.layers.1.probability=1", "--set model.layers.1.probability=1: unknown key "
                                                "'probability' in model.layers.1; allowed: name\n");
    set_refused("model.input=[1,",
                "--set model.input=[1,: while parsing a flow node: did not find expected node "
                "content\n");
    set_refused("update.rule=sdg",
                "--set update.rule=sdg: update.rule: 'sdg' is not known (did you mean 'sgd'?); "
                "allowed: one of " RULE_NAMES "\n");
}

static void test_canonical_text(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "data.dir=a: b #c", "data.label=-1",     "training.evaluate_every=2 epochs",
        "model.input=[4]",  "update.beta2=0.99",
    };
    char *text = job_with(0, NULL);
    struct job_spec spec = {0}, again = {0};
    parse_with(text, sets, sizeof sets / sizeof sets[0], &spec);
    parse(spec.text, &again);
    assert_string_equal(again.text, spec.text);
    assert_string_equal(again.data.dir, "a: b #c");
    assert_true(hyperparameter(&again, "beta2") == 0.99);
    assert_string_equal(again.model.layers[2].name, "dense_2");
    assert_int_equal(units(&again, 2), 3);
    assert_non_null(strstr(spec.text, "name: demo\ndata:\n  dir: \"a: b #c\"\n"));
    assert_non_null(strstr(spec.text, "  label: \"-1\"\n"));
    assert_non_null(strstr(spec.text, "    - relu:\n        name: relu_1\n"));
    assert_non_null(strstr(spec.text, "  metrics: [loss, accuracy]\n"));
    assert_non_null(strstr(spec.text, "  evaluate_every: 2 epochs\n"));
    job_spec_release(&spec);
    job_spec_release(&again);
    free(text);
}

/* Jobs with bytes changed, removed, doubled: a spec that reads back, or a reason; never a crash. */
static void test_mutated_jobs(void **state)
{
    (void)state;
    static const char alphabet[] = "ab:  -\n\n,[]{}#'\"|>&*!?%0919.e~\t\\\xc3\xa9\xff";
    char *text = job_with(14, "  schedule: {kind: piecewise, at: [3], factors: \"1, 2\"}\n"
                              "  schedules: {beta1: {kind: cosine, length: 5}}\n"
                              "  clip_norm: 2\n  accumulate: 3\n  average: 0.9\n"
                              "  variables: [{match: \"a*\", l1: 3}, {match: b, frozen: true}]");
    size_t n = strlen(text);
    for (uint64_t round = 0; round < 3000; round++) {
        struct buf mutant = {0};
        uint64_t draw = 0;
        uint64_t changes = 1 + rng_below(round, draw++, 4);
        buf_add(&mutant, text, n);
        for (uint64_t c = 0; c < changes; c++) {
            size_t at = (size_t)rng_below(round, draw++, mutant.len);
            uint64_t how = rng_below(round, draw++, 3);
            if (how == 0) {
                mutant.data[at] = alphabet[rng_below(round, draw++, sizeof alphabet - 1)];
            } else if (how == 1) {
                size_t cut = (size_t)rng_below(round, draw++, mutant.len - at) / 8;
                memmove(mutant.data + at, mutant.data + at + cut, mutant.len - at - cut);
                mutant.len -= cut;
            } else {
                size_t copy = (size_t)rng_below(round, draw++, mutant.len - at) / 8;
                char *piece = malloc(copy + 1);
                memcpy(piece, mutant.data + at, copy);
                buf_add(&mutant, piece, copy);
                free(piece);
            }
        }
        static const char *const sets[] = {"model.layers.1.name=x", "update.learning_rate=0.1",
                                           "training.epochs=2", "model.layers.relu_1.rate=3",
                                           "cluster.workers=1..2"};
        struct job_spec spec = {0};
        struct diags d = {0};
        int code =
            job_spec_parse(mutant.data, mutant.len, "f", sets, (size_t)(round % 6), &spec, &d);
        assert_true((code == 0) == (d.count == 0));
        if (code == 0) {
            struct job_spec again = {0};
            parse(spec.text, &again);
            assert_string_equal(again.text, spec.text);
            job_spec_release(&again);
        }
        job_spec_release(&spec);
        diags_release(&d);
        buf_release(&mutant);
    }
    free(text);
}

static void test_examples(void **state)
{
    (void)state;
    static const char *const names[] = {"fashion-mnist.yaml",
                                        "fashion-mnist-cnn.yaml",
                                        "fashion-mnist-logistic.yaml",
                                        "digits.yaml",
                                        "iris.yaml",
                                        "california-housing.yaml"};
    const char *source = getenv("GRADUS_SOURCE_DIR");
    if (source == NULL) {
        print_message("skipped: GRADUS_SOURCE_DIR is not set\n");
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct buf path = {0}, text = {0};
        struct err err = {0};
        buf_printf(&path, "%s/examples/%s", source, names[i]);
        if (file_read(buf_str(&path), 1 << 20, &text, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        struct job_spec spec = {0}, again = {0};
        parse(buf_str(&text), &spec);
        parse(spec.text, &again);
        assert_string_equal(again.text, spec.text);
        char *name = mem_printf("%s.yaml", spec.name); /* a file is found by its job's name */
        assert_string_equal(name, names[i]);
        free(name);
        job_spec_release(&spec);
        job_spec_release(&again);
        buf_release(&path);
        buf_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_job_has_defaults),
        cmocka_unit_test(test_a_whole_job),
        cmocka_unit_test(test_unknown_keys_name_the_nearest),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_values_out_of_range),
        cmocka_unit_test(test_missing_parts),
        cmocka_unit_test(test_yaml_problems_come_through),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_too_many_layers),
        cmocka_unit_test(test_what_does_not_fit_together),
        cmocka_unit_test(test_replicas_and_workers),
        cmocka_unit_test(test_async_keys),
        cmocka_unit_test(test_new_keys_are_checked_one_by_one),
        cmocka_unit_test(test_new_keys_are_read),
        cmocka_unit_test(test_what_is_fixed),
        cmocka_unit_test(test_job_names),
        cmocka_unit_test(test_all_problems_in_one_run),
        cmocka_unit_test(test_sets_change_any_key),
        cmocka_unit_test(test_sets_replace_layers_and_sections),
        cmocka_unit_test(test_wrong_sets),
        cmocka_unit_test(test_canonical_text),
        cmocka_unit_test(test_mutated_jobs),
        cmocka_unit_test(test_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
