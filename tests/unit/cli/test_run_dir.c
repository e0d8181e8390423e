/* SPDX-License-Identifier: Apache-2.0 */
/* State directories of runs, and how they are found again. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/places.h"
#include "cli/run_dir.h"
#include "master/store/store.h"
#include "os/file.h"

/* The default state directory is <root>/gradus. */
static int setup(void **state)
{
    char *root = tmp_dir_make("run");
    assert_int_equal(setenv("XDG_STATE_HOME", root, 1), 0);
    *state = root;
    return 0;
}

static int teardown(void **state)
{
    tmp_dir_remove(*state);
    return 0;
}

static void claim(const char *given, struct run_dir *dir)
{
    struct err err = {0};
    if (run_dir_claim(given, dir, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static void assert_path(const struct run_dir *dir, const char *root, const char *below)
{
    char *path = file_join(root, below);
    assert_string_equal(dir->path, path);
    free(path);
}

static void test_each_run_has_its_own(void **state)
{
    struct run_dir first, second, third;
    claim("", &first);
    claim("", &second);
    assert_path(&first, *state, "gradus");
    assert_path(&second, *state, "gradus/run-2");
    assert_false(first.moved);
    assert_true(second.moved);
    run_dir_release(&first); /* its place is free again */
    claim("", &third);
    assert_path(&third, *state, "gradus");
    run_dir_release(&second);
    run_dir_release(&third);
}

/* A master's lock, as store_sqlite.c takes it. */
static int lock_as_master(const char *dir, const char *owner)
{
    char *path = file_join(dir, "master.lock");
    assert_int_equal(file_make_dirs(dir, NULL), 0);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(write(fd, owner, strlen(owner)), strlen(owner));
    free(path);
    return fd;
}

static void test_one_that_a_master_has(void **state)
{
    char *usual = file_join(*state, "gradus");
    int fd = lock_as_master(usual, "gradus-master with process id 7 on host x");
    struct run_dir dir;
    struct err err = {0};
    claim("", &dir);
    assert_path(&dir, *state, "gradus/run-2");
    run_dir_release(&dir);
    assert_int_equal(run_dir_claim(usual, &dir, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "is in use by gradus-master with process id 7 on host x; give "
                                    "another with --state-dir DIR"));
    run_dir_release(&dir);
    assert_int_equal(close(fd), 0);
    claim(usual, &dir);
    assert_false(dir.moved);
    run_dir_release(&dir);
    free(usual);
}

static void test_one_that_was_given_is_not_shared(void **state)
{
    char *given = file_join(*state, "mine");
    struct run_dir first, second;
    struct err err = {0};
    claim(given, &first);
    assert_string_equal(first.path, given);
    assert_int_equal(run_dir_claim(given, &second, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "is in use by another gradus run"));
    run_dir_release(&second);
    run_dir_release(&first);
    free(given);
}

/* As the kernel answers on a network file system without locks. */
static int no_locks; /* an errno */
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    errno = no_locks;
    return no_locks != 0 ? -1 : __real_flock(fd, operation);
}

static void test_a_file_system_without_locks(void **state)
{
    (void)state;
    static const int answers[] = {ENOLCK, ENOSYS, EOPNOTSUPP};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct run_dir dir;
        struct run_number number;
        struct store *store = NULL;
        struct err err = {0};
        no_locks = answers[i];
        assert_int_equal(run_dir_claim("", &dir, &err), ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "gradus/run.lock cannot be locked"));
        assert_non_null(strstr(err.msg, "--state-dir DIR"));
        char *usual = cli_state_dir(NULL);
        assert_int_equal(store_sqlite_open(usual, "me", &store, &err), ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "master.lock cannot be locked"));
        free(usual);
        assert_int_equal(run_number_take("digits", &number, &err), 0); /* --state-dir is enough */
        run_number_release(&number);
        no_locks = 0;
    }
}

/* SQLite would keep what is behind ?mode=memory in memory. */
static void test_names_that_look_like_urls(void **state)
{
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    static const char dir[] = "file:a%41?mode=memory&x=";
    struct store *store = NULL;
    struct buf value = {0};
    assert_int_equal(store_sqlite_open(dir, "me", &store, NULL), 0);
    assert_int_equal(store->ops->put_text(store, "key", "value", NULL), 0);
    store->ops->close(store);
    assert_int_equal(store_sqlite_read(dir, &store, NULL), 0);
    assert_int_equal(store->ops->get_text(store, "key", &value, NULL), 0);
    assert_string_equal(buf_str(&value), "value");
    store->ops->close(store);
    buf_release(&value);
    assert_int_equal(chdir(before), 0);
}

/* ---- places ---- */

static void make_db(const char *dir)
{
    char *path = file_join(dir, "master.db");
    assert_int_equal(file_make_dirs(dir, NULL), 0);
    assert_int_equal(file_write_atomic(path, "", 0, NULL), 0);
    free(path);
}

