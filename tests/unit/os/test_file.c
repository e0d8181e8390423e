/* SPDX-License-Identifier: Apache-2.0 */
/* Files, on a system that may lose its power between any two calls. What fsync() and rename() do
 * is done to the real file and to a model of what is on the disk: the bytes of a file are there
 * when it was synced, a new name when its directory was. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"

#define TEXT_BYTES 64

static char *dir;
static size_t files, dirs; /* syncs of each */

static struct {
    char synced[TEXT_BYTES];  /* of the file that was written last */
    char renamed[TEXT_BYTES]; /* what the name stands for, but for the directory's sync */
    char durable[TEXT_BYTES]; /* what the name stands for after a loss of power now */
    bool torn;                /* the name ever stood for something that was neither old nor new */
} disk;

enum failing { FAIL_NOTHING, FAIL_FILE_SYNC, FAIL_DIR_SYNC, FAIL_WRITE, FAIL_RENAME, FAIL_CLOSE };
static enum failing fails;
static size_t write_most; /* bytes that one write() takes; 0: all */
static int interrupts;    /* so many calls are interrupted first */

static int refuse(void)
{
    errno = EIO;
    return -1;
}

static void read_back(int fd, char text[TEXT_BYTES])
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    text[fread(text, 1, TEXT_BYTES - 1, f)] = '\0';
    (void)fclose(f);
}

int fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    if (S_ISREG(st.st_mode)) {
        files++;
        if (fails == FAIL_FILE_SYNC) {
            return refuse();
        }
        read_back(fd, disk.synced);
    } else {
        dirs++;
        if (fails == FAIL_DIR_SYNC) {
            return refuse();
        }
        memcpy(disk.durable, disk.renamed, TEXT_BYTES);
    }
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    if (fails == FAIL_RENAME) {
        return refuse();
    }
    /* The name may be on the disk at once, and then what it stands for is what was synced of it. */
    char now[TEXT_BYTES];
    FILE *f = fopen(from, "re");
    assert_non_null(f);
    now[fread(now, 1, TEXT_BYTES - 1, f)] = '\0';
    (void)fclose(f);
    disk.torn |= strcmp(now, disk.synced) != 0;
    memcpy(disk.renamed, disk.synced, TEXT_BYTES);
    return (int)syscall(SYS_rename, from, to);
}

ssize_t write(int fd, const void *data, size_t n)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return syscall(SYS_write, fd, data, n);
    }
    if (interrupts > 0) {
        interrupts--;
        errno = EINTR;
        return -1;
    }
    if (fails == FAIL_WRITE) {
        return refuse();
    }
    return syscall(SYS_write, fd, data, write_most != 0 && n > write_most ? write_most : n);
}

int close(int fd)
{
    struct stat st;
    bool file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    int rc = (int)syscall(SYS_close, fd);
    return fails == FAIL_CLOSE && file ? refuse() : rc;
}

