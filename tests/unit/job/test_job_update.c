/* SPDX-License-Identifier: Apache-2.0 */
/* The update section of a job file. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_internal.h"
#include "rule/plugin/plugin.h"

#define HEAD                                                                                       \
    "name: j\ndata: {train: {file: x}}\nmodel: {layers: [dense: {units: 2}], loss: "               \
    "mean_squared_error}\n"

/* A job with @update and what follows it, from line 4 on. */
static int parse(const char *update, const char *const *sets, size_t set_count,
                 struct job_spec *spec, struct buf *problems)
{
    char *text = mem_printf(HEAD "%s", update);
    struct diags d = {0};
    *spec = (struct job_spec){0};
    int rc = job_spec_parse(text, strlen(text), "job", sets, set_count, spec, &d);
    buf_reset(problems);
    diags_format(&d, problems);
    diags_release(&d);
    free(text);
    return rc;
}

static void accepted(const char *update, struct job_spec *spec)
{
    struct buf problems = {0};
    if (parse(update, NULL, 0, spec, &problems) != 0) {
        fail_msg("%s", buf_str(&problems));
    }
    /* What it becomes reads back as the same. */
    struct job_spec again = {0};
    struct diags d = {0};
    assert_int_equal(job_spec_parse(spec->text, strlen(spec->text), "job", NULL, 0, &again, &d), 0);
    assert_string_equal(again.text, spec->text);
    job_spec_release(&again);
    buf_release(&problems);
}

static void refused(const char *update, const char *expected)
{
    struct job_spec spec;
    struct buf problems = {0};
    int rc = parse(update, NULL, 0, &spec, &problems);
    if (rc == 0 || strcmp(buf_str(&problems), expected) != 0) {
        fail_msg("%s\n--- is\n%s--- not\n%s", update, buf_str(&problems), expected);
    }
    job_spec_release(&spec);
    buf_release(&problems);
}

static double number(const void *object, const struct field *field)
{
    double value;
    memcpy(&value, (const char *)object + field->offset, sizeof value);
    return value;
}

static void test_defaults(void **state)
{
    (void)state;
    struct job_spec spec;
    accepted("update: {rule: sgd}\n", &spec);
    const struct update_spec *u = &spec.update;
    assert_true(u->l1 == 0 && u->l2 == 0 && u->ridge == 0 && u->weight_decay == 0 &&
                u->average == 0);
    assert_true(u->clip_value == 0 && u->clip_norm == 0 && u->clip_global_norm == 0);
    assert_int_equal(u->accumulate, 1);
    assert_int_equal(u->non_finite, UPDATE_NON_FINITE_FAIL);
    assert_false(u->evaluate_average);
    assert_int_equal(u->schedule_count, 0);
    assert_int_equal(u->pattern_count, 0);
    assert_non_null(strstr(spec.text, "update:\n  rule: sgd\n  learning_rate: 0.01\n  l1: 0\n"));
    job_spec_release(&spec);
}

static void test_everything(void **state)
{
    (void)state;
    struct job_spec spec;
    accepted("update:\n"
             "  rule: adam\n"
             "  schedule: {kind: cosine, length: 1000, warmup: 100}\n"
             "  schedules:\n"
             "    beta1: {kind: piecewise, at: [10, 20], factors: [1, 0.5, 0.25]}\n"
             "  l1: 0.1\n  l2: 0.2\n  ridge: 5\n  weight_decay: 0.3\n"
             "  clip_value: 1\n  clip_norm: 2\n  clip_global_norm: 3\n"
             "  accumulate: 4\n  average: 0.99\n  evaluate_average: true\n  non_finite: skip\n"
             "  variables:\n"
             "    - {match: \"*bias*\", learning_rate: 0.5, weight_decay: 0, ridge: 2}\n"
             "    - match: dense_1.*\n      frozen: true\n",
             &spec);
    const struct update_spec *u = &spec.update;
    assert_true(u->l1 == 0.1 && u->l2 == 0.2 && u->weight_decay == 0.3 && u->average == 0.99);
    assert_true(u->clip_value == 1 && u->clip_norm == 2 && u->clip_global_norm == 3);
    assert_int_equal(u->accumulate, 4);
    assert_true(u->evaluate_average);
    assert_int_equal(u->non_finite, UPDATE_NON_FINITE_SKIP);
    assert_int_equal(u->schedule_count, 2);
    assert_string_equal(u->schedules[0].field->path, "beta1");
    assert_int_equal(u->schedules[0].schedule.value_count, 3);
    assert_string_equal(u->schedules[1].field->path, "learning_rate");
    assert_int_equal(u->schedules[1].schedule.kind, SCHEDULE_COSINE);
    assert_int_equal(u->schedules[1].schedule.warmup, 100);
    assert_int_equal(u->pattern_count, 2);
    assert_string_equal(u->patterns[0].match, "*bias*");
    assert_true(u->patterns[0].learning_rate == 0.5 && u->patterns[0].weight_decay == 0);
    assert_true(u->patterns[0].l1 == 0.1 && u->patterns[0].l2 == 0.2); /* the job's */
    assert_true(u->ridge == 5 && u->patterns[0].ridge == 2 && u->patterns[1].ridge == 5);
    assert_true(u->patterns[1].frozen && u->patterns[1].weight_decay == 0.3);
    job_spec_release(&spec);
}

