/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a master's database, and what brings one of an older version up to date. */
#ifndef GRADUS_MASTER_STORE_STORE_SCHEMA_H
#define GRADUS_MASTER_STORE_STORE_SCHEMA_H

#include "master/store/store.h"

#define APPLICATION_ID 0x47524144 /* "GRAD": tells our files from those of others */
#define SCHEMA_VERSION 3

static const char SCHEMA[] =
    "CREATE TABLE job ("
    " id TEXT PRIMARY KEY, name TEXT NOT NULL, number INTEGER NOT NULL, request_id TEXT UNIQUE,"
    " state INTEGER NOT NULL, submitted_ms INTEGER NOT NULL, job BLOB NOT NULL);"
    "CREATE INDEX job_by_name ON job(name, number);"
    "PRAGMA application_id = 1196572996;" /* APPLICATION_ID */
    "PRAGMA user_version = 1;";

/* Version 2: rows have a checksum (those that were there have none), and there are texts. */
static const char UPGRADE_1[] = "ALTER TABLE job ADD COLUMN checksum INTEGER;"
                                "CREATE TABLE text (key TEXT PRIMARY KEY, value TEXT NOT NULL);"
                                "PRAGMA user_version = 2;";

/* Version 3: rows of jobs that have ended say when (those that were there do not). */
static const char UPGRADE_2[] = "ALTER TABLE job ADD COLUMN ended_ms INTEGER;"
                                "PRAGMA user_version = 3;";

#endif
