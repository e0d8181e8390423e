/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this host has, and has left: by the kernel's count and by the limits of the
 * control groups (v1 and v2) that this process is in, whichever is less. */
#ifndef GRADUS_OS_HOST_MEMORY_H
#define GRADUS_OS_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct host_memory {
    uint64_t total;     /* bytes; 0: not known */
    uint64_t available; /* that new processes may take without pushing others out */
    bool limited;       /* by a control group, not by the machine */
};

/* @root: "" for this machine's; a directory with proc/ and sys/ in it for tests. */
struct host_memory host_memory(const char *root);

#endif
