#include "ps/buffer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A page and four lines: neighbours differ in the sets of both cache levels. */
#define STAGGER_BYTES (4096 + 256)
#define STAGGER_PLACES 16
#define STAGGER_FROM_BYTES                                                                         \
    (256U << 10) /* smaller arrays stay in the cache whatever they compete for */

/* ---- budget ---- */

int budget_take(struct budget *b, uint64_t bytes, const char *what, struct err *err)
{
    uint64_t before = atomic_fetch_add(&b->bytes, bytes);
    if (b->bytes_max == 0 || (bytes <= b->bytes_max && before <= b->bytes_max - bytes)) {
        return 0;
    }
    atomic_fetch_sub(&b->bytes, bytes);
    return err_set(err, ERR_EXHAUSTED,
                   "%s: %" PRIu64 " bytes are too many: %" PRIu64
                   " are in use and memory_bytes_max is %" PRIu64,
                   what, bytes, before, b->bytes_max);
}

void budget_give(struct budget *b, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub(&b->bytes, bytes);
    assert(before >= bytes);
}

static uint64_t stagger_bytes(uint64_t floats, unsigned place)
{
    bool small = floats < STAGGER_FROM_BYTES / sizeof(float);
    return small ? 0 : (uint64_t)(place % STAGGER_PLACES) * STAGGER_BYTES;
}

uint64_t floats_bytes_max(uint64_t floats)
{
    return floats * sizeof(float) + stagger_bytes(floats, STAGGER_PLACES - 1);
}

int floats_init(struct floats *f, uint64_t floats, unsigned place, struct budget *budget,
                const char *what, struct err *err)
{
    if (floats > (SIZE_MAX / 4) / sizeof(float)) {
        return err_set(err, ERR_EXHAUSTED, "%s: %" PRIu64 " floats do not fit in memory", what,
                       floats);
    }
    size_t shift = (size_t)stagger_bytes(floats, place);
    size_t bytes = (size_t)floats * sizeof(float) + shift;
    int rc = budget == NULL ? 0 : budget_take(budget, bytes, what, err);
    if (rc != 0) {
        return rc;
    }
    void *memory = mem_try_aligned(bytes, 1, what, err);
    if (memory == NULL) {
        if (budget != NULL) {
            budget_give(budget, bytes);
        }
        return ERR_EXHAUSTED;
    }
    *f = (struct floats){(float *)(void *)((char *)memory + shift), memory, bytes};
    return 0;
}

void floats_release(struct floats *f, struct budget *budget)
{
    free(f->memory);
    budget_give(budget, f->bytes);
    *f = (struct floats){0};
}

/* ---- pool ---- */

void buffer_pool_init(struct buffer_pool *p, uint64_t floats, size_t count_max,
                      struct budget *budget)
{
    *p = (struct buffer_pool){.budget = budget, .floats = floats, .count_max = count_max};
    pthread_mutex_init(&p->lock, NULL);
}

void buffer_pool_release(struct buffer_pool *p)
{
    while (p->unused != NULL) {
        struct buffer *b = p->unused;
        p->unused = b->next;
        p->count--;
        floats_release(&b->floats, p->budget);
        free(b->norms);
        free(b);
    }
    assert(p->count == 0);
    pthread_mutex_destroy(&p->lock);
}

void buffer_pool_limit(struct buffer_pool *p, size_t count_max)
{
    pthread_mutex_lock(&p->lock);
    p->count_max = count_max;
    pthread_mutex_unlock(&p->lock);
}

uint64_t buffer_pool_bytes(struct buffer_pool *p)
{
    pthread_mutex_lock(&p->lock);
    uint64_t bytes = p->count * p->floats * sizeof(float);
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

static struct buffer *new_buffer(struct buffer_pool *p, size_t place, struct err *err)
{
    struct buffer *b = mem_new(1, sizeof *b);
    b->pool = p;
    b->norms = p->norms == 0 ? NULL : mem_new(p->norms, sizeof *b->norms);
    if (floats_init(&b->floats, p->floats, (unsigned)place, p->budget, "a gradient buffer", err) !=
        0) {
        free(b->norms);
        free(b);
        return NULL;
    }
    return b;
}

struct buffer *buffer_get(struct buffer_pool *p, struct err *err)
{
    pthread_mutex_lock(&p->lock);
    struct buffer *b = p->unused;
    size_t place = p->count;
    if (b != NULL) {
        p->unused = b->next;
    } else if (p->count < p->count_max) {
        p->count++;
    } else {
        pthread_mutex_unlock(&p->lock);
        (void)err_set(err, ERR_EXHAUSTED,
                      "%zu gradient buffers are in use already; try again later", p->count_max);
        return NULL;
    }
    pthread_mutex_unlock(&p->lock);
    if (b == NULL) {
        b = new_buffer(p, place, err);
        if (b == NULL) {
            pthread_mutex_lock(&p->lock);
            p->count--;
            pthread_mutex_unlock(&p->lock);
            return NULL;
        }
    }
    atomic_store(&b->refs, 1);
    b->has_norms = false;
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
    pthread_mutex_lock(&b->pool->lock);
    b->next = b->pool->unused;
    b->pool->unused = b;
    pthread_mutex_unlock(&b->pool->lock);
}
