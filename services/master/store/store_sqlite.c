/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the jobs of a master in an SQLite database in its state directory: one row for each, with a
 * checksum. Clients read it without the lock of store_lock.h. */
#include "master/store/store_sqlite.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/checksum.h"
#include "master/core/job_record.h"
#include "master/store/store_points.h"
#include "master/store/store_trim.h"

enum statement { PUT, LOAD, GET, FIND_REQUEST, NEXT_NUMBER, GET_TEXT, PUT_TEXT, STATEMENT_COUNT };
_Static_assert(STATEMENT_COUNT == STORE_SQLITE_STATEMENTS, "as many as the struct has");
static const char *const STATEMENTS[STATEMENT_COUNT] = {
    [PUT] = ("INSERT INTO job(id, name, number, request_id, state, submitted_ms, job, checksum,"
             " ended_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, nullif(?9, 0))"
             " ON CONFLICT(id) DO UPDATE SET state = ?5, job = ?7, checksum = ?8,"
             " ended_ms = nullif(?9, 0)"),
    /* A state that is none is not an end. */
    [LOAD] = ("SELECT id, name, number, request_id, state, submitted_ms, job, checksum FROM"
              " (SELECT rowid AS place, * FROM job WHERE state NOT BETWEEN ?2 AND ?3"
              " UNION ALL SELECT * FROM (SELECT rowid AS place, * FROM job"
              " WHERE state BETWEEN ?2 AND ?3 ORDER BY rowid DESC LIMIT ?1)) ORDER BY place"),
    [GET] = "SELECT job, checksum FROM job WHERE id = ?1",
    [FIND_REQUEST] = "SELECT id FROM job WHERE request_id = ?1",
    [NEXT_NUMBER] =
        ("SELECT max(coalesce((SELECT max(number) FROM job WHERE name = ?1), 0), 0,"
         " coalesce((SELECT cast(value AS INTEGER)"
         " FROM text WHERE key = '" STORE_NUMBER_OF "' || ?1), 0))"), /* a step into the index */
    [GET_TEXT] = "SELECT value FROM text WHERE key = ?1",
    [PUT_TEXT] = ("INSERT INTO text(key, value) VALUES(?1, ?2)"
                  " ON CONFLICT(key) DO UPDATE SET value = ?2"),
};

static struct sqlite_store *of(struct store *s)
{
    return (struct sqlite_store *)s; /* base is its first member */
}

int store_sqlite_fail(const struct sqlite_store *s, struct err *err)
{
    int code = s->db == NULL ? SQLITE_NOMEM : sqlite3_extended_errcode(s->db);
    const char *text = s->db == NULL ? "no memory" : sqlite3_errmsg(s->db);
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
        return err_set(err, ERR_CORRUPT, "%s is damaged: %s", s->path, text);
    case SQLITE_NOTADB:
        return err_set(err, ERR_INVALID, "%s is not a database of gradus-master: %s", s->path,
                       text);
    case SQLITE_FULL:
    case SQLITE_NOMEM:
        return err_set(err, ERR_EXHAUSTED, "%s: %s", s->path, text);
    case SQLITE_CONSTRAINT:
        if (code == SQLITE_CONSTRAINT_COMMITHOOK && s->journal != NULL) {
            return err_set(err, s->journal->refused.code, "%s", s->journal->refused.msg);
        }
        return err_set(err, ERR_EXISTS, "%s: %s", s->path, text);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
        return err_set(err, ERR_PERMISSION, "%s: %s", s->path, text);
    default:
        return err_set(err, ERR_UNAVAILABLE, "%s: %s", s->path, text);
    }
}

/* ---- statements ---- */

static int text(const struct sqlite_store *s, enum statement which, int i, const char *value,
                struct err *err)
{
    int rc = sqlite3_bind_text(s->statements[which], i, value, -1, SQLITE_STATIC);
    return rc == SQLITE_OK ? 0 : store_sqlite_fail(s, err);
}

static void reset(const struct sqlite_store *s, enum statement which)
{
    sqlite3_reset(s->statements[which]);
    sqlite3_clear_bindings(s->statements[which]);
}

