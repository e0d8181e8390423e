/* SPDX-License-Identifier: Apache-2.0 */
/* Finds control groups by /proc/self/cgroup, in the usual mounts. */
#include "os/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define PATH_PARTS_MAX 64

bool cgroup_number(const char *dir, const char *name, uint64_t *out)
{
    char text[64] = "";
    char *path = mem_printf("%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    free(path);
    if (f == NULL) {
        return false;
    }
    bool there = fgets(text, sizeof text, f) != NULL;
    (void)fclose(f);
    char *end;
    *out = strtoull(text, &end, 10);
    return there && end != text && text[0] != '-';
}

/* Is @name one of the words of @list, "cpu,cpuacct"? */
static bool names(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *word = list; *word != '\0';) {
        size_t length = strcspn(word, ",");
        if (length == n && strncmp(word, name, n) == 0) {
            return true;
        }
        word += length + (word[length] == ',');
    }
    return false;
}

struct visit {
    void (*fn)(void *ctx, enum cgroup_version version, const char *dir);
    void *ctx;
    enum cgroup_version version;
    const char *mount;
};

/* @group and all above it; changes @group. */
static void climb(const struct visit *v, char *group)
{
    for (int i = 0; i < PATH_PARTS_MAX; i++) {
        bool top = strcmp(group, "/") == 0 || group[0] == '\0';
        char *dir = mem_printf("%s%s", v->mount, top ? "" : group);
        v->fn(v->ctx, v->version, dir);
        free(dir);
        char *slash = strrchr(group, '/');
        if (top || slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

/* Lines such as "0::/user.slice" (v2) and "7:cpu,memory:/docker/1f" (v1). */
void cgroup_each(const char *root, const char *controller,
                 void (*fn)(void *ctx, enum cgroup_version version, const char *dir), void *ctx)
{
    char line[4096];
    char *path = mem_printf("%s/proc/self/cgroup", root);
    char *v1 = mem_printf("%s/sys/fs/cgroup/%s", root, controller);
    char *v2 = mem_printf("%s/sys/fs/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        bool unified = controllers[1] == '\0';
        if (unified || names(controllers + 1, controller)) {
            climb(&(struct visit){fn, ctx, unified ? CGROUP_V2 : CGROUP_V1, unified ? v2 : v1},
                  group);
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    free(path);
    free(v1);
    free(v2);
}
