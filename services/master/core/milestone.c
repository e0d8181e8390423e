/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

void milestone_release(struct job *j)
{
    ledger_release(&j->milestone.ledger);
    free(j->milestone.train_sums);
    free(j->milestone.why);
    memset(&j->milestone, 0, sizeof j->milestone);
}

/* ---- begin and end ---- */

/* A request that is served by a checkpoint which exists already. */
static void reuse(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->waiter_count; i++) {
        j->waiters[i].served = true;
    }
    milestone_waiters(m, j, false, ERR_OK, NULL);
}

static void finish(struct master *m, struct job *j)
{
    const struct milestone *s = &j->milestone;
    if (s->failed) { /* only what is cancelled ends without it */
        job_must_end(j, JOB_CANCELLED, "by request, at step %" PRIu64 "; %s; %s", s->step, s->why,
                     job_checkpoint_words(m, j));
    } else if (s->cancel) {
        job_must_end(j, JOB_CANCELLED, "by request, at step %" PRIu64 "; %s", s->step,
                     job_checkpoint_words(m, j));
    } else {
        job_must_end(j, JOB_SUCCEEDED, "%s", "");
    }
}

static void pin(struct master *m, struct job *j)
{
    j->work = WORK_PIN;
    for (size_t i = 0; i < j->shard_count; i++) {
        call_start(m, j, j->shards[i].node, MASTER_CALL_PIN, (uint32_t)i);
    }
}

/* @stand: the job stands still; else (async, bounded) within an epoch, while it goes on. */
void milestone_begin(struct master *m, struct job *j, bool stand)
{
    milestone_release(j);
    struct milestone *s = &j->milestone;
    s->step = train_step(j);
    s->stand = stand;
    if (stand) {
        s->last = s->step >= j->record.steps_total;
        s->cancel = j->hold_cancel && !s->last;
        s->checkpoint = s->last || j->hold_checkpoint || j->hold_cancel;
        j->hold_checkpoint = false;
        j->hold_cancel = false;
        j->hold_limit = false;
    }
    s->evaluate = j->test.records > 0 && !s->cancel && j->evaluated_step != s->step &&
                  (s->last || s->step >= j->next_evaluate);
    s->checkpoint = s->checkpoint || (stand && s->step >= j->next_checkpoint);
    milestone_plan(j, s->step);
    if (s->checkpoint && j->checkpointed_step == s->step) {
        s->checkpoint = false;
        reuse(m, j);
    }
    s->examples = course_examples(&j->course, s->step);
    s->epoch = (double)s->examples / (double)j->train.records;
    s->data_epoch = course_epoch(&j->course, s->step > j->course.step ? s->step - 1 : s->step);
    progress_train_metrics(j, s->data_epoch, &s->train);
    s->train_sums = progress_train_sums(j, s->data_epoch, &s->train_sum_count);
    if (!s->evaluate && !s->checkpoint) {
        if (s->last || s->cancel) {
            train_over(m, j);
            finish(m, j);
        } else if (stand) {
            j->released = true;
        }
        return;
    }
    for (size_t i = 0; i < j->waiter_count; i++) {
        j->waiters[i].served = s->checkpoint && stand;
    }
    snprintf(s->pin_id, sizeof s->pin_id, "step-%09" PRIu64 "-%u", s->step, ++j->pin_count);
    snprintf(s->directory, sizeof s->directory, "%s/step-%09" PRIu64, j->record.id, s->step);
    train_ledger(j, s->step, &s->ledger);
    s->version = s->step + j->version_shift;
    pin(m, j);
    job_changed(j);
}

static void work_end(struct master *m, struct job *j)
{
    j->work = WORK_NONE;
    if (j->over) {
        finish(m, j);
    }
}

static void unpin(struct master *m, struct job *j)
{
    if (j->over) {
        work_end(m, j); /* the shards are about to be closed */
        return;
    }
    j->work = WORK_UNPIN;
    for (size_t i = 0; i < j->shard_count; i++) {
        call_start(m, j, j->shards[i].node, MASTER_CALL_UNPIN, (uint32_t)i);
    }
}

