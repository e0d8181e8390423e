/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>

#include "unit/data/data_rig.h"

static struct data_spec csv_spec(const char *text)
{
    static char file[] = "t.csv", none[] = "";
    fixture_text(file, text);
    struct data_spec spec = fixture_spec(file, none);
    spec.scale = DATA_SCALE_NONE;
    return spec;
}

/* The features of all records must be @expected, [records × width]. */
static void check_features(const struct data_spec *spec, enum data_label_kind kind,
                           const float *expected, size_t records, size_t width)
{
    struct dataset *d = fixture_open(spec, kind, NULL);
    assert_int_equal(dataset_info(d)->records, records);
    assert_int_equal(dataset_info(d)->features.rank, 1);
    assert_int_equal(dataset_info(d)->features.dims[0], width);
    struct batch b = fixture_read(d);
    for (size_t i = 0; i < records * width; i++) {
        assert_float_equal(b.features[i], expected[i], 1e-5F);
    }
    batch_release(&b);
    dataset_free(d);
}

static void check_classes(const struct data_spec *spec, const int32_t *expected, size_t records,
                          uint32_t classes, const char *const *names)
{
    struct dataset *d = fixture_open(spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, records);
    assert_int_equal(dataset_info(d)->classes, classes);
    struct batch b = fixture_read(d);
    assert_memory_equal(b.classes, expected, records * sizeof *expected);
    batch_release(&b);
    if (names == NULL) {
        assert_null(dataset_class_names(d));
    }
    for (uint32_t i = 0; names != NULL && i < classes; i++) {
        assert_string_equal(dataset_class_names(d)[i], names[i]);
    }
    dataset_free(d);
}

static void rows_in_every_dialect_are_the_same(void **state)
{
    (void)state;
    static const float expected[] = {1, 2.5F, -3, 4e2F};
    static const char *const texts[] = {
        "1,2.5,0\n-3,4e2,1\n",
        "1,2.5,0\n-3,4e2,1",                         /* no last line end */
        "1,2.5,0\r\n-3,4e2,1\r\n",                   /* CRLF */
        "1,2.5,0\r-3,4e2,1\r",                       /* CR */
        "\357\273\2771,2.5,0\n-3,4e2,1\n",           /* byte order mark */
        "sep=,\r\na,b,c\r\n1,2.5,0\r\n-3,4e2,1\r\n", /* for spreadsheets */
        "\"1\",\"2.5\",\"0\"\n\"-3\" ,\"4e2\",1\n",  /* quoted */
        " 1 ,\t2.5, 0 \n\n\n-3,4e2,1\n\n",           /* blanks and empty lines */
        "a,b,c\n1,2.5,0\n-3,4e2,1\n",                /* header */
        "\"a\nb\",\"b,\"\"\",c\n1,2.5,0\n-3,4e2,1\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct data_spec spec = csv_spec(texts[i]);
        check_features(&spec, DATA_LABEL_CLASS, expected, 2, 2);
    }
}

static void separators_are_understood(void **state)
{
    (void)state;
    static const float expected[] = {1, 2.5F, -3, 4e2F};
    static const struct {
        const char *separator, *text;
    } cases[] = {
        {"tab", "1\t2.5\t0\n-3\t4e2\t1\n"},
        {";", "1;2.5;0\n-3;4e2;1\n"},
        {"|", "1|2.5|0\n-3|4e2|1\n"},
        {"\t", "1\t2.5\t0\n-3\t4e2\t1\n"},
        {"space", "  1   2.5\t0  \n\n  \n-3 4e2 1"},
        {" ", "1 2.5 \"0\"\n-3 4e2 1\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = csv_spec(cases[i].text);
        char separator[8];
        (void)snprintf(separator, sizeof separator, "%s", cases[i].separator);
        spec.separator = separator;
        check_features(&spec, DATA_LABEL_CLASS, expected, 2, 2);
    }
    static const char *const wrong[] = {"", ";;", "1", ".", "\"", "\n", "ä"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct data_spec spec = csv_spec("1,2\n");
        char separator[8];
        (void)snprintf(separator, sizeof separator, "%s", wrong[i]);
        spec.separator = separator;
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "data.separator is");
    }
}

