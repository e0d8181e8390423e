/* SPDX-License-Identifier: Apache-2.0 */
/* Declared columns: what each kind of column becomes, cell by cell, and what is refused. */
#include "support/test.h"

#include <math.h>

#include "data/column_spec.h"
#include "data/column_vocabulary.h"
#include "unit/data/data_rig.h"

#define COLUMNS_MAX 8

static struct data_column columns[COLUMNS_MAX];

static struct data_column column(const char *name, enum column_kind as)
{
    static char separator[] = "|";
    union {
        const char *in;
        char *out;
    } text = {.in = name}; /* nobody writes through it */
    return (struct data_column){.column = text.out, .as = (int)as, .separator = separator};
}

/* A spec of the file @text, whose label is the column "y", and of @c, which come behind it. */
static struct data_spec spec_of(const char *text, const struct data_column *c, size_t count)
{
    static char file[] = "t.csv", none[] = "";
    fixture_text(file, text);
    struct data_spec spec = fixture_spec(file, none);
    assert_true(count < COLUMNS_MAX);
    columns[0] = column("y", COLUMN_LABEL);
    for (size_t i = 0; i < count; i++) {
        columns[i + 1] = c[i];
    }
    spec.columns = columns;
    spec.column_count = count + 1;
    return spec;
}

static void check_features(const struct data_spec *spec, const float *expected, size_t records,
                           size_t width)
{
    struct dataset *d = fixture_open(spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, records);
    assert_int_equal(dataset_info(d)->features.dims[0], width);
    struct batch b = fixture_read(d);
    for (size_t i = 0; i < records * width; i++) {
        if (fabsf(b.features[i] - expected[i]) > 1e-6F) {
            print_error("record %zu, feature %zu\n", i / width, i % width);
        }
        assert_float_equal(b.features[i], expected[i], 1e-6F);
    }
    batch_release(&b);
    dataset_free(d);
}

static void only(const char *text, struct data_column c, const float *expected, size_t records,
                 size_t width)
{
    struct data_spec spec = spec_of(text, &c, 1);
    check_features(&spec, expected, records, width);
}

static void refused(const char *text, struct data_column c, int code, const char *part)
{
    struct data_spec spec = spec_of(text, &c, 1);
    fixture_refused(&spec, DATA_LABEL_CLASS, code, part);
}

static void numbers_stay_as_they_are(void **state)
{
    (void)state;
    only("a,y,b\n10,0,x\n-2.5,1,x\n", column("a", COLUMN_NUMBER), (float[]){10, -2.5F}, 2, 1);
    /* The order of the file, whatever that of the entries; what is not declared is left out. */
    struct data_column both[] = {column("c", COLUMN_NUMBER), column("a", COLUMN_NUMBER)};
    struct data_spec spec = spec_of("a,b,c,y\n1,text,3,0\n4,text,6,1\n", both, 2);
    check_features(&spec, (float[]){1, 3, 4, 6}, 2, 2);
    both[1].as = COLUMN_IGNORE;
    spec = spec_of("a,b,c,y\n1,text,3,0\n4,text,6,1\n", both, 2);
    check_features(&spec, (float[]){3, 6}, 2, 1);
}

static void logarithms_keep_the_sign(void **state)
{
    (void)state;
    struct data_column c = column("a", COLUMN_NUMBER);
    c.log = true;
    only("a,y\n0,0\n1.718281828459045,1\n-6.38905609893065,1\n", c, (float[]){0, 1, -2}, 3, 1);
}

