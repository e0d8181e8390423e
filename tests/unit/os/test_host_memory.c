/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a host, from files as the kernel writes them. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file.h"
#include "os/host_memory.h"

#define MIB (UINT64_C(1) << 20)

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

static int setup(void **state)
{
    (void)state;
    root = tmp_dir_make("memory");
    put("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          100000 kB\n"
                         "MemAvailable:    4194304 kB\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmp_dir_remove(root);
    return 0;
}

static void check(uint64_t total_mib, uint64_t available_mib, bool limited)
{
    struct host_memory m = host_memory(root);
    assert_int_equal(m.total / MIB, total_mib);
    assert_int_equal(m.available / MIB, available_mib);
    assert_int_equal(m.limited, limited);
}

static void the_kernel_counts(void **state)
{
    (void)state;
    check(8192, 4096, false);
    put("/proc/self/cgroup", "0::/user.slice\n"); /* a group without limits */
    put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
    check(8192, 4096, false);
}

static void a_group_of_v2_limits(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/memory.max", "1073741824\n"); /* the one above counts, too */
    put("/sys/fs/cgroup/a/memory.current", "536870912\n");
    put("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 104857600\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    check(1024, 612, true);
    put("/sys/fs/cgroup/a/memory.current", "2147483648\n"); /* more than the limit */
    check(1024, 0, true);
}

/* In a container the path is that of the host; the mount is the container's own group. */
static void a_group_of_v1_limits(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "7:cpu,memory:/docker/1f\n1:name=systemd:/docker/1f\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 0\n");
    check(2048, 1024, true);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    check(8192, 4096, false);
}

static void what_is_not_there_is_not_known(void **state)
{
    (void)state;
    struct host_memory m = host_memory("/nowhere");
    assert_int_equal(m.total, 0);
    m = host_memory(""); /* this machine */
    assert_true(m.total > 0 && m.available <= m.total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_kernel_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_group_of_v2_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(a_group_of_v1_limits, setup, teardown),
        cmocka_unit_test(what_is_not_there_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
