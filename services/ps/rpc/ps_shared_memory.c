/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a stream's client (shared_memory.h) as its server uses them: within the limit on
 * gradients.
 *
 * What the server touches of them counts in its resident memory. A gradient in a block takes room
 * in the budget for gradients before it is read, as one that comes in messages does; the pages of
 * blocks that nobody uses right now stay mapped as long as the budget has room for them. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_stream.h"

/* Touched before it is asked whether they may stay: 1 MiB. */
#define FILL_ELEMENTS (UINT64_C(1) << 18)

struct ps_block {
    struct gradient_view view;
    const struct shared_memory *of;
    float *memory;
};

struct ps_shared_memory {
    atomic_uint refs; /* the stream's, and one for each gradient */
    struct ps_shard *shard;
    struct shared_memory *memory;
    uint32_t gradient_count, value_count;
    struct ps_block gradients[SHARED_MEMORY_BLOCKS_MAX], values[SHARED_MEMORY_BLOCKS_MAX];
};

static void drop(struct gradient_view *v)
{
    const struct ps_block *block = (struct ps_block *)(void *)v; /* the first member */
    shared_memory_drop(block->of, block->memory);
}

static void block_init(struct ps_block *block, const struct ps_shared_memory *w, float *memory)
{
    *block = (struct ps_block){
        .view = {.bytes = w->shard->elements * sizeof(float), .drop = drop},
        .of = w->memory,
        .memory = memory,
    };
}

struct ps_shared_memory *ps_shared_memory_open(struct ps_shard *s,
                                               const Gradus__V1__SharedMemory *m)
{
    struct shared_memory_offer offer = {
        .pid = m->pid,
        .fd = m->fd,
        .elements = m->elements,
        .gradients = m->gradients,
        .values = m->values,
    };
    struct shared_memory *memory;
    if (m->token.len != sizeof offer.token) {
        return NULL;
    }
    memcpy(offer.token, m->token.data, sizeof offer.token);
    if (shared_memory_open(&offer, s->elements, &memory, NULL) != 0) {
        return NULL;
    }
    struct ps_shared_memory *w = mem_new(1, sizeof *w);
    atomic_store(&w->refs, 1);
    w->shard = s;
    w->memory = memory;
    w->gradient_count = offer.gradients;
    w->value_count = offer.values;
    for (uint32_t i = 0; i < w->gradient_count; i++) {
        block_init(&w->gradients[i], w, shared_memory_gradient(memory, i));
    }
    for (uint32_t i = 0; i < w->value_count; i++) {
        block_init(&w->values[i], w, shared_memory_values(memory, i));
    }
    return w;
}

void ps_shared_memory_unref(struct ps_shared_memory *w)
{
    if (w == NULL || atomic_fetch_sub(&w->refs, 1) != 1) {
        return;
    }
    struct gradient_memory *memory = &w->shard->ps->gradient_memory;
    for (uint32_t i = 0; i < w->gradient_count; i++) {
        gradient_view_forget(memory, &w->gradients[i].view);
    }
    for (uint32_t i = 0; i < w->value_count; i++) {
        gradient_view_forget(memory, &w->values[i].view);
    }
    shared_memory_unref(w->memory);
    free(w);
}

static void give_back(struct buffer *b)
{
    struct ps_shared_memory *w = b->owner;
    gradient_pool_exit(&w->shard->gradients, &w->gradients[b->block].view);
    shared_memory_give_gradient(w->memory, b->block);
    ps_shared_memory_unref(w);
}

int ps_shared_memory_gradient(struct ps_shared_memory *w, uint32_t number,
                              struct gradient_wait *waiter, struct buffer **out, struct err *err)
{
    uint32_t i = number - 1;
    if (w == NULL || !shared_memory_hold_gradient(w->memory, i)) {
        return err_set(err, ERR_INVALID, "gradient block %" PRIu32 " is not open, or in use",
                       number);
    }
    int rc = gradient_pool_enter(&w->shard->gradients, waiter, &w->gradients[i].view, err);
    if (rc != 0) {
        shared_memory_leave_gradient(w->memory, i);
        return rc;
    }
    atomic_fetch_add(&w->refs, 1);
    *out = buffer_borrow(&w->shard->gradients.buffers, w->gradients[i].memory, w, i, give_back);
    return 0;
}

void ps_shared_memory_decline(struct ps_shared_memory *w, uint32_t number)
{
    if (shared_memory_hold_gradient(w->memory, number - 1)) {
        shared_memory_give_gradient(w->memory, number - 1);
    }
}

bool ps_shared_memory_has_values(const struct ps_shared_memory *w, uint32_t number)
{
    return w != NULL && shared_memory_has_values(w->memory, number - 1);
}

void ps_shared_memory_fill(struct ps_shared_memory *w, uint32_t number, const float *values,
                           uint64_t first, uint64_t end)
{
    struct ps_block *block = &w->values[number - 1];
    for (uint64_t at = first; at < end; at += FILL_ELEMENTS) {
        uint64_t n = end - at < FILL_ELEMENTS ? end - at : FILL_ELEMENTS;
        shared_memory_copy(w->shard->elements, block->memory + at, values + at, n);
        gradient_view_touched(&w->shard->ps->gradient_memory, &block->view);
    }
}
