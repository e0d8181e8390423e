/* SPDX-License-Identifier: Apache-2.0 */
/* A sync point: a version is pinned, evaluated, written as a checkpoint, and let go.
 *
 * PIN ─▶ EVALUATE? ─▶ (PREPARE ─▶ CHECKPOINT ─▶ MANIFEST)? ─▶ UNPIN ─▶ NONE
 *
 * A work that fails goes by way of DISCARD. This file alone writes the job's `work`; answers are
 * recorded, and sync_point_advance() goes on when all requests are answered. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

void sync_point_release(struct job *j)
{
    ledger_release(&j->sync_point.ledger);
    free(j->sync_point.train_sums);
    free(j->sync_point.why);
    memset(&j->sync_point, 0, sizeof j->sync_point);
}

/* ---- the works, one after the other ---- */

static void call_shards(struct master *m, struct job *j, enum master_call_kind kind)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        call_start(m, j, j->shards[i].node, kind, (uint32_t)i);
    }
}

static void prepare(struct master *m, struct job *j)
{
    j->manifest_number = ++m->next_number;
    action_add(m, MASTER_PREPARE)->prepare =
        (struct master_prepare){.number = j->manifest_number,
                                .job = &j->record,
                                .directory = j->sync_point.directory,
                                .discard = j->work == WORK_DISCARD};
}

static void write_manifest(struct master *m, struct job *j)
{
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
        .ledger = &j->sync_point.ledger,
        .train_epoch = j->sync_point.data_epoch,
        .train_sums = j->sync_point.train_sums,
        .train_sum_count = j->sync_point.train_sum_count,
        .step = j->sync_point.step,
        .examples = j->sync_point.examples,
        .generation = j->record.generation,
        .directory = j->sync_point.directory,
        .base = j->sync_point.delta ? j->base.directory : NULL,
        .encoding = j->encoding,
        .model_file = data_model_file(j),
        .result_is_best = j->sync_point.last && j->spec.training.stop_restore_best,
        .shards = files,
    };
    stop_noted(j, &action->manifest.best);
}

/* @work is begun, unless it pauses before that. */
static void enter(struct master *m, struct job *j, enum work work)
{
    j->work = work;
    j->sync_point.answered = false;
    if (j->retry_ms != 0) {
        return;
    }
    switch (work) {
    case WORK_PIN:
        call_shards(m, j, MASTER_CALL_PIN);
        break;
    case WORK_EVALUATE:
        evaluate_begin(j);
        break;
    case WORK_PREPARE:
        base_choose(j);
        prepare(m, j);
        break;
    case WORK_DISCARD: /* room comes back */
        prepare(m, j);
        break;
    case WORK_CHECKPOINT:
        call_shards(m, j, MASTER_CALL_CHECKPOINT);
        break;
    case WORK_MANIFEST:
        write_manifest(m, j);
        break;
    case WORK_UNPIN:
        call_shards(m, j, MASTER_CALL_UNPIN);
        break;
    case WORK_NONE:
    case WORK_COUNT:
        break;
    }
}

void sync_point_stop(struct job *j)
{
    j->work = WORK_NONE;
    j->retry_ms = 0;
}

/* A request that is served by a checkpoint which exists already. */
static void reuse(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->waiter_count; i++) {
        j->waiters[i].served = true;
    }
    sync_point_waiters(m, j, false, ERR_OK, NULL);
}

static void finish(struct master *m, struct job *j)
{
    const struct sync_point *s = &j->sync_point;
    if (s->failed) { /* only a cancelled job ends without its checkpoint */
        job_must_end(j, JOB_CANCELLED, "by request, at step %" PRIu64 "; %s; %s", s->step, s->why,
                     job_checkpoint_words(m, j));
    } else if (s->cancel) {
        job_must_end(j, JOB_CANCELLED, "by request, at step %" PRIu64 "; %s", s->step,
                     job_checkpoint_words(m, j));
    } else {
        job_must_end(j, JOB_SUCCEEDED, "%s", stop_result(m, j));
    }
}

/* The checkpoint of a job that yields is complete, and no worker has gone on since. */
static void yield(struct master *m, struct job *j)
{
    j->work = WORK_NONE;
    job_must_yield(j, action_printf(m, "at step %" PRIu64, j->sync_point.step));
}

