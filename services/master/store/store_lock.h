/* SPDX-License-Identifier: Apache-2.0 */
/* One master at a time uses a state directory. */
#ifndef GRADUS_MASTER_STORE_STORE_LOCK_H
#define GRADUS_MASTER_STORE_STORE_LOCK_H

#include "base/err.h"

/* @fd: holds the lock until it is closed; it may be open after an error, too (-1: it is not).
 * @owner is shown to who tries meanwhile. Errors: ERR_STATE another master has it, named; those of
 * opening a file. */
int store_lock(const char *state_dir, const char *owner, int *fd, struct err *err);

#endif
