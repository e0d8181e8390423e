/* SPDX-License-Identifier: Apache-2.0 */
/* libFFM, and LIBSVM whose indices are keys: lines become sparse fields, and columns of these. */
#include "unit/data/data_rig.h"

#include "data/sparse_fields.h"

#define COLUMNS_MAX 4

static struct data_column columns[COLUMNS_MAX];

static struct data_column sparse(const char *name, int64_t width)
{
    static char separator[] = "|";
    union {
        const char *in;
        char *out;
    } text = {.in = name}; /* nobody writes through it */
    return (struct data_column){.column = text.out,
                                .as = COLUMN_SPARSE,
                                .hash = COLUMN_HASH_NONE,
                                .separator = separator,
                                .width = width};
}

/* Fields 0 and 2 as 4 columns each, what falls where being their indices mod 4. */
static struct data_spec ffm_spec(const char *text)
{
    static char file[] = "x", none[] = "";
    fixture_text(file, text);
    struct data_spec spec = fixture_spec(file, none);
    columns[0] = sparse("0", 4);
    columns[1] = sparse("2..2", 4);
    spec.format = DATA_FORMAT_LIBFFM;
    spec.columns = columns;
    spec.column_count = 2;
    return spec;
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

static void lines_become_lists(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1 0:1:0.5 2:7:-2\n0 2:2:1e1 1:5:1\n",
        "1 0:1:0.5 2:7:-2\r\n0 2:2:1e1 1:5:1\r\n",
        "1 2:7:-2 0:1:0.5\n0 1:5:1 2:2:10", /* any order */
        "# two\n\n1\t0:1:.5   2:7:-2.0 # first\n   \n0 2:2:+10\n#\n",
        "\357\273\2771 0:1:0.5 2:7:-2\n0 2:2:10\n",
    };
    static const float expected[] = {0, 0.5F, 0, 0, 0, 0, 0, -2, 0, 0, 0, 0, 0, 0, 10, 0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct data_spec spec = ffm_spec(texts[i]);
        spec.format = i % 2 == 0 ? DATA_FORMAT_LIBFFM : DATA_FORMAT_AUTO;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        check_features(d, expected, 16);
        assert_int_equal(dataset_info(d)->classes, 2);
        const struct sparse_fields *f = dataset_fields(d);
        assert_int_equal(f->count, 2);
        assert_string_equal(f->fields[1].name, "2");
        assert_int_equal(sparse_fields_list(f, 0, 1).keys[0], 7);
        assert_int_equal(sparse_fields_list(f, 1, 0).count, 0);
        assert_int_equal(dataset_bytes(d), sparse_fields_bytes(f) + 2 * 4);
        dataset_free(d);
    }
}

static void keys_have_64_bits(void **state)
{
    (void)state;
    struct data_spec spec = ffm_spec("1 0:18446744073709551615:1\n0 0:0:1\n0\n");
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_true(sparse_fields_list(dataset_fields(d), 0, 0).keys[0] == UINT64_MAX);
    assert_int_equal(sparse_fields_list(dataset_fields(d), 2, 0).count, 0); /* a label alone */
    check_features(
        d, (float[]){0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 24);
    dataset_free(d);
}

static void wrong_lines_name_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"1 0:1:1\n0 2:1:1 0:3:1 2:1:3\n",
         "x:2:1: \"0\" begins a record whose field 2 has index 1 twice"},
        {"1 0:1\n", "x:1:3: \"0:1\" has one colon; expected field:index:value (index:value is LIB"},
        {"1 0:1:\n", "x:1:3: \"0:1:\" has no value"},
        {"1 0:1:x\n", "x:1:7: \"x\" is not a finite number"},
        {"1 0:1:nan\n", "x:1:7: \"nan\" is not a finite number"},
        {"1 0:1:1e39\n", "x:1:7: \"1e39\" is not a finite number"},
        {"1 0:1:2:3\n", "x:1:7: \"2:3\" is not a finite number"},
        {"1 0::1\n", "x:1:5: \":1\" is no index"},
        {"1 0:-1:1\n", "x:1:5: \"-1:1\" is no index"},
        {"1 0:18446744073709551616:1\n", "x:1:5: \"18446744073709551616:1\" has an index above"},
        {"1 a:1:1\n", "x:1:3: \"a:1:1\" is not a feature; expected field:index:value"},
        {"1 0\n", "x:1:3: \"0\" is not a feature"},
        {"0:1:1\n", "x:1:1: \"0:1:1\" stands where the label is expected"},
        {"x 0:1:1\n", "x:1:1: \"x\" is no label"},
        {"1,0 0:1:1\n", "x:1:1: \"1,0\" are several labels"},
        {"\n# none\n", "x: there are no records"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = ffm_spec(cases[i].text);
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].message);
    }
    struct data_spec spec = ffm_spec("1 0:1:1\n");
    fixture_write("x", "1 0:1:1\n0 0:\0:1\n", 16);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "x:2:5: a NUL byte");
    spec = ffm_spec("1 0:1:1\n");
    spec.train.labels = (char[]){"x"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.train.labels is set, but a libFFM file has the label at the beginning");
}

