/* SPDX-License-Identifier: Apache-2.0 */
/* The processor time of a process, from files as the kernel writes them. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file.h"
#include "os/host_cpus.h"

static char *root;
static struct host_cpus machine; /* without any group */

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
    root = tmp_dir_make("cpus");
    machine = host_cpus("/nowhere");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmp_dir_remove(root);
    return 0;
}

static void check(double time, unsigned count, bool limited)
{
    struct host_cpus h = host_cpus(root);
    assert_float_equal(h.time, time, 1e-9);
    assert_int_equal(h.count, count);
    assert_int_equal(h.limited, limited);
}

static void a_machine_has_what_it_may_run_on(void **state)
{
    (void)state;
    assert_true(machine.count >= 1);
    assert_float_equal(machine.time, machine.count, 0);
    assert_false(machine.limited);
}

static void a_quota_of_v2(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/kubepods/pod1\n");
    put("/sys/fs/cgroup/kubepods/pod1/cpu.max", "max 100000\n");
    check(machine.time, machine.count, false);
    put("/sys/fs/cgroup/kubepods/cpu.max", "50000 100000\n"); /* the one above counts, too */
    check(0.5, 1, true);
    put("/sys/fs/cgroup/kubepods/pod1/cpu.max", "20000 100000\n");
    check(0.2, 1, true);
    put("/sys/fs/cgroup/kubepods/cpu.max", "99900000 100000\n"); /* more than there are */
    put("/sys/fs/cgroup/kubepods/pod1/cpu.max", "99900000 100000\n");
    check(machine.time, machine.count, false);
    put("/sys/fs/cgroup/kubepods/pod1/cpu.max", "nonsense\n");
    check(machine.time, machine.count, false);
}

/* In a container the path is that of the host; the mount is the container's own group. */
static void a_quota_of_v1(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:cpuset:/docker/1f\n4:cpu,cpuacct:/docker/1f\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "25000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    check(0.25, 1, true);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    check(machine.time, machine.count, false);
    put("/proc/self/cgroup", "9:cpuset:/docker/1f\n4:cpuacct:/docker/1f\n"); /* others' words */
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "25000\n");
    check(machine.time, machine.count, false);
}

static void a_part_of_a_processor_is_worth_a_thread(void **state)
{
    (void)state;
    if (machine.count < 2) {
        skip();
    }
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "120000 100000\n");
    check(1.2, 2, true);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    check(1, 1, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_machine_has_what_it_may_run_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_quota_of_v2, setup, teardown),
        cmocka_unit_test_setup_teardown(a_quota_of_v1, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_of_a_processor_is_worth_a_thread, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
