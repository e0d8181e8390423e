/* SPDX-License-Identifier: Apache-2.0 */
/* Eras of a job: which versions of its shards are made with which `update` section of its file.
 *
 * An era begins at a version and lasts until the next one begins. The update from version v to
 * v + 1 is of the era that v lies in. A job whose section was never changed has one era, and an
 * empty list says so. */
#ifndef GRADUS_JOB_PROGRESS_ERA_H
#define GRADUS_JOB_PROGRESS_ERA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Each has a section of some hundred bytes, which goes to every node of the job. */
#define ERAS_MAX 128

struct era {
    uint64_t version; /* the first; 0 of the first era */
    uint32_t rounds;  /* of sums over whole variables that a step of sync takes in it */
};

/* The era that @version lies in; 0 of an empty list. */
size_t era_at(const struct era *eras, size_t count, uint64_t version);
/* The most rounds of any era; 0 of an empty list. */
uint32_t era_rounds_max(const struct era *eras, size_t count);
/* Errors: ERR_INVALID there are too many, the first does not begin at 0, versions do not rise, or
 * one has more than @rounds_max rounds. */
int era_check(const struct era *eras, size_t count, uint32_t rounds_max, struct err *err);

#endif
