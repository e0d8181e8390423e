/* SPDX-License-Identifier: Apache-2.0 */
/* What a parameter server takes where nobody says how much, from files as the kernel writes them.
 */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file.h"
#include "ps/rpc/ps.h"

#define GIB (UINT64_C(1) << 30)

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

static void test_memory(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal:        8388608 kB\nMemAvailable:    4194304 kB\n");
    assert_int_equal(ps_memory_bytes(root), 8 * GIB);
    put("/proc/self/cgroup", "0::/pod\n");
    put("/sys/fs/cgroup/pod/memory.max", "5368709120\n");
    assert_int_equal(ps_memory_bytes(root), 4 * GIB); /* 4/5: the rest is not only parameters */
    put("/proc/self/cgroup", "3:memory:/pod\n");
    put("/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "2684354560\n");
    assert_int_equal(ps_memory_bytes(root), 2 * GIB);
}

static void test_threads(void **state)
{
    (void)state;
    unsigned all = ps_apply_threads("/nowhere");
    assert_in_range(all, 1, 4);
    put("/proc/self/cgroup", "0::/pod\n");
    put("/sys/fs/cgroup/pod/cpu.max", "90000 100000\n");
    assert_int_equal(ps_apply_threads(root), 1);
    put("/sys/fs/cgroup/pod/cpu.max", "6400000 100000\n");
    assert_int_equal(ps_apply_threads(root), all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_threads),
    };
    root = tmp_dir_make("resources");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tmp_dir_remove(root);
    return failed;
}