static void boundaries_make_buckets(void **state)
{
    (void)state;
    struct data_column c = column("a", COLUMN_NUMBER);
    c.boundaries = (char[]){"[-1, 2.5, 10]"};
    const char *text = "a,y\n-1.5,0\n-1,1\n2.4,0\n2.5,1\n9.9,0\n10,0\n1e9,0\n";
    only(text, c, (float[]){1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0,
                            1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1},
         7, 4);
    c.missing = COLUMN_MISSING_OWN;
    c.boundaries = (char[]){"5"};
    only("a,y\n,0\n4,1\n6,1\n", c, (float[]){1, 0, 0, 0, 1, 0, 0, 0, 1}, 3, 3);
    c.missing = COLUMN_MISSING_ZERO;
    only("a,y\n,0\n4,1\n6,1\n", c, (float[]){1, 0, 1, 0, 0, 1}, 3, 2);
    c.log = true; /* boundaries are of what the logarithm gives: ln(1 + 6) is 1.9 */
    c.boundaries = (char[]){"2"};
    only("a,y\n6,0\n7,1\n", c, (float[]){1, 0, 0, 1}, 2, 2);
}

static void standardise_measures_or_takes(void **state)
{
    (void)state;
    struct data_column c = column("a", COLUMN_NUMBER);
    c.standardise = true;
    only("a,y\n1,0\n3,1\n5,1\n7,0\n", c,
         (float[]){-1.3416408F, -0.4472136F, 0.4472136F, 1.3416408F}, 4, 1);
    only("a,y\n2,0\n2,1\n", c, (float[]){0, 0}, 2, 1);
    c.mean = 1;
    c.deviation = 4;
    only("a,y\n1,0\n3,1\n", c, (float[]){0, 0.5F}, 2, 1);
}

/* Measured on the train records alone, and applied to both parts. */
static void test_records_are_standardised_alike(void **state)
{
    (void)state;
    fixture_text("test.csv", "a,c,y\n5,new,0\n,x,1\n");
    struct data_column c[] = {column("a", COLUMN_NUMBER), column("c", COLUMN_CATEGORY)};
    c[0].standardise = true;
    c[0].missing = COLUMN_MISSING_MEAN;
    struct data_spec spec = spec_of("a,c,y\n1,x,0\n3,w,1\n", c, 2);
    spec.test.file = (char[]){"test.csv"};
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    struct batch b = fixture_read(test);
    static const float expected[] = {3, 0, 0, 0, 0, 1}; /* w, x sorted */
    for (size_t i = 0; i < 6; i++) {
        assert_float_equal(b.features[i], expected[i], 1e-6F);
    }
    batch_release(&b);
    dataset_free(train);
    dataset_free(test);
}

static void missing_values_per_column(void **state)
{
    (void)state;
    struct data_column c = column("a", COLUMN_NUMBER);
    refused("a,y\n1,0\n,1\n", c, ERR_INVALID, "t.csv:3: column 0 (\"a\"): the value is missing");
    c.missing = COLUMN_MISSING_SKIP;
    only("a,y\n1,0\n,1\n3,1\n", c, (float[]){1, 3}, 2, 1);
    c.missing = COLUMN_MISSING_ZERO;
    only("a,y\n1,0\nNA,1\n3,1\n", c, (float[]){1, 0, 3}, 3, 1);
    c.missing = COLUMN_MISSING_MEDIAN;
    only("a,y\n1,0\n,1\n3,1\n5,0\n", c, (float[]){1, 3, 3, 5}, 4, 1);
    /* One column's says nothing of another, and data.missing counts where a column says nothing. */
    struct data_column two[] = {column("a", COLUMN_NUMBER), column("b", COLUMN_NUMBER)};
    two[0].missing = COLUMN_MISSING_ZERO;
    struct data_spec spec = spec_of("a,b,y\n,2,0\n1,4,1\n", two, 2);
    check_features(&spec, (float[]){0, 2, 1, 4}, 2, 2);
    spec = spec_of("a,b,y\n,2,0\n1,,1\n", two, 2);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "t.csv:3: column 1 (\"b\")");
    spec.missing = DATA_MISSING_MEAN;
    check_features(&spec, (float[]){0, 2, 1, 2}, 2, 2);
    /* Nor does it matter what a column lacks that is not used. */
    two[1].as = COLUMN_IGNORE;
    spec = spec_of("a,b,y\n1,,0\n1,,1\n", two, 2);
    check_features(&spec, (float[]){1, 1}, 2, 1);
}