/* @quiesced: the job stands still; otherwise (async, bounded) it goes on, within an epoch. */
void sync_point_begin(struct master *m, struct job *j, bool quiesced)
{
    sync_point_release(j);
    struct sync_point *s = &j->sync_point;
    s->step = train_step(j);
    s->quiesced = quiesced;
    if (quiesced) {
        s->last = s->step >= j->record.steps_total;
        s->cancel = j->hold_cancel && !s->last;
        s->yield = job_yields_now(j) && !s->last && !s->cancel;
        s->checkpoint = s->last || j->hold_checkpoint || j->hold_cancel || s->yield;
        j->hold_checkpoint = false;
        j->hold_cancel = false;
        j->hold_limit = false;
    }
    s->evaluate = j->test.records > 0 && !s->cancel && j->evaluated_step != s->step &&
                  (s->last || s->step >= j->next_evaluate);
    s->checkpoint = s->checkpoint || (quiesced && s->step >= j->next_checkpoint) ||
                    (quiesced && checkpoint_due_at_epoch(m, j, s->step));
    if (s->checkpoint) {
        checkpoint_due_saved(m, j, s->step);
    }
    checkpoint_due_plan(j, s->step);
    if (s->checkpoint && j->checkpointed_step == s->step) {
        s->checkpoint = false;
        reuse(m, j);
    }
    s->decides = s->evaluate && quiesced && !s->last && stop_may_end(j);
    s->slots = s->checkpoint || (s->evaluate && quiesced && stop_wants_stand(j));
    s->examples = step_map_examples(&j->step_map, s->step);
    s->epoch = (double)s->examples / (double)j->epoch_records;
    s->data_epoch =
        step_map_epoch(&j->step_map, s->step > j->step_map.step ? s->step - 1 : s->step);
    progress_train_metrics(j, s->data_epoch, &s->train);
    s->train_sums = progress_train_sums(j, s->data_epoch, &s->train_sum_count);
    if (!s->evaluate && !s->checkpoint) {
        if (s->last || s->cancel) {
            train_over(m, j);
            finish(m, j);
        } else if (s->yield) {
            yield(m, j);
        } else if (quiesced) {
            j->released = true;
        }
        return;
    }
    for (size_t i = 0; i < j->waiter_count; i++) {
        j->waiters[i].served = s->checkpoint && quiesced;
    }
    /* also another one than those of earlier masters */
    snprintf(s->pin_id, sizeof s->pin_id, "step-%09" PRIu64 "-%" PRIu64 "-%u", s->step,
             j->record.generation, ++j->pin_count);
    snprintf(s->directory, sizeof s->directory, "%s/step-%09" PRIu64, j->record.id, s->step);
    train_ledger(j, s->step, &s->ledger);
    s->version = s->step + j->version_shift;
    enter(m, j, WORK_PIN);
    job_changed(j);
}

void sync_point_adopt(struct master *m, struct job *j, const struct adoption *found)
{
    sync_point_release(j);
    struct sync_point *s = &j->sync_point;
    s->step = found->step;
    s->adopted = true;
    s->known = found->known;
    s->evaluate = found->evaluate;
    s->checkpoint = found->checkpoint;
    s->slots = found->slots;
    if (found->known) {
        const struct job_handover_pin *known = &j->record.handover.pin;
        s->examples = known->examples;
        s->epoch = known->epoch;
        s->data_epoch = known->data_epoch;
    } else {
        s->examples = step_map_examples(&j->step_map, s->step);
        s->epoch = (double)s->examples / (double)j->epoch_records;
        s->data_epoch = step_map_epoch(&j->step_map, s->step - 1);
    }
    snprintf(s->pin_id, sizeof s->pin_id, "%s", found->pin);
    snprintf(s->directory, sizeof s->directory, "%s/step-%09" PRIu64, j->record.id, s->step);
    if (found->known) {
        ledger_copy(&s->ledger, &j->record.handover.pin.ledger);
    } else if (job_is_sync(j)) { /* else the shards say it */
        train_ledger(j, s->step, &s->ledger);
    }
    s->version = s->step + j->version_shift;
    enter(m, j, WORK_PIN);
    job_changed(j);
}

/* Ends the work on the pinned version. */
static void let_go(struct master *m, struct job *j)
{
    if (j->over) {
        enter(m, j, WORK_NONE); /* the shards are about to be closed */
        finish(m, j);
    } else if (j->sync_point.yield && !j->sync_point.failed) {
        yield(m, j);
    } else {
        j->row_let_go = j->row;
        enter(m, j, WORK_UNPIN);
    }
}

