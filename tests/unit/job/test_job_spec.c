/* SPDX-License-Identifier: Apache-2.0 */
/* Job files: what they may say, and what comes of each key. */
#include "job_spec_rig.h"

static void test_smallest_job_has_defaults(void **state)
{
    (void)state;
    struct job_spec spec = {0};
    job_parse(
        "name: j\ndata: {train: {file: x}}\nmodel: {layers: [relu], loss: mean_squared_error}\n"
        "update: {rule: sgd}\n",
        &spec);
    assert_string_equal(spec.name, "j");
    assert_string_equal(spec.data.dir, ".");
    assert_int_equal(spec.training.mode, TRAINING_SYNC);
    assert_int_equal(spec.training.batch_size, 64);
    assert_false(spec.training.drop_last);
    assert_int_equal(job_spec_epoch_records(&spec, 130), 130);
    spec.training.drop_last = true; /* of 64 records each */
    assert_int_equal(job_spec_epoch_records(&spec, 130), 128);
    assert_int_equal(job_spec_epoch_records(&spec, 128), 128);
    assert_int_equal(job_spec_epoch_records(&spec, 63), 0);
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
    assert_int_equal(spec.training.keep_last, 3);
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
    job_parse(text, &spec);
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
    assert_int_equal(job_units(&spec, 0), 8);
    assert_int_equal(job_units(&spec, 2), 3);
    assert_true(job_hyperparameter(&spec, "learning_rate") == 0.01);
    assert_true(job_hyperparameter(&spec, "beta1") == 0.9);
    assert_int_equal(job_spec_replicas(&spec), 2);
    assert_int_equal(job_spec_label_kind(&spec), DATA_LABEL_CLASS);
    job_spec_release(&spec);
    free(text);
}

static void test_unknown_keys_name_the_nearest(void **state)
{
    (void)state;
    job_line_refused(
        16, "  bach_size: 32",
        "job.yaml:16:3: unknown key 'bach_size' in training; did you mean 'batch_size'?\n");
    job_line_refused(
        15, "trainin:", "job.yaml:15:1: unknown key 'trainin'; did you mean 'training'?\n");
    job_line_refused(3, "  train: {file: a.csv, lables: b}",
                     "job.yaml:3:24: unknown key 'lables' in data.train; did you mean 'labels'?\n");
    job_line_refused(11, "  metrik: [accuracy]",
                     "job.yaml:11:3: unknown key 'metrik' in model; did you mean 'metrics'?\n");
    job_line_refused(14, "  momentum: 0.9",
                     "job.yaml:14:3: unknown key 'momentum' in update; allowed: " ADAM_KEYS "\n");
    job_line_refused(
        9, "        unit: 3",
        "job.yaml:9:9: unknown key 'unit' in model.layers.2; did you mean 'units'?\n"
        "job.yaml:9:9: model.layers.2.units is missing; allowed: whole number from 0 to "
        "16777216\n");
    job_line_refused(14, "  training.seed: 3",
                     "job.yaml:14:3: unknown key 'training.seed' in update; allowed: " ADAM_KEYS
                     "\n");
}

static void test_missing_parts(void **state)
{
    (void)state;
    job_check_refused("training: {}\n", NULL, 0,
                      "job.yaml:1:1: name is missing; allowed: text\n"
                      "job.yaml:1:1: the section 'data' is missing: Where the records are and "
                      "how they become numbers\n"
                      "job.yaml:1:1: the section 'model' is missing: The network, what it "
                      "minimises and what is measured\n"
                      "job.yaml:1:1: the section 'update' is missing: The rule that turns "
                      "gradients into new values\n");
    job_check_refused("name: x\ndata:\nmodel:\nupdate:\ntraining:\ncluster:\n", NULL, 0,
                      "job.yaml:2:6: data.train.file is missing; allowed: text, or a list of "
                      "texts\n"
                      "job.yaml:3:7: model.loss is missing; allowed: one of softmax_cross_entropy, "
                      "sigmoid_cross_entropy, mean_squared_error, auto\n"
                      "job.yaml:3:7: model.layers is missing; allowed: a list of 1 to 256 layers\n"
                      "job.yaml:4:8: update.rule is missing; allowed: one of " RULE_NAMES "\n");
    job_check_refused(
        "", NULL, 0,
        "job.yaml:1:1: the file is empty; allowed: the sections name, data, model, update, "
        "training, cluster, from\n");
    job_check_refused(
        "- a\n", NULL, 0,
        "job.yaml:1:1: this is not a job file; allowed: the sections name, data, model, "
        "update, training, cluster, from\n");
    job_line_refused(13, "  rul: adam",
                     "job.yaml:13:3: update.rule is missing; allowed: one of " RULE_NAMES "\n");
    job_line_refused(
        13, "  rule: adm",
        "job.yaml:13:9: update.rule: 'adm' is not known (did you mean 'adam'?); allowed: one "
        "of " RULE_NAMES "\n");
    job_check_refused(
        "name: x\ndata: 3\nmodel: 4\nupdate: 5\n", NULL, 0,
        "job.yaml:2:7: data: a single value stands here; allowed: a section of keys\n"
        "job.yaml:3:8: model: a single value stands here; allowed: a section of keys\n"
        "job.yaml:4:9: update: a single value stands here; allowed: a section of keys\n");
}

