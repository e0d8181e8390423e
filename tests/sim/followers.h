/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of running jobs (followers.c). Only sim.h includes this. */
#ifndef GRADUS_SIM_FOLLOWERS_H
#define GRADUS_SIM_FOLLOWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/core/shard.h"
#include "sim/messages.h"
#include "sim/plans.h"
#include "sim/tables.h"

/* Of a reader's pin: it ends then, by the clock of its server. */
struct sim_lease {
    uint64_t pin, ends_ms;
};
struct sim_leases { /* of a shard */
    struct sim_lease of[SHARD_READERS_MAX];
    uint32_t count;
    uint32_t kept; /* SHARD_KEEP for readers without its SHARD_FORGET */
};

#define SIM_FOLLOWERS_MAX 3
#define SIM_READS_MAX 2048 /* requests of theirs that are on their way, or wait */

enum sim_read_kind { SIM_READ_PIN, SIM_READ_PART, SIM_READ_END, SIM_READ_GONE };

struct sim_read { /* a request of a reader */
    uint64_t serial;
    enum sim_read_kind kind;
    uint32_t follower, turn, job, shard;
    uint64_t pin, generation, opening;
    bool exact;
    uint64_t version, ms;
    bool leased;                      /* the pin is there, when it arrives */
    uint32_t request, request_serial; /* of the shard; SIM_READ_GONE: that is given up */
};

struct sim_follower {
    uint32_t turn; /* number of its next event */
    uint32_t rounds, job, shards, parts;
    bool busy, reading, dies, sync, exact;
    uint64_t pin, generation, version, ms;
    struct sim_followed { /* shards */
        uint32_t node;
        uint64_t opening;
        uint32_t asked, asked_serial; /* the request that waits; SIM_NONE */
        bool pinned;
        uint64_t version;
        struct ids ids;
        struct tensor values;
        struct table_cursor cursors[SIM_TABLE_COUNT];
        uint32_t rows[SIM_TABLE_COUNT]; /* read so far */
    } of[SIM_SHARDS_MAX];
};

struct sim_followers { /* of a world */
    struct sim_follower of[SIM_FOLLOWERS_MAX];
    struct sim_read reads[SIM_READS_MAX];
    uint64_t read_count, pins, draws;
};

#endif