/* Where the rule has a hyperparameter of the name, that is what the key means. */
static void test_the_rules_own(void **state)
{
    (void)state;
    struct job_spec spec;
    accepted("update: {rule: adamw, weight_decay: 0.5, variables: [{match: a}, {match: b, "
             "weight_decay: 0.25}]}\n",
             &spec);
    const struct update_spec *u = &spec.update;
    assert_true(u->weight_decay == 0);
    assert_true(number(u->params, update_spec_field(u, "weight_decay", FIELD_FLOAT)) == 0.5);
    assert_true(u->patterns[0].weight_decay == 0.5 && u->patterns[1].weight_decay == 0.25);
    char *second = strstr(strstr(spec.text, "\n  weight_decay: 0.5\n") + 1, "\n  weight_decay:");
    assert_null(second);
    job_spec_release(&spec);
}

static void test_sets(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "update.schedule.kind=cosine",      "update.schedule.length=7",
        "update.schedules.beta2.kind=step", "update.variables.1.learning_rate=3",
        "update.variables.0={match: c}",    "update.average=0.5",
        "update.schedules.beta2.every=5",   "update.clip_global_norm=1e3",
    };
    struct job_spec spec;
    struct buf problems = {0};
    int rc = parse("update: {rule: adam, variables: [{match: a}, {match: b}]}\n", sets,
                   sizeof sets / sizeof sets[0], &spec, &problems);
    if (rc != 0) {
        fail_msg("%s", buf_str(&problems));
    }
    assert_int_equal(spec.update.schedule_count, 2);
    assert_int_equal(spec.update.schedules[0].schedule.every, 5);
    assert_int_equal(spec.update.schedules[1].schedule.length, 7);
    assert_string_equal(spec.update.patterns[0].match, "c");
    assert_true(spec.update.patterns[1].learning_rate == 3);
    assert_true(spec.update.average == 0.5 && spec.update.clip_global_norm == 1000);
    job_spec_release(&spec);

    static const struct {
        const char *set, *problem;
    } bad[] = {
        {"update.variables.2.frozen=true",
         "'2' is not the number of an item of the list; it has 2"},
        {"update.variables.a=x", "'a' is not the number of an item of the list; it has 2"},
        {"update.variables.0.match.x=1", "'match' is not a section of keys"},
        {"update.schedule.knd=cosine",
         "unknown key 'knd' in update.schedule; did you mean 'kind'?"},
        {"update.schedule.kind=cosin",
         "update.schedule.kind: 'cosin' is not known (did you mean 'cosine'?); allowed: one of "
         "constant, step, multi_step, exponential, inverse_time, polynomial, cosine, "
         "cosine_restarts, one_cycle, noam, piecewise"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *expected = mem_printf("--set %s: %s\n", bad[i].set, bad[i].problem);
        rc = parse("update: {rule: adam, variables: [{match: a}, {match: b}]}\n", &bad[i].set, 1,
                   &spec, &problems);
        assert_int_equal(rc, ERR_INVALID);
        assert_string_equal(buf_str(&problems), expected);
        free(expected);
    }
    buf_release(&problems);
}

