/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord: its frames and sums, tf.train.Example in them, and what features become. */
#include "unit/data/data_rig.h"

#include <math.h>
#include <zlib.h>

#include "data/sparse_fields.h"
#include "data/tfrecord.h"
#include "unit/data/tfrecord_rig.h"

static struct data_column columns[6];

static struct data_column column(const char *name, enum column_kind as)
{
    static char separator[] = "|";
    union {
        const char *in;
        char *out;
    } text = {.in = name}; /* nobody writes through it */
    return (struct data_column){.column = text.out,
                                .as = (int)as,
                                .hash = COLUMN_HASH_NONE,
                                .separator = separator,
                                .length = 1};
}

static void add_record(struct buf *file, bool packed, int64_t y, float x, int64_t key)
{
    struct buf f = {0};
    example_add_ints(&f, "y", packed, &y, 1);
    example_add_floats(&f, "x", packed, &x, 1);
    example_add_ints(&f, "v", packed, (int64_t[]){y + 1, -3}, 2);
    example_add_ints(&f, "k", packed, (int64_t[]){key, 2, key}, 3);
    example_add_texts(&f, "w", (const char *const[]){"red", "blue"}, 2);
    example_add_texts(&f, "unused", (const char *const[]){"?"}, 1);
    tfrecord_add_example(file, &f);
}

static struct data_spec spec_of(const struct buf *file)
{
    static char name[] = "x", none[] = "", vocabulary[] = "[blue, green]";
    fixture_write(name, file->len > 0 ? file->data : "", file->len);
    struct data_spec spec = fixture_spec(name, none);
    columns[0] = column("y", COLUMN_LABEL);
    columns[1] = column("x", COLUMN_NUMBER);
    columns[2] = column("v", COLUMN_NUMBER);
    columns[2].length = 2;
    columns[3] = column("k", COLUMN_SPARSE);
    columns[3].width = 4;
    columns[4] = column("w", COLUMN_SPARSE);
    columns[4].width = 3;
    columns[4].vocabulary = vocabulary;
    spec.format = DATA_FORMAT_TFRECORD;
    spec.columns = columns;
    spec.column_count = 5;
    return spec;
}

static void three_records(struct buf *file, bool packed)
{
    add_record(file, packed, 1, 0.5F, 7);
    add_record(file, packed, 0, -2, -1);
    add_record(file, packed, 1, 3, 4);
}

static void check_features(const struct dataset *d, const float *expected, size_t count)
{
    struct batch b = fixture_read(d);
    assert_int_equal(count, b.count * dataset_info(d)->features.dims[0]);
    for (size_t i = 0; i < count; i++) {
        if (b.features[i] != expected[i]) {
            fail_msg("feature %zu is %g, expected %g", i, (double)b.features[i],
                     (double)expected[i]);
        }
    }
    batch_release(&b);
}

/* ---- tests ---- */

static void examples_become_records(void **state)
{
    (void)state;
    /* x, v, v; columns of k by key mod 4; of w: blue is 0, red is what the vocabulary lacks. */
    static const float expected[] = {0.5F, 2, -3, 0, 0, 1, 1, 1,  0, 1, -2, 1, -3, 0, 0,
                                     1,    1, 1,  0, 1, 3, 2, -3, 1, 0, 1,  0, 1,  0, 1};
    for (int i = 0; i < 4; i++) {
        struct buf file = {0};
        three_records(&file, i % 2 == 0);
        struct data_spec spec = spec_of(&file);
        spec.format = i < 2 ? DATA_FORMAT_TFRECORD : DATA_FORMAT_AUTO;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        check_features(d, expected, 30);
        const struct sparse_fields *f = dataset_fields(d);
        assert_int_equal(sparse_fields_list(f, 0, 0).count, 2); /* 7 counts once */
        assert_int_equal(sparse_fields_list(f, 0, 0).keys[1], 7);
        assert_true(sparse_fields_list(f, 1, 0).keys[1] == UINT64_MAX); /* -1 */
        assert_int_equal(sparse_fields_list(f, 0, 1).keys[1], 2);
        assert_int_equal(dataset_info(d)->classes, 2);
        dataset_free(d);
        buf_release(&file);
    }
}

