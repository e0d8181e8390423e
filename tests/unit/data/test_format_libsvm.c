/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/data/data_rig.h"

#include <math.h>

static struct data_spec libsvm_spec(const char *text)
{
    static char file[] = "x", none[] = "";
    fixture_text(file, text);
    struct data_spec spec = fixture_spec(file, none);
    spec.format = DATA_FORMAT_LIBSVM;
    spec.scale = DATA_SCALE_NONE;
    return spec;
}

/* All features of all records, in rows. */
static void check_features(const struct dataset *d, const float *expected, size_t count)
{
    struct batch b = fixture_read(d);
    assert_int_equal(count, b.count * dataset_info(d)->features.dims[0]);
    for (size_t i = 0; i < count; i++) {
        if (fabsf(b.features[i] - expected[i]) > 1e-6F) {
            fail_msg("feature %zu is %g, expected %g", i, (double)b.features[i],
                     (double)expected[i]);
        }
    }
    batch_release(&b);
}

static void lines_become_records(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1 1:0.5 3:-2\n0 2:1e1\n",
        "1 1:0.5 3:-2\r\n0 2:1e1\r\n",
        "1 1:0.5 3:-2\n0 2:1e1",
        "# two records\n\n1\t1:.5   3:-2.0 # first\n   \n0 2:+10\n#\n",
        "1 3:-2 1:0.5\n0 2:10\n", /* any order */
        "1 qid:4 1:0.5 3:-2\n0 qid:5 2:10 \n",
        "\357\273\2771 1:0.5 3:-2\n0 2:10\n",
    };
    static const float expected[] = {0.5F, 0, -2, 0, 10, 0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct data_spec spec = libsvm_spec(texts[i]);
        spec.format = i % 2 == 0 ? DATA_FORMAT_LIBSVM : DATA_FORMAT_AUTO;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        check_features(d, expected, 6);
        assert_int_equal(dataset_info(d)->classes, 2);
        dataset_free(d);
    }
}

static void labels_are_classes_or_targets(void **state)
{
    (void)state;
    struct data_spec spec = libsvm_spec("-1 1:1\n+1 1:2\n-1 2:1\n1 1:1\n1.0 1:1\n");
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->classes, 2);
    static const int32_t classes[] = {0, 1, 0, 1, 1};
    struct batch b = fixture_read(d);
    assert_memory_equal(b.classes, classes, sizeof classes);
    assert_string_equal(dataset_class_names(d)[0], "-1");
    assert_string_equal(dataset_class_names(d)[1], "1");
    batch_release(&b);
    dataset_free(d);

    spec = libsvm_spec("-1.5 1:1\n22 2:2\n");
    d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    b = fixture_read(d);
    assert_true(b.targets[0] == -1.5F && b.targets[1] == 22);
    batch_release(&b);
    dataset_free(d);
}

static void train_decides_the_width(void **state)
{
    (void)state;
    struct data_spec spec = libsvm_spec("0 1:1 3:3\n1 2:2\n");
    spec.test.file = (char[]){"y"};
    fixture_text("y", "1 2:5 9:1\n0 1:4\n"); /* nobody learns a weight for feature 9 */
    struct dataset *test, *d = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    check_features(test, (float[]){0, 5, 0, 4, 0, 0}, 6);
    dataset_free(d);
    dataset_free(test);

    spec.features = 3;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "/y:1:7: \"9:1\" is outside of data.features: 3 (the last index is 3)");
    spec.features = 9;
    d = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    assert_int_equal(dataset_info(d)->features.dims[0], 9);
    assert_int_equal(dataset_info(test)->features.dims[0], 9);
    dataset_free(d);
    dataset_free(test);

    fixture_text("y", "1 1:5\n"); /* and fewer are filled with zeros */
    spec.features = 0;
    d = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    check_features(test, (float[]){5, 0, 0}, 3);
    dataset_free(d);
    dataset_free(test);
}

static void indices_begin_with_one_or_zero(void **state)
{
    (void)state;
    struct data_spec spec = libsvm_spec("1 0:7 2:8\n0 1:9\n");
    fixture_refused(
        &spec, DATA_LABEL_CLASS, ERR_INVALID,
        "x:1:3: \"0:7\" has index 0, but indices begin with 1; set data.first_index: 0");
    spec.first_index = 0;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    check_features(d, (float[]){7, 0, 8, 0, 9, 0}, 6);
    dataset_free(d);
    spec.features = 2;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x:1:7: \"2:8\" is outside of data.features: 2 (the last index is 1)");
}

