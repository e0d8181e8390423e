/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that holds a job's checkpoints:
 *
 *     <dir>/step-000000500/shard-0-of-2.safetensors, shard-1-of-2.safetensors, manifest.json
 *
 * A checkpoint exists from the moment its manifest has its name until the manifest is removed,
 * which is the first thing that happens to one that is replaced or pruned. The newest is the one
 * that was made last: a job that went back makes new ones at steps below those of older ones. */
#ifndef GRADUS_CHECKPOINT_CHECKPOINT_DIR_H
#define GRADUS_CHECKPOINT_CHECKPOINT_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* "<dir>/step-000000500"; returns owned. */
char *checkpoint_step_path(const char *dir, uint64_t step);

/* Make an empty directory for a checkpoint of @step, in place of one that may be there. @path (may
 * be NULL) returns owned. Errors: those of files. */
int checkpoint_begin(const char *dir, uint64_t step, char **path, struct err *err);

/* Removes what there is of a checkpoint of @step; nothing there is no error. Errors: those of
 * files. */
int checkpoint_discard(const char *dir, uint64_t step, struct err *err);

/* Finds the newest complete checkpoint (manifest sound, files there with their sizes, its base
 * complete when it is a delta) that @avoid does not name; @path returns owned. For each newer one
 * that is passed over, a line is added to @skipped (may be NULL), also when none is found.
 * Checkpoints of another owner than the directory's are passed over. Errors: ERR_NOT_FOUND none, or
 * no such directory; others when files cannot be read at the moment, so that nobody can say which
 * is the newest. */
int checkpoint_find(const char *dir, const char *const *avoid, size_t avoid_count, char **path,
                    struct buf *skipped, struct err *err);
/* checkpoint_find() with nothing to avoid. */
int checkpoint_latest(const char *dir, char **path, struct buf *skipped, struct err *err);

/* checkpoint_latest(), but reads all of the files, and passes over a checkpoint whose content is
 * not what its checksums say. Errors: ERR_NOT_FOUND no complete one; ERR_CORRUPT all are damaged,
 * with what is wrong with the newest; those of files. */
int checkpoint_find_whole(const char *dir, char **path, struct err *err);

/* Finds the result behind @path: @path itself when it is a checkpoint; else that of the job whose
 * checkpoints are beneath it, which is the newest, or the best version if the job ended with it.
 * @out returns owned. @skipped: as checkpoint_find(). */
int checkpoint_resolve(const char *path, char **out, struct buf *skipped, struct err *err);
/* Finds the best version that checkpoint @dir keeps: itself, or one beside it; @path returns owned.
 * Errors: ERR_NOT_FOUND it keeps none, or that is gone; those of manifest_read(). */
int checkpoint_best(const char *dir, char **path, struct err *err);

/* The complete checkpoints of @dir that lead to the newest one, oldest first: of a job that went
 * back, without those that it left behind. @paths [*@count] and each path return owned. Errors: as
 * checkpoint_find(). */
int checkpoint_history(const char *dir, char ***paths, size_t *count, struct err *err);

/* Removes all checkpoints but the newest @keep complete ones (0: nothing is removed), those whose
 * names are in @named, and bases of these; also what is incomplete and of an earlier step than the
 * newest complete one. A missing directory is no error. */
int checkpoint_prune(const char *dir, size_t keep, const char *const *named, size_t named_count,
                     struct err *err);

#endif
