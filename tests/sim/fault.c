/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong, and what clients do. */
#include "sim/sim.h"

#include <string.h>

const char *const sim_fault_names[FAULT_KIND_COUNT] = {
#define X(NAME, name) #name,
    SIM_FAULTS(X)
#undef X
};

static void end_at(struct world *w, uint32_t index, uint64_t us)
{
    world_at(w, us, EVENT_FAULT_END, 0, index, 0);
}

static void block(struct world *w, uint32_t from, uint32_t to, uint64_t until_us)
{
    if (w->blocked_until[from][to] < until_us) {
        w->blocked_until[from][to] = until_us;
    }
}

static void break_streams(struct world *w, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < w->stream_count; i++) {
        struct stream *s = &w->streams[i];
        if ((s->worker == a && s->ps == b) || (s->worker == b && s->ps == a)) {
            stream_break(w, i);
        }
    }
}

static void pause_node(struct world *w, uint32_t node, uint64_t until_us)
{
    struct sim_node *n = &w->nodes[node];
    if (n->up && !n->paused) {
        n->paused = true;
        n->resume_us = until_us;
    }
}

void node_leaves(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    if (!n->up || n->paused || n->leaving) {
        return;
    }
    n->leaving = true;
    if (n->role == ROLE_MASTER) {
        node_kill(w, node);
        return;
    }
    if (n->role == ROLE_WORKER) {
        worker_drop(w, node, SIM_NONE);
    }
    member_leave(w, node);
}

static void until(uint64_t *end_us, const struct sim_fault *f)
{
    *end_us = f->until_us > *end_us ? f->until_us : *end_us;
}

void fault_begin(struct world *w, uint32_t index)
{
    const struct sim_fault *f = &w->schedule->faults[index];
    struct sim_node *n = &w->nodes[f->node];
    if ((w->quiet && f->kind != FAULT_JOIN) || f->node >= w->node_count ||
        f->other >= w->node_count) {
        return; /* too late, or of a node that was shrunk away */
    }
    w->counts.faults[f->kind]++;
    w->troubles++;
    TRACE(w, f->node, "FAULT %s", sim_fault_names[f->kind]);
    switch (f->kind) {
    case FAULT_CRASH:
        node_kill(w, f->node);
        end_at(w, index, f->until_us);
        break;
    case FAULT_MIDSTEP:
        if (n->up && !n->armed) {
            n->armed = true;
            n->armed_actions = f->number;
            end_at(w, index, f->until_us);
        }
        break;
    case FAULT_LOST: /* before that the job may wait for as many workers as its file says */
        if (w->jobs[0].state == JOB_RUNNING && disk_row(w, 0) != NULL &&
            disk_row(w, 0)->state == JOB_RUNNING) {
            n->gone = true;
            node_kill(w, f->node);
        }
        break;
    case FAULT_PAUSE:
        pause_node(w, f->node, f->until_us);
        end_at(w, index, f->until_us);
        break;
    case FAULT_FREEZE:
        n->freezing = true;
        n->freezing_pushes = f->number;
        break;
    case FAULT_SLOW:
        n->slow = f->number;
        end_at(w, index, f->until_us);
        break;
    case FAULT_CUT:
        block(w, f->node, f->other, f->until_us);
        break;
    case FAULT_SPLIT:
        block(w, f->node, f->other, f->until_us);
        block(w, f->other, f->node, f->until_us);
        break;
    case FAULT_BREAK:
        break_streams(w, f->node, f->other);
        break;
    case FAULT_LEAVE:
        node_leaves(w, f->node);
        end_at(w, index, f->until_us);
        break;
    case FAULT_JOIN:
        node_start(w, f->node);
        break;
    case FAULT_CANCEL:
    case FAULT_CHECKPOINT:
    case FAULT_SET:
    case FAULT_RAISE:
        master_client(w, f);
        break;
    case FAULT_SUSPEND:
        master_client(w, f);
        if (f->other == 0) {
            end_at(w, index, f->until_us);
        }
        break;
    case FAULT_ROWS:
        until(&w->rows_full_us, f);
        break;
    case FAULT_FULL:
        until(&w->full_us, f);
        break;
    case FAULT_GONE:
        until(&w->gone_us, f);
        w->gone_silently = f->number == 1;
        break;
    case FAULT_PINS:
        until(&w->pins_us, f);
        break;
    case FAULT_TESTS:
        until(&w->tests_us, f);
        break;
    case FAULT_DAMAGE:
        disk_damage(w, f->number);
        break;
    case FAULT_STRANGER:
        stranger_calls(w, index);
        break;
    case FAULT_TRACE:
        rounds_begin(w, index);
        if (f->until_us > f->at_us) {
            end_at(w, index, f->until_us);
        }
        break;
    case FAULT_DRAIN:
        drain_begin(w, index);
        break;
    case FAULT_END:
        departure_begin(w, index);
        break;
    case FAULT_COPY:
        standstill_copy(w, f->node);
        break;
    case FAULT_PROBE:
        standstill_probe(w, f->node);
        break;
    case FAULT_KIND_COUNT:
        break;
    }
}

void fault_end(struct world *w, uint32_t index)
{
    const struct sim_fault *f = &w->schedule->faults[index];
    struct sim_node *n = &w->nodes[f->node];
    w->troubles++;
    switch (f->kind) {
    case FAULT_CRASH:
        node_start(w, f->node);
        break;
    case FAULT_END: /* the master has died in the middle; the server starts again by itself */
        w->nodes[0].armed = false;
        node_start(w, 0);
        break;
    case FAULT_DRAIN: /* it has left when it was empty; or the master has died in the middle */
        w->nodes[0].armed = false;
        node_start(w, 0);
        /* fall through */
    case FAULT_LEAVE:
        if (n->up && n->leaving) {
            end_at(w, index, w->now_us + 100 * SIM_MS); /* it is not gone yet */
        }
        node_start(w, f->node);
        break;
    case FAULT_MIDSTEP:
        n->armed = false;
        node_start(w, f->node);
        break;
    case FAULT_PAUSE:
        if (n->resume_us <= w->now_us) {
            n->paused = false;
        }
        break;
    case FAULT_SLOW:
        n->slow = 1;
        break;
    case FAULT_SUSPEND:
        if (!master_resume(w, f->number)) {
            end_at(w, index, w->now_us + 100 * SIM_MS);
        }
        break;
    case FAULT_TRACE:
        if (w->nodes[0].paused) {
            end_at(w, index, w->now_us + 100 * SIM_MS); /* the master hears it later */
        } else {
            rounds_gone(w, index);
        }
        break;
    default:
        break;
    }
}

/* Everything is well from now on: cuts are healed, processes run, the network loses nothing. */
void faults_stop(struct world *w)
{
    if (w->quiet) {
        return;
    }
    w->quiet = true;
    TRACE(w, 0, "FAULTS end");
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct sim_node *n = &w->nodes[i];
        n->armed = false;
        n->slow = 1;
        n->paused = n->frozen;
        if (!n->up && n->life > 0) {
            node_start(w, i);
        }
    }
    memset(w->blocked_until, 0, sizeof w->blocked_until);
    w->rows_full_us = w->full_us = w->gone_us = w->pins_us = w->tests_us = 0;
    for (uint32_t i = 0; i < w->schedule->job_count && w->schedule->fair.on; i++) {
        world_at(w, w->now_us + 500 * SIM_MS, EVENT_UNPAUSE, 0, i, 0);
    }
}