static int put(struct store *store, const struct store_row *row, struct err *err)
{
    struct sqlite_store *s = of(store);
    sqlite3_stmt *st = s->statements[PUT];
    int rc = text(s, PUT, 1, row->id, err);
    rc = rc < 0 ? rc : text(s, PUT, 2, row->name, err);
    if (rc == 0 && row->request_id[0] != '\0') {
        rc = text(s, PUT, 4, row->request_id, err);
    }
    if (rc == 0 &&
        (sqlite3_bind_int64(st, 3, (sqlite3_int64)row->number) != SQLITE_OK ||
         sqlite3_bind_int(st, 5, row->state) != SQLITE_OK ||
         sqlite3_bind_int64(st, 6, row->submitted_ms) != SQLITE_OK ||
         sqlite3_bind_blob64(st, 7, row->job, row->job_bytes, SQLITE_STATIC) != SQLITE_OK ||
         sqlite3_bind_int64(st, 8, (sqlite3_int64)checksum_of(row->job, row->job_bytes)) !=
             SQLITE_OK ||
         sqlite3_bind_int64(st, 9, row->ended_ms) != SQLITE_OK ||
         sqlite3_step(st) != SQLITE_DONE)) {
        rc = store_sqlite_fail(s, err);
    }
    reset(s, PUT);
    if (rc < 0) {
        (void)err_wrap(err, "store job %s", row->id);
    }
    return rc;
}

static const char *column(sqlite3_stmt *st, int i)
{
    const char *value = (const char *)sqlite3_column_text(st, i);
    return value == NULL ? "" : value;
}

/* True if the blob in column @job and the number in the column behind it belong to one row. */
static bool is_whole(sqlite3_stmt *st, int job)
{
    const void *data = sqlite3_column_blob(st, job);
    size_t bytes = (size_t)sqlite3_column_bytes(st, job);
    return sqlite3_column_type(st, job + 1) == SQLITE_NULL ||
           checksum_of(data, bytes) == (uint64_t)sqlite3_column_int64(st, job + 1);
}

static const char *damage_of(sqlite3_stmt *st)
{
    return sqlite3_column_type(st, 0) != SQLITE_TEXT ? "it has no id"
           : sqlite3_column_int64(st, 2) < 0         ? "its number is negative"
           : !is_whole(st, 6)                        ? "its checksum is not that of its content"
                                                     : NULL;
}

static int load(struct store *store, size_t finished_limit,
                int (*each)(void *ctx, const struct store_row *row, struct err *err), void *ctx,
                struct err *err)
{
    struct sqlite_store *s = of(store);
    sqlite3_stmt *st = s->statements[LOAD];
    int rc = 0;
    int step = sqlite3_bind_int64(st, 1, (sqlite3_int64)finished_limit) == SQLITE_OK &&
                       sqlite3_bind_int(st, 2, JOB_SUCCEEDED) == SQLITE_OK &&
                       sqlite3_bind_int(st, 3, JOB_CANCELLED) == SQLITE_OK
                   ? sqlite3_step(st)
                   : SQLITE_ERROR;
    for (; rc == 0 && step == SQLITE_ROW; step = sqlite3_step(st)) {
        struct store_row row = {
            .id = column(st, 0),
            .name = column(st, 1),
            .number = (uint64_t)sqlite3_column_int64(st, 2),
            .request_id = column(st, 3),
            .state = sqlite3_column_int(st, 4),
            .submitted_ms = sqlite3_column_int64(st, 5),
            .job = sqlite3_column_blob(st, 6),
            .job_bytes = (size_t)sqlite3_column_bytes(st, 6),
            .damage = damage_of(st),
        };
        rc = each(ctx, &row, err);
    }
    if (rc == 0 && step != SQLITE_DONE) {
        rc = store_sqlite_fail(s, err);
    }
    reset(s, LOAD);
    return rc;
}

/* The first column of the one row for @key, as text or blob, into @out. */
static int one(struct sqlite_store *s, enum statement which, const char *key, struct buf *out,
               struct err *err)
{
    int rc = text(s, which, 1, key, err);
    if (rc == 0) {
        sqlite3_stmt *st = s->statements[which];
        switch (sqlite3_step(st)) {
        case SQLITE_ROW: {
            const void *data = sqlite3_column_blob(st, 0);
            size_t bytes = (size_t)sqlite3_column_bytes(st, 0);
            if (which == GET && !is_whole(st, 0)) {
                rc =
                    err_set(err, ERR_CORRUPT, "%s: the row of job %.128s is damaged", s->path, key);
                break;
            }
            buf_add(out, data, bytes);
            break;
        }
        case SQLITE_DONE:
            rc = err_set(err, ERR_NOT_FOUND, "%s: no row for %.128s", s->path, key);
            break;
        default:
            rc = store_sqlite_fail(s, err);
        }
    }
    reset(s, which);
    return rc;
}

static int get(struct store *store, const char *id, struct buf *job, struct err *err)
{
    return one(of(store), GET, id, job, err);
}

static int find_request(struct store *store, const char *request_id, struct buf *id,
                        struct err *err)
{
    return one(of(store), FIND_REQUEST, request_id, id, err);
}

