/* SPDX-License-Identifier: Apache-2.0 */
/* Reads quotas of processor time. A group that has used up its quota stands still until the period
 * is over, with all of its threads, so more threads than the quota lets run only wait more. */
#include "os/host_cpus.h"

#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "os/cgroup.h"

/* "200000 100000": so much in each period, in microseconds; "max 100000": no limit. */
static bool quota_v2(const char *dir, double *out)
{
    char *path = mem_printf("%s/cpu.max", dir);
    FILE *f = fopen(path, "re");
    free(path);
    unsigned long long quota = 0, period = 0;
    /* NOLINTNEXTLINE(cert-err34-c): a number too large for it is no limit of any machine */
    bool there = f != NULL && fscanf(f, "%19llu %19llu", &quota, &period) == 2 && period > 0;
    if (f != NULL) {
        (void)fclose(f);
    }
    *out = there ? (double)quota / (double)period : 0;
    return there;
}

/* The quota of control groups v1, which stands in two files; -1 is no limit. */
static bool quota_v1(const char *dir, double *out)
{
    uint64_t quota = 0, period = 0;
    if (!cgroup_number(dir, "cpu.cfs_quota_us", &quota) ||
        !cgroup_number(dir, "cpu.cfs_period_us", &period) || period == 0) {
        return false;
    }
    *out = (double)quota / (double)period;
    return true;
}

static void apply_group(void *ctx, enum cgroup_version version, const char *dir)
{
    struct host_cpus *h = ctx;
    double quota = 0;
    bool there = version == CGROUP_V2 ? quota_v2(dir, &quota) : quota_v1(dir, &quota);
    if (there && quota > 0 && quota < h->time) {
        h->time = quota;
        h->limited = true;
    }
}

struct host_cpus host_cpus(const char *root)
{
    cpu_set_t set;
    struct host_cpus h = {0};
    h.time = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    h.time = h.time < 1 ? 1 : h.time;
    cgroup_each(root, "cpu", apply_group, &h);
    h.count = (unsigned)ceil(h.time);
    return h;
}
