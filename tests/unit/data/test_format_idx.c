/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "unit/data/data_rig.h"

/* Three records of 2×2 bytes with the labels 2, 0, 1. */
static const uint8_t pixels[12] = {0, 51, 102, 153, 204, 255, 0, 0, 1, 2, 3, 4};
static const uint8_t three_labels[3] = {2, 0, 1};

static void write_pair(void)
{
    fixture_write_idx("x", 8, (uint32_t[]){3, 2, 2}, 3, pixels, sizeof pixels);
    fixture_write_idx("y", 8, (uint32_t[]){3}, 1, three_labels, sizeof three_labels);
}

static struct data_spec pair(void)
{
    static char x[] = "x", y[] = "y";
    return fixture_spec(x, y);
}

static void bytes_are_read_and_scaled(void **state)
{
    (void)state;
    write_pair();
    struct data_spec spec = pair();
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    const struct dataset_info *info = dataset_info(d);
    assert_int_equal(info->records, 3);
    assert_int_equal(info->features.rank, 2);
    assert_int_equal(info->features.dims[0], 2);
    assert_int_equal(info->features.dims[1], 2);
    assert_true(info->label_is_class);
    assert_int_equal(info->classes, 3);
    assert_null(dataset_class_names(d));
    struct batch b = fixture_read(d);
    for (size_t i = 0; i < 12; i++) {
        assert_float_equal(b.features[i], (float)pixels[i] / 255.0F, 1e-6F);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(b.classes[i], three_labels[i]);
        assert_true(b.targets[i] == (float)three_labels[i]);
    }
    batch_release(&b);
    dataset_free(d);
}

static void gzip_gives_the_same_records(void **state)
{
    (void)state;
    write_pair();
    size_t n;
    uint8_t *x = fixture_idx(8, (uint32_t[]){3, 2, 2}, 3, pixels, sizeof pixels, &n);
    fixture_write_gz("x.gz", x, n);
    free(x);
    uint8_t *y = fixture_idx(8, (uint32_t[]){3}, 1, three_labels, 3, &n);
    fixture_write_gz("y.gz", y, n);
    free(y);
    struct data_spec plain = pair(), gz = fixture_spec((char[]){"x.gz"}, (char[]){"y.gz"});
    struct dataset *a = fixture_open(&plain, DATA_LABEL_CLASS, NULL);
    struct dataset *b = fixture_open(&gz, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(a)->fingerprint == dataset_info(b)->fingerprint);
    dataset_free(a);
    dataset_free(b);
}

static void every_type_is_decoded(void **state)
{
    (void)state;
    static const struct {
        uint8_t type;
        size_t bytes;
        uint8_t data[16];
        float values[2];
    } cases[] = {
        {0x08, 1, {1, 255}, {1, 255}},
        {0x09, 1, {1, 255}, {1, -1}},
        {0x0B, 2, {1, 0, 0xFF, 0xFE}, {256, -2}},
        {0x0C, 4, {0, 1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFD}, {65536, -3}},
        {0x0D, 4, {0x3F, 0xC0, 0, 0, 0xC0, 0, 0, 0}, {1.5F, -2}},
        {0x0E, 8, {0x3F, 0xF8, 0, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0}, {1.5F, -2}},
    };
    fixture_write_idx("y", 8, (uint32_t[]){2}, 1, three_labels, 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_write_idx("x", cases[i].type, (uint32_t[]){2, 1, 1, 1}, 4, cases[i].data,
                          2 * cases[i].bytes);
        struct data_spec spec = pair();
        spec.scale = DATA_SCALE_NONE;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        assert_int_equal(dataset_info(d)->features.rank, 3);
        struct batch b = fixture_read(d);
        assert_true(b.features[0] == cases[i].values[0] && b.features[1] == cases[i].values[1]);
        batch_release(&b);
        dataset_free(d);
    }
}

static void real_labels_are_read(void **state)
{
    (void)state;
    write_pair();
    static const uint8_t reals[12] = {0x3F, 0xC0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0};
    fixture_write_idx("y", 0x0D, (uint32_t[]){3}, 1, reals, sizeof reals);
    struct data_spec spec = pair();
    struct dataset *d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    struct batch b = fixture_read(d);
    assert_true(b.targets[0] == 1.5F && b.targets[1] == -2.0F && b.targets[2] == 0.0F);
    assert_int_equal(dataset_info(d)->classes, 0);
    batch_release(&b);
    dataset_free(d);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "label 1.5 is not a whole number");
}

