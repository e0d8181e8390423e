/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of a trace share, whoever asks for it: a running job of one worker and one server, and
 * the nodes, which say what they were asked. One server is all of them. */
#ifndef GRADUS_TESTS_UNIT_MASTER_SHELL_TRACE_CALL_RIG_H
#define GRADUS_TESTS_UNIT_MASTER_SHELL_TRACE_CALL_RIG_H

#include "job_call_rig.h"

#include "trace/trace.h"

#define CLOCKS 4 /* rounds that only ask for the time */
#define HEARD_MAX 256
#define AHEAD_NS INT64_C(5000000000) /* of a clock that is not ours */
#define SPANS_MAX 20000

enum { CLOCK, RECORD, TAKE };
enum { PS = 'p', WORKER = 'w' };

struct heard {
    char who;
    int action;
    char job[32];
    uint64_t id;
    uint32_t steps, timeout_ms, spans_max;
};

extern struct trace_call_rig { /* by job_rig.lock */
    struct heard heard[HEARD_MAX];
    size_t count;
    int fails[128];        /* by who: the action that is refused; -1 none */
    int refusal;           /* how */
    bool holds;            /* a worker answers RECORD when it is told to end */
    size_t spans;          /* computations that the worker tells of; 0: nothing is told */
    uint64_t apart_ns;     /* from one to the next; they take two thirds of it */
    struct rpc_call *held; /* that RECORD */
    const char *boot;
} rig;

extern struct rpc_server *trace_rig_server;
extern char own_boot[TRACE_BOOT_BYTES];
extern char worker_id[], ps_id[], lost_id[], other_job[];
extern char *worker_ids[], *one_server[];

int set_up(void **state);    /* of a group */
int tear_down(void **state); /* of a group */
int begin(void **state);     /* of a test */
/* A second running job, of the worker w-2 and the server @ps. */
void begin_other(char **ps);
void set_node(size_t i, enum master_role role, const char *id, uint64_t pid);

/* How often @who was asked for @action. */
size_t times(char who, int action);
/* When was @who asked to record @job? rig.count: it was not. */
size_t asked_to_record(char who, const char *job);
/* Of the newest trace that is under way: who asked for it, and who waits until it is over. */
size_t clients(void);
size_t under_way(void);
void wait_until_none(void);
/* A trace of 7 steps whose worker records until it is told to end, or release(); returns when it
 * does. */
void start_held(struct rpc_channel *from);
void wait_until_held(void);
void release(void);
/* The master ends, and nobody waits any more; then it goes on. */
void end_master(void);
void go_on(void);

#endif
