/* SPDX-License-Identifier: Apache-2.0 */
#include "master/store/store_damage.h"

#include <string.h>

#include <sqlite3.h>

#include "master/store/store_schema.h"

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

int store_damage_error(const char *state_dir, struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "%s/master.db is damaged, and was not changed. Start with another --state-dir, "
                   "where a new job goes on from a checkpoint of an old one that its key `from` "
                   "names; or have back what can still be read: cd '%s' && "
                   "(sqlite3 master.db .dump | sed 's/^ROLLBACK.*/COMMIT;/'; "
                   "echo 'PRAGMA application_id = %d; PRAGMA user_version = %d;') | "
                   "sqlite3 recovered.db && mkdir damaged && mv master.db* damaged && "
                   "mv recovered.db master.db",
                   state_dir, state_dir, APPLICATION_ID, SCHEMA_VERSION);
}
