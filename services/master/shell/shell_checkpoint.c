/* SPDX-License-Identifier: Apache-2.0 */
/* What the core wants done in the checkpoint directory besides manifests: on the pool, as a shared
 * directory may be slow. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/checkpoints.h"
#include "master/shell/shell.h"
#include "os/file.h"
#include "os/log.h"

struct task {
    struct shell *shell;
    uint64_t number;
    char *id, *named, *best; /* of the job */
    int64_t submitted_ms;
    char *directory; /* PREPARE */
    char **avoid;    /* FIND */
    size_t avoid_count;
    size_t keep; /* PRUNE */
    bool release;
    struct checkpoint_found found;
    struct err err;
};

static struct task *task_new(struct shell *s, uint64_t number, const struct job_record *job)
{
    struct task *t = mem_new(1, sizeof *t);
    *t = (struct task){.shell = s,
                       .number = number,
                       .id = mem_strdup(job->id),
                       .named = mem_strdup(job->checkpoint),
                       .best = mem_strdup(job->best_checkpoint),
                       .submitted_ms = job->submitted_ms};
    return t;
}

static void task_free(struct task *t)
{
    checkpoint_found_release(&t->found);
    for (size_t i = 0; i < t->avoid_count; i++) {
        free(t->avoid[i]);
    }
    free(t->avoid);
    free(t->directory);
    free(t->named);
    free(t->best);
    free(t->id);
    free(t);
}

static struct checkpoints_job job_of(const struct task *t)
{
    return (struct checkpoints_job){t->id, t->named, t->submitted_ms, t->best};
}

static void start(struct task *t, void (*work)(void *ctx), void (*deliver)(void *ctx))
{
    if (pool_post(t->shell->files, work, t, &t->err) < 0 &&
        loop_post(t->shell->loop, deliver, t, NULL) < 0) {
        task_free(t);
    }
}

static void finish(struct task *t, void (*deliver)(void *ctx))
{
    if (loop_post(t->shell->loop, deliver, t, NULL) < 0) {
        task_free(t); /* the loop has ended, and with it all that wait */
    }
}

/* ---- PREPARE ---- */

static void deliver_prepared(void *ctx)
{
    struct task *t = ctx;
    if (!loop_discarding(t->shell->loop)) {
        struct master_event e = {.kind = MASTER_PREPARE_DONE};
        e.prepare = (struct master_files_done){.number = t->number,
                                               .err = t->err.code == 0 ? NULL : &t->err};
        shell_event(t->shell, &e);
    }
    task_free(t);
}

static void prepare(void *ctx)
{
    struct task *t = ctx;
    const struct checkpoints_job job = job_of(t);
    (void)checkpoints_prepare(&t->shell->checkpoints, &job, t->directory, &t->err);
    finish(t, deliver_prepared);
}

static void discard(void *ctx)
{
    struct task *t = ctx;
    const struct checkpoints_job job = job_of(t);
    if (checkpoints_discard(&t->shell->checkpoints, &job, t->directory, &t->err) < 0) {
        char quoted[1200];
        log_warn("checkpoint_discard_failed", "job=%s reason=%s", t->id,
                 log_quote(t->err.msg, quoted, sizeof quoted));
    }
    finish(t, deliver_prepared);
}

void shell_prepare(struct shell *s, const struct master_prepare *in)
{
    struct task *t = task_new(s, in->number, in->job);
    t->directory = mem_strdup(in->directory);
    start(t, in->discard ? discard : prepare, deliver_prepared);
}

/* ---- PRUNE ---- */

static void deliver_nothing(void *ctx)
{
    task_free(ctx);
}

static void prune(void *ctx)
{
    struct task *t = ctx;
    const struct checkpoints_job job = job_of(t);
    if (t->release) {
        checkpoints_release(&t->shell->checkpoints, t->id);
    } else if (checkpoints_prune(&t->shell->checkpoints, &job, t->keep, &t->err) < 0) {
        char quoted[1200];
        log_warn("checkpoint_prune_failed", "job=%s reason=%s", t->id,
                 log_quote(t->err.msg, quoted, sizeof quoted));
    }
    task_free(t);
}

void shell_prune(struct shell *s, const struct master_prune *in)
{
    struct task *t = task_new(s, 0, in->job);
    t->keep = in->keep;
    t->release = in->release;
    start(t, prune, deliver_nothing);
}

void shell_release(struct shell *s, const char *job)
{
    struct task *t = mem_new(1, sizeof *t);
    *t = (struct task){.shell = s, .id = mem_strdup(job), .release = true};
    start(t, prune, deliver_nothing);
}

/* ---- FIND ---- */

static void log_skipped(const struct task *t)
{
    if (t->found.skipped.len > 0) {
        char quoted[1200];
        log_warn("checkpoints_skipped", "job=%s reason=%s", t->id,
                 log_quote(buf_str(&t->found.skipped), quoted, sizeof quoted));
    }
}

/* The first checkpoint that was passed over; the others are in the log. */
static const char *first_line(struct task *t)
{
    char *text = t->found.skipped.data;
    if (text != NULL && t->found.skipped.len > 0) {
        text[strcspn(text, "\n")] = '\0';
        return text;
    }
    return "";
}

static void deliver_found(void *ctx)
{
    struct task *t = ctx;
    if (!loop_discarding(t->shell->loop)) {
        const struct checkpoint_found *f = &t->found;
        struct master_event e = {.kind = MASTER_FOUND};
        log_skipped(t);
        e.found = (struct master_found){.number = t->number,
                                        .err = t->err.code == 0 ? NULL : &t->err,
                                        .found = f->found,
                                        .skipped = first_line(t),
                                        .directory = f->directory,
                                        .path = f->path,
                                        .step = f->step,
                                        .version = f->version,
                                        .ledger = f->found ? &f->ledger : NULL,
                                        .train_epoch = f->train_epoch,
                                        .train_sums = f->train_sums,
                                        .train_sum_count = f->train_sum_count,
                                        .best = &f->best,
                                        .best_path = f->best_path,
                                        .encoding = f->encoding};
        shell_event(t->shell, &e);
    }
    task_free(t);
}

static void find(void *ctx)
{
    struct task *t = ctx;
    const struct checkpoints_job job = job_of(t);
    const char **avoid = mem_new(t->avoid_count + 1, sizeof *avoid);
    for (size_t i = 0; i < t->avoid_count; i++) {
        avoid[i] = t->avoid[i];
    }
    (void)checkpoints_find(&t->shell->checkpoints, &job, avoid, t->avoid_count, &t->found, &t->err);
    free(avoid);
    finish(t, deliver_found);
}

void shell_find(struct shell *s, const struct master_find *in)
{
    struct task *t = task_new(s, in->number, in->job);
    t->avoid = mem_new(in->avoid_count + 1, sizeof *t->avoid);
    t->avoid_count = in->avoid_count;
    for (size_t i = 0; i < in->avoid_count; i++) {
        t->avoid[i] = mem_strdup(in->avoid[i]);
    }
    start(t, find, deliver_found);
}
