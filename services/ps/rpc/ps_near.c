/* SPDX-License-Identifier: Apache-2.0 */
/* A backup on the host of its primary: by which socket it is reached, and memory through which it
 * is given gradients (shared_memory.h). The primary is to it what a worker is to a server. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/local_socket.h"
#include "ps/rpc/ps_standby.h"

char *ps_near_target(const struct ps *ps, const char *address, bool *near)
{
    char path[LOCAL_SOCKET_BYTES];
    *near = ps->local_sockets != NULL &&
            local_socket_path(ps->local_sockets, address, path, NULL) == 0 &&
            local_socket_answers(path);
    return *near ? mem_printf("unix:%s", path) : mem_strdup(address);
}

struct ps_near *ps_near_new(const struct ps_shard *s)
{
    struct shared_memory *memory;
    if (!s->ps->shared_memory || shared_memory_new(s->elements, &memory, NULL) != 0) {
        return NULL;
    }
    struct ps_near *n = mem_new(1, sizeof *n);
    *n = (struct ps_near){.ps = ps_ref(s->ps), .memory = memory, .elements = s->elements};
    atomic_store(&n->refs, 1);
    return n;
}

struct ps_near *ps_near_ref(struct ps_near *n)
{
    atomic_fetch_add(&n->refs, 1);
    return n;
}

static uint64_t block_bytes(const struct ps_near *n)
{
    return n->elements * sizeof(float);
}

void ps_near_unref(struct ps_near *n)
{
    if (n == NULL || atomic_fetch_sub(&n->refs, 1) != 1) {
        return;
    }
    budget_give(&n->ps->budget, n->paid * block_bytes(n));
    shared_memory_unref(n->memory);
    ps_unref(n->ps);
    free(n);
}

void ps_near_offer(const struct ps_near *n, Gradus__V1__SharedMemory *out)
{
    const struct shared_memory_offer *o = shared_memory_offer(n->memory);
    gradus__v1__shared_memory__init(out);
    out->pid = o->pid;
    out->fd = o->fd;
    out->elements = o->elements;
    out->gradients = o->gradients;
    out->values = o->values;
    out->token.len = sizeof o->token;
    const void *token = o->token; /* messages that are sent are only read */
    memcpy(&out->token.data, &token, sizeof token);
}

float *ps_near_take(struct ps_near *n, uint32_t *block)
{
    const uint32_t i = shared_memory_take_gradient(n->memory);
    if (i == SHARED_MEMORY_NONE) {
        return NULL;
    }
    if (i >= n->paid) { /* the lowest is taken first */
        if (budget_take(&n->ps->budget, block_bytes(n), "a gradient for the backup", NULL) != 0) {
            shared_memory_return_gradient(n->memory, i);
            return NULL;
        }
        n->paid++;
    }
    *block = i;
    return shared_memory_gradient(n->memory, i);
}

void ps_near_return(struct ps_near *n, uint32_t block)
{
    shared_memory_return_gradient(n->memory, block);
}
