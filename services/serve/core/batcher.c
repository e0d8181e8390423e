/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of what waits. */
#include "serve/core/batcher.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

struct waiting {
    size_t records;
    uint64_t group, since_us;
};

struct batcher {
    struct batcher_options options;
    struct waiting *ring; /* [waiting_max] */
    size_t first, count;
};

struct batcher *batcher_new(const struct batcher_options *options)
{
    assert(options->batch_max > 0 && options->waiting_max > 0);
    struct batcher *b = mem_new(1, sizeof *b);
    b->options = *options;
    b->ring = mem_new(options->waiting_max, sizeof *b->ring);
    return b;
}

void batcher_free(struct batcher *b)
{
    if (b != NULL) {
        free(b->ring);
        free(b);
    }
}

static const struct waiting *at(const struct batcher *b, size_t i)
{
    return &b->ring[(b->first + i) % b->options.waiting_max];
}

bool batcher_add(struct batcher *b, size_t records, uint64_t group, uint64_t now_us)
{
    assert(records <= b->options.batch_max);
    if (b->count == b->options.waiting_max) {
        return false;
    }
    b->ring[(b->first + b->count++) % b->options.waiting_max] =
        (struct waiting){.records = records, .group = group, .since_us = now_us};
    return true;
}

size_t batcher_take(struct batcher *b, uint64_t now_us, uint64_t *wait_us)
{
    *wait_us = UINT64_MAX;
    if (b->count == 0) {
        return 0;
    }
    const struct waiting *first = at(b, 0);
    size_t n = 0, records = 0;
    bool grows = true;
    while (n < b->count && grows) {
        const struct waiting *w = at(b, n);
        grows = w->group == first->group && w->records <= b->options.batch_max - records;
        records += grows ? w->records : 0;
        n += grows;
    }
    grows = grows && records < b->options.batch_max;
    const uint64_t waited = now_us > first->since_us ? now_us - first->since_us : 0;
    if (grows && waited < b->options.delay_us) {
        *wait_us = b->options.delay_us - waited;
        return 0;
    }
    b->first = (b->first + n) % b->options.waiting_max;
    b->count -= n;
    *wait_us = 0;
    return n;
}

size_t batcher_waiting(const struct batcher *b)
{
    return b->count;
}
