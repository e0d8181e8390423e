/* SPDX-License-Identifier: Apache-2.0 */
/* The Jobs service, but for Submit, Set, Resume, Trace, Tables, Follow, DrainNode and Watch, which
 * have files of their own. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/job_wire.h"
#include "master/shell/node_wire.h"
#include "master/shell/shell.h"
#include "os/chrono.h"

#define LIST_DEFAULT 100
#define LIST_MAX 1000

/* ---- Get ---- */

void run_get(struct request *r)
{
    const Gradus__V1__GetJobRequest *q = (const Gradus__V1__GetJobRequest *)r->msg->body;
    const struct job_record *record = master_job(r->shell->master, q->job, chrono_now_ms());
    if (record != NULL) {
        request_reply_job(r, record, JOB_WIRE_ALL);
        return;
    }
    struct err err = {0};
    struct buf packed = {0};
    struct job_record old; /* finished so long ago that only the store has it */
    int rc = r->shell->store->ops->get(r->shell->store, q->job, &packed, &err);
    rc = rc < 0 ? rc : job_wire_unpack(packed.data, packed.len, &old, &err);
    buf_release(&packed);
    if (rc == 0) {
        request_reply_job(r, &old, JOB_WIRE_ALL);
        job_record_release(&old);
        return;
    }
    if (rc == ERR_NOT_FOUND) {
        err_set(&err, ERR_NOT_FOUND, "no job %.128s", q->job);
    }
    request_fail(r, &err);
}

/* ---- List ---- */

static bool is_listed(const Gradus__V1__ListJobsRequest *q, const struct job_record *record)
{
    bool listed = q->n_states == 0;
    for (size_t i = 0; i < q->n_states; i++) {
        listed = listed || (int)q->states[i] == (int)record->state;
    }
    return listed && (q->owner[0] == '\0' || strcmp(q->owner, record->owner) == 0);
}

void run_list(struct request *r)
{
    const Gradus__V1__ListJobsRequest *q = (const Gradus__V1__ListJobsRequest *)r->msg->body;
    size_t last = q->before[0] == '\0' ? 0 : master_job_place(r->shell->master, q->before);
    if (last == SIZE_MAX) {
        struct err err = {0};
        err_set(&err, ERR_NOT_FOUND, "no job %.128s to go on from", q->before);
        request_fail(r, &err);
        return;
    }
    size_t limit = q->limit == 0 ? LIST_DEFAULT : q->limit < LIST_MAX ? q->limit : LIST_MAX;
    struct job_wire *items = mem_new(limit, sizeof *items);
    Gradus__V1__Job **jobs = mem_new(limit, sizeof *jobs);
    Gradus__V1__ListJobsResponse response = GRADUS__V1__LIST_JOBS_RESPONSE__INIT;
    uint64_t now_ms = chrono_now_ms();
    const struct job_record *record;
    for (size_t i = q->before[0] == '\0' ? 0 : last + 1;
         !response.more && (record = master_job_at(r->shell->master, i, now_ms)) != NULL; i++) {
        if (is_listed(q, record) && response.n_jobs == limit) {
            response.more = true;
        } else if (is_listed(q, record)) {
            job_wire_init(&items[response.n_jobs], record, JOB_WIRE_BRIEF);
            jobs[response.n_jobs] = &items[response.n_jobs].job;
            response.n_jobs++;
        }
    }
    response.jobs = jobs;
    request_reply(r, &response.base);
    for (size_t i = 0; i < response.n_jobs; i++) {
        job_wire_release(&items[i]);
    }
    free(items);
    free(jobs);
}

/* ---- Cancel, Pause, Checkpoint ---- */

static void answer_cancel(struct request *r, const struct master_reply *reply)
{
    request_done(r, "cancel", reply->job->id);
    request_reply_job(r, reply->job, JOB_WIRE_EVALUATIONS);
}

void run_cancel(struct request *r)
{
    const Gradus__V1__CancelRequest *q = (const Gradus__V1__CancelRequest *)r->msg->body;
    if (!request_may_change(r, "cancel", q->job)) {
        return;
    }
    struct master_event e = {.kind = MASTER_CANCEL};
    e.cancel = (struct master_cancel_event){.job = q->job, .now = q->now != 0};
    request_event(r, &e, answer_cancel);
}

static void answer_pause(struct request *r, const struct master_reply *reply)
{
    request_done(r, "pause", reply->job->id);
    request_reply_job(r, reply->job, JOB_WIRE_EVALUATIONS);
}

