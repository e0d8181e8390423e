/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a master's database, and what brings one of an older version up to date. */
#ifndef GRADUS_MASTER_STORE_STORE_SCHEMA_H
#define GRADUS_MASTER_STORE_STORE_SCHEMA_H

#include <sqlite3.h>

#define APPLICATION_ID 0x47524144 /* "GRAD": tells our files from those of others */
#define SCHEMA_VERSION 4

/* What the file says of itself. Returns what SQLite says, SQLITE_OK. */
int store_schema_read(sqlite3 *db, int *application, int *version);
/* Likewise, after a new file has got the tables, and one of an older version what is new. */
int store_schema_update(sqlite3 *db, int *application, int *version);

#endif