static int make_dir(void **state)
{
    (void)state;
    dir = tmp_dir_make("file");
    files = dirs = 0;
    memset(&disk, 0, sizeof disk);
    fails = FAIL_NOTHING;
    write_most = 0;
    interrupts = 0;
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    tmp_dir_remove(dir);
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

static void expect_content(const char *path, const char *text)
{
    struct buf content = {0};
    assert_int_equal(file_read(path, 100, &content, NULL), 0);
    assert_string_equal(buf_str(&content), text);
    buf_release(&content);
}

/* Whenever the power goes, the name stands for the old text or for the new one, and for the new one
 * when the call has returned. */
static void a_loss_of_power_leaves_the_old_or_the_new(void **state)
{
    (void)state;
    char *path = file_join(dir, "a");
    assert_int_equal(file_write_atomic(path, "old", 3, NULL), 0);
    assert_string_equal(disk.durable, "old");
    assert_int_equal(file_write_atomic(path, "new text", 8, NULL), 0);
    assert_string_equal(disk.durable, "new text");
    assert_false(disk.torn);
    free(path);
}

static void what_fails_is_said_and_leaves_the_old(void **state)
{
    (void)state;
    static const struct {
        enum failing what;
        const char *says;
    } CASES[] = {{FAIL_WRITE, "write "},
                 {FAIL_FILE_SYNC, "fsync "},
                 {FAIL_CLOSE, "close "},
                 {FAIL_RENAME, "rename "}};
    char *path = file_join(dir, "a");
    assert_int_equal(file_write_atomic(path, "old", 3, NULL), 0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        fails = CASES[i].what;
        assert_true(file_write_atomic(path, "new", 3, &err) < 0);
        fails = FAIL_NOTHING;
        assert_true(strncmp(err.msg, CASES[i].says, strlen(CASES[i].says)) == 0);
        assert_non_null(strstr(err.msg, path));
        expect_content(path, "old");
        assert_string_equal(disk.durable, "old");
        assert_true(unlink(path) == 0 && rmdir(dir) == 0); /* nothing else was left */
        assert_int_equal(mkdir(dir, 0700), 0);
        assert_int_equal(file_write_atomic(path, "old", 3, NULL), 0);
    }
    struct err err = {0};
    fails = FAIL_DIR_SYNC; /* nobody knows which of the two it is */
    assert_true(file_write_atomic(path, "new", 3, &err) < 0);
    assert_true(file_sync_dir(dir, &err) < 0);
    assert_non_null(strstr(err.msg, dir));
    free(path);
}

/* A link stays one, to a file that is replaced or made; a pipe and a device stay what they are. */
static void what_is_no_file_is_not_replaced(void **state)
{
    (void)state;
    char *file = file_join(dir, "file"), *link = file_join(dir, "link"),
         *pipe = file_join(dir, "pipe");
    char *loop = file_join(dir, "loop");
    struct stat st;
    assert_int_equal(symlink("file", link), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(file_write_atomic(link, i == 0 ? "one" : "two", 3, NULL), 0);
        expect_content(file, i == 0 ? "one" : "two");
        assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    }
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const int reader = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char text[8] = "";
    assert_int_equal(file_write_atomic(pipe, "three", 5, NULL), 0);
    assert_int_equal(read(reader, text, sizeof text), 5);
    assert_memory_equal(text, "three", 5);
    assert_true(lstat(pipe, &st) == 0 && S_ISFIFO(st.st_mode));
    assert_int_equal(file_write_atomic("/dev/null", "four", 4, NULL), 0);
    assert_true(lstat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    struct err err = {0};
    assert_true(file_write_atomic("/dev/full", "five", 4, &err) < 0);
    assert_true(lstat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode));
    assert_int_equal(symlink("loop", loop), 0);
    assert_true(file_write_atomic(loop, "six", 3, &err) < 0);
    (void)close(reader);
    (void)unlink(loop);
    (void)unlink(pipe);
    (void)unlink(link);
    free(loop);
    free(pipe);
    free(link);
    free(file);
}

static void writes_are_continued(void **state)
{
    (void)state;
    char *path = file_join(dir, "a");
    struct file_writer w;
    assert_int_equal(file_writer_open(&w, path, NULL), 0);
    write_most = 2;
    interrupts = 3;
    assert_int_equal(file_writer_add(&w, "seven b", 7, NULL), 0);
    assert_int_equal(w.offset, 7);
    assert_int_equal(file_writer_add(&w, "ytes", 4, NULL), 0);
    assert_int_equal(w.offset, 11);
    assert_int_equal(file_writer_commit(&w, NULL), 0);
    file_writer_abort(&w); /* after the end, it is nothing */
    expect_content(path, "seven bytes");
    free(path);
}

static void a_file_without_a_directory_is_in_this_one(void **state)
{
    (void)state;
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(file_write_atomic("a", "text", 4, NULL), 0);
    assert_int_equal(dirs, 1);
    expect_content("a", "text");
    assert_int_equal(chdir(before), 0);
}

static void reading_has_a_limit(void **state)
{
    (void)state;
    char *path = file_join(dir, "a"), *missing = file_join(dir, "b");
    struct buf out = {0};
    struct err err = {0};
    assert_int_equal(file_write_atomic(path, "text", 4, NULL), 0);
    buf_add_str(&out, "x");
    assert_int_equal(file_read(path, 3, &out, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "larger than 3 bytes"));
    assert_int_equal(file_read(missing, 3, &out, &err), ERR_NOT_FOUND);
    assert_true(file_read(dir, 3, &out, &err) < 0);
    assert_string_equal(buf_str(&out), "x"); /* as before */
    assert_int_equal(file_read(path, 4, &out, &err), 0);
    assert_string_equal(buf_str(&out), "xtext");
    assert_true(file_exists(path) && !file_exists(missing));
    buf_release(&out);
    free(path);
    free(missing);
}

static void directories_are_made_and_removed(void **state)
{
    (void)state;
    char *deep = file_join(dir, "a/b/c"), *file = file_join(dir, "a/b/f");
    char *top = file_join(dir, "a");
    char *outside = file_join(dir, "outside"), *link = file_join(dir, "a/link");
    struct err err = {0};
    assert_int_equal(file_make_dirs(deep, &err), 0);
    assert_int_equal(file_make_dirs(deep, &err), 0); /* it is there */
    assert_int_equal(file_write_atomic(file, "", 0, NULL), 0);
    assert_int_equal(file_make_dirs(file, &err), ERR_EXISTS);
    assert_non_null(strstr(err.msg, "a file of that name is in the way"));
    char *below = file_join(file, "d");
    assert_true(file_make_dirs(below, &err) < 0);
    assert_true(file_make_dirs("/proc/nowhere", &err) < 0);
    assert_true(file_make_dirs("", &err) < 0);
    /* A link is removed, and not what it points to. */
    assert_int_equal(file_make_dirs(outside, NULL), 0);
    char *kept = file_join(outside, "kept");
    assert_int_equal(file_write_atomic(kept, "", 0, NULL), 0);
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(file_remove_tree(top, &err), 0);
    assert_false(file_exists(top));
    assert_true(file_exists(kept));
    assert_int_equal(file_remove_tree(top, &err), 0); /* nothing is left to do */
    assert_true(file_remove_tree("/proc/self", &err) < 0);
    char *const all[] = {deep, file, top, outside, link, below, kept};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static void names_are_joined(void **state)
{
    (void)state;
    static const char *const CASES[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a", "/b", "/b"}, {"", "b", "b"}, {NULL, "b", "b"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *joined = file_join(CASES[i][0], CASES[i][1]);
        assert_string_equal(joined, CASES[i][2]);
        free(joined);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_and_its_name_are_synced),
        TEST(a_directory_is_synced),
        TEST(what_is_given_up_leaves_nothing),
        TEST(a_loss_of_power_leaves_the_old_or_the_new),
        TEST(what_fails_is_said_and_leaves_the_old),
        TEST(what_is_no_file_is_not_replaced),
        TEST(writes_are_continued),
        TEST(a_file_without_a_directory_is_in_this_one),
        TEST(reading_has_a_limit),
        TEST(directories_are_made_and_removed),
        TEST(names_are_joined),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
