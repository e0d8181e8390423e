/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which initial values go to which shard, and when. */
#include "worker/core/worker_fill.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mutant.h"

void worker_fill_init(struct worker_fill *f, const uint64_t *elements, uint32_t count,
                      uint64_t chunk)
{
    *f = (struct worker_fill){.count = count, .chunk = chunk};
    f->shards = mem_new(count, sizeof *f->shards);
    for (uint32_t s = 0; s < count; s++) {
        f->shards[s].elements = elements[s];
    }
}

void worker_fill_release(struct worker_fill *f)
{
    free(f->shards);
    *f = (struct worker_fill){0};
}

static bool is_full(const struct worker_fill_shard *s)
{
    return s->asked && s->filled == s->elements;
}

bool worker_fill_next(struct worker_fill *f, uint64_t now_ms, struct worker_fill_part *out)
{
    for (uint32_t i = 0; i < f->count; i++) {
        struct worker_fill_shard *s = &f->shards[i];
        if (s->flying || is_full(s) || s->due_ms > now_ms) {
            continue;
        }
        uint64_t left = s->elements - s->filled;
        *out = (struct worker_fill_part){.shard = i};
        if (s->asked) {
            out->first = s->filled;
            out->count = left < f->chunk ? left : f->chunk;
        }
        s->flying = true;
        return true;
    }
    return false;
}

static bool may_pass(int code)
{
    return code == ERR_UNAVAILABLE || code == ERR_TIMEOUT || code == ERR_CANCELLED ||
           code == ERR_EXHAUSTED || code == ERR_STATE || code == ERR_RANGE;
}

/* Tries again later. Values that were sent may have come all the same, and other workers go on
 * meanwhile. */
static int try_again(struct worker_fill_shard *s, uint64_t now_ms)
{
    s->asked = false;
    if (MUTANT(fill_not_again)) {
        s->due_ms = UINT64_MAX;
        return 0;
    }
    s->due_ms =
        now_ms + backoff_ms(++s->failures, WORKER_FILL_AGAIN_MS_MIN, WORKER_FILL_AGAIN_MS_MAX);
    return 0;
}

int worker_fill_answered(struct worker_fill *f, uint32_t shard, int code, uint64_t filled,
                         uint64_t now_ms)
{
    struct worker_fill_shard *s = &f->shards[shard];
    if (!s->flying) {
        return 0; /* the answer to a request that was given up */
    }
    s->flying = false;
    if (code == 0 && filled > s->elements) {
        return ERR_INTERNAL;
    }
    if (code == 0) {
        s->asked = true;
        s->filled = filled;
        s->failures = 0;
        s->due_ms = 0;
        return 0;
    }
    if (may_pass(code)) {
        return try_again(s, now_ms);
    }
    return code == ERR_NOT_FOUND ? ERR_ABORTED : code;
}

bool worker_fill_done(const struct worker_fill *f)
{
    const uint32_t count = MUTANT(fill_of_the_lead) && f->count > 1 ? 1 : f->count;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_full(&f->shards[i])) {
            return false;
        }
    }
    return true;
}

uint64_t worker_fill_filled(const struct worker_fill *f)
{
    uint64_t filled = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        filled += f->shards[i].filled;
    }
    return filled;
}

uint64_t worker_fill_timer(const struct worker_fill *f)
{
    uint64_t next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < f->count; i++) {
        const struct worker_fill_shard *s = &f->shards[i];
        if (!s->flying && !is_full(s) && s->due_ms < next_ms) {
            next_ms = s->due_ms;
        }
    }
    return next_ms;
}
