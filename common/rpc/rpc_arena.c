/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking multiplies: 1 MiB of empty sub-messages becomes 56 MiB of structs. So memory for one
 * message is counted, and a message that asks for too much fails to unpack; so does one for which
 * too little is left of what a server may hold of all messages together. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/recycle.h"
#include "rpc/rpc_codec.h"

#define CHUNK_BYTES 2048

struct rpc_arena_chunk {
    struct rpc_arena_chunk *next;
    size_t used;
    size_t bytes;
    max_align_t data[];
};

/* Chunks of the usual size, one for each message that is being looked at. */
static struct recycler chunks = RECYCLER(sizeof(struct rpc_arena_chunk) + CHUNK_BYTES, 256);

void rpc_arena_init(struct rpc_arena *a, size_t bytes_max, struct rpc_account *account)
{
    *a = (struct rpc_arena){.bytes_max = bytes_max, .account = account};
}

void rpc_arena_release(struct rpc_arena *a)
{
    for (struct rpc_arena_chunk *c = a->chunks; c;) {
        struct rpc_arena_chunk *next = c->next;
        if (c->bytes == CHUNK_BYTES) {
            recycler_give(&chunks, c);
        } else {
            free(c);
        }
        c = next;
    }
    a->chunks = NULL;
}

void *rpc_arena_alloc(struct rpc_arena *a, size_t bytes)
{
    const size_t align = sizeof(max_align_t);
    if (bytes > SIZE_MAX / 2) {
        a->exceeded = true;
        return NULL;
    }
    size_t need = (bytes + align - 1) / align * align;
    if (need > a->bytes_max - a->used) {
        a->exceeded = true;
        return NULL;
    }
    struct rpc_arena_chunk *c = a->chunks;
    if (!c || c->bytes - c->used < need) {
        size_t size = need > CHUNK_BYTES / 4 ? need : CHUNK_BYTES;
        if (a->account && !rpc_account_add(a->account, size)) {
            a->exceeded = a->account_full = true;
            return NULL;
        }
        a->charged += a->account ? size : 0;
        c = size == CHUNK_BYTES ? recycler_take(&chunks) : malloc(sizeof(*c) + size);
        if (!c) {
            a->exceeded = true;
            return NULL;
        }
        *c = (struct rpc_arena_chunk){.bytes = size};
        /* A big block is used up at once; the half-full chunk stays in front. */
        if (a->chunks && size == need) {
            c->next = a->chunks->next;
            a->chunks->next = c;
        } else {
            c->next = a->chunks;
            a->chunks = c;
        }
    }
    void *p = (unsigned char *)c->data + c->used;
    c->used += need;
    a->used += need;
    return p;
}

static void *arena_alloc(void *data, size_t bytes)
{
    return rpc_arena_alloc(data, bytes);
}

static void arena_free(void *data, void *p)
{
    (void)data;
    (void)p;
}

ProtobufCAllocator rpc_arena_allocator(struct rpc_arena *a)
{
    return (ProtobufCAllocator){.alloc = arena_alloc, .free = arena_free, .allocator_data = a};
}
