/* SPDX-License-Identifier: Apache-2.0 */
/* A text of the store says that rows are being moved into it: they go in several transactions of
 * etcd, and a master that leads a part of the jobs would give new ones the ids of others. It is
 * there before the first row, and goes when the file has its other name. */
#include "master/store/store_import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/store/store_points.h"
#include "master/store/store_sqlite.h"
#include "os/file.h"

#define IMPORT "import" /* the key of that text: the directory; "": nothing is moved */
#define MOVED ".moved"

static const char COPY[] =
    "BEGIN IMMEDIATE;"
    "INSERT OR REPLACE INTO main.text(key, value) SELECT key, value FROM source.text;"
    "INSERT OR REPLACE INTO main.point(job, step, time_ms, point)"
    " SELECT job, step, time_ms, point FROM source.point;"
    "INSERT OR REPLACE INTO main.job(rowid, id, name, number, request_id, state, submitted_ms, job,"
    " checksum, ended_ms) SELECT rowid, id, name, number, request_id, state, submitted_ms, job,"
    " checksum, ended_ms FROM source.job;"
    "COMMIT;";

static struct sqlite_store *of(struct store *s)
{
    return (struct sqlite_store *)s;
}

static int count_jobs(struct sqlite_store *s, size_t *count, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT count(*) FROM job", -1, &st, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(st) : rc;
    *count = rc == SQLITE_ROW ? (size_t)sqlite3_column_int64(st, 0) : 0;
    (void)sqlite3_finalize(st);
    return rc == SQLITE_ROW ? 0 : store_sqlite_fail(s, err);
}

static int attach(struct sqlite_store *s, const char *path, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "ATTACH ?1 AS source", -1, &st, NULL);
    rc = rc == SQLITE_OK ? sqlite3_bind_text(st, 1, path, -1, SQLITE_STATIC) : rc;
    rc = rc == SQLITE_OK ? sqlite3_step(st) : rc;
    (void)sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : store_sqlite_fail(s, err);
}

static int copy_rows(struct sqlite_store *into, const char *path, struct err *err)
{
    int rc = attach(into, path, err);
    if (rc < 0) {
        return rc;
    }
    if (sqlite3_exec(into->db, COPY, NULL, NULL, NULL) != SQLITE_OK) {
        rc = store_sqlite_fail(into, err);
        (void)sqlite3_exec(into->db, "ROLLBACK", NULL, NULL, NULL); /* if that is not done yet */
    }
    (void)sqlite3_exec(into->db, "DETACH source", NULL, NULL, NULL);
    return rc == 0 && store_points_count(into->db, &into->points) != SQLITE_OK
               ? store_sqlite_fail(into, err)
               : rc;
}

/* Opens the source as a master would, so that no other one has it. */
static int copy(struct sqlite_store *into, const char *state_dir, const char *owner, size_t *moved,
                struct err *err)
{
    struct store *source = NULL;
    int rc = store_sqlite_open(state_dir, owner, &source, err);
    rc = rc < 0 ? rc : count_jobs(of(source), moved, err);
    rc = rc < 0 ? rc : into->base.ops->put_text(&into->base, IMPORT, state_dir, err);
    rc = rc < 0 ? rc : copy_rows(into, of(source)->path, err);
    if (source != NULL) {
        source->ops->close(source);
    }
    return rc;
}

static int put_away(const char *path, struct err *err)
{
    char *to = mem_printf("%s" MOVED, path);
    int rc = rename(path, to) == 0
                 ? 0
                 : err_set(err, ERR_UNAVAILABLE, "rename %s to %s: %s", path, to, strerror(errno));
    free(to);
    return rc < 0 ? rc : file_sync_parent(path, err);
}

static int begin(struct store *into, const char *state_dir, const char *under_way, bool there,
                 struct err *err)
{
    size_t jobs = 0;
    if (under_way[0] != '\0') {
        return strcmp(under_way, state_dir) == 0
                   ? 0
                   : err_set(err, ERR_STATE,
                             "the jobs of %s are being moved into it; --store-import %s goes on "
                             "with that",
                             under_way, under_way);
    }
    int rc = there ? count_jobs(of(into), &jobs, err) : 0;
    return rc == 0 && jobs > 0
               ? err_set(err, ERR_STATE, "it has %zu job%s of its own, so those of %s stay there",
                         jobs, jobs == 1 ? "" : "s", state_dir)
               : rc;
}

int store_import(struct store *into, const char *state_dir, const char *owner, size_t *moved,
                 struct err *err)
{
    struct buf under_way = {0};
    struct err local = {0};
    char *path = mem_printf("%s/master.db", state_dir);
    const bool there = state_dir[0] != '\0' && file_exists(path);
    *moved = 0;
    int rc = into->ops->get_text(into, IMPORT, &under_way, &local);
    rc = rc == ERR_NOT_FOUND ? 0 : rc;
    const bool goes_on = buf_str(&under_way)[0] != '\0';
    rc = rc < 0 ? rc : begin(into, state_dir, buf_str(&under_way), there, &local);
    if (rc == 0 && there) {
        rc = copy(of(into), state_dir, owner, moved, &local);
        rc = rc < 0 ? rc : put_away(path, &local);
    }
    if (rc == 0 && (there || goes_on)) {
        rc = into->ops->put_text(into, IMPORT, "", &local);
    }
    buf_release(&under_way);
    free(path);
    return rc < 0 ? err_set(err, rc, "move jobs into %s: %s", of(into)->path, local.msg) : 0;
}
