/* SPDX-License-Identifier: Apache-2.0 */
/* All rows of a table of one shard, in the order of table_walk_order(): those of its file, and when
 * that is a delta those of its base that are neither in the file nor among the keys that went.
 *
 * Only common/checkpoint includes this. */
#ifndef GRADUS_CHECKPOINT_TABLE_UNION_H
#define GRADUS_CHECKPOINT_TABLE_UNION_H

#include "checkpoint/shard_file.h"

struct table_union;

/* The rows of table @table of @file and, when that is a delta, of @base; else @base is NULL. Both
 * files were checked, and have the same tables; borrowed, as @slots are. */
struct table_union *table_union_new(const struct shard_file *file, const struct shard_file *base,
                                    size_t table, const struct table_file_slots *slots);
void table_union_free(struct table_union *u); /* NULL is fine */
/* The next rows, in memory of the union; none at the end. Errors: those of table_reader_next();
 * ERR_CORRUPT there are not as many as the file says. */
int table_union_next(struct table_union *u, struct table_chunk *out, struct err *err);
uint64_t table_union_bytes(const struct table_union *u); /* read for these, about */

#endif