void run_pause(struct request *r)
{
    const Gradus__V1__GetJobRequest *q = (const Gradus__V1__GetJobRequest *)r->msg->body;
    if (request_may_change(r, "pause", q->job)) {
        struct master_event e = {.kind = MASTER_PAUSE};
        e.job = q->job;
        request_event(r, &e, answer_pause);
    }
}

static void answer_checkpoint(struct request *r, const struct master_reply *reply)
{
    Gradus__V1__CheckpointJobResponse response = GRADUS__V1__CHECKPOINT_JOB_RESPONSE__INIT;
    char *path = mem_strdup(reply->path);
    response.path = path;
    response.step = reply->step;
    request_reply(r, &response.base);
    free(path);
}

void run_checkpoint(struct request *r)
{
    const Gradus__V1__GetJobRequest *q = (const Gradus__V1__GetJobRequest *)r->msg->body;
    if (!request_may_change(r, "checkpoint", q->job)) {
        return;
    }
    struct master_event e = {.kind = MASTER_CHECKPOINT};
    e.job = q->job;
    request_event(r, &e, answer_checkpoint);
}

/* ---- Nodes ---- */

void run_nodes(struct request *r)
{
    struct node_wire *rooms = mem_new(MASTER_NODES_MAX, sizeof *rooms);
    Gradus__V1__NodeInfo **nodes = mem_new(MASTER_NODES_MAX, sizeof(Gradus__V1__NodeInfo *));
    Gradus__V1__NodesResponse response = GRADUS__V1__NODES_RESPONSE__INIT;
    uint64_t now_ms = chrono_now_ms();
    struct master_node_info info;
    const bool all = ((const Gradus__V1__NodesRequest *)r->msg->body)->all;
    size_t count = 0;
    for (size_t i = 0;
         count < MASTER_NODES_MAX && master_node_at(r->shell->master, i, now_ms, &info); i++) {
        if (info.gone && !all) {
            continue;
        }
        node_wire_init(&rooms[count], &info);
        nodes[count] = &rooms[count].info;
        count++;
    }
    response.nodes = nodes;
    response.n_nodes = count;
    request_reply(r, &response.base);
    for (size_t i = 0; i < count; i++) {
        node_wire_release(&rooms[i]);
    }
    free(rooms);
    free(nodes);
}

static void answer_drop(struct request *r, const struct master_reply *reply)
{
    Gradus__V1__DropNodeResponse response = GRADUS__V1__DROP_NODE_RESPONSE__INIT;
    response.node = mem_strdup(reply->node);
    response.was_alive = reply->was_alive;
    request_done(r, "drop_node", reply->node);
    char *node = response.node;
    request_reply(r, &response.base);
    free(node);
}

static void run_drop(struct request *r)
{
    const Gradus__V1__DropNodeRequest *q = (const Gradus__V1__DropNodeRequest *)r->msg->body;
    struct master_event e = {.kind = MASTER_DROP};
    e.id = q->node;
    request_event(r, &e, answer_drop);
}

#define UNARY_METHODS(X)                                                                           \
    X(Get, get)                                                                                    \
    X(List, list)                                                                                  \
    X(Cancel, cancel)                                                                              \
    X(Checkpoint, checkpoint)                                                                      \
    X(Pause, pause)                                                                                \
    X(Resume, resume)                                                                              \
    X(Remove, remove)                                                                              \
    X(Nodes, nodes)                                                                                \
    X(Logs, logs)                                                                                  \
    X(DropNode, drop)

#define X(Name, name)                                                                              \
    static void on_##name(struct rpc_call *call, struct rpc_msg *msg, void *service)               \
    {                                                                                              \
        request_begin(service, call, msg, run_##name);                                             \
    }
UNARY_METHODS(X)
#undef X

const struct rpc_method jobs_methods[] = {
#define X(Name, lower) {.name = #Name, .request = on_##lower},
    UNARY_METHODS(X)
#undef X
        {.name = "Submit", .request = on_submit_call},
    {.name = "Set", .request = on_set_call},
    {.name = "Trace", .request = on_trace_call, .done = on_trace_done},
    {.name = "Tables", .request = on_tables_call, .flags = RPC_END_ON_STOP},
    {.name = "Follow", .request = on_follow_call},
    {.name = "DrainNode", .request = on_drain_call},
    {.name = "Watch", .request = on_watch, .done = on_watch_done, .flags = RPC_END_ON_STOP},
};
const size_t jobs_method_count = sizeof jobs_methods / sizeof *jobs_methods;