static void decimals_may_stand_behind_a_comma(void **state)
{
    (void)state;
    static const float expected[] = {1, 2.5F, -3, 4e2F};
    static const char *const texts[] = {"1;2,5;0\n-3,0;4e2;1\n",
                                        "a;b;c\n1;\"2,5\";0\n-3;4,0e2;1\n"};
    char separator[] = ";";
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct data_spec spec = csv_spec(texts[i]);
        spec.separator = separator;
        spec.decimal = DATA_DECIMAL_COMMA;
        check_features(&spec, DATA_LABEL_CLASS, expected, 2, 2);
        spec.header = i == 0 ? DATA_HEADER_FALSE : DATA_HEADER_TRUE;
        spec.decimal = DATA_DECIMAL_POINT;
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                        "\"2,5\" is not a number; where decimals stand behind a comma, set "
                        "data.decimal: comma");
    }
    static const char *const wrong[] = {"1.234", "1,2,3", "1,234.5", ",", "1, 2"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "1;2,5;0\n-3;%s;1\n", wrong[i]);
        struct data_spec spec = csv_spec(text);
        spec.separator = separator;
        spec.decimal = DATA_DECIMAL_COMMA;
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                        i == 0 ? "t.csv:2: column 1: \"1.234\" is not a number, as data.decimal is "
                                 "comma"
                               : "t.csv:2: column 1: ");
    }
}

static void headers_are_recognised(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("a,b\n1,x\n2,y\n");
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 2}, 2, 1);
    spec = csv_spec("1,a\n1,x\n2,y\n"); /* nothing speaks for a header */
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 1, 2}, 3, 1);
    spec.header = DATA_HEADER_TRUE;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 2}, 2, 1);
    spec = csv_spec("?,a\n1,x\n2,y\n"); /* a missing value is no name */
    spec.missing = DATA_MISSING_ZERO;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){0, 1, 2}, 3, 1);
    spec = csv_spec("a,b\n1,x\n");
    spec.header = DATA_HEADER_FALSE;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "t.csv:1: column 0: \"a\" is not a number");
    spec = csv_spec("kind,shape\nx,a\ny,b\nx,a\ny,b\n"); /* words that the rows do not have */
    spec.label = (char[]){"0"};
    spec.categorical = (char[]){"1"};
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 0, 0, 1, 1, 0, 0, 1}, 4, 2);
    spec = csv_spec("x,b\nx,a\ny,b\nx,a\ny,b\n"); /* the first row is as the others */
    spec.label = (char[]){"0"};
    spec.categorical = (char[]){"1"};
    check_features(&spec, DATA_LABEL_CLASS, (float[]){0, 1, 1, 0, 0, 1, 1, 0, 0, 1}, 5, 2);
    spec = csv_spec("shape,kind\nround,x\nflat,y\n"); /* only the label's name tells */
    spec.label = (char[]){"kind"};
    spec.categorical = (char[]){"shape"};
    check_features(&spec, DATA_LABEL_CLASS, (float[]){0, 1, 1, 0}, 2, 2);
}

static void the_label_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        float feature;
    } cases[] = {{"y", 2}, {"0", 2}, {"-2", 2}, {"x", 1}, {"1", 1}, {"-1", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = csv_spec("y,x\n1,2\n");
        char label[8];
        (void)snprintf(label, sizeof label, "%s", cases[i].label);
        spec.label = label;
        check_features(&spec, DATA_LABEL_REAL, &cases[i].feature, 1, 1);
    }
    struct data_spec spec = csv_spec("price,size\n1,2\n");
    spec.label = (char[]){"prise"};
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "did you mean \"price\"?");
    spec.label = (char[]){"2"};
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "2 columns (0 to 1): \"price\", \"size\"");
    spec.label = (char[]){"-3"};
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "data.label names column \"-3\"");
    spec = csv_spec("price;size\n1;2\n");
    spec.label = (char[]){"price"};
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "is it data.separator: \";\"?");
    spec = csv_spec("1,2\n");
    spec.label = (char[]){"price"};
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "no header line");
    spec = csv_spec("a,a,b\n1,2,3\n");
    spec.label = (char[]){"a"};
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "columns 0 and 1 have this name");
}

