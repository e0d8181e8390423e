/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a job file: of which type, in which range, and which of them do not go together. */
#include "job_spec_rig.h"

static void test_wrong_types(void **state)
{
    (void)state;
#define BATCH "allowed: whole number from 1 to 1048576\n"
    job_line_refused(16, "  batch_size: many",
                     "job.yaml:16:15: training.batch_size: 'many' is not a whole number; " BATCH);
    job_line_refused(16, "  batch_size: 1.5",
                     "job.yaml:16:15: training.batch_size: '1.5' is not a whole number; " BATCH);
    job_line_refused(16, "  batch_size: '32'",
                     "job.yaml:16:15: training.batch_size: \"32\" in quotes is text; " BATCH);
    job_line_refused(16, "  batch_size: [32]",
                     "job.yaml:16:15: training.batch_size: a list stands here; " BATCH);
    job_line_refused(16, "  batch_size: {a: 32}",
                     "job.yaml:16:15: training.batch_size: a section of keys stands here; " BATCH);
    job_line_refused(
        16, "  batch_size:", "job.yaml:16:14: training.batch_size: there is no value; " BATCH);
    job_line_refused(
        16, "  mode: [sync]",
        "job.yaml:16:9: training.mode: a list stands here; allowed: one of sync, async, "
        "bounded\n");
    job_line_refused(1, "name: [demo]", "job.yaml:1:7: name: a list stands here; allowed: text\n");
    job_line_refused(
        3, "  train: a.csv",
        "job.yaml:3:3: data.train.file is missing; allowed: text, or a list of texts\n"
        "job.yaml:3:10: data.train: a single value stands here; allowed: a section of keys\n");
    job_line_refused(
        4, "model:\n  input: [28, x]",
        "job.yaml:5:10: model.input: '[28, x]' is not a list of whole numbers; allowed: list "
        "of at most 8 whole numbers, each from 1 to 1048576\n");
    job_line_refused(
        4, "model:\n  input: [28, [1]]",
        "job.yaml:5:15: model.input: a list stands here; allowed: list of at most 8 whole "
        "numbers, each from 1 to 1048576\n");
    job_line_refused(
        11, "  metrics: accuracy",
        "job.yaml:11:12: model.metrics: allowed: a list of metrics, such as [accuracy]\n");
}

static void test_values_out_of_range(void **state)
{
    (void)state;
    job_line_refused(16, "  batch_size: 0",
                     "job.yaml:16:15: training.batch_size: '0' is out of range; " BATCH);
    job_line_refused(
        16, "  seed: -1",
        "job.yaml:16:9: training.seed: '-1' is out of range; allowed: whole number from 0 to "
        "9007199254740992\n");
    job_line_refused(14, "  beta1: 1",
                     "job.yaml:14:10: update.beta1: '1' is out of range; allowed: number from 0 to "
                     "0.999999\n");
    job_line_refused(
        18, "  workers: 0",
        "job.yaml:18:12: cluster.workers: '0' is out of range; allowed: whole number, or "
        "a range such "
        "as 2..8, from 1 to 1024\n");
    job_line_refused(
        18, "  workers: 4..2",
        "job.yaml:18:12: cluster.workers: '4..2' ends before it begins; allowed: whole number, or "
        "a range such as 2..8, from 1 to 1024\n");
    job_line_refused(
        9, "        units: -1",
        "job.yaml:9:16: model.layers.2.units: '-1' is out of range; allowed: whole number "
        "from 0 to 16777216\n");
    job_line_refused(16, "  mode: asinc",
                     "job.yaml:16:9: training.mode: 'asinc' is not known (did you mean 'async'?); "
                     "allowed: one of sync, async, bounded\n");
    job_line_refused(
        18, "  slice_bytes: 1",
        "job.yaml:18:16: cluster.slice_bytes: '1' is out of range; allowed: size such as 64 "
        "MiB from 4 to 1024 GiB\n");
    job_line_refused(
        16, "  evaluate_every: 0",
        "job.yaml:16:19: training.evaluate_every: '0' is out of range; allowed: interval such "
        "as 500 steps, 2 epochs or never\n");
}