static void bad_records_are_left_out(void **state)
{
    (void)state;
    struct data_spec spec = ffm_spec("1 0:1:1\n0 0:1\n1 0:1:1 0:1:2\n0 0:2:1\n");
    spec.bad_records = 2;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    const char *first;
    assert_int_equal(dataset_bad_records(d, &first), 2);
    assert_non_null(strstr(first, "x:2:3: \"0:1\" has one colon"));
    check_features(d, (float[]){0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, 16);
    dataset_free(d);
    spec.bad_records = 1;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "twice; these are more bad records than data.bad_records: 1");
}

static void declarations_must_fit(void **state)
{
    (void)state;
    static const struct {
        const char *column;
        enum column_kind as;
        const char *message;
    } cases[] = {
        {"a", COLUMN_SPARSE, "data.columns.1.column: \"a\" is no field; fields of libFFM are nu"},
        {"3..1", COLUMN_SPARSE, "data.columns.1.column: \"3..1\" is no range of 1 to 100000 names"},
        {"1..", COLUMN_SPARSE, "data.columns.1.column: \"1..\" is no range; expected one such as"},
        {"a1..b2", COLUMN_SPARSE, "data.columns.1.column: \"a1..b2\" is no range"},
        {"0..3", COLUMN_SPARSE, "data.columns.1.column means field 0, which an entry before"},
        {"1", COLUMN_NUMBER, "data.columns.1.as: what a libFFM file has beside the label are keys"},
        {"1..5000", COLUMN_SPARSE, "more than 4096 sparse fields"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = ffm_spec("1 0:1:1\n");
        columns[1] = sparse(cases[i].column, 4);
        columns[1].as = (int)cases[i].as;
        fixture_refused(&spec, DATA_LABEL_CLASS, i == 6 ? ERR_EXHAUSTED : ERR_INVALID,
                        cases[i].message);
    }
    struct data_spec spec = ffm_spec("1 0:1:1\n");
    spec.column_count = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x: a libFFM file has sparse fields; declare them in data.columns");
    spec = ffm_spec("1 0:1:1\n");
    columns[0].width = columns[1].width = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "no layer reads the sparse field 0, and it has no width");
    columns[0].width = columns[1].width = 600000;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_EXHAUSTED,
                    "the declared columns give 1200000 features; allowed are up to 1000000");
    columns[1].as = COLUMN_IGNORE;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_fields(d)->count, 1);
    dataset_free(d);
}