static void truncated_files_name_byte_and_record(void **state)
{
    (void)state;
    write_pair();
    struct data_spec spec = pair();
    fixture_write_idx("x", 8, (uint32_t[]){3, 2, 2}, 3, pixels, 9);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT,
                    "x: 28 bytes expected, the file ends at byte 25 (record 2)");
    size_t n;
    uint8_t *x = fixture_idx(8, (uint32_t[]){3, 2, 2}, 3, pixels, 9, &n);
    fixture_write_gz("x", x, n); /* a whole gzip file of too short content */
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT,
                    "x: 28 bytes expected, the file ends at byte 25 (record 2)");
    fixture_write("x", x, 11);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "ends at byte 11, inside the IDX header");
    fixture_write("x", x, 3);
    spec.format = DATA_FORMAT_IDX;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "ends at byte 3, inside the IDX header");
    free(x);
    write_pair();
    fixture_write_idx("y", 8, (uint32_t[]){3}, 1, three_labels, 2);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "y: 11 bytes expected");
}

static void cut_and_damaged_gzip_is_refused(void **state)
{
    (void)state;
    write_pair();
    static uint8_t noise[40 * 1000];
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (uint8_t)(i * i * 2654435761U >> 7);
    }
    size_t n;
    uint8_t *x = fixture_idx(8, (uint32_t[]){10000, 2, 2}, 3, noise, sizeof noise, &n);
    fixture_write_gz("x", x, n);
    free(x);
    fixture_write_idx("y", 8, (uint32_t[]){10000}, 1, noise, 10000);
    char *path = file_join(fixture_dir, "x");
    struct buf file = {0};
    assert_int_equal(file_read(path, 1 << 20, &file, NULL), 0);
    struct data_spec spec = pair();
    fixture_write("x", file.data, file.len / 2);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "the gzip file is cut off");
    fixture_write("x", file.data, file.len - 3); /* inside the checksum */
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "the gzip file is cut off");
    file.data[file.len - 8] = (char)(file.data[file.len - 8] ^ 1);
    fixture_write("x", file.data, file.len);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "the gzip file is damaged");
    buf_release(&file);
    free(path);
}

static void bytes_behind_the_records_are_refused(void **state)
{
    (void)state;
    write_pair();
    struct data_spec spec = pair();
    uint8_t more[13] = {0};
    fixture_write_idx("x", 8, (uint32_t[]){3, 2, 2}, 3, more, 13);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "28 bytes expected, the file has 29");
    size_t n;
    uint8_t *x = fixture_idx(8, (uint32_t[]){3, 2, 2}, 3, more, 13, &n);
    fixture_write_gz("x", x, n);
    free(x);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "more bytes follow the last record");
}

static void lying_headers_allocate_nothing(void **state)
{
    (void)state;
    write_pair();
    struct data_spec spec = pair();
    fixture_write_idx("x", 8, (uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, 4,
                      pixels, 12);
    fixture_write_idx("y", 8, (uint32_t[]){UINT32_MAX}, 1, pixels, 3);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "too large for any file");
    fixture_write_idx("x", 8, (uint32_t[]){UINT32_MAX, 60000}, 2, pixels, 12);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "257698037700012 bytes expected");
    size_t n; /* gzip does not tell its size in advance */
    uint8_t *x = fixture_idx(8, (uint32_t[]){UINT32_MAX, UINT32_MAX}, 2, pixels, 12, &n);
    fixture_write_gz("x", x, n);
    free(x);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_EXHAUSTED, "this machine has");
}

