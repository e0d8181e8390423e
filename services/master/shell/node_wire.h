/* SPDX-License-Identifier: Apache-2.0 */
/* A node as the message that clients get. */
#ifndef GRADUS_MASTER_SHELL_NODE_WIRE_H
#define GRADUS_MASTER_SHELL_NODE_WIRE_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/core/master.h"

#define NODE_WIRE_STRINGS 6

struct node_wire {
    Gradus__V1__NodeInfo info;
    char *strings[NODE_WIRE_STRINGS];
    char **jobs;
};

/* Copies @n; the message is valid until node_wire_release(). */
void node_wire_init(struct node_wire *w, const struct master_node_info *n);
void node_wire_release(struct node_wire *w);
/* Appends the message as JSON. */
void node_wire_json(const struct master_node_info *n, struct buf *out);

#endif
