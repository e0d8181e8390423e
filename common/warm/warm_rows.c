/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the checkpoint, finds the table for each table of the job, and puts its rows there. */
#include "warm/warm_rows.h"

#include <stdlib.h>

#include "base/mem.h"
#include "data/raw_file.h"
#include "saved/saved_job.h"
#include "saved/saved_tables.h"
#include "warm/warm_kinds.h"
#include "warm/warm_match.h"
#include "warm/warm_slots.h"

struct warm_rows {
    const struct warm_shard *shard;
    struct checkpoint *checkpoint;
    struct job_spec saved; /* the job file of the checkpoint */
    struct saved_tables past;
};

/* Rows that catch up are read as they were at the end of that training. */
static int open_checkpoint(struct warm_rows *r, const char *path, uint64_t manifest,
                           struct err *err)
{
    int rc = checkpoint_open(path, CHECKPOINT_PIECES, &r->checkpoint, err);
    if (rc != 0) {
        return rc;
    }
    if (checkpoint_manifest(r->checkpoint)->checksum != manifest) {
        return err_set(err, ERR_STATE,
                       "not the checkpoint that a worker found when the job began: it has changed, "
                       "or this server sees another one");
    }
    struct saved_about about;
    saved_about_checkpoint(r->checkpoint, &about);
    rc = saved_job_read(&about, path, NULL, 0, &r->saved, err);
    return rc != 0 ? rc : saved_tables_open(&r->past, r->checkpoint, &r->saved, err);
}

static int take(const struct warm_rows *r, const char *from, size_t table, struct err *err)
{
    const struct warm_shard *s = r->shard;
    const int rc = checkpoint_take_rows(r->checkpoint, from, s->spec->from.slots, s->tables[table],
                                        s->number, s->plan->shard_count, err);
    return rc == 0 ? 0
                   : err_wrap(err, "rows of table %s for table %s", from,
                              s->spec->model.tables[table].name);
}

/* As a worker has matched it all, which told the variables of the plan. */
static int take_all(const struct warm_rows *r, struct err *err)
{
    const struct warm_shard *s = r->shard;
    size_t count = 0;
    struct warm_tensor *tensors =
        warm_checkpoint_tensors(checkpoint_manifest(r->checkpoint), &count);
    const size_t variables = s->plan->variable_count, tables = s->spec->model.table_count;
    struct variable_spec *all = warm_wanted_new(s->plan->variables, variables, &s->spec->model);
    const struct warm_wanted wanted = {all, variables + tables, tables};
    const char **names = mem_new(variables + 1, sizeof *names);
    struct warm_match match = {0};
    int rc = warm_match(tensors, count, &wanted, &s->spec->from, &match, err);
    if (rc == 0 && s->spec->from.slots) {
        rc = warm_slots_check(checkpoint_manifest(r->checkpoint), &s->spec->update, &wanted, &match,
                              err);
        for (size_t i = 0; i < variables && rc == 0; i++) {
            names[i] = tensors[match.tensors[i]].name;
        }
        rc = rc != 0 ? rc
                     : checkpoint_read_slots(r->checkpoint, s->plan, s->number, names, s->update,
                                             s->slots, err);
    }
    for (size_t i = 0; i < tables && rc == 0; i++) {
        const size_t found = match.tensors[variables + i];
        rc = found == WARM_NONE ? 0 : take(r, tensors[found].name, i, err);
    }
    warm_match_release(&match);
    free(names);
    free(all);
    free(tensors);
    return rc;
}

int warm_rows_restore(const struct warm_shard *shard, const char *path, uint64_t manifest,
                      const struct data_roots *roots, struct err *err)
{
    struct err local = {0};
    struct warm_rows r = {.shard = shard};
    char *found = warm_source_locate(path, roots, &local);
    int rc = found == NULL ? local.code : open_checkpoint(&r, found, manifest, &local);
    rc = rc != 0 ? rc : take_all(&r, &local);
    saved_tables_release(&r.past);
    job_spec_release(&r.saved);
    checkpoint_close(r.checkpoint);
    free(found);
    if (rc == 0) {
        return 0;
    }
    /* A full table stays full, and the memory of this server is not the reason. */
    rc = rc == ERR_EXHAUSTED ? ERR_INVALID : rc == ERR_STATE ? ERR_STATE : raw_file_error(rc);
    return err_set(err, rc, "from.checkpoint %.300s: %s", path, local.msg);
}
