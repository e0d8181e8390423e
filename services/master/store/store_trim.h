/* SPDX-License-Identifier: Apache-2.0 */
/* Removes rows of jobs that have ended from the database of a master. */
#ifndef GRADUS_MASTER_STORE_STORE_TRIM_H
#define GRADUS_MASTER_STORE_STORE_TRIM_H

#include <sqlite3.h>

#include "master/store/store.h"

/* All or none, in a transaction of its own. Returns what SQLite says, SQLITE_OK; otherwise the
 * transaction is still open, so that its error can be read. */
int store_trim_rows(sqlite3 *db, const struct store_trim *trim, size_t *removed);

/* The row of @id, of a job that has ended, in the same way. @removed: 0, there is none, or 1. */
int store_remove_row(sqlite3 *db, const char *id, size_t *removed);

#endif
