/* SPDX-License-Identifier: Apache-2.0 */
/* model.tables of a job file: what is read, what is written back, and what is refused where. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/model.h"
#include "job/spec/job_internal.h"

/* Line 5 is that of @tables. */
static int parse(const char *tables, const char *update, struct job_spec *spec,
                 struct buf *problems)
{
    char *text = mem_printf("name: j\n"
                            "data:\n  train: {file: x}\n"
                            "model:\n  tables: %s\n  layers: [dense: {units: 2}]\n"
                            "  loss: mean_squared_error\n"
                            "update: {%s}\n",
                            tables, update);
    struct diags d = {0};
    *spec = (struct job_spec){0};
    int rc = job_spec_parse(text, strlen(text), "job", NULL, 0, spec, &d);
    buf_reset(problems);
    diags_format(&d, problems);
    diags_release(&d);
    free(text);
    return rc;
}

static void refused(const char *tables, const char *update, const char *says)
{
    struct job_spec spec;
    struct buf problems = {0};
    int rc = parse(tables, update, &spec, &problems);
    if (rc == 0 || strstr(buf_str(&problems), says) == NULL) {
        fail_msg("%s\n--- is\n%s--- without\n%s", tables, buf_str(&problems), says);
    }
    job_spec_release(&spec);
    buf_release(&problems);
}

static void test_every_key(void **state)
{
    (void)state;
    struct job_spec spec, again;
    struct buf problems = {0};
    static const char tables[] =
        "[{name: ads, dim: 16},"
        " {name: users-2, dim: 65536, init: normal, init_mean: 1, init_spread: 0.5, catch_up: true,"
        " memory_bytes: 2 GiB, copies_bytes: 3 MiB, rows_max: 123456789012, admission: bloom,"
        " sightings: 255, admission_bytes: 1 MiB, clip_norm: 2.5, evict: {unseen: 9, every: 10, "
        "least: frequent},"
        " on_full: evict}]";
    if (parse(tables, "rule: adam", &spec, &problems) != 0) {
        fail_msg("%s", buf_str(&problems));
    }
    assert_int_equal(spec.model.table_count, 2);
    const struct model_table *t = spec.model.tables;
    assert_string_equal(t[0].name, "ads");
    assert_true(t[0].dim == 16 && t[0].admission == ADMIT_ALL && !t[0].catch_up);
    assert_true(t[0].memory_bytes == 256 << 20 && t[0].on_full == FULL_REFUSE);
    assert_string_equal(t[1].name, "users-2");
    assert_true(t[1].dim == 65536 && t[1].init == INIT_NORMAL && t[1].catch_up);
    assert_true(t[1].memory_bytes == INT64_C(2) << 30 && t[1].copies_bytes == 3 << 20);
    assert_true(t[1].rows_max == 123456789012 && t[1].admission == ADMIT_BLOOM);
    assert_true(t[1].sightings == 255 && t[1].admission_bytes == 1 << 20);
    assert_true(t[0].clip_norm == 0 && t[1].clip_norm == 2.5);
    assert_true(t[1].evict_unseen == 9 && t[1].evict_every == 10);
    assert_true(t[1].evict_least == EVICT_LEAST_FREQUENT && t[1].on_full == FULL_EVICT);
    /* The canonical text says the same. */
    struct diags d = {0};
    again = (struct job_spec){0};
    assert_int_equal(job_spec_parse(spec.text, strlen(spec.text), "again", NULL, 0, &again, &d), 0);
    assert_string_equal(again.text, spec.text);
    assert_int_equal(again.model.table_count, 2);
    assert_true(again.model.tables[1].evict_unseen == 9);
    diags_release(&d);
    job_spec_release(&again);
    job_spec_release(&spec);
    buf_release(&problems);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    refused("5", "rule: sgd", "job:5:11: model.tables: this is not a list of tables");
    refused("[]", "rule: sgd", "model.tables: this is not a list of tables");
    refused("[7]", "rule: sgd", "model.tables.0");
    refused("[{name: a}]", "rule: sgd", "dim");
    refused("[{dim: 4}]", "rule: sgd", "name");
    refused("[{name: a, dim: 0}]", "rule: sgd", "model.tables.0.dim");
    refused("[{name: a, dim: 65537}]", "rule: sgd", "model.tables.0.dim");
    refused("[{name: a b, dim: 1}]", "rule: sgd", "model.tables.0.name: not a table's name");
    refused("[{name: a, dim: 1, size: 3}]", "rule: sgd", "size");
    refused("[{name: a, dim: 1}, {name: a, dim: 2}]", "rule: sgd",
            "model.tables.1.name: table 0 has the same name");
    refused("[{name: a, dim: 1, init: he_normal}]", "rule: sgd",
            "model.tables.0.init: he_normal depends on the sizes of a whole variable");
    refused("[{name: a, dim: 1, admission: bloom, sightings: 256}]", "rule: sgd",
            "model.tables.0.sightings: a counter of the Bloom filter holds no more than 255");
    refused("[{name: a, dim: 1, admission: counted, memory_bytes: 1 MiB}]", "rule: sgd",
            "model.tables.0.admission_bytes");
}

static void test_what_does_not_go_together(void **state)
{
    (void)state;
    static const char one[] = "[{name: ads, dim: 1}]";
    refused(one, "rule: sgd, accumulate: 2", "update.accumulate: not possible with model.tables");
    refused(one, "rule: sgd, average: 0.9", "update.average: not possible with model.tables");
    refused(one, "rule: lamb", "update.rule: not possible with model.tables");
    refused(one, "rule: sgd, variables: [{match: 'a*', frozen: true}]",
            "update.variables.0: 'a*' is table 'ads' as well, which cannot be frozen");
    static const char late[] = "[{name: ads, dim: 1, catch_up: true}]";
    refused(late, "rule: sgd, l2: 0.1", "model.tables.0.catch_up: not possible with l1, l2");
    refused(late, "rule: sgd, variables: [{match: ads, weight_decay: 0.1}]",
            "model.tables.0.catch_up: not possible with l1, l2, ridge or weight_decay");
    refused(late, "rule: sgd, ridge: 1", "model.tables.0.catch_up: not possible with l1, l2");
    refused(late, "rule: adamw, variables: [{match: ads, ridge: 1}]",
            "model.tables.0.catch_up: not possible with l1, l2, ridge");
    struct job_spec spec;
    struct buf problems = {0};
    assert_int_equal(parse(late, "rule: adamw, weight_decay: 0.1", &spec, &problems), 0);
    job_spec_release(&spec);
    buf_release(&problems);
    refused("[{name: ads, dim: 1, catch_up: true}]", "rule: rmsprop",
            "model.tables.0.catch_up: rule rmsprop has none");
}

static void test_a_table_that_no_layer_reads(void **state)
{
    (void)state;
    struct job_spec spec;
    struct buf problems = {0};
    struct err err;
    struct model *model;
    const struct shape input = {.rank = 1, .dims = {3}};
    assert_int_equal(parse("[{name: ads, dim: 1}]", "rule: sgd", &spec, &problems), 0);
    assert_int_equal(model_new(&spec.model, &input, NULL, 0, &model, &err), ERR_INVALID);
    assert_string_equal(err.msg,
                        "no layer reads table 'ads' (model.tables); a model without it would fit");
    job_spec_release(&spec);
    buf_release(&problems);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_what_does_not_go_together),
        cmocka_unit_test(test_a_table_that_no_layer_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
