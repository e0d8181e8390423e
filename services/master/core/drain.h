/* SPDX-License-Identifier: Apache-2.0 */
/* A node that is to be emptied, as clients ask for it and hear of it. Plain data. */
#ifndef GRADUS_MASTER_CORE_DRAIN_H
#define GRADUS_MASTER_CORE_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct master_drain_event {
    const char *node;
    bool undo;
};

struct master_held { /* by the node, of a job */
    const char *job;
    const uint32_t *primaries, *backups; /* shards */
    size_t primary_count, backup_count;
    bool works;          /* it is one of its workers */
    const char *problem; /* why nothing of that can leave now; NULL: it will, or is being closed */
};

struct master_drained {
    bool draining, changed; /* the latter: by this request */
    const struct master_held *held;
    size_t count;
};

#endif
