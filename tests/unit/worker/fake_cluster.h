/* SPDX-License-Identifier: Apache-2.0 */
/* A few workers' cores, small shards and a small master under virtual time: requests and answers
 * are late or lost, and with every action it is checked what is computed from what, and what is
 * pushed. */
#ifndef GRADUS_TESTS_UNIT_WORKER_FAKE_CLUSTER_H
#define GRADUS_TESTS_UNIT_WORKER_FAKE_CLUSTER_H

#include "support/test.h"

#include "base/rng.h"
#include "job/progress/step_map.h"
#include "unit/worker/fake_shards.h"

#define ITEMS_MAX 4096
#define BUFFERS 32
#define RECORDS 95 /* 10 batches, the last one short; 4 splits, the last one of one batch */
#define BATCHES 10
#define NOTHING UINT64_MAX

static const struct ledger_shape SHAPE = {
    .records = RECORDS, .batch_records = 10, .split_batches = 3};

/* What a buffer holds: which replicas of which step, or which batches of which split, and the
 * versions that they were computed on. */
struct content {
    bool sync, used;
    bool late; /* of a generation that is over for the master: will be refused or thrown away */
    uint64_t step, epoch;
    uint32_t replicas, split, first, end;
    uint64_t examples, versions[FAKE_SHARDS_MAX];
};

struct node {
    struct worker *worker;
    uint64_t slowness, sets[WORKER_SET_COUNT][FAKE_SHARDS_MAX], timer_ms;
    size_t pulls_open[WORKER_SET_COUNT];
    struct content buffers[BUFFERS];
    size_t buffer_users[BUFFERS];
    bool computing;
    struct worker_do_compute computed;
    bool idle;
    uint64_t position, dropped, speculated, no_pull;
    uint64_t generation; /* of the last assignment that it took */
    uint64_t parts[FAKE_SHARDS_MAX], totals[WORKER_ROUNDS_MAX];
    uint64_t joined_step[WORKER_ROUNDS_MAX];
};

struct item {
    uint64_t due_ms;
    size_t worker;
    bool is_event;
    struct worker_action action; /* on its way there; of an event: what it answers, */
    struct asked ask;            /* and if that is an exchange: what it asks for */
    struct worker_event event;
    uint8_t decision[4];
    uint64_t sums;
};

enum split_state { SPLIT_FREE, SPLIT_LEASED, SPLIT_DONE };

struct cluster {
    uint64_t seed, draws, now_ms;
    size_t workers;
    uint32_t shards;
    bool lossy;
    struct node nodes[FAKE_WORKERS_MAX];
    struct fake_shard shard[FAKE_SHARDS_MAX];
    struct fake_answers answers;
    struct worker_actions actions;
    struct item items[ITEMS_MAX];
    size_t item_count;
    /* the master */
    uint64_t generation;
    struct consistency consistency;
    struct step_map step_map; /* sync: from the beginning of the phase on */
    struct ledger ledger;     /* at the beginning of the phase */
    uint64_t limit;
    bool holding;
    uint64_t epoch; /* async */
    enum split_state split[FAKE_SPLITS_MAX];
    size_t owner[FAKE_SPLITS_MAX];
    struct worker_lease leases[FAKE_SPLITS_MAX];
    size_t dropped_seen, speculated_seen, again_seen, known_seen;
};

/* The next random number below @n. */
uint64_t cluster_draw(struct cluster *c, uint64_t n);
/* Async: every split of it was reported. */
bool cluster_epoch_is_done(const struct cluster *c);
/* The master tells every worker what is its part; @hold: that it is to stop. */
void cluster_assign(struct cluster *c, bool hold);
/* A new generation: the shards hear of it at once, the workers when they are assigned. */
void cluster_regroup(struct cluster *c);
/* One thing happens; false: nothing is left to happen. */
bool cluster_advance(struct cluster *c);

#endif
