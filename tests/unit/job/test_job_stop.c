/* SPDX-License-Identifier: Apache-2.0 */
/* training.stop in a job file, and what it needs beside it. */
#include "job_spec_rig.h"

#define TEST "data.test.file=b.csv"

static void assert_refused(const char *const *sets, size_t count, const char *says)
{
    char *text = job_with(0, NULL);
    job_check_refused(text, sets, count, says);
    free(text);
}

#define REFUSED(says, ...)                                                                         \
    assert_refused((const char *const[]){__VA_ARGS__},                                             \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), says)

static void the_keys_are_read(void **state)
{
    (void)state;
    char *text = job_with(3, "  train: {file: a.csv}\n  test: {file: b.csv}");
    const char *sets[] = {
        "training.stop={metric: loss, patience: 5, min_delta: 0.5, restore_best: true}",
        "training.checkpoints_keep.best=loss"};
    struct job_spec spec = {0};
    job_parse_with(text, sets, 2, &spec);
    assert_int_equal(spec.training.stop_metric, METRIC_LOSS + 1);
    assert_int_equal(spec.training.stop_patience, 5);
    assert_true(spec.training.stop_min_delta == 0.5);
    assert_true(spec.training.stop_restore_best && spec.training.keep_best == METRIC_LOSS + 1);
    struct job_spec again = {0}; /* the canonical text says the same */
    job_parse(spec.text, &again);
    assert_string_equal(again.text, spec.text);
    job_spec_release(&again);
    job_spec_release(&spec);
    free(text);
}

static void it_needs_what_is_measured(void **state)
{
    (void)state;
    REFUSED("--set training.stop.metric=auc: training.stop.metric: auc is not measured; allowed: "
            "loss, accuracy, or what is added to model.metrics\n",
            TEST, "training.stop.metric=auc");
    REFUSED(
        "--set training.stop.metric=loss: training.stop.metric: it is measured on test records, "
        "and the job has none; allowed: together with data.test or data.test_fraction\n",
        "training.stop.metric=loss");
    REFUSED(
        "--set training.stop.metric=loss: training.stop.metric: nothing is evaluated before the "
        "end; allowed: together with another training.evaluate_every than never\n",
        TEST, "training.stop.metric=loss", "training.evaluate_every=never");
    REFUSED(
        "--set training.stop.metric=speed: training.stop.metric: 'speed' is not known; allowed: "
        "one of none, loss, accuracy, auc, rmse, mae, normalised_entropy, grouped_auc, "
        "precision, recall, f1, top_k_accuracy, log_loss, ece, r2\n",
        TEST, "training.stop.metric=speed");
}

static void a_metric_says_what_is_better(void **state)
{
    (void)state;
    REFUSED("--set training.stop.patience=2: training.stop.patience: nothing says which evaluation "
            "is better; allowed: together with training.stop.metric\n",
            TEST, "training.stop.patience=2");
}

/* Checks what is kept by the file's line @line and @sets. */
static void assert_kept(const char *line, const char *const *sets, size_t count, int64_t last,
                        int best)
{
    char *text = job_with(16, line);
    struct job_spec spec = {0}, again = {0};
    job_parse_with(text, sets, count, &spec);
    assert_int_equal(spec.training.keep_last, last);
    assert_int_equal(spec.training.keep_best, best);
    job_parse(spec.text, &again); /* the canonical text says the same */
    assert_string_equal(again.text, spec.text);
    job_spec_release(&again);
    job_spec_release(&spec);
    free(text);
}

