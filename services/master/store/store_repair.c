/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a damaged database row by row into a new one. SQLite finds a damaged page when it needs it,
 * so each row is asked for by itself: those of other pages are still there. */
#include "master/store/store_repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "master/store/store.h"

#define TEXTS_LEAST 64        /* rows of the table of texts that are looked for, at least */
#define ROWS_PER_PAGE_MAX 512 /* a row takes 8 bytes of a page of 4 KiB at the very least */

/* Two connections, of the old and the new file: SQLite writes nothing more on a connection that has
 * met a damaged page. */
struct repair {
    sqlite3 *old, *made;
    const char *path;
    int64_t rows_max; /* rows of a table at most, by the size of the file */
    int64_t highest;  /* number of a row */
    int64_t *unread;
    size_t unread_count, unread_capacity, read, named;
};

/* Where row numbers and ids are read: the table, and two indexes. Any of them may be damaged. */
static const char *const PLACES[] = {
    "SELECT rowid, NULL FROM job ORDER BY rowid DESC LIMIT 1",
    "SELECT rowid, id FROM job INDEXED BY sqlite_autoindex_job_1",
    "SELECT rowid, name || '-' || number FROM job INDEXED BY job_by_name",
};
static const char *const READ_JOB =
    "SELECT rowid, id, name, number, request_id, state, submitted_ms, job, checksum, ended_ms"
    " FROM job WHERE rowid = ?1";
static const char *const WRITE_JOB =
    "INSERT INTO job(rowid, id, name, number, request_id, state, submitted_ms, job, checksum,"
    " ended_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
static const char *const READ_TEXT = "SELECT key, value FROM text WHERE rowid = ?1";
static const char *const WRITE_TEXT = "INSERT INTO text(key, value) VALUES(?1, ?2)";
/* A row that only keeps an id taken: it has no state and an empty job, and a checksum that does not
 * match, so nobody loads it. */
static const char *const HOLD_ID =
    "INSERT OR IGNORE INTO job(rowid, id, name, number, state, submitted_ms, job, checksum)"
    " VALUES(?1, ?2, ?3, ?4, 0, 0, x'', ?5)";

static int fail(const struct repair *r, sqlite3 *db, struct err *err)
{
    int code = sqlite3_errcode(db);
    int kind = code == SQLITE_CORRUPT ? ERR_CORRUPT
               : code == SQLITE_FULL  ? ERR_EXHAUSTED
                                      : ERR_UNAVAILABLE;
    return err_set(err, kind, "%s is damaged and cannot be repaired: %s", r->path,
                   sqlite3_errmsg(db));
}

static int write_sql(const struct repair *r, const char *sql, struct err *err)
{
    return sqlite3_exec(r->made, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(r, r->made, err);
}

static int64_t number_of(sqlite3 *db, const char *sql, int64_t otherwise)
{
    sqlite3_stmt *st = NULL;
    int64_t value = otherwise;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
        value = sqlite3_column_int64(st, 0);
    }
    sqlite3_finalize(st);
    return value;
}

/* ---- rows ---- */

/* Calls @each with the row numbers and ids of all PLACES, as far as each can be read. */
static int walk(struct repair *r,
                int (*each)(struct repair *r, int64_t row, const char *id, struct err *err),
                struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof PLACES / sizeof *PLACES; i++) {
        sqlite3_stmt *st = NULL;
        (void)sqlite3_prepare_v2(r->old, PLACES[i], -1, &st, NULL);
        while (rc == 0 && st != NULL && sqlite3_step(st) == SQLITE_ROW) {
            rc =
                each(r, sqlite3_column_int64(st, 0), (const char *)sqlite3_column_text(st, 1), err);
        }
        sqlite3_finalize(st);
    }
    return rc;
}

static int note_highest(struct repair *r, int64_t row, const char *id, struct err *err)
{
    (void)id;
    (void)err;
    r->highest = row > r->highest ? row : r->highest;
    return 0;
}

struct copying {
    sqlite3_stmt *from, *to;
};

static int copying_begin(const struct repair *r, struct copying *c, const char *from,
                         const char *to, struct err *err)
{
    *c = (struct copying){NULL, NULL};
    if (sqlite3_prepare_v2(r->old, from, -1, &c->from, NULL) != SQLITE_OK) {
        return fail(r, r->old, err);
    }
    return sqlite3_prepare_v2(r->made, to, -1, &c->to, NULL) == SQLITE_OK ? 0
                                                                          : fail(r, r->made, err);
}

static void copying_end(struct copying *c)
{
    sqlite3_finalize(c->from);
    sqlite3_finalize(c->to);
}

