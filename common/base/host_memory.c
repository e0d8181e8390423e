/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the host's memory from /proc/meminfo and from the files of the control groups, all of
 * them below a given root, so that tests can lay out a host of their own. */
#include "base/host_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define PATH_PARTS_MAX 64

/* ---- files ---- */

/* A number alone in a file; "max" and what is not there are no limit. */
static bool read_number(const char *path, uint64_t *out)
{
    char text[64] = "";
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return false;
    }
    bool there = fgets(text, sizeof text, f) != NULL;
    (void)fclose(f);
    char *end;
    *out = strtoull(text, &end, 10);
    return there && end != text;
}

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

struct version { /* what its files are called */
    const char *mount, *limit, *usage, *inactive;
};
static const struct version V1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_inactive_file"};
static const struct version V2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                  "inactive_file"};

/* One group: pages of files that nobody uses are taken back before anything fails. */
static void apply_group(const char *root, const struct version *v, const char *group,
                        struct host_memory *m)
{
    uint64_t limit, usage = 0, inactive = 0;
    char *dir = mem_printf("%s%s%s", root, v->mount, group);
    char *limit_path = mem_printf("%s/%s", dir, v->limit);
    char *usage_path = mem_printf("%s/%s", dir, v->usage);
    char *stat_path = mem_printf("%s/memory.stat", dir);
    if (read_number(limit_path, &limit) && limit < m->total) {
        (void)read_number(usage_path, &usage);
        (void)read_line(stat_path, v->inactive, 1, &inactive);
        usage -= inactive < usage ? inactive : usage;
        uint64_t left = usage < limit ? limit - usage : 0;
        m->total = limit;
        m->limited = true;
        m->available = left < m->available ? left : m->available;
    }
    free(dir);
    free(limit_path);
    free(usage_path);
    free(stat_path);
}

/* The limits of all groups above count, too. In a container the path may be that of the host, which
 * is not to be seen; then the mount itself is the container's group. */
static void apply_groups(const char *root, const struct version *v, char *group,
                         struct host_memory *m)
{
    for (int i = 0; i < PATH_PARTS_MAX; i++) {
        bool top = strcmp(group, "/") == 0 || group[0] == '\0';
        apply_group(root, v, top ? "" : group, m);
        char *slash = strrchr(group, '/');
        if (top || slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

/* Lines such as "0::/user.slice" (v2) and "7:cpu,memory:/docker/1f" (v1). */
static void apply_all(const char *root, struct host_memory *m)
{
    char line[4096];
    char *path = mem_printf("%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    free(path);
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        if (controllers[1] == '\0') {
            apply_groups(root, &V2, group, m);
        } else if (strstr(controllers, "memory") != NULL) {
            apply_groups(root, &V1, group, m);
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
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
    apply_all(root, &m);
    return m;
}
