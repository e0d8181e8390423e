/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads a host allows, from files as the kernel writes them. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file.h"
#include "os/host_threads.h"

static char *root;

static void put(const char *path, const char *text)
{
    char *full = mem_printf("%s%s", root, path);
    char *dir = mem_strdup(full);
    *strrchr(dir, '/') = '\0';
    assert_int_equal(file_make_dirs(dir, NULL), 0);
    assert_int_equal(file_write_atomic(full, text, strlen(text), NULL), 0);
    free(dir);
    free(full);
}

static void put_user(const char *uid, const char *most)
{
    char *status =
        mem_printf("Name:\tgradus\nUid:\t%s\t%s\t%s\t%s\nThreads:\t4\n", uid, uid, uid, uid);
    char *limits =
        mem_printf("Limit                     Soft Limit           Hard Limit\n"
                   "Max processes             %s                   unlimited   processes\n",
                   most);
    put("/proc/self/status", status);
    put("/proc/self/limits", limits);
    put("/proc/12/status", status); /* "self" */
    free(limits);
    free(status);
}

static int set_up(void **state)
{
    (void)state;
    root = tmp_dir_make("threads");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tmp_dir_remove(root);
    return 0;
}

static void a_host_without_limits(void **state)
{
    (void)state;
    assert_true(host_threads(root).left == UINT64_MAX);
    put("/proc/self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/a/pids.max", "max\n");
    put("/sys/fs/cgroup/a/pids.current", "7\n");
    put_user("1000", "unlimited");
    assert_true(host_threads(root).left == UINT64_MAX);
    assert_null(host_threads(root).reason);
    assert_int_equal(host_threads_need(root, 1000000, "a run", NULL), 0);
}

static void groups_of_both_versions_limit(void **state)
{
    (void)state;
    struct err err;
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/pids.max", "100\n"); /* the one above counts, too */
    put("/sys/fs/cgroup/a/pids.current", "60\n");
    put("/sys/fs/cgroup/a/b/pids.max", "max\n");
    assert_int_equal(host_threads(root).left, 40);
    put("/proc/self/cgroup", "8:pids:/c\n");
    put("/sys/fs/cgroup/pids/c/pids.max", "50\n");
    put("/sys/fs/cgroup/pids/c/pids.current", "60\n");
    assert_int_equal(host_threads(root).left, 0);
    put("/sys/fs/cgroup/pids/c/pids.current", "30\n");
    assert_int_equal(host_threads_need(root, 20, "a run", &err), 0);
    assert_int_equal(host_threads_need(root, 21, "a run", &err), ERR_EXHAUSTED);
    assert_string_equal(err.msg,
                        "a run takes up to 21 threads, and 20 more may be started here (the "
                        "control group's pids.max, of docker pids-limit, of systemd TasksMax)");
}

static void a_user_is_limited(void **state)
{
    (void)state;
    put_user("1000", "40");
    put("/proc/13/status", "Name:\tother\nUid:\t1001\t1001\t1001\t1001\nThreads:\t30\n");
    put("/proc/14/status", "Name:\tsame\nUid:\t1000\t1000\t1000\t1000\nThreads:\t6\n");
    put("/proc/meminfo", "");
    assert_int_equal(host_threads(root).left, 30);
    assert_non_null(strstr(host_threads(root).reason, "ulimit -u"));
    put_user("0", "40");
    assert_true(host_threads(root).left == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_host_without_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(groups_of_both_versions_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_user_is_limited, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("host_threads", tests, NULL, NULL);
}
