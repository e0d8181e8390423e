/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of servers and of the shell about a sync point: they are recorded, and sync_point.c goes
 * on with them. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "master/core/core.h"

static void keep_file(struct shard_state *s, const struct master_call_done *done)
{
    job_record_set(&s->file, done->file == NULL ? "" : done->file);
    s->bytes = done->bytes;
    s->checksum = done->checksum;
    s->file_version = done->version;
    s->delta = done->delta;
}

/* Async, bounded: where an earlier master pinned is for the shards to say. Only a cut, which it had
 * where all stood, can be a checkpoint. */
static void take_cut(struct sync_point *s, const struct ledger *ledger)
{
    if (s->ledger.done == NULL) {
        ledger_copy(&s->ledger, ledger);
    } else if (!ledger_equal(ledger, &s->ledger)) {
        s->checkpoint = false;
    }
}

/* Checks that shard @i has pinned the cut that the master expects. */
static void check_cut(struct job *j, uint32_t i, const struct master_call_done *done)
{
    struct sync_point *s = &j->sync_point;
    bool same = true;
    if (s->adopted && !job_is_sync(j) && done->ledger != NULL) {
        take_cut(s, done->ledger);
    } else if (job_is_sync(j) && !s->known) {
        same = done->version == s->version;
    } else if (s->quiesced && done->ledger != NULL) {
        same = ledger_equal(done->ledger, &s->ledger);
    }
    if (!same) {
        job_must_end(j, JOB_FAILED,
                     "parameter server %s pinned version %" PRIu64 ", which is not where all stand",
                     j->shards[i].node->id, done->version);
    }
}

void sync_point_shard_done(struct job *j, uint32_t shard, const struct master_call_done *done,
                           enum master_call_kind kind)
{
    if (kind == MASTER_CALL_PIN) {
        check_cut(j, shard, done);
        if (done->version >= j->shards[shard].version &&
            (done->ledger != NULL || !j->shards[shard].has_ledger)) {
            /* otherwise the shard has said more since: that it is further, or its ledger, which a
             * version that was pinned in sync mode lacks */
            train_shard_said(j, shard, done);
        }
    } else if (kind == MASTER_CALL_CHECKPOINT) {
        keep_file(&j->shards[shard], done);
    }
}

void on_prepare_done(struct master *m, const struct master_files_done *done)
{
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        bool prepares = j->work == WORK_PREPARE || j->work == WORK_DISCARD;
        if (!prepares || j->retry_ms != 0 || j->manifest_number != done->number) {
            continue;
        }
        j->sync_point.answered = true;
        job_touch(j);
        if (done->err != NULL && j->work == WORK_PREPARE) {
            sync_point_checkpoint_failed(m, j, done->err->msg);
        }
    }
}

void on_manifest_done(struct master *m, const struct master_files_done *done)
{
    /* A job that was cancelled meanwhile is not among them; the checkpoint is there all the same.
     */
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        if (j->work != WORK_MANIFEST || j->manifest_number != done->number) {
            continue;
        }
        j->sync_point.answered = true;
        job_touch(j);
        if (done->err != NULL) {
            if (done->err->code == ERR_NOT_FOUND || done->err->code == ERR_CORRUPT) {
                base_forget(j); /* perhaps the base is the reason */
            }
            sync_point_checkpoint_failed(m, j, done->err->msg);
        } else {
            job_record_set(&j->record.checkpoint, done->path);
        }
    }
}

void sync_points_tick(struct master *m)
{
    for (size_t i = 0; i < m->live_count; i++) {
        if (m->live[i]->retry_ms != 0 && m->live[i]->retry_ms <= m->now_ms) {
            job_touch(m->live[i]);
        }
    }
}