/* One file, two files, packed files: the same records. A part set aside keeps its lists. */
static void parts_keep_their_lists(void **state)
{
    (void)state;
    struct buf all = {0};
    for (int i = 0; i < 60; i++) {
        buf_printf(&all, "%d 0:%d:1 2:%d:0.%d\n", i % 2, i, i * 3, i + 1);
    }
    struct data_spec spec = ffm_spec(buf_str(&all));
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL), *test;
    const uint64_t whole = dataset_info(d)->fingerprint;
    dataset_free(d);
    fixture_write_gz("x", all.data, all.len);
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(d)->fingerprint == whole);
    dataset_free(d);
    fixture_write_zstd("x", all.data, all.len);
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(d)->fingerprint == whole);
    dataset_free(d);
    const size_t half = (size_t)(strstr(all.data, "\n0 0:30:") + 1 - all.data);
    fixture_write("part-1", all.data, half);
    fixture_write("part-2", all.data + half, all.len - half);
    spec.train.file = (char[]){"part-*"};
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(d)->fingerprint == whole);
    dataset_free(d);
    spec.test_fraction = 0.3;
    d = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    const struct sparse_fields *parts[] = {dataset_fields(d), dataset_fields(test)};
    assert_int_equal(parts[0]->records, dataset_info(d)->records);
    assert_int_equal(parts[0]->records + parts[1]->records, 60);
    for (size_t p = 0; p < 2; p++) {
        struct batch b = fixture_read(p == 0 ? d : test);
        for (uint64_t i = 0; i < parts[p]->records; i++) {
            uint64_t key = sparse_fields_list(parts[p], i, 0).keys[0];
            assert_int_equal(key % 2, b.classes[i]); /* the label of the very record */
            assert_int_equal(sparse_fields_list(parts[p], i, 1).keys[0], 3 * key);
        }
        batch_release(&b);
    }
    dataset_free(d);
    dataset_free(test);
    spec.test_fraction = 0;
    spec.train.limit = 31;
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_fields(d)->records, 31);
    dataset_free(d);
    buf_release(&all);
}

static void libsvm_as_one_field(void **state)
{
    (void)state;
    struct data_spec spec = ffm_spec("1 3:0.5 1:-2\n0 18446744073709551615:1\n0\n");
    spec.column_count = 1;
    columns[0] = sparse("features", 4);
    for (int i = 0; i < 2; i++) {
        spec.format = i == 0 ? DATA_FORMAT_LIBSVM : DATA_FORMAT_AUTO;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        assert_string_equal(dataset_fields(d)->fields[0].name, "features");
        assert_true(sparse_fields_list(dataset_fields(d), 1, 0).keys[0] == UINT64_MAX);
        check_features(d, (float[]){0, -2, 0, 0.5F, 0, 0, 0, 1, 0, 0, 0, 0}, 12);
        dataset_free(d);
    }
    fixture_text("x", "1 3:1 3:2\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x:1:1: \"1\" begins a record that has index 3 twice");
    fixture_text("x", "1 18446744073709551616:1\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "has an index above 2^64 - 1");
    fixture_text("x", "1 3:\n");
    spec.format = DATA_FORMAT_LIBSVM;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "x:1:3: \"3:\" has no value");
    columns[0].vocabulary = (char[]){"[a]"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.columns.0: the keys of a LIBSVM file are numbers already");
    columns[0].as = COLUMN_NUMBER;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "a LIBSVM file has no columns to declare; data.columns may have one entry");
}

/* Dense features and columns of keys give a model the same numbers, where the keys are not hashed.
 */
static void dense_and_sparse_agree(void **state)
{
    (void)state;
    struct data_spec spec = ffm_spec("1 1:0.5 3:-2\n0 2:4 5:1\n");
    spec.format = DATA_FORMAT_LIBSVM;
    spec.scale = DATA_SCALE_NONE;
    spec.column_count = 0;
    spec.first_index = 0;
    struct dataset *dense = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    spec.column_count = 1;
    columns[0] = sparse("features", 6);
    struct dataset *keys = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(dense)->features.dims[0], 6);
    struct batch b = fixture_read(dense);
    check_features(keys, b.features, 12);
    batch_release(&b);
    dataset_free(dense);
    dataset_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_lists),           cmocka_unit_test(keys_have_64_bits),
        cmocka_unit_test(wrong_lines_name_their_place), cmocka_unit_test(bad_records_are_left_out),
        cmocka_unit_test(declarations_must_fit),        cmocka_unit_test(parts_keep_their_lists),
        cmocka_unit_test(libsvm_as_one_field),          cmocka_unit_test(dense_and_sparse_agree),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
