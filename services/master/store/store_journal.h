/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that a transaction of SQLite changes, handed to somebody who keeps them elsewhere before
 * the transaction ends: it is rolled back when that fails. Statements are watched by triggers, so
 * what changes rows needs to know nothing of it.
 *
 * A row has a key, "job/digits-1", and a value, a packed gradus.v1.StoredRow.
 *
 * Owner: the thread of its database. */
#ifndef GRADUS_MASTER_STORE_STORE_JOURNAL_H
#define GRADUS_MASTER_STORE_STORE_JOURNAL_H

#include <stdbool.h>

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"

struct journal_change {
    char *key;
    struct buf before, after;
    bool was, is; /* is there a row before, and after? */
    bool last;    /* it was the last row whose key begins as this one, up to the last '/' */
};

struct store_journal {
    struct journal_change *changes; /* of the transaction under way, in their order */
    size_t count, capacity;
    /* Keeps @changes, all or none; may leave what is in them empty. Must not use the database. */
    int (*commit)(void *ctx, struct journal_change *changes, size_t count, struct err *err);
    void *ctx;
    struct err refused; /* why the last transaction was rolled back */
};

/* Watches @db, whose tables are there, from now on. @j outlives it. Returns what SQLite says. */
int store_journal_watch(struct store_journal *j, sqlite3 *db);
/* Before that: puts back a row that was handed over once. Errors: ERR_CORRUPT it is none. */
int store_journal_restore(sqlite3 *db, const char *key, const void *value, size_t bytes,
                          struct err *err);
/* What @key begins with when it is that of a row: "job/", by their number; NULL: no more. */
const char *store_journal_prefix(size_t table);

void journal_changes_release(struct journal_change *changes, size_t count);

#endif
