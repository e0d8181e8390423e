/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/data/data_rig.h"

#include "data/file_list.h"

/* The files of @names, without their directory, have to be those of @expected. */
static void lists(const char *names, const char *expected)
{
    struct file_list list = {0};
    struct err err = {0};
    struct buf joined = {0};
    if (file_list_make(NULL, fixture_dir, names, "data.train.file", &list, &err) != 0) {
        fail_msg("%s: %s", names, err.msg);
    }
    for (size_t i = 0; i < list.count; i++) {
        size_t n = strlen(fixture_dir);
        assert_memory_equal(list.paths[i], fixture_dir, n);
        buf_printf(&joined, "%s%s", i == 0 ? "" : " ", list.paths[i] + n + 1);
    }
    assert_string_equal(buf_str(&joined), expected);
    buf_release(&joined);
    file_list_release(&list);
}

static void refused(const char *names, int code, const char *message)
{
    struct file_list list = {0};
    struct err err = {0};
    assert_int_equal(file_list_make(NULL, fixture_dir, names, "data.train.file", &list, &err),
                     code);
    char *expected = mem_printf("data.train.file: %s", message);
    if (strstr(err.msg, expected) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", err.msg, expected);
    }
    free(expected);
    assert_null(list.paths);
}

static void patterns_are_sorted_by_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"part-10", "part-2",     "part-1", "Part-3", ".part-4",
                                        "other",   "with space", "odd[1]", "odd1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fixture_text(names[i], "1,0\n");
    }
    lists("", "");
    lists("part-2", "part-2");
    lists("part-*", "part-1 part-10 part-2");
    lists("[Pp]art-[0-9]", "Part-3 part-1 part-2");
    lists("*", "Part-3 odd1 odd[1] other part-1 part-10 part-2 with space");
    lists("[other, part-2, part-1]", "other part-2 part-1");
    lists("[other, part-*]", "other part-1 part-10 part-2");
    lists("odd[1]", "odd[1]"); /* there is a file of that name */
    lists("od?[0-9]", "odd1");
    lists("not-there", "not-there"); /* whoever opens it says so */
    refused("train-*.csv", ERR_NOT_FOUND, "no file matches ");
    refused("[part-1, x*]", ERR_NOT_FOUND, "no file matches ");
    refused("[part-1, part-*]", ERR_INVALID, fixture_dir);
    refused("[a,,b]", ERR_INVALID, "[a,,b] is not a list of files; expected [a, b]");
}

/* The directory is no part of the pattern. */
static void directories_are_taken_literally(void **state)
{
    (void)state;
    char *dir = mem_printf("%s/d[ab]*", fixture_dir), *file = file_join(dir, "x1");
    assert_int_equal(file_make_dirs(dir, NULL), 0);
    assert_int_equal(file_write_atomic(file, "1", 1, NULL), 0);
    struct file_list list = {0};
    assert_int_equal(file_list_make(NULL, dir, "x*", "", &list, NULL), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.paths[0], file);
    file_list_release(&list);
    assert_int_equal(file_list_make(NULL, "/nowhere", file, "", &list, NULL), 0);
    assert_string_equal(list.paths[0], file);
    file_list_release(&list);
    free(dir);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_sorted_by_bytes),
        cmocka_unit_test(directories_are_taken_literally),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
