/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded staleness (stale synchronous parallel; Ho et al., "More effective distributed ML via a
 * stale synchronous parallel parameter server", NIPS 2013): no worker reads parameters while it is
 * more than `staleness` batches ahead of the slowest active worker.
 *
 * A worker counts its own batches and says its clock with every request, so that all shards have
 * the same clock for it. With clocks counted by each shard, from the moment when a worker comes to
 * it, two workers could wait for each other, each on another shard. A worker that comes, or comes
 * back, gets its clock from the lead. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "base/text.h"
#include "ps/core/shard_internal.h"

uint32_t shard_worker_find(const struct shard *s, const char *id)
{
    for (uint32_t i = 0; id != NULL && i < s->worker_count; i++) {
        if (strcmp(s->workers[i].id, id) == 0) {
            return i;
        }
    }
    return SHARD_WORKER_NONE;
}

int shard_workers_check(const char *const *ids, size_t count, struct err *err)
{
    if (count > SHARD_WORKERS_MAX) {
        return err_set(err, ERR_INVALID, "%zu workers; at most %d", count, SHARD_WORKERS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        size_t length = strnlen(ids[i], SHARD_WORKER_BYTES);
        if (length == 0 || length == SHARD_WORKER_BYTES) {
            char shown[64];
            return err_set(err, ERR_INVALID, "worker '%s': its id must have 1 to %d bytes",
                           text_shown(ids[i], shown, sizeof shown), SHARD_WORKER_BYTES - 1);
        }
    }
    return 0;
}

#define CLOCK_FIRST 1 /* 0 is outside of all this */

/* True if the worker's clock matters: in bounded mode alone. */
static bool counts(const struct shard *s, uint32_t worker)
{
    return worker != SHARD_WORKER_NONE && s->consistency.mode == TRAINING_BOUNDED;
}

static void update_pace(struct shard *s)
{
    s->pace = UINT64_MAX;
    for (size_t i = 0; i < s->worker_count; i++) {
        if (s->workers[i].active && s->workers[i].clock < s->pace) {
            s->pace = s->workers[i].clock;
        }
    }
}

void shard_workers_set(struct shard *s, const char *const *ids, size_t count,
                       struct shard_actions *out)
{
    struct shard_worker *workers = mem_new(count, sizeof *workers);
    for (size_t i = 0; i < count; i++) {
        uint32_t known = shard_worker_find(s, ids[i]);
        if (known != SHARD_WORKER_NONE) {
            workers[i] = s->workers[known];
            s->workers[known].has_base = false; /* it moved along */
        } else {
            memcpy(workers[i].id, ids[i], strnlen(ids[i], SHARD_WORKER_BYTES - 1));
        }
    }
    shard_policy_forget_all(s, out);
    free(s->workers);
    s->workers = workers;
    s->worker_count = count;
    update_pace(s);
}

void shard_workers_reset(struct shard *s)
{
    for (size_t i = 0; i < s->worker_count; i++) {
        s->workers[i].active = false;
        s->workers[i].clock = 0;
        s->workers[i].session = 0;
        s->workers[i].left = false;
    }
    update_pace(s);
}

/* True if a request is late, of a session that is over. It may have waited in a connection that
 * broke, and its worker has sent it again, got the answer, and said since that it is idle: nobody
 * must wait for it. */
static bool is_over(const struct shard_worker *w, uint64_t session)
{
    return session < w->session || (session == w->session && w->left);
}

/* A worker that joins begins with the clock of the slowest, or with its own of before: a worker's
 * clock never falls. Only the lead is asked; the other shards take the clock that comes with the
 * next request. */
void shard_worker_activate(struct shard *s, uint32_t worker, uint64_t session, bool joins)
{
    if (!counts(s, worker) || is_over(&s->workers[worker], session)) {
        return;
    }
    struct shard_worker *w = &s->workers[worker];
    if (session > w->session) {
        w->session = session;
        w->left = false;
    }
    if (w->active) {
        return;
    }
    if (joins) {
        uint64_t least = s->pace == UINT64_MAX ? CLOCK_FIRST : s->pace;
        w->clock = w->clock > least ? w->clock : least;
    }
    w->active = true;
    update_pace(s);
}

void shard_worker_says(struct shard *s, uint32_t worker, uint64_t clock)
{
    if (!counts(s, worker) || clock <= s->workers[worker].clock) {
        return;
    }
    uint64_t before = s->workers[worker].clock;
    s->workers[worker].clock = clock;
    if (before == s->pace) {
        update_pace(s);
    }
}

void shard_worker_idle(struct shard *s, uint32_t worker, uint64_t session)
{
    if (!counts(s, worker) || session < s->workers[worker].session || MUTANT(idle_worker_counts)) {
        return;
    }
    struct shard_worker *w = &s->workers[worker];
    w->session = session;
    w->left = true;
    w->active = false;
    update_pace(s);
}

bool shard_worker_ahead(const struct shard *s, uint32_t worker)
{
    if (!counts(s, worker) || s->pace == UINT64_MAX) {
        return false;
    }
    uint64_t clock = s->workers[worker].clock;
    return clock > s->pace && clock - s->pace > s->consistency.staleness;
}
