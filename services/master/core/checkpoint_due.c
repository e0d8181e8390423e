/* SPDX-License-Identifier: Apache-2.0 */
/* When a checkpoint is due, and an evaluation: at which step, after how much time, at the end of
 * which epoch. sync_point.c takes them. */
#include "master/core/core.h"

/* NO_STEP: never. */
static uint64_t due_after(const struct job *j, const struct field_interval *every, uint64_t step)
{
    return step_map_next(&j->step_map, step, (uint64_t)every->count, every->epochs);
}

void checkpoint_due_plan(struct job *j, uint64_t step)
{
    const struct training_spec *t = &j->spec.training;
    j->next_evaluate = j->test.records == 0 ? NO_STEP : due_after(j, &t->evaluate_every, step);
    j->next_checkpoint = due_after(j, &t->checkpoint_every, step);
}

uint64_t checkpoint_due_next(const struct job *j, uint64_t step)
{
    const struct training_spec *t = &j->spec.training;
    uint64_t next = j->test.records == 0 ? NO_STEP : due_after(j, &t->evaluate_every, step);
    uint64_t checkpoint = due_after(j, &t->checkpoint_every, step);
    next = checkpoint < next ? checkpoint : next;
    return next < j->record.steps_total ? next : j->record.steps_total;
}

/* When @every is due next, which was last done at @done (NO_STEP: never); not before @step. */
static uint64_t due_from(const struct job *j, const struct field_interval *every, uint64_t done,
                         uint64_t step)
{
    const uint64_t begin = j->step_map.step;
    uint64_t due = due_after(j, every, done == NO_STEP || done < begin ? begin : done);
    return due > step ? due : step;
}

void checkpoint_due_adopted(struct job *j, uint64_t evaluated, uint64_t checkpointed, uint64_t step)
{
    const struct training_spec *t = &j->spec.training;
    j->next_evaluate =
        j->test.records == 0 ? NO_STEP : due_from(j, &t->evaluate_every, evaluated, step);
    j->next_checkpoint = due_from(j, &t->checkpoint_every, checkpointed, step);
    uint64_t next = j->next_evaluate < j->next_checkpoint ? j->next_evaluate : j->next_checkpoint;
    next = next < j->record.steps_total ? next : j->record.steps_total;
    j->step_limit = job_is_sync(j) ? next : 0;
}

bool checkpoint_due_evaluation_at(const struct job *j, uint64_t step)
{
    return j->test.records > 0 &&
           due_from(j, &j->spec.training.evaluate_every, j->evaluated_step, 0) <= step;
}

bool checkpoint_due_at(const struct job *j, uint64_t step)
{
    return due_from(j, &j->spec.training.checkpoint_every, j->checkpointed_step, 0) <= step;
}

/* The evaluation of @step was made, and (training.stop) what it said was not lost with the way back
 * to a checkpoint that is older than it. */
static bool is_evaluated(const struct job *j, uint64_t step)
{
    return j->evaluated_step == step &&
           (!best_is_wanted(&j->spec.training) || j->record.best.last >= step);
}

/* A job that was cancelled has a checkpoint of where it stood, and no evaluation of it. */
bool checkpoint_due_where_it_begins(const struct job *j)
{
    const struct field_interval *every = &j->spec.training.evaluate_every;
    const uint64_t step = j->step_map.step;
    uint64_t passed = every->epochs ? ledger_records(&j->step_map.ledger) : step;
    uint64_t unit = (uint64_t)every->count * (every->epochs ? j->epoch_records : 1);
    bool due = j->test.records > 0 && unit > 0 && passed > 0 && passed % unit == 0;
    return due && j->record.resumes > 0 && !is_evaluated(j, step);
}

void checkpoint_due_make_up(struct job *j)
{
    const uint64_t step = j->step_map.step;
    if (!checkpoint_due_where_it_begins(j)) {
        return;
    }
    j->record.evaluation_count -= j->evaluated_step == step; /* it is made again */
    j->evaluated_step = NO_STEP;
    j->next_evaluate = step;
    j->step_limit = job_is_sync(j) ? step : 0;
}

/* ---- training.checkpoint_within ---- */

/* share of that time; the end of an epoch that follows sooner is passed over */
#define EPOCHS_SHARE 5

uint64_t checkpoint_due_ms(const struct job *j)
{
    const uint64_t within_ms = (uint64_t)j->spec.training.checkpoint_within_ms;
    const bool trains = j->record.state == JOB_RUNNING && j->phase == PHASE_TRAIN && !j->over &&
                        j->work == WORK_NONE && !j->hold_checkpoint;
    return within_ms > 0 && trains ? j->saved_ms + within_ms : UINT64_MAX;
}

bool checkpoint_due_at_epoch(const struct master *m, const struct job *j, uint64_t step)
{
    const uint64_t within_ms = (uint64_t)j->spec.training.checkpoint_within_ms;
    return within_ms > 0 && step_map_epoch(&j->step_map, step) != j->saved_epoch &&
           m->now_ms - j->saved_ms >= within_ms / EPOCHS_SHARE;
}

void checkpoint_due_saved(const struct master *m, struct job *j, uint64_t step)
{
    j->saved_ms = m->now_ms;
    j->saved_epoch = step_map_epoch(&j->step_map, step);
}
