/* SPDX-License-Identifier: Apache-2.0 */
/* What a job's update does with its variables, and what that takes on each server: for `gradus
 * plan`. */
#ifndef GRADUS_CLI_OUTPUT_UPDATE_H
#define GRADUS_CLI_OUTPUT_UPDATE_H

#include "job/spec/job_spec.h"
#include "job/plan/plan_memory.h"

#define OUTPUT_UPDATES_MAX 12 /* updates for which scheduled values are shown */

struct output_update {
    const struct plan *plan;
    const struct job_spec *spec;
    uint32_t rounds;            /* rounds of sums between the servers, in each step of sync */
    bool sends_norms;           /* in other modes: with each push */
    size_t workers;             /* the number of workers for which memory is counted */
    struct plan_memory *memory; /* [plan->shard_count] */
    struct update_slot slots[UPDATE_SLOTS_MAX];
    size_t slot_count;
    uint64_t updates[OUTPUT_UPDATES_MAX]; /* where schedules turn, rising */
    size_t update_count;                  /* 0: nothing is scheduled */
};

/* @plan and @spec are borrowed. Errors: those of update_new(). */
int output_update_init(struct output_update *o, const struct plan *plan,
                       const struct job_spec *spec, struct err *err);
void output_update_release(struct output_update *o);
/* What hyperparameter @schedule of the job is in update @number. */
double output_update_value(const struct output_update *o, size_t schedule, uint64_t number);
/* The pattern that variable @v takes, or NULL. */
const struct update_pattern *output_update_pattern(const struct output_update *o, size_t v);
void output_update_text(const struct output_update *o, struct buf *out);

#endif
