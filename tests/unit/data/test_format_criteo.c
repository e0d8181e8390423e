/* SPDX-License-Identifier: Apache-2.0 */
/* Criteo's clicks: counts become numbers, hexadecimal categories keys; empty fields, cut lines, and
 * what is refused. */
#include "unit/data/data_rig.h"

#include <math.h>

#include "data/sparse_fields.h"

static struct data_column columns[4];

static struct data_column column(const char *name, enum column_kind as)
{
    static char separator[] = "|";
    union {
        const char *in;
        char *out;
    } text = {.in = name}; /* nobody writes through it */
    return (struct data_column){
        .column = text.out, .as = (int)as, .hash = COLUMN_HASH_NONE, .separator = separator};
}

/* Two counts and the last two categories, with 16 columns each. */
static struct data_spec clicks_spec(const char *text)
{
    static char file[] = "x", none[] = "";
    fixture_text(file, text);
    struct data_spec spec = fixture_spec(file, none);
    columns[0] = column("label", COLUMN_LABEL);
    columns[1] = column("I1..I2", COLUMN_NUMBER);
    columns[2] = column("C25..C26", COLUMN_SPARSE);
    columns[2].width = 16;
    spec.format = DATA_FORMAT_CRITEO;
    spec.missing = DATA_MISSING_ZERO;
    spec.columns = columns;
    spec.column_count = 3;
    return spec;
}

/* A line with these fields in places 0, 1, 2, 38 and 39, and "0" or "68fd1e64" elsewhere. */
static void add_line(struct buf *out, const char *label, const char *i1, const char *i2,
                     const char *c25, const char *c26)
{
    buf_printf(out, "%s\t%s\t%s", label, i1, i2);
    for (int j = 3; j < 38; j++) {
        buf_printf(out, "\t%s", j < 14 ? "0" : "68fd1e64");
    }
    buf_printf(out, "\t%s\t%s\n", c25, c26);
}

static void lines_become_records(void **state)
{
    (void)state;
    struct buf text = {0};
    add_line(&text, "1", "5", "-2", "80e26c9b", "FB936136");
    add_line(&text, "0", "", "3", "", "ffffffffffffffff");
    for (int i = 0; i < 2; i++) {
        struct data_spec spec = clicks_spec(buf_str(&text));
        spec.format = i == 0 ? DATA_FORMAT_CRITEO : DATA_FORMAT_AUTO;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        const struct sparse_fields *f = dataset_fields(d);
        assert_int_equal(dataset_info(d)->features.dims[0], 2 + 32);
        assert_string_equal(f->fields[0].name, "C25");
        assert_int_equal(sparse_fields_list(f, 0, 0).keys[0], 0x80e26c9b);
        assert_int_equal(sparse_fields_list(f, 0, 1).keys[0], 0xfb936136);
        assert_int_equal(sparse_fields_list(f, 1, 0).count, 0);
        assert_true(sparse_fields_list(f, 1, 1).keys[0] == UINT64_MAX);
        assert_null(sparse_fields_list(f, 0, 0).weights);
        struct batch b = fixture_read(d);
        assert_true(b.features[0] == 5 && b.features[1] == -2 && b.classes[0] == 1);
        assert_true(b.features[2 + 0xb] == 1 && b.features[18 + 0x6] == 1);
        assert_true(b.features[34] == 0 && b.features[35] == 3 && b.features[34 + 18 + 15] == 1);
        batch_release(&b);
        dataset_free(d);
    }
    buf_release(&text);
}

static void counts_may_be_keys(void **state)
{
    (void)state;
    struct buf text = {0};
    add_line(&text, "1", "5", "-2", "", "");
    struct data_spec spec = clicks_spec(buf_str(&text));
    columns[1] = column("1..2", COLUMN_SPARSE); /* by number, too */
    columns[1].width = 4;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_fields(d)->count, 4);
    assert_string_equal(dataset_fields(d)->fields[0].name, "I1");
    assert_true(sparse_fields_list(dataset_fields(d), 0, 1).keys[0] == (uint64_t)-2);
    assert_int_equal(dataset_info(d)->features.dims[0], 8 + 32);
    dataset_free(d);
    text.len = 0;
    add_line(&text, "1", "5.5", "-2", "", "");
    fixture_text("x", buf_str(&text));
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "x:1:3: \"5.5\" is no whole number");
    buf_release(&text);
}

/* Lines of the test file of Criteo: all fields but the label. */
static void a_missing_label_is_told(void **state)
{
    (void)state;
    struct buf text = {0};
    add_line(&text, "1", "1", "1", "1", "1");
    struct data_spec spec = clicks_spec(buf_str(&text) + 2);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x:1: 39 fields, expected 40: the label is missing");
    buf_release(&text);
}

static void lines_may_be_cut(void **state)
{
    (void)state;
    struct buf text = {0};
    add_line(&text, "1", "1", "1", "1", "1");
    buf_printf(&text, "0\t7\t8\t\t\t\t\t\t\t\t\t\t\t\t0a\n1\n");
    struct data_spec spec = clicks_spec(buf_str(&text));
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x:2: 15 fields, expected 40; data.short_rows: missing takes those at the end");
    spec.short_rows = DATA_SHORT_ROWS_MISSING;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    struct batch b = fixture_read(d);
    assert_true(b.features[34] == 7 && b.features[35] == 8);
    assert_int_equal(sparse_fields_list(dataset_fields(d), 1, 0).count, 0);
    assert_int_equal(b.classes[2], 1);
    batch_release(&b);
    dataset_free(d);
    spec.missing = DATA_MISSING_SKIP;
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 1);
    assert_int_equal(dataset_fields(d)->records, 1);
    dataset_free(d);
    spec.missing = DATA_MISSING_ERROR;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "C25 is missing; set missing of the col");
    spec.missing = DATA_MISSING_SKIP;
    fixture_text("x", "1\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x: no records: all 1 lack a value and data.missing is skip");
    spec.missing = DATA_MISSING_MEAN;
    fixture_text("x", "1\t4\t1\n0\t\t1\n");
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    b = fixture_read(d);
    assert_true(b.features[34] == 4); /* the mean of the others */
    batch_release(&b);
    dataset_free(d);
    buf_release(&text);
}

