/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured on train records, applied to others: the same numbers as a data set has, of
 * every format, with labels and without. */
#include "unit/data/data_rig.h"

#include "base/buf.h"
#include "data/batch_join.h"
#include "data/encoder.h"

static char none[] = "";

struct seen {
    float *numbers; /* of all records */
    size_t count, records, blocks, keys;
};

static int see(void *context, const struct encoder_block *part, struct err *err)
{
    struct seen *s = context;
    const struct dataset *block = part->data;
    const size_t n = (size_t)dataset_info(block)->records;
    const size_t width = (size_t)shape_count(&dataset_info(block)->features);
    struct batch b = {0};
    int rc = batch_init(&b, block, n, err);
    uint64_t *all = mem_new(n, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        all[i] = i;
    }
    rc = rc != 0 ? rc : dataset_read(block, all, n, &b, err);
    assert_int_equal(rc, 0);
    s->numbers = mem_resize(s->numbers, s->count + n * width, sizeof *s->numbers);
    memcpy(s->numbers + s->count, b.features, n * width * sizeof *s->numbers);
    for (size_t f = 0; f < b.lists.fields; f++) {
        const uint64_t *offsets = b.lists.offsets + f * (b.lists.capacity + 1);
        for (uint64_t k = offsets[0]; k < offsets[n]; k++) {
            s->keys = s->keys * 31 + (size_t)b.lists.keys[k];
        }
    }
    s->count += n * width;
    s->records += n;
    s->blocks++;
    free(all);
    batch_release(&b);
    return 0;
}

