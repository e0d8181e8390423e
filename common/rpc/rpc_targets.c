/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_targets.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_grpc.h"

static int add(struct rpc_targets *t, const char *name, size_t bytes, struct err *err)
{
    char *copy = mem_printf("%.*s", (int)bytes, name);
    if (rpc_address_check(copy, err) != 0) {
        free(copy);
        return ERR_INVALID;
    }
    t->names = mem_grow(t->names, &t->capacity, t->count + 1, sizeof *t->names);
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
        rc = t->count == RPC_TARGETS_MAX
                 ? err_set(err, ERR_INVALID, "more than %d addresses", RPC_TARGETS_MAX)
                 : add(t, at, n, err);
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    t->listed = t->count;
    if (rc < 0) {
        rpc_targets_release(t);
    }
    return rc;
}

int rpc_target_check(const char *target, struct err *err)
{
    struct rpc_targets t;
    int rc = rpc_targets_read(&t, target, err);
    if (rc == 0) {
        rpc_targets_release(&t);
    }
    return rc;
}

void rpc_targets_release(struct rpc_targets *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->names[i]);
    }
    free(t->names);
    *t = (struct rpc_targets){.count = 0};
}

bool rpc_targets_next(struct rpc_targets *t)
{
    const size_t before = t->at;
    t->at = t->turn = (t->turn + 1) % t->listed;
    return t->at != before;
}

bool rpc_targets_choose(struct rpc_targets *t, const char *name, size_t bytes)
{
    size_t i = 0;
    while (i < t->count &&
           (strlen(t->names[i]) != bytes || memcmp(t->names[i], name, bytes) != 0)) {
        i++;
    }
    if (i == t->count && add(t, name, bytes, NULL) < 0) {
        return false;
    }
    t->at = i;
    t->turn = i < t->listed ? i : t->turn;
    return true;
}
