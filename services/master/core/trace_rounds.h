/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of a job that is being recorded: which node is asked what, and when.
 *
 * It goes in rounds, each of which is over when every node that takes part has answered or failed:
 * the clocks, a few times; the parameter servers begin to record; the workers record their steps,
 * and answer when these are over; the servers hand out what they have. So what a server did for a
 * recorded step is recorded. A node that fails takes no part in later rounds. When the client goes
 * away, the recordings are ended: the workers are told so, then the servers are asked for theirs.
 *
 * As with the other cores, each event may leave actions, which are to be carried out before the
 * next one. */
#ifndef GRADUS_MASTER_CORE_TRACE_ROUNDS_H
#define GRADUS_MASTER_CORE_TRACE_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "master/core/master.h"

enum trace_round {
    TRACE_ROUND_CLOCK, /* the first trip also connects */
    TRACE_ROUND_CLOCK_LAST = 3,
    TRACE_ROUND_PS,
    TRACE_ROUND_WORKERS,
    TRACE_ROUND_TAKE,
    TRACE_ROUND_OVER,
};

enum trace_ask_kind { TRACE_ASK_CLOCK, TRACE_ASK_RECORD, TRACE_ASK_TAKE };

/* A request to a node. */
struct trace_ask {
    enum trace_ask_kind kind;
    uint32_t steps;      /* RECORD by a worker */
    uint32_t record_ms;  /* RECORD: no longer than that */
    uint32_t timeout_ms; /* for the answer */
};

enum trace_action_kind {
    TRACE_DO_ASK,  /* @node what @ask says; then trace_rounds_answered() */
    TRACE_DO_TELL, /* as TRACE_DO_ASK; then trace_rounds_told(), whatever came of it */
    TRACE_DO_END,  /* answer the client, if it is still there: nothing is under way any more */
};

struct trace_action {
    enum trace_action_kind kind;
    size_t node;
    struct trace_ask ask;
};

struct trace_rounds_node {
    enum master_role role;
    bool failed;
};

struct trace_rounds {
    uint32_t steps, record_ms;
    uint32_t call_ms; /* for an answer that waits for nothing; trace_rounds_init() has a default */
    unsigned round;
    size_t open;  /* answers that are missing */
    bool client;  /* the client waits for the answer */
    bool stopped; /* the client went away, and recordings must end */
    bool ending;  /* the master ends: no node is asked any more */
    struct trace_rounds_node *nodes;
    size_t count;
    struct trace_action *actions; /* of the last event */
    size_t action_count;
};

/* A trace of @steps steps, for which a worker may take @record_ms, on @count nodes at most. */
void trace_rounds_init(struct trace_rounds *t, uint32_t steps, uint32_t record_ms, size_t count);
void trace_rounds_release(struct trace_rounds *t);
/* Before it begins. Returns the number of the node. @lost: it has failed already. */
size_t trace_rounds_add(struct trace_rounds *t, enum master_role role, bool lost);

void trace_rounds_begin(struct trace_rounds *t);
void trace_rounds_answered(struct trace_rounds *t, size_t node, bool failed);
void trace_rounds_told(struct trace_rounds *t);
/* The client went away. */
void trace_rounds_gone(struct trace_rounds *t);
/* The client was told that the master ends. */
void trace_rounds_stop(struct trace_rounds *t);

#endif
