/* SPDX-License-Identifier: Apache-2.0 */
/* The servers to which a channel may lead, of which one at a time serves: "a:7000,b:7000". */
#ifndef GRADUS_RPC_RPC_TARGETS_H
#define GRADUS_RPC_RPC_TARGETS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define RPC_TARGETS_MAX 16 /* of a list */

struct rpc_targets {
    char **names; /* first those of the list, then others; they stay until rpc_targets_release() */
    size_t count, capacity;
    size_t listed; /* of the list; they take turns */
    size_t at;
    size_t turn; /* the one of the list that @at is, or that has led to it */
};

/* Errors: ERR_INVALID naming what is no address. */
int rpc_targets_read(struct rpc_targets *t, const char *list, struct err *err);
void rpc_targets_release(struct rpc_targets *t);
/* To the next one of the list, after the last the first; from one that is not in it, to the one
 * behind that which has led there. False: there is only one. */
bool rpc_targets_next(struct rpc_targets *t);
/* To @name, whether it is in the list or not; false: it is no address. */
bool rpc_targets_choose(struct rpc_targets *t, const char *name, size_t bytes);

#endif
