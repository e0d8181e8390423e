/* SPDX-License-Identifier: Apache-2.0 */
/* Small parameter servers for tests of the worker's core: versions, steps, decisions, spares,
 * staleness and clocks as docs/protocol.md has them, and nothing of values. What a worker may never
 * send is asserted here. One job, a few workers, at most 32 replicas. */
#ifndef GRADUS_TESTS_UNIT_WORKER_FAKE_SHARDS_H
#define GRADUS_TESTS_UNIT_WORKER_FAKE_SHARDS_H

#include "support/test.h"

#include <string.h>

#include "unit/worker/asked.h"

#define FAKE_WORKERS_MAX 4
#define FAKE_SHARDS_MAX 3
#define FAKE_STEPS_MAX 4096
#define FAKE_EPOCHS_MAX 64
#define FAKE_SPLITS_MAX 8
#define FAKE_PARKED_MAX 512

struct fake_request {
    size_t worker;
    struct asked ask;
    bool push_done; /* a push that is in and whose pull is not answered yet */
    enum push_result result;
    uint64_t totals; /* that it brings */
};

struct fake_shard {
    uint32_t number;
    uint64_t generation, version;
    struct consistency consistency;
    /* sync */
    uint32_t in, empty;                /* replicas of step `version` */
    uint32_t decided[FAKE_STEPS_MAX];  /* of each step; 0: none yet */
    uint32_t applied[FAKE_STEPS_MAX];  /* the replicas in the sum */
    uint32_t by_spare[FAKE_STEPS_MAX]; /* of them, from a helper */
    /* Rounds of sums between the last replica and the update; values stand for what is summed. */
    uint32_t rounds, begun, settled; /* begun: the replicas in the sum; 0: not yet */
    uint64_t totals[WORKER_ROUNDS_MAX], totals_last[WORKER_ROUNDS_MAX];
    uint64_t totals_of[FAKE_STEPS_MAX]; /* of the last round of each step */
    uint64_t spares_wanted;             /* the n-th request is given one when this is odd there */
    /* async, bounded */
    uint32_t done[FAKE_EPOCHS_MAX][FAKE_SPLITS_MAX];
    uint64_t clock[FAKE_WORKERS_MAX];
    bool inactive[FAKE_WORKERS_MAX];
    size_t workers;
    uint64_t dropped_base; /* of the last gradient that was dropped */

    struct fake_request parked[FAKE_PARKED_MAX];
    size_t parked_count;
};

/* Answers leave through this. */
struct fake_answers {
    struct {
        size_t worker;
        struct asked request;
        struct worker_exchanged answer;
        uint8_t decision[4];
        uint64_t sums;
    } items[FAKE_PARKED_MAX + 1];
    size_t count;
};

/* The replicas of a push, as bits. */
uint32_t fake_shard_mask(const struct asked *a);
/* A request of @worker arrives; what can be answered now is put into @out. @totals: that it
 * brings. */
void fake_shard_take(struct fake_shard *s, size_t worker, const struct asked *a, uint64_t totals,
                     struct fake_answers *out);
/* A new generation: what is parked is refused. */
void fake_shard_membership(struct fake_shard *s, uint64_t generation, const struct consistency *c,
                           size_t workers, struct fake_answers *out);

#endif