static void checkpoint_or_let_go(struct master *m, struct job *j)
{
    if (j->sync_point.checkpoint) {
        enter(m, j, WORK_PREPARE);
    } else {
        let_go(m, j);
    }
}

static void pinned(struct master *m, struct job *j)
{
    if (j->sync_point.last || j->sync_point.cancel) {
        train_over(m, j);
    } else {
        j->released = j->sync_point.quiesced && (!j->sync_point.decides || MUTANT(stop_runs_on)) &&
                      (!j->sync_point.yield || MUTANT(yield_does_not_stand));
    }
    if (j->sync_point.evaluate) {
        enter(m, j, WORK_EVALUATE);
    } else {
        checkpoint_or_let_go(m, j);
    }
}

/* An older failure is no news any more. */
static void say_nothing(struct job *j)
{
    if (j->record.state == JOB_RUNNING && !j->hold_cancel && !j->sync_point.cancel) {
        job_say(j, "");
    }
}

static void evaluated(struct master *m, struct job *j)
{
    struct job_evaluation e = {.step = j->sync_point.step,
                               .epoch = j->sync_point.epoch,
                               .train = j->sync_point.train,
                               .time_ms = m->wall_ms};
    if (e.step == step_map_epoch_end(&j->step_map, j->sync_point.data_epoch)) {
        /* Reports of the epoch's last batches may have come after the last of its splits. */
        progress_train_metrics(j, j->sync_point.data_epoch, &e.train);
    }
    job_metrics_set(&e.test, &j->test_sums, j->train.label_scale);
    j->record.test = e.test;
    job_record_set_confusion(&j->record, &j->test_sums.confusion);
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
    stop_evaluated(m, j, &e.test);
    job_store(m, j);
}

/* Older checkpoints go as soon as a row is stored that is not older than now. */
static void make_room(struct job *j)
{
    j->prune_row = j->prune_row != 0 ? j->prune_row : j->row;
    j->prune_keep = (size_t)j->spec.training.keep_last;
}

static void written(struct master *m, struct job *j)
{
    char quoted[1200];
    const char *base = base_used(j);
    action_log(m, LOG_LEVEL_INFO, "checkpoint", "job=%s step=%" PRIu64 " path=%s%s%s", j->record.id,
               j->sync_point.step, log_quote(j->record.checkpoint, quoted, sizeof quoted),
               base == NULL ? "" : " delta_of=", base == NULL ? "" : base);
    base_written(j);
    stop_written(j);
    j->checkpointed_step = j->sync_point.step;
    say_nothing(j);
    sync_point_waiters(m, j, false, ERR_OK, NULL);
    job_store(m, j);
    j->prune_row = 0; /* the row that names this one */
    make_room(j);
}

/* @work is tried again after a pause, which the job's reason tells. */
static void try_again(struct master *m, struct job *j, enum work work)
{
    struct sync_point *s = &j->sync_point;
    uint64_t ms = backoff_ms(s->attempts, CHECKPOINT_BACKOFF_MS_MIN, CHECKPOINT_BACKOFF_MS_MAX);
    j->retry_ms = m->now_ms + ms;
    enter(m, j, work);
    job_say(j, action_printf(m, "%s; attempt %u is in %" PRIu64 " s, its shards are kept", s->why,
                             s->attempts + 1, ms / 1000));
}

/* The evaluation is over. A job does not end without its last evaluation unless somebody cancels
 * it; without any other one it goes on. */
static void evaluation_over(struct master *m, struct job *j)
{
    struct sync_point *s = &j->sync_point;
    s->cancel = s->cancel || (s->last && j->hold_cancel);
    s->attempts++;
    if (s->last && !s->cancel && !MUTANT(last_evaluation_once)) {
        try_again(m, j, WORK_EVALUATE);
        return;
    }
    s->attempts = 0;
    stop_decided(j); /* an evaluation that failed does not count */
    checkpoint_or_let_go(m, j);
}

void sync_point_skip_evaluation(struct job *j)
{
    j->sync_point.cancel = true;
    j->sync_point.attempt_failed = true;
    j->retry_ms = 0;
    job_touch(j);
}

/* An attempt to write a checkpoint is over. A job does not end without its last checkpoint unless
 * somebody cancels it: it stands still and tries again. Without any other checkpoint training goes
 * on. */
