/* SPDX-License-Identifier: Apache-2.0 */
/* How many more threads this process and its children may start, by the limits of the control
 * groups (v1 and v2) and of the user, whichever is less. Libraries hang or abort when one of theirs
 * cannot be started, so who needs many looks before. */
#ifndef GRADUS_OS_HOST_THREADS_H
#define GRADUS_OS_HOST_THREADS_H

#include <stdint.h>

#include "base/err.h"

struct host_threads {
    uint64_t left; /* threads of processes that are there count; UINT64_MAX: no limit is known */
    const char *reason; /* where the limit is set, for people; NULL: there is none */
};

/* @root: "" for this machine's; a directory with proc/ and sys/ in it for tests. */
struct host_threads host_threads(const char *root);
/* Errors: ERR_EXHAUSTED fewer than @need may be started; says of @what, and where to allow more. */
int host_threads_need(const char *root, uint64_t need, const char *what, struct err *err);

#endif
