/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, as JSON: it comes back as it was, and what does not hold together is refused.
 */
#include "unit/data/data_rig.h"

#include "base/buf.h"
#include "data/encoder.h"
#include "data/encoding_json.h"

static char none[] = "";

static char *measured(const struct data_spec *spec, enum data_label_kind kind)
{
    struct dataset *test = NULL, *train = fixture_open(spec, kind, &test);
    char *text = mem_strdup(dataset_measured(train));
    dataset_free(train);
    dataset_free(test);
    return text;
}

/* Two numbers, one of which may be missing, two columns of text, a name that is not UTF-8. */
static struct data_spec plain_spec(void)
{
    static char train[] = "t.csv", label[] = "kind", categorical[] = "colour,shade";
    fixture_text("t.csv", "a,kind,colour,b,shade\n1,x,red,2,s\xe9\n3,y,blue,,t\n5,x,red,1,t\n");
    struct data_spec spec = fixture_spec(train, none);
    spec.label = label;
    spec.categorical = categorical;
    spec.header = DATA_HEADER_TRUE;
    spec.missing = DATA_MISSING_MEAN;
    return spec;
}

static int recall(const char *text, const struct data_spec *spec, struct err *err)
{
    struct encoder *e = NULL;
    int rc = encoder_recall(text, spec, DATA_LABEL_CLASS, &e, err);
    encoder_free(e);
    return rc;
}

static void it_is_readable(void **state)
{
    (void)state;
    struct data_spec spec = plain_spec();
    char *text = measured(&spec, DATA_LABEL_CLASS);
    static const char *const parts[] = {
        "\"version\": 1",
        "\"columns\": [\"a\", \"b\"]",
        "\"names\": [\"x\", \"y\"]",
        "\"fills\": [3.0, 1.5]",
        "\"categories\": [[\"blue\", \"red\"], [{\"hex\": \"73e9\"}, \"t\"]]",
        "\"shift\": [3.0, 1.5]",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(text, parts[i]) == NULL) {
            fail_msg("%s is not in %s", parts[i], text);
        }
    }
    assert_int_equal(recall(text, &spec, NULL), 0);
    free(text);
}

/* @from in what was measured becomes @to. */
static void changed(const struct data_spec *spec, const char *from, const char *to, int code,
                    const char *said)
{
    char *text = measured(spec, DATA_LABEL_CLASS), *at = strstr(text, from);
    struct buf lie = {0};
    struct err err = {0};
    if (at == NULL) {
        fail_msg("no %s in %s", from, text);
        return;
    }
    buf_add(&lie, text, (size_t)(at - text));
    buf_add_str(&lie, to);
    buf_add_str(&lie, at + strlen(from));
    if (recall(buf_str(&lie), spec, &err) != code || strstr(err.msg, said) == NULL) {
        fail_msg("%s to %s: %s", from, to, err.msg);
    }
    buf_release(&lie);
    free(text);
}

static void what_does_not_hold_together_is_refused(void **state)
{
    (void)state;
    struct data_spec spec = plain_spec();
    static const struct {
        const char *from, *to, *said;
    } lies[] = {
        {"\"shape\": [2]", "\"shape\": [3]", "columns"},
        {"\"shape\": [2]", "\"shape\": [4294967296, 4294967296]", "shape"},
        {"\"shape\": [2]", "\"shape\": \"x\"", "shape"},
        {"\"categories\": [\"colour\"", "\"others\": [\"colour\"", "categories"},
        {"\"columns\": [\"a\", \"b\"]", "\"columns\": [\"a\", 7]", "columns"},
        {"\"kind\": \"class\"", "\"kind\": \"real\"", "labels"},
        {"\"count\": 2, \"names\"", "\"count\": 3, \"names\"", "labels"},
        {"[\"x\", \"y\"]", "[\"y\", \"x\"]", "labels"},
        {"[\"x\", \"y\"]", "[\"x\", \"x\"]", "labels"},
        {"\"fills\": [3.0, 1.5]", "\"fills\": [3.0]", "fills"},
        {"[\"blue\", \"red\"]", "[\"red\", \"red\"]", "categories"},
        {"[\"blue\", \"red\"], ", "", "categories"},
        {"73e9", "7300", "categories"},
        {"73e9", "73x9", "categories"},
        {"\"shift\": [3.0, 1.5]", "\"shift\": [3.0]", "shift"},
        {"\"shift\": [3.0, 1.5]", "\"shift\": [null, 1.5]", "shift"},
        {"\"shift\": [3.0, 1.5]", "\"shift\": [1e300, 1.5]", "shift"},
        {"\"scaling\": {\"count\": 2", "\"scaling\": {\"count\": 200", "count"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        changed(&spec, lies[i].from, lies[i].to, ERR_CORRUPT, lies[i].said);
    }
    changed(&spec, "\"version\": 1", "\"version\": 2", ERR_UNSUPPORTED,
            "version: 2; this program knows 1");
}

static struct data_column column(char *name, int as)
{
    return (struct data_column){.column = name,
                                .as = as,
                                .boundaries = none,
                                .vocabulary = none,
                                .vocabulary_file = none,
                                .separator = none};
}

/* A mean, buckets, a vocabulary of the train records, one of a file, a hash. */
static void declared_columns(void **state)
{
    (void)state;
    char train[] = "t.csv", file[] = "colours", boundaries[] = "[2, 4]";
    struct data_column columns[] = {
        column((char[]){"a"}, COLUMN_NUMBER),   column((char[]){"kind"}, COLUMN_LABEL),
        column((char[]){"b"}, COLUMN_NUMBER),   column((char[]){"c"}, COLUMN_CATEGORY),
        column((char[]){"d"}, COLUMN_CATEGORY), column((char[]){"e"}, COLUMN_CATEGORY)};
    columns[0].standardise = true;
    columns[0].log = true;
    columns[2].boundaries = boundaries;
    columns[4].vocabulary_file = file;
    columns[5].buckets = 3;
    fixture_text("t.csv", "a,kind,b,c,d,e\n1,0,1,p,red,u\n3,1,3,q,blue,v\n9,1,5,p,red,w\n");
    fixture_text("colours", "blue\nred\ngreen\n");
    struct data_spec spec = fixture_spec(train, none);
    spec.columns = columns;
    spec.column_count = 6;
    char *text = measured(&spec, DATA_LABEL_CLASS);
    struct encoder *now = NULL, *then = NULL;
    assert_int_equal(encoder_open(&spec, DATA_LABEL_CLASS, &now, NULL), 0);
    changed(&spec, "\"declared\": [0, 2,", "\"declared\": [0, 9,", ERR_CORRUPT, "declared");
    changed(&spec, "\"mean\": ", "\"median\": ", ERR_CORRUPT, "columns");
    changed(&spec, "\"entry\": 4", "\"entry\": 6", ERR_CORRUPT, "vocabulary_files");
    fixture_text("t.csv", "");
    fixture_text("colours", "other\n");
    assert_int_equal(encoder_recall(text, &spec, DATA_LABEL_CLASS, &then, NULL), 0);
    assert_true(shape_equal(&encoder_info(now)->features, &encoder_info(then)->features));
    char *again = encoding_describe(&spec, "csv", encoder_raw(then), encoder_encoding(then));
    const char *rest = strstr(text, "\"records\""), *there = strstr(again, "\"records\"");
    const char *files = strstr(rest, "\"vocabulary_files\"");
    assert_memory_equal(rest, there, (size_t)(files - rest));
    free(again);
    free(text);
    encoder_free(now);
    encoder_free(then);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_readable, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_does_not_hold_together_is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(declared_columns, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
