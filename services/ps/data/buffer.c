/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient buffers that are used again: who needs one takes one that was used before. */
#include "ps/data/buffer.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ps/data/shard_tables.h"

void buffer_pool_init(struct buffer_pool *p, uint64_t floats, size_t count_max,
                      struct budget *budget)
{
    *p = (struct buffer_pool){.budget = budget, .floats = floats, .count_max = count_max};
    pthread_mutex_init(&p->lock, NULL);
}

/* The budget is the caller's matter. */
static void free_buffer(struct buffer_pool *p, struct buffer *b)
{
    p->count--;
    floats_release(&b->floats, NULL);
    free(b->norms);
    free(b);
}

void buffer_pool_release(struct buffer_pool *p)
{
    while (p->unused != NULL) {
        struct buffer *b = p->unused;
        p->unused = b->next;
        free_buffer(p, b);
        p->reserved++;
    }
    while (p->unused_borrowed != NULL) {
        struct buffer *b = p->unused_borrowed;
        p->unused_borrowed = b->next;
        free(b->norms);
        free(b);
    }
    assert(p->count == 0);
    budget_give(p->budget, p->reserved * floats_bytes_max(p->floats));
    pthread_mutex_destroy(&p->lock);
}

uint64_t buffer_pool_bytes(struct buffer_pool *p)
{
    pthread_mutex_lock(&p->lock);
    uint64_t bytes = (p->count + p->reserved) * floats_bytes_max(p->floats);
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

int buffer_pool_reserve(struct buffer_pool *p, size_t count, const char *what, struct err *err)
{
    uint64_t each = floats_bytes_max(p->floats);
    int rc = 0;
    pthread_mutex_lock(&p->lock);
    size_t have = p->count + p->reserved;
    if (count > have) {
        rc = count - have > UINT64_MAX / 2 / (each + 1)
                 ? err_set(err, ERR_EXHAUSTED, "%zu %s do not fit in memory", count, what)
                 : budget_take(p->budget, (count - have) * each, what, err);
        p->reserved += rc == 0 ? count - have : 0;
    } else {
        size_t surplus = have - count < p->reserved ? have - count : p->reserved;
        budget_give(p->budget, surplus * each);
        p->reserved -= surplus;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

size_t buffer_pool_trim(struct buffer_pool *p, size_t count, size_t reserved)
{
    size_t freed = 0;
    pthread_mutex_lock(&p->lock);
    while (freed < count && p->unused != NULL) {
        struct buffer *b = p->unused;
        p->unused = b->next;
        free_buffer(p, b);
        if (p->count + p->reserved < reserved) {
            p->reserved++;
        } else {
            budget_give(p->budget, floats_bytes_max(p->floats));
        }
        freed++;
    }
    pthread_mutex_unlock(&p->lock);
    return freed;
}

static struct buffer *make(struct buffer_pool *p, size_t count_max, struct err *err)
{
    pthread_mutex_lock(&p->lock);
    if (p->count >= count_max) {
        pthread_mutex_unlock(&p->lock);
        (void)err_set(err, ERR_EXHAUSTED, "%zu buffers are in use already; try again later",
                      count_max);
        return NULL;
    }
    size_t place = p->count++;
    bool reserved = p->reserved > 0;
    p->reserved -= reserved;
    pthread_mutex_unlock(&p->lock);
    struct buffer *b = mem_new(1, sizeof *b);
    b->pool = p;
    atomic_store(&b->refs, 1);
    b->norms = p->norms == 0 ? NULL : mem_new(p->norms, sizeof *b->norms);
    const char *what = "a gradient buffer";
    uint64_t each = floats_bytes_max(p->floats);
    bool paid = reserved || budget_take(p->budget, each, what, err) == 0;
    if (paid && (p->cold ? floats_init_cold : floats_init)(&b->floats, p->floats, (unsigned)place,
                                                           NULL, what, err) == 0) {
        return b;
    }
    free(b->norms);
    free(b);
    budget_give(p->budget, paid && !reserved ? each : 0);
    pthread_mutex_lock(&p->lock);
    p->count--;
    p->reserved += reserved;
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct buffer *buffer_pool_take(struct buffer_pool *p)
{
    pthread_mutex_lock(&p->lock);
    struct buffer *b = p->unused;
    if (b != NULL) {
        p->unused = b->next;
        atomic_store(&b->refs, 1);
        b->has_norms = false;
    }
    pthread_mutex_unlock(&p->lock);
    return b;
}

struct buffer *buffer_pool_make(struct buffer_pool *p, struct err *err)
{
    return make(p, SIZE_MAX, err);
}

struct buffer *buffer_get(struct buffer_pool *p, struct err *err)
{
    struct buffer *b = buffer_pool_take(p);
    return b != NULL ? b : make(p, p->count_max, err);
}

struct buffer *buffer_borrow(struct buffer_pool *p, float *data, void *owner, uint32_t block,
                             void (*give_back)(struct buffer *b))
{
    pthread_mutex_lock(&p->lock);
    struct buffer *b = p->unused_borrowed;
    if (b != NULL) {
        p->unused_borrowed = b->next;
    }
    pthread_mutex_unlock(&p->lock);
    if (b == NULL) {
        b = mem_new(1, sizeof *b);
        b->pool = p;
        b->norms = p->norms == 0 ? NULL : mem_new(p->norms, sizeof *b->norms);
    }
    b->floats.data = data;
    b->owner = owner;
    b->block = block;
    b->give_back = give_back;
    b->has_norms = false;
    atomic_store(&b->refs, 1);
    return b;
}

struct buffer *buffer_ref(struct buffer *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

void buffer_put(struct buffer *b)
{
    if (b == NULL || atomic_fetch_sub(&b->refs, 1) != 1) {
        return;
    }
    struct buffer_pool *p = b->pool;
    tables_gradient_free(b->tables);
    b->tables = NULL;
    bool borrowed = b->give_back != NULL;
    if (borrowed) {
        b->give_back(b);
    }
    pthread_mutex_lock(&p->lock);
    struct buffer **list = borrowed ? &p->unused_borrowed : &p->unused;
    b->next = *list;
    *list = b;
    pthread_mutex_unlock(&p->lock);
    if (p->given_back != NULL && !borrowed) {
        p->given_back(p);
    }
}