static void test_yaml_problems_come_through(void **state)
{
    (void)state;
    job_line_refused(
        16, "\tbatch_size: 3",
        "job.yaml:16:1: while scanning for the next token: found character that cannot "
        "start any token; indent with blanks, not with tabs\n");
    job_line_refused(16, "  batch_size: 32\n  batch_size: 64",
                     "job.yaml:17:3: the key 'batch_size' is given twice; first on line 16\n");
    job_line_refused(
        16, "  batch_size: &a 32",
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

    job_line_refused(
        8, "    - dense:\n      units: 4\n    - dense:",
        "job.yaml:8:7: model.layers.2: 2 keys stand side by side; indent the parameters "
        "below 'dense:'\n");
#define FORM                                                                                       \
    "not a layer; allowed: a name (relu) or one name with parameters (dense: {units: 10})\n"
    job_line_refused(7, "    - [relu]", "job.yaml:7:7: model.layers.1: " FORM);
    job_line_refused(7, "    -", "job.yaml:7:6: model.layers.1: " FORM);
    job_line_refused(7, "    - {}", "job.yaml:7:7: model.layers.1: " FORM);
    job_line_refused(
        7, "    - dense",
        "job.yaml:7:7: model.layers.1.units is missing; allowed: whole number from 0 to "
        "16777216\n");
    job_line_refused(
        7, "    - relu: 3",
        "job.yaml:7:13: model.layers.1: a single value stands here; allowed: a section of "
        "keys\n");
    job_line_refused(
        7, "    - relu: {name: in}",
        "job.yaml:7:20: two layers have the name 'in'; give one of them another 'name'\n");
    job_line_refused(6, "    - dense: {units: 8, name: dense_2}",
                     "job.yaml:8:7: two layers have the name 'dense_2'; give one of them another "
                     "'name'\n");
    job_line_refused(
        7, "    - relu: {name: a/b}",
        "job.yaml:7:20: model.layers.1.name: not a layer name; allowed: letters, digits, '_' "
        "and '-', at most 63\n");
    job_line_refused(
        5, "  layers: []\n  x:",
        "job.yaml:5:11: model.layers: allowed: a list of 1 to 256 layers\n"
        "job.yaml:6:3: unknown key 'x' in model; allowed: tables, layers, metrics, "
        "input, program, onnx, output, trainable, loss, class_weights, top_k, group_by\n");
}

/* A model of the workers' programs: neither layers nor loss, and data only where the job has them.
 */
static void test_program(void **state)
{
    (void)state;
    struct job_spec spec = {0}, again = {0};
    struct diags d = {0};
    const char *text = "name: j\nmodel: {program: mine, metrics: [accuracy]}\nupdate: {rule: sgd, "
                       "learning_rate: 1}\n";
    assert_int_equal(job_spec_parse(text, strlen(text), "f", NULL, 0, &spec, &d), 0);
    assert_true(job_spec_is_program(&spec));
    assert_false(job_spec_has_data(&spec));
    assert_int_equal(spec.model.metrics, 1U << METRIC_LOSS | 1U << METRIC_ACCURACY);
    assert_int_equal(job_spec_parse(spec.text, strlen(spec.text), "f", NULL, 0, &again, &d), 0);
    assert_string_equal(again.text, spec.text);
    assert_string_equal(again.model.program, "mine");
    job_spec_release(&again);
    const char *set[] = {"data.train.file=x.csv"};
    assert_int_equal(job_spec_parse(text, strlen(text), "f", set, 1, &again, &d), 0);
    assert_true(job_spec_has_data(&again));
    job_spec_release(&again);
    job_spec_release(&spec);
    text = "name: j\nmodel: {program: mine, tables: [{name: t, dim: 3}]}\nupdate: {rule: sgd, "
           "learning_rate: 1}\ndata: {format: libffm, train: {file: x}, columns: [{column: 0, as: "
           "sparse}]}\n";
    assert_int_equal(job_spec_parse(text, strlen(text), "f", NULL, 0, &spec, &d), 0);
    assert_int_equal(spec.model.table_count, 1);
    assert_true(spec.data.lists_all); /* without a width, and no layer reads it */
    assert_int_equal(job_spec_parse(spec.text, strlen(spec.text), "f", NULL, 0, &again, &d), 0);
    assert_string_equal(again.text, spec.text);
    job_spec_release(&again);
    job_spec_release(&spec);
    job_check_refused("name: j\nmodel: {program: mine, loss: mean_squared_error, layers: [relu], "
                      "metrics: [auc]}\nupdate: {rule: sgd, learning_rate: 1}\n",
                      NULL, 0,
                      "job.yaml:2:24: model.loss: the model is that of the workers' program "
                      "(model.program); allowed: either a program or layers with a loss\n"
                      "job.yaml:2:50: model.layers: the model is that of the workers' program "
                      "(model.program); allowed: either a program or layers with a loss\n"
                      "job.yaml:2:75: model.metrics: a program does not tell all of them; allowed: "
                      "loss, accuracy, rmse, mae\n");
    const char *const beside =
        "name: j\nmodel: {program: mine}\nupdate: {rule: sgd, learning_rate: 1}"
        "\ndata: {train: {file: x}, weight: w, negative_sampling: 0.5}\n";
    job_check_refused(beside, NULL, 0,
                      "job.yaml:4:34: data.weight: gradients are those of the workers' program "
                      "(model.program), which is told no weights; allowed: with layers or an ONNX "
                      "file\n"
                      "job.yaml:4:56: data.negative_sampling: gradients are those of the workers' "
                      "program (model.program), which knows nothing of it; allowed: 1\n");
}

static enum data_label_kind labels_of(const char *metrics, const char *const *set, size_t count)
{
    struct job_spec spec = {0};
    char *text = mem_printf("name: j\nmodel: {program: mine, metrics: [%s]}\nupdate: {rule: sgd, "
                            "learning_rate: 1}\n",
                            metrics);
    job_parse_with(text, set, count, &spec);
    const enum data_label_kind kind = job_spec_label_kind(&spec);
    job_spec_release(&spec);
    free(text);
    return kind;
}

/* It has no loss that says so. */
static void test_labels_of_a_program(void **state)
{
    (void)state;
    const char *set[] = {"data.label_kind=class"};
    assert_int_equal(labels_of("accuracy", NULL, 0), DATA_LABEL_CLASS);
    assert_int_equal(labels_of("rmse", NULL, 0), DATA_LABEL_REAL);
    assert_int_equal(labels_of("rmse, mae", NULL, 0), DATA_LABEL_REAL);
    assert_int_equal(labels_of("mae, accuracy", NULL, 0), DATA_LABEL_CLASS);
    assert_int_equal(labels_of("rmse", set, 1), DATA_LABEL_CLASS);
    const char *scaled[] = {"data.label_scale=standard"};
    assert_int_equal(labels_of("rmse", scaled, 1), DATA_LABEL_REAL);
    job_check_refused(
        "name: j\nmodel: {program: mine, metrics: [accuracy]}\nupdate: {rule: sgd, "
        "learning_rate: 1}\ndata: {label_scale: standard}\n",
        NULL, 0,
        "job.yaml:4:21: data.label_scale: classes cannot be scaled; allowed: none, or "
        "with it 'label_kind: real'\n");
}

static void test_onnx(void **state)
{
    (void)state;
    struct job_spec spec = {0}, again = {0};
    struct diags d = {0};
    const char *text = "name: j\ndata: {train: {file: x.csv}}\nmodel: {onnx: a.onnx, loss: "
                       "softmax_cross_entropy, trainable: [\"fc*\", b]}\nupdate: {rule: sgd, "
                       "learning_rate: 1}\n";
    assert_int_equal(job_spec_parse(text, strlen(text), "f", NULL, 0, &spec, &d), 0);
    assert_true(job_spec_is_given(&spec));
    assert_false(job_spec_is_program(&spec));
    assert_int_equal(spec.model.metrics, 1U << METRIC_LOSS | 1U << METRIC_ACCURACY);
    assert_int_equal(job_spec_parse(spec.text, strlen(spec.text), "f", NULL, 0, &again, &d), 0);
    assert_string_equal(again.text, spec.text);
    assert_string_equal(again.model.onnx, "a.onnx");
    struct err err = {0};
    assert_int_equal(job_spec_import(&again, NULL, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "model.onnx a.onnx: "));
    job_spec_release(&again);
    job_spec_release(&spec);
    job_check_refused(
        "name: j\ndata: {train: {file: x.csv}}\nmodel: {onnx: a, loss: "
        "mean_squared_error, layers: [relu]}\nupdate: {rule: sgd, learning_rate: 1}\n",
        NULL, 0,
        "job.yaml:3:44: model.layers: the model is the graph of a file (model.onnx); "
        "allowed: either a file or layers\n");
}

static void assert_from(const struct layer_spec *l, const char *names)
{
    struct buf text = {0};
    for (size_t k = 0; k < l->from_count; k++) {
        buf_printf(&text, "%s%s", k == 0 ? "" : " ", l->from[k]);
    }
    assert_string_equal(names, buf_str(&text));
    buf_release(&text);
}

/* What a layer reads, and that the written job says the same. */
static void test_from(void **state)
{
    (void)state;
    struct job_spec spec, again;
    char *text = job_with(7, "    - cross: {from: in}\n    - concat: {from: [cross_1, input, in]}");
    job_parse(text, &spec);
    job_parse(spec.text, &again);
    for (int i = 0; i < 2; i++) {
        const struct model_spec *m = i == 0 ? &spec.model : &again.model;
        assert_int_equal(4, m->layer_count);
        assert_from(&m->layers[0], "");
        assert_from(&m->layers[1], "in");
        assert_from(&m->layers[2], "cross_1 input in");
        assert_from(&m->layers[3], "");
    }
    job_spec_release(&spec);
    job_spec_release(&again);
    free(text);

    const char *const set = "model.layers.relu_1.from=[input]";
    text = job_with(0, NULL);
    job_parse_with(text, &set, 1, &spec);
    assert_from(&spec.model.layers[1], "input");
    job_spec_release(&spec);
    free(text);

    job_line_refused(7, "    - relu: {from: [in, 7a/]}",
                     "job.yaml:7:20: model.layers.1.from: not a layer's name; allowed: a name, or "
                     "a list of 1 to 256 names\n");
    job_line_refused(7, "    - relu: {from: []}",
                     "job.yaml:7:20: model.layers.1.from: not a layer's name; allowed: a name, or "
                     "a list of 1 to 256 names\n");
    job_line_refused(7, "    - relu: {from: out}",
                     "job.yaml:7:20: layer 'relu_1': from: there is no layer above it of the name "
                     "'out'; input, in would fit\n");
    job_line_refused(7, "    - add",
                     "job.yaml:7:7: layer 'add_1': it takes 2 inputs or more, but has 1; from: "
                     "[NAME, NAME] would fit\n");
    job_line_refused(7, "    - relu: {name: input}",
                     "job.yaml:7:20: model.layers.1.name: 'input' is what 'from' calls the "
                     "records; another name is needed\n");
}

static void test_too_many_layers(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_add_str(&text, "name: j\ndata: {train: {file: x}}\nupdate: {rule: sgd}\n"
                       "model:\n  loss: mean_squared_error\n  layers:\n");
    for (int i = 0; i < 256; i++) {
        buf_add_str(&text, "    - relu\n");
    }
    struct job_spec spec = {0};
    job_parse(buf_str(&text), &spec);
    assert_int_equal(spec.model.layer_count, 256);
    assert_string_equal(spec.model.layers[255].name, "relu_256");
    job_spec_release(&spec);
    buf_add_str(&text, "    - relu\n");
    job_check_refused(
        buf_str(&text), NULL, 0,
        "job.yaml:263:7: model.layers: 257 layers; allowed: a list of 1 to 256 layers\n");
    buf_release(&text);
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
        job_line_refused(
            1, line,
            "job.yaml:1:7: name: not a job name; allowed: letters, digits, '.', '_' and "
            "'-', starting with a letter or digit, at most 63\n");
    }
    struct job_spec spec = {0};
    char *text = job_with(1, "name: 7-of.nine_A");
    job_parse(text, &spec);
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

static void test_canonical_text(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "data.dir=a: b #c", "data.label=-1",     "training.evaluate_every=2 epochs",
        "model.input=[4]",  "update.beta2=0.99",
    };
    char *text = job_with(0, NULL);
    struct job_spec spec = {0}, again = {0};
    job_parse_with(text, sets, sizeof sets / sizeof sets[0], &spec);
    job_parse(spec.text, &again);
    assert_string_equal(again.text, spec.text);
    assert_string_equal(again.data.dir, "a: b #c");
    assert_true(job_hyperparameter(&again, "beta2") == 0.99);
    assert_string_equal(again.model.layers[2].name, "dense_2");
    assert_int_equal(job_units(&again, 2), 3);
    assert_non_null(strstr(spec.text, "name: demo\npriority: 0\ndata:\n  dir: \"a: b #c\"\n"));
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
            job_parse(spec.text, &again);
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
        job_parse(buf_str(&text), &spec);
        job_parse(spec.text, &again);
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
        cmocka_unit_test(test_missing_parts),
        cmocka_unit_test(test_yaml_problems_come_through),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_labels_of_a_program),
        cmocka_unit_test(test_onnx),
        cmocka_unit_test(test_from),
        cmocka_unit_test(test_too_many_layers),
        cmocka_unit_test(test_job_names),
        cmocka_unit_test(test_all_problems_in_one_run),
        cmocka_unit_test(test_canonical_text),
        cmocka_unit_test(test_mutated_jobs),
        cmocka_unit_test(test_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
