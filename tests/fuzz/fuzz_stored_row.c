/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the master's store as values of etcd (master/store/store_journal.c): a key and, behind a
 * newline, its value. What was put back is handed over as it is, and can be put back again. */
#include "fuzz/fuzz.h"

#include <stdlib.h>

#include "master/store/store_journal.h"
#include "master/store/store_schema.h"

static sqlite3 *open_tables(void)
{
    sqlite3 *db = NULL;
    int application = 0, version = 0;
    fuzz_require(sqlite3_open(":memory:", &db) == SQLITE_OK &&
                     store_schema_update(db, &application, &version) == SQLITE_OK,
                 "tables are made");
    return db;
}

static int put_back(void *ctx, struct journal_change *changes, size_t count, struct err *err)
{
    (void)ctx;
    sqlite3 *db = open_tables();
    for (size_t i = 0; i < count; i++) {
        fuzz_require(changes[i].was && !changes[i].is, "a row that is removed was there");
        fuzz_require(store_journal_restore(db, changes[i].key, changes[i].before.data,
                                           changes[i].before.len, err) == 0,
                     "what was handed over is put back");
    }
    (void)sqlite3_close(db);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct store_journal journal = {.commit = put_back};
    struct err err = {0};
    char *key = fuzz_text(&in, '\n');
    sqlite3 *db = open_tables();
    int rc = store_journal_restore(db, key, in.data, in.n, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        fuzz_require(store_journal_watch(&journal, db) == SQLITE_OK, "the tables are watched");
        (void)sqlite3_exec(db, "DELETE FROM job; DELETE FROM text; DELETE FROM point", NULL, NULL,
                           NULL);
    }
    (void)sqlite3_close(db);
    journal_changes_release(journal.changes, journal.count);
    free(journal.changes);
    free(key);
    return 0;
}
