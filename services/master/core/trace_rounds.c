/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of a trace: which nodes take part in a round, what they are asked, which round comes
 * next. */
#include "master/core/trace_rounds.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/mutant.h"

#define CALL_MS 10000

void trace_rounds_init(struct trace_rounds *t, uint32_t steps, uint32_t record_ms, size_t count)
{
    *t = (struct trace_rounds){
        .steps = steps, .record_ms = record_ms, .call_ms = CALL_MS, .client = true};
    t->nodes = mem_new(count + 1, sizeof *t->nodes);
    t->actions = mem_new(count + 1, sizeof *t->actions);
}

void trace_rounds_release(struct trace_rounds *t)
{
    free(t->nodes);
    free(t->actions);
    *t = (struct trace_rounds){0};
}

size_t trace_rounds_add(struct trace_rounds *t, enum master_role role, bool lost)
{
    t->nodes[t->count] = (struct trace_rounds_node){role, lost};
    return t->count++;
}

static bool takes_part(const struct trace_rounds *t, const struct trace_rounds_node *n)
{
    switch (t->round) {
    case TRACE_ROUND_PS:
    case TRACE_ROUND_TAKE:
        return n->role == MASTER_PS && !n->failed;
    case TRACE_ROUND_WORKERS:
        return n->role == MASTER_WORKER && !n->failed;
    default:
        return !n->failed;
    }
}

/* Servers are to record from before the workers begin until after they have ended: longer, by what
 * the calls of the two rounds may take. */
static uint32_t server_ms(const struct trace_rounds *t)
{
    return MUTANT(trace_servers_give_up) ? t->record_ms : t->record_ms + 2 * t->call_ms;
}

static struct trace_ask what_to_ask(const struct trace_rounds *t)
{
    switch (t->round) {
    case TRACE_ROUND_PS:
        return (struct trace_ask){
            .kind = TRACE_ASK_RECORD, .record_ms = server_ms(t), .timeout_ms = t->call_ms};
    case TRACE_ROUND_WORKERS:
        return (struct trace_ask){.kind = TRACE_ASK_RECORD,
                                  .steps = t->steps,
                                  .record_ms = t->record_ms,
                                  .timeout_ms = t->record_ms + t->call_ms};
    case TRACE_ROUND_TAKE:
        return (struct trace_ask){.kind = TRACE_ASK_TAKE, .timeout_ms = 2 * t->call_ms};
    default:
        return (struct trace_ask){.kind = TRACE_ASK_CLOCK, .timeout_ms = t->call_ms};
    }
}

static void add_action(struct trace_rounds *t, enum trace_action_kind kind, size_t node,
                       struct trace_ask ask)
{
    t->actions[t->action_count++] = (struct trace_action){kind, node, ask};
    t->open += kind != TRACE_DO_END;
}

static void ask_all(struct trace_rounds *t)
{
    for (size_t i = 0; i < t->count && t->round < TRACE_ROUND_OVER; i++) {
        if (takes_part(t, &t->nodes[i])) {
            add_action(t, TRACE_DO_ASK, i, what_to_ask(t));
        }
    }
}

/* Without a client: what the servers began is taken from them, and thrown away. */
static unsigned next_round(const struct trace_rounds *t)
{
    if (t->client) {
        return t->round + 1;
    }
    bool begun = t->round == TRACE_ROUND_PS || t->round == TRACE_ROUND_WORKERS;
    bool take = t->stopped && begun && !t->ending && !MUTANT(trace_left_behind);
    return take ? TRACE_ROUND_TAKE : TRACE_ROUND_OVER;
}

/* Goes on to the next round in which a node takes part. */
static void go_on(struct trace_rounds *t)
{
    do {
        t->round = next_round(t);
        ask_all(t);
    } while (t->open == 0 && t->round < TRACE_ROUND_OVER);
    if (t->round == TRACE_ROUND_OVER) {
        add_action(t, TRACE_DO_END, 0, (struct trace_ask){0});
    }
}

static bool round_is_over(const struct trace_rounds *t)
{
    return t->open == 0 || (MUTANT(trace_workers_first) && t->round == TRACE_ROUND_PS) ||
           (MUTANT(trace_taken_early) && t->round == TRACE_ROUND_WORKERS);
}

void trace_rounds_begin(struct trace_rounds *t)
{
    t->action_count = 0;
    ask_all(t);
    if (t->open == 0) { /* there is nobody */
        go_on(t);
    }
}

void trace_rounds_answered(struct trace_rounds *t, size_t node, bool failed)
{
    assert(t->open > 0 && node < t->count);
    t->action_count = 0;
    t->nodes[node].failed = failed;
    if (failed && MUTANT(trace_waits_for_failed)) {
        return;
    }
    t->open--;
    if (round_is_over(t)) {
        go_on(t);
    }
}

void trace_rounds_told(struct trace_rounds *t)
{
    assert(t->open > 0);
    t->action_count = 0;
    if (--t->open == 0) {
        go_on(t);
    }
}

void trace_rounds_gone(struct trace_rounds *t)
{
    const struct trace_ask take = {.kind = TRACE_ASK_TAKE, .timeout_ms = t->call_ms};
    t->action_count = 0;
    t->client = false;
    t->stopped = true;
    for (size_t i = 0; t->round == TRACE_ROUND_WORKERS && i < t->count; i++) {
        if (takes_part(t, &t->nodes[i])) {
            add_action(t, TRACE_DO_TELL, i, take); /* a node that records answers now */
        }
    }
}

void trace_rounds_stop(struct trace_rounds *t)
{
    t->action_count = 0;
    t->client = false;
    t->ending = true;
}