static void labels_are_of_any_kind(void **state)
{
    (void)state;
    struct buf file = {0};
    for (int i = 0; i < 2; i++) {
        struct buf f = {0};
        example_add_floats(&f, "y", true, (float[]){i == 0 ? 1.5F : -2}, 1);
        example_add_texts(&f, "name", (const char *const[]){i == 0 ? "b" : "a"}, 1);
        example_add_floats(&f, "x", true, (float[]){1}, 1);
        tfrecord_add_example(&file, &f);
    }
    struct data_spec spec = spec_of(&file);
    spec.column_count = 2;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    struct batch b = fixture_read(d);
    assert_true(b.targets[0] == 1.5F && b.targets[1] == -2);
    batch_release(&b);
    dataset_free(d);
    columns[0] = column("name", COLUMN_LABEL);
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    b = fixture_read(d);
    assert_true(b.classes[0] == 1 && b.classes[1] == 0);
    assert_string_equal(dataset_class_names(d)[0], "a");
    batch_release(&b);
    dataset_free(d);
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID,
                    "x: record 0 at byte 0: feature \"name\" is the label, and holds bytes");
    buf_release(&file);
}

static void ranges_name_features(void **state)
{
    (void)state;
    struct buf file = {0}, f = {0};
    example_add_ints(&f, "y", true, (int64_t[]){1}, 1);
    for (int i = 1; i <= 3; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "C%d", i);
        example_add_ints(&f, name, true, (int64_t[]){10 * i}, 1);
    }
    tfrecord_add_example(&file, &f);
    struct data_spec spec = spec_of(&file);
    columns[1] = column("C1..C3", COLUMN_SPARSE);
    columns[1].width = 7;
    spec.column_count = 2;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_fields(d)->count, 3);
    assert_string_equal(dataset_fields(d)->fields[2].name, "C3");
    assert_int_equal(sparse_fields_list(dataset_fields(d), 0, 2).keys[0], 30);
    dataset_free(d);
    buf_release(&file);
}

static void damage_is_found_where_it_is(void **state)
{
    (void)state;
    struct buf file = {0};
    add_record(&file, true, 1, 0.5F, 7);
    const size_t record = file.len;
    buf_reset(&file);
    three_records(&file, true);
    struct data_spec spec = spec_of(&file);
    char message[200];
    for (size_t cut = 1; cut < record; cut += cut < 12 ? 1 : 20) {
        fixture_write("x", file.data, record + cut);
        (void)snprintf(message, sizeof message,
                       cut < 12 ? "x: record 1 at byte %zu: the file is cut off: it ends in the "
                                  "record's length"
                                : "x: record 1 at byte %zu: the file is cut off: it ends at byte",
                       record);
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, message);
        spec.bad_records = 5; /* what is cut off is no bad record */
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, message);
        spec.bad_records = 0;
    }
    file.data[record + 3] ^= 1;
    fixture_write("x", file.data, file.len);
    spec.bad_records = 5;
    (void)snprintf(message, sizeof message,
                   "x: record 1 at byte %zu: the checksum of its length is wrong: the file is dam",
                   record);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, message);
    file.data[record + 3] ^= 1;
    file.data[record + 20] ^= 1;
    fixture_write("x", file.data, file.len);
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    const char *first;
    assert_int_equal(dataset_info(d)->records, 2);
    assert_int_equal(dataset_bad_records(d, &first), 1);
    (void)snprintf(message, sizeof message,
                   "x: record 1 at byte %zu: the checksum of its bytes is wrong: it is damaged",
                   record);
    assert_non_null(strstr(first, message));
    dataset_free(d);
    spec.bad_records = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, message);
    fixture_text("x", "this is a text, and nothing else");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT,
                    "x: record 0 at byte 0: the checksum of its length is wrong: this is no TFRec");
    fixture_text("x", "");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "x: there are no records");
    buf_release(&file);
}

