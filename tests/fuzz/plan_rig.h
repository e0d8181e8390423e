/* SPDX-License-Identifier: Apache-2.0 */
/* A small job: its file, plan, ledger and consistency as messages, for targets that need one that
 * is right before others come. Job "j-1" of workers "w0" and "w1", 2 x 3 + 3 parameters, 50 records
 * in batches of 10. */
#ifndef GRADUS_TESTS_FUZZ_PLAN_RIG_H
#define GRADUS_TESTS_FUZZ_PLAN_RIG_H

#include <stdbool.h>

#include "base/buf.h"

#define PLAN_RIG_JOB "j-1"
#define PLAN_RIG_OPENING 7

/* Ids and texts that are somewhere in that job, NULL-terminated: for the mutator. */
extern const char *const plan_rig_words[];

/* Two tables of two and one floats, clipping by norm, initial values that workers bring; or the
 * shard is a backup. */
enum plan_rig_more {
    PLAN_RIG_PLAIN,
    PLAN_RIG_CLIPS,
    PLAN_RIG_TABLES,
    PLAN_RIG_GIVEN,
    PLAN_RIG_BACKUP
};

/* The job file; @mode of enum training_mode; owned. */
char *plan_rig_text(unsigned mode, const char *rule, enum plan_rig_more more);
/* Append a packed OpenShardRequest of the whole job on one shard. */
void plan_rig_open(unsigned mode, const char *rule, enum plan_rig_more more, struct buf *out);

#endif
