/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that ask for traces of running jobs, and the shell of the master's rounds, as on_trace.c
 * and trace_calls.c of services/master have it. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

/* All rounds of a trace, when nothing goes wrong any more: the calls of the clocks, of the servers
 * and of what is taken, and some time for each that is under way when faults stop. */
#define ROUNDS_US (90 * SIM_S)

struct sim_trace *trace_find(struct world *w, uint64_t id)
{
    for (uint32_t i = 0; i < SIM_TRACES_MAX; i++) {
        if (w->traces[i].open && w->traces[i].id == id) {
            return &w->traces[i];
        }
    }
    return NULL;
}

const struct sim_trace *trace_open(const struct world *w)
{
    for (uint32_t i = 0; i < SIM_TRACES_MAX; i++) {
        if (w->traces[i].open) {
            return &w->traces[i];
        }
    }
    return NULL;
}

uint32_t trace_node(const struct sim_trace *t, uint32_t node)
{
    for (uint32_t i = 0; i < t->rounds.count; i++) {
        if (t->nodes[i].node == node && !t->rounds.nodes[i].failed) {
            return i;
        }
    }
    return SIM_NONE;
}

static void drop(struct sim_trace *t)
{
    trace_rounds_release(&t->rounds);
    memset(t, 0, sizeof *t);
}

void rounds_drop(struct world *w)
{
    for (uint32_t i = 0; i < SIM_TRACES_MAX; i++) {
        if (w->traces[i].open) {
            drop(&w->traces[i]);
        }
    }
}

/* ---- the end ---- */

/* Who has not failed has said what it has; and no server records on. */
static void check_node(struct world *w, const struct sim_trace *t, uint32_t i)
{
    const struct sim_node *n = &w->nodes[t->nodes[i].node];
    bool server = t->rounds.nodes[i].role == MASTER_PS;
    if (t->rounds.client && (!t->nodes[i].recorded || (server && !t->nodes[i].has_trace))) {
        violated(w, INVARIANT_TRACE, "trace %llu has neither spans nor a problem of n%u",
                 (unsigned long long)t->id, t->nodes[i].node);
    }
    bool same = n->up && t->nodes[i].recorded && n->life == t->nodes[i].life;
    bool taken = t->nodes[i].taken_life == n->life; /* and recorded again, if so */
    if (server && same && !taken && recording_is_on(&n->recorder.recording) &&
        n->recorder.recording.id == t->id) {
        violated(w, INVARIANT_TRACE, "server n%u records for trace %llu, which is over",
                 t->nodes[i].node, (unsigned long long)t->id);
    }
}

static void end(struct world *w, struct sim_trace *t)
{
    bool whole = true;
    for (uint32_t i = 0; i < t->rounds.count; i++) {
        if (t->rounds.nodes[i].failed) {
            whole = false;
        } else {
            check_node(w, t, i);
        }
    }
    TRACE(w, 0, "trace %llu is over%s", (unsigned long long)t->id,
          t->rounds.client ? "" : ", without its client");
    w->counts.traces_answered += t->rounds.client;
    w->counts.traces_whole += t->rounds.client && whole;
    drop(t);
}

void rounds_check_due(struct world *w, uint64_t id)
{
    const struct sim_trace *t = trace_find(w, id);
    if (t != NULL) {
        violated(w, INVARIANT_TRACE, "trace %llu is in round %u, long after the last fault",
                 (unsigned long long)id, t->rounds.round);
    }
}

/* ---- the rounds ---- */

static void call(struct world *w, const struct sim_trace *t, const struct trace_action *a)
{
    uint32_t index;
    struct unary *u =
        unary_new(w, 0, t->nodes[a->node].node, UNARY_TRACE, a->ask.timeout_ms, &index);
    u->req.job = t->job;
    u->req.trace.id = t->id;
    u->req.trace.node = (uint32_t)a->node;
    u->req.trace.told = a->kind == TRACE_DO_TELL;
    u->req.trace.ask = a->ask;
    unary_send(w, index);
}

static void carry_out(struct world *w, struct sim_trace *t)
{
    for (size_t i = 0; i < t->rounds.action_count; i++) {
        const struct trace_action *a = &t->rounds.actions[i];
        if (a->kind == TRACE_DO_END) {
            end(w, t);
            return; /* it is the last */
        }
        call(w, t, a);
    }
}

