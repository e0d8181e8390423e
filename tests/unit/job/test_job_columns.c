/* SPDX-License-Identifier: Apache-2.0 */
/* data.columns of a job file: what is read, what is written back, and what is refused where. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_internal.h"

#define TAIL "model: {layers: [dense: {units: 2}], loss: mean_squared_error}\nupdate: {rule: sgd}\n"

/* A job whose data section goes on with @data, from line 4 on. */
static int parse(const char *data, struct job_spec *spec, struct buf *problems)
{
    char *text = mem_printf("name: j\ndata:\n  train: {file: x}\n%s" TAIL, data);
    struct diags d = {0};
    *spec = (struct job_spec){0};
    int rc = job_spec_parse(text, strlen(text), "job", NULL, 0, spec, &d);
    buf_reset(problems);
    diags_format(&d, problems);
    diags_release(&d);
    free(text);
    return rc;
}

static void refused(const char *data, const char *expected)
{
    struct job_spec spec;
    struct buf problems = {0};
    int rc = parse(data, &spec, &problems);
    if (rc == 0 || strcmp(buf_str(&problems), expected) != 0) {
        fail_msg("%s\n--- is\n%s--- not\n%s", data, buf_str(&problems), expected);
    }
    job_spec_release(&spec);
    buf_release(&problems);
}

/* One more entry beside the label, in line 5. */
static void entry_refused(const char *entry, const char *expected)
{
    char *data = mem_printf("  columns: [{column: y, as: label},\n  %s]\n", entry);
    refused(data, expected);
    free(data);
}

static const char every_kind[] = "  columns:\n"
                                 "    - {column: y, as: label, missing: skip}\n"
                                 "    - {column: 1..13, log: true, standardise: true, mean: 2, "
                                 "deviation: 0.5, missing: zero}\n"
                                 "    - {column: age, boundaries: [18, 30.5], missing: own}\n"
                                 "    - {column: city, as: category, buckets: 100, hash: fnv1a}\n"
                                 "    - {column: colour, as: category, vocabulary: [red, 'a, b'], "
                                 "unknown: zero}\n"
                                 "    - {column: tags, as: list, separator: ';', vocabulary_file: "
                                 "tags.txt}\n"
                                 "    - {column: id, as: ignore}\n";

/* An entry may name several columns; each is declared so. */
static void test_columns_in_a_list(void **state)
{
    (void)state;
    struct job_spec spec, again;
    struct buf problems = {0};
    struct diags d = {0};
    assert_int_equal(parse("  columns:\n    - {column: y, as: label}\n"
                           "    - {column: [plan, 'a, b', 3], as: category, buckets: 7}\n",
                           &spec, &problems),
                     0);
    assert_int_equal(spec.data.column_count, 4);
    static const char *const names[] = {"y", "plan", "a, b", "3"};
    assert_int_equal(job_spec_parse(spec.text, strlen(spec.text), "j", NULL, 0, &again, &d), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(spec.data.columns[i].column, names[i]);
        assert_string_equal(again.data.columns[i].column, names[i]);
        assert_int_equal(spec.data.columns[i].buckets, i == 0 ? 0 : 7);
    }
    job_spec_release(&spec);
    job_spec_release(&again);
    buf_release(&problems);
    entry_refused("{column: [a, b], as: category, bucketz: 7}",
                  "job:5:34: unknown key 'bucketz' in data.columns.1; did you mean 'buckets'?\n");
}

