/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of gradients that are on their way to a backup, and of all that is large. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_standby.h"

/* NULL: there is no memory. */
static struct ps_copy *copy_new(struct ps_shard *s, bool reserved, struct err *err)
{
    struct ps_copy *c = mem_new(1, sizeof *c);
    *c = (struct ps_copy){.shard = s, .reserved = reserved};
    atomic_store(&c->refs, 1);
    /* where the backup sees blocks it is of no use */
    if (floats_init_cold(&c->floats, s->elements, 3, reserved ? &s->ps->budget : NULL,
                         "a gradient for the backup", err) != 0) {
        free(c);
        return NULL;
    }
    const size_t norms = ps_norms_max(s);
    c->norms = norms == 0 ? NULL : mem_new(norms, sizeof *c->norms);
    return c;
}

/* A block that the backup sees, with a reference. NULL: there is none, or rows of tables may lie
 * behind the values, which go in messages then. */
static struct ps_copy *block_new(const struct ps_copies *all, struct ps_shard *s)
{
    uint32_t block;
    const bool none = all->near == NULL || s->tables != NULL;
    float *data = none ? NULL : ps_near_take(all->near, &block);
    if (data == NULL) {
        return NULL;
    }
    struct ps_copy *c = mem_new(1, sizeof *c);
    *c = (struct ps_copy){.shard = ps_shard_ref(s),
                          .floats = {.data = data},
                          .near = ps_near_ref(all->near),
                          .block = block};
    atomic_store(&c->refs, 1);
    const size_t norms = ps_norms_max(s);
    c->norms = norms == 0 ? NULL : mem_new(norms, sizeof *c->norms);
    return c;
}

static void release(struct ps_copy *c)
{
    if (c->near == NULL) {
        floats_release(&c->floats, c->reserved ? &c->shard->ps->budget : NULL);
        return;
    }
    if (!c->named) {
        ps_near_return(c->near, c->block);
    }
    ps_near_unref(c->near);
}

struct ps_copy *ps_copy_ref(struct ps_copy *c)
{
    atomic_fetch_add(&c->refs, 1);
    (void)ps_shard_ref(c->shard);
    return c;
}

void ps_copy_unref(void *copy)
{
    struct ps_copy *c = copy;
    struct ps_shard *s = c->shard;
    if (atomic_fetch_sub(&c->refs, 1) == 1) {
        release(c);
        free(c->norms);
        free(c);
    }
    ps_shard_unref(s);
}

int ps_copies_reserve(struct ps_copies *all, struct ps_shard *s, size_t count, struct err *err)
{
    while (all->count > count) {
        (void)ps_shard_ref(s); /* this reference has none */
        ps_copy_unref(all->items[--all->count]);
    }
    if (count == 0) {
        free(all->items);
        all->items = NULL;
        all->capacity = 0;
    }
    while (all->count < count) {
        struct ps_copy *c = copy_new(s, true, err);
        if (c == NULL) {
            return ERR_EXHAUSTED;
        }
        all->items = mem_grow(all->items, &all->capacity, all->count + 1, sizeof *all->items);
        all->items[all->count++] = c;
    }
    return 0;
}

/* They are given back in the order in which they were taken. NULL: all are away. */
static struct ps_copy *find_free(struct ps_copies *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const size_t at = (all->next + i) % all->count;
        if (atomic_load(&all->items[at]->refs) == 1) {
            all->next = at;
            return all->items[at];
        }
    }
    return NULL;
}

bool ps_copies_have(struct ps_copies *all, struct ps_shard *s)
{
    if (find_free(all) == NULL && ps_copies_reserve(all, s, all->count + 1, NULL) == 0) {
        all->next = all->count - 1;
    }
    return find_free(all) != NULL;
}

#define COPY_FLOATS (UINT64_C(1) << 18) /* that a thread copies at once */

struct copying {
    float *to;
    const float *from;
    uint64_t floats;
};

static void copy_some(void *ctx, size_t i)
{
    const struct copying *c = ctx;
    const uint64_t at = i * COPY_FLOATS;
    const uint64_t n = c->floats - at < COPY_FLOATS ? c->floats - at : COPY_FLOATS;
    memcpy(c->to + at, c->from + at, n * sizeof(float));
}

void ps_copy_floats(const struct ps_shard *s, float *to, const float *from, uint64_t floats)
{
    struct copying c = {to, from, floats};
    parallel_for(s->ps->team, (floats + COPY_FLOATS - 1) / COPY_FLOATS, copy_some, NULL, &c);
}

struct ps_copy *ps_copies_take(struct ps_copies *all, struct ps_shard *s, const struct buffer *from,
                               struct err *err)
{
    struct ps_copy *c = block_new(all, s);
    struct ps_copy *reserved = c != NULL ? NULL : find_free(all);
    c = reserved != NULL ? ps_copy_ref(reserved) : c;
    if (c == NULL) { /* gRPC has not returned one that was received yet */
        c = copy_new(s, false, err);
        if (c == NULL) {
            return NULL;
        }
        (void)ps_shard_ref(s);
    }
    ps_copy_floats(s, c->floats.data, from->floats.data, s->elements);
    c->has_norms = from->has_norms;
    c->norm_count = from->norm_count;
    if (c->norms != NULL && from->has_norms) {
        memcpy(c->norms, from->norms, from->norm_count * sizeof *c->norms);
    }
    return c;
}
