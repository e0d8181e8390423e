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

struct warm_rows {
    const struct job_spec *spec;
    struct checkpoint *checkpoint;
    struct job_spec saved; /* the job file of the checkpoint */
    struct saved_tables past;
    const struct plan *plan;
    uint32_t shard;
    struct table *const *tables;
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
    const int rc = checkpoint_take_rows(r->checkpoint, from, r->tables[table], r->shard,
                                        r->plan->shard_count, err);
    return rc == 0 ? 0
                   : err_wrap(err, "rows of table %s for table %s", from,
                              r->spec->model.tables[table].name);
}

/* As a worker has matched it all, which told the variables of the plan. */
static int take_all(const struct warm_rows *r, struct err *err)
{
    size_t count = 0;
    struct warm_tensor *tensors =
        warm_checkpoint_tensors(checkpoint_manifest(r->checkpoint), &count);
    const size_t variables = r->plan->variable_count, tables = r->spec->model.table_count;
    struct variable_spec *all = warm_wanted_new(r->plan->variables, variables, &r->spec->model);
    const struct warm_wanted wanted = {all, variables + tables, tables};
    struct warm_match match = {0};
    int rc = warm_match(tensors, count, &wanted, &r->spec->from, &match, err);
    for (size_t i = 0; i < tables && rc == 0; i++) {
        const size_t found = match.tensors[variables + i];
        rc = found == WARM_NONE ? 0 : take(r, tensors[found].name, i, err);
    }
    warm_match_release(&match);
    free(all);
    free(tensors);
    return rc;
}

int warm_rows_restore(const struct job_spec *spec, const struct plan *plan, uint32_t shard,
                      const char *path, uint64_t manifest, const struct data_roots *roots,
                      struct table *const *tables, struct err *err)
{
    struct err local = {0};
    struct warm_rows r = {.spec = spec, .plan = plan, .shard = shard, .tables = tables};
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
