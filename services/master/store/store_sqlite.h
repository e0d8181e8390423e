/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a database of SQLite, as the files see it that open one. */
#ifndef GRADUS_MASTER_STORE_STORE_SQLITE_H
#define GRADUS_MASTER_STORE_STORE_SQLITE_H

#include <sqlite3.h>

#include "master/store/store.h"
#include "master/store/store_journal.h"

#define STORE_SQLITE_STATEMENTS 7

struct sqlite_store {
    struct store base;
    int lock_fd; /* -1: none */
    char *path;  /* or another name of it, for messages; owned */
    sqlite3 *db;
    sqlite3_stmt *statements[STORE_SQLITE_STATEMENTS];
    size_t points;                 /* of all curves */
    struct store_journal *journal; /* NULL: nobody else keeps its rows */
};

extern const struct store_ops store_sqlite_ops; /* close() also frees one that was opened in part */

/* What SQLite says, as an error. */
int store_sqlite_fail(const struct sqlite_store *s, struct err *err);
/* When the tables are there. */
int store_sqlite_prepare(struct sqlite_store *s, struct err *err);
void store_sqlite_close_database(struct sqlite_store *s);

#endif