static void packed_files_are_unpacked(void **state)
{
    (void)state;
    struct buf file = {0};
    three_records(&file, true);
    struct data_spec spec = spec_of(&file);
    spec.format = DATA_FORMAT_AUTO;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    const uint64_t plain = dataset_info(d)->fingerprint;
    dataset_free(d);
    for (int kind = 0; kind < 3; kind++) {
        uint8_t packed[2048];
        uLongf n = sizeof packed;
        if (kind == 0) {
            fixture_write_gz("x", file.data, file.len);
        } else if (kind == 1) {
            fixture_write_zstd("x", file.data, file.len);
        } else {
            assert_int_equal(compress(packed, &n, (const Bytef *)file.data, file.len), Z_OK);
            fixture_write("x", packed, n);
        }
        d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        assert_true(dataset_info(d)->fingerprint == plain);
        dataset_free(d);
        if (kind == 2) {
            fixture_write("x", packed, n - 5);
            fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "the zlib file is cut off");
            packed[20] ^= 0xFF;
            fixture_write("x", packed, n);
            spec.format = DATA_FORMAT_TFRECORD;
            struct dataset *train = NULL, *test = NULL;
            assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &train, &test, NULL),
                             ERR_CORRUPT);
        }
    }
    buf_release(&file);
}

/* A length may begin like a packed file: 0x9C78 is the beginning of zlib, 0x8B1F of gzip. */
static void lengths_are_no_packing(void **state)
{
    (void)state;
    static const size_t lengths[] = {0x9C78, 0x8B1F, 0x0178};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct buf file = {0}, f = {0};
        example_add_ints(&f, "y", true, (int64_t[]){1}, 1);
        example_add_floats(&f, "x", true, (float[]){1}, 1);
        const size_t base = f.len, around = 40;
        char *filler = mem_new(lengths[i], 1);
        memset(filler, 'a', lengths[i] - 1);
        filler[lengths[i] - base - around] = '\0';
        example_add_texts(&f, "f", (const char *const[]){filler}, 1);
        struct buf example = {0};
        example_add_bytes(&example, 1, f.data, f.len);
        assert_true(lengths[i] - example.len > 2);
        if ((lengths[i] - example.len) % 2 == 1) { /* unknown fields of three and two bytes */
            buf_add(&example, "\x38\x81\x00", 3);
        }
        while (example.len < lengths[i]) {
            buf_add(&example, "\x38\x01", 2);
        }
        assert_int_equal(example.len, lengths[i]);
        tfrecord_add_frame(&file, &example);
        struct data_spec spec = spec_of(&file);
        spec.column_count = 2;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        assert_int_equal(dataset_info(d)->records, 1);
        dataset_free(d);
        free(filler);
        buf_release(&f);
        buf_release(&example);
        buf_release(&file);
    }
}

/* One feature "x" beside the label, and what is said of it. */
static void feature_refused(struct buf *features, struct data_column c, const char *message)
{
    struct buf file = {0};
    example_add_ints(features, "y", true, (int64_t[]){1}, 1);
    tfrecord_add_example(&file, features);
    struct data_spec spec = spec_of(&file);
    columns[1] = c;
    spec.column_count = 2;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, message);
    buf_release(&file);
}

