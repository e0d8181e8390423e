/* SPDX-License-Identifier: Apache-2.0 */
/* The table of points: rows of about a hundred bytes, those of a job together, by their steps. They
 * are written in batches, so their statements are made anew for each. */
#include "master/store/store_points.h"

#include "master/core/job_record.h"

static const char FORGET_LATER[] = "DELETE FROM point WHERE job = ?1 AND step >= ?2";
static const char FORGET_ONE[] = "DELETE FROM point WHERE job = ?1 AND step = ?2";
static const char ADD[] = "INSERT INTO point(job, step, time_ms, point) VALUES(?1, ?2, ?3, ?4)";
static const char EACH[] = "SELECT step, time_ms, point FROM point WHERE job = ?1 ORDER BY step";
/* ?1, ?2: the first and the last state that is an end. */
static const char FORGET_ENDED[] =
    "DELETE FROM point WHERE job IN (SELECT id FROM job WHERE state BETWEEN ?1 AND ?2"
    " AND id IN (SELECT DISTINCT job FROM point) ORDER BY ended_ms, rowid LIMIT 16)";

int store_points_count(sqlite3 *db, size_t *count)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT count(*) FROM point", -1, &st, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(st) : rc;
    if (rc == SQLITE_ROW) {
        *count = (size_t)sqlite3_column_int64(st, 0);
        rc = SQLITE_OK;
    }
    (void)sqlite3_finalize(st);
    return rc;
}

/* Runs a statement whose first parameters are a job and a step; it can be run again. */
static int at_step(sqlite3_stmt *st, const char *job, uint64_t step)
{
    int rc = sqlite3_bind_text(st, 1, job, -1, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_int64(st, 2, (sqlite3_int64)step);
    rc = rc != SQLITE_OK ? rc : sqlite3_step(st);
    (void)sqlite3_reset(st);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int add_one(sqlite3 *db, sqlite3_stmt *forget, sqlite3_stmt *add,
                   const struct store_point *p, size_t *total)
{
    int rc = at_step(forget, p->job, p->step);
    if (rc != SQLITE_OK) {
        return rc;
    }
    *total -= (size_t)sqlite3_changes(db);
    rc = sqlite3_bind_int64(add, 3, p->time_ms);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_blob64(add, 4, p->data, p->bytes, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : at_step(add, p->job, p->step);
    *total += rc == SQLITE_OK ? 1 : 0;
    return rc;
}

/* The curves of the jobs that ended first go, until the others have room. */
static int make_room(sqlite3 *db, size_t *total)
{
    sqlite3_stmt *st = NULL;
    int removed = 1;
    int rc = sqlite3_prepare_v2(db, FORGET_ENDED, -1, &st, NULL);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_int(st, 1, JOB_SUCCEEDED);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_int(st, 2, JOB_CANCELLED);
    while (rc == SQLITE_OK && *total > STORE_POINTS_MAX && removed > 0) {
        rc = sqlite3_step(st) == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(db);
        removed = rc == SQLITE_OK ? sqlite3_changes(db) : 0;
        *total -= (size_t)removed;
        (void)sqlite3_reset(st);
    }
    (void)sqlite3_finalize(st);
    return rc == SQLITE_OK && *total > STORE_POINTS_MAX ? SQLITE_FULL : rc;
}

int store_points_add(sqlite3 *db, const struct store_point *points, size_t count, size_t *total)
{
    sqlite3_stmt *forget = NULL, *add = NULL;
    size_t now = *total;
    int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    rc = rc != SQLITE_OK ? rc : sqlite3_prepare_v2(db, FORGET_LATER, -1, &forget, NULL);
    rc = rc != SQLITE_OK ? rc : sqlite3_prepare_v2(db, ADD, -1, &add, NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < count; i++) {
        rc = add_one(db, forget, add, &points[i], &now);
    }
    (void)sqlite3_finalize(forget);
    (void)sqlite3_finalize(add);
    rc = rc != SQLITE_OK ? rc : make_room(db, &now);
    rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    *total = rc == SQLITE_OK ? now : *total;
    return rc;
}

int store_points_each(sqlite3 *db, const char *job,
                      void (*each)(void *ctx, const struct store_point *point), void *ctx)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, EACH, -1, &st, NULL);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_text(st, 1, job, -1, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : sqlite3_step(st);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(st)) {
        const struct store_point p = {.job = job,
                                      .step = (uint64_t)sqlite3_column_int64(st, 0),
                                      .time_ms = sqlite3_column_int64(st, 1),
                                      .data = sqlite3_column_blob(st, 2),
                                      .bytes = (size_t)sqlite3_column_bytes(st, 2)};
        each(ctx, &p);
    }
    (void)sqlite3_finalize(st);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int store_points_thin(sqlite3 *db, const char *job, const uint64_t *steps, size_t count,
                      size_t *total)
{
    sqlite3_stmt *st = NULL;
    size_t now = *total;
    int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    rc = rc != SQLITE_OK ? rc : sqlite3_prepare_v2(db, FORGET_ONE, -1, &st, NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < count; i++) {
        rc = at_step(st, job, steps[i]);
        now -= rc == SQLITE_OK ? (size_t)sqlite3_changes(db) : 0;
    }
    (void)sqlite3_finalize(st);
    rc = rc != SQLITE_OK ? rc : sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    *total = rc == SQLITE_OK ? now : *total;
    return rc;
}
