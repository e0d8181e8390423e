/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that holds a job's checkpoints:
 *
 *     <dir>/step-000000500/shard-0-of-2.safetensors, shard-1-of-2.safetensors, manifest.json
 *
 * A checkpoint exists from the moment its manifest has its name until the manifest is removed,
 * which is the first thing that happens to one that is replaced or pruned. */
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

/* The newest complete checkpoint (manifest sound, files there with their sizes); @path returns
 * owned. One line on each newer one that is incomplete is added to @skipped (may be NULL). Errors:
 * ERR_NOT_FOUND none, or no such directory. */
int checkpoint_latest(const char *dir, char **path, struct buf *skipped, struct err *err);

/* @path itself when it is a checkpoint, else the newest beneath it; @out returns owned. */
int checkpoint_resolve(const char *path, char **out, struct err *err);

/* Remove all but the newest @keep complete checkpoints (0: none is removed), and what is incomplete
 * and older than the newest complete one. A missing directory is fine. */
int checkpoint_prune(const char *dir, size_t keep, struct err *err);

#endif