static void wrong_lines_name_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *label, *i1, *c25, *message;
    } cases[] = {
        {"1", "x", "1", "x:1:3: \"x\" is no number"},
        {"1", "1e39", "1", "x:1:3: \"1e39\" is no number"},
        {"1", "1 2", "1", "x:1:3: \"1\" is no number"},
        {"1", "1", "g1", "\"g1\" is no category; expected a hexadecimal number of up to 16"},
        {"1", "1", "11111111111111111", "\"11111111111111111\" is no category"},
        {"1", "1", "1 ", "\"1\" is no category"},
        {"", "1", "1", "x:1:1: \"\" is no label"},
        {"1 ", "1", "1", "x:1:1: \"1\" is followed by a blank; expected a tab"},
        {"1", "1", "1\t2", "x:1: more than 40 fields, expected 40"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf text = {0};
        add_line(&text, cases[i].label, cases[i].i1, "1", cases[i].c25, "1");
        add_line(&text, "0", "1", "1", "1", "1");
        struct data_spec spec = clicks_spec(buf_str(&text));
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].message);
        spec.bad_records = 1;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
        assert_int_equal(dataset_info(d)->records, 1);
        assert_int_equal(dataset_fields(d)->records, 1);
        dataset_free(d);
        buf_release(&text);
    }
}

static void declarations_must_fit(void **state)
{
    (void)state;
    static const struct {
        const char *column;
        enum column_kind as;
        const char *message;
    } cases[] = {
        {"I1", COLUMN_LABEL, "means column 1 (\"I1\"), which data.columns.1 declares already"},
        {"C1", COLUMN_NUMBER, "data.columns.3.as: this is not what C1 of a Criteo file can be"},
        {"I3", COLUMN_CATEGORY, "this is not what I3 of a Criteo file can be; allowed: number, sp"},
        {"C27", COLUMN_SPARSE, "data.columns.3.column names column \"C27\""},
        {"C24..C25", COLUMN_SPARSE, "which data.columns.2 declares already"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = clicks_spec("1\n");
        columns[3] = column(cases[i].column, cases[i].as);
        columns[3].width = cases[i].as == COLUMN_SPARSE ? 3 : 0;
        spec.column_count = 4;
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].message);
    }
    struct data_spec spec = clicks_spec("1\n");
    columns[0].column = (char[]){"I9"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.columns.0.as: this is not what I9 of a Criteo file can be");
    spec = clicks_spec("1\n");
    spec.column_count = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x: a Criteo file has counts and sparse fields; declare in data.columns");
    spec = clicks_spec("1\n");
    columns[2].vocabulary = (char[]){"[a]"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "the keys of a Criteo file are numbers already");
}

/* Tables of tabs with a separator that is set stay CSV, and so do others. */
static void tables_stay_tables(void **state)
{
    (void)state;
    struct buf text = {0};
    add_line(&text, "1", "1", "1", "80e26c9b", "80e26c9b");
    add_line(&text, "0", "1", "1", "80e26c9b", "80e26c9b");
    struct data_spec spec = clicks_spec(buf_str(&text));
    spec.format = DATA_FORMAT_AUTO;
    spec.separator = (char[]){"tab"};
    spec.header = DATA_HEADER_FALSE;
    columns[0].column = (char[]){"0"};
    columns[1].column = (char[]){"1..2"};
    columns[2] = column("39", COLUMN_CATEGORY);
    columns[2].hash = COLUMN_HASH_XXH3;
    columns[2].buckets = 5;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_string_equal(dataset_format(d), "csv");
    assert_int_equal(dataset_info(d)->features.dims[0], 7);
    dataset_free(d);
    buf_release(&text);
}

static void parts_keep_their_lists(void **state)
{
    (void)state;
    struct buf all = {0};
    for (int i = 0; i < 50; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", i);
        add_line(&all, i % 2 == 0 ? "0" : "1", number, "1", number, "aaaaaaaa");
    }
    struct data_spec spec = clicks_spec(buf_str(&all));
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL), *test;
    uint64_t whole = dataset_info(d)->fingerprint;
    dataset_free(d);
    fixture_write_zstd("x", all.data, all.len);
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(d)->fingerprint == whole);
    dataset_free(d);
    spec.test_fraction = 0.4;
    d = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    for (int p = 0; p < 2; p++) {
        const struct dataset *part = p == 0 ? d : test;
        struct batch b = fixture_read(part);
        for (uint64_t i = 0; i < dataset_info(part)->records; i++) {
            char number[16];
            (void)snprintf(number, sizeof number, "%.0f", (double)b.features[i * 34]);
            uint64_t key = sparse_fields_list(dataset_fields(part), i, 0).keys[0];
            assert_int_equal(key, strtoul(number, NULL, 16));
        }
        batch_release(&b);
        dataset_free(p == 0 ? d : test);
    }
    buf_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_records),         cmocka_unit_test(counts_may_be_keys),
        cmocka_unit_test(a_missing_label_is_told),      cmocka_unit_test(lines_may_be_cut),
        cmocka_unit_test(wrong_lines_name_their_place), cmocka_unit_test(declarations_must_fit),
        cmocka_unit_test(tables_stay_tables),           cmocka_unit_test(parts_keep_their_lists),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