static struct encoder *open_encoder(const struct data_spec *spec, enum data_label_kind kind)
{
    struct encoder *e = NULL;
    struct err err = {0};
    if (encoder_open(spec, kind, &e, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return e;
}

static struct seen read_all(const struct encoder *e, const char *file, bool unlabelled)
{
    struct seen s = {0};
    struct err err = {0};
    struct encoder_left left = {0};
    const struct encoder_files files = {.file = file, .unlabelled = unlabelled};
    if (encoder_read(e, &files, see, &s, &left, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    encoder_left_release(&left);
    return s;
}

static void refused(const struct encoder *e, const char *file, bool unlabelled, int code,
                    const char *part)
{
    struct seen s = {0};
    struct err err = {0};
    struct encoder_left left = {0};
    const struct encoder_files files = {.file = file, .unlabelled = unlabelled};
    assert_int_equal(encoder_read(e, &files, see, &s, &left, &err), code);
    if (strstr(err.msg, part) == NULL) {
        fail_msg("%s", err.msg);
    }
    encoder_left_release(&left);
    free(s.numbers);
}

static void same(const struct seen *a, const struct seen *b)
{
    assert_int_equal(a->records, b->records);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->keys, b->keys);
    assert_memory_equal(a->numbers, b->numbers, a->count * sizeof *a->numbers);
}

/* What was measured is enough: without the train file, the test part has the same numbers. */
static void check_recalled(const struct data_spec *spec, enum data_label_kind kind,
                           const char *measured, const struct seen *expected)
{
    char gone[] = "no-such-file";
    struct data_spec here = *spec;
    struct encoder *e = NULL;
    struct err err = {0};
    struct seen file, part = {0};
    here.train.file = gone;
    if (encoder_recall(measured, &here, kind, &e, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    file = read_all(e, spec->test.file, false);
    same(&file, expected);
    if (encoder_read_part(e, &here, true, see, &part, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    same(&part, expected);
    free(file.numbers);
    free(part.numbers);
    encoder_free(e);
}

/* The file @labelled gives the numbers of the test part of a data set, and @unlabelled the same. */
static void check(struct data_spec spec, enum data_label_kind kind, char *labelled,
                  const char *unlabelled)
{
    struct dataset *train, *test = NULL;
    struct encoder *e = open_encoder(&spec, kind);
    struct seen with = read_all(e, labelled, false), without = read_all(e, unlabelled, true);
    same(&with, &without);
    char *labels = spec.train.labels[0] != '\0' ? spec.train.labels : none;
    spec.test = (struct data_source){.file = labelled, .labels = labels};
    train = fixture_open(&spec, kind, &test);
    struct seen expected = {0};
    const struct encoder_block all = {.data = test};
    assert_int_equal(see(&expected, &all, NULL), 0);
    same(&with, &expected);
    check_recalled(&spec, kind, dataset_measured(train), &expected);
    dataset_free(train);
    dataset_free(test);
    free(with.numbers);
    free(without.numbers);
    free(expected.numbers);
    encoder_free(e);
}

static void csv_with_names(void **state)
{
    (void)state;
    char train[] = "t.csv", more[] = "m.csv", label[] = "kind", categorical[] = "colour";
    fixture_text("t.csv", "a,kind,colour,b\n1,x,red,2\n3,y,blue,7\n5,x,red,1\n");
    fixture_text("m.csv", "a,kind,colour,b\n2,?,blue,4\n9,z,green,8\n");
    fixture_text("u.csv", "a,colour,b\n2,blue,4\n9,green,8\n");
    struct data_spec spec = fixture_spec(train, none);
    spec.label = label;
    spec.categorical = categorical;
    spec.header = DATA_HEADER_TRUE;
    struct encoder *e = open_encoder(&spec, DATA_LABEL_CLASS);
    assert_string_equal(encoder_class_names(e)[1], "y");
    refused(e, "m.csv", true, ERR_INVALID, "column 1 is \"kind\", the label, but the file is said");
    refused(e, "u.csv", false, ERR_INVALID, "\"kind\"");
    refused(e, "u.csv", false, ERR_INVALID, "if these records have no labels, give --unlabelled");
    refused(e, "m.csv", false, ERR_INVALID, "the label is missing");
    /* messages speak of the columns that are there */
    fixture_text("v.csv", "a,b\n2,4\n");
    refused(e, "v.csv", true, ERR_INVALID, "none among the 2 columns (0 to 1): \"a\", \"b\"");
    fixture_text("v.csv", "a;colour;b\n2;blue;4\n");
    refused(e, "v.csv", true, ERR_INVALID, "is it data.separator: \";\"?");
    refused(e, "absent.csv", false, ERR_NOT_FOUND, "absent.csv");
    encoder_free(e);
    fixture_text("m.csv", "a,kind,colour,b\n2,x,blue,4\n9,y,green,8\n");
    check(spec, DATA_LABEL_CLASS, more, "u.csv");
}

static void csv_with_numbers(void **state)
{
    (void)state;
    char train[] = "t.csv", more[] = "m.csv", last[] = "-1", first[] = "0";
    fixture_text("t.csv", "1,2,10\n3,4,20\n5,9,30\n");
    fixture_text("m.csv", "2,4,10\n\n9,8,20\n");
    fixture_text("u.csv", "2,4\n\n9,8\n");
    struct data_spec spec = fixture_spec(train, none);
    spec.label = last;
    spec.header = DATA_HEADER_FALSE;
    struct encoder *e = open_encoder(&spec, DATA_LABEL_REAL);
    refused(e, "u.csv", false, ERR_INVALID, "give --unlabelled");
    encoder_free(e);
    check(spec, DATA_LABEL_REAL, more, "u.csv");
    spec.label = first;
    fixture_text("u.csv", "4,10\n8,20\n");
    check(spec, DATA_LABEL_REAL, more, "u.csv");
}

static void declared_columns(void **state)
{
    (void)state;
    char train[] = "t.csv", more[] = "m.csv";
    struct data_column columns[] = {
        {.column = (char[]){"0"}, .as = COLUMN_NUMBER, .standardise = true},
        {.column = (char[]){"1"}, .as = COLUMN_LABEL},
        {.column = (char[]){"2"}, .as = COLUMN_CATEGORY, .buckets = 5},
    };
    for (size_t i = 0; i < 3; i++) {
        columns[i].boundaries = columns[i].vocabulary = columns[i].vocabulary_file = none;
        columns[i].separator = none;
    }
    fixture_text("t.csv", "1,0,a\n3,1,b\n5,1,c\n");
    fixture_text("m.csv", "2,0,b\n9,1,q\n");
    fixture_text("u.csv", "2,b\n9,q\n");
    struct data_spec spec = fixture_spec(train, none);
    spec.columns = columns;
    spec.column_count = 3;
    spec.header = DATA_HEADER_FALSE;
    check(spec, DATA_LABEL_CLASS, more, "u.csv");
}

static void libsvm(void **state)
{
    (void)state;
    char train[] = "t.svm", more[] = "m.svm";
    fixture_text("t.svm", "1 1:2 3:4\n-1 2:8\n1 1:1\n");
    fixture_text("m.svm", "1 2:2 3:1\n-1 1:5 # text\n");
    fixture_text("u.svm", "2:2 3:1\n# a comment\n1:5 # text\n");
    struct data_spec spec = fixture_spec(train, none);
    check(spec, DATA_LABEL_CLASS, more, "u.svm");
    struct encoder *e = open_encoder(&spec, DATA_LABEL_CLASS);
    fixture_text("e.svm", "2:2\n\n1:5\n");
    refused(e, "e.svm", true, ERR_INVALID, "e.svm:2: an empty line; without labels");
    refused(e, "u.svm", false, ERR_INVALID, "stands where the label is expected");
    encoder_free(e);
}

static void libffm(void **state)
{
    (void)state;
    char train[] = "t.ffm", more[] = "m.ffm";
    struct data_column columns[] = {{.column = (char[]){"0..1"},
                                     .as = COLUMN_SPARSE,
                                     .boundaries = none,
                                     .vocabulary = none,
                                     .vocabulary_file = none,
                                     .separator = none,
                                     .width = 7}};
    fixture_text("t.ffm", "1 0:2:1 1:4:1\n0 1:8:0.5\n1 1:1:1\n");
    fixture_text("m.ffm", "1 0:2:1 1:9:1\n0 0:5:3\n");
    fixture_text("u.ffm", "0:2:1 1:9:1\n0:5:3\n");
    struct data_spec spec = fixture_spec(train, none);
    spec.columns = columns;
    spec.column_count = 1;
    check(spec, DATA_LABEL_CLASS, more, "u.ffm");
    spec.lists_all = true; /* as lists of keys */
    check(spec, DATA_LABEL_CLASS, more, "u.ffm");
}

static void criteo_line(struct buf *out, const char *label, unsigned n)
{
    buf_add_str(out, label);
    for (unsigned j = 1; j < 40; j++) {
        buf_add_str(out, j > 1 || label[0] != '\0' ? "\t" : "");
        if (j % 5 != n % 5) {
            buf_printf(out, j <= 13 ? "%u" : "%08x", n * 100 + j);
        }
    }
    buf_add_char(out, '\n');
}

static void criteo_file(const char *name, unsigned first, size_t lines, bool labelled)
{
    struct buf text = {0};
    for (unsigned n = first; n < first + lines; n++) {
        criteo_line(&text, !labelled ? "" : n % 2 == 0 ? "0" : "1", n);
    }
    fixture_write(name, text.data, text.len);
    buf_release(&text);
}

static void criteo(void **state)
{
    (void)state;
    char train[] = "t.criteo", more[] = "m.criteo";
    struct data_column columns[] = {
        {.column = (char[]){"label"}, .as = COLUMN_LABEL},
        {.column = (char[]){"I1..I13"}, .as = COLUMN_NUMBER, .missing = COLUMN_MISSING_ZERO},
        {.column = (char[]){"C1..C26"},
         .as = COLUMN_SPARSE,
         .missing = COLUMN_MISSING_ZERO,
         .width = 11},
    };
    for (size_t i = 0; i < 3; i++) {
        columns[i].boundaries = columns[i].vocabulary = columns[i].vocabulary_file = none;
        columns[i].separator = none;
    }
    criteo_file("t.criteo", 1, 8, true);
    criteo_file("m.criteo", 20, 4, true);
    criteo_file("u.criteo", 20, 4, false);
    struct data_spec spec = fixture_spec(train, none);
    spec.format = DATA_FORMAT_CRITEO;
    spec.columns = columns;
    spec.column_count = 3;
    check(spec, DATA_LABEL_CLASS, more, "u.criteo");
    struct encoder *e = open_encoder(&spec, DATA_LABEL_CLASS);
    refused(e, "m.criteo", true, ERR_INVALID, "fields, expected 39");
    encoder_free(e);
}

static void idx(void **state)
{
    (void)state;
    char train[] = "t.idx", labels[] = "t.labels", more[] = "m.idx";
    const uint32_t dims[] = {3, 2, 2}, count[] = {3};
    const uint8_t pixels[] = {0, 50, 100, 255, 1, 2, 3, 4, 9, 8, 7, 6}, classes[] = {0, 1, 1};
    fixture_write_idx("t.idx", 0x08, dims, 3, pixels, sizeof pixels);
    fixture_write_idx("t.labels", 0x08, count, 1, classes, sizeof classes);
    fixture_write_idx("m.idx", 0x08, dims, 3, pixels, sizeof pixels);
    check(fixture_spec(train, labels), DATA_LABEL_CLASS, more, "m.idx");
}

/* How many records of u.csv have categories in @column that are not known, and the first. */
static void assert_unknown(const struct encoder *e, const char *column, uint64_t records,
                           const char *first, const char *place)
{
    struct seen s = {0};
    struct err err = {0};
    struct encoder_left left = {0};
    const struct encoder_files files = {.file = "u.csv", .unlabelled = true};
    assert_int_equal(encoder_read(e, &files, see, &s, &left, &err), 0);
    size_t k = 0;
    while (k < left.unknown_count && strcmp(left.unknown[k].column, column) != 0) {
        k++;
    }
    assert_true(k < left.unknown_count);
    assert_int_equal(left.unknown[k].records, records);
    if (first == NULL) {
        assert_null(left.unknown[k].first);
    } else {
        const char *found = left.unknown[k].first;
        if (strstr(found, first) != found || strcmp(strrchr(found, '/') + 1, place) != 0) {
            fail_msg("%s", found);
        }
    }
    encoder_left_release(&left);
    free(s.numbers);
}

static void records_that_would_be_left_out(void **state)
{
    (void)state;
    char train[] = "t.csv", last[] = "-1";
    fixture_text("t.csv", "1,2,0\n3,4,1\n5,9,1\n");
    fixture_text("u.csv", "2,4\n,8\n1,1\n");
    fixture_text("v.csv", "2,4\nx,8\n");
    struct data_spec spec = fixture_spec(train, none);
    spec.label = last;
    spec.header = DATA_HEADER_FALSE;
    spec.missing = DATA_MISSING_SKIP;
    spec.bad_records = 5;
    struct encoder *e = open_encoder(&spec, DATA_LABEL_CLASS);
    refused(e, "u.csv", true, ERR_INVALID, "1 records lack a value, and missing: skip");
    encoder_free(e);
    spec.missing = DATA_MISSING_ERROR;
    e = open_encoder(&spec, DATA_LABEL_CLASS);
    struct seen s = {0};
    struct err err = {0};
    struct encoder_left left = {0};
    const struct encoder_files files = {.file = "v.csv", .unlabelled = true};
    assert_int_equal(encoder_read(e, &files, see, &s, &left, &err), 0);
    assert_int_equal(s.records, 1);
    assert_int_equal(left.count, 1);
    assert_non_null(strstr(left.first, "v.csv:2: column 0: \"x\" is not a number"));
    encoder_left_release(&left);
    free(s.numbers);
    encoder_free(e);
    spec.bad_records = 0;
    e = open_encoder(&spec, DATA_LABEL_CLASS);
    refused(e, "v.csv", true, ERR_INVALID, "v.csv:2");
    encoder_free(e);
}

/* Of which the model reads nothing; what has a feature, or a bucket, is not among them. */
static void categories_that_no_train_record_had(void **state)
{
    (void)state;
    char train[] = "t.csv", label[] = "y", categorical[] = "plan, city", bar[] = "|";
    fixture_text("t.csv", "plan,x,city,y\na,1,Bonn,0\nb,2,Trier,1\na,3,Ulm,1\n");
    fixture_text("u.csv", "plan,x,city\na,1,Bonn\nc,2,Bonn\nb,1,Rome\nd,2,Ulm\nc,7,Bonn\n");
    struct data_spec spec = fixture_spec(train, none);
    spec.label = label;
    spec.categorical = categorical;
    spec.header = DATA_HEADER_TRUE;
    struct encoder *e = open_encoder(&spec, DATA_LABEL_CLASS);
    assert_unknown(e, "plan", 3, "\"c\", ", "u.csv:3");
    assert_unknown(e, "city", 1, "\"Rome\", ", "u.csv:4");
    encoder_free(e);
    struct data_column columns[] = {
        {.column = (char[]){"plan"}, .as = COLUMN_LIST, .separator = bar},
        {.column = (char[]){"x"}, .as = COLUMN_NUMBER},
        {.column = (char[]){"city"}, .as = COLUMN_CATEGORY, .buckets = 5},
        {.column = (char[]){"y"}, .as = COLUMN_LABEL},
    };
    for (size_t i = 0; i < 4; i++) {
        columns[i].boundaries = columns[i].vocabulary = columns[i].vocabulary_file = none;
        columns[i].separator = columns[i].separator == NULL ? none : columns[i].separator;
    }
    spec.categorical = spec.label = none;
    spec.columns = columns;
    spec.column_count = 4;
    fixture_text("u.csv", "plan,x,city\na|b,1,Bonn\na|q,2,Bonn\nb,1,Rome\nd,2,Ulm\n");
    e = open_encoder(&spec, DATA_LABEL_CLASS);
    assert_unknown(e, "plan", 2, "\"a|q\", ", "u.csv:3");
    assert_unknown(e, "city", 0, NULL, NULL);
    encoder_free(e);
    columns[0].unknown = COLUMN_UNKNOWN_OWN;
    e = open_encoder(&spec, DATA_LABEL_CLASS);
    assert_unknown(e, "plan", 0, NULL, NULL);
    encoder_free(e);
}

static void files_are_read_in_blocks(void **state)
{
    (void)state;
    char train[] = "t.csv", last[] = "-1";
    struct buf text = {0};
    for (size_t i = 0; i < 700000; i++) {
        buf_printf(&text, "%zu,%zu\n", i, i % 7);
    }
    fixture_text("t.csv", "1,2,0\n3,4,1\n");
    fixture_write("u.csv", text.data, text.len);
    fixture_write_gz("u.csv.gz", text.data, text.len);
    buf_release(&text);
    struct data_spec spec = fixture_spec(train, none);
    spec.label = last;
    spec.header = DATA_HEADER_FALSE;
    struct encoder *e = open_encoder(&spec, DATA_LABEL_CLASS);
    struct seen blocks = read_all(e, "u.csv", true), whole = read_all(e, "u.csv.gz", true);
    assert_true(blocks.blocks > 1);
    assert_int_equal(whole.blocks, 1);
    same(&blocks, &whole);
    free(blocks.numbers);
    free(whole.numbers);
    encoder_free(e);
}

/* The train part that test_fraction leaves is measured, and an encoder outlives the records. */
static void streamed_train_data(void **state)
{
    (void)state;
    char train[] = "t.csv", last[] = "-1";
    struct buf text = {0};
    for (size_t i = 0; i < 400; i++) {
        buf_printf(&text, "%zu,%zu,%zu\n", i, i * i % 37, i % 3);
    }
    fixture_write("t.csv", text.data, text.len);
    buf_release(&text);
    struct data_spec spec = fixture_spec(train, none);
    spec.label = last;
    spec.header = DATA_HEADER_FALSE;
    spec.test_fraction = 0.3;
    struct encoder *memory = open_encoder(&spec, DATA_LABEL_CLASS);
    spec.loading = DATA_LOADING_STREAM;
    spec.cache_dir = fixture_dir;
    struct encoder *stream = open_encoder(&spec, DATA_LABEL_CLASS);
    struct encoder *again = encoder_ref(stream);
    encoder_free(stream);
    struct seen a = read_all(memory, "t.csv", false), b = read_all(again, "t.csv", false);
    same(&a, &b);
    free(a.numbers);
    free(b.numbers);
    encoder_free(memory);
    encoder_free(again);
}

static void batches_are_joined(void **state)
{
    (void)state;
    uint64_t a_offsets[] = {0, 1, 3, 0, 3, 4, 4, 0}, a_keys[] = {5, 6, 7, 8};
    uint64_t b_offsets[] = {0, 2, 2, 2}, b_keys[] = {9, 10};
    float b_weights[] = {0.5F, 2};
    struct batch a = {.capacity = 3, .count = 2}, b = {.capacity = 1, .count = 1};
    struct batch to = {.capacity = 3};
    float features[] = {1, 2, 3, 4, 0, 0}, more[] = {5, 6}, targets[3] = {0};
    int32_t classes[3] = {0};
    a.features = features;
    b.features = more;
    a.classes = b.classes = classes;
    a.targets = b.targets = targets;
    a.lists = (struct sparse_batch){.capacity = 3, .count = 2, .fields = 2, .keys_capacity = 4};
    a.lists.offsets = a_offsets;
    a.lists.keys = a_keys;
    b.lists = (struct sparse_batch){.capacity = 1, .count = 1, .fields = 2, .keys_capacity = 2};
    b.lists.offsets = b_offsets;
    b.lists.keys = b_keys;
    b.lists.weights = b_weights;
    to.features = mem_new(6, sizeof *to.features);
    to.classes = mem_new(3, sizeof *to.classes);
    to.targets = mem_new(3, sizeof *to.targets);
    to.lists = (struct sparse_batch){.capacity = 3, .fields = 2};
    to.lists.offsets = mem_new(8, sizeof *to.lists.offsets);
    assert_int_equal(batch_append(&to, &a, 2, NULL), 0);
    assert_int_equal(batch_append(&to, &b, 2, NULL), 0);
    assert_int_equal(to.count, 3);
    const float numbers[] = {1, 2, 3, 4, 5, 6}, weights[] = {1, 1, 1, 0.5F, 2, 1};
    const uint64_t keys[] = {5, 6, 7, 9, 10, 8}, offsets[] = {0, 1, 3, 5, 5, 6, 6, 6};
    assert_memory_equal(to.features, numbers, sizeof numbers);
    assert_memory_equal(to.lists.keys, keys, sizeof keys);
    assert_memory_equal(to.lists.offsets, offsets, sizeof offsets);
    assert_memory_equal(to.lists.weights, weights, sizeof weights);
    batch_release(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(csv_with_names, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(csv_with_numbers, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(declared_columns, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(libsvm, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(libffm, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(criteo, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(idx, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(records_that_would_be_left_out, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(categories_that_no_train_record_had, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(files_are_read_in_blocks, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(streamed_train_data, fixture_setup, fixture_teardown),
        cmocka_unit_test(batches_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
