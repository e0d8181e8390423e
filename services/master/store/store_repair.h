/* SPDX-License-Identifier: Apache-2.0 */
/* What to do with a database of jobs of which some pages are damaged: keep it, and go on with what
 * can still be read. */
#ifndef GRADUS_MASTER_STORE_STORE_REPAIR_H
#define GRADUS_MASTER_STORE_STORE_REPAIR_H

#include <stdbool.h>

#include "base/err.h"

struct sqlite3;

/* Reads all pages: better at the start than when somebody needs a row. */
bool store_is_damaged(struct sqlite3 *db);

/* Puts a new database with all rows that can be read in the place of @path, which nobody has open.
 * The damaged one stays beside it as "<path>.damaged-<date>". A job that cannot be read, but whose
 * id is known from an index, gets an empty row that keeps its id taken; any other is named by the
 * number of its row in the log. Errors: ERR_CORRUPT no job can be read: nothing is changed;
 * ERR_EXHAUSTED; those of files. */
int store_repair(const char *path, struct err *err);

#endif