static void wrong_features_are_named(void **state)
{
    (void)state;
    struct buf f = {0};
    struct data_column number = column("x", COLUMN_NUMBER), keys = column("x", COLUMN_SPARSE);
    keys.width = 5;
    feature_refused(&f, number, "x: record 0 at byte 0: feature \"x\" is missing; set missing");
    example_add_texts(&f, "x", (const char *const[]){"a"}, 1);
    feature_refused(&f, number, "feature \"x\" holds bytes; expected float or int64");
    example_add_floats(&f, "x", true, (float[]){1, 2}, 2);
    feature_refused(&f, number, "feature \"x\" has 2 values, expected 1 (length of the column)");
    example_add_floats(&f, "x", true, (float[]){INFINITY}, 1);
    feature_refused(&f, number, "feature \"x\" has an infinite value");
    example_add_floats(&f, "x", true, (float[]){NAN}, 1);
    feature_refused(&f, number, "feature \"x\" is missing");
    example_add_ints(&f, "x", true, NULL, 0);
    feature_refused(&f, number, "feature \"x\" is missing");
    example_add_ints(&f, "x", true, (int64_t[]){1}, 1);
    example_add_ints(&f, "x", true, (int64_t[]){1}, 1);
    feature_refused(&f, number, "feature \"x\" stands there twice");
    example_add_floats(&f, "x", true, (float[]){1}, 1);
    feature_refused(&f, keys, "feature \"x\" holds floats, which are no keys");
    example_add_texts(&f, "x", (const char *const[]){"a"}, 1);
    feature_refused(&f, keys, "feature \"x\" holds bytes, which are no keys without a hash");
    example_add_ints(&f, "x", true, (int64_t[]){1}, 1);
    feature_refused(&f, column("x", COLUMN_CATEGORY), "data.columns.1.as: categories of a TFRec");
    example_add_ints(&f, "x", true, (int64_t[]){1}, 1);
    feature_refused(&f, column("y", COLUMN_NUMBER), "means \"y\", which data.columns.0 declares");
    example_add_ints(&f, "x", true, (int64_t[]){1}, 1);
    feature_refused(&f, column("x", COLUMN_IGNORE), "no entry of data.columns is a number or spa");
    example_add_bytes(&f, 1, "\x0a\x05x", 3); /* a name of 5 bytes, of which there is one */
    feature_refused(&f, number, "x: record 0 at byte 0: this is no tf.train.Example");
}

static void missing_labels_and_declarations(void **state)
{
    (void)state;
    struct buf file = {0}, f = {0};
    example_add_ints(&f, "x", true, (int64_t[]){1}, 1);
    example_add_floats(&f, "z", true, (float[]){1}, 1);
    tfrecord_add_example(&file, &f);
    struct data_spec spec = spec_of(&file);
    spec.column_count = 2;
    spec.missing = DATA_MISSING_ZERO;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "feature \"y\" is the label, and is missing");
    columns[0].as = COLUMN_NUMBER;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x: no entry of data.columns is the label; give one 'as: label'");
    spec.column_count = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "declare them in data.columns; the first record has: x (int64), z (float)");
    spec.train.labels = (char[]){"x"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.train.labels is set, but records of a TFRecord file have the label");
    buf_release(&file);
}

/* No bytes at all: an Example without features. */
static void an_empty_example_lacks_everything(void **state)
{
    (void)state;
    struct buf file = {0}, nothing = {0};
    tfrecord_add_frame(&file, &nothing);
    struct data_spec spec = spec_of(&file);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "feature \"y\" is the label, and is missing");
    spec.column_count = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "declare them in data.columns");
    buf_release(&file);
}

static void missing_values_follow_the_job(void **state)
{
    (void)state;
    struct buf file = {0};
    for (int i = 0; i < 3; i++) {
        struct buf f = {0};
        example_add_ints(&f, "y", true, (int64_t[]){i % 2}, 1);
        if (i != 1) {
            example_add_floats(&f, "x", true, (float[]){(float)i}, 1);
        }
        tfrecord_add_example(&file, &f);
    }
    struct data_spec spec = spec_of(&file);
    spec.column_count = 2;
    spec.missing = DATA_MISSING_MEAN;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    check_features(d, (float[]){0, 1, 2}, 3);
    dataset_free(d);
    spec.missing = DATA_MISSING_SKIP;
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    check_features(d, (float[]){0, 2}, 2);
    dataset_free(d);
    spec.missing = DATA_MISSING_ZERO;
    columns[2] = column("k", COLUMN_SPARSE);
    columns[2].width = 2;
    spec.column_count = 3;
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    check_features(d, (float[]){0, 0, 0, 0, 0, 0, 2, 0, 0}, 9);
    dataset_free(d);
    buf_release(&file);
}

