/* SPDX-License-Identifier: Apache-2.0 */
/* A text of the store says that rows are being moved into it: they go in several transactions of
 * etcd, and a master that leads a part of the jobs would give new ones the ids of others. It is
 * there before the first row, and goes when the file has its other name. Two hosts may have
 * directories of one name: a random number that stands in the text and in a file beside the rows
 * tells which of them it is. */
#include "master/store/store_import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "master/store/store_points.h"
#include "master/store/store_sqlite.h"
#include "os/file.h"

#define IMPORT "import" /* the key of that text: number, blank, directory; "": nothing is moved */
#define MOVED ".moved"
#define NUMBER ".import" /* of the file with the number */
#define NUMBER_BYTES 16

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

/* Says in the store that the rows of @path, in @state_dir, are moved. */
static int mark(struct store *into, const char *state_dir, const char *path, struct err *err)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        return err_set(err, ERR_UNAVAILABLE, "getrandom: %s", strerror(errno));
    }
    char *file = mem_printf("%s" NUMBER, path);
    char *text = mem_printf("%0*" PRIx64 " %s", NUMBER_BYTES, number, state_dir);
    int rc = file_write_atomic(file, text, NUMBER_BYTES, err);
    rc = rc < 0 ? rc : into->ops->put_text(into, IMPORT, text, err);
    free(text);
    free(file);
    return rc;
}

/* Opens the source as a master would, so that no other one has it. */
static int copy(struct sqlite_store *into, const char *state_dir, const char *owner, bool goes_on,
                size_t *moved, struct err *err)
{
    struct store *source = NULL;
    int rc = store_sqlite_open(state_dir, owner, &source, err);
    rc = rc < 0 ? rc : count_jobs(of(source), moved, err);
    rc = rc < 0 || goes_on ? rc : mark(&into->base, state_dir, of(source)->path, err);
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

/* Is @path what the number of the text @under_way belongs to? */
static bool is_marked(const char *path, const char *under_way)
{
    char *file = mem_printf("%s" NUMBER, path);
    struct buf number = {0};
    const bool same = file_read(file, NUMBER_BYTES, &number, NULL) == 0 &&
                      number.len == NUMBER_BYTES &&
                      memcmp(buf_str(&number), under_way, NUMBER_BYTES) == 0;
    buf_release(&number);
    free(file);
    return same;
}

/* May the move that @under_way says go on with @path, which is @there or has its other name? */
static int go_on(const char *state_dir, const char *path, const char *under_way, bool there,
                 struct err *err)
{
    const char *blank = strchr(under_way, ' ');
    const char *dir = blank == NULL ? under_way : blank + 1;
    if (strcmp(dir, state_dir) != 0) {
        return err_set(err, ERR_STATE,
                       "the jobs of %s are being moved into it; --store-import %s goes on with "
                       "that",
                       dir, dir);
    }
    char *away = mem_printf("%s" MOVED, path);
    const bool whole = there || file_exists(away);
    free(away);
    return blank == under_way + NUMBER_BYTES && whole && is_marked(path, under_way)
               ? 0
               : err_set(err, ERR_STATE,
                         "the jobs of %s are being moved from another host; start the master there",
                         dir);
}

static int begin(struct store *into, const char *state_dir, bool there, struct err *err)
{
    size_t jobs = 0;
    int rc = there ? count_jobs(of(into), &jobs, err) : 0;
    return rc == 0 && jobs > 0
               ? err_set(err, ERR_STATE, "it has %zu job%s of its own, so those of %s stay there",
                         jobs, jobs == 1 ? "" : "s", state_dir)
               : rc;
}

/* All is there: the text goes, and then its number. */
static int end(struct store *into, const char *path, struct err *err)
{
    int rc = into->ops->put_text(into, IMPORT, "", err);
    char *file = mem_printf("%s" NUMBER, path);
    if (rc == 0) {
        (void)unlink(file);
    }
    free(file);
    return rc;
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
    if (rc == 0) {
        rc = goes_on ? go_on(state_dir, path, buf_str(&under_way), there, &local)
                     : begin(into, state_dir, there, &local);
    }
    if (rc == 0 && there) {
        rc = copy(of(into), state_dir, owner, goes_on, moved, &local);
        rc = rc < 0 ? rc : put_away(path, &local);
    }
    if (rc == 0 && (there || goes_on)) {
        rc = end(into, path, &local);
    }
    buf_release(&under_way);
    free(path);
    return rc < 0 ? err_set(err, rc, "move jobs into %s: %s", of(into)->path, local.msg) : 0;
}
