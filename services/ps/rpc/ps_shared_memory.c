/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a stream's client (shared_memory.h) as its server uses them: within the limit on
 * gradients.
 *
 * Pages of blocks that the server touches count as its resident memory. A gradient in a block takes
 * room in the budget for gradients before it is read, as a gradient in messages does; the pages of
 * unused blocks stay mapped as long as the budget has room for them. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_stream.h"

/* Touched before it is asked whether they may stay: 1 MiB. */
#define FILL_ELEMENTS (UINT64_C(1) << 18)
#define ROWS_ELEMENTS_MAX                                                                          \
    (UINT64_C(1) << 28) /* bytes of a block for rows, most of which nobody touches */

struct ps_block {
    struct gradient_view view;
    const struct shared_memory *of;
    float *memory;
};

struct ps_shared_memory {
    atomic_uint refs; /* the stream's, and one for each gradient */
    struct ps_shard *shard;
    struct shared_memory *memory;
    uint64_t elements; /* of each block */
    uint32_t gradient_count, value_count;
    struct ps_block gradients[SHARED_MEMORY_BLOCKS_MAX], values[SHARED_MEMORY_BLOCKS_MAX];
};

static void drop(struct gradient_view *v)
{
    const struct ps_block *block = (struct ps_block *)(void *)v; /* the first member */
    shared_memory_drop(block->of, block->memory);
}

/* @bytes are touched with each use, or none yet. */
static void block_init(struct ps_block *block, const struct ps_shared_memory *w, uint64_t bytes,
                       float *memory)
{
    *block = (struct ps_block){
        .view = {.bytes = bytes, .drop = drop},
        .of = w->memory,
        .memory = memory,
    };
}

bool ps_shared_memory_may_open(const struct ps *ps, struct rpc_call *call)
{
    return ps->shared_memory && strncmp(rpc_peer(call), "unix:", 5) == 0;
}

struct ps_shared_memory *ps_shared_memory_open(struct ps_shard *s, bool rows,
                                               const Gradus__V1__SharedMemory *m)
{
    const uint64_t elements = rows ? m->elements : s->elements;
    struct shared_memory_offer offer = {
        .pid = m->pid,
        .fd = m->fd,
        .elements = m->elements,
        .gradients = m->gradients,
        .values = m->values,
    };
    struct shared_memory *memory;
    if (m->token.len != sizeof offer.token || (rows && elements > ROWS_ELEMENTS_MAX)) {
        return NULL;
    }
    memcpy(offer.token, m->token.data, sizeof offer.token);
    if (shared_memory_open(&offer, elements, &memory, NULL) != 0) {
        return NULL;
    }
    struct ps_shared_memory *w = mem_new(1, sizeof *w);
    atomic_store(&w->refs, 1);
    w->shard = s;
    w->memory = memory;
    w->elements = elements;
    const uint64_t bytes = rows ? 0 : elements * sizeof(float);
    w->gradient_count = offer.gradients;
    w->value_count = offer.values;
    for (uint32_t i = 0; i < w->gradient_count; i++) {
        block_init(&w->gradients[i], w, bytes, shared_memory_gradient(memory, i));
    }
    for (uint32_t i = 0; i < w->value_count; i++) {
        block_init(&w->values[i], w, bytes, shared_memory_values(memory, i));
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

struct shared_notes_memory *ps_shared_memory_notes(const struct ps_shared_memory *w)
{
    return shared_memory_notes(w->memory);
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
        shared_memory_copy(w->elements, block->memory + at, values + at, n);
        shared_memory_tell_filled(w->memory, number - 1, at + n);
        gradient_view_touched(&w->shard->ps->gradient_memory, &block->view, block->view.bytes);
    }
}

/* ---- rows ---- */

int ps_shared_memory_hold(struct ps_shared_memory *w, uint32_t number, uint64_t bytes,
                          const unsigned char **out, struct err *err)
{
    const uint32_t i = number - 1;
    if (w == NULL || bytes > w->elements * sizeof(float) ||
        !shared_memory_hold_gradient(w->memory, i)) {
        return err_set(err, ERR_INVALID,
                       "block %" PRIu32 " for rows is not open, in use, or has no %" PRIu64
                       " bytes",
                       number, bytes);
    }
    struct ps_block *block = &w->gradients[i];
    gradient_view_touched(&w->shard->ps->gradient_memory, &block->view, bytes);
    *out = (const unsigned char *)block->memory;
    return 0;
}

/* Counts the pages again: reading may have brought them back after they were dropped. */
static void touched_again(struct ps_shared_memory *w, struct ps_block *block)
{
    gradient_view_touched(&w->shard->ps->gradient_memory, &block->view, 0);
}

void ps_shared_memory_give(struct ps_shared_memory *w, uint32_t number)
{
    touched_again(w, &w->gradients[number - 1]);
    shared_memory_give_gradient(w->memory, number - 1);
}

void ps_shared_memory_leave(struct ps_shared_memory *w, uint32_t number)
{
    touched_again(w, &w->gradients[number - 1]);
    shared_memory_leave_gradient(w->memory, number - 1);
}

float *ps_shared_memory_rows(struct ps_shared_memory *w, uint32_t number, uint64_t floats)
{
    const bool fits =
        w != NULL && floats <= w->elements && shared_memory_has_values(w->memory, number - 1);
    return fits ? w->values[number - 1].memory : NULL;
}

void ps_shared_memory_filled(struct ps_shared_memory *w, uint32_t number, uint64_t floats)
{
    gradient_view_touched(&w->shard->ps->gradient_memory, &w->values[number - 1].view,
                          floats * sizeof(float));
}
