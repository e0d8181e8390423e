/* SPDX-License-Identifier: Apache-2.0 */
/* Points of jobs' curves in the database of a master. All return what SQLite says, SQLITE_OK;
 * otherwise a transaction may still be open, so that its error can be read. */
#ifndef GRADUS_MASTER_STORE_STORE_POINTS_H
#define GRADUS_MASTER_STORE_STORE_POINTS_H

#include <sqlite3.h>

#include "master/store/store.h"

int store_points_count(sqlite3 *db, size_t *count);
/* As add_points() of store.h. @total: of all jobs, before and then after it. SQLITE_FULL: jobs
 * that have not ended have STORE_POINTS_MAX already. */
int store_points_add(sqlite3 *db, const struct store_point *points, size_t count, size_t *total);
int store_points_each(sqlite3 *db, const char *job,
                      void (*each)(void *ctx, const struct store_point *point), void *ctx);
int store_points_thin(sqlite3 *db, const char *job, const uint64_t *steps, size_t count,
                      size_t *total);

#endif
