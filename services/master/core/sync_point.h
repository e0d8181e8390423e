/* SPDX-License-Identifier: Apache-2.0 */
/* A version at which all shards of a job are evaluated, or written. */
#ifndef GRADUS_MASTER_CORE_SYNC_POINT_H
#define GRADUS_MASTER_CORE_SYNC_POINT_H

#include "master/core/job.h"

struct adoption;

/* sync_point.c */
void sync_point_advance(struct master *m, struct job *j);
/* ends the work of the sync point, whatever it is; the job gives up its shards */
void sync_point_stop(struct job *j);
void sync_point_begin(struct master *m, struct job *j, bool quiesced);
/* Goes on with the version that an earlier master pinned for @found. */
void sync_point_adopt(struct master *m, struct job *j, const struct adoption *found);
void sync_point_prune(struct master *m, struct job *j);
void sync_point_waiters(struct master *m, struct job *j, bool all, int code, const char *message);
void sync_point_release(struct job *j);

/* sync_point_base.c */
void base_choose(struct job *j); /* finds out whether the checkpoint begins deltas */
/* directory of the base, when a file is a delta; else NULL */
const char *base_used(const struct job *j);
/* the checkpoint is complete: deltas may be of it, or it was one */
void base_written(struct job *j);
void base_forget(struct job *j); /* the next one has everything */

/* sync_point_done.c */
void sync_point_shard_done(struct job *j, uint32_t shard, const struct master_call_done *done,
                           enum master_call_kind kind);
void sync_point_checkpoint_failed(struct master *m, struct job *j, const char *why);
void sync_point_evaluation_failed(struct master *m, struct job *j, const char *why);
/* The job is cancelled while its last evaluation waits to be tried again: its checkpoint is next.
 */
void sync_point_skip_evaluation(struct job *j);
void sync_point_pin_failed(struct master *m, struct job *j, const char *why);
void sync_points_tick(struct master *m);
void on_prepare_done(struct master *m, const struct master_files_done *done);
void on_manifest_done(struct master *m, const struct master_files_done *done);

#endif
