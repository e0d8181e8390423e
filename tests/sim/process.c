/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: they start, are killed, and stop where a fault has put its finger. */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

uint16_t name_of(struct world *w, const char *id)
{
    for (uint16_t i = 0; i < w->name_count; i++) {
        if (strcmp(w->names[i], id) == 0) {
            return i;
        }
    }
    if (w->name_count == SIM_NAMES_MAX) {
        violated(w, INVARIANT_ORDER, "the master gave out more than %d names", SIM_NAMES_MAX);
    }
    snprintf(w->names[w->name_count], SIM_NAME_BYTES, "%s", id);
    return w->name_count++;
}

void node_start(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    if (n->up || n->gone) {
        return;
    }
    n->up = true;
    w->troubles++;
    n->paused = false;
    n->leaving = false;
    n->armed = false;
    n->freezing = false;
    n->frozen = false;
    n->life++;
    n->closed.count = 0;
    n->starts.count = 0;
    n->closing_count = 0;
    n->incarnation = rng_u64(rng_key_mix(w->key, 77), (uint64_t)node << 32 | n->life) | 1;
    n->name = 0;
    n->file_free_us = 0;
    n->open_free_us = 0;
    n->copied_us = 0;
    n->recorder = (struct sim_recorder){0};
    TRACE(w, node, "starts");
    if (n->role == ROLE_MASTER) {
        master_begin(w);
    } else {
        budget_begin(w, node);
        member_begin(w, node);
    }
}

/* So long after its last heartbeat, and a little more, the master looks whether a node is there; or
 * at once, when it sees that its connection has broken. */
#define REFUSED_US_MIN (1000 * SIM_MS)
#define REFUSED_US (1500 * SIM_MS)
#define BROKEN_US (200 * SIM_MS)

void node_kill(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    if (!n->up) {
        return;
    }
    TRACE(w, node, "dies");
    n->up = false;
    w->troubles++;
    n->dead_incarnation = n->incarnation;
    n->dead_name = n->name;
    if (n->role != ROLE_MASTER && w->schedule->knobs.refused_part > 0 &&
        world_draw(w, "refused", ++w->serials, 1000000) < w->schedule->knobs.refused_part) {
        bool seen = world_draw(w, "seen to break", w->serials, 2) == 0;
        uint64_t us = seen ? world_draw(w, "refused at", w->serials, BROKEN_US)
                           : REFUSED_US_MIN + world_draw(w, "refused at", w->serials, REFUSED_US);
        world_at(w, w->now_us + us, EVENT_REFUSED, 0, node, seen);
    }
    if (n->role == ROLE_MASTER) {
        master_end(w);
    } else if (n->role == ROLE_PS) {
        ps_end(w, node);
    } else {
        worker_end(w, node);
    }
    net_killed(w, node);
    n->life++; /* what is still on its way to it is for nobody */
}

bool node_acts(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    if (!n->armed) {
        return false;
    }
    if (n->armed_actions > 0) {
        n->armed_actions--;
        return false;
    }
    n->armed = false;
    return true;
}

bool node_freezes(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    if (!n->freezing || n->freezing_pushes-- > 0) {
        return false;
    }
    n->freezing = false;
    n->frozen = true;
    n->paused = true;
    n->resume_us = UINT64_MAX;
    TRACE(w, node, "freezes");
    return true;
}
