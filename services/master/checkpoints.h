/* SPDX-License-Identifier: Apache-2.0 */
/* What the master knows of the checkpoint directory itself: <root>/<job id>/step-000000500.
 *
 * Everything here reads and writes files and may block: call it on a pool's thread. */
#ifndef GRADUS_MASTER_CHECKPOINTS_H
#define GRADUS_MASTER_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "job/ledger.h"

struct checkpoint_found {
    bool found;           /* else nothing below is set but skipped */
    char *directory;      /* relative to the root: "digits-1/step-000000500" */
    char *path;           /* absolute, when the root is */
    uint64_t step;        /* of the job */
    uint64_t version;     /* of every shard */
    struct ledger ledger; /* the data position */
    struct buf skipped;   /* a line on each newer one that is not complete */
};

/* Make an empty directory for the checkpoint @directory ("digits-1/step-000000500"), in place of
 * one that may be there. Errors: ERR_INVALID another kind of name; those of files. */
int checkpoints_prepare(const char *root, const char *directory, struct err *err);

/* The newest complete checkpoint of @job: its manifest is sound and its files are there with their
 * sizes. That there is none, or no directory, is no error. @out is overwritten in any case;
 * checkpoint_found_release(). Errors: ERR_CORRUPT it is of another job, has no data position, or
 * its shards are at different versions; those of files. */
int checkpoints_find(const char *root, const char *job, struct checkpoint_found *out,
                     struct err *err);
void checkpoint_found_release(struct checkpoint_found *f); /* zeroed is fine */

/* The least number that no directory "<name>-<number>" has or is below: a job with an id that has
 * checkpoints already would take those of another job for its own. 1 without one. Errors: those of
 * files. */
int checkpoints_next_number(const char *root, const char *name, uint64_t *number, struct err *err);

#endif