static void class_labels_get_stable_numbers(void **state)
{
    (void)state;
    static const char *const fruits[] = {"apple", "fig", "pear"};
    struct data_spec spec = csv_spec("1,pear\n2,apple\n3,pear\n4,fig\n");
    check_classes(&spec, (int32_t[]){2, 0, 2, 1}, 4, 3, fruits);
    spec = csv_spec("1,2\n2,0\n3,1\n4,1.0\n"); /* 0..k-1: as they are */
    check_classes(&spec, (int32_t[]){2, 0, 1, 1}, 4, 3, NULL);
    static const char *const numbers[] = {"1", "2", "10"};
    spec = csv_spec("1,10\n2,2\n3,1\n"); /* by value, not by text */
    check_classes(&spec, (int32_t[]){2, 1, 0}, 3, 3, numbers);
    spec = csv_spec("1,4\n2,0\n");
    spec.classes = 5; /* a class may have no train record when the count is given */
    check_classes(&spec, (int32_t[]){4, 0}, 2, 5, NULL);
    spec = csv_spec("1,a\n2,b\n3,c\n");
    spec.classes = 2;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "have 3 labels: a, b, c");
}

static void unknown_test_labels_are_refused(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("1,a\n2,b\n");
    fixture_text("test.csv", "1,a\n\n2,z\n");
    spec.test.file = (char[]){"test.csv"};
    fixture_refused(
        &spec, DATA_LABEL_CLASS, ERR_INVALID,
        "test.csv:3: label \"z\" does not occur in the train records; the classes are a, b");
    spec = csv_spec("1,0\n2,1\n");
    spec.test.file = (char[]){"test.csv"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "label \"a\" is no class");
    spec = csv_spec("1,a\n2,b\n3,c\n4,d\n5,e\n6,f\n");
    spec.test_fraction = 0.5; /* whatever was drawn */
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.test_fraction drew it for the test: take it out, or try another "
                    "data.split_seed");
}

static void real_labels_are_numbers(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("1,10\n2,20\n3,60\n");
    struct dataset *d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    struct batch b = fixture_read(d);
    assert_true(b.targets[0] == 10 && b.targets[2] == 60);
    batch_release(&b);
    dataset_free(d);
    spec.label_scale = DATA_LABEL_SCALE_STANDARD;
    d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    const struct dataset_info *info = dataset_info(d);
    b = fixture_read(d);
    static const double labels[] = {10, 20, 60};
    float sum = 0;
    for (size_t i = 0; i < 3; i++) {
        sum += b.targets[i];
        double back = (double)b.targets[i] * info->label_scale + info->label_offset;
        assert_true(fabs(back - labels[i]) < 1e-4);
    }
    assert_float_equal(sum, 0, 1e-5F);
    assert_true(fabs(info->label_offset - 30) < 1e-9);
    batch_release(&b);
    dataset_free(d);
    spec = csv_spec("1,10\n2,many\n");
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "t.csv:2: column 1: the label \"many\"");
}

