/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each `gradus run` a state directory that no other process uses, even when many start at
 * once. A locked file in it says so; the kernel frees the lock however the process ends. */
#include "cli/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "master/store/store.h"
#include "os/file.h"
#include "os/file_lock.h"

#define RUNS_MAX 100 /* runs at the same time on one host in the default directory */
#define OWNER_BYTES 256

/* True if a master has @dir; @owner: its process, as it wrote there. */
static bool has_master(const char *dir, char owner[OWNER_BYTES])
{
    char *path = file_join(dir, "master.lock");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool has = fd >= 0 && file_lock(fd, path, FILE_LOCK_SHARED, false, NULL) == ERR_STATE;
    ssize_t n = has ? read(fd, owner, OWNER_BYTES - 1) : 0;
    owner[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        (void)close(fd);
    }
    free(path);
    return has;
}

static int in_use(const char *dir, const char *owner, struct err *err)
{
    return err_set(err, ERR_STATE,
                   "state directory %s is in use by %s; give another with --state-dir DIR, or "
                   "none: then each run takes one of its own",
                   dir, owner[0] != '\0' ? owner : "another gradus run");
}

/* Claims @dir. Errors: ERR_STATE another process has it. */
static int claim(const char *dir, struct run_dir *out, struct err *err)
{
    char owner[OWNER_BYTES] = "";
    int rc = file_make_dirs(dir, err);
    if (rc != 0) {
        return rc;
    }
    char *path = file_join(dir, "run.lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        rc = err_errno(err, errno, "open %s", path);
    } else {
        rc = has_master(dir, owner) ? ERR_STATE : file_lock(fd, path, FILE_LOCK_ALONE, false, err);
    }
    if (rc == ERR_STATE) {
        rc = in_use(dir, owner, err);
    } else if (rc == 0) {
        out->path = realpath(dir, NULL);
        rc = out->path != NULL ? 0 : err_errno(err, errno, "resolve %s", dir);
    }
    if (rc != 0 && fd >= 0) {
        (void)close(fd);
    }
    out->lock_fd = rc == 0 ? fd : -1;
    free(path);
    return rc;
}

static char *nth_dir(const char *usual, int n)
{
    return n == 1 ? mem_strdup(usual) : mem_printf("%s/run-%d", usual, n);
}

int run_dir_claim(const char *given, struct run_dir *out, struct err *err)
{
    *out = (struct run_dir){.lock_fd = -1};
    if (given[0] != '\0') {
        return claim(given, out, err);
    }
    char *usual = cli_state_dir(NULL);
    struct err local = {0};
    int rc = claim(usual, out, &local);
    for (int i = 2; i <= RUNS_MAX && rc == ERR_STATE; i++) {
        char *dir = nth_dir(usual, i);
        local = (struct err){0};
        rc = claim(dir, out, &local);
        out->moved = true;
        free(dir);
    }
    free(usual);
    return rc == 0 ? 0
           : rc == ERR_PERMISSION || rc == ERR_UNSUPPORTED
               ? err_set(err, rc, "%s; --state-dir DIR says where a run may write", local.msg)
               : err_set(err, local.code, "%s", local.msg);
}

void run_dir_release(struct run_dir *d)
{
    if (d->lock_fd >= 0) {
        (void)close(d->lock_fd);
    }
    free(d->path);
    *d = (struct run_dir){.lock_fd = -1};
}

/* ---- numbers of jobs ---- */

/* What @state_dir knows of @name; nothing where no master ever was. */
static void raise_number(const char *state_dir, const char *name, uint64_t *least)
{
    struct store *store = NULL;
    uint64_t next = 0;
    if (store_sqlite_read(state_dir, &store, NULL) == 0) {
        if (store->ops->next_number(store, name, &next, NULL) == 0 && next > *least) {
            *least = next;
        }
        store->ops->close(store);
    }
}

int run_number_take(const char *name, struct run_number *out, struct err *err)
{
    char *usual = cli_state_dir(NULL), *path = file_join(usual, "numbers.lock");
    *out = (struct run_number){.lock_fd = -1, .least = 1};
    int rc = file_make_dirs(usual, err);
    if (rc == 0) {
        out->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        rc = out->lock_fd < 0 ? err_errno(err, errno, "open %s", path) : 0;
    }
    if (rc == 0) {
        rc = file_lock(out->lock_fd, path, FILE_LOCK_ALONE, true, err);
        rc = rc == ERR_UNSUPPORTED ? 0 : rc; /* numbers could only clash at the same moment */
    }
    for (int i = 1; i <= RUNS_MAX && rc == 0; i++) {
        char *dir = nth_dir(usual, i);
        raise_number(dir, name, &out->least);
        free(dir);
    }
    if (rc != 0) {
        run_number_release(out);
    }
    free(path);
    free(usual);
    return rc;
}

void run_number_release(struct run_number *n)
{
    if (n->lock_fd >= 0) {
        (void)close(n->lock_fd);
    }
    n->lock_fd = -1;
}
