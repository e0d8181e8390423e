/* SPDX-License-Identifier: Apache-2.0 */
/* Removes rows of ended jobs: first they are chosen, into a table in memory; then the texts that
 * belong to them are removed, then the rows. Only numbers in front of the jobs and behind them are
 * read, a few thousand rows at most, and seldom. */
#include "master/store/store_trim.h"

#include "master/core/job_record.h"

/* ?1, ?2: the first and the last state that is an end. */
static const char BEGIN[] = "BEGIN IMMEDIATE;"
                            "CREATE TEMP TABLE IF NOT EXISTS gone(place INTEGER PRIMARY KEY);"
                            "DELETE FROM gone;";
static const char DATE_OLD_ROWS[] =
    "UPDATE job SET ended_ms = ?3 WHERE ended_ms IS NULL AND state BETWEEN ?1 AND ?2";
/* ?3 listed, ?4 rows_max, ?5 old_ms, ?6 settled_ms, ?7 the most of one call. */
static const char CHOOSE[] =
    "INSERT INTO gone SELECT place FROM"
    " (SELECT rowid AS place, ended_ms, row_number() OVER (ORDER BY ended_ms DESC, rowid DESC)"
    "  AS nth FROM job WHERE state BETWEEN ?1 AND ?2)"
    " WHERE (nth > ?4 OR ended_ms < ?5) AND ended_ms < ?6"
    " AND place NOT IN (SELECT rowid FROM job WHERE state BETWEEN ?1 AND ?2"
    "  ORDER BY rowid DESC LIMIT ?3)"
    " ORDER BY ended_ms, place LIMIT ?7";
static const char KEEP_NUMBERS[] =
    "INSERT INTO text(key, value) SELECT '" STORE_NUMBER_OF "' || name, max(number) FROM job"
    " WHERE rowid IN (SELECT place FROM gone) GROUP BY name"
    " ON CONFLICT(key) DO UPDATE SET"
    " value = max(cast(value AS INTEGER), cast(excluded.value AS INTEGER))";
static const char FORGET_TEXTS[] =
    "DELETE FROM text WHERE key IN"
    " (SELECT '" STORE_OWNER_OF "' || id FROM job WHERE rowid IN (SELECT place FROM gone)"
    " UNION ALL"
    " SELECT '" STORE_BAD_RECORDS_OF "' || id FROM job WHERE rowid IN (SELECT place FROM gone)"
    " UNION ALL"
    " SELECT '" STORE_TENSORBOARD_OF "' || id FROM job WHERE rowid IN (SELECT place FROM gone))";
static const char FORGET_CURVES[] = "DELETE FROM point WHERE job IN"
                                    " (SELECT id FROM job WHERE rowid IN (SELECT place FROM gone))";
static const char REMOVE[] = "DELETE FROM job WHERE rowid IN (SELECT place FROM gone)";

/* ?1, ?2 as above, ?3 the id. */
static const char CHOOSE_ONE[] =
    "INSERT INTO gone SELECT rowid FROM job WHERE state BETWEEN ?1 AND ?2 AND id = ?3";

/* Runs @sql with @count numbers, and @text behind them (NULL: none), in the place of its
 * parameters. */
static int run(sqlite3 *db, const char *sql, const sqlite3_int64 *numbers, int count,
               const char *text)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    for (int i = 0; rc == SQLITE_OK && i < count; i++) {
        rc = sqlite3_bind_int64(st, i + 1, numbers[i]);
    }
    if (rc == SQLITE_OK && text != NULL) {
        rc = sqlite3_bind_text(st, count + 1, text, -1, SQLITE_STATIC);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st);
        rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    }
    (void)sqlite3_finalize(st);
    return rc;
}

/* What was chosen goes, and the transaction ends. */
static int remove_chosen(sqlite3 *db, size_t *removed)
{
    int rc = run(db, KEEP_NUMBERS, NULL, 0, NULL);
    rc = rc != SQLITE_OK ? rc : run(db, FORGET_TEXTS, NULL, 0, NULL);
    rc = rc != SQLITE_OK ? rc : run(db, FORGET_CURVES, NULL, 0, NULL);
    rc = rc != SQLITE_OK ? rc : run(db, REMOVE, NULL, 0, NULL);
    size_t count = rc == SQLITE_OK ? (size_t)sqlite3_changes(db) : 0;
    rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    *removed = rc == SQLITE_OK ? count : 0;
    return rc;
}

int store_trim_rows(sqlite3 *db, const struct store_trim *trim, size_t *removed)
{
    const sqlite3_int64 ended[] = {JOB_SUCCEEDED, JOB_CANCELLED, trim->now_ms};
    const sqlite3_int64 choice[] = {JOB_SUCCEEDED,
                                    JOB_CANCELLED,
                                    (sqlite3_int64)trim->listed,
                                    (sqlite3_int64)trim->rows_max,
                                    trim->old_ms,
                                    trim->settled_ms,
                                    STORE_TRIM_MAX};
    *removed = 0;
    int rc = sqlite3_exec(db, BEGIN, NULL, NULL, NULL);
    rc = rc != SQLITE_OK ? rc : run(db, DATE_OLD_ROWS, ended, 3, NULL);
    rc = rc != SQLITE_OK ? rc : run(db, CHOOSE, choice, 7, NULL);
    return rc != SQLITE_OK ? rc : remove_chosen(db, removed);
}

int store_remove_row(sqlite3 *db, const char *id, size_t *removed)
{
    const sqlite3_int64 states[] = {JOB_SUCCEEDED, JOB_CANCELLED};
    *removed = 0;
    int rc = sqlite3_exec(db, BEGIN, NULL, NULL, NULL);
    rc = rc != SQLITE_OK ? rc : run(db, CHOOSE_ONE, states, 2, id);
    return rc != SQLITE_OK ? rc : remove_chosen(db, removed);
}
