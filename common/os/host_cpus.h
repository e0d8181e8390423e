/* SPDX-License-Identifier: Apache-2.0 */
/* How much processor time this process may take: by the processors that it may run on and by the
 * quotas of the control groups (v1 and v2) that it is in, whichever is less. */
#ifndef GRADUS_OS_HOST_CPUS_H
#define GRADUS_OS_HOST_CPUS_H

#include <stdbool.h>

struct host_cpus {
    unsigned count; /* threads that are worth while: the next whole number, at least 1 */
    double time;    /* seconds of processor time in a second */
    bool limited;   /* by the quota of a control group */
};

/* @root: "" for this machine's; a directory with proc/ and sys/ in it for tests. */
struct host_cpus host_cpus(const char *root);

#endif
