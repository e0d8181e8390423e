/* SPDX-License-Identifier: Apache-2.0 */
/* The master's own access to the checkpoint directory: <root>/<job id>/step-000000500.
 *
 * The directory of a job belongs to this master from its submission on (checkpoint/claim.h).
 * ERR_PERMISSION: it is another master's, and nothing was read or changed; ERR_UNAVAILABLE: the
 * disk is not mounted. Everything here reads and writes files and may block: call it on a pool's
 * thread. */
#ifndef GRADUS_MASTER_SHELL_CHECKPOINTS_H
#define GRADUS_MASTER_SHELL_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "checkpoint/claim.h"
#include "job/progress/best.h"
#include "job/progress/ledger.h"

struct checkpoints { /* does not change while others use it */
    char *root;
    char owner[CLAIM_OWNER_BYTES];
};

/* A job, as its row knows it. */
struct checkpoints_job {
    const char *id;
    const char *named; /* the checkpoint of its row; "" none */
    int64_t submitted_ms;
    const char *best; /* directory of the best version; NULL or "" none */
};

struct checkpoint_found {
    bool found;           /* otherwise nothing below is set but `skipped` */
    char *directory;      /* relative to the root: "digits-1/step-000000500" */
    char *path;           /* absolute, when the root is */
    uint64_t step;        /* of the job */
    uint64_t version;     /* of every shard */
    struct ledger ledger; /* the data position */
    uint64_t train_epoch; /* as in the manifest */
    double *train_sums;
    size_t train_sum_count;
    struct best best;   /* as in the manifest */
    char *encoding;     /* as in the manifest; or NULL */
    char *best_path;    /* path of the best version that it keeps; NULL: it is not there */
    struct buf skipped; /* a line on each newer checkpoint that is not complete, or avoided */
};

/* Makes the directory of a new job "<name>-<number>": the least number from @least on that is above
 * all existing ones. Errors: those of files. */
int checkpoints_claim(const struct checkpoints *c, const char *name, uint64_t least,
                      int64_t submitted_ms, uint64_t *number, struct err *err);
/* The job never was, or ended without a checkpoint: others may have the number. */
void checkpoints_release(const struct checkpoints *c, const char *job);

/* Make an empty directory for the checkpoint @directory ("digits-1/step-000000500"), in place of
 * one that may be there. Errors: ERR_INVALID another kind of name; those of files. */
int checkpoints_prepare(const struct checkpoints *c, const struct checkpoints_job *job,
                        const char *directory, struct err *err);
/* Removes what there is of the checkpoint, which frees its room. Errors: those of files. */
int checkpoints_discard(const struct checkpoints *c, const struct checkpoints_job *job,
                        const char *directory, struct err *err);

/* Finds the newest complete checkpoint of @job that is not in @avoid: its manifest is sound and its
 * files are there with their sizes. No checkpoint, or no directory, is no error. @out is
 * overwritten in any case; checkpoint_found_release(). Errors: those of files, when nobody can say
 * which is the newest. */
int checkpoints_find(const struct checkpoints *c, const struct checkpoints_job *job,
                     const char *const *avoid, size_t avoid_count, struct checkpoint_found *out,
                     struct err *err);
void checkpoint_found_release(struct checkpoint_found *f); /* zeroed is fine */

/* Checks that the directory of @job is this master's, before anything is done in it. The directory
 * of a job that was submitted before owners were noted becomes this master's when the job's row
 * names a checkpoint in it, or it is not there (@make). Errors: ERR_NOT_FOUND it is not there (and
 * not to be made); ERR_STATE nobody can say whose it is. */
int checkpoints_check(const struct checkpoints *c, const struct checkpoints_job *job, bool make,
                      struct err *err);

/* Removes the whole directory of the job; one that is not there is no error. Errors: those of
 * files. */
int checkpoints_remove(const struct checkpoints *c, const struct checkpoints_job *job,
                       struct err *err);

/* checkpoint_prune() of the job's directory. */
int checkpoints_prune(const struct checkpoints *c, const struct checkpoints_job *job, size_t keep,
                      struct err *err);

#endif
