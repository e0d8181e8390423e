/* SPDX-License-Identifier: Apache-2.0 */
/* Settings such as training.epochs=5, over what the job file says. */
#include "job_spec_rig.h"

static void test_what_is_fixed(void **state)
{
    (void)state;
    static const char *const free_keys[] = {
        "training.mode",
        "training.replicas",
        "training.epochs",
        "training.overlap",
        "training.push_every",
        "training.staleness_policy",
        "training.evaluate_every",
        "training.checkpoints_keep",
        "training.checkpoints_keep.best",
        "cluster.workers",
        "priority",
        "update.learning_rate",
        "update.variables",
        "training.no_such_key" /* the parser says so better */,
    };
    for (size_t i = 0; i < sizeof free_keys / sizeof free_keys[0]; i++) {
        assert_null(job_spec_fixed(free_keys[i]));
    }
    static const char *const fixed[] = {
        "name",
        "data.dir",
        "model.layers.0.units",
        "update",
        "update.rule",
        "update.accumulate",
        "cluster.ps",
        "cluster",
        "training",
        "training.batch_size",
        "training.drop_last",
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

/* A file that sets a part of its records aside is used with test records of their own. */
static void test_named_test_records_count_more_than_a_part(void **state)
{
    (void)state;
    static const char text[] = "name: j\n"
                               "data: {train: {file: a.csv}, test_fraction: 0.2}\n"
                               "model: {layers: [dense: {units: 2}], loss: mean_squared_error}\n"
                               "update: {rule: sgd}\n";
    static const char *const named[] = {"data.test.file=b.csv"};
    static const char *const both[] = {"data.test_fraction=0.1", "data.test.file=b.csv"};
    static const char *const none[] = {"data.test.file="};
    struct diags d = {0};
    struct job_spec spec = {0};
    assert_int_equal(job_spec_parse(text, strlen(text), "j", named, 1, &spec, &d), 0);
    assert_true(spec.data.test_fraction == 0);
    job_spec_release(&spec);
    assert_int_equal(job_spec_parse(text, strlen(text), "j", none, 1, &spec, &d), 0);
    assert_true(spec.data.test_fraction == 0.2);
    job_spec_release(&spec);
    assert_int_equal(job_spec_parse(text, strlen(text), "j", both, 2, &spec, &d), ERR_INVALID);
    assert_non_null(strstr(d.items[0].message, "only one of the two"));
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
    job_parse_with(text, sets, sizeof sets / sizeof sets[0], &spec);
    assert_string_equal(spec.name, "other");
    assert_string_equal(spec.data.dir, "/data/with space: and colon");
    assert_string_equal(spec.data.label, "");
    assert_true(job_hyperparameter(&spec, "learning_rate") == 0.5);
    assert_int_equal(spec.training.mode, TRAINING_ASYNC);
    assert_int_equal(spec.cluster.ps, 3);
    assert_int_equal(job_units(&spec, 0), 64);
    assert_int_equal(job_units(&spec, 2), 5);
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
    job_parse_with(text, sets, 2, &spec);
    assert_string_equal(layer_kind_name(spec.model.layers[1].kind), "tanh");
    assert_int_equal(spec.training.epochs, 2);
    assert_int_equal(spec.training.batch_size, 64);
    job_spec_release(&spec);
    free(text);
}

static void test_wrong_sets(void **state)
{
    (void)state;
    job_set_refused("update.foo=1",
                    "--set update.foo=1: unknown key 'foo' in update; allowed: " ADAM_KEYS "\n");
    static const char *const elsewhere[][2] = {
        {"learning_rate", "learning_rate'; did you mean 'update.learning_rate'?"},
        {"training.learning_rate",
         "learning_rate' in training; did you mean 'update.learning_rate'?"},
        {"update.lr", "lr' in update; did you mean 'update.learning_rate'?"},
        {"epochs", "epochs'; did you mean 'training.epochs'?"},
        {"training.workers", "workers' in training; did you mean 'cluster.workers'?"},
        {"layers", "layers'; did you mean 'model.layers'?"},
    };
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        char set[64], expected[160];
        (void)snprintf(set, sizeof set, "%s=1", elsewhere[i][0]);
        (void)snprintf(expected, sizeof expected, "--set %s: unknown key '%s\n", set,
                       elsewhere[i][1]);
        job_set_refused(set, expected);
    }
    job_set_refused("trainig.epochs=1",
                    "--set trainig.epochs=1: unknown key 'trainig'; did you mean 'training'?\n");
    job_set_refused(
        "training.epochs=x",
        "--set training.epochs=x: training.epochs: 'x' is not a whole number; allowed: whole "
        "number from 0 to 1000000\n");
    job_set_refused(
        "training.epochs=",
        "--set training.epochs=: training.epochs: '' is not a whole number; allowed: whole "
        "number from 0 to 1000000\n");
    job_set_refused(
        "training.epochs=0",
        "--set training.epochs=0: training would never end: epochs and steps are both 0; "
        "allowed: at least one of them above 0\n");
    job_set_refused(
        "training.replicas=1",
        "--set training.replicas=1: training.replicas: 1 replicas leave 1 of 2 workers idle; "
        "allowed: at least 2 (the most of cluster.workers), or 0 for as many\n");
    job_set_refused("training.batch_size.x=1",
                    "--set training.batch_size.x=1: 'batch_size' is not a section of keys\n");
#define KEY_VALUE "key=value is expected, such as training.epochs=5\n"
    job_set_refused("training", "--set training: there is no '='; " KEY_VALUE);
    job_set_refused("data.dir", "--set data.dir: there is no '='; " KEY_VALUE);
    job_set_refused("", "--set : there is no '='; " KEY_VALUE);
    job_set_refused("=1", "--set =1: this is not a key; " KEY_VALUE);
    job_set_refused("a..b=1", "--set a..b=1: this is not a key; " KEY_VALUE);
    job_set_refused(
        "model.layers.9.units=1",
        "--set model.layers.9.units=1: there is no layer '9'; allowed: a number from 0 to 2, "
        "or a layer's name\n");
    job_set_refused(
        "model.layers.out.units=1",
        "--set model.layers.out.units=1: there is no layer 'out'; allowed: a number from 0 "
        "to 2, or a layer's name\n");
    job_set_refused("model.layers.0.units.x=1",
                    "--set model.layers.0.units.x=1: '0' has no parameters to set\n");
    job_set_refused("model.layers.1.probability=1",
                    "--set model.layers.1.probability=1: unknown key "
                    "'probability' in model.layers.1; allowed: name, from\n");
    job_set_refused("model.input=[1,",
                    "--set model.input=[1,: while parsing a flow node: did not find expected node "
                    "content\n");
    job_set_refused("update.rule=sdg",
                    "--set update.rule=sdg: update.rule: 'sdg' is not known (did you mean 'sgd'?); "
                    "allowed: one of " RULE_NAMES "\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_fixed),
        cmocka_unit_test(test_named_test_records_count_more_than_a_part),
        cmocka_unit_test(test_sets_change_any_key),
        cmocka_unit_test(test_sets_replace_layers_and_sections),
        cmocka_unit_test(test_wrong_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