static void test_wrong_keys(void **state)
{
    (void)state;
    refused("update: {rule: adam, acumulate: 2}\n",
            "job:4:22: unknown key 'acumulate' in update; did you mean 'accumulate'?\n");
    refused("update: {rule: adam, accumulate: 0}\n",
            "job:4:34: update.accumulate: '0' is out of range; allowed: whole number from 1 to "
            "1000000\n");
    refused(
        "update: {rule: adam, average: 1}\n",
        "job:4:31: update.average: '1' is out of range; allowed: number from 0 to 0.999999999\n");
    refused(
        "update: {rule: adam, clip_norm: -1}\n",
        "job:4:33: update.clip_norm: '-1' is out of range; allowed: number from 0 to 1.0e+30\n");
    refused("update: {rule: adam, non_finite: crash}\n",
            "job:4:34: update.non_finite: 'crash' is not known; allowed: one of fail, skip, "
            "apply\n");
    refused("update: {rule: adam, evaluate_average: true}\n",
            "job:4:40: update.evaluate_average: there is no moving average; allowed: together with "
            "update.average\n");
    refused("update: {rule: sum, weight_decay: 0.1}\n",
            "job:4:35: update.weight_decay: sum has no learning_rate to multiply it with; allowed: "
            "0\n");
}

static void test_wrong_schedules(void **state)
{
    (void)state;
    refused("update: {rule: adam, schedule: cosine}\n",
            "job:4:32: update.schedule: a single value stands here; allowed: a section of keys\n");
    refused("update: {rule: adam, schedule: {kind: piecewise, at: [1, 2], factors: \"1\"}}\n",
            "job:4:71: update.schedule.factors: 1 factors for 2 numbers in `at`; allowed: 3\n");
    refused("update:\n  rule: adam\n  schedule: {kind: multi_step, at: [5, 3]}\n",
            "job:6:36: update.schedule.at: the numbers must rise\n");
    refused("update:\n  rule: adam\n  schedules: {beta3: {kind: step}}\n",
            "job:6:15: unknown key 'beta3' in update.schedules; did you mean 'beta1'?\n");
    refused("update:\n  rule: sgd\n  schedules: {x: {kind: step}}\n",
            "job:6:15: unknown key 'x' in update.schedules; allowed: learning_rate\n");
    refused("update: {rule: adam, schedules: 3}\n",
            "job:4:33: update.schedules: a single value stands here; allowed: a section of keys\n");
    refused("update: {rule: adam, schedule: {kind: step}, schedules: {learning_rate: {}}}\n",
            "job:4:32: update.schedule: update.schedules has one of learning_rate, too; allowed: "
            "only one of the two\n");
    refused("update: {rule: sum, schedule: {kind: step}}\n",
            "job:4:31: update.schedule: sum has no learning_rate; allowed: none, or "
            "update.schedules of another hyperparameter\n");
}

static void test_wrong_variables(void **state)
{
    (void)state;
    refused("update: {rule: adam, variables: {match: a}}\n",
            "job:4:33: update.variables: this is not a list of patterns; allowed: a list of up to "
            "256 sections with the key match\n");
    refused("update: {rule: adam, variables: [a]}\n",
            "job:4:34: update.variables.0: a single value stands here; allowed: a section of "
            "keys\n");
    refused("update:\n  rule: adam\n  variables:\n    - {match: a}\n    - {frozen: true}\n",
            "job:8:7: update.variables.1.match is missing; allowed: text\n");
    refused("update:\n  rule: adam\n  variables:\n    - {match: a, lerning_rate: 3}\n",
            "job:7:18: unknown key 'lerning_rate' in update.variables.0; did you mean "
            "'learning_rate'?\n");
    refused("update:\n  rule: adam\n  variables:\n    - {match: \"\"}\n",
            "job:7:15: update.variables.0.match: not a pattern; allowed: 1 to 255 characters\n");
    refused("update:\n  rule: sum\n  variables:\n    - {match: a, learning_rate: 2}\n",
            "job:7:33: update.variables.0.learning_rate: sum has no learning_rate; allowed: 1\n");
    refused("update:\n  rule: adam\n  variables:\n    - {match: a, l1: -1}\n",
            "job:7:22: update.variables.0.l1: '-1' is out of range; allowed: number from 0 to "
            "1000000\n");
}

