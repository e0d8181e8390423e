/* SPDX-License-Identifier: Apache-2.0 */
/* From the tables of a job file to the settings of common/table. */
#ifndef GRADUS_JOB_PLAN_PLAN_TABLES_H
#define GRADUS_JOB_PLAN_PLAN_TABLES_H

#include "job/spec/job_spec.h"
#include "table/table.h"

/* The config of table @table of @spec on shard @shard of @shards, which has its part of the table's
 * memory. @past: what it catches up with, if it does; borrowed, as all texts of @spec. */
void plan_table_config(const struct job_spec *spec, size_t table, const struct rule_past *past,
                       uint32_t shard, uint32_t shards, struct table_config *out);

#endif
