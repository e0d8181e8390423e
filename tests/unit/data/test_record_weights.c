/* SPDX-License-Identifier: Apache-2.0 */
/* data.weight: which column it means, what a weight is, and that the same come from memory and from
 * files (data_rig.c compares them, with an index that is made and one that is there). What
 * TFRecord files have for weights, test_format_tfrecord.c says. */
#include "unit/data/data_rig.h"

#include "base/buf.h"
#include "data/batch_join.h"
#include "data/encoder.h"
#include "unit/data/tfrecord_rig.h"

static char none[] = "", train_name[] = "t.csv", test_name[] = "u.csv", by_name[] = "w";

static struct data_spec csv_spec(const char *text, char *weight)
{
    fixture_text(train_name, text);
    struct data_spec spec = fixture_spec(train_name, none);
    spec.scale = DATA_SCALE_NONE;
    spec.weight = weight;
    return spec;
}

/* Two records with the feature 5 and 6, and these weights. */
static void check_weights(const struct data_spec *spec, float first, float second)
{
    struct dataset *d = fixture_open(spec, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(d)->weighted);
    assert_int_equal(dataset_info(d)->records, 2);
    assert_int_equal(dataset_info(d)->features.dims[0], 1);
    struct batch b = fixture_read(d);
    assert_true(b.features[0] == 5 && b.features[1] == 6);
    assert_true(b.weights[0] == first && b.weights[1] == second);
    batch_release(&b);
    dataset_free(d);
}

static void a_column_is_the_weight(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("x,w,y\n5,0,0\n6,2.5,1\n", by_name);
    check_weights(&spec, 0, 2.5F);
    spec.weight = (char[]){"1"};
    check_weights(&spec, 0, 2.5F);
    spec = csv_spec("1e-3,5,0\n4,6,1\n", (char[]){"-3"}); /* no header */
    check_weights(&spec, 1e-3F, 4);
    spec = csv_spec("a,w,b\n5,7,c\n6,8,d\n", by_name); /* words alone: the name tells the header */
    spec.format = DATA_FORMAT_CSV;
    check_weights(&spec, 7, 8);
    struct data_column columns[2] = {{.column = (char[]){"y"}, .as = COLUMN_LABEL},
                                     {.column = (char[]){"x"}, .as = COLUMN_NUMBER}};
    spec = csv_spec("x,other,w,y\n5,9,1,0\n6,9,3,1\n", by_name);
    spec.columns = columns;
    spec.column_count = 2;
    check_weights(&spec, 1, 3);
    spec.weight = (char[]){"x"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.weight names column \"x\", which data.columns.1 declares");
}

static void files_follow_each_other(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("x,w,y\n5,1,0\n", by_name);
    fixture_text(test_name, "x,w,y\n6,2,1\n");
    spec.train.file = (char[]){"[t.csv, u.csv]"};
    check_weights(&spec, 1, 2);
}

/* Every record keeps its own, whichever part it falls into. */
static void parts_have_their_weights(void **state)
{
    (void)state;
    struct buf text = {0};
    for (int i = 0; i < 500; i++) {
        buf_printf(&text, "%d,%d.5,%d\n", i, i, i % 2);
    }
    struct data_spec spec = csv_spec(buf_str(&text), (char[]){"1"});
    buf_release(&text);
    spec.test_fraction = 0.3;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    assert_int_equal(dataset_info(train)->records + dataset_info(test)->records, 500);
    struct dataset *both[2] = {train, test};
    for (int k = 0; k < 2; k++) {
        struct batch b = fixture_read(both[k]);
        for (size_t i = 0; i < b.count; i++) {
            assert_true(b.weights[i] == b.features[i] + 0.5F);
        }
        batch_release(&b);
        dataset_free(both[k]);
    }
}

