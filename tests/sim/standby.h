/* SPDX-License-Identifier: Apache-2.0 */
/* Backups of shards: what their primaries say to them, and what the simulator knows of both. Only
 * sim.h and messages.h include this. */
#ifndef GRADUS_SIM_STANDBY_H
#define GRADUS_SIM_STANDBY_H

#include "ps/core/shard.h"
#include "sim/plans.h"

struct sim_bytes;

/* Of a request of a primary to its backup; what else a record has is in the request's own fields,
 * the summed gradient in `given`. */
struct sim_record {
    struct shard_record what; /* without the bytes of its decision */
    uint64_t from;            /* the opening of the primary */
    uint64_t decision;        /* a bit for each replica */
    uint32_t sent[SIM_WORKERS_MAX];
    const struct sim_bytes *rows;  /* of tables, of an update; NULL: none */
    const struct sim_bytes *state; /* of a state: of all tables */
    bool has_gradient;
    uint64_t ids[SIM_EPOCHS_MAX]; /* of the gradient, and the generation that brought it */
    uint64_t generation;
};

/* Of a primary: its records that its backup has not received, oldest first. */
struct sim_said;
struct sim_standby {
    uint32_t node;    /* of the backup */
    uint64_t opening; /* likewise */
    struct sim_said *said;
    bool waits;   /* to send again */
    bool refused; /* the backup will never take one more */
    void *tag;    /* of the event that is stepped */
    bool follows; /* it was seen to */
    /* While it catches up: records that it lacked when it had the state, how many it had received
     * by then (0: it has none), and the newest update of those that were said. */
    uint64_t behind, caught, newest;
    /* Of a backup */
    bool joined, empty;                 /* its state has come, or has not; neither: as opened */
    const struct unary_request *record; /* that is stepped */
};

/* Of a job's shards. */
struct sim_job_standby {
    uint64_t opened; /* the generation of the last start */
    struct {
        uint64_t opening;                 /* of the present primary, as the master has told it, */
        uint64_t backup;                  /* and of the newest backup */
        uint64_t generation, answered;    /* a primary answered the master in; its opening */
        uint64_t shown;                   /* the newest version that anybody was told of */
        uint64_t applied[SIM_EPOCHS_MAX]; /* batches that their workers know to be applied */
        uint64_t made[SIM_VERSIONS_MAX]; /* a sum over what the present primary has made; 0: none */
    } shards[SIM_SHARDS_MAX];
};

#endif
