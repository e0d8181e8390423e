/* SPDX-License-Identifier: Apache-2.0 */
/* Train records that are encoded as those of another job were (data_spec.measured): the numbers
 * that they have as its test records, from memory and streamed; what is new; what does not fit. */
#include "unit/data/data_rig.h"

static char none[] = "", monday[] = "monday", tuesday[] = "tuesday";

static void same(const struct dataset *a, const struct dataset *b)
{
    struct batch x = fixture_read(a), y = fixture_read(b);
    const uint64_t width = shape_count(&dataset_info(a)->features);
    assert_int_equal(x.count, y.count);
    assert_true(shape_equal(&dataset_info(a)->features, &dataset_info(b)->features));
    assert_memory_equal(x.features, y.features, x.count * width * sizeof *x.features);
    assert_memory_equal(x.classes, y.classes, x.count * sizeof *x.classes);
    assert_memory_equal(x.targets, y.targets, x.count * sizeof *x.targets);
    batch_release(&x);
    batch_release(&y);
}

static char *measured_of(struct data_spec spec, enum data_label_kind kind, struct dataset **test)
{
    struct dataset *train = fixture_open(&spec, kind, test);
    char *text = mem_strdup(dataset_measured(train));
    dataset_free(train);
    return text;
}

/* What Monday measured makes of Tuesday what it is as Monday's test file. Returns the news. */
static char *check(struct data_spec spec, enum data_label_kind kind)
{
    char *news = NULL;
    struct dataset *expected, *nothing;
    struct data_spec first = spec;
    first.train.file = monday;
    first.test = (struct data_source){.file = tuesday, .labels = none};
    char *text = measured_of(first, kind, &expected);
    static const int loadings[] = {DATA_LOADING_MEMORY, DATA_LOADING_STREAM, DATA_LOADING_STREAM};
    for (size_t i = 0; i < 3; i++) { /* streamed: an index is made, and taken */
        spec.train.file = tuesday;
        spec.loading = loadings[i];
        spec.measured = text;
        struct dataset *d = fixture_open(&spec, kind, &nothing);
        assert_null(nothing);
        same(d, expected);
        /* The next job begins with this one. */
        spec.measured = dataset_measured(d);
        struct dataset *next = fixture_open(&spec, kind, &nothing);
        same(next, expected);
        dataset_free(next);
        const char *said = dataset_news(d) == NULL ? "" : dataset_news(d);
        if (news == NULL) {
            news = mem_strdup(said);
        }
        assert_string_equal(said, news);
        dataset_free(d);
    }
    dataset_free(expected);
    free(text);
    return news;
}

static struct data_spec of_text(char *label, char *categorical)
{
    struct data_spec spec = fixture_spec(monday, none);
    spec.label = label;
    spec.categorical = categorical;
    spec.format = DATA_FORMAT_CSV;
    fixture_text(monday, "label,x,city,page\nno,1,Rome,a\nyes,3,Oslo,b\nno,5,Rome,a\n");
    fixture_text(tuesday, "label,x,city,page\nyes,30,Oslo,a\nno,10,Kiev,c\nyes,20,Rome,d\n");
    return spec;
}

static void categories_keep_their_features(void **state)
{
    (void)state;
    char label[] = "label", categorical[] = "city,page";
    char *news = check(of_text(label, categorical), DATA_LABEL_CLASS);
    assert_string_equal(news, "column city: 1 new category (Kiev), whose features are all 0; "
                              "column page: 2 new categories (c, d), whose features are all 0");
    free(news);
}

static void declared_columns(void **state)
{
    (void)state;
    struct data_column columns[] = {
        {.column = (char[]){"label"}, .as = COLUMN_LABEL},
        {.column = (char[]){"x"}, .as = COLUMN_NUMBER, .standardise = true},
        {.column = (char[]){"city"}, .as = COLUMN_CATEGORY, .unknown = COLUMN_UNKNOWN_OWN},
        {.column = (char[]){"page"}, .as = COLUMN_CATEGORY, .buckets = 3},
    };
    char label[] = "", categorical[] = "";
    struct data_spec spec = of_text(label, categorical);
    for (size_t i = 0; i < 4; i++) {
        columns[i].boundaries = columns[i].vocabulary = columns[i].vocabulary_file = none;
        columns[i].separator = none;
    }
    spec.columns = columns;
    spec.column_count = 4;
    char *news = check(spec, DATA_LABEL_CLASS);
    assert_string_equal(
        news, "column city: 1 new category (Kiev), which has the feature of unknown ones");
    free(news);
}

static void records_of_libsvm_keep_their_width(void **state)
{
    (void)state;
    struct data_spec spec = fixture_spec(monday, none);
    fixture_text(monday, "1 1:2 4:4\n0 2:8\n1 1:1\n");
    fixture_text(tuesday, "1 1:4\n0 3:8 9:1\n");
    spec.format = DATA_FORMAT_LIBSVM;
    free(check(spec, DATA_LABEL_CLASS));
    fixture_text(tuesday, "1 1:4\n0 2:8\n"); /* fewer */
    free(check(spec, DATA_LABEL_CLASS));
}

static void real_labels_keep_their_scale(void **state)
{
    (void)state;
    char label[] = "y";
    struct data_spec spec = fixture_spec(monday, none);
    fixture_text(monday, "x,y\n1,10\n2,20\n3,60\n");
    fixture_text(tuesday, "x,y\n7,1000\n9,1\n");
    spec.label = label;
    spec.label_scale = DATA_LABEL_SCALE_STANDARD;
    free(check(spec, DATA_LABEL_REAL));
}

static void what_does_not_fit(void **state)
{
    (void)state;
    char label[] = "label", categorical[] = "city,page";
    struct data_spec spec = of_text(label, categorical);
    struct dataset *nothing;
    char *text = measured_of(spec, DATA_LABEL_CLASS, &nothing);
    spec.measured = text;
    spec.train.file = tuesday;
    fixture_text(tuesday, "label,x,city,page\nmaybe,30,Oslo,a\nno,10,Rome,b\n");
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "labels are maybe, no; the classes there are no, yes");
    fixture_text(tuesday, "label,x,town,page\nyes,30,Oslo,a\nno,10,Rome,b\n");
    categorical[0] = 't';
    memcpy(categorical, "town", 4);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "its columns are x, town, page; those of");
    spec.loading = DATA_LOADING_STREAM;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "from.encoding: measure");
    spec.measured = "{\"version\": 1}";
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "from.encoding: measure");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(categories_keep_their_features, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(declared_columns, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(records_of_libsvm_keep_their_width, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(real_labels_keep_their_scale, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
