/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to be durable is: fsync() is counted in place of the C library's. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static char *dir;
static size_t files, dirs;

int fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    files += S_ISREG(st.st_mode) ? 1 : 0;
    dirs += S_ISDIR(st.st_mode) ? 1 : 0;
    return (int)syscall(SYS_fsync, fd);
}

static int make_dir(void **state)
{
    (void)state;
    char name[] = "/tmp/gradus-file-XXXXXX";
    assert_non_null(mkdtemp(name));
    dir = mem_strdup(name);
    files = dirs = 0;
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    assert_int_equal(file_remove_tree(dir, NULL), 0);
    free(dir);
    return 0;
}

static void a_file_and_its_name_are_synced(void **state)
{
    (void)state;
    char *path = file_join(dir, "a");
    assert_int_equal(file_write_atomic(path, "text", 4, NULL), 0);
    assert_int_equal(files, 1);
    assert_int_equal(dirs, 1);
    struct buf content = {0};
    assert_int_equal(file_read(path, 100, &content, NULL), 0);
    assert_string_equal(buf_str(&content), "text");
    buf_release(&content);
    free(path);
}

static void a_directory_is_synced(void **state)
{
    (void)state;
    assert_int_equal(file_sync_dir(dir, NULL), 0);
    assert_int_equal(dirs, 1);
    char *missing = file_join(dir, "missing");
    assert_int_equal(file_sync_dir(missing, NULL), ERR_NOT_FOUND);
    free(missing);
}

static void what_is_given_up_leaves_nothing(void **state)
{
    (void)state;
    char *path = file_join(dir, "a");
    struct file_writer w;
    assert_int_equal(file_writer_open(&w, path, NULL), 0);
    assert_int_equal(file_writer_add(&w, "text", 4, NULL), 0);
    file_writer_abort(&w);
    assert_false(file_exists(path));
    assert_int_equal(rmdir(dir), 0); /* it is empty */
    assert_int_equal(mkdir(dir, 0700), 0);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_and_its_name_are_synced, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_directory_is_synced, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_is_given_up_leaves_nothing, make_dir, remove_dir),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