static void wrong_lines_name_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"1 1:1\n0 2:1 2:3\n", "x:2:7: \"2:3\" stands for a feature that the record has already"},
        {"1 3:1 1:1 3:1\n", "x:1:11: \"3:1\" stands for a feature"},
        {"1 1:1\n\n# c\n0 2:x\n", "x:4:5: \"x\" is not a finite number"},
        {"1 1:nan\n", "x:1:5: \"nan\" is not a finite number"},
        {"1 1:inf\n", "x:1:5: \"inf\" is not a finite number"},
        {"1 1:1e39\n", "x:1:5: \"1e39\" is not a finite number"},
        {"1 1:\n", "x:1:3: \"1:\" has no value"},
        {"1 1: 5\n", "x:1:3: \"1:\" has no value"},
        {"1 :5\n", "x:1:3: \":5\" is not a feature; expected index:value"},
        {"1 -1:5\n", "x:1:3: \"-1:5\" is not a feature"},
        {"1 7\n", "x:1:3: \"7\" is not a feature"},
        {"1 1:2:0.5\n", "x:1:3: \"1:2:0.5\" has two colons"},
        {"1 1:1 qid:3\n", "x:1:7: \"qid:3\" must stand right behind the label"},
        {"1 qid:x 1:1\n", "x:1:3: \"qid:x\" must stand right behind the label, with a whole"},
        {"1 1000001:1\n",
         "x:1:3: \"1000001:1\" is too far out: dense records can have 1000000 features; with "
         "data.columns: [{column: features, as: sparse}] indices may be any of 64 bits"},
        {"1 99999999999999999999999:1\n", "is too far out"},
        {"1:1 2:1\n", "x:1:1: \"1:1\" stands where the label is expected"},
        {"1,3 2:1\n", "x:1:1: \"1,3\" are several labels; a record has one"},
        {"spam 2:1\n", "x:1:1: \"spam\" is no label; expected a number"},
        {"", "x: there are no records"},
        {"# only this\n", "x: there are no records"},
        {"1\n0\n", "x: no record has a feature"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = libsvm_spec(cases[i].text);
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].message);
    }
    struct data_spec spec = libsvm_spec("");
    fixture_write("x", "1 1:1\n1 2\0:1\n", 13);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "x:2:4: a NUL byte");
    spec.train.labels = (char[]){"y"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "data.train.labels is set, but a LIBSVM");
}

/* 400 GB of zeros of which the file is 1.3 MB. */
static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct buf text = {0};
    for (int i = 0; i < 100000; i++) {
        buf_add_str(&text, "1 1000000:1\n");
    }
    struct data_spec spec = libsvm_spec(buf_str(&text));
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_EXHAUSTED,
                    "x: 100000 records of 1000000 features each: the records need 372.5 GiB");
    buf_release(&text);
}

static void zeros_stay_zeros(void **state)
{
    (void)state;
    struct data_spec spec = libsvm_spec("1 1:4 2:-10\n0 1:2\n");
    spec.scale = DATA_SCALE_AUTO;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    check_features(d, (float[]){1, -1, 0.5F, 0}, 4);
    dataset_free(d);
}

static void other_text_is_not_taken_for_it(void **state)
{
    (void)state;
    static const char *const texts[] = {"1,2,0\n3,4,1\n", "a,b\n1,0\n2,1\n", "1.5;2:30\n2;3:30\n"};
    for (size_t i = 0; i < 2; i++) {
        struct data_spec spec = libsvm_spec(texts[i]);
        spec.format = DATA_FORMAT_AUTO;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        assert_int_equal(dataset_info(d)->records, 2);
        dataset_free(d);
    }
    struct data_spec spec = libsvm_spec(texts[2]);
    spec.format = DATA_FORMAT_AUTO;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "no features are left");
}

/* Lines longer than the buffer that they are read through, and a head that ends within a word. */
/* One bad line, the first among them, makes no other format of a file; who reads it is told why it
 * was taken for what. */
static void a_bad_line_makes_no_other_format(void **state)
{
    (void)state;
    struct data_spec spec = libsvm_spec("what is this\n1 1:2\n0 2:1\n1 3:1\n");
    spec.format = DATA_FORMAT_AUTO;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    ":1:1: \"what\" is no label; expected a number; data.format: auto takes the "
                    "file for libsvm, because 3 of its first 4 lines are a label and index:value "
                    "pairs");
    spec.bad_records = 1;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 3);
    dataset_free(d);
    /* Half is enough, and less is not: nobody can tell, whichever line comes first. */
    spec = libsvm_spec("1 1:2\nx,y\n");
    spec.format = DATA_FORMAT_AUTO;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "auto takes the file for libsvm");
    spec = libsvm_spec("1 1:2\nx,y\n1,2\n");
    spec.format = DATA_FORMAT_AUTO;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.format: auto cannot tell what this is: 1 of its first 3 lines are a "
                    "label and index:value pairs (libsvm), the others are something else; set "
                    "data.format");
    /* Labels alone are of both; what is sure is not explained. */
    spec = libsvm_spec("0\n0\n0\n0\n1 2:1\n");
    spec.format = DATA_FORMAT_AUTO;
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 5);
    dataset_free(d);
    spec = libsvm_spec("0 1:1\n0 1:x 1:1\n");
    spec.format = DATA_FORMAT_LIBSVM;
    struct err err = {0};
    struct dataset *train, *test;
    assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &train, &test, &err), ERR_INVALID);
    assert_null(strstr(err.msg, "data.format"));
}

static void long_lines_are_read(void **state)
{
    (void)state;
    struct buf text = {0};
    for (int line = 0; line < 3; line++) {
        buf_printf(&text, "%d", line % 2);
        for (int i = 1; i <= 60000; i++) {
            buf_printf(&text, " %d:%d", i, i % 7 + line);
        }
        buf_add_str(&text, "\n");
    }
    struct data_spec spec = libsvm_spec(buf_str(&text));
    spec.format = DATA_FORMAT_AUTO;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 3);
    struct batch b = fixture_read(d);
    for (size_t i = 0; i < 180000; i++) {
        assert_true(b.features[i] == (float)((i % 60000 + 1) % 7 + i / 60000));
    }
    batch_release(&b);
    dataset_free(d);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_records),
        cmocka_unit_test(labels_are_classes_or_targets),
        cmocka_unit_test(train_decides_the_width),
        cmocka_unit_test(indices_begin_with_one_or_zero),
        cmocka_unit_test(wrong_lines_name_their_place),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(other_text_is_not_taken_for_it),
        cmocka_unit_test(a_bad_line_makes_no_other_format),
        cmocka_unit_test(long_lines_are_read),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
