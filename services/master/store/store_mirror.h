/* SPDX-License-Identifier: Apache-2.0 */
/* A store whose rows somebody else keeps: a database in memory that is filled from there and hands
 * over every change. */
#ifndef GRADUS_MASTER_STORE_STORE_MIRROR_H
#define GRADUS_MASTER_STORE_STORE_MIRROR_H

#include "master/store/store.h"
#include "master/store/store_journal.h"

struct store_mirror {
    const char *name; /* of where the rows are, for messages; copied */
    /* Puts all rows into @db with store_journal_restore(). */
    int (*restore)(void *ctx, sqlite3 *db, struct err *err);
    void *ctx;
    struct store_journal *journal; /* outlives the store */
};

/* Errors: those of restore(). */
int store_mirror_open(const struct store_mirror *mirror, struct store **out, struct err *err);

#endif
