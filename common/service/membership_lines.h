/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines (os/log_tail.h) that a node's heartbeat takes to its master. */
#ifndef GRADUS_SERVICE_MEMBERSHIP_LINES_H
#define GRADUS_SERVICE_MEMBERSHIP_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "gradus/v1/cluster.pb-c.h"

#define MEMBERSHIP_LINES_BYTES_MAX 32768 /* of text in one heartbeat */

struct membership_lines {
    struct log_tail_line *read;
    Gradus__V1__NodeLine *items, **list;
    size_t count;
    uint64_t last; /* the number of the last one; 0: there is none */
};

/* The oldest lines that were not told of. */
struct membership_lines *membership_lines_new(void);
void membership_lines_free(struct membership_lines *lines);

#endif