static void prepare(struct master *m, struct job *j, bool discard)
{
    j->work = discard ? WORK_DISCARD : WORK_PREPARE;
    j->manifest_number = ++m->next_number;
    action_add(m, MASTER_PREPARE)->prepare =
        (struct master_prepare){.number = j->manifest_number,
                                .job = &j->record,
                                .directory = j->milestone.directory,
                                .discard = discard};
}

/* PIN → EVALUATE? → (PREPARE → CHECKPOINT → MANIFEST)? → UNPIN; see core.h. */
static void work_next(struct master *m, struct job *j)
{
    if (j->work == WORK_PIN && j->milestone.evaluate) {
        j->work = WORK_EVALUATE;
        evaluate_begin(j);
    } else if (j->work < WORK_PREPARE && j->milestone.checkpoint) {
        prepare(m, j, false);
    } else {
        unpin(m, j);
    }
}

static void pinned(struct master *m, struct job *j)
{
    if (j->milestone.last || j->milestone.cancel) {
        train_over(m, j);
        work_next(m, j);
        return;
    }
    work_next(m, j);
    j->released = j->milestone.stand;
}

static void write_manifest(struct master *m, struct job *j)
{
    j->work = WORK_MANIFEST;
    j->manifest_number = ++m->next_number;
    struct master_shard_file *files = action_memory(m, j->shard_count, sizeof *files);
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_state *s = &j->shards[i];
        files[i] = (struct master_shard_file){
            .file = action_printf(m, "%s", s->file),
            .bytes = s->bytes,
            .checksum = s->checksum,
            .version = s->file_version,
        };
    }
    struct master_action *action = action_add(m, MASTER_MANIFEST);
    action->manifest = (struct master_manifest){
        .number = j->manifest_number,
        .job = &j->record,
        .spec = &j->spec,
        .plan = &j->plan,
        .ledger = &j->milestone.ledger,
        .train_epoch = j->milestone.data_epoch,
        .train_sums = j->milestone.train_sums,
        .train_sum_count = j->milestone.train_sum_count,
        .step = j->milestone.step,
        .examples = j->milestone.examples,
        .generation = j->record.generation,
        .directory = j->milestone.directory,
        .shards = files,
    };
}

static void keep_file(struct shard_state *s, const struct master_call_done *done)
{
    job_record_set(&s->file, done->file == NULL ? "" : done->file);
    s->bytes = done->bytes;
    s->checksum = done->checksum;
    s->file_version = done->version;
}

/* Is what shard @i pinned the cut that the master thinks it is? */
static bool is_the_cut(struct job *j, uint32_t i, const struct master_call_done *done)
{
    const struct milestone *s = &j->milestone;
    bool same = true;
    if (job_is_sync(j)) {
        same = done->version == s->version;
    } else if (s->stand && done->ledger != NULL) {
        same = ledger_equal(done->ledger, &s->ledger);
    }
    if (!same) {
        job_must_end(j, JOB_FAILED,
                     "parameter server %s pinned version %" PRIu64 ", which is not where all stand",
                     j->shards[i].node->id, done->version);
    }
    return same;
}

static void attempt_over(struct master *m, struct job *j);

void on_prepare_done(struct master *m, const struct master_prepare_done *done)
{
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        if ((j->work != WORK_PREPARE && j->work != WORK_DISCARD) || j->retry_ms != 0 ||
            j->manifest_number != done->number) {
            continue;
        }
        job_touch(j);
        if (j->work == WORK_DISCARD) { /* if not, the next PREPARE does it */
            attempt_over(m, j);
            return;
        }
        if (done->err != NULL) {
            milestone_checkpoint_failed(m, j, action_printf(m, "%s", done->err->msg));
            return;
        }
        j->work = WORK_CHECKPOINT;
        for (size_t k = 0; k < j->shard_count; k++) {
            call_start(m, j, j->shards[k].node, MASTER_CALL_CHECKPOINT, (uint32_t)k);
        }
        return;
    }
}

static void attempt_failed(struct master *m, struct job *j);

