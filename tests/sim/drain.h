/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that clients empty. Only sim.h includes this. */
#ifndef GRADUS_SIM_DRAIN_H
#define GRADUS_SIM_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
