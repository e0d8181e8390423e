/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the host's memory from /proc/meminfo and from the files of the control groups, all of
 * them below a given root, so that tests can lay out a host of their own. */
#include "os/host_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/cgroup.h"

/* "Name: 123 kB" or "name 123" in a file of such lines, times @unit. */
static bool read_line(const char *path, const char *name, uint64_t unit, uint64_t *out)
{
    char line[256];
    size_t n = strlen(name);
    bool found = false;
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, n) == 0 && (line[n] == ':' || line[n] == ' ')) {
            *out = strtoull(line + n + 1, NULL, 10) * unit;
            found = true;
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return found;
}

/* ---- control groups ---- */

struct names { /* names of the files of a control group */
    const char *limit, *usage, *inactive;
};
static const struct names V1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file"};
static const struct names V2 = {"memory.max", "memory.current", "inactive_file"};

/* Takes the limit of one group into account. Pages of files that nobody uses count as free: the
 * kernel takes them back before anything fails. */
static void apply_group(void *ctx, enum cgroup_version version, const char *dir)
{
    struct host_memory *m = ctx;
    const struct names *v = version == CGROUP_V2 ? &V2 : &V1;
    uint64_t limit, usage = 0, inactive = 0;
    if (!cgroup_number(dir, v->limit, &limit) || limit >= m->total) {
        return;
    }
    char *stat_path = mem_printf("%s/memory.stat", dir);
    (void)cgroup_number(dir, v->usage, &usage);
    (void)read_line(stat_path, v->inactive, 1, &inactive);
    free(stat_path);
    usage -= inactive < usage ? inactive : usage;
    uint64_t left = usage < limit ? limit - usage : 0;
    m->total = limit;
    m->limited = true;
    m->available = left < m->available ? left : m->available;
}

struct host_memory host_memory(const char *root)
{
    struct host_memory m = {0};
    char *path = mem_printf("%s/proc/meminfo", root);
    if (!read_line(path, "MemTotal", 1024, &m.total)) {
        free(path);
        return m;
    }
    m.available = m.total;
    (void)read_line(path, "MemAvailable", 1024, &m.available);
    free(path);
    cgroup_each(root, "memory", apply_group, &m);
    return m;
}