static void test_what_does_not_fit_together(void **state)
{
    (void)state;
    job_line_refused(
        16, "  replicas: 1",
        "job.yaml:16:13: training.replicas: 1 replicas leave 1 of 2 workers idle; allowed: at "
        "least 2 (the most of cluster.workers), or 0 for as many\n");
    job_line_refused(
        16, "  epochs: 0",
        "job.yaml:16:11: training would never end: epochs and steps are both 0; allowed: at "
        "least one of them above 0\n");
    job_line_refused(
        16, "  mode: bounded\n  staleness: 0",
        "job.yaml:17:14: training.staleness: bounded with 0 would run in lockstep; allowed: "
        "at least 1, or 'mode: sync'\n");
    job_line_refused(
        11, "  metrics: [accuracy, calibration]",
        "job.yaml:11:23: model.metrics: 'calibration' does not fit the loss softmax_cross_entropy; "
        "allowed: loss, accuracy, auc, precision, recall, f1, top_k_accuracy, log_loss, ece, "
        "confusion_matrix\n");
    job_line_refused(
        11, "  metrics: [rmse]",
        "job.yaml:11:13: model.metrics: 'rmse' does not fit the loss softmax_cross_entropy; "
        "allowed: loss, accuracy, auc, precision, recall, f1, top_k_accuracy, log_loss, ece, "
        "confusion_matrix\n");
    job_line_refused(10, "  loss: mean_squared_error",
                     "job.yaml:11:13: model.metrics: 'accuracy' does not fit the loss "
                     "mean_squared_error; allowed: loss, rmse, mae, r2\n");
    job_line_refused(
        11, "  metrics: [acuracy]",
        "job.yaml:11:13: model.metrics: 'acuracy' is not known (did you mean 'accuracy'?); "
        "allowed: one of loss, accuracy, auc, rmse, mae, "
        "normalised_entropy, grouped_auc, precision, recall, f1, top_k_accuracy, log_loss, ece, "
        "r2, "
        "calibration, confusion_matrix\n");
    job_line_refused(
        3, "  train: {file: a.csv}\n  label_kind: real",
        "job.yaml:4:15: data.label_kind: softmax_cross_entropy needs classes; allowed: class "
        "or auto\n");
    job_line_refused(3, "  train: {file: a.csv}\n  label_scale: standard",
                     "job.yaml:4:16: data.label_scale: classes cannot be scaled; allowed: none "
                     "(softmax_cross_entropy has class labels)\n");
    job_line_refused(
        3, "  train: {file: a}\n  test: {file: b}\n  test_fraction: 0.1",
        "job.yaml:5:18: data.test_fraction: the test records come from data.test.file; "
        "allowed: only one of the two\n");
    job_line_refused(
        3, "  train: {file: a}\n  format: idx",
        "job.yaml:3:10: data.train.labels is missing; allowed: the IDX file with the labels "
        "of data.train.file\n");
    static const char *const labelled[][3] = {
        {"libsvm", "", "LIBSVM"},
        {"libffm", "\n  columns: [{column: '1', as: sparse, width: 3}]", "libFFM"},
        {"criteo", "\n  columns: [{column: label, as: label}, {column: C1, as: sparse, width: 3}]",
         "Criteo"}};
    for (size_t i = 0; i < sizeof labelled / sizeof labelled[0]; i++) {
        char *data = mem_printf("  train: {file: a}\n  test: {file: b, labels: c}\n  format: %s%s",
                                labelled[i][0], labelled[i][1]);
        char *problem =
            mem_printf("job.yaml:4:27: data.test.labels: a %s file has its labels at the "
                       "beginning of lines; allowed: no file\n",
                       labelled[i][2]);
        job_line_refused(3, data, problem);
        free(data);
        free(problem);
    }
    job_line_refused(
        3, "  train: {file: a}\n  separator: ab",
        "job.yaml:4:14: data.separator: not a separator; allowed: one character, tab or "
        "space\n");
    job_line_refused(4, "model:\n  input: [1, 2, 3, 4]",
                     "job.yaml:5:10: model.input: 4 dimensions; allowed: 1 to 3\n");
    /* A wrong loss says nothing about the metrics. */
    job_line_refused(10, "  loss: mse",
                     "job.yaml:10:9: model.loss: 'mse' is not known; allowed: one of "
                     "softmax_cross_entropy, sigmoid_cross_entropy, mean_squared_error, auto\n");
}

