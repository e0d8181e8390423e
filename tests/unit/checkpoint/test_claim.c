/* SPDX-License-Identifier: Apache-2.0 */
/* The owner file of a job's directory: one, durable, whoever tries at the same time. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "checkpoint/claim.h"
#include "os/file.h"

static char *root;
static char one[CLAIM_OWNER_BYTES], two[CLAIM_OWNER_BYTES];
static ino_t synced[64];           /* in place of the C library's */
static atomic_size_t synced_count; /* threads claim at the same time */
static bool disk_fails;

int fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    size_t at = atomic_fetch_add(&synced_count, 1);
    if (at < sizeof synced / sizeof synced[0]) {
        synced[at] = st.st_ino;
    }
    if (disk_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static int set_up(void **state)
{
    (void)state;
    root = tmp_dir_make("claim");
    claim_owner_new(one);
    claim_owner_new(two);
    return claim_root_make(root, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    tmp_dir_remove(root);
    return 0;
}

static bool was_synced(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (size_t i = 0; i < synced_count && i < sizeof synced / sizeof synced[0]; i++) {
        if (synced[i] == st.st_ino) {
            return true;
        }
    }
    return false;
}

static void owners_differ(void **state)
{
    (void)state;
    assert_int_equal(strlen(one), CLAIM_OWNER_BYTES - 1);
    assert_string_not_equal(one, two);
}

static void a_claim_is_durable_and_exclusive(void **state)
{
    (void)state;
    struct err err = {0};
    char *dir = file_join(root, "a-1"), *owner = file_join(dir, CLAIM_NAME);
    synced_count = 0;
    assert_int_equal(claim_make(root, "a-1", one, 7, &err), 0);
    assert_true(was_synced(root) && was_synced(dir) && was_synced(owner));
    assert_int_equal(claim_make(root, "a-1", one, 7, &err), ERR_EXISTS);
    assert_int_equal(claim_make(root, "a-1", two, 7, &err), ERR_EXISTS);
    assert_int_equal(claim_check(root, "a-1", one, NULL, &err), 0);
    assert_int_equal(claim_check(root, "a-1", two, NULL, &err), ERR_PERMISSION);
    assert_non_null(strstr(err.msg, one));
    char found[CLAIM_OWNER_BYTES];
    assert_int_equal(claim_read(dir, found, &err), 0);
    assert_string_equal(found, one);
    struct buf text = {0};
    assert_int_equal(file_read(owner, 1000, &text, NULL), 0);
    assert_non_null(strstr(buf_str(&text), "job a-1\nsubmitted_ms 7\n"));
    buf_release(&text);
    assert_int_equal(unlink(owner), 0);
    assert_int_equal(rmdir(dir), 0); /* nothing else is left in it */
    free(owner);
    free(dir);
}

static void what_is_not_claimed_is_told_apart(void **state)
{
    (void)state;
    struct err err = {0};
    bool there = true;
    assert_int_equal(claim_check(root, "a-1", one, &there, &err), ERR_NOT_FOUND);
    assert_false(there);
    char *dir = file_join(root, "a-1"), *owner = file_join(dir, CLAIM_NAME);
    assert_int_equal(mkdir(dir, 0755), 0);
    assert_int_equal(claim_check(root, "a-1", one, &there, &err), ERR_NOT_FOUND);
    assert_true(there);
    assert_int_equal(file_write_atomic(owner, "gradus-owner 1\nnobody\n", 22, NULL), 0);
    assert_int_equal(claim_check(root, "a-1", one, &there, &err), ERR_CORRUPT);
    assert_int_equal(claim_adopt(root, "a-1", one, 7, &err), ERR_CORRUPT);
    free(owner);
    free(dir);
}

static void *adopt(void *ctx)
{
    struct err err = {0};
    return claim_adopt(root, "a-1", ctx, 7, &err) == 0 ? ctx : NULL;
}

static void an_old_directory_is_adopted_by_one(void **state)
{
    (void)state;
    char *dir = file_join(root, "a-1");
    for (int i = 0; i < 50; i++) {
        assert_int_equal(mkdir(dir, 0755), 0);
        pthread_t threads[2];
        void *won[2];
        assert_int_equal(pthread_create(&threads[0], NULL, adopt, one), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, adopt, two), 0);
        assert_int_equal(pthread_join(threads[0], &won[0]), 0);
        assert_int_equal(pthread_join(threads[1], &won[1]), 0);
        assert_true((won[0] == NULL) != (won[1] == NULL));
        assert_int_equal(claim_check(root, "a-1", won[0] != NULL ? one : two, NULL, NULL), 0);
        assert_int_equal(file_remove_tree(dir, NULL), 0);
    }
    free(dir);
}

static void only_an_empty_directory_is_given_up(void **state)
{
    (void)state;
    char *dir = file_join(root, "a-1"), *in = file_join(dir, "step-000000001");
    assert_int_equal(claim_make(root, "a-1", one, 7, NULL), 0);
    claim_release(root, "a-1", two);
    assert_int_equal(claim_check(root, "a-1", one, NULL, NULL), 0);
    assert_int_equal(mkdir(in, 0755), 0);
    claim_release(root, "a-1", one);
    assert_int_equal(claim_check(root, "a-1", one, NULL, NULL), 0);
    assert_int_equal(rmdir(in), 0);
    claim_release(root, "a-1", one);
    assert_false(file_exists(dir));
    free(in);
    free(dir);
}

static void a_root_has_a_mark(void **state)
{
    (void)state;
    struct err err = {0};
    char *mark = file_join(root, CLAIM_ROOT_MARK);
    assert_int_equal(claim_root_check(root, &err), 0);
    assert_int_equal(claim_root_make(root, &err), 0); /* once more is fine */
    assert_int_equal(unlink(mark), 0);
    assert_int_equal(claim_root_check(root, &err), ERR_UNAVAILABLE);
    assert_int_equal(claim_make(root, "a-1", one, 7, &err), ERR_UNAVAILABLE);
    assert_int_equal(claim_root_check("/nonexistent", &err), ERR_UNAVAILABLE);
    disk_fails = true; /* nor is a mark there that may be gone after a crash */
    assert_int_equal(claim_root_make(root, &err), ERR_INTERNAL);
    disk_fails = false;
    assert_non_null(strstr(err.msg, mark));
    assert_int_equal(claim_root_check(root, &err), ERR_UNAVAILABLE);
    assert_int_equal(claim_root_make(root, &err), 0);
    assert_int_equal(claim_root_check(root, &err), 0);
    free(mark);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(owners_differ),
        TEST(a_claim_is_durable_and_exclusive),
        TEST(what_is_not_claimed_is_told_apart),
        TEST(an_old_directory_is_adopted_by_one),
        TEST(only_an_empty_directory_is_given_up),
        TEST(a_root_has_a_mark),
    };
    return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
