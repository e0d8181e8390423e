/* SPDX-License-Identifier: Apache-2.0 */
/* Moves all that a state directory has into a store in etcd, once. */
#ifndef GRADUS_MASTER_STORE_STORE_IMPORT_H
#define GRADUS_MASTER_STORE_STORE_IMPORT_H

#include "master/store/store.h"

/* Copies all rows of @state_dir/master.db into @into, which has no jobs, and renames the file to
 * master.db.moved, so that no master goes on with it. What was interrupted is begun again by the
 * next call. Where there is no such file (any more), and with @state_dir "", nothing is done.
 * @owner: as of store_sqlite_open(). @into: from store_mirror_open(). @moved: how many jobs.
 * Errors: ERR_STATE @into has jobs of its own, or another directory is being moved into it, or
 * one of that name of another host; those of store_sqlite_open() and put(). */
int store_import(struct store *into, const char *state_dir, const char *owner, size_t *moved,
                 struct err *err);

#endif
