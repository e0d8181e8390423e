/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts: bytes that a server holds of all messages together, and their limit. */
#include <stdlib.h>

#include "base/mem.h"
#include "rpc/rpc_codec.h"

struct rpc_account *rpc_account_new(size_t bytes_max)
{
    struct rpc_account *a = mem_new(1, sizeof(*a));
    atomic_init(&a->refs, 1);
    atomic_init(&a->bytes, 0);
    a->bytes_max = bytes_max;
    return a;
}

struct rpc_account *rpc_account_ref(struct rpc_account *a)
{
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void rpc_account_unref(struct rpc_account *a)
{
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1) {
        free(a);
    }
}

bool rpc_account_add(struct rpc_account *a, size_t bytes)
{
    size_t now = atomic_fetch_add_explicit(&a->bytes, bytes, memory_order_relaxed) + bytes;
    if (now > a->bytes_max) {
        atomic_fetch_sub_explicit(&a->bytes, bytes, memory_order_relaxed);
        return false;
    }
    return true;
}