/* The places with a directory: a master may well answer on this host. */
static void assert_dirs(const struct places *p, const char *const *dirs)
{
    size_t first = p->count > 0 && p->items[0].state_dir == NULL ? 1 : 0, n = 0;
    for (; dirs[n] != NULL; n++) {
        assert_true(first + n < p->count);
        assert_string_equal(p->items[first + n].state_dir, dirs[n]);
    }
    assert_int_equal(p->count - first, n);
}

static void test_runs_are_remembered(void **state)
{
    static char none[] = "";
    const struct cli_common common = {.master = none, .state_dir = none};
    char *usual = file_join(*state, "gradus"), *a = file_join(*state, "a"),
         *b = file_join(*state, "b"), *gone = file_join(*state, "gone");
    struct places p;
    places_find(&common, &p);
    assert_dirs(&p, (const char *const[]){NULL});
    places_release(&p);
    make_db(usual);
    make_db(a);
    make_db(b);
    places_remember(a);
    places_remember(b);
    places_remember(gone); /* somebody has removed it */
    places_remember(a);    /* the newest counts */
    places_find(&common, &p);
    assert_false(p.given);
    assert_dirs(&p, (const char *const[]){a, b, usual, NULL});
    struct buf text = {0};
    places_describe(&p, &text);
    assert_non_null(strstr(buf_str(&text), "127.0.0.1:7000"));
    assert_non_null(strstr(buf_str(&text), usual));
    buf_release(&text);
    places_release(&p);
    free(usual);
    free(a);
    free(b);
    free(gone);
}

static void test_the_list_of_runs_stays_short(void **state)
{
    static char none[] = "";
    const struct cli_common common = {.master = none, .state_dir = none};
    char *dir = file_join(*state, "d"), *list = file_join(*state, "gradus/runs");
    struct buf text = {0};
    struct places p;
    make_db(dir);
    for (int i = 0; i < 2000; i++) {
        char other[64];
        (void)snprintf(other, sizeof other, "/no/such/directory/of/a/run/%d", i);
        places_remember(other);
    }
    places_remember(dir);
    assert_int_equal(file_read(list, 40000, &text, NULL), 0);
    assert_true(text.len > 10000 && text.data[0] == '/'); /* cut between lines */
    places_find(&common, &p);
    assert_dirs(&p, (const char *const[]){dir, NULL});
    places_release(&p);
    buf_release(&text);
    free(dir);
    free(list);
}

static void test_a_place_that_is_given(void **state)
{
    (void)state;
    char none[] = "", address[] = "master:1", dir[] = "/x";
    struct cli_common common = {.master = address, .state_dir = dir};
    struct places p;
    places_find(&common, &p);
    assert_true(p.given);
    assert_int_equal(p.count, 1);
    assert_string_equal(p.items[0].address, "master:1"); /* not tried, not looked up */
    assert_null(p.items[0].state_dir);
    places_release(&p);
    common.master = none;
    places_find(&common, &p);
    assert_int_equal(p.count, 1);
    assert_string_equal(p.items[0].state_dir, "/x");
    assert_null(p.items[0].address);
    places_release(&p);
}

static void jobs_there(const char *dir, const char *name, uint64_t number)
{
    struct store *s = NULL;
    char *id = mem_printf("%s-%u", name, (unsigned)number);
    const struct store_row row = {.id = id,
                                  .name = name,
                                  .request_id = "",
                                  .number = number,
                                  .state = 5,
                                  .job = "",
                                  .job_bytes = 0};
    assert_int_equal(store_sqlite_open(dir, "the test", &s, NULL), 0);
    assert_int_equal(s->ops->put(s, &row, NULL), 0);
    s->ops->close(s);
    free(id);
}

static void test_a_number_is_above_those_of_all_runs(void **state)
{
    char *usual = file_join(*state, "gradus"), *other = file_join(usual, "run-3");
    char *elsewhere = file_join(*state, "elsewhere"), *lock = file_join(usual, "numbers.lock");
    struct run_number n;
    assert_int_equal(run_number_take("a", &n, NULL), 0);
    assert_int_equal(n.least, 1);
    run_number_release(&n);
    jobs_there(usual, "a", 2);
    jobs_there(other, "a", 7);
    jobs_there(other, "b", 9);
    jobs_there(elsewhere, "a", 20);
    assert_int_equal(run_number_take("a", &n, NULL), 0);
    assert_int_equal(n.least, 8);
    int fd = open(lock, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1); /* who comes meanwhile waits */
    run_number_release(&n);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(close(fd), 0);
    free(lock);
    free(elsewhere);
    free(other);
    free(usual);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_each_run_has_its_own),
        TEST(test_one_that_a_master_has),
        TEST(test_one_that_was_given_is_not_shared),
        TEST(test_a_file_system_without_locks),
        TEST(test_names_that_look_like_urls),
        TEST(test_runs_are_remembered),
        TEST(test_the_list_of_runs_stays_short),
        TEST(test_a_place_that_is_given),
        TEST(test_a_number_is_above_those_of_all_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