static int next_number(struct store *store, const char *name, uint64_t *number, struct err *err)
{
    struct sqlite_store *s = of(store);
    int rc = text(s, NEXT_NUMBER, 1, name, err);
    if (rc == 0 && sqlite3_step(s->statements[NEXT_NUMBER]) != SQLITE_ROW) {
        rc = store_sqlite_fail(s, err);
    }
    if (rc == 0) {
        int64_t highest = sqlite3_column_int64(s->statements[NEXT_NUMBER], 0);
        if (highest < INT64_MAX) {
            *number = (uint64_t)highest + 1;
        } else {
            rc = err_set(err, ERR_EXHAUSTED, "%s: no number is left for jobs named %.128s", s->path,
                         name);
        }
    }
    reset(s, NEXT_NUMBER);
    return rc;
}

/* After a transaction of store_trim.h or store_points.h. */
static int transacted(const struct sqlite_store *s, int rc, const char *what, struct err *err)
{
    if (rc == SQLITE_OK) {
        return 0;
    }
    (void)store_sqlite_fail(s, err);
    (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return err_wrap(err, "%s", what);
}

static int removed_rows(struct sqlite_store *s, int rc, struct err *err)
{
    rc = transacted(s, rc, "remove rows of jobs that have ended", err);
    (void)store_points_count(s->db, &s->points); /* a number that is too high does no harm */
    return rc;
}

static int trim(struct store *store, const struct store_trim *what, size_t *removed,
                struct err *err)
{
    return removed_rows(of(store), store_trim_rows(of(store)->db, what, removed), err);
}

static int remove_one(struct store *store, const char *id, struct err *err)
{
    size_t removed = 0;
    int rc = removed_rows(of(store), store_remove_row(of(store)->db, id, &removed), err);
    return rc < 0 || removed > 0 ? rc
                                 : err_set(err, ERR_NOT_FOUND, "no job %.128s that has ended", id);
}

static int get_text(struct store *store, const char *key, struct buf *value, struct err *err)
{
    return one(of(store), GET_TEXT, key, value, err);
}

static int put_text(struct store *store, const char *key, const char *value, struct err *err)
{
    struct sqlite_store *s = of(store);
    int rc = text(s, PUT_TEXT, 1, key, err);
    rc = rc < 0 ? rc : text(s, PUT_TEXT, 2, value, err);
    if (rc == 0 && sqlite3_step(s->statements[PUT_TEXT]) != SQLITE_DONE) {
        rc = store_sqlite_fail(s, err);
    }
    reset(s, PUT_TEXT);
    return rc < 0 ? err_wrap(err, "store %s", key) : 0;
}

static int add_points(struct store *store, const struct store_point *points, size_t count,
                      struct err *err)
{
    struct sqlite_store *s = of(store);
    int rc = store_points_add(s->db, points, count, &s->points);
    if (rc == SQLITE_FULL && sqlite3_errcode(s->db) != SQLITE_FULL) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
        return err_set(err, ERR_EXHAUSTED,
                       "%s: the curves of jobs that have not ended have %d points", s->path,
                       STORE_POINTS_MAX);
    }
    return transacted(s, rc, "store curves", err);
}

static int each_point(struct store *store, const char *job,
                      void (*each)(void *ctx, const struct store_point *point), void *ctx,
                      struct err *err)
{
    struct sqlite_store *s = of(store);
    return store_points_each(s->db, job, each, ctx) == SQLITE_OK ? 0 : store_sqlite_fail(s, err);
}

static int thin_points(struct store *store, const char *job, const uint64_t *steps, size_t count,
                       struct err *err)
{
    struct sqlite_store *s = of(store);
    return transacted(s, store_points_thin(s->db, job, steps, count, &s->points), "thin a curve",
                      err);
}

int store_sqlite_prepare(struct sqlite_store *s, struct err *err)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        if (sqlite3_prepare_v3(s->db, STATEMENTS[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->statements[i], NULL) != SQLITE_OK) {
            return store_sqlite_fail(s, err);
        }
    }
    return 0;
}

void store_sqlite_close_database(struct sqlite_store *s)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(s->statements[i]);
        s->statements[i] = NULL;
    }
    sqlite3_close(s->db);
    s->db = NULL;
}

static void close_store(struct store *store)
{
    struct sqlite_store *s = of(store);
    store_sqlite_close_database(s);
    if (s->lock_fd >= 0) {
        close(s->lock_fd);
    }
    free(s->path);
    free(s);
}

const struct store_ops store_sqlite_ops = {.put = put,
                                           .load = load,
                                           .get = get,
                                           .find_request = find_request,
                                           .next_number = next_number,
                                           .trim = trim,
                                           .remove = remove_one,
                                           .get_text = get_text,
                                           .put_text = put_text,
                                           .add_points = add_points,
                                           .each_point = each_point,
                                           .thin_points = thin_points,
                                           .close = close_store};
