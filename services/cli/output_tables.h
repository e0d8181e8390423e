/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the tables of a job as text. */
#ifndef GRADUS_CLI_OUTPUT_TABLES_H
#define GRADUS_CLI_OUTPUT_TABLES_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* A line for each table; of one that was asked for (r->table) all that is known of it, with its
 * shards and hottest keys. Servers that are missing are not named. */
void output_tables_text(const Gradus__V1__TablesResponse *r, struct buf *out);

#endif