static void missing_values_follow_the_policy(void **state)
{
    (void)state;
    static const char text[] = "a,b,y\n1,10,0\n,20,1\n3,?,0\n8,NaN,1\nn/a,60,0\n";
    struct data_spec spec = csv_spec(text);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "t.csv:3: column 0 (\"a\"): the value is missing (\"\")");
    spec.missing = DATA_MISSING_MEAN;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 10, 4, 20, 3, 30, 8, 30, 4, 60}, 5, 2);
    spec.missing = DATA_MISSING_MEDIAN;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 10, 3, 20, 3, 20, 8, 20, 3, 60}, 5, 2);
    spec.missing = DATA_MISSING_ZERO;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 10, 0, 20, 3, 0, 8, 0, 0, 60}, 5, 2);
    spec.missing = DATA_MISSING_SKIP;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 10}, 1, 2);
    spec.ignore = (char[]){"a"}; /* an ignored column may lack anything */
    check_features(&spec, DATA_LABEL_CLASS, (float[]){10, 20, 60}, 3, 1);
    spec = csv_spec("4,0\n,1\n1,0\n"); /* an even number of values */
    spec.missing = DATA_MISSING_MEDIAN;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){4, 2.5F, 1}, 3, 1);
    spec = csv_spec("1,NA,0\n2,NA,1\n");
    spec.missing = DATA_MISSING_MEAN;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "column \"#1\" has no value");
    spec.missing = DATA_MISSING_SKIP;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "all 2 lack a value");
    spec = csv_spec("1,0\n2,null\n");
    spec.missing = DATA_MISSING_MEAN;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "t.csv:2: column 1: the label is missing");
    spec.missing = DATA_MISSING_SKIP;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1}, 1, 1);
}

/* Of numbers; as a category they are words. */
static void databases_write_missing_numbers_in_their_way(void **state)
{
    (void)state;
    static const char *const words[] = {"\\N", "#N/A", "<NA>", "None", "-", ".", "NULL"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "1,x,0\n%s,%s,1\n3,x,0\n", words[i],
                       i < 6 ? words[i] : "x");
        struct data_spec spec = csv_spec(text);
        spec.categorical = (char[]){"1"};
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                        "t.csv:2: column 0: the value is missing (");
        spec.missing = DATA_MISSING_MEAN;
        const bool two = i < 6;
        const float twice[] = {1, 0, 1, 2, 1, 0, 3, 0, 1}, once[] = {1, 1, 2, 1, 3, 1};
        check_features(&spec, DATA_LABEL_CLASS, two ? twice : once, 3, two ? 3 : 2);
    }
}

static void real_labels_and_weights_are_numbers_there(void **state)
{
    (void)state;
    static const char *const words[] = {"\\N", "#N/A", "<NA>", "None", "-", "."};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "1,2,3\n2,2,%s\n3,2,4\n", words[i]);
        struct data_spec spec = csv_spec(text);
        fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID,
                        "t.csv:2: column 2: the label is missing (");
        spec.missing = DATA_MISSING_SKIP;
        check_features(&spec, DATA_LABEL_REAL, (float[]){1, 2, 3, 2}, 2, 2);
        check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 2, 2, 2, 3, 2}, 3, 2); /* a word */
        (void)snprintf(text, sizeof text, "1,2,3\n2,%s,3\n3,2,4\n", words[i]);
        spec = csv_spec(text);
        spec.weight = (char[]){"1"};
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                        "t.csv:2: column 1: the weight is missing (");
        spec.missing = DATA_MISSING_SKIP;
        check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 3}, 2, 1);
    }
}

/* They neither make a first record a header nor hide one. */
static void they_say_nothing_of_headers(void **state)
{
    (void)state;
    static const char *const words[] = {"\\N", "#N/A", "<NA>", "None", "-", ".", "NULL"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s,0\n1,1\n2,0\n", words[i]);
        struct data_spec spec = csv_spec(text);
        spec.missing = DATA_MISSING_ZERO;
        check_features(&spec, DATA_LABEL_CLASS, (float[]){0, 1, 2}, 3, 1);
        (void)snprintf(text, sizeof text, "a,b\n1,x\n%s,y\n", words[i]);
        spec = csv_spec(text);
        spec.missing = DATA_MISSING_ZERO;
        check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 0}, 2, 1);
    }
}

