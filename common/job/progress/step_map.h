/* SPDX-License-Identifier: Apache-2.0 */
/* Where a job's steps lie in its data: from one position on (the beginning, a checkpoint, a change
 * of mode) steps take so many batches each, in order, and no step reaches over the end of an epoch.
 *
 * A step is a global step in sync mode (`replicas` batches) and one batch otherwise. Step numbers
 * only rise: a step map that follows another one begins where that one ended. Exact in sync mode;
 * in the others it says how many batches are done, not which. */
#ifndef GRADUS_JOB_PROGRESS_STEP_MAP_H
#define GRADUS_JOB_PROGRESS_STEP_MAP_H

#include "job/progress/ledger.h"

struct step_map {
    uint64_t step;         /* at which it begins */
    uint32_t step_batches; /* ≥ 1 */
    struct ledger ledger;  /* the position there; owned */
    uint64_t left;         /* ledger_left() of the split; ≥ 1 */
};

/* @ledger is copied; one with a complete epoch becomes the beginning of the next. */
void step_map_init(struct step_map *c, uint64_t step, uint32_t step_batches,
                   const struct ledger *ledger);
void step_map_release(struct step_map *c); /* zeroed is fine */

/* The step at which @epoch (0-based; not before the ledger's) is complete; UINT64_MAX: beyond all
 * numbers. */
uint64_t step_map_epoch_end(const struct step_map *c, uint64_t epoch);
/* The epoch that @step (the update from @step to @step + 1) belongs to. */
uint64_t step_map_epoch(const struct step_map *c, uint64_t step);
/* Batches done in all of the training when @step is reached; @step before the step map counts as
 * its beginning. */
uint64_t step_map_batches(const struct step_map *c, uint64_t step);
/* Records of them: exact in sync mode, and everywhere at the end of an epoch. */
uint64_t step_map_examples(const struct step_map *c, uint64_t step);
/* The step when @batches are done (async: the ledger's own count): the inverse of step_map_batches,
 * rounded down. */
uint64_t step_map_step(const struct step_map *c, uint64_t batches);
/* Sync: the data position at @step. @out is overwritten; ledger_release(). */
void step_map_ledger(const struct step_map *c, uint64_t step, struct ledger *out);

/* The first step after @step that is a multiple of @count epochs (@epochs), or of @count steps;
 * UINT64_MAX: never (@count 0). */
uint64_t step_map_next(const struct step_map *c, uint64_t step, uint64_t count, bool epochs);

#endif
