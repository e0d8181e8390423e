/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the database of a state directory, for a master or for who only reads. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/store/store_damage.h"
#include "master/store/store_lock.h"
#include "master/store/store_points.h"
#include "master/store/store_schema.h"
#include "master/store/store_sqlite.h"
#include "os/file.h"
#include "os/log.h"

static int run(struct sqlite_store *s, const char *sql, struct err *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_sqlite_fail(s, err);
}

/* Checks that the file is ours, and of a known version. A new file gets the schema, an older one
 * what is new. */
static int check_schema(struct sqlite_store *s, struct err *err)
{
    int application = 0, version = 0;
    if (store_schema_update(s->db, &application, &version) != SQLITE_OK) {
        return store_sqlite_fail(s, err);
    }
    if (application != APPLICATION_ID) {
        return err_set(err, ERR_INVALID, "%s is a database of another program", s->path);
    }
    if (version != SCHEMA_VERSION) {
        return err_set(err, ERR_UNSUPPORTED, "%s has schema version %d; this master knows %d",
                       s->path, version, SCHEMA_VERSION);
    }
    return store_points_count(s->db, &s->points) == SQLITE_OK ? 0 : store_sqlite_fail(s, err);
}

/* @alone: makes no file beside it, for which a full disk has no room; meanwhile nobody else can
 * look. */
static int open_database(struct sqlite_store *s, bool alone, struct err *err)
{
    if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK) {
        return store_sqlite_fail(s, err);
    }
    sqlite3_busy_timeout(s->db, 2000); /* somebody may be looking at it with the sqlite3 shell */
    int rc = alone ? run(s, "PRAGMA locking_mode = EXCLUSIVE", err) : 0;
    rc = rc < 0 ? rc : check_schema(s, err);
    rc = rc < 0 ? rc : run(s, "PRAGMA journal_mode = WAL", err);
    rc = rc < 0 ? rc : run(s, "PRAGMA synchronous = FULL", err);
    return rc < 0 ? rc : store_sqlite_prepare(s, err);
}

static int open_even_if_full(struct sqlite_store *s, struct err *err)
{
    int rc = open_database(s, false, err);
    if (rc == ERR_EXHAUSTED || (rc == ERR_UNAVAILABLE && sqlite3_errcode(s->db) != SQLITE_BUSY)) {
        char quoted[1200];
        log_warn("store_opened_alone", "reason=%s", log_quote(err->msg, quoted, sizeof quoted));
        store_sqlite_close_database(s);
        rc = open_database(s, true, err);
    }
    return rc;
}

static int open_if_whole(struct sqlite_store *s, const char *state_dir, struct err *err)
{
    int rc = open_even_if_full(s, err);
    bool damaged = rc == ERR_CORRUPT || (rc == 0 && store_is_damaged(s->db));
    return damaged ? store_damage_error(state_dir, err) : rc;
}

/* SQLite would read a relative path that begins with "file:" as a URL: %XX, ?mode=memory. */
static char *database_path(const char *state_dir)
{
    const char *here = strncmp(state_dir, "file:", 5) == 0 ? "./" : "";
    return mem_printf("%s%s/master.db", here, state_dir);
}

int store_sqlite_open(const char *state_dir, const char *owner, struct store **out, struct err *err)
{
    int rc = file_make_dirs(state_dir, err);
    if (rc < 0) {
        return rc;
    }
    struct sqlite_store *s = mem_new(1, sizeof *s);
    s->base.ops = &store_sqlite_ops;
    s->path = database_path(state_dir);
    rc = store_lock(state_dir, owner, &s->lock_fd, err);
    rc = rc < 0 ? rc : open_if_whole(s, state_dir, err);
    if (rc < 0) {
        store_sqlite_ops.close(&s->base);
        (void)err_wrap(err, "open the store");
        return rc;
    }
    *out = &s->base;
    return 0;
}

/* A new file, or one of an older version, would be a master's to bring up to date. */
static int check_version(struct sqlite_store *s, struct err *err)
{
    int application = 0, version = 0;
    int rc = store_schema_read(s->db, &application, &version) == SQLITE_OK
                 ? 0
                 : store_sqlite_fail(s, err);
    if (rc == 0 && (application != APPLICATION_ID || version != SCHEMA_VERSION)) {
        rc = err_set(err, ERR_UNSUPPORTED,
                     "%s is not a database of a gradus-master of this version", s->path);
    }
    return rc;
}

static int read_database(struct sqlite_store *s, struct err *err)
{
    if (!file_exists(s->path)) {
        return err_set(err, ERR_NOT_FOUND, "%s: no master ever kept jobs there", s->path);
    }
    if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        return store_sqlite_fail(s, err);
    }
    sqlite3_busy_timeout(s->db, 2000);
    int rc = check_version(s, err);
    return rc < 0 ? rc : store_sqlite_prepare(s, err);
}

int store_sqlite_read(const char *state_dir, struct store **out, struct err *err)
{
    struct sqlite_store *s = mem_new(1, sizeof *s);
    s->base.ops = &store_sqlite_ops;
    s->lock_fd = -1;
    s->path = database_path(state_dir);
    int rc = read_database(s, err);
    if (rc < 0) {
        store_sqlite_ops.close(&s->base);
        return rc;
    }
    *out = &s->base;
    return 0;
}
