/* SPDX-License-Identifier: Apache-2.0 */
/* The servers to which a channel may lead, of which one at a time serves: "a:7000,b:7000". */
#ifndef GRADUS_RPC_RPC_TARGETS_H
#define GRADUS_RPC_RPC_TARGETS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define RPC_TARGETS_MAX 16

struct rpc_targets {
    char *names[RPC_TARGETS_MAX]; /* they stay until rpc_targets_release() */
    size_t count, at;
};

/* Errors: ERR_INVALID naming what is no address. */
int rpc_targets_read(struct rpc_targets *t, const char *list, struct err *err);
void rpc_targets_release(struct rpc_targets *t);
/* To the next one, after the last the first; false: there is only one. */
bool rpc_targets_next(struct rpc_targets *t);
/* To @name, which is added where it is missing; false: it is no address, or too many are known. */
bool rpc_targets_choose(struct rpc_targets *t, const char *name, size_t bytes);

#endif