static void wrong_pairs_are_explained(void **state)
{
    (void)state;
    write_pair();
    struct data_spec spec = fixture_spec((char[]){"y"}, (char[]){"x"});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "file and labels are swapped");
    spec = fixture_spec((char[]){"y"}, (char[]){"y"}); /* no: to swap them would not help */
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &train, &test, &err), ERR_INVALID);
    assert_null(strstr(err.msg, "swapped"));
    assert_non_null(strstr(err.msg, " is a label file; data.train.file takes features"));
    spec = fixture_spec((char[]){"x"}, (char[]){"x"});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "data of rank 3 are features");
    spec = fixture_spec((char[]){"x"}, (char[]){""});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "data.train.labels is not set");
    fixture_write_idx("y", 8, (uint32_t[]){2}, 1, three_labels, 2);
    spec = pair();
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "x has 3 records");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "y has 2 labels");
}

static void other_files_are_refused(void **state)
{
    (void)state;
    write_pair();
    struct data_spec spec = fixture_spec((char[]){"nothing"}, (char[]){"y"});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_NOT_FOUND, "nothing: No such file");
    spec = fixture_spec((char[]){"."}, (char[]){"y"});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "a directory");
    spec = fixture_spec((char[]){"/dev/zero"}, (char[]){"y"});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "a device");
    spec = fixture_spec((char[]){""}, (char[]){"y"});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "data.train.file is not set");
    spec = pair();
    fixture_text("x", "");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "x: the file is empty");
    fixture_write("x", "\x89PNG\0\0\0\0", 8);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "begins with the bytes 89 50 4e 47");
    spec.format = DATA_FORMAT_IDX;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "not an IDX file");
    fixture_write_idx("x", 8, (uint32_t[]){3, 1, 1, 1, 1}, 5, pixels, 3);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "the IDX rank is 5");
    fixture_write_idx("x", 8, (uint32_t[]){0, 2, 2}, 3, NULL, 0);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "no records");
    fixture_write_idx("x", 8, (uint32_t[]){3, 0, 2}, 3, NULL, 0);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "size 1 of the header is 0");
}

static void values_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    static const uint8_t values[8] = {0x3F, 0x80, 0, 0, 0x7F, 0xC0, 0, 0};
    fixture_write_idx("x", 0x0D, (uint32_t[]){1, 1, 2}, 3, values, 8);
    fixture_write_idx("y", 8, (uint32_t[]){1}, 1, three_labels, 1);
    struct data_spec spec = pair();
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "record 0, value 1 is nan");
}

static void labels_outside_the_classes_are_refused(void **state)
{
    (void)state;
    write_pair();
    struct data_spec spec = pair();
    spec.classes = 2;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "y: record 0: label 2 is outside 0..1");
    static const uint8_t negative[3] = {0, 0xFF, 1};
    fixture_write_idx("y", 9, (uint32_t[]){3}, 1, negative, 3);
    spec.classes = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "y: record 1: label -1 is outside");
    write_pair();
    fixture_write_idx("ty", 8, (uint32_t[]){3}, 1, (uint8_t[]){0, 1, 7}, 3);
    spec.test.file = spec.train.file;
    spec.test.labels = (char[]){"ty"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "ty: record 2: label 7 is outside 0..2");
}

static void limits_take_the_first_records(void **state)
{
    (void)state;
    write_pair();
    struct data_spec spec = pair();
    spec.test = spec.train;
    spec.train.limit = 2;
    spec.test.limit = 1;
    spec.classes = 3;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    assert_int_equal(dataset_info(train)->records, 2);
    assert_int_equal(dataset_info(test)->records, 1);
    dataset_free(train);
    dataset_free(test);
    fixture_write_idx("tx", 8, (uint32_t[]){3, 4}, 2, pixels, 12);
    spec.test.file = (char[]){"tx"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "a record has shape [4], in ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_read_and_scaled),
        cmocka_unit_test(gzip_gives_the_same_records),
        cmocka_unit_test(every_type_is_decoded),
        cmocka_unit_test(real_labels_are_read),
        cmocka_unit_test(truncated_files_name_byte_and_record),
        cmocka_unit_test(cut_and_damaged_gzip_is_refused),
        cmocka_unit_test(bytes_behind_the_records_are_refused),
        cmocka_unit_test(lying_headers_allocate_nothing),
        cmocka_unit_test(wrong_pairs_are_explained),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(values_that_are_no_numbers_are_refused),
        cmocka_unit_test(labels_outside_the_classes_are_refused),
        cmocka_unit_test(limits_take_the_first_records),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
