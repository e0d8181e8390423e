/* SPDX-License-Identifier: Apache-2.0 */
/* Where data is, for those who are somewhere else. */
#include "support/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/submit.h"

static void assert_dir_with(const char *dir, const char *file, const char *labels,
                            const char *source, const char *expected)
{
    char strings[3][64], none[] = "", from[64] = "";
    (void)snprintf(strings[0], sizeof strings[0], "%s", dir);
    (void)snprintf(strings[1], sizeof strings[1], "%s", file);
    (void)snprintf(strings[2], sizeof strings[2], "%s", labels);
    (void)snprintf(from, sizeof from, "%s", source);
    struct job_spec spec = {.data = {.dir = strings[0],
                                     .train = {.file = strings[1], .labels = strings[2]},
                                     .test = {.file = none, .labels = none}},
                            .from = {.checkpoint = none, .safetensors = from, .onnx = none}};
    char *sent = submit_data_dir(&spec, false);
    if (expected == NULL) {
        assert_null(sent);
    } else {
        assert_non_null(sent);
        assert_string_equal(sent, expected);
    }
    free(sent);
}

static void assert_dir(const char *dir, const char *file, const char *labels, const char *expected)
{
    assert_dir_with(dir, file, labels, "", expected);
}

static void test_the_directory_that_is_sent(void **state)
{
    (void)state;
    assert_int_equal(chdir("/usr/bin"), 0);
    assert_dir(".", "a", "", "/usr/bin");
    assert_dir("../lib", "a", "b", "/usr/lib");
    assert_dir("no/such/dir", "a", "b", "/usr/bin/no/such/dir"); /* it may be there for workers */
    assert_dir("/data", "a", "b", NULL);
    assert_dir(".", "/data/a", "/data/b", NULL); /* nothing is relative to it */
    assert_dir(".", "/data/a", "b", "/usr/bin");
    assert_dir(".", "s3://bucket/a", "", NULL);
    assert_dir("s3://bucket/data", "a", "b", NULL);
    assert_dir(".", "s3://bucket/a", "b", "/usr/bin");
    assert_dir_with(".", "/data/a", "", "a.safetensors", "/usr/bin"); /* the source of `from` is */
    assert_dir_with(".", "/data/a", "", "/data/a.safetensors", NULL);
}

/* Of a file in another directory: no longer what its text says. */
static void test_a_directory_that_was_found(void **state)
{
    (void)state;
    char dir[] = "/usr/no/such", rows[] = "rows.csv", none[] = "";
    struct job_spec spec = {.data = {.dir = dir, .train = {.file = rows}}};
    char *sent = submit_data_dir(&spec, true);
    assert_string_equal(sent, dir);
    free(sent);
    assert_null(submit_data_dir(&spec, false));
    spec.data.train.file = none;
    assert_null(submit_data_dir(&spec, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_directory_that_is_sent),
                                       cmocka_unit_test(test_a_directory_that_was_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
