/* SPDX-License-Identifier: Apache-2.0 */
/* What the core wants done in the checkpoint directory besides manifests: on the pool, as a shared
 * directory may be slow. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "master/checkpoints.h"
#include "master/shell.h"

struct task {
    struct shell *shell;
    uint64_t number;
    char *name; /* PREPARE: of the directory; FIND: the job's id */
    struct checkpoint_found found;
    struct err err;
};

static void task_free(struct task *t)
{
    checkpoint_found_release(&t->found);
    free(t->name);
    free(t);
}

static void start(struct shell *s, uint64_t number, const char *name, void (*work)(void *ctx),
                  void (*deliver)(void *ctx))
{
    struct task *t = mem_new(1, sizeof *t);
    *t = (struct task){.shell = s, .number = number, .name = mem_strdup(name)};
    if (pool_post(s->pool, work, t, &t->err) < 0 && loop_post(s->loop, deliver, t, NULL) < 0) {
        task_free(t);
    }
}

static void finish(struct task *t, void (*deliver)(void *ctx))
{
    if (loop_post(t->shell->loop, deliver, t, NULL) < 0) {
        task_free(t); /* the loop has ended, and with it whoever waits */
    }
}

/* ---- PREPARE ---- */

static void deliver_prepared(void *ctx)
{
    struct task *t = ctx;
    if (!loop_discarding(t->shell->loop)) {
        struct master_event e = {.kind = MASTER_PREPARE_DONE};
        e.prepare = (struct master_prepare_done){.number = t->number,
                                                 .err = t->err.code == 0 ? NULL : &t->err};
        shell_event(t->shell, &e);
    }
    task_free(t);
}

static void prepare(void *ctx)
{
    struct task *t = ctx;
    (void)checkpoints_prepare(t->shell->checkpoint_dir, t->name, &t->err);
    finish(t, deliver_prepared);
}

void shell_prepare(struct shell *s, const struct master_prepare *in)
{
    start(s, in->number, in->directory, prepare, deliver_prepared);
}

/* ---- FIND ---- */

static void log_skipped(const struct task *t)
{
    if (t->found.skipped.len > 0) {
        char quoted[1200];
        log_warn("checkpoints_skipped", "job=%s reason=%s", t->name,
                 log_quote(buf_str(&t->found.skipped), quoted, sizeof quoted));
    }
}

static void deliver_found(void *ctx)
{
    struct task *t = ctx;
    if (!loop_discarding(t->shell->loop)) {
        const struct checkpoint_found *f = &t->found;
        struct master_event e = {.kind = MASTER_FOUND};
        e.found = (struct master_found){.number = t->number,
                                        .err = t->err.code == 0 ? NULL : &t->err,
                                        .found = f->found,
                                        .directory = f->directory,
                                        .path = f->path,
                                        .step = f->step,
                                        .version = f->version,
                                        .ledger = f->found ? &f->ledger : NULL};
        log_skipped(t);
        shell_event(t->shell, &e);
    }
    task_free(t);
}

static void find(void *ctx)
{
    struct task *t = ctx;
    (void)checkpoints_find(t->shell->checkpoint_dir, t->name, &t->found, &t->err);
    finish(t, deliver_found);
}

void shell_find(struct shell *s, const struct master_find *in)
{
    start(s, in->number, in->job, find, deliver_found);
}
