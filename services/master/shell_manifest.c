/* SPDX-License-Identifier: Apache-2.0 */
/* The last file of a checkpoint, written on the pool; then older checkpoints are removed. */
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "master/shell.h"

struct task {
    struct shell *shell;
    uint64_t number;
    size_t keep;
    char *job_dir, *dir; /* absolute */
    struct manifest manifest;
    struct err err;
};

static void task_free(struct task *t)
{
    manifest_release(&t->manifest);
    free(t->job_dir);
    free(t->dir);
    free(t);
}

static void deliver(void *ctx)
{
    struct task *t = ctx;
    if (!loop_discarding(t->shell->loop)) {
        struct master_event e = {.kind = MASTER_MANIFEST_DONE};
        e.manifest = (struct master_manifest_done){
            .number = t->number, .err = t->err.code == 0 ? NULL : &t->err, .path = t->dir};
        shell_event(t->shell, &e);
    }
    task_free(t);
}

/* On the pool. Without a shared directory the shards' files are elsewhere; then this manifest would
 * name files that nobody finds, so they are looked for first. */
static void write_manifest(void *ctx)
{
    struct task *t = ctx;
    if (!file_exists(t->dir)) {
        err_set(&t->err, ERR_NOT_FOUND,
                "%s is missing: master and parameter servers must share the checkpoint directory",
                t->dir);
    } else if (manifest_check_files(t->dir, &t->manifest, false, &t->err) == 0 &&
               manifest_write(t->dir, &t->manifest, &t->err) == 0) {
        struct err err = {0};
        if (checkpoint_prune(t->job_dir, t->keep, &err) < 0) {
            char quoted[1200];
            log_warn("checkpoint_prune_failed", "reason=%s",
                     log_quote(err.msg, quoted, sizeof quoted));
        }
    }
    if (loop_post(t->shell->loop, deliver, t, NULL) < 0) {
        task_free(t); /* the loop has ended, and with it whoever waits */
    }
}

void shell_manifest(struct shell *s, const struct master_manifest *in)
{
    struct task *t = mem_new(1, sizeof *t);
    t->shell = s;
    t->number = in->number;
    t->keep = in->keep;
    t->dir = file_join(s->checkpoint_dir, in->directory);
    t->job_dir = file_join(s->checkpoint_dir, in->job->id);
    struct manifest *m = &t->manifest;
    manifest_init(m, in->job->id, in->spec->text, (enum training_mode)in->spec->training.mode,
                  &in->spec->update, in->plan);
    m->generation = in->generation;
    m->step = in->step;
    m->epoch = in->ledger->epoch;
    m->records = in->examples;
    m->created_ms = chrono_wall_ms();
    ledger_copy(&m->ledger, in->ledger);
    for (uint32_t i = 0; i < m->shard_count; i++) {
        uint64_t generation;
        if (!shard_file_name_parse(in->shards[i].file, i, m->shard_count, &generation)) {
            err_set(&t->err, ERR_CORRUPT, "shard %u says that its file is %.80s", i,
                    in->shards[i].file);
        }
        m->shards[i] = (struct manifest_shard){.generation = generation,
                                               .version = in->shards[i].version,
                                               .bytes = in->shards[i].bytes,
                                               .checksum = in->shards[i].checksum};
    }
    if ((t->err.code != 0 || pool_post(s->pool, write_manifest, t, &t->err) < 0) &&
        loop_post(s->loop, deliver, t, NULL) < 0) {
        task_free(t);
    }
}
