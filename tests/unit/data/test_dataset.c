/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>

#include "unit/data/data_rig.h"

/* 200 records of two numbers and a real label. */
static struct data_spec columns(void)
{
    static char file[] = "t.csv", none[] = "";
    struct buf text = {0};
    for (int i = 0; i < 200; i++) {
        buf_printf(&text, "%d,%d,%d\n", i, 7, 3 * i);
    }
    fixture_write(file, text.data, text.len);
    buf_release(&text);
    return fixture_spec(file, none);
}

static struct batch read_scaled(struct data_spec *spec, int scale)
{
    spec->scale = scale;
    struct dataset *d = fixture_open(spec, DATA_LABEL_REAL, NULL);
    struct batch b = fixture_read(d);
    dataset_free(d);
    return b;
}

static void columns_are_scaled(void **state)
{
    (void)state;
    struct data_spec spec = columns();
    static const struct {
        int scale;
        float first, last, constant;
    } cases[] = {
        {DATA_SCALE_NONE, 0, 199, 7},
        {DATA_SCALE_UNIT, 0, 1, 1},
        {DATA_SCALE_MINMAX, 0, 1, 0},
        {DATA_SCALE_STANDARD, -1.7234F, 1.7234F, 0}, /* 99.5 ÷ √((200² − 1) ÷ 12) */
        {DATA_SCALE_AUTO, -1.7234F, 1.7234F, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch b = read_scaled(&spec, cases[i].scale);
        assert_float_equal(b.features[0], cases[i].first, 1e-3F);
        assert_float_equal(b.features[2 * 199], cases[i].last, 1e-3F);
        assert_float_equal(b.features[1], cases[i].constant, 1e-5F);
        batch_release(&b);
    }
}

static void test_records_are_scaled_like_train_records(void **state)
{
    (void)state;
    struct data_spec spec = columns();
    fixture_text("test.csv", "398,7,0\n");
    spec.test.file = (char[]){"test.csv"};
    spec.scale = DATA_SCALE_UNIT;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_REAL, &test);
    struct batch b = fixture_read(test);
    assert_float_equal(b.features[0], 2, 1e-6F);
    batch_release(&b);
    dataset_free(train);
    dataset_free(test);
}

static void bytes_can_be_standardised(void **state)
{
    (void)state;
    static const uint8_t pixels[8] = {0, 10, 5, 9, 255, 10, 7, 9}, labels[2] = {0, 1};
    fixture_write_idx("x", 8, (uint32_t[]){2, 2, 2}, 3, pixels, 8);
    fixture_write_idx("y", 8, (uint32_t[]){2}, 1, labels, 2);
    struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){"y"});
    static const struct {
        int scale;
        float features[8];
    } cases[] = {
        {DATA_SCALE_STANDARD, {-1, 0, -1, 0, 1, 0, 1, 0}},
        {DATA_SCALE_MINMAX, {0, 0, 0, 0, 1, 0, 1, 0}},
        {DATA_SCALE_NONE, {0, 10, 5, 9, 255, 10, 7, 9}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        spec.scale = cases[i].scale;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        struct batch b = fixture_read(d);
        for (size_t j = 0; j < 8; j++) {
            assert_float_equal(b.features[j], cases[i].features[j], 1e-5F);
        }
        batch_release(&b);
        dataset_free(d);
    }
}

static void pixels_share_one_unit(void **state)
{
    (void)state;
    static const uint8_t halves[8] = {0, 1, 0, 2, 0, 4, 0, 8}, label[1] = {0};
    fixture_write_idx("x", 0x0B, (uint32_t[]){1, 2, 2}, 3, halves, 8);
    fixture_write_idx("y", 8, (uint32_t[]){1}, 1, label, 1);
    struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){"y"});
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    struct batch b = fixture_read(d);
    assert_float_equal(b.features[0], 0.125F, 1e-6F);
    assert_float_equal(b.features[3], 1, 1e-6F);
    batch_release(&b);
    dataset_free(d);
}

