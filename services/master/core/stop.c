/* SPDX-License-Identifier: Apache-2.0 */
/* Early stopping (training.stop): what an evaluation means for the end of the training, and which
 * version is the result.
 * When all stand for that, says stop_stand.c. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

int stop_check_data(const struct job *j, struct err *err)
{
    if (best_is_wanted(&j->spec.training) && j->test.records == 0) {
        return err_set(err, ERR_INVALID, "%s: it is measured on test records, and there are none",
                       j->spec.training.stop_metric != 0 ? "training.stop.metric"
                                                         : "training.checkpoints_keep.best");
    }
    return 0;
}

/* Nothing is computed after this version. Who waits for a checkpoint gets that of the end. */
static void end_here(struct master *m, struct job *j)
{
    struct sync_point *s = &j->sync_point;
    s->last = true;
    s->yield = false;
    s->cancel = j->hold_cancel;
    s->checkpoint = j->checkpointed_step != s->step;
    j->hold_checkpoint = j->hold_cancel = j->hold_limit = false;
    for (size_t i = 0; i < j->waiter_count; i++) {
        j->waiters[i].served = true;
    }
    if (!s->checkpoint) {
        sync_point_waiters(m, j, false, ERR_OK, NULL);
    }
    j->record.steps_total = s->step;
    j->record.epochs_total = s->epoch;
    train_over(m, j);
}

void stop_decided(struct job *j)
{
    struct sync_point *s = &j->sync_point;
    if (s->decides) {
        s->decides = false;
        j->released = !s->yield && s->quiesced;
    }
}

/* The job was to end at a step that came after this one, and was resumed: training.stop.patience
 * counts evaluations behind that. */
static bool is_passed(const struct job *j, uint64_t step)
{
    return j->record.stop_passed > 0 && step <= j->record.stop_passed;
}

void stop_evaluated(struct master *m, struct job *j, const struct job_metrics *test)
{
    const struct training_spec *t = &j->spec.training;
    struct sync_point *s = &j->sync_point;
    struct best *b = &j->record.best;
    if (!best_is_wanted(t)) {
        stop_decided(j);
        return;
    }
    const int kind = best_metric(t) - 1;
    bool known = (test->kinds >> kind & 1u) != 0;
    bool best = best_count(b, t, s->step, known ? test->values[kind] : NAN);
    if (best && best_is_kept(t) && j->checkpointed_step == s->step) {
        stop_written(j);
    } else if (best && best_is_kept(t) && s->slots) {
        s->checkpoint = true;
    }
    bool passed = is_passed(j, s->step);
    if (passed) {
        best_go_on(b);
    }
    if (s->decides && !passed && best_is_passed(b, t)) {
        b->stops = true;
        end_here(m, j);
        s->decides = false;
    }
    stop_decided(j);
}

void stop_noted(const struct job *j, struct best *out)
{
    const struct sync_point *s = &j->sync_point;
    *out = j->record.best;
    if (out->known && out->step == s->step && best_is_kept(&j->spec.training)) {
        out->kept = true;
        out->kept_step = s->step;
    }
}

void stop_written(struct job *j)
{
    struct best b;
    stop_noted(j, &b);
    if (b.kept && b.kept_step == j->sync_point.step && !MUTANT(best_forgotten)) {
        j->record.best = b;
        job_record_set(&j->record.best_checkpoint, j->record.checkpoint);
    }
}

/* Counts evaluations that were made of this version after its checkpoint was written: the row has
 * them, its manifest does not. */
static void count_later(struct job *j, uint64_t step)
{
    const struct training_spec *t = &j->spec.training;
    const int kind = best_metric(t) - 1;
    for (size_t i = 0; best_is_wanted(t) && i < j->record.evaluation_count; i++) {
        const struct job_evaluation *e = &j->record.evaluations[i];
        if (e->step <= step && e->step > j->record.best.last) {
            bool known = (e->test.kinds >> kind & 1u) != 0;
            (void)best_count(&j->record.best, t, e->step, known ? e->test.values[kind] : NAN);
        }
    }
}

void stop_go_back(struct job *j, const struct master_found *found)
{
    struct best none = {0};
    if (!MUTANT(stop_not_restored)) {
        j->record.best = found->found && found->best != NULL ? *found->best : none;
        count_later(j, found->found ? found->step : 0);
    }
    if (found->found && is_passed(j, found->step) && !MUTANT(stops_again)) {
        best_go_on(&j->record.best);
    }
    job_record_set(&j->record.best_checkpoint,
                   found->found && found->best_path != NULL ? found->best_path : "");
    j->record.best.kept = j->record.best_checkpoint[0] != '\0';
}

/* Makes the kept version the result; its own evaluation is shown. */
static void take_best(struct job *j, struct buf *words)
{
    struct job_record *r = &j->record;
    if (r->best_checkpoint[0] == '\0') {
        buf_printf(words, "%sthe result is the last version: there is no checkpoint of the best",
                   words->len == 0 ? "" : "; ");
        return;
    }
    for (size_t i = 0; i < r->evaluation_count; i++) {
        if (r->evaluations[i].step == r->best.kept_step) {
            r->test = r->evaluations[i].test;
        }
    }
    job_record_set(&r->checkpoint, r->best_checkpoint);
    buf_printf(words, "%sthe result is the version of step %" PRIu64, words->len == 0 ? "" : "; ",
               r->best.kept_step);
}

const char *stop_result(struct master *m, struct job *j)
{
    struct buf words = {0};
    if (j->record.best.stops) {
        best_words(&j->record.best, &words);
    }
    if (j->spec.training.stop_restore_best && j->spec.training.stop_metric != 0) {
        take_best(j, &words);
    }
    const char *text = action_printf(m, "%s", buf_str(&words));
    buf_release(&words);
    return text;
}