/* Weights are read where a test file has them, and one without the column has none. */
static void test_files_need_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"x,y\n7,1\n8,0\n", "w,x,y\n0.5,7,1\n0,8,0\n"};
    for (size_t i = 0; i < 2 * sizeof texts / sizeof texts[0]; i++) {
        const bool has = i % 2 == 1;
        struct data_spec spec = csv_spec("x,w,y\n5,0,0\n6,2.5,1\n", by_name);
        spec.loading = i < 2 ? DATA_LOADING_MEMORY : DATA_LOADING_STREAM;
        spec.test.file = test_name;
        fixture_text(test_name, texts[i % 2]);
        struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
        struct batch b = fixture_read(test);
        assert_true(dataset_info(train)->weighted && dataset_info(test)->weighted == has);
        assert_true((b.weights != NULL) == has && b.features[0] == 7 && b.features[1] == 8);
        assert_true(!has || (b.weights[0] == 0.5F && b.weights[1] == 0));
        batch_release(&b);
        dataset_free(train);
        dataset_free(test);
    }
    struct data_spec spec = csv_spec("x,w,y\n5,0,0\n6,2.5,1\n", by_name);
    spec.test.file = test_name;
    fixture_text(test_name, "x,w,y\n7,nothing,1\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "the weight \"nothing\"");
}

static void test_files_are_all_of_one_kind(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("x,w,y\n5,0,0\n6,2.5,1\n", by_name);
    fixture_text("u.csv", "x,y\n7,1\n");
    fixture_text("v.csv", "x,w,y\n7,1,1\n");
    spec.test.file = (char[]){"[u.csv, v.csv]"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "v.csv has the weights that data.weight names, ");
    spec.test.file = (char[]){"[v.csv, u.csv]"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "either all test files have them or none");
}

/* Of test records all have the weight, or none has. */
static void test_records_may_have_no_weights(void **state)
{
    (void)state;
    for (unsigned have = 0; have < 4; have++) {
        struct buf train = {0}, test = {0};
        for (int64_t k = 0; k < 4; k++) {
            struct buf f = {0};
            example_add_ints(&f, "y", true, (int64_t[]){k % 2}, 1);
            example_add_floats(&f, "x", true, (float[]){2}, 1);
            if (k < 2 || (have >> (k - 2) & 1U) != 0) {
                example_add_floats(&f, "w", true, (float[]){0.5F}, 1);
            }
            tfrecord_add_example(k < 2 ? &train : &test, &f);
        }
        static char name[] = "x", tests[] = "test.tfrecord", weight[] = "w", x[] = "x", y[] = "y";
        struct data_column columns[] = {
            {.column = y, .as = COLUMN_LABEL, .length = 1, .hash = COLUMN_HASH_NONE},
            {.column = x, .as = COLUMN_NUMBER, .length = 1, .hash = COLUMN_HASH_NONE}};
        fixture_write(name, train.data, train.len);
        fixture_write(tests, test.data, test.len);
        struct data_spec spec = fixture_spec(name, none);
        spec.format = DATA_FORMAT_TFRECORD;
        spec.test.file = tests;
        spec.columns = columns;
        spec.column_count = 2;
        spec.weight = weight;
        if (have == 1 || have == 2) {
            fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                            "1 of 2 records lack the weight that data.weight names");
        } else {
            struct dataset *of_test, *d = fixture_open(&spec, DATA_LABEL_CLASS, &of_test);
            struct batch b = fixture_read(of_test);
            assert_true(dataset_info(of_test)->weighted == (have == 3));
            assert_true(have == 0 ? b.weights == NULL : b.weights[1] == 0.5F);
            batch_release(&b);
            dataset_free(d);
            dataset_free(of_test);
        }
        buf_release(&train);
        buf_release(&test);
    }
}

static void what_is_no_weight_is_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"-1", "-1e-30", "1e39", "heavy", "inf"};
    char text[96];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(text, sizeof text, "x,w,y\n5,1,0\n7,%s,0\n6,2,1\n", wrong[i]);
        struct data_spec spec = csv_spec(text, by_name);
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                        "t.csv:3: column 1 (\"w\"): the weight \"");
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "\" is no finite number from 0 on");
        spec.bad_records = 1;
        check_weights(&spec, 1, 2);
    }
    struct data_spec spec = csv_spec("x,w,y\n5,1,0\n7,NA,0\n6,2,1\n", by_name);
    for (int missing = DATA_MISSING_ERROR; missing <= DATA_MISSING_ZERO; missing++) {
        spec.missing = missing;
        if (missing != DATA_MISSING_MEDIAN) { /* which is not streamed */
            fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                            "t.csv:3: column 1 (\"w\"): the weight is missing (");
        }
    }
    spec.missing = DATA_MISSING_SKIP;
    check_weights(&spec, 1, 2);
}