static void a_vocabulary_is_given_or_measured(void **state)
{
    (void)state;
    const char *text = "a,y\nx,0\nw,1\nz,1\n,0\n";
    struct data_column c = column("a", COLUMN_CATEGORY);
    c.missing = COLUMN_MISSING_ZERO;
    only(text, c, (float[]){0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0}, 4, 3);
    c.vocabulary = (char[]){"[z, x]"};
    only(text, c, (float[]){0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0}, 4, 3);
    c.unknown = COLUMN_UNKNOWN_ZERO;
    only(text, c, (float[]){0, 1, 0, 0, 1, 0, 0, 0}, 4, 2);
    c.missing = COLUMN_MISSING_OWN;
    only(text, c, (float[]){0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0}, 4, 3);
    c.missing = COLUMN_MISSING_ZERO;
    c.vocabulary = NULL;
    c.vocabulary_file = (char[]){"words"};
    fixture_text("words", "z\r\n\nx\n");
    only(text, c, (float[]){0, 1, 0, 0, 1, 0, 0, 0}, 4, 2);
    fixture_text("words", "z\nx\nz\n");
    refused(text, c, ERR_INVALID, "words:3: the category \"z\" stands there twice");
    fixture_text("words", "\n");
    refused(text, c, ERR_INVALID, "words: there are no categories");
    c.vocabulary_file = (char[]){"absent"};
    refused(text, c, ERR_NOT_FOUND, "absent");
}

/* XXH3-64 of "x" and FNV-1a of "x" by other programs. */
static void categories_are_hashed(void **state)
{
    (void)state;
    struct data_column c = column("a", COLUMN_CATEGORY);
    c.buckets = 1000003;
    c.hash = COLUMN_HASH_FNV1A;
    struct data_spec spec = {.columns = &c, .column_count = 1};
    struct column_vocabulary v;
    struct column_ids ids = {0};
    assert_int_equal(column_vocabulary_init(&v, &spec, 0, false, NULL, 0, NULL), 0);
    column_vocabulary_ids(&v, "foobar", &ids);
    assert_int_equal(ids.count, 1);
    assert_int_equal(ids.ids[0], UINT64_C(0x85944171f73967e8) % 1000003); /* of its authors' list */
    column_vocabulary_release(&v);
    c.buckets = 4;
    c.missing = COLUMN_MISSING_OWN;
    assert_int_equal(column_vocabulary_init(&v, &spec, 0, true, NULL, 0, NULL), 0);
    assert_int_equal(v.width, 5);
    assert_int_equal(v.missing, 0);
    column_vocabulary_ids(&v, "foobar", &ids);
    assert_int_equal(ids.ids[1], 1 + UINT64_C(0x85944171f73967e8) % 4);
    column_vocabulary_release(&v);
    c.hash = COLUMN_HASH_XXH3;
    c.buckets = 1000003;
    assert_int_equal(column_vocabulary_init(&v, &spec, 0, false, NULL, 0, NULL), 0);
    ids.count = 0;
    column_vocabulary_ids(&v, "", &ids); /* no category */
    assert_int_equal(ids.count, 0);
    column_vocabulary_ids(&v, "foobar", &ids);
    assert_int_equal(ids.ids[0], UINT64_C(0xd78fda63144c5c84) % 1000003);
    column_vocabulary_release(&v);
    free(ids.ids);
}