/* Which of the 200 records of columns() are in @d, by their real label. */
static void mark(const struct dataset *d, int *seen)
{
    struct batch b = fixture_read(d);
    float before = -1;
    for (size_t i = 0; i < b.count; i++) {
        assert_true(b.targets[i] > before); /* parts keep the order of the file */
        before = b.targets[i];
        seen[(size_t)b.targets[i] / 3]++;
    }
    batch_release(&b);
}

static void a_fraction_is_set_aside(void **state)
{
    (void)state;
    struct data_spec spec = columns();
    spec.test_fraction = 0.25;
    uint64_t prints[4];
    for (size_t i = 0; i < 4; i++) {
        spec.split_seed = i < 2 ? 1 : 2;
        spec.train.limit = i < 3 ? 0 : 100;
        struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_REAL, &test);
        int seen[200] = {0};
        mark(train, seen);
        mark(test, seen);
        for (size_t k = 0; k < 200; k++) {
            assert_int_equal(seen[k], i < 3 || k < 100 ? 1 : 0);
        }
        if (i < 3) {
            assert_in_range(dataset_info(test)->records, 25, 75);
        }
        prints[i] = dataset_info(test)->fingerprint;
        dataset_free(train);
        dataset_free(test);
    }
    assert_true(prints[0] == prints[1]);
    assert_true(prints[1] != prints[2]);
    spec.train.limit = 1;
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "leaves no record for");
}

/* Records in front decide nothing about those behind: the split is a function of the number alone.
 */
static void the_split_does_not_depend_on_other_records(void **state)
{
    (void)state;
    struct data_spec spec = columns();
    spec.test_fraction = 0.3;
    int all[200] = {0}, some[200] = {0};
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_REAL, &test);
    mark(test, all);
    dataset_free(train);
    dataset_free(test);
    spec.train.limit = 90;
    train = fixture_open(&spec, DATA_LABEL_REAL, &test);
    mark(test, some);
    dataset_free(train);
    dataset_free(test);
    assert_memory_equal(all, some, 90 * sizeof all[0]);
}

static void split_messages_name_the_record_in_the_file(void **state)
{
    (void)state;
    static uint8_t pixels[400], labels[100];
    memset(labels, 1, sizeof labels);
    labels[99] = 5;
    fixture_write_idx("x", 8, (uint32_t[]){100, 2, 2}, 3, pixels, 400);
    fixture_write_idx("y", 8, (uint32_t[]){100}, 1, labels, 100);
    struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){"y"});
    spec.test_fraction = 0.5;
    spec.classes = 3;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "y: record 99: label 5 is outside 0..2");
}

static uint64_t fingerprint_of(const char *text)
{
    fixture_text("t.csv", text);
    struct data_spec spec = fixture_spec((char[]){"t.csv"}, (char[]){""});
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    uint64_t f = dataset_info(d)->fingerprint;
    dataset_free(d);
    return f;
}

static void the_fingerprint_covers_values_and_labels(void **state)
{
    (void)state;
    uint64_t f = fingerprint_of("1,2,0\n3,4,1\n5,9,1\n");
    assert_true(f == fingerprint_of("a,b,c\n1.0,\"2\",0\n3,4,1\n5,9,1\n")); /* the same numbers */
    assert_true(f != fingerprint_of("1,2,0\n3,4,1\n5,8,1\n"));
    assert_true(f != fingerprint_of("1,2,0\n3,4,0\n5,9,1\n"));
    assert_true(f != fingerprint_of("3,4,1\n1,2,0\n5,9,1\n"));
    assert_true(f != fingerprint_of("1,2,0\n3,4,1\n"));
}