/* A float or an int64 that is no feature; of train records alone. */
static void records_have_weights(void **state)
{
    (void)state;
    static const struct {
        float weights[2];
        size_t count;
        const char *said;
    } cases[] = {
        {{0.5F, 0}, 1, NULL},
        {{-1, 0}, 1, "record 1 at byte "},
        {{-1, 0}, 1, "feature \"w\" is the weight, and below 0"},
        {{(float)INFINITY, 0}, 1, "feature \"w\" has an infinite value"},
        {{(float)NAN, 0}, 1, "feature \"w\" is the weight, and is missing"},
        {{1, 2}, 2, "feature \"w\" has 2 values, expected 1"},
        {{0, 0}, 0, "feature \"w\" is the weight, and is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf file = {0};
        for (int64_t k = 0; k < 3; k++) {
            struct buf f = {0};
            example_add_ints(&f, "y", true, &k, 1);
            example_add_floats(&f, "x", true, (float[]){2}, 1);
            if (k == 1) {
                example_add_floats(&f, "w", true, cases[i].weights, cases[i].count);
            } else {
                example_add_ints(&f, "w", true, (int64_t[]){k + 3}, 1);
            }
            tfrecord_add_example(&file, &f);
        }
        struct data_spec spec = spec_of(&file);
        spec.column_count = 2;
        spec.weight = (char[]){"w"};
        if (cases[i].said != NULL) {
            fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].said);
        } else {
            struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
            struct batch b = fixture_read(d);
            check_features(d, (float[]){2, 2, 2}, 3);
            assert_true(b.weights[0] == 3 && b.weights[1] == 0.5F && b.weights[2] == 5);
            batch_release(&b);
            dataset_free(d);
        }
        spec.weight = (char[]){"x"};
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                        "data.weight means \"x\", which data.columns.1 declares already");
        buf_release(&file);
    }
}

/* Any damage gives an error or other values, never a crash: sums are made to fit, so that the
 * bytes reach the parser. */
static void broken_examples_do_no_harm(void **state)
{
    (void)state;
    struct buf good = {0};
    add_record(&good, true, 1, 0.5F, 7);
    const size_t n = good.len - 16;
    for (size_t i = 0; i < n * 8; i++) {
        struct buf file = {0}, example = {0};
        buf_add(&example, good.data + 12, n);
        example.data[i / 8] = (char)(example.data[i / 8] ^ (1 << i % 8));
        example.len = i % 3 == 0 ? i / 8 + 1 : n;
        tfrecord_add_frame(&file, &example);
        struct data_spec spec = spec_of(&file);
        struct dataset *train = NULL, *test = NULL;
        struct err err = {0};
        int rc = dataset_open(&spec, DATA_LABEL_CLASS, &train, &test, &err);
        assert_true(rc == 0 || err.msg[0] != '\0');
        dataset_free(train);
        buf_release(&example);
        buf_release(&file);
    }
    buf_release(&good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_become_records),
        cmocka_unit_test(labels_are_of_any_kind),
        cmocka_unit_test(ranges_name_features),
        cmocka_unit_test(damage_is_found_where_it_is),
        cmocka_unit_test(packed_files_are_unpacked),
        cmocka_unit_test(lengths_are_no_packing),
        cmocka_unit_test(wrong_features_are_named),
        cmocka_unit_test(missing_labels_and_declarations),
        cmocka_unit_test(an_empty_example_lacks_everything),
        cmocka_unit_test(missing_values_follow_the_job),
        cmocka_unit_test(records_have_weights),
        cmocka_unit_test(broken_examples_do_no_harm),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
