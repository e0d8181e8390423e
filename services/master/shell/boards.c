/* SPDX-License-Identifier: Apache-2.0 */
#include "master/shell/boards.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/job_wire.h"
#include "os/chrono.h"
#include "os/file.h"
#include "os/log.h"
#include "tensorboard/parameters.h"
#include "tensorboard/tensorboard.h"

#define SETTLE_MS 2000 /* for reports of workers about an epoch after its evaluation */

struct board { /* of a job that wants event files, or does not */
    char *job;
    char *text;   /* the job file that @dir is of */
    char *dir;    /* "": none */
    size_t count; /* evaluations, and the last one's step, that were looked at */
    uint64_t step;
    uint64_t due_ms; /* 0: nothing is to be written */
    bool histograms;
    char *checkpoint;    /* newest one that was looked at, */
    char *has_histogram; /* and the one whose histograms are written; NULL: none */
    bool writing, ended;
};

/* ---- on the thread for files ---- */

struct task {
    struct shell *shell;
    struct job_record job;
    char *dir;
    size_t count;    /* evaluations to write */
    bool histograms; /* and those of its checkpoint */
    struct err err;
};

/* Is @path, of which nothing leads anywhere else any more, @root or below it? */
static bool is_below(const char *path, const char *root)
{
    const size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

bool boards_is_path(const char *dir)
{
    const char *dots = strstr(dir, "/..");
    while (dots != NULL && dots[3] != '\0' && dots[3] != '/') {
        dots = strstr(dots + 1, "/..");
    }
    return dir[0] == '/' && dots == NULL;
}

static int refuse(const char *dir, const char *root, struct err *err)
{
    return err_set(err, ERR_PERMISSION, "%s is not below %s (tensorboard_root of the master)", dir,
                   root);
}

/* Makes @dir, and finds out what it leads to: links do not lead out of the root. What is to be made
 * is looked at from the first directory that is there. */
static int open_dir(const char *dir, const char *root, char out[PATH_MAX], struct err *err)
{
    char real_root[PATH_MAX];
    char *there = mem_strdup(dir);
    if (!boards_is_path(dir)) {
        free(there);
        return err_set(err, ERR_INVALID, "%s is no absolute path without '..'", dir);
    }
    if (realpath(root, real_root) == NULL) {
        free(there);
        return err_set(err, ERR_NOT_FOUND, "%s, tensorboard_root of the master, is not there",
                       root);
    }
    while (realpath(there, out) == NULL && strlen(there) > 1) {
        char *slash = strrchr(there, '/');
        slash[slash == there ? 1 : 0] = '\0';
    }
    free(there);
    int rc = is_below(out, real_root) ? file_make_dirs(dir, err) : refuse(dir, root, err);
    if (rc == 0 && (realpath(dir, out) == NULL || !is_below(out, real_root))) {
        rc = refuse(dir, root, err);
    }
    return rc;
}

static void on_written(void *ctx);

static void task_free(struct task *t)
{
    job_record_release(&t->job);
    free(t->dir);
    free(t);
}

static void write_files(void *ctx)
{
    struct task *t = ctx;
    const char *root = t->shell->settings->tensorboard_root;
    char dir[PATH_MAX];
    struct job_wire w;
    int rc = root[0] == '\0'
                 ? err_set(&t->err, ERR_PERMISSION,
                           "this master writes event files nowhere: its setting tensorboard_root "
                           "is empty")
                 : open_dir(t->dir, root, dir, &t->err);
    if (rc == 0) {
        job_wire_init(&w, &t->job, JOB_WIRE_EVALUATIONS | JOB_WIRE_TEXT);
        rc = tensorboard_write(dir, &w.job, w.job.text, t->count, &t->err);
        if (rc == 0 && t->histograms) {
            (void)parameters_write(dir, &w.job, &t->job.checkpoint, 1, &t->err);
        }
        job_wire_release(&w);
    }
    if (loop_post(t->shell->loop, on_written, t, NULL) < 0) {
        task_free(t);
    }
}

/* ---- on the loop ---- */

static char *key_of(const char *job)
{
    return mem_printf(STORE_TENSORBOARD_OF "%s", job);
}

void boards_problem(struct shell *s, const char *job, struct buf *out)
{
    char *key = key_of(job);
    if (s->store == NULL || s->store->ops->get_text(s->store, key, out, NULL) != 0) {
        buf_reset(out);
    }
    free(key);
}

/* "": there is none. */
static void tell(struct shell *s, const char *job, const char *problem)
{
    struct buf before = {0};
    boards_problem(s, job, &before);
    if (strcmp(buf_str(&before), problem) != 0) {
        char quoted[1200], *key = key_of(job);
        (void)s->store->ops->put_text(s->store, key, problem, NULL);
        free(key);
        if (problem[0] != '\0') {
            log_warn("events_not_written", "job=%s reason=%s", job,
                     log_quote(problem, quoted, sizeof quoted));
        } else {
            log_info("events_written", "job=%s", job);
        }
    }
    buf_release(&before);
}

static void release(struct board *b)
{
    free(b->job);
    free(b->text);
    free(b->dir);
    free(b->checkpoint);
    free(b->has_histogram);
    free(b);
}

static void board_free(struct shell *s, struct board *b)
{
    name_index_remove(&s->boards.index, b->job);
    release(b);
}

/* What the job's file says; it may be changed while the job runs. */
static void read_dir(struct board *b, const char *text)
{
    struct job_spec spec = {0};
    struct diags diags = {0};
    if (b->text != NULL && strcmp(b->text, text) == 0) {
        return;
    }
    free(b->text);
    free(b->dir);
    b->text = mem_strdup(text);
    const bool read = job_spec_parse(text, strlen(text), b->job, NULL, 0, &spec, &diags) == 0;
    b->dir = mem_strdup(read ? spec.training.tensorboard : "");
    b->histograms = read && spec.training.tensorboard_histograms;
    diags_release(&diags);
    job_spec_release(&spec);
}

bool boards_has_histograms(const struct shell *s, const char *job)
{
    const struct board *b = name_index_find(&s->boards.index, job);
    return b != NULL && b->histograms;
}

/* How many evaluations of @r are complete: workers report of an epoch a moment after it. */
static size_t settled(const struct job_record *r, bool ended)
{
    size_t count = r->evaluation_count;
    const int64_t now_ms = chrono_wall_ms();
    while (count > 0 && !ended && r->evaluations[count - 1].time_ms > now_ms - SETTLE_MS) {
        count--;
    }
    return count;
}

static void write_board(struct shell *s, struct board *b, const struct job_record *r)
{
    struct task *t = mem_new(1, sizeof *t);
    struct err err = {0};
    t->count = settled(r, b->ended);
    t->histograms = b->histograms && r->checkpoint[0] != '\0' &&
                    (b->has_histogram == NULL || strcmp(b->has_histogram, r->checkpoint) != 0);
    t->shell = s;
    t->dir = mem_strdup(b->dir);
    job_record_copy(&t->job, r);
    b->due_ms = t->count < r->evaluation_count ? chrono_now_ms() + SETTLE_MS : 0;
    b->writing = pool_post(s->boards.pool, write_files, t, &err) == 0;
    if (!b->writing) {
        tell(s, b->job, err.msg);
        task_free(t);
    }
}

static void on_time(void *ctx);

static void arm(struct shell *s)
{
    uint64_t first_ms = UINT64_MAX;
    for (size_t i = 0; i < s->boards.index.capacity; i++) {
        const struct board *b = s->boards.index.slots[i].object;
        if (s->boards.index.slots[i].name != NULL && b->due_ms != 0 && b->due_ms < first_ms) {
            first_ms = b->due_ms;
        }
    }
    if (first_ms != UINT64_MAX) {
        loop_timer_set(s->loop, &s->boards.timer, first_ms, on_time, s);
    }
}

static void on_time(void *ctx)
{
    struct shell *s = ctx;
    const uint64_t now_ms = chrono_now_ms();
    for (size_t i = 0; i < s->boards.index.capacity; i++) {
        struct board *b = s->boards.index.slots[i].object;
        if (s->boards.index.slots[i].name == NULL || b->due_ms == 0 || b->due_ms > now_ms) {
            continue;
        }
        const struct job_record *r = master_job(s->master, b->job, now_ms);
        if (r == NULL || b->writing) {
            b->due_ms = r == NULL ? 0 : now_ms + SETTLE_MS;
        } else {
            write_board(s, b, r);
        }
    }
    arm(s);
}

static void on_written(void *ctx)
{
    struct task *t = ctx;
    struct shell *s = t->shell;
    struct board *b = name_index_find(&s->boards.index, t->job.id);
    if (b != NULL && !loop_discarding(s->loop)) {
        b->writing = false;
        if (t->histograms && t->err.code == 0) {
            job_record_set(&b->has_histogram, t->job.checkpoint);
        }
        tell(s, b->job, t->err.code == 0 ? "" : t->err.msg);
        const struct job_record *r = master_job(s->master, b->job, chrono_now_ms());
        if (b->ended && b->due_ms != 0 && r != NULL) { /* it ended while its files were written */
            write_board(s, b, r);
        } else if (b->ended) {
            board_free(s, b);
        }
    }
    task_free(t);
}

void boards_changed(struct shell *s, const struct job_record *r)
{
    struct board *b = name_index_find(&s->boards.index, r->id);
    const bool ended = job_state_is_final(r->state);
    if (s->boards.pool == NULL || r->evaluation_count == 0 ||
        (b == NULL && r->state != JOB_RUNNING)) {
        return;
    }
    const uint64_t step = r->evaluations[r->evaluation_count - 1].step;
    if (b != NULL && !ended && b->count == r->evaluation_count && b->step == step &&
        (!b->histograms || strcmp(b->checkpoint, r->checkpoint) == 0)) {
        b->ended = false;
        return;
    }
    if (b == NULL) {
        b = mem_new(1, sizeof *b);
        b->job = mem_strdup(r->id);
        name_index_put(&s->boards.index, b->job, b);
    }
    read_dir(b, r->text);
    b->count = r->evaluation_count;
    b->step = step;
    job_record_set(&b->checkpoint, r->checkpoint);
    b->ended = ended;
    if (b->dir[0] != '\0') {
        const uint64_t due_ms = chrono_now_ms() + (ended ? 0 : SETTLE_MS);
        b->due_ms = ended || b->due_ms == 0 ? due_ms : b->due_ms;
    }
    if (ended && !b->writing && b->due_ms != 0) {
        write_board(s, b, r);
    } else if (ended && !b->writing) {
        board_free(s, b);
    }
    arm(s);
}

void boards_release(struct shell *s)
{
    for (size_t i = 0; i < s->boards.index.capacity; i++) {
        struct board *b = s->boards.index.slots[i].object;
        if (s->boards.index.slots[i].name != NULL) {
            release(b);
        }
    }
    name_index_release(&s->boards.index);
}
