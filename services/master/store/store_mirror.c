/* SPDX-License-Identifier: Apache-2.0 */
#include "master/store/store_mirror.h"

#include "base/mem.h"
#include "master/store/store_points.h"
#include "master/store/store_schema.h"
#include "master/store/store_sqlite.h"

static int run(struct sqlite_store *s, const char *sql, struct err *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_sqlite_fail(s, err);
}

/* Without SQLITE_OPEN_MEMORY, which databases that are attached would have, too. */
static int make_tables(struct sqlite_store *s, struct err *err)
{
    int application = 0, version = 0;
    return sqlite3_open_v2(":memory:", &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) ==
                       SQLITE_OK &&
                   store_schema_update(s->db, &application, &version) == SQLITE_OK
               ? 0
               : store_sqlite_fail(s, err);
}

static int watch(struct sqlite_store *s, struct err *err)
{
    return store_points_count(s->db, &s->points) == SQLITE_OK &&
                   store_journal_watch(s->journal, s->db) == SQLITE_OK
               ? 0
               : store_sqlite_fail(s, err);
}

int store_mirror_open(const struct store_mirror *mirror, struct store **out, struct err *err)
{
    struct sqlite_store *s = mem_new(1, sizeof *s);
    s->base.ops = &store_sqlite_ops;
    s->lock_fd = -1;
    s->path = mem_strdup(mirror->name);
    s->journal = mirror->journal;
    int rc = make_tables(s, err);
    rc = rc < 0 ? rc : run(s, "BEGIN", err);
    rc = rc < 0 ? rc : mirror->restore(mirror->ctx, s->db, err);
    rc = rc < 0 ? rc : run(s, "COMMIT", err);
    rc = rc < 0 ? rc : watch(s, err);
    rc = rc < 0 ? rc : store_sqlite_prepare(s, err);
    if (rc < 0) {
        store_sqlite_ops.close(&s->base);
        return err_wrap(err, "open the store");
    }
    *out = &s->base;
    return 0;
}