static void the_fingerprint_covers_the_shape(void **state)
{
    (void)state;
    static const uint8_t pixels[8] = {0, 10, 5, 9, 255, 10, 7, 9}, labels[2] = {0, 1};
    static const uint32_t shapes[2][3] = {{2, 1, 4}, {2, 4, 1}};
    uint64_t prints[2];
    for (size_t i = 0; i < 2; i++) { /* the same bytes of records that are as long */
        fixture_write_idx("x", 8, shapes[i], 3, pixels, sizeof pixels);
        fixture_write_idx("y", 8, (uint32_t[]){2}, 1, labels, sizeof labels);
        struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){"y"});
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        prints[i] = dataset_info(d)->fingerprint;
        dataset_free(d);
    }
    assert_true(prints[0] != prints[1]);
}

/* A format is found for each part alone; the two must still go together. */
static void both_parts_are_alike(void **state)
{
    (void)state;
    static const uint8_t pixels[4] = {1, 2, 3, 4}, labels[2] = {0, 1};
    static const uint8_t floats[8] = {0x3F, 0x80, 0, 0, 0x40, 0, 0, 0}; /* 1 and 2 */
    fixture_text("train.csv", "1,2,0\n3,4,1\n5,6,1\n");
    fixture_write_idx("bytes", 8, (uint32_t[]){2, 2}, 2, pixels, 4);
    fixture_write_idx("wide", 8, (uint32_t[]){1, 4}, 2, pixels, 4);
    fixture_write_idx("floats", 13, (uint32_t[]){1, 2}, 2, floats, 8);
    fixture_write_idx("one", 8, (uint32_t[]){1}, 1, labels, 1);
    fixture_write_idx("two", 8, (uint32_t[]){2}, 1, labels, 2);
    struct data_spec spec = fixture_spec((char[]){"train.csv"}, (char[]){""});
    spec.test.file = (char[]){"wide"};
    spec.test.labels = (char[]){"one"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "wide: a record has shape [4], in ");
    spec.test.file = (char[]){"bytes"};
    spec.test.labels = (char[]){"two"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "bytes holds bytes, ");
    spec.test.file = (char[]){"floats"};
    spec.test.labels = (char[]){"one"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "have labels of different kinds");
    struct dataset *test = NULL; /* numbers are alike */
    dataset_free(fixture_open(&spec, DATA_LABEL_REAL, &test));
    dataset_free(test);
}

static void fields_have_defaults(void **state)
{
    (void)state;
    struct data_spec spec = {0};
    field_defaults(data_fields, data_field_count, &spec);
    assert_string_equal(spec.dir, ".");
    assert_string_equal(spec.label, "-1");
    assert_string_equal(spec.separator, ",");
    assert_int_equal(spec.missing, DATA_MISSING_ERROR);
    assert_int_equal(spec.header, DATA_HEADER_AUTO);
    const struct field *format = field_find(data_fields, data_field_count, "format");
    assert_int_equal(field_set(format, &spec, "csv", NULL), 0);
    assert_int_equal(spec.format, DATA_FORMAT_CSV);
    const struct field *fraction = field_find(data_fields, data_field_count, "test_fraction");
    assert_int_equal(field_set(fraction, &spec, "1.5", NULL), ERR_INVALID);
    field_release(data_fields, data_field_count, &spec);
}

static void a_batch_too_large_is_refused(void **state)
{
    (void)state;
    struct data_spec spec = columns();
    struct dataset *d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    struct batch b;
    struct err err;
    assert_int_equal(batch_init(&b, d, SIZE_MAX / 4, &err), ERR_EXHAUSTED);
    dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_scaled),
        cmocka_unit_test(test_records_are_scaled_like_train_records),
        cmocka_unit_test(bytes_can_be_standardised),
        cmocka_unit_test(pixels_share_one_unit),
        cmocka_unit_test(a_fraction_is_set_aside),
        cmocka_unit_test(the_split_does_not_depend_on_other_records),
        cmocka_unit_test(split_messages_name_the_record_in_the_file),
        cmocka_unit_test(the_fingerprint_covers_values_and_labels),
        cmocka_unit_test(the_fingerprint_covers_the_shape),
        cmocka_unit_test(both_parts_are_alike),
        cmocka_unit_test(fields_have_defaults),
        cmocka_unit_test(a_batch_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
