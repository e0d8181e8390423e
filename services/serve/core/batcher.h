/* SPDX-License-Identifier: Apache-2.0 */
/* Core: which of the waiting requests are computed together, and when. Requests leave in the order
 * in which they came. The shell has them; here each is a number of records, a group (only requests
 * of one model version are put together) and a time.
 *
 * A batch is due when it cannot grow any more (it is full, the next request does not fit, or is of
 * another group) or when its first request has waited for the delay. With a delay of 0 all waiting
 * requests are due at once, so batches grow only while all threads compute. Owner: one at a time.
 */
#ifndef GRADUS_SERVE_BATCHER_H
#define GRADUS_SERVE_BATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batcher_options {
    size_t batch_max;   /* records of one batch; no request has more */
    uint64_t delay_us;  /* time that a request waits for others */
    size_t waiting_max; /* requests */
};

struct batcher;

struct batcher *batcher_new(const struct batcher_options *options);
void batcher_free(struct batcher *b); /* NULL is fine */
/* Adds a request that waits. False: waiting_max requests wait already. */
bool batcher_add(struct batcher *b, size_t records, uint64_t group, uint64_t now_us);
/* The next batch: takes so many requests from the front. 0: none is due, but will be in *@wait_us
 * (UINT64_MAX: nothing waits). */
size_t batcher_take(struct batcher *b, uint64_t now_us, uint64_t *wait_us);
size_t batcher_waiting(const struct batcher *b); /* requests */

#endif