static void test_every_kind(void **state)
{
    (void)state;
    struct job_spec spec, again = {0};
    struct buf problems = {0};
    if (parse(every_kind, &spec, &problems) != 0) {
        fail_msg("%s", buf_str(&problems));
    }
    assert_int_equal(spec.data.column_count, 7);
    const struct data_column *c = spec.data.columns;
    assert_int_equal(c[0].as, COLUMN_LABEL);
    assert_int_equal(c[0].missing, COLUMN_MISSING_SKIP);
    assert_string_equal(c[1].column, "1..13");
    assert_int_equal(c[1].as, COLUMN_NUMBER);
    assert_true(c[1].log && c[1].standardise);
    assert_float_equal(c[1].mean, 2, 0);
    assert_float_equal(c[1].deviation, 0.5, 0);
    double *boundaries;
    size_t count;
    assert_int_equal(data_column_boundaries(&c[2], &boundaries, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_float_equal(boundaries[0], 18, 0);
    assert_float_equal(boundaries[1], 30.5, 0);
    free(boundaries);
    assert_int_equal(c[2].missing, COLUMN_MISSING_OWN);
    assert_int_equal(c[3].buckets, 100);
    assert_int_equal(c[3].hash, COLUMN_HASH_FNV1A);
    assert_string_equal(c[4].vocabulary, "[red, \"a, b\"]");
    assert_int_equal(c[4].unknown, COLUMN_UNKNOWN_ZERO);
    assert_int_equal(c[5].as, COLUMN_LIST);
    assert_string_equal(c[5].separator, ";");
    assert_string_equal(c[5].vocabulary_file, "tags.txt");
    assert_int_equal(c[6].as, COLUMN_IGNORE);
    /* What nodes tell each other reads back as the same. */
    struct diags d = {0};
    if (job_spec_parse(spec.text, strlen(spec.text), "job", NULL, 0, &again, &d) != 0) {
        diags_format(&d, &problems);
        fail_msg("%s", buf_str(&problems));
    }
    assert_string_equal(again.text, spec.text);
    assert_int_equal(again.data.column_count, 7);
    job_spec_release(&again);
    job_spec_release(&spec);
    buf_release(&problems);
}

static void test_entries(void **state)
{
    (void)state;
    entry_refused("{as: number}",
                  "job:5:3: data.columns.1.column is missing; allowed: text, or a list of texts\n");
    entry_refused("{column: a, as: numbr}", "job:5:19: data.columns.1.as: 'numbr' is not known "
                                            "(did you mean 'number'?); allowed: one of "
                                            "number, category, list, label, ignore, sparse\n");
    entry_refused("{column: ''}",
                  "job:5:12: data.columns.1.column: it is empty; allowed: a name or a number\n");
    entry_refused("{column: a, buckets: 5}",
                  "job:5:24: data.columns.1.buckets: this column ('as: number') has no use for it; "
                  "allowed: with 'as: category' or 'as: list'\n");
    entry_refused("{column: a, as: category, log: true}",
                  "job:5:34: data.columns.1.log: this column ('as: category') has no use for it; "
                  "allowed: with 'as: number'\n");
    entry_refused("{column: a, mean: 1, deviation: 2}",
                  "job:5:21: data.columns.1.mean: this column ('as: number') has no use for it; "
                  "allowed: with 'standardise: true'\n");
    entry_refused("{column: a, standardise: true, mean: 1}",
                  "job:5:40: data.columns.1.mean: a mean without deviation; allowed: both, or "
                  "neither to have them measured\n");
    entry_refused("{column: a, boundaries: [1, 1]}",
                  "job:5:27: data.columns.1.boundaries: '1' is not a number above the one before; "
                  "allowed: rising numbers\n");
    entry_refused("{column: a, boundaries: [1, x]}",
                  "job:5:27: data.columns.1.boundaries: 'x' is not a number above the one before; "
                  "allowed: rising numbers\n");
    entry_refused("{column: a, boundaries: 1, standardise: true}",
                  "job:5:43: data.columns.1.standardise: buckets are 0 or 1 already; allowed: "
                  "boundaries or standardise\n");
    entry_refused("{column: a, missing: own}",
                  "job:5:24: data.columns.1.missing: own is not for 'as: number'; allowed: data, "
                  "error, skip, zero, mean or median, or own together with boundaries\n");
    entry_refused("{column: a, as: list, missing: mean}",
                  "job:5:34: data.columns.1.missing: mean is not for 'as: list'; allowed: data, "
                  "error, skip, zero or own\n");
    entry_refused("{column: a, as: category, hash: fnv1a}",
                  "job:5:35: data.columns.1.hash: this column ('as: category') has no use for it; "
                  "allowed: with categories and buckets, or 'as: sparse'\n");
    entry_refused("{column: a, as: category, buckets: 5, vocabulary: [b]}",
                  "job:5:53: data.columns.1.vocabulary: this column ('as: category') has no use "
                  "for it; allowed: with categories that are not hashed (buckets), or 'as: "
                  "sparse'\n");
    entry_refused("{column: a, as: category, vocabulary: [b], vocabulary_file: c}",
                  "job:5:63: data.columns.1.vocabulary_file: the column has a vocabulary; allowed: "
                  "one of the two\n");
    entry_refused("{column: a, as: list, separator: '||'}",
                  "job:5:36: data.columns.1.separator: not one character; allowed: one ASCII "
                  "character, no quote\n");
    entry_refused("{column: a, as: category, separator: ';'}",
                  "job:5:40: data.columns.1.separator: this column ('as: category') has no use for "
                  "it; allowed: with 'as: list' or 'as: sparse'\n");
    entry_refused(
        "{column: a, as: sparse}",
        "job:4:12: data.columns.1.width: no layer of the model reads sparse fields, so it "
        "cannot use this one; allowed: an embedding or linear layer, or 1 to 1000000 "
        "columns that its keys are hashed into\n");
    entry_refused("{column: a, as: sparse, width: 5, missing: mean}",
                  "job:5:46: data.columns.1.missing: mean is not for 'as: sparse'; allowed: data, "
                  "error, skip or zero\n");
    entry_refused("{column: a, as: sparse, width: 5, buckets: 5}",
                  "job:5:46: data.columns.1.buckets: this column ('as: sparse') has no use for it; "
                  "allowed: with 'as: category' or 'as: list'\n");
    entry_refused("{column: a, as: sparse, width: 5, length: 2}",
                  "job:5:45: data.columns.1.length: this column ('as: sparse') has no use for it; "
                  "allowed: with 'as: number'\n");
    entry_refused("{column: a, as: list, width: 5}",
                  "job:5:32: data.columns.1.width: this column ('as: list') has no use for it; "
                  "allowed: with 'as: sparse'\n");
    entry_refused("{column: a, as: category, buckets: 5, hash: none}",
                  "job:5:47: data.columns.1.hash: a category is a text, which is no number; "
                  "allowed: xxh3 or fnv1a\n");
    entry_refused("{column: a, as: sparse, width: 5, hash: none, vocabulary: [a]}",
                  "job:5:43: data.columns.1.hash: the keys are places in the vocabulary, which "
                  "nothing hashes; allowed: hash or a vocabulary\n");
}

static void test_all_together(void **state)
{
    (void)state;
    refused("  columns: a\n", "job:4:12: data.columns: this is not a list of columns; allowed: a "
                              "list of 1 to 1024 sections with the key column\n");
    refused("  columns: [{column: a}]\n",
            "job:4:12: data.columns: 0 columns are the label; allowed: one entry with 'as: "
            "label'\n");
    refused("  columns: [{column: a, as: label}, {column: b, as: ignore}]\n",
            "job:4:12: data.columns: no column is a number, a category, a list of categories or "
            "sparse, so there are no features; allowed: at least one\n");
    refused("  format: idx\n  label: q\n  columns: [{column: a, as: label}, {column: b}]\n",
            "job:3:10: data.train.labels is missing; allowed: the IDX file with the labels of "
            "data.train.file\n"
            "job:4:11: data.format: IDX has no columns to declare (data.columns); allowed: another "
            "format, or auto\n"
            "job:5:10: data.label: data.columns says which column is what; allowed: one of the "
            "two\n");
    refused("  format: libffm\n  columns: [{column: 0, as: label}, {column: 1, as: sparse, width: "
            "2}]\n",
            "job:5:12: data.columns: the label stands at the beginning of each line; allowed: no "
            "entry with 'as: label'\n");
    refused("  format: libsvm\n  columns: [{column: 1}]\n",
            "job:5:12: data.columns: what stands behind the label are keys; allowed: entries with "
            "'as: sparse' or 'as: ignore'\n");
    refused("  format: criteo\n",
            "job:3:3: data.columns is missing: nothing says what the fields of a Criteo file "
            "become; allowed: entries for label, I1..I13 and C1..C26 (docs/data.md)\n");
    refused("  format: tfrecord\n",
            "job:3:3: data.columns is missing: nothing says what the features of a TFRecord file "
            "are; allowed: entries for the label, numbers and sparse fields (docs/data.md)\n");
    refused("  format: libffm\n",
            "job:3:3: data.columns is missing: fields of libFFM are lists of keys; allowed: "
            "entries such as {column: 0..38, as: sparse, width: 100}\n");
}

static void test_sparse_alone_needs_no_label(void **state)
{
    (void)state;
    static const char *const formats[] = {"auto", "libffm", "libsvm"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char *data = mem_printf("  format: %s\n  columns: [{column: 0..3, as: sparse, width: 7, "
                                "hash: none}]\n",
                                formats[i]);
        struct job_spec spec;
        struct buf problems = {0};
        if (parse(data, &spec, &problems) != 0) {
            fail_msg("%s", buf_str(&problems));
        }
        assert_int_equal(spec.data.columns[0].as, COLUMN_SPARSE);
        assert_int_equal(spec.data.columns[0].width, 7);
        assert_int_equal(spec.data.columns[0].hash, COLUMN_HASH_NONE);
        assert_non_null(strstr(spec.text, "width: 7"));
        job_spec_release(&spec);
        buf_release(&problems);
        free(data);
    }
}

/* A job of clicks: what data.columns declares, data.test_fraction and the keys of the model. */
static void check_groups(const char *columns, const char *fraction, const char *model,
                         const char *expected)
{
    char *text =
        mem_printf("name: j\ndata:\n  train: {file: x}\n  columns: [{column: y, as: label}, %s]\n"
                   "  test_fraction: %s\nmodel: {layers: [dense: {units: 1}], loss: "
                   "sigmoid_cross_entropy,\n  %s}\nupdate: {rule: sgd}\n",
                   columns, fraction, model);
    struct diags d = {0};
    struct buf problems = {0};
    struct job_spec spec = {0};
    (void)job_spec_parse(text, strlen(text), "job", NULL, 0, &spec, &d);
    diags_format(&d, &problems);
    assert_string_equal(buf_str(&problems), expected);
    if (d.count == 0) {
        assert_string_equal(spec.data.group, "user7");
        assert_non_null(strstr(spec.text, "group_by: user7"));
    }
    job_spec_release(&spec);
    diags_release(&d);
    buf_release(&problems);
    free(text);
}

static void test_groups(void **state)
{
    (void)state;
    static const char field[] = "{column: user1..user9, as: sparse}";
    static const char both[] = "metrics: [grouped_auc], group_by: user7";
    check_groups(field, "0.1", both, "");
    check_groups("{column: user7, as: sparse, width: 100}", "0.1", both, "");
    check_groups("{column: m}", "0.1", both,
                 "job:7:37: model.group_by: it names a sparse field of the data, and there are "
                 "none; allowed: one that data.columns declares, 'as: sparse'\n");
    check_groups("{column: m}", "0.1", "metrics: [grouped_auc]",
                 "job:7:12: model.group_by is missing: grouped_auc needs to know which records "
                 "belong together; allowed: a sparse field of the data\n");
    check_groups("{column: m}", "0.1", "group_by: m",
                 "job:7:13: model.group_by: nothing is measured by groups; allowed: together with "
                 "grouped_auc in model.metrics\n");
    check_groups(field, "0", both,
                 "job:7:12: model.metrics: grouped_auc is measured on test records, and the job "
                 "has none; allowed: together with data.test.file or data.test_fraction\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_columns_in_a_list),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_all_together),
        cmocka_unit_test(test_sparse_alone_needs_no_label),
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
