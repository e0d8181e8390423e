/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_targets.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_grpc.h"

static int add(struct rpc_targets *t, const char *name, size_t bytes, struct err *err)
{
    char *copy = mem_printf("%.*s", (int)bytes, name);
    int rc =
        !rpc_address_is_valid(copy)
            ? err_set(err, ERR_INVALID, "target \"%.300s\": expected host:port or unix:/path", copy)
        : t->count == RPC_TARGETS_MAX
            ? err_set(err, ERR_INVALID, "more than %d addresses", RPC_TARGETS_MAX)
            : 0;
    if (rc < 0) {
        free(copy);
        return rc;
    }
    t->names[t->count++] = copy;
    return 0;
}

int rpc_targets_read(struct rpc_targets *t, const char *list, struct err *err)
{
    *t = (struct rpc_targets){.count = 0};
    const bool path = strncmp(list, "unix:", 5) == 0; /* it may have commas */
    int rc = 0;
    for (const char *at = list; rc == 0 && at != NULL;) {
        const size_t n = path ? strlen(at) : strcspn(at, ",");
        rc = add(t, at, n, err);
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    if (rc < 0) {
        rpc_targets_release(t);
    }
    return rc;
}

void rpc_targets_release(struct rpc_targets *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->names[i]);
    }
    *t = (struct rpc_targets){.count = 0};
}

bool rpc_targets_next(struct rpc_targets *t)
{
    t->at = (t->at + 1) % t->count;
    return t->count > 1;
}

bool rpc_targets_choose(struct rpc_targets *t, const char *name, size_t bytes)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strlen(t->names[i]) == bytes && memcmp(t->names[i], name, bytes) == 0) {
            t->at = i;
            return true;
        }
    }
    if (add(t, name, bytes, NULL) < 0) {
        return false;
    }
    t->at = t->count - 1;
    return true;
}