/* Whether @key is among what is wrong. */
static void refused_for(const char *update, const char *problem)
{
    struct job_spec spec;
    struct buf problems = {0};
    int rc = parse(update, NULL, 0, &spec, &problems);
    if (rc == 0 || strstr(buf_str(&problems), problem) == NULL) {
        fail_msg("%s\n--- is\n%s--- without\n%s", update, buf_str(&problems), problem);
    }
    job_spec_release(&spec);
    buf_release(&problems);
}

static void test_async_combinations(void **state)
{
    (void)state;
    struct job_spec spec;
    refused_for("update: {rule: lamb}\ntraining: {mode: async}\ncluster: {ps: 2, "
                "partitioner: fixed, partitions: 2}\n",
                "job:6:50: cluster.partitions: lamb needs sums over whole variables, which only "
                "'mode: sync' takes from several parameter servers; allowed: 'partitioner: "
                "balanced', 'fixed' with 1 partition, or 'ps: 1'\n");
    refused_for("update: {rule: lamb}\ntraining: {mode: async}\ncluster: {ps: 2, partitioner: "
                "max_slice_bytes}\n",
                "job:6:31: cluster.partitioner: lamb needs sums over whole variables");
    refused("update: {rule: adam, accumulate: 2, clip_norm: 1}\ntraining: {mode: async}\ncluster: "
            "{ps: 2}\n",
            "job:4:34: update.accumulate: several parameter servers that are not in step cannot "
            "know the norm of accumulated pushes, which update.clip_norm wants; allowed: 1, 'mode: "
            "sync' or 'ps: 1'\n");
    refused("update: {rule: adam, clip_global_norm: 1}\n"
            "training: {mode: async, staleness_policy: delay_compensation}\ncluster: {ps: 2}\n",
            "job:5:43: training.staleness_policy: delay_compensation changes gradients after their "
            "norms were taken, which update.clip_global_norm wants; allowed: another policy, "
            "'mode: sync' or 'ps: 1'\n");
    refused("update: {rule: adam, non_finite: skip}\n"
            "training: {mode: bounded, staleness_policy: delay_compensation}\ncluster: {ps: 2}\n",
            "job:5:45: training.staleness_policy: delay_compensation changes gradients after their "
            "norms were taken, which update.non_finite wants; allowed: another policy, 'mode: "
            "sync' or 'ps: 1'\n");
    refused_for("update: {rule: dc_asgd, accumulate: 2}\ntraining: {mode: async}\n",
                "job:4:37: update.accumulate: dc_asgd corrects each push by what its worker read; "
                "allowed: 1, or 'mode: sync'\n");
    refused_for("update: {rule: dc_asgd}\n"
                "training: {mode: async, staleness_policy: delay_compensation}\n",
                "training.staleness_policy: dc_asgd compensates delay by itself; allowed: another "
                "policy\n");
    /* One server knows all; and in sync mode the servers ask each other. */
    accepted("update: {rule: adam, accumulate: 2, clip_norm: 1}\ntraining: {mode: async, "
             "staleness_policy: delay_compensation}\n",
             &spec);
    job_spec_release(&spec);
    accepted("update: {rule: adam, accumulate: 2, clip_norm: 1}\ncluster: {ps: 3}\n", &spec);
    job_spec_release(&spec);
}

/* No plug-in may have a hyperparameter that would be read as one of these. */
static void test_keys_of_plugins(void **state)
{
    (void)state;
    for (size_t i = 0; i < job_update_field_count; i++) {
        assert_true(plugin_key_is_taken(job_update_fields[i].path));
    }
    static const char *const others[] = {"rule", "schedule", "schedules", "variables"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_true(plugin_key_is_taken(others[i]));
    }
    assert_false(plugin_key_is_taken("learning_rate"));
    assert_false(plugin_key_is_taken("weight_decay")); /* a rule may have its own */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_the_rules_own),   cmocka_unit_test(test_sets),
        cmocka_unit_test(test_wrong_keys),      cmocka_unit_test(test_wrong_schedules),
        cmocka_unit_test(test_wrong_variables), cmocka_unit_test(test_async_combinations),
        cmocka_unit_test(test_keys_of_plugins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
