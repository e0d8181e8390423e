/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that are no records: an error, or left out up to a number. */
#include "unit/data/data_rig.h"

static struct data_spec spec_of(const char *text, int64_t bad_records)
{
    static char file[] = "x", none[] = "";
    fixture_text(file, text);
    struct data_spec spec = fixture_spec(file, none);
    spec.bad_records = bad_records;
    spec.format = strchr(text, ':') != NULL ? DATA_FORMAT_LIBSVM : DATA_FORMAT_CSV;
    return spec;
}

/* Leaving @bad lines out gives the data of @good; one less is refused with @message. */
static void leaves_out(const char *text, const char *good, int64_t bad, const char *message)
{
    struct data_spec spec = spec_of(good, 0);
    struct dataset *expected = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_bad_records(expected, NULL), 0);

    spec = spec_of(text, bad);
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_true(dataset_info(d)->fingerprint == dataset_info(expected)->fingerprint);
    const char *first = NULL;
    assert_int_equal(dataset_bad_records(d, &first), bad);
    assert_non_null(strstr(first, message));
    dataset_free(d);
    dataset_free(expected);

    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    spec.bad_records = bad - 1;
    assert_int_not_equal(dataset_open(&spec, DATA_LABEL_CLASS, &train, &test, &err), 0);
    if (bad > 1) {
        char *more =
            mem_printf("these are more bad records than data.bad_records: %d", (int)bad - 1);
        assert_non_null(strstr(err.msg, more));
        free(more);
    }
    spec.bad_records = 0;
    assert_int_not_equal(dataset_open(&spec, DATA_LABEL_CLASS, &train, &test, &err), 0);
    assert_non_null(strstr(err.msg, message));
    assert_null(strstr(err.msg, "these are more bad records"));
}

static void lines_of_csv_are_left_out(void **state)
{
    (void)state;
    leaves_out("a,b,y\n1,2,0\n1,2\n3,4,1\n", "a,b,y\n1,2,0\n3,4,1\n", 1,
               "x:3: 2 fields, expected 3 as in line 1");
    leaves_out("a,b,y\n1,two,0\n1,2,\n3,4,1\n1,2,3,4\n5,6,0\n,7,0\n", "a,b,y\n3,4,1\n5,6,0\n", 4,
               "x:2: column 1 (\"b\"): \"two\" is not a number");
    leaves_out("a,b,y\n1,2,0\n\"1\"x,2,0\n3,4,1\n", "a,b,y\n1,2,0\n3,4,1\n", 1,
               "x:3: field 1: text follows the closing quote");
    leaves_out("a,b,y\n1,2,0\n\"1\";2,0\n3,4,1\n", "a,b,y\n1,2,0\n3,4,1\n", 1,
               "x:3: field 1: text follows the closing quote; is it data.separator: \";\"?");
    leaves_out("a,b,y\r\n\"1\"x,\"2,0\r\n1,2,0\r\n3,4,1\r\n\"5\" 5", "a,b,y\n1,2,0\n3,4,1\n", 2,
               "x:2: field 1: text follows the closing quote");
}

static void lines_of_libsvm_are_left_out(void **state)
{
    (void)state;
    leaves_out("1 1:1 2:2\n0 1:x\n0 3:1 3:1 9:1\n0 2:1\n?\n", "1 1:1 2:2\n0 2:1\n", 3,
               "x:2:5: \"x\" is not a finite number");
}

/* Nobody can say where a record ends whose quote is not closed. */
static void an_open_quote_is_no_record(void **state)
{
    (void)state;
    struct data_spec spec = spec_of("1,0\n\"2,1\n3,0\n4,1\n", 100);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "the file ends inside quotes");
    spec = spec_of("", 100);
    spec.format = DATA_FORMAT_CSV;
    fixture_write("x", "1,0\n2\0,1\n", 9);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT, "x:2: field 1: a NUL byte");
}

static void all_bad_is_an_error(void **state)
{
    (void)state;
    struct data_spec spec = spec_of("a,y\nx,0\ny,1\n", 10);
    spec.header = DATA_HEADER_TRUE;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "x: no records: all 2 lines are bad, such as ");
    spec = spec_of("1 x\n", 10);
    spec.format = DATA_FORMAT_LIBSVM;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "x: no records: all 1 lines are bad");
}

/* The number is of all files of a part, and each part has its own. */
static void files_share_the_number(void **state)
{
    (void)state;
    fixture_text("f1", "1,0\n2\n3,1\n");
    fixture_text("f2", "2,0\n1\n3,1\n4\n");
    struct data_spec spec = spec_of("6,0\n5\n7\n8,1\n9\n", 3);
    spec.header = DATA_HEADER_FALSE;
    spec.train.file = (char[]){"[f1, x]"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_CORRUPT,
                    "/x:5: 1 field, expected 2 as in line 1; these are more bad records than "
                    "data.bad_records: 3");
    spec.train.file = (char[]){"f?"};
    spec.test.file = (char[]){"x"};
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    assert_int_equal(dataset_bad_records(train, NULL), 3);
    assert_int_equal(dataset_bad_records(test, NULL), 3);
    assert_int_equal(dataset_info(train)->records, 4);
    assert_int_equal(dataset_info(test)->records, 2);
    dataset_free(train);
    dataset_free(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_csv_are_left_out),
        cmocka_unit_test(lines_of_libsvm_are_left_out),
        cmocka_unit_test(an_open_quote_is_no_record),
        cmocka_unit_test(all_bad_is_an_error),
        cmocka_unit_test(files_share_the_number),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
