/* SPDX-License-Identifier: Apache-2.0 */
/* data.weight: which column it means, what a weight is, and that the same come from memory and from
 * files (data_rig.c compares them, with an index that is made and one that is there). TFRecord
 * files have a test of their own. */
#include "unit/data/data_rig.h"

#include "base/buf.h"
#include "data/batch_join.h"
#include "data/encoder.h"

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

static void test_files_need_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"x,y\n7,1\n", "x,w,y\n7,nothing,1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct data_spec spec = csv_spec("x,w,y\n5,0,0\n6,2.5,1\n", by_name);
        spec.test.file = test_name;
        fixture_text(test_name, texts[i]);
        struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
        struct batch b = fixture_read(test);
        assert_true(dataset_info(train)->weighted && !dataset_info(test)->weighted);
        assert_true(b.weights == NULL && b.features[0] == 7);
        batch_release(&b);
        dataset_free(train);
        dataset_free(test);
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
        cmocka_unit_test(what_is_no_weight_is_named),
        cmocka_unit_test(columns_that_cannot_be_it),
        cmocka_unit_test(weights_count_in_the_fingerprint),
        cmocka_unit_test(encoders_know_the_column),
        cmocka_unit_test(joined_batches_keep_them),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