void milestone_shard_done(struct master *m, struct job *j, uint32_t shard,
                          const struct master_call_done *done, enum master_call_kind kind)
{
    if (kind == MASTER_CALL_PIN) {
        if (!is_the_cut(j, shard, done)) {
            return;
        }
        if (done->version >= j->shards[shard].version) { /* else it has said more since */
            train_shard_said(j, shard, done);
        }
    } else if (kind == MASTER_CALL_CHECKPOINT) {
        keep_file(&j->shards[shard], done);
    }
    if (calls_open(&m->calls, j, kind) > 0) {
        return;
    }
    if (j->milestone.attempt_failed) {
        attempt_failed(m, j);
    } else if (kind == MASTER_CALL_PIN) {
        pinned(m, j);
    } else if (kind == MASTER_CALL_CHECKPOINT) {
        write_manifest(m, j);
    } else {
        work_end(m, j);
    }
}

static void evaluated(struct master *m, struct job *j)
{
    struct job_evaluation e = {.step = j->milestone.step,
                               .epoch = j->milestone.epoch,
                               .train = j->milestone.train,
                               .time_ms = m->wall_ms};
    if (e.step == course_epoch_end(&j->course, j->milestone.data_epoch)) {
        /* Reports of the epoch's last batches may have come after the last of its splits. */
        progress_train_metrics(j, j->milestone.data_epoch, &e.train);
    }
    job_metrics_set(&e.test, &j->test_sums, j->train.label_scale);
    j->record.test = e.test;
    job_record_add_evaluation(&j->record, &e);
    j->evaluated_step = e.step;
    struct buf words = {0};
    for (int kind = 0; kind < METRIC_KIND_COUNT; kind++) {
        if ((e.test.kinds >> kind & 1u) != 0) {
            buf_printf(&words, " test_%s=%.6g", metric_kind_names[kind], e.test.values[kind]);
        }
    }
    action_log(m, LOG_LEVEL_INFO, "evaluated", "job=%s step=%" PRIu64 "%s", j->record.id, e.step,
               buf_str(&words));
    buf_release(&words);
    job_store(m, j);
    work_next(m, j);
}

void milestone_advance(struct master *m, struct job *j)
{
    if (j->work != WORK_EVALUATE) {
        return;
    }
    if (evaluate_is_done(j)) {
        evaluated(m, j);
    } else {
        evaluate_pump(m, j); /* a worker may be free, or have left a chunk behind */
    }
}

void milestone_stop(struct job *j)
{
    j->work = WORK_NONE;
    j->retry_ms = 0;
}

/* ---- checkpoints ---- */

void milestone_waiters(struct master *m, struct job *j, bool all, int code, const char *message)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->waiter_count; i++) {
        struct waiter w = j->waiters[i];
        if (!all && !w.served) {
            j->waiters[kept++] = w;
        } else if (code != ERR_OK) {
            reply_error(m, w.request, code, "%s", message);
        } else {
            struct master_reply *reply = reply_add(m, w.request);
            reply->path = action_printf(m, "%s", j->record.checkpoint);
            reply->step = j->milestone.step;
        }
    }
    j->waiter_count = kept;
}

/* Nothing of the attempt goes on any more. */
static void attempt_failed(struct master *m, struct job *j)
{
    j->milestone.attempt_failed = false;
    if (j->work == WORK_PIN) {
        attempt_over(m, j);
    } else {
        prepare(m, j, true); /* room comes back */
    }
}

/* A job does not end without its last checkpoint unless somebody cancels it: it stands still and
 * tries again. Training goes on without any other one. */
