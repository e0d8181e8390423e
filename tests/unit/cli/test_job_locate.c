/* SPDX-License-Identifier: Apache-2.0 */
/* Where in a job file stands what an error is about. */
#include "support/test.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli/job_locate.h"

static const char TEXT[] = "name: j\n"
                           "data:\n"
                           "  train: {file: rows/a.csv}\n"
                           "  test:\n"
                           "    file: part-*.csv\n"
                           "  label: y\n"
                           "  missing: error\n";

static void located(const char *message, unsigned line, unsigned column)
{
    struct job_file file = {.path = "job.yaml"};
    unsigned at_line = 0, at_column = 0;
    buf_add_str(&file.text, TEXT);
    const bool found = job_locate(&file, message, &at_line, &at_column);
    if (found != (line > 0) || at_line != line || at_column != column) {
        fail_msg("%s: %u:%u", message, at_line, at_column);
    }
    struct err err = {0};
    (void)err_set(&err, ERR_INVALID, "%s", message);
    job_locate_err(&file, &err);
    char *says =
        line == 0 ? mem_strdup(message) : mem_printf("job.yaml:%u:%u: %s", line, column, message);
    assert_string_equal(err.msg, says);
    assert_int_equal(err.code, ERR_INVALID);
    free(says);
    buf_release(&file.text);
}

static void test_keys_and_files(void **state)
{
    (void)state;
    located("a.csv: data.label names column \"z\"", 6, 10);
    located("/x/rows/a.csv:502: column 1: \"oops\" is not a number; data.missing: skip", 3, 17);
    located("/x/part-7.csv:2: column 1: nothing", 5, 11);
    located("open /x/rows/a.csv: No such file or directory", 3, 17);
    located("no records: a.csv is empty", 0, 0); /* no file is spoken of in front */
    located("/x/a.csv: cannot be opened", 3, 17);
    located("data.categorical names column \"plan\"", 0, 0); /* the file does not say it */
    located("data.missing., or so", 7, 12);
    located("layer dense_1: too many units", 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys_and_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