void rounds_answered(struct world *w, const struct unary *u, const struct unary_reply *r)
{
    struct sim_trace *t = trace_find(w, u->req.trace.id);
    if (t == NULL) {
        violated(w, INVARIANT_TRACE, "trace %llu is over before n%u has answered",
                 (unsigned long long)u->req.trace.id, u->to);
    }
    uint32_t node = u->req.trace.node;
    if (u->req.trace.told) {
        trace_rounds_told(&t->rounds);
    } else {
        if (r->code == 0 && u->req.trace.ask.kind == TRACE_ASK_RECORD) {
            t->nodes[node].recorded = true;
            t->nodes[node].life = (uint32_t)r->count;
        } else if (r->code == 0 && u->req.trace.ask.kind == TRACE_ASK_TAKE) {
            t->nodes[node].has_trace = true;
        }
        trace_rounds_answered(&t->rounds, node, r->code != 0);
    }
    carry_out(w, t);
}

/* ---- clients ---- */

static bool find_node(struct world *w, const char *id, struct master_node_info *out)
{
    bool found = false;
    struct master_node_info info;
    for (size_t i = 0; master_node_at(w->master, i, node_ms(w, 0), &info); i++) {
        if (strcmp(info.id, id) == 0 && (!found || info.alive)) {
            *out = info;
            found = true;
        }
    }
    return found;
}

static void add_nodes(struct world *w, struct sim_trace *t, const struct job_names *names,
                      enum master_role role)
{
    for (size_t i = 0; i < names->count; i++) {
        struct master_node_info info = {.address = "n0"};
        bool found = find_node(w, names->items[i], &info);
        size_t at = trace_rounds_add(&t->rounds, role, !found || !info.alive);
        t->nodes[at].node = (uint32_t)strtoul(info.address + 1, NULL, 10);
    }
}

/* What a client wants, in a number: the job, steps, tenths of a second. */
void rounds_begin(struct world *w, uint32_t fault)
{
    const uint32_t number = w->schedule->faults[fault].number;
    const uint32_t steps = (number >> 1) % 32 + 1, record_ms = ((number >> 6) + 1) * 100;
    struct sim_job *j = &w->jobs[number & 1];
    if (w->master == NULL || w->nodes[0].paused || !j->known) {
        return; /* nobody answers the door */
    }
    const struct job_record *record = master_job(w->master, j->id, node_ms(w, 0));
    struct sim_trace *t = w->traces;
    while (t < w->traces + SIM_TRACES_MAX && t->open) {
        t++;
    }
    if (record == NULL || record->state != JOB_RUNNING || t == w->traces + SIM_TRACES_MAX ||
        record->workers.count + record->ps.count > SIM_NODES_MAX) {
        return; /* it is refused */
    }
    t->open = true;
    t->fault = fault;
    t->job = number & 1;
    t->id = ++w->trace_last;
    TRACE(w, 0, "is asked for trace %llu of %s: %u steps within %u ms", (unsigned long long)t->id,
          j->id, steps, record_ms);
    w->counts.traces++;
    trace_rounds_init(&t->rounds, steps, record_ms, record->workers.count + record->ps.count);
    add_nodes(w, t, &record->workers, MASTER_WORKER);
    add_nodes(w, t, &record->ps, MASTER_PS);
    uint64_t from_us = w->now_us > w->schedule->quiet_us ? w->now_us : w->schedule->quiet_us;
    world_at(w, from_us + record_ms * SIM_MS + ROUNDS_US, EVENT_TRACE_DUE, 0, (uint32_t)t->id, 0);
    trace_rounds_begin(&t->rounds);
    carry_out(w, t);
}

void rounds_gone(struct world *w, uint32_t fault)
{
    for (uint32_t i = 0; i < SIM_TRACES_MAX; i++) {
        struct sim_trace *t = &w->traces[i];
        if (t->open && t->fault == fault && t->rounds.client) {
            TRACE(w, 0, "the client of trace %llu is gone", (unsigned long long)t->id);
            trace_rounds_gone(&t->rounds);
            carry_out(w, t);
        }
    }
}
