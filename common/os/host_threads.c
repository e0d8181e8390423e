/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the limits from /proc and from the files of the control groups, all of them below a given
 * root, so that tests can lay out a host of their own. */
#include "os/host_threads.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/cgroup.h"

#define REASON_GROUP "the control group's pids.max, of docker pids-limit, of systemd TasksMax"
#define REASON_USER "the user's limit: ulimit -u"

/* The number behind @name in a file of lines; false: it is not there, or no number. */
static bool number_of(const char *path, const char *name, uint64_t *out)
{
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            const char *at = line + strlen(name);
            at += strspn(at, ": \t");
            found = isdigit((unsigned char)*at) != 0;
            *out = found ? strtoull(at, NULL, 10) : 0;
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return found;
}

static void limit(struct host_threads *t, uint64_t most, uint64_t used, const char *reason)
{
    const uint64_t left = most > used ? most - used : 0;
    if (left < t->left) {
        *t = (struct host_threads){left, reason};
    }
}

static void apply_group(void *ctx, enum cgroup_version version, const char *dir)
{
    uint64_t most, used = 0;
    (void)version; /* the names are the same */
    if (cgroup_number(dir, "pids.max", &most) && cgroup_number(dir, "pids.current", &used)) {
        limit(ctx, most, used, REASON_GROUP);
    }
}

/* Threads of all processes of user @uid. */
static uint64_t threads_of_user(const char *proc, uint64_t uid)
{
    uint64_t sum = 0;
    DIR *d = opendir(proc);
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        uint64_t who, n;
        char *path = mem_printf("%s/%s/status", proc, e->d_name);
        if (isdigit((unsigned char)e->d_name[0]) && number_of(path, "Uid", &who) && who == uid &&
            number_of(path, "Threads", &n)) {
            sum += n;
        }
        free(path);
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return sum;
}

/* The kernel has no such limit for root. */
static void apply_user(struct host_threads *t, const char *root)
{
    uint64_t most, uid;
    char *proc = mem_printf("%s/proc", root);
    char *limits = mem_printf("%s/self/limits", proc);
    char *status = mem_printf("%s/self/status", proc);
    if (number_of(limits, "Max processes", &most) && number_of(status, "Uid", &uid) && uid != 0) {
        limit(t, most, threads_of_user(proc, uid), REASON_USER);
    }
    free(status);
    free(limits);
    free(proc);
}

struct host_threads host_threads(const char *root)
{
    struct host_threads t = {.left = UINT64_MAX};
    cgroup_each(root, "pids", apply_group, &t);
    apply_user(&t, root);
    return t;
}

int host_threads_need(const char *root, uint64_t need, const char *what, struct err *err)
{
    const struct host_threads t = host_threads(root);
    if (t.left >= need) {
        return 0;
    }
    return err_set(err, ERR_EXHAUSTED,
                   "%s takes up to %" PRIu64 " threads, and %" PRIu64
                   " more may be started here (%s)",
                   what, need, t.left, t.reason);
}
