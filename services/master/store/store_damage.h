/* SPDX-License-Identifier: Apache-2.0 */
/* A database of jobs of which some page cannot be read. It is left to its operator, who has
 * the program sqlite3 or a copy; the jobs' checkpoints are elsewhere. */
#ifndef GRADUS_MASTER_STORE_STORE_DAMAGE_H
#define GRADUS_MASTER_STORE_STORE_DAMAGE_H

#include <stdbool.h>

#include "base/err.h"

struct sqlite3;

/* Reads all pages: better at the start than when somebody needs a row. */
bool store_is_damaged(struct sqlite3 *db);

/* Says what can be done about @state_dir/master.db. Returns ERR_CORRUPT. */
int store_damage_error(const char *state_dir, struct err *err);

#endif
