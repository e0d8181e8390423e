/* SPDX-License-Identifier: Apache-2.0 */
/* The meters that every service has: version and start, and, measured whenever the page is made,
 * memory, open files and CPU time (from /proc and the process's clock). */
#include "metrics/meter.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/release.h"
#include "os/chrono.h"

static double resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL) {
        return 0;
    }
    unsigned long size = 0;
    unsigned long resident = 0;
    int n = fscanf(f, "%lu %lu", &size, &resident); /* NOLINT(cert-err34-c): the kernel wrote it */
    (void)fclose(f);
    return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

static double cpu_seconds(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return 0;
    }
    int count = -1; /* the directory itself */
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        count += e->d_name[0] != '.';
    }
    (void)closedir(dir);
    return count;
}

static void collect(void *ctx)
{
    struct meter_registry *r = ctx;
    meter_set(meter_gauge(r, "process_resident_memory_bytes", "Resident memory", NULL, 0),
              resident_bytes());
    meter_set(meter_gauge(r, "process_open_fds", "Open file descriptors", NULL, 0), open_files());
    struct meter *cpu =
        meter_total(r, "process_cpu_seconds_total", "User and system CPU time", NULL, 0);
    double more = cpu_seconds() - meter_value(cpu);
    if (more > 0) {
        meter_change(cpu, more);
    }
}

void meter_process(struct meter_registry *r, const char *service)
{
    const struct meter_label labels[] = {{"version", release_version()}, {"service", service}};
    meter_set(meter_gauge(r, "build_info", "What is running; always 1", labels, 2), 1);
    meter_set(meter_gauge(r, "process_start_time_seconds", "Unix time of the start", NULL, 0),
              (double)chrono_wall_ms() / 1000);
    meter_on_collect(r, collect, r);
}
