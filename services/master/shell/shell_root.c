/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the root of checkpoints: whose jobs are in it, and whether its disk is mounted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/shell.h"
#include "os/chrono.h"
#include "os/file.h"
#include "os/log.h"
#include "storage/storage.h"

#define LOOK_MS 2000
#define SILENT_MS 10000 /* a disk that answers nothing for so long is not there */

/* Texts in the store: the owner's id, and the directory that had its mark. */
#define KEY_OWNER "owner"
#define JOBS_SEARCHED 1000 /* that have ended: in which directories the owner is looked for */

/* ---- opening ---- */

struct search {
    const char *root;
    bool began;
    char owner[CLAIM_OWNER_BYTES];
};

static int look_at_claim(void *ctx, const struct store_row *row, struct err *err)
{
    struct search *search = ctx;
    if (!search->began && claim_root_check(search->root, err) != 0) {
        return err->code; /* under a new owner our checkpoints would be another master's */
    }
    search->began = true;
    if (search->owner[0] == '\0') {
        char *dir = file_join(search->root, row->id);
        (void)claim_read(dir, search->owner, NULL);
        free(dir);
    }
    return 0;
}

/* A new one for a new store. One that has jobs has lost it with a damaged page: the
 * directories of its jobs still say it. */
static int find_owner(struct shell *s, const char *root, struct err *err)
{
    struct search search = {.root = root};
    int rc = s->store->ops->load(s->store, JOBS_SEARCHED, look_at_claim, &search, err);
    if (search.owner[0] != '\0') {
        memcpy(s->checkpoints.owner, search.owner, sizeof search.owner);
        log_info("owner_found", "owner=%s", search.owner);
    } else {
        claim_owner_new(s->checkpoints.owner);
    }
    return rc;
}

static int open_owner(struct shell *s, const char *root, struct err *err)
{
    struct buf known = {0};
    int rc = s->store->ops->get_text(s->store, KEY_OWNER, &known, err);
    if (rc == ERR_NOT_FOUND) {
        rc = find_owner(s, root, err);
        rc = rc < 0 ? rc : s->store->ops->put_text(s->store, KEY_OWNER, s->checkpoints.owner, err);
    } else if (rc == 0) {
        (void)snprintf(s->checkpoints.owner, sizeof s->checkpoints.owner, "%s", buf_str(&known));
    }
    buf_release(&known);
    return rc < 0 ? err_wrap(err, "whose the checkpoints are") : 0;
}

static bool is_known(struct shell *s, const char *root)
{
    struct buf known = {0};
    bool same = s->store->ops->get_text(s->store, STORE_CHECKPOINT_ROOT, &known, NULL) == 0 &&
                strcmp(buf_str(&known), root) == 0;
    buf_release(&known);
    return same;
}

static void tell(struct shell *s, const struct err *err)
{
    bool well = err == NULL;
    if (well == (s->root_problem[0] == '\0')) {
        return;
    }
    char quoted[1200];
    (void)snprintf(s->root_problem, sizeof s->root_problem, "%s", well ? "" : err->msg);
    if (well) {
        log_info("checkpoint_dir_back", "path=%s",
                 log_quote(s->checkpoints.root, quoted, sizeof quoted));
    } else {
        log_error("checkpoint_dir_lost", "reason=%s", log_quote(err->msg, quoted, sizeof quoted));
    }
    shell_health(s);
}

int shell_root_open(struct shell *s, struct err *err)
{
    char *beside = file_join(s->settings->state_dir, "checkpoints");
    char *root = storage_absolute(
        s->settings->checkpoint_dir[0] != '\0' ? s->settings->checkpoint_dir : beside);
    free(beside);
    struct err local = {0};
    int rc = storage_check(root, err);
    rc = rc < 0 ? err_wrap(err, "checkpoint directory") : open_owner(s, root, err);
    if (rc == 0 && is_known(s, root)) {
        if (claim_root_check(root, &local) < 0) { /* the disk comes back, or somebody is told */
            tell(s, &local);
        }
    } else if (rc == 0) {
        rc = claim_root_make(root, err);
        rc = rc < 0 ? err_wrap(err, "checkpoint directory")
                    : s->store->ops->put_text(s->store, STORE_CHECKPOINT_ROOT, root, err);
    }
    char *real = rc == 0 && !storage_is_url(root) ? realpath(root, NULL) : NULL;
    s->checkpoints.root = real != NULL ? real : mem_strdup(root);
    free(root);
    return rc;
}

/* ---- watching ---- */

struct look {
    struct shell *shell;
    struct err err;
};

static void deliver(void *ctx)
{
    struct look *l = ctx;
    if (!loop_discarding(l->shell->loop)) {
        l->shell->root.asked = false;
        tell(l->shell, l->err.code == 0 ? NULL : &l->err);
    }
    free(l);
}

static void look(void *ctx)
{
    struct look *l = ctx;
    (void)claim_root_check(l->shell->checkpoints.root, &l->err);
    if (loop_post(l->shell->loop, deliver, l, NULL) < 0) {
        free(l);
    }
}

static void on_time(void *ctx)
{
    shell_root_watch(ctx);
}

void shell_root_watch(struct shell *s)
{
    uint64_t now_ms = chrono_now_ms();
    loop_timer_set(s->loop, &s->root.timer, now_ms + LOOK_MS, on_time, s);
    if (s->root.asked && now_ms - s->root.asked_ms > SILENT_MS) {
        struct err err;
        (void)err_set(&err, ERR_UNAVAILABLE, "checkpoint directory %s has not answered for %d s",
                      s->checkpoints.root, SILENT_MS / 1000);
        tell(s, &err);
    } else if (!s->root.asked) {
        struct look *l = mem_new(1, sizeof *l);
        l->shell = s;
        s->root.asked = pool_post(s->files, look, l, NULL) == 0;
        s->root.asked_ms = now_ms;
        if (!s->root.asked) {
            free(l);
        }
    }
}
