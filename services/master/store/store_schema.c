/* SPDX-License-Identifier: Apache-2.0 */
#include "master/store/store_schema.h"

#include <stddef.h>

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

/* Version 4: points of jobs' curves. A file that was repaired by hand may say 4 and lack them. */
static const char POINTS[] =
    "CREATE TABLE IF NOT EXISTS point (job TEXT NOT NULL, step INTEGER NOT NULL,"
    " time_ms INTEGER NOT NULL, point BLOB NOT NULL, PRIMARY KEY(job, step)) WITHOUT ROWID;";
static const char UPGRADE_3[] = "PRAGMA user_version = 4;";

static int pragma(sqlite3 *db, const char *sql, int *value)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(st) : rc;
    if (rc == SQLITE_ROW) {
        *value = sqlite3_column_int(st, 0);
        rc = SQLITE_OK;
    }
    (void)sqlite3_finalize(st);
    return rc;
}

static int transaction(sqlite3 *db, const char *sql)
{
    int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, sql, NULL, NULL, NULL);
    return rc != SQLITE_OK ? rc : sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
}

int store_schema_read(sqlite3 *db, int *application, int *version)
{
    int rc = pragma(db, "PRAGMA application_id", application);
    return rc != SQLITE_OK ? rc : pragma(db, "PRAGMA user_version", version);
}

int store_schema_update(sqlite3 *db, int *application, int *version)
{
    static const char *const upgrades[SCHEMA_VERSION] = {SCHEMA, UPGRADE_1, UPGRADE_2, UPGRADE_3};
    int tables = 0;
    int rc = store_schema_read(db, application, version);
    rc = rc != SQLITE_OK ? rc : pragma(db, "SELECT count(*) FROM sqlite_schema", &tables);
    if (rc == SQLITE_OK && *application == 0 && tables == 0) {
        *application = APPLICATION_ID;
        *version = 0;
    } else if (*version < 1) {
        return rc;
    }
    while (rc == SQLITE_OK && *application == APPLICATION_ID && *version < SCHEMA_VERSION) {
        rc = transaction(db, upgrades[*version]);
        *version += 1;
    }
    return rc == SQLITE_OK && *application == APPLICATION_ID && *version == SCHEMA_VERSION
               ? sqlite3_exec(db, POINTS, NULL, NULL, NULL)
               : rc;
}
