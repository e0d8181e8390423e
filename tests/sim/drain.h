/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that clients empty, and servers that are to end. Only sim.h includes this. */
#ifndef GRADUS_SIM_DRAIN_H
#define GRADUS_SIM_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/plans.h"

/* A client who wants the node emptied, and repeats that. */
struct sim_drain {
    bool wanted, taken_back;
    bool has; /* something, as far as its client knows */
    uint32_t fault;
    uint64_t incarnation, request;
    /* What the master knows while it drains: in this life of its own, of that process. */
    uint32_t life;
    uint64_t of;
    uint32_t jobs; /* a bit for each */
};

/* A server that is to end (departure.c). */
struct sim_departure {
    bool waits;    /* until it may; so does this process, of */
    uint32_t life; /* its node, for this */
    uint32_t fault;
    uint64_t until_us, answered_us;
    /* What the master has heard and said, in this life of its own: */
    uint32_t known;
    uint64_t of;   /* of that process, */
    uint16_t name; /* which it calls so: */
    bool upon;     /* one that leaves counted upon it when it said so last; */
    bool stays;    /* and ever since it said so first; */
    bool may;      /* that it may end; */
    /* then others take these shards over (a bit for each), of the start in that generation; those
     * of which the row said so, too, whatever becomes of the master */
    uint32_t owed[SIM_JOBS_MAX], stored[SIM_JOBS_MAX];
    uint64_t opened[SIM_JOBS_MAX];
    /* What the master knew of it after the step before. */
    bool seen, had;
    uint32_t jobs;        /* a bit for each */
    uint64_t possible_us; /* since then nothing keeps its shards from moving; 0: something does */
    uint64_t troubles;    /* that there were until then */
};

#endif
