/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on open files. The kernel frees one when its process ends, however that ends. */
#ifndef GRADUS_OS_FILE_LOCK_H
#define GRADUS_OS_FILE_LOCK_H

#include <stdbool.h>

#include "base/err.h"

enum file_lock_kind {
    FILE_LOCK_ALONE,  /* nobody else has it */
    FILE_LOCK_SHARED, /* nobody else has it alone */
};

/* Locks @fd until it is closed; @wait: as long as that takes. @path is for messages.
 * Errors: ERR_STATE another process has it (without @wait); ERR_UNSUPPORTED the file system has no
 * locks, as some network file systems have none; else what the system says. */
int file_lock(int fd, const char *path, enum file_lock_kind kind, bool wait, struct err *err);

#endif