static void columns_that_cannot_be_it(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("x,w,y\n5,1,0\n6,2,1\n", (char[]){"v"});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.weight names column \"v\", but there is none");
    spec.weight = (char[]){"y"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.weight names column \"y\", which is the label");
    spec.weight = by_name;
    spec.ignore = by_name;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.ignore names column \"w\", which is the weight already");
    fixture_text("t.libsvm", "1 1:2\n0 1:3\n");
    spec.train.file = (char[]){"t.libsvm"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.weight is set, but records of the format libsvm have nothing beside");
}

static uint64_t fingerprint_of(const char *text, char *weight)
{
    struct data_spec spec = csv_spec(text, weight);
    spec.ignore = weight == none ? by_name : none;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    const uint64_t value = dataset_info(d)->fingerprint;
    dataset_free(d);
    return value;
}

static void weights_count_in_the_fingerprint(void **state)
{
    (void)state;
    const char *const text = "x,w,y\n5,1,0\n6,2,1\n";
    const uint64_t weighted = fingerprint_of(text, by_name);
    assert_true(weighted == fingerprint_of(text, by_name));
    assert_true(weighted != fingerprint_of(text, none));
    assert_true(weighted != fingerprint_of("x,w,y\n5,1,0\n6,3,1\n", by_name));
}

static int count_records(void *context, const struct encoder_block *block, struct err *err)
{
    (void)err;
    *(uint64_t *)context += dataset_info(block->data)->records;
    return 0;
}

/* Whoever asks for answers may have the column or not; what is part of the train source is read as
 * training reads it, so that a record that training has left out is left out again. */
static void encoders_know_the_column(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("x,w,y\n5,1,0\n7,heavy,0\n6,2,1\n8,2,0\n9,0,1\n", by_name);
    spec.bad_records = 1;
    spec.test_fraction = 0.4;
    spec.split_seed = 3;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    struct encoder *e = NULL;
    assert_int_equal(encoder_open(&spec, DATA_LABEL_CLASS, &e, NULL), 0);
    for (int k = 0; k < 2; k++) {
        uint64_t records = 0;
        assert_int_equal(encoder_read_part(e, &spec, k == 0, count_records, &records, NULL), 0);
        assert_int_equal(records, dataset_info(k == 0 ? test : train)->records);
    }
    static const char *const texts[] = {"x,w\n7,nothing\n", "x\n7\n", "{\"x\": 7}\n",
                                        "{\"x\": 7, \"w\": \"heavy\"}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t records = 0;
        struct err err = {0};
        struct encoder_left left = {0};
        fixture_text(test_name, texts[i]);
        const struct encoder_files files = {.file = test_name, .unlabelled = i < 2, .json = i >= 2};
        if (encoder_read(e, &files, count_records, &records, &left, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        encoder_left_release(&left);
        assert_int_equal(records, 1);
    }
    encoder_free(e);
    dataset_free(train);
    dataset_free(test);
}

static void joined_batches_keep_them(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("x,w,y\n5,1,0\n6,2,1\n", by_name);
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    struct batch all, more = fixture_read(d);
    assert_int_equal(batch_init(&all, d, 4, NULL), 0);
    assert_int_equal(batch_append(&all, &more, 1, NULL), 0);
    assert_int_equal(batch_append(&all, &more, 1, NULL), 0);
    assert_memory_equal(all.weights, ((const float[]){1, 2, 1, 2}), 4 * sizeof(float));
    batch_release(&all);
    batch_release(&more);
    dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_is_the_weight),
        cmocka_unit_test(files_follow_each_other),
        cmocka_unit_test(parts_have_their_weights),
        cmocka_unit_test(test_files_need_none),
        cmocka_unit_test(test_files_are_all_of_one_kind),
        cmocka_unit_test(test_records_may_have_no_weights),
        cmocka_unit_test(what_is_no_weight_is_named),
        cmocka_unit_test(columns_that_cannot_be_it),
        cmocka_unit_test(weights_count_in_the_fingerprint),
        cmocka_unit_test(encoders_know_the_column),
        cmocka_unit_test(joined_batches_keep_them),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
