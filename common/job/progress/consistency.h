/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers of a job keep together: one mode and its parameters, resolved from the job file.
 * The master decides it, shards and workers follow; it may change with a generation. Plain data.
 *
 * A worker says its clock (decision 7). In bounded mode the clock of a worker is one number, begun
 * at the lead and sent with every request; a shard only compares clocks. With clocks counted by
 * each shard, from the moment a worker came to it, two shards have different clocks for one worker,
 * and two workers can wait for each other on two shards; the simulator found that. A worker that
 * leaves, dies or waits for data is out of the minimum at once. */
#ifndef GRADUS_JOB_PROGRESS_CONSISTENCY_H
#define GRADUS_JOB_PROGRESS_CONSISTENCY_H

#include "job/spec/job_spec.h"

#define CONSISTENCY_REPLICAS_MAX 65536U /* of a message; a job file allows 1024 */

struct consistency {
    enum training_mode mode;
    uint32_t replicas;  /* sync; ≥ 1 in every mode, so that a change to sync needs no more */
    uint32_t aggregate; /* sync: replicas that complete a step; ≤ replicas */
    double speculate;   /* sync: late by more than so many usual times; 0: never */
    uint64_t staleness; /* bounded */
    enum staleness_policy policy;
    uint64_t max_staleness; /* POLICY_MAX_STALENESS */
    double lambda;          /* POLICY_DELAY_COMPENSATION */
    uint32_t push_every;    /* async, bounded: batches in one push; ≥ 1 */
    uint32_t pull_every;    /* async, bounded: pushes from pull to pull; ≥ 1 */
    bool overlap;           /* async, bounded */
};

/* What the job file says, with every "0: chosen" resolved. Keys that the mode does not look at get
 * the value that changes nothing: aggregate = replicas, no policy, every 1. */
void consistency_of(const struct job_spec *spec, struct consistency *out);
/* Errors: ERR_INVALID: numbers that cannot be, as in a message of a peer. */
int consistency_check(const struct consistency *c, struct err *err);
bool consistency_equal(const struct consistency *a, const struct consistency *b);

/* Sync, and not every replica of a step has to be waited for by everyone: workers may fall behind
 * the shards and go on from where these are. */
static inline bool consistency_is_nonblocking(const struct consistency *c)
{
    return c->mode == TRAINING_SYNC && (c->aggregate < c->replicas || c->speculate > 0);
}
static inline bool consistency_is_partial(const struct consistency *c)
{
    return c->mode == TRAINING_SYNC && c->aggregate < c->replicas;
}

/* The end of the batches of a split that one push covers: the next multiple of push_every, so that
 * a worker that takes a split over cuts it in the same places. */
static inline uint32_t consistency_push_end(const struct consistency *c, uint32_t batch,
                                            uint32_t batch_end)
{
    uint64_t end = ((uint64_t)batch / c->push_every + 1) * c->push_every;
    return end < batch_end ? (uint32_t)end : batch_end;
}

#endif