static void attempt_over(struct master *m, struct job *j)
{
    struct milestone *s = &j->milestone;
    bool last = s->last && !MUTANT(last_checkpoint_once);
    s->cancel = s->cancel || (s->last && j->hold_cancel);
    s->attempts++;
    if (s->cancel ? !s->last && s->attempts < CHECKPOINT_ATTEMPTS_MAX : last) {
        uint64_t ms = backoff_ms(s->attempts, CHECKPOINT_BACKOFF_MS_MIN, CHECKPOINT_BACKOFF_MS_MAX);
        j->work = j->work == WORK_PIN ? WORK_PIN : WORK_PREPARE;
        j->retry_ms = m->now_ms + ms;
        job_say(j, action_printf(m, "%s; attempt %u is in %" PRIu64 " s, its shards are kept",
                                 s->why, s->attempts + 1, ms / 1000));
        return;
    }
    s->failed = true;
    milestone_waiters(m, j, false, ERR_INTERNAL, action_printf(m, "%s", s->why));
    if (j->work == WORK_PIN && s->cancel) {
        train_over(m, j);
        finish(m, j);
        return;
    }
    bool stood = j->work == WORK_PIN && s->stand; /* nobody went on yet */
    unpin(m, j);
    j->released = stood;
}

/* An attempt ends when all that was asked for has: a server that writes late would fill the disk
 * again. */
static void say_failed(struct master *m, struct job *j, const char *what, const char *why)
{
    char quoted[1200];
    action_log(m, LOG_LEVEL_ERROR, "checkpoint_failed", "job=%s step=%" PRIu64 " reason=%s",
               j->record.id, j->milestone.step, log_quote(why, quoted, sizeof quoted));
    if (!j->milestone.attempt_failed) {
        free(j->milestone.why);
        j->milestone.why = mem_printf("%s at step %" PRIu64 ": %s", what, j->milestone.step, why);
        job_say(j, j->milestone.why);
    }
    j->milestone.attempt_failed = true;
}

void milestone_checkpoint_failed(struct master *m, struct job *j, const char *why)
{
    say_failed(m, j, "checkpoint", why);
    if (calls_open(&m->calls, j, MASTER_CALL_CHECKPOINT) == 0) {
        attempt_failed(m, j);
    }
}

void milestone_pin_failed(struct master *m, struct job *j, const char *why)
{
    say_failed(m, j, j->milestone.checkpoint ? "checkpoint" : "evaluation", why);
    if (calls_open(&m->calls, j, MASTER_CALL_PIN) == 0) {
        attempt_failed(m, j);
    }
}

void milestones_tick(struct master *m)
{
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        if (j->retry_ms == 0 || j->retry_ms > m->now_ms) {
            continue;
        }
        j->retry_ms = 0;
        if (j->work == WORK_PIN) {
            pin(m, j);
        } else {
            prepare(m, j, false);
        }
    }
}

void milestone_prune(struct master *m, struct job *j)
{
    if (j->prune_row == 0 || j->row_stored < j->prune_row) {
        return;
    }
    j->prune_row = 0;
    action_add(m, MASTER_PRUNE)->prune =
        (struct master_prune){.job = &j->record, .keep = j->prune_keep};
}

void on_manifest_done(struct master *m, const struct master_manifest_done *done)
{
    struct job *j = NULL;
    for (size_t i = 0; i < m->job_count; i++) {
        if (m->jobs[i]->work == WORK_MANIFEST && m->jobs[i]->manifest_number == done->number) {
            j = m->jobs[i];
        }
    }
    if (j == NULL) {
        return; /* the job was cancelled meanwhile; the checkpoint is there all the same */
    }
    job_touch(j);
    if (done->err != NULL) {
        milestone_checkpoint_failed(m, j, action_printf(m, "%s", done->err->msg));
        return;
    }
    char quoted[1200];
    action_log(m, LOG_LEVEL_INFO, "checkpoint", "job=%s step=%" PRIu64 " path=%s", j->record.id,
               j->milestone.step, log_quote(done->path, quoted, sizeof quoted));
    job_record_set(&j->record.checkpoint, done->path);
    j->checkpointed_step = j->milestone.step;
    if (j->record.state == JOB_RUNNING && !j->hold_cancel && !j->milestone.cancel) {
        job_say(j, ""); /* an older failure is no news any more */
    }
    milestone_waiters(m, j, false, ERR_OK, NULL);
    job_store(m, j);
    j->prune_row = j->row;
    j->prune_keep =
        j->spec.training.checkpoints_keep > 0 ? (size_t)j->spec.training.checkpoints_keep : 0;
    unpin(m, j);
}