static void attempt_over(struct master *m, struct job *j)
{
    struct sync_point *s = &j->sync_point;
    bool last = s->last && !MUTANT(last_checkpoint_once);
    s->cancel = s->cancel || (s->last && j->hold_cancel);
    s->attempts++;
    if (s->cancel ? !s->last && s->attempts < CHECKPOINT_ATTEMPTS_MAX : last) {
        try_again(m, j, j->work == WORK_PIN ? WORK_PIN : WORK_PREPARE);
        return;
    }
    s->failed = !s->yield || !MUTANT(yield_without_checkpoint);
    s->decides = false;
    sync_point_waiters(m, j, false, ERR_INTERNAL, action_printf(m, "%s", s->why));
    if (j->work == WORK_PIN && s->cancel) {
        train_over(m, j);
        finish(m, j);
        return;
    }
    j->released = (j->work == WORK_PIN || s->yield) && s->quiesced; /* nobody went on yet */
    if (s->yield && s->failed) {
        yield_failed(m, j);
    }
    let_go(m, j);
}

/* True while something that was begun has not ended. An attempt ends when all its requests have
 * ended: a server that writes late would fill the disk again. */
static bool is_busy(struct master *m, struct job *j)
{
    switch (j->work) {
    case WORK_PIN:
        return calls_open(&m->calls, j, MASTER_CALL_PIN) > 0;
    case WORK_EVALUATE:
        return j->sync_point.attempt_failed ? calls_open(&m->calls, j, MASTER_CALL_EVALUATE) > 0
                                            : !evaluate_is_done(j);
    case WORK_CHECKPOINT:
        return calls_open(&m->calls, j, MASTER_CALL_CHECKPOINT) > 0;
    case WORK_UNPIN:
        return calls_open(&m->calls, j, MASTER_CALL_UNPIN) > 0;
    case WORK_PREPARE:
    case WORK_MANIFEST:
    case WORK_DISCARD:
        return !j->sync_point.answered;
    case WORK_NONE:
    case WORK_COUNT:
        break;
    }
    return true;
}

/* The present work has ended, well or (@failed) not. */
static void next_work(struct master *m, struct job *j, bool failed)
{
    switch (j->work) {
    case WORK_PIN:
        (failed ? attempt_over : pinned)(m, j);
        break;
    case WORK_EVALUATE:
        if (failed) {
            evaluation_over(m, j);
        } else {
            evaluated(m, j);
            checkpoint_or_let_go(m, j);
        }
        break;
    case WORK_PREPARE:
        enter(m, j, failed ? WORK_DISCARD : WORK_CHECKPOINT);
        break;
    case WORK_CHECKPOINT:
        enter(m, j, failed ? WORK_DISCARD : WORK_MANIFEST);
        break;
    case WORK_MANIFEST:
        if (failed) {
            enter(m, j, WORK_DISCARD);
        } else {
            written(m, j);
            let_go(m, j);
        }
        break;
    case WORK_DISCARD: /* a DISCARD that fails is made up for by the next PREPARE */
        attempt_over(m, j);
        make_room(j); /* the disk may be full of what earlier masters did not remove */
        break;
    case WORK_UNPIN:
        enter(m, j, WORK_NONE);
        break;
    case WORK_NONE:
    case WORK_COUNT:
        break;
    }
}

void sync_point_advance(struct master *m, struct job *j)
{
    if (j->retry_ms != 0 && j->retry_ms <= m->now_ms) {
        j->retry_ms = 0;
        enter(m, j, j->work);
    }
    while (j->retry_ms == 0 && !job_is_ending(j) && !is_busy(m, j)) {
        bool failed = j->sync_point.attempt_failed;
        j->sync_point.attempt_failed = false;
        next_work(m, j, failed);
    }
    if (j->work == WORK_EVALUATE && j->retry_ms == 0 && !j->sync_point.attempt_failed) {
        evaluate_pump(m, j); /* a worker may be free, or have left a chunk behind */
    }
}

void sync_point_prune(struct master *m, struct job *j)
{
    if (j->prune_row == 0 || j->row_stored < j->prune_row) {
        return;
    }
    j->prune_row = 0;
    action_add(m, MASTER_PRUNE)->prune =
        (struct master_prune){.job = &j->record, .keep = j->prune_keep};
}
