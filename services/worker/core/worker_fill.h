/* SPDX-License-Identifier: Apache-2.0 */
/* The core of a worker, before it trains: it brings initial values that only workers know
 * (INIT_GIVEN) to all shards of its job.
 *
 * It asks each shard how far it is filled, and goes on from there, a chunk at a time, until there
 * is nothing left. Other workers do the same, and any of them may be gone: what one has brought
 * nobody brings again. Whatever fails is tried again, unless the shard is none of this start any
 * more, or wants no such values.
 *
 * Owner: the job's thread. No clock, thread or message type inside.
 *
 * Servers begin with zeros that they show to nobody, and one number says how far a shard is filled
 * (decision 56). Repetitions, several workers at once and deaths need no more state than that
 * number, and the master decides nothing: StartJob is answered when all shards are full. All
 * workers send from the same place, so part of what they send comes twice; to share it out would
 * save a few seconds in the life of a job. */
#ifndef GRADUS_WORKER_CORE_WORKER_FILL_H
#define GRADUS_WORKER_CORE_WORKER_FILL_H

#include <stdbool.h>
#include <stdint.h>

#define WORKER_FILL_AGAIN_MS_MIN 100
#define WORKER_FILL_AGAIN_MS_MAX 2000

struct worker_fill_shard {
    uint64_t elements, filled;
    bool asked;  /* `filled` is what the shard has said */
    bool flying; /* a request is under way; one at a time */
    unsigned failures;
    uint64_t due_ms; /* after one */
};

/* Zeroed: there are no initial values to bring. */
struct worker_fill {
    struct worker_fill_shard *shards;
    uint32_t count;
    uint64_t chunk;
};

/* Elements [first, first + count) to bring; none of them: only ask. */
struct worker_fill_part {
    uint32_t shard;
    uint64_t first, count;
};

/* Shards of @elements each (copied), at most @chunk at a time. */
void worker_fill_init(struct worker_fill *f, const uint64_t *elements, uint32_t count,
                      uint64_t chunk);
void worker_fill_release(struct worker_fill *f); /* zeroed is fine */
/* The next values to be sent; they count as under way then. False: nothing, until a request is
 * answered or worker_fill_timer() is due. */
bool worker_fill_next(struct worker_fill *f, uint64_t now_ms, struct worker_fill_part *out);
/* @shard has answered that it has @filled, or failed with @code (ERR_*). Returns 0, or the reason
 * why nothing more will do: ERR_ABORTED it is not there any more, or opened another time; any other
 * one it refuses what it is brought; ERR_INTERNAL it says what cannot be. */
int worker_fill_answered(struct worker_fill *f, uint32_t shard, int code, uint64_t filled,
                         uint64_t now_ms);
bool worker_fill_done(const struct worker_fill *f);       /* all shards have all of their values */
uint64_t worker_fill_filled(const struct worker_fill *f); /* elements that are known to be there */
uint64_t worker_fill_timer(const struct worker_fill *f);  /* UINT64_MAX: none */

#endif