/* The job with all of @sets (NULL-terminated) is refused. */
static void sets_refused(const char *const *sets, const char *problems)
{
    size_t count = 0;
    while (sets[count] != NULL) {
        count++;
    }
    char *text = job_with(0, NULL);
    job_check_refused(text, sets, count, problems);
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
    job_parse_with(text, sets, count, &spec);
    job_spec_release(&spec);
    free(text);
}

static void test_replicas_and_workers(void **state)
{
    (void)state;
    struct job_spec spec = {0}, again = {0};
    char *text = job_with(18, "  workers: 2..8");
    job_parse(text, &spec);
    assert_int_equal(spec.cluster.workers.min, 2);
    assert_int_equal(spec.cluster.workers.max, 8);
    assert_int_equal(job_spec_replicas(&spec), 8);
    assert_non_null(strstr(spec.text, "  workers: 2..8\n"));
    job_parse(spec.text, &again);
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

static void test_standby(void **state)
{
    (void)state;
    sets_refused(SETS("cluster.standby=follower", "cluster.ps=1"),
                 "--set cluster.standby=follower: cluster.standby: a shard and its copy are on two "
                 "servers, and cluster.ps is 1; allowed: at least 'ps: 2'\n");
    sets_taken(SETS("cluster.standby=follower", "cluster.ps=2", "training.mode=async",
                    "training.staleness_policy=delay_compensation"));
    sets_taken(SETS("cluster.standby=follower", "cluster.ps=2", "training.mode=bounded",
                    "update.rule=dc_asgd"));
    sets_taken(SETS("cluster.standby=follower", "cluster.ps=2", "update.rule=dc_asgd",
                    "training.staleness_policy=delay_compensation"));
    sets_taken(SETS("cluster.standby=none", "cluster.ps=1"));
}

static void test_tensorboard(void **state)
{
    (void)state;
    char directory[1002], set[1100], problem[1200];
    sets_refused(
        SETS("training.tensorboard=s3://bucket/x"),
        "--set training.tensorboard=s3://bucket/x: training.tensorboard: 's3://bucket/x' is "
        "no directory; allowed: a path on the master's host, as event files are appended "
        "to\n");
    job_line_refused(16, "  tensorboard: \"a\\tb\"",
                     "job.yaml:16:16: training.tensorboard: a control character in the path\n");
    memset(directory, 'd', sizeof directory - 1);
    directory[sizeof directory - 1] = '\0';
    (void)snprintf(set, sizeof set, "  tensorboard: %s", directory);
    (void)snprintf(problem, sizeof problem,
                   "job.yaml:16:16: training.tensorboard: 1001 bytes; allowed: at most 1000\n");
    job_line_refused(16, set, problem);
    directory[1000] = '\0';
    (void)snprintf(set, sizeof set, "training.tensorboard=%s", directory);
    sets_taken(SETS(set));
    sets_taken(SETS("training.tensorboard=boards/of this job"));
    sets_taken(SETS("training.tensorboard="));
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
        {"staleness_policy=scale", "'scale' is not known (did you mean 'scale_lr'?); allowed: one "
                                   "of none, max_staleness, scale_lr, "
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
        job_set_refused(set, problem);
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
    job_parse_with(text, sets, 10, &spec);
    job_parse(spec.text, &again);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_values_out_of_range),
        cmocka_unit_test(test_what_does_not_fit_together),
        cmocka_unit_test(test_replicas_and_workers),
        cmocka_unit_test(test_standby),
        cmocka_unit_test(test_tensorboard),
        cmocka_unit_test(test_async_keys),
        cmocka_unit_test(test_new_keys_are_checked_one_by_one),
        cmocka_unit_test(test_new_keys_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