static void a_number_alone_is_how_many_of_the_newest_are_kept(void **state)
{
    (void)state;
    const char *const none[] = {TEST};
    const char *const number[] = {TEST, "training.checkpoints_keep=7"};
    const char *const best[] = {TEST, "training.checkpoints_keep.best=accuracy"};
    const char *const both[] = {TEST, "training.checkpoints_keep={last: 1, best: loss}"};
    const char *const old[] = {TEST, "training.checkpoints_keep_best=false"};
    assert_kept("  batch_size: 32", none, 1, 3, 0);
    assert_kept("  checkpoints_keep: 5", none, 1, 5, 0);
    assert_kept("  checkpoints_keep: {last: 5}", none, 1, 5, 0);
    assert_kept("  checkpoints_keep: {best: loss}", none, 1, 3, METRIC_LOSS + 1);
    assert_kept("  checkpoints_keep: {last: 5, best: loss}", number, 2, 7, 0);
    assert_kept("  checkpoints_keep: 5", best, 2, 5, METRIC_ACCURACY + 1);
    assert_kept("  batch_size: 32", best, 2, 3, METRIC_ACCURACY + 1);
    assert_kept("  checkpoints_keep: 5", both, 2, 1, METRIC_LOSS + 1);
    assert_kept("  checkpoints_keep: 5", old, 2, 5, 0);
}

static void what_is_kept_is_checked(void **state)
{
    (void)state;
    job_line_refused(16, "  checkpoints_keep: many",
                     "job.yaml:16:21: training.checkpoints_keep.last: 'many' is not a whole "
                     "number; allowed: whole number from 0 to 1000000\n");
    job_line_refused(16, "  checkpoints_keep: [3]",
                     "job.yaml:16:21: training.checkpoints_keep: a list stands here; allowed: a "
                     "section of keys\n");
    job_line_refused(16, "  checkpoints_keep: {first: 3}",
                     "job.yaml:16:22: unknown key 'first' in training.checkpoints_keep; allowed: "
                     "last, best\n");
    job_line_refused(16, "  checkpoints_keep_best: true",
                     "job.yaml:16:3: training.checkpoints_keep_best is now a part of "
                     "training.checkpoints_keep; write checkpoints_keep: {best: METRIC}, where "
                     "METRIC is loss or one of model.metrics\n");
    REFUSED("--set training.checkpoints_keep.best=auc: training.checkpoints_keep.best: auc is not "
            "measured; allowed: loss, accuracy, or what is added to model.metrics\n",
            TEST, "training.checkpoints_keep.best=auc");
    REFUSED("--set training.checkpoints_keep.best=loss: training.checkpoints_keep.best: it is "
            "measured on test records, and the job has none; allowed: together with data.test or "
            "data.test_fraction\n",
            "training.checkpoints_keep.best=loss");
    REFUSED("--set training.checkpoints_keep.best=loss: training.checkpoints_keep.best: nothing is "
            "evaluated before the end; allowed: together with another training.evaluate_every than "
            "never\n",
            TEST, "training.checkpoints_keep.best=loss", "training.evaluate_every=never");
    REFUSED("--set training.checkpoints_keep.best=loss: training.checkpoints_keep.best: loss, but "
            "training.stop.metric is accuracy; allowed: the same metric, or one of the two keys\n",
            TEST, "training.checkpoints_keep.best=loss", "training.stop.metric=accuracy");
}

static void a_part_of_the_train_records_will_do(void **state)
{
    (void)state;
    char *text = job_with(0, NULL);
    const char *sets[] = {"training.stop.metric=accuracy", "data.test_fraction=0.2"};
    struct job_spec spec = {0};
    job_parse_with(text, sets, 2, &spec);
    assert_int_equal(spec.training.stop_metric, METRIC_ACCURACY + 1);
    assert_int_equal(spec.training.stop_patience, 3);
    job_spec_release(&spec);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keys_are_read),
        cmocka_unit_test(it_needs_what_is_measured),
        cmocka_unit_test(a_metric_says_what_is_better),
        cmocka_unit_test(a_number_alone_is_how_many_of_the_newest_are_kept),
        cmocka_unit_test(what_is_kept_is_checked),
        cmocka_unit_test(a_part_of_the_train_records_will_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