/* Copies row @row. Returns the number of rows with it, 0 or 1. Errors: ERR_CORRUPT the row cannot
 * be read. */
static int copy(const struct repair *r, const struct copying *c, int64_t row, size_t *count,
                struct err *err)
{
    (void)sqlite3_bind_int64(c->from, 1, row);
    int code = sqlite3_step(c->from), rc = 0;
    *count = 0;
    if (code == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(c->from); i++) {
            (void)sqlite3_bind_value(c->to, i + 1, sqlite3_column_value(c->from, i));
        }
        code = sqlite3_step(c->to);
        *count = code == SQLITE_DONE;
        rc = code == SQLITE_DONE         ? 0
             : code == SQLITE_CONSTRAINT ? ERR_CORRUPT
                                         : fail(r, r->made, err);
        sqlite3_reset(c->to);
    } else if (code != SQLITE_DONE) {
        rc = code == SQLITE_CORRUPT ? ERR_CORRUPT : fail(r, r->old, err);
    }
    sqlite3_reset(c->from);
    return rc;
}

static int copy_jobs(struct repair *r, struct err *err)
{
    struct copying c;
    int rc = copying_begin(r, &c, READ_JOB, WRITE_JOB, err);
    for (int64_t row = 1; rc == 0 && row <= r->highest; row++) {
        size_t count = 0;
        rc = copy(r, &c, row, &count, err);
        r->read += count;
        if (rc == ERR_CORRUPT) {
            r->unread =
                mem_grow(r->unread, &r->unread_capacity, r->unread_count + 1, sizeof *r->unread);
            r->unread[r->unread_count++] = row;
            rc = 0;
        }
    }
    copying_end(&c);
    return rc;
}

static int copy_texts(struct repair *r, struct err *err)
{
    struct copying c;
    bool lost = false;
    int rc = copying_begin(r, &c, READ_TEXT, WRITE_TEXT, err);
    int64_t last = number_of(r->old, "SELECT rowid FROM text ORDER BY rowid DESC LIMIT 1", 0);
    last = last > r->rows_max ? r->rows_max : last;
    for (int64_t row = 1; rc == 0 && (row <= TEXTS_LEAST || row <= last); row++) {
        size_t count = 0;
        rc = copy(r, &c, row, &count, err);
        lost = lost || rc == ERR_CORRUPT;
        rc = rc == ERR_CORRUPT ? 0 : rc;
    }
    copying_end(&c);
    if (lost) {
        log_error("texts_lost", "whose the checkpoints are has to be found out again");
        rc = rc < 0 ? rc
                    : write_sql(r, "INSERT INTO text VALUES('" STORE_TEXTS_LOST "', 'yes')", err);
    }
    return rc;
}

/* Keeps the id of a lost row taken, so that no other job gets it and, with it, the checkpoints. */
static int hold_id(struct repair *r, int64_t row, const char *id, struct err *err)
{
    const char *dash = id == NULL ? NULL : strrchr(id, '-');
    sqlite3_stmt *st = NULL;
    if (dash == NULL || dash == id || row < 1 || row > r->highest) {
        return 0;
    }
    uint64_t wrong = ~checksum_of("", 0);
    int rc = 0;
    if (sqlite3_prepare_v2(r->made, HOLD_ID, -1, &st, NULL) != SQLITE_OK ||
        sqlite3_bind_int64(st, 1, row) != SQLITE_OK ||
        sqlite3_bind_text(st, 2, id, -1, SQLITE_TRANSIENT) != SQLITE_OK ||
        sqlite3_bind_text(st, 3, id, (int)(dash - id), SQLITE_TRANSIENT) != SQLITE_OK ||
        sqlite3_bind_int64(st, 4, strtoll(dash + 1, NULL, 10)) != SQLITE_OK ||
        sqlite3_bind_int64(st, 5, (sqlite3_int64)wrong) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_DONE) {
        rc = fail(r, r->made, err);
    } else {
        r->named += (size_t)sqlite3_changes(r->made);
    }
    sqlite3_finalize(st);
    return rc;
}

static void name_the_others(const struct repair *r)
{
    for (size_t i = 0; i < r->unread_count; i++) {
        char sql[96];
        (void)snprintf(sql, sizeof sql, "SELECT 1 FROM job WHERE rowid = %" PRId64, r->unread[i]);
        if (number_of(r->made, sql, 0) == 0) {
            log_error("job_lost", "row=%" PRId64, r->unread[i]);
        }
    }
}

/* ---- files ---- */

