/* SPDX-License-Identifier: Apache-2.0 */
/* The last file of a checkpoint, written on the pool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "master/shell/shell.h"
#include "os/chrono.h"
#include "os/file.h"
#include "storage/storage.h"

struct task {
    struct shell *shell;
    uint64_t number;
    struct job_record job;
    char *dir; /* absolute */
    struct manifest manifest;
    struct err err;
};

static void task_free(struct task *t)
{
    manifest_release(&t->manifest);
    job_record_release(&t->job);
    free(t->dir);
    free(t);
}

static void deliver(void *ctx)
{
    struct task *t = ctx;
    if (!loop_discarding(t->shell->loop)) {
        struct master_event e = {.kind = MASTER_MANIFEST_DONE};
        e.manifest = (struct master_files_done){
            .number = t->number, .err = t->err.code == 0 ? NULL : &t->err, .path = t->dir};
        shell_event(t->shell, &e);
    }
    task_free(t);
}

/* Writes a manifest, on the pool. Without a shared directory the shards' files are elsewhere, and
 * the manifest would name files that nobody finds: so they are looked for first. */
static void write_manifest(void *ctx)
{
    struct task *t = ctx;
    const struct checkpoints_job job = {t->job.id, t->job.checkpoint, t->job.submitted_ms, NULL};
    if (checkpoints_check(&t->shell->checkpoints, &job, false, &t->err) == 0) {
        enum storage_thing thing = STORAGE_NOTHING;
        int rc = storage_look(t->dir, &thing, &t->err);
        if (rc == 0 && thing == STORAGE_NOTHING) {
            err_set(&t->err, ERR_NOT_FOUND,
                    "%s is missing: master and parameter servers must share the checkpoint "
                    "directory",
                    t->dir);
        } else if (rc == 0 && manifest_check_files(t->dir, &t->manifest, false, &t->err) == 0 &&
                   manifest_take_tables(t->dir, &t->manifest, &t->err) == 0) {
            (void)manifest_write(t->dir, &t->manifest, &t->err);
        }
    }
    if (loop_post(t->shell->loop, deliver, t, NULL) < 0) {
        task_free(t); /* the loop has ended, and with it all that wait */
    }
}

void shell_manifest(struct shell *s, const struct master_manifest *in)
{
    struct task *t = mem_new(1, sizeof *t);
    t->shell = s;
    t->number = in->number;
    t->dir = file_join(s->checkpoints.root, in->directory);
    job_record_copy(&t->job, in->job);
    struct manifest *m = &t->manifest;
    manifest_init(m, in->job->id, in->spec->text, (enum training_mode)in->spec->training.mode,
                  &in->spec->update, in->plan);
    free(m->owner);
    m->owner = mem_strdup(s->checkpoints.owner);
    m->generation = in->generation;
    m->step = in->step;
    m->epoch = in->ledger->epoch;
    m->records = in->examples;
    m->created_ms = chrono_wall_ms();
    m->encoding = mem_strdup(in->encoding);
    m->model_file = in->model_file;
    m->best = in->best;
    m->result_is_best = in->result_is_best;
    ledger_copy(&m->ledger, in->ledger);
    const char *base = in->base == NULL ? NULL : strrchr(in->base, '/');
    if (base != NULL) {
        (void)snprintf(m->base.directory, sizeof m->base.directory, "%s", base + 1);
    }
    if (in->train_sum_count > 0) {
        m->train_epoch = in->train_epoch;
        m->train_sum_count = in->train_sum_count;
        m->train_sums = mem_new(in->train_sum_count, sizeof *m->train_sums);
        memcpy(m->train_sums, in->train_sums, in->train_sum_count * sizeof *m->train_sums);
    }
    for (size_t i = 0; i < in->job->history.era_count; i++) {
        manifest_add_era(m, in->job->history.eras[i].version, in->job->history.eras[i].update);
    }
    for (size_t i = 0; i < in->spec->model.table_count; i++) {
        const struct model_table *table = &in->spec->model.tables[i];
        manifest_add_table(m, table->name, (uint64_t)table->dim, table->admission);
    }
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
    if ((t->err.code != 0 || pool_post(s->files, write_manifest, t, &t->err) < 0) &&
        loop_post(s->loop, deliver, t, NULL) < 0) {
        task_free(t);
    }
}