static void records_of_one_class_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool one;
    } cases[] = {
        {"1,0\n2,0\n", true}, {"1,1\n2,1\n", true}, {"1,a\n2,a\n", true}, {"1,0\n2,1\n", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = csv_spec(cases[i].text);
        spec.header = DATA_HEADER_FALSE;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        assert_int_equal(dataset_of_one_class(d), cases[i].one);
        dataset_free(d);
    }
    struct data_spec spec = csv_spec("1,3\n2,3\n");
    struct dataset *d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    assert_false(dataset_of_one_class(d));
    dataset_free(d);
}

static void test_records_are_filled_with_train_statistics(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("1,0\n3,1\n");
    fixture_text("test.csv", ",0\n100,1\n");
    spec.test.file = (char[]){"test.csv"};
    spec.missing = DATA_MISSING_MEAN;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    struct batch b = fixture_read(test);
    assert_true(b.features[0] == 2 && b.features[1] == 100);
    batch_release(&b);
    dataset_free(train);
    dataset_free(test);
}

static void categories_become_ones(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("color,size,y\nred,1,0\nblue,2,1\nred,3,0\n");
    spec.categorical = (char[]){" color "};
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 0, 1, 2, 1, 0, 3, 0, 1}, 3, 3);
    fixture_text("test.csv", "color,size,y\ngreen,9,0\n?,8,1\nblue,7,1\n");
    spec.test.file = (char[]){"test.csv"};
    spec.missing = DATA_MISSING_ZERO;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    struct batch b = fixture_read(test);
    assert_memory_equal(b.features, ((float[]){9, 0, 0, 8, 0, 0, 7, 1, 0}), 9 * sizeof(float));
    batch_release(&b);
    dataset_free(train);
    dataset_free(test);
    spec = csv_spec("a,x,0\nb,y,1\na,y,0\n"); /* categories only */
    spec.categorical = (char[]){"0,-2"};
    spec.scale = DATA_SCALE_STANDARD; /* leaves one-hot features alone */
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1}, 3, 4);
    spec.categorical = (char[]){"0,1,2"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "column \"2\", which is the label already");
    spec = csv_spec("a,x,0\n?,?,1\n");
    spec.categorical = (char[]){"0,1"};
    spec.missing = DATA_MISSING_ZERO;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 1, 0, 0}, 2, 2);
    spec = csv_spec("?,?,0\n?,?,1\n"); /* nothing is known of any */
    spec.categorical = (char[]){"0,1"};
    spec.missing = DATA_MISSING_ZERO;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "the categorical columns give 0 features; allowed are 1 to 1000000");
    spec.categorical = (char[]){"0,shade"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.categorical names column \"shade\"");
}

/* Names that have commas stand in a list. */
static void columns_are_named_in_lists(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("color,\"size, mm\",n,y\nred,s,9,0\nblue,m,9,1\nred,m,9,0\n");
    spec.categorical = (char[]){"[\"size, mm\", 0]"};
    spec.ignore = (char[]){"[n]"};
    check_features(&spec, DATA_LABEL_CLASS, (float[]){0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0}, 3, 4);
    spec.ignore = (char[]){"[n,]"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.ignore: this is no list of columns");
}

/* What the file seems to be, and what leaves a line out, is said. */
static void errors_have_advice(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("a;b;y\n1;2;0\n2;3;1\n");
    spec.label = (char[]){"y"};
    spec.header = 1; /* true */
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "is it data.separator: \";\"?");
    spec = csv_spec("a,b,y\n1,2,0\n2,3,1\n2,oops,1\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "; 2 records before it are good: data.bad_records: 1 leaves one out");
}

static void ragged_rows_are_refused(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("a,b,y\n1,2,0\n1,0\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT,
                    "t.csv:3: 2 fields, expected 3 as in line 1");
    spec = csv_spec("\n1,2,0\n\"1\",\"\n\n2\",0\n1,2,3,4\n");
    spec.categorical = (char[]){"1"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT,
                    "t.csv:6: 4 fields, expected 3 as in line 2");
}

static void cells_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("a,b,y\n1,2,0\n1,two,1\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "t.csv:3: column 1 (\"b\"): \"two\" is not a number; name the column in "
                    "data.categorical or data.ignore");
    static const char *const words[] = {"1e99", "inf", "0x10", "1 2", "--1", "1e", "1\001"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "1,0\n%s,1\n", words[i]);
        spec = csv_spec(text);
        spec.format = DATA_FORMAT_CSV;
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "t.csv:2: column 0: ");
    }
    spec = csv_spec("1,0\nan endless text with öäöäöäöäöäöäöäöäöäöäöäöäöäöäöä in it,1\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "ö…\" is not a number");
}

