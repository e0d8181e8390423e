/* SPDX-License-Identifier: Apache-2.0 */
/* The control groups that this process is in, v1 and v2: their directories, from its own up to the
 * root of each hierarchy. Limits of every one of them count. */
#ifndef GRADUS_OS_CGROUP_H
#define GRADUS_OS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

enum cgroup_version { CGROUP_V1 = 1, CGROUP_V2 = 2 };

/* Calls @fn for each group of @controller ("memory", "cpu"). @root: "" for this machine; a
 * directory with proc/ and sys/ in it for tests. A directory may not be visible here: in a
 * container the path can be that of the host, and the mount itself is the container's group. */
void cgroup_each(const char *root, const char *controller,
                 void (*fn)(void *ctx, enum cgroup_version version, const char *dir), void *ctx);

/* The first number in the file @dir/@name. False when there is none: no file, or "max". */
bool cgroup_number(const char *dir, const char *name, uint64_t *out);

#endif