bool store_is_damaged(struct sqlite3 *db)
{
    sqlite3_stmt *st = NULL;
    int step = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL);
    step = step == SQLITE_OK ? sqlite3_step(st) : step;
    bool damaged =
        step == SQLITE_CORRUPT ||
        (step == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(st, 0), "ok") != 0);
    sqlite3_finalize(st);
    return damaged;
}

static int copy_schema(const struct repair *r, struct err *err)
{
    sqlite3_stmt *st = NULL;
    char sql[128];
    (void)snprintf(
        sql, sizeof sql, "PRAGMA application_id = %" PRId64 "; PRAGMA user_version = %" PRId64,
        number_of(r->old, "PRAGMA application_id", 0), number_of(r->old, "PRAGMA user_version", 0));
    int rc = write_sql(r, sql, err);
    if (rc == 0 && sqlite3_prepare_v2(r->old,
                                      "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"
                                      " ORDER BY rowid",
                                      -1, &st, NULL) != SQLITE_OK) {
        rc = fail(r, r->old, err);
    }
    int step = SQLITE_DONE;
    while (rc == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        rc = write_sql(r, (const char *)sqlite3_column_text(st, 0), err);
    }
    rc = rc == 0 && step != SQLITE_DONE ? fail(r, r->old, err) : rc;
    sqlite3_finalize(st);
    return rc;
}

/* Opens the old file and the new one. What the old database wrote last (its write-ahead log) is
 * first moved into its file, which is then only read. */
static int open_both(struct repair *r, const char *made, struct err *err)
{
    if (sqlite3_open_v2(r->path, &r->old, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        return fail(r, r->old, err);
    }
    if (number_of(r->old, "PRAGMA wal_checkpoint(TRUNCATE)", 1) != 0) {
        return err_set(err, ERR_STATE, "%s is damaged, and cannot be repaired while it is read",
                       r->path);
    }
    return sqlite3_open(made, &r->made) == SQLITE_OK ? 0 : fail(r, r->made, err);
}

static int write_new(struct repair *r, struct err *err)
{
    int rc = write_sql(r, "BEGIN", err);
    rc = rc < 0 ? rc : copy_schema(r, err);
    rc = rc < 0 ? rc : walk(r, note_highest, err);
    r->rows_max = number_of(r->old, "PRAGMA page_count", 0) * ROWS_PER_PAGE_MAX;
    r->highest = r->highest > r->rows_max ? r->rows_max : r->highest;
    rc = rc < 0 ? rc : copy_jobs(r, err);
    if (rc == 0 && r->read == 0) {
        return err_set(err, ERR_CORRUPT, "%s is damaged: none of its jobs can be read", r->path);
    }
    rc = rc < 0 ? rc : walk(r, hold_id, err);
    rc = rc < 0 ? rc : copy_texts(r, err);
    return rc < 0 ? rc : write_sql(r, "COMMIT", err);
}

/* Puts the new database in the place of the old one. At every moment there is a database at @path.
 */
static int exchange(const char *path, const char *made, const char *aside, struct err *err)
{
    if (link(path, aside) != 0) {
        return err_errno(err, errno, "keep the damaged %s as %s", path, aside);
    }
    int rc = file_sync_parent(path, err);
    if (rc == 0 && rename(made, path) != 0) {
        rc = err_errno(err, errno, "rename %s", made);
    }
    return rc < 0 ? rc : file_sync_parent(path, err);
}

static void tell(const struct repair *r, const char *aside)
{
    char damaged[1200];
    log_error("database_repaired", "damaged=%s jobs=%zu lost=%zu of_these_named=%zu",
              log_quote(aside, damaged, sizeof damaged), r->read,
              r->unread_count > r->named ? r->unread_count : r->named, r->named);
}

int store_repair(const char *path, struct err *err)
{
    struct repair r = {.path = path};
    struct err local = {0};
    struct tm utc;
    char date[32];
    time_t now = time(NULL);
    (void)strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    char *made = mem_printf("%s.new", path), *journal = mem_printf("%s-journal", made);
    char *aside = mem_printf("%s.damaged-%s", path, date);
    (void)unlink(made); /* left by a repair that did not end */
    (void)unlink(journal);
    int rc = open_both(&r, made, &local);
    rc = rc < 0 ? rc : write_new(&r, &local);
    if (rc == 0) {
        name_the_others(&r);
    }
    sqlite3_close(r.made);
    sqlite3_close(r.old);
    rc = rc < 0 ? rc : exchange(path, made, aside, &local);
    if (rc == 0) {
        tell(&r, aside);
    } else {
        (void)unlink(made);
        (void)err_set(err, local.code, "%s", local.msg);
    }
    free(r.unread);
    free(aside);
    free(journal);
    free(made);
    return rc;
}
