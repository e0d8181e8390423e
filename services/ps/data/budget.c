/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates arrays of floats within the limit of memory of a parameter server. Large ones begin at
 * staggered addresses, so that arrays read together do not push each other out of the cache. */
#include "ps/data/budget.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/mem.h"

/* A page and four lines: neighbours differ in the sets of both cache levels. */
#define STAGGER_BYTES (4096 + 256)
#define STAGGER_PLACES 16
#define STAGGER_FROM_BYTES (256U << 10) /* smaller arrays stay in the cache in any case */
/* Larger arrays leave the process when they are freed. */
#define PAGES_FROM_BYTES (1U << 20)

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

static void *cold_pages(size_t bytes, const char *what, struct err *err)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        (void)err_set(err, ERR_EXHAUSTED, "%s: no memory for %zu bytes", what, bytes);
        return NULL;
    }
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static int init(struct floats *f, uint64_t floats, unsigned place, struct budget *budget,
                const char *what, void *(*pages)(size_t, const char *, struct err *),
                struct err *err)
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
    void *memory =
        bytes >= PAGES_FROM_BYTES ? pages(bytes, what, err) : mem_try_aligned(bytes, 1, what, err);
    if (memory == NULL) {
        if (budget != NULL) {
            budget_give(budget, bytes);
        }
        return ERR_EXHAUSTED;
    }
    *f = (struct floats){(float *)(void *)((char *)memory + shift), memory, bytes};
    return 0;
}

int floats_init(struct floats *f, uint64_t floats, unsigned place, struct budget *budget,
                const char *what, struct err *err)
{
    return init(f, floats, place, budget, what, mem_try_pages, err);
}

int floats_init_cold(struct floats *f, uint64_t floats, unsigned place, struct budget *budget,
                     const char *what, struct err *err)
{
    return init(f, floats, place, budget, what, cold_pages, err);
}

void floats_release(struct floats *f, struct budget *budget)
{
    if (f->bytes >= PAGES_FROM_BYTES) {
        mem_free_pages(f->memory, f->bytes);
    } else {
        free(f->memory);
    }
    if (budget != NULL) {
        budget_give(budget, f->bytes);
    }
    *f = (struct floats){0};
}