static void broken_quotes_are_refused(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("1,0\n\"2,1\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "t.csv:2: field 1: the file ends inside");
    spec = csv_spec("1,0\n2,\"1\"x\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "t.csv:2: field 2: text follows");
    fixture_write("t.csv", "1,0\n2,\0\n", 8);
    spec.format = DATA_FORMAT_CSV;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "t.csv:2: field 2: a NUL byte");
}

static void files_without_records_are_refused(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("\n\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "t.csv: the file is empty");
    spec = csv_spec("\xEF\xBB\xBF");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "t.csv: the file is empty");
    spec = csv_spec("a,b\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "a header line and no records");
    spec = csv_spec("1;2\n3;4\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "is it data.separator: \";\"?");
    spec = csv_spec("1\n3\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "is this the right separator?");
    spec = csv_spec("1,2\n");
    spec.train.labels = (char[]){"labels"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "data.train.labels is set");
}

static void sources_must_have_the_same_columns(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("a,b,y\n1,2,0\n");
    spec.test.file = (char[]){"test.csv"};
    fixture_text("test.csv", "b,a,y\n1,2,0\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "test.csv: its columns are b, a; those of ");
    fixture_text("test.csv", "a,y\n1,0\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "test.csv: its columns are a; those of ");
    fixture_text("test.csv", "3,4,0\n"); /* no header: by position */
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    dataset_free(train);
    dataset_free(test);
    spec.test_fraction = 0.5;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "exclude each other");
}

static void a_limit_stops_reading(void **state)
{
    (void)state;
    struct data_spec spec = csv_spec("1,0\n2,1\nbad\n");
    spec.train.limit = 2;
    check_features(&spec, DATA_LABEL_CLASS, (float[]){1, 2}, 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_every_dialect_are_the_same),
        cmocka_unit_test(separators_are_understood),
        cmocka_unit_test(decimals_may_stand_behind_a_comma),
        cmocka_unit_test(headers_are_recognised),
        cmocka_unit_test(the_label_is_found),
        cmocka_unit_test(class_labels_get_stable_numbers),
        cmocka_unit_test(unknown_test_labels_are_refused),
        cmocka_unit_test(real_labels_are_numbers),
        cmocka_unit_test(missing_values_follow_the_policy),
        cmocka_unit_test(databases_write_missing_numbers_in_their_way),
        cmocka_unit_test(real_labels_and_weights_are_numbers_there),
        cmocka_unit_test(they_say_nothing_of_headers),
        cmocka_unit_test(records_of_one_class_are_found),
        cmocka_unit_test(test_records_are_filled_with_train_statistics),
        cmocka_unit_test(categories_become_ones),
        cmocka_unit_test(columns_are_named_in_lists),
        cmocka_unit_test(errors_have_advice),
        cmocka_unit_test(ragged_rows_are_refused),
        cmocka_unit_test(cells_that_are_no_numbers_are_refused),
        cmocka_unit_test(broken_quotes_are_refused),
        cmocka_unit_test(files_without_records_are_refused),
        cmocka_unit_test(sources_must_have_the_same_columns),
        cmocka_unit_test(a_limit_stops_reading),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
