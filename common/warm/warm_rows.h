/* SPDX-License-Identifier: Apache-2.0 */
/* The other half of a warm start: rows of tables, which each server reads out of the checkpoint
 * that a worker has found for the job (warm_start_rows()). */
#ifndef GRADUS_WARM_WARM_ROWS_H
#define GRADUS_WARM_WARM_ROWS_H

#include "checkpoint/checkpoint.h"
#include "data/data_roots.h"
#include "job/plan/plan.h"
#include "job/spec/job_spec.h"
#include "rule/update/update.h"
#include "table/table.h"

struct warm_shard {
    const struct job_spec *spec;
    const struct plan *plan;
    uint32_t number;
    struct table *const *tables; /* [spec->model.table_count] */
    const struct update *update;
    float *const *slots; /* of the update; filled with from.slots */
};
/* Puts into the tables, which are new, the rows of the tables of checkpoint @path that they begin
 * with, and with from.slots into @slots those of the variables. A row has its values as they read
 * there, and the sightings of its key; without from.slots its slots are those of a new row.
 * @manifest: the checksum that the checkpoint's manifest must have. Errors: ERR_STATE another
 * checkpoint; ERR_PERMISSION outside of @roots; ERR_INVALID a value that is not finite, rows that
 * do not fit in the memory of their table; those of files. They name the checkpoint. */
int warm_rows_restore(const struct warm_shard *shard, const char *path, uint64_t manifest,
                      const struct data_roots *roots, struct err *err);

#endif