static void lists_have_several_categories(void **state)
{
    (void)state;
    struct data_column c = column("a", COLUMN_LIST);
    c.missing = COLUMN_MISSING_ZERO;
    const char *text = "a,y\nq|p,0\n q | q ,1\n,1\n|,1\nr,0\n";
    only(text, c, (float[]){1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 5, 3);
    c.vocabulary = (char[]){"[q]"};
    only(text, c, (float[]){1, 1, 1, 0, 0, 0, 0, 0, 0, 1}, 5, 2);
    c.vocabulary = NULL;
    c.separator = (char[]){";"};
    only("a,y\n\"x;\"\"y\"\", z\",0\nx,1\n", c, (float[]){1, 1, 0, 1}, 2, 2);
}

static void columns_by_number_and_range(void **state)
{
    (void)state;
    struct data_column c[] = {column("0..1", COLUMN_NUMBER), column("-1", COLUMN_NUMBER)};
    struct data_spec spec = spec_of("1,2,3,0,4\n5,6,7,1,8\n", c, 2);
    columns[0].column = (char[]){"3"};
    check_features(&spec, (float[]){1, 2, 4, 5, 6, 8}, 2, 3);
    c[0].column = (char[]){"b..d"};
    spec = spec_of("a,b,c,d,y\n1,2,3,4,0\n5,6,7,8,1\n", c, 1);
    check_features(&spec, (float[]){2, 3, 4, 6, 7, 8}, 2, 3);
    c[0].column = (char[]){"b..d"}; /* a column of that very name comes first */
    spec = spec_of("b..d,b,d,y\n1,2,3,0\n5,6,7,1\n", c, 1);
    check_features(&spec, (float[]){1, 5}, 2, 1);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    const char *text = "a,b,y\n1,2,0\nx,3,1\n";
    refused(text, column("a", COLUMN_NUMBER), ERR_INVALID,
            "t.csv:3: column 0 (\"a\"): \"x\" is not a number");
    refused(text, column("aa", COLUMN_NUMBER), ERR_INVALID,
            "data.columns.1.column names column \"aa\"");
    refused(text, column("b..a", COLUMN_NUMBER), ERR_INVALID, "comes before");
    refused(text, column("a..y", COLUMN_NUMBER), ERR_INVALID, "which data.columns.0 declares");
    refused(text, column("a..x", COLUMN_NUMBER), ERR_INVALID, "names column \"x\"");
    struct data_column c = column("b", COLUMN_NUMBER);
    struct data_spec spec = spec_of(text, &c, 1);
    columns[0].column = (char[]){"a..b"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "2 columns, but there is one label");
    c = column("a", COLUMN_CATEGORY);
    c.buckets = 1000000;
    c.missing = COLUMN_MISSING_OWN;
    refused(text, c, ERR_EXHAUSTED, "the declared columns give 1000001 features");
    spec = spec_of(text, &c, 1);
    spec.bad_records = 1;
    columns[1] = column("a", COLUMN_NUMBER);
    check_features(&spec, (float[]){1}, 1, 1); /* the bad record is left out */
}

static void short_rows_lack_their_last_values(void **state)
{
    (void)state;
    struct data_column c[] = {column("1..2", COLUMN_NUMBER), column("3", COLUMN_CATEGORY)};
    c[0].missing = COLUMN_MISSING_ZERO;
    c[1].missing = COLUMN_MISSING_ZERO;
    struct data_spec spec = spec_of("1,5,6\n0,7\n1,8,9,x\n", c, 2);
    columns[0].column = (char[]){"0"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "data.columns.2.column");
    spec.short_rows = DATA_SHORT_ROWS_MISSING;
    check_features(&spec, (float[]){5, 6, 0, 7, 0, 0, 8, 9, 1}, 3, 3);
    spec = spec_of("1,5,6\n0,7\n1,8,9,x,y\n", c, 2);
    columns[0].column = (char[]){"0"};
    spec.short_rows = DATA_SHORT_ROWS_MISSING;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "t.csv:3: 5 fields, expected 4");
}

/* Files and parts have texts of their own; what a record becomes depends on its own cells alone. */
static void parts_have_the_same_features(void **state)
{
    (void)state;
    struct data_column c[] = {column("n", COLUMN_NUMBER), column("a", COLUMN_LIST)};
    c[1].buckets = 7;
    struct data_spec spec =
        spec_of("n,a,y\n1,p|q,0\n2,q,1\n3,r|p,0\n4,p,1\n5,s,0\n6,q|s,1\n", c, 2);
    struct dataset *whole = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    uint64_t fingerprint = dataset_info(whole)->fingerprint;
    dataset_free(whole);
    fixture_text("p1", "n,a,y\n1,p|q,0\n2,q,1\n");
    fixture_text("p2", "n,a,y\n3,r|p,0\n4,p,1\n5,s,0\n6,q|s,1\n");
    spec.train.file = (char[]){"p?"};
    whole = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(whole)->fingerprint == fingerprint);
    struct batch all = fixture_read(whole);
    spec.classes = 2; /* a part may lack a class */
    spec.test_fraction = 0.5;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    struct batch parts[2] = {fixture_read(train), fixture_read(test)};
    size_t records = 0;
    for (size_t p = 0; p < 2; p++) {
        for (size_t i = 0; i < parts[p].count; i++, records++) {
            const float *f = parts[p].features + i * 8;
            assert_memory_equal(f, all.features + ((size_t)f[0] - 1) * 8, 8 * sizeof *f);
        }
        batch_release(&parts[p]);
    }
    assert_int_equal(records, 6);
    batch_release(&all);
    dataset_free(whole);
    dataset_free(train);
    dataset_free(test);
}

