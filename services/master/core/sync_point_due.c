/* SPDX-License-Identifier: Apache-2.0 */
/* At which steps evaluations and checkpoints are due. */
#include "master/core/core.h"

/* NO_STEP: never. */
static uint64_t due_after(const struct job *j, const struct field_interval *every, uint64_t step)
{
    return step_map_next(&j->step_map, step, (uint64_t)every->count, every->epochs);
}

void sync_point_plan(struct job *j, uint64_t step)
{
    const struct training_spec *t = &j->spec.training;
    j->next_evaluate = j->test.records == 0 ? NO_STEP : due_after(j, &t->evaluate_every, step);
    j->next_checkpoint = due_after(j, &t->checkpoint_every, step);
}

uint64_t sync_point_next(const struct job *j, uint64_t step)
{
    const struct training_spec *t = &j->spec.training;
    uint64_t next = j->test.records == 0 ? NO_STEP : due_after(j, &t->evaluate_every, step);
    uint64_t checkpoint = due_after(j, &t->checkpoint_every, step);
    next = checkpoint < next ? checkpoint : next;
    return next < j->record.steps_total ? next : j->record.steps_total;
}
