/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a directory of checkpoints is. Several masters may keep checkpoints in one root; the
 * directory of a job belongs to the one that made it:
 *
 *     <root>/gradus-checkpoints      the mark: this is a root, and its disk is mounted
 *     <root>/digits-1/owner          "gradus-owner 1", the owner, the job, when it was submitted
 *
 * An owner is the random id of a master's store. The owner file is there completely or not at all,
 * and there is one of it, however many try to make it, on NFS, too. Nothing in the directory of
 * another owner is read, written or removed.
 *
 * Everything here reads and writes files and may block.
 *
 * Masters that share a root know of each other in no other way (decision 37). The mark of the root
 * is there because an empty mount point looks like a new root. Only its absence is judged: who
 * means an empty directory makes the file by hand. */
#ifndef GRADUS_CHECKPOINT_CLAIM_H
#define GRADUS_CHECKPOINT_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define CLAIM_ROOT_MARK "gradus-checkpoints"
#define CLAIM_NAME "owner"
#define CLAIM_OWNER_BYTES 33 /* 32 hex digits */

/* A new owner's id. */
void claim_owner_new(char out[CLAIM_OWNER_BYTES]);

/* Makes the root and its mark, unless they are there. Errors: those of files. */
int claim_root_make(const char *root, struct err *err);
/* Checks that the root is there and has its mark. Errors: ERR_UNAVAILABLE the mark is missing;
 * those of files. */
int claim_root_check(const char *root, struct err *err);

/* Makes the directory of @job durably, with @owner as its owner. Errors: ERR_EXISTS there is one,
 * whoever made it; those of files. */
int claim_make(const char *root, const char *job, const char *owner, int64_t submitted_ms,
               struct err *err);
/* Makes @owner the owner of a directory that is older than owner files, unless another master is
 * faster. Errors: ERR_PERMISSION it is another's; those of files. */
int claim_adopt(const char *root, const char *job, const char *owner, int64_t submitted_ms,
                struct err *err);
/* Checks that the directory of @job is @owner's. Errors: ERR_NOT_FOUND there is no directory, or no
 * owner file in it (@there says which; may be NULL); ERR_PERMISSION it is another's; ERR_CORRUPT
 * the owner file cannot be read; those of files. */
int claim_check(const char *root, const char *job, const char *owner, bool *there, struct err *err);
/* The owner of the directory @dir itself into @owner; "" when none is noted. Errors: ERR_CORRUPT;
 * those of files. */
int claim_read(const char *dir, char owner[CLAIM_OWNER_BYTES], struct err *err);
/* Removes the directory of @job when it is @owner's and holds nothing but its owner file; else does
 * nothing. */
void claim_release(const char *root, const char *job, const char *owner);

#endif