/* Sparse columns give the model what lists and categories give it as dense features. */
static void sparse_columns_are_lists_of_keys(void **state)
{
    (void)state;
    const char *text = "a,y,b\nx|y|x,0,1\n,1,2\n z ,1,3\n";
    for (int hash = COLUMN_HASH_XXH3; hash <= COLUMN_HASH_FNV1A; hash++) {
        struct data_column c[] = {column("a", COLUMN_LIST), column("b", COLUMN_NUMBER)};
        c[0].missing = COLUMN_MISSING_ZERO;
        c[0].hash = hash;
        c[0].buckets = 7;
        struct data_spec spec = spec_of(text, c, 2);
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        struct batch dense = fixture_read(d);
        dataset_free(d);
        columns[1].as = COLUMN_SPARSE;
        columns[1].buckets = 0;
        columns[1].width = 7;
        check_features(&spec, dense.features, 3, 8);
        batch_release(&dense);
    }
    struct data_column c = column("a", COLUMN_SPARSE);
    c.missing = COLUMN_MISSING_ZERO;
    c.width = 3;
    c.vocabulary = (char[]){"[x, z]"}; /* y is what the vocabulary lacks */
    only(text, c, (float[]){1, 0, 1, 0, 0, 0, 0, 1, 0}, 3, 3);
    c.unknown = COLUMN_UNKNOWN_ZERO;
    only(text, c, (float[]){1, 0, 0, 0, 0, 0, 0, 1, 0}, 3, 3);
    c.vocabulary = NULL;
    c.hash = COLUMN_HASH_NONE;
    refused(text, c, ERR_INVALID, "data.columns.1.hash: the cells of a CSV file are texts");
    c.hash = COLUMN_HASH_XXH3;
    c.missing = COLUMN_MISSING_ERROR;
    refused(text, c, ERR_INVALID, "t.csv:3: column 0 (\"a\"): the value is missing");
    c.missing = COLUMN_MISSING_SKIP;
    struct data_spec spec = spec_of(text, &c, 1);
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 2);
    assert_string_equal(dataset_fields(d)->fields[0].name, "a");
    assert_int_equal(sparse_fields_list(dataset_fields(d), 0, 0).count, 2);
    dataset_free(d);
    columns[1] = column("b", COLUMN_NUMBER);
    columns[1].length = 2;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.columns.1.length: a cell is one number; only features of TFRecord are");
    columns[1].length = 1;
    columns[0].as = COLUMN_IGNORE;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "no entry of data.columns is the label; give one 'as: label'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_columns_are_lists_of_keys),
        cmocka_unit_test(numbers_stay_as_they_are),
        cmocka_unit_test(logarithms_keep_the_sign),
        cmocka_unit_test(boundaries_make_buckets),
        cmocka_unit_test(standardise_measures_or_takes),
        cmocka_unit_test(test_records_are_standardised_alike),
        cmocka_unit_test(missing_values_per_column),
        cmocka_unit_test(a_vocabulary_is_given_or_measured),
        cmocka_unit_test(categories_are_hashed),
        cmocka_unit_test(lists_have_several_categories),
        cmocka_unit_test(columns_by_number_and_range),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(short_rows_lack_their_last_values),
        cmocka_unit_test(parts_have_the_same_features),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
