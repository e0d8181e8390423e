/* SPDX-License-Identifier: Apache-2.0 */
/* The Cluster service: what nodes tell the master. Each method reads its message into an event and
 * writes the core's reply into the response. */
#include <stdlib.h>

#include "base/mem.h"
#include "gradus/v1/cluster.pb-c.h"
#include "master/shell/job_logs.h"
#include "master/shell/shell.h"
#include "service/access.h"
#include "wire/wire.h"

#define LIST_MAX 4096      /* entries in one message */
#define HELD_MAX 64        /* leases of one worker, ten times what it may have */
#define PARK_MARGIN_MS 300 /* a parked call is answered so long before its deadline */

/* True if the caller may be the node @id. False: the call is answered. */
static bool may_be(struct request *r, const char *id)
{
    struct err err;
    if (auth_check_node(rpc_caller(r->call), id, &err) == 0) {
        return true;
    }
    const struct service_caller caller = request_caller(r);
    service_refused(r->shell->sc, &caller, ACCESS_NODE, NULL, &err);
    request_fail(r, &err);
    return false;
}

static bool has_node(struct request *r, const Gradus__V1__NodeRef *node)
{
    if (node != NULL) {
        return may_be(r, node->id);
    }
    struct err err = {0};
    err_set(&err, ERR_INVALID, "node is missing");
    request_fail(r, &err);
    return false;
}

static void reply_empty(struct request *r, const struct master_reply *reply)
{
    (void)reply;
    /* LeaveResponse, ReportSplitResponse, … have no fields: any empty message packs the same. */
    Gradus__V1__LeaveResponse leave = GRADUS__V1__LEAVE_RESPONSE__INIT;
    Gradus__V1__ReportSplitResponse split = GRADUS__V1__REPORT_SPLIT_RESPONSE__INIT;
    Gradus__V1__ReportProgressResponse progress = GRADUS__V1__REPORT_PROGRESS_RESPONSE__INIT;
    Gradus__V1__ReportFailureResponse failure = GRADUS__V1__REPORT_FAILURE_RESPONSE__INIT;
    const ProtobufCMessageDescriptor *type = r->msg->body->descriptor;
    const ProtobufCMessage *empty = &leave.base;
    if (type == &gradus__v1__report_split_request__descriptor) {
        empty = &split.base;
    } else if (type == &gradus__v1__report_progress_request__descriptor) {
        empty = &progress.base;
    } else if (type == &gradus__v1__report_failure_request__descriptor) {
        empty = &failure.base;
    }
    request_reply(r, empty);
}

/* ---- Join, Heartbeat, Leave ---- */

static void answer_join(struct request *r, const struct master_reply *reply)
{
    const struct master_settings *settings = r->shell->settings;
    const struct master_config beats = {
        .heartbeat_timeout_ms = (uint64_t)settings->heartbeat_timeout_ms,
        .heartbeat_interval_ms = (uint64_t)settings->heartbeat_interval_ms,
    };
    Gradus__V1__JoinResponse response = GRADUS__V1__JOIN_RESPONSE__INIT;
    char *id = mem_strdup(reply->node);
    char *unready = mem_strdup(reply->unready == NULL ? "" : reply->unready);
    response.id = id;
    response.unready = unready;
    response.heartbeat_timeout_ms = (uint32_t)beats.heartbeat_timeout_ms;
    response.heartbeat_interval_ms = (uint32_t)master_beat_ms(&beats);
    request_reply(r, &response.base);
    free(unready);
    free(id);
}

static void run_join(struct request *r)
{
    const Gradus__V1__JoinRequest *q = (const Gradus__V1__JoinRequest *)r->msg->body;
    const struct auth_identity *who = rpc_caller(r->call);
    if (!may_be(r, q->name)) {
        return;
    }
    struct master_event e = {.kind = MASTER_JOIN};
    e.join = (struct master_join_event){
        .role = (int)q->role,
        .incarnation = q->incarnation,
        .name = q->name[0] != '\0' ? q->name : who->node, /* a node with a name wants that one */
        .address = q->address,
        .http_address = q->http_address,
        .version = q->version,
        .protocol = q->protocol,
        .host = q->host,
        .pid = q->pid,
    };
    request_event(r, &e, answer_join);
}

static void answer_heartbeat(struct request *r, const struct master_reply *reply)
{
    Gradus__V1__HeartbeatResponse response = GRADUS__V1__HEARTBEAT_RESPONSE__INIT;
    const Gradus__V1__HeartbeatRequest *q = (const Gradus__V1__HeartbeatRequest *)r->msg->body;
    job_logs_heard(r->shell, q->node, q->lines, q->n_lines);
    char **jobs = mem_new(reply->stop_job_count + 1, sizeof *jobs);
    for (size_t i = 0; i < reply->stop_job_count; i++) {
        jobs[i] = mem_strdup(reply->stop_jobs[i]);
    }
    size_t count = reply->stop_job_count;
    response.stop_jobs = jobs;
    response.n_stop_jobs = count;
    uint64_t *openings = mem_new(reply->stop_opening_count + 1, sizeof *openings);
    for (size_t i = 0; i < reply->stop_opening_count; i++) {
        openings[i] = reply->stop_openings[i];
    }
    response.stop_openings = openings;
    response.n_stop_openings = reply->stop_opening_count;
    char *unready = mem_strdup(reply->unready == NULL ? "" : reply->unready);
    response.unready = unready;
    response.moves = reply->moves;
    request_reply(r, &response.base);
    free(unready);
    free(openings);
    for (size_t i = 0; i < count; i++) {
        free(jobs[i]);
    }
    free(jobs);
}

static void run_heartbeat(struct request *r)
{
    const Gradus__V1__HeartbeatRequest *q = (const Gradus__V1__HeartbeatRequest *)r->msg->body;
    if (!has_node(r, q->node)) {
        return;
    }
    size_t count = q->n_jobs < LIST_MAX ? q->n_jobs : LIST_MAX;
    const char **jobs = mem_new(count + 1, sizeof *jobs);
    uint64_t *generations = mem_new(count + 1, sizeof *generations);
    uint64_t *openings = mem_new(count + 1, sizeof *openings);
    struct master_standby_said *standbys = mem_new(count + 1, sizeof *standbys);
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__Standby *said = q->jobs[i]->standby;
        if (said != NULL) {
            const uint64_t behind =
                said->records > said->received ? said->records - said->received : 0;
            const bool primary = said->role == GRADUS__V1__STANDBY__ROLE__PRIMARY;
            standbys[i] = (struct master_standby_said){.waits_ms = said->waits_ms,
                                                       .behind = primary ? behind : 0,
                                                       .problem = said->problem,
                                                       .backup = said->backup,
                                                       .follows = said->follows != 0,
                                                       .state_sent = said->state_sent,
                                                       .state_bytes = said->state_bytes};
        }
        jobs[i] = q->jobs[i]->job;
        generations[i] = q->jobs[i]->generation;
        openings[i] = q->jobs[i]->opening;
    }
    struct master_work works[MASTER_WORKS_MAX];
    size_t work_count = q->n_works < MASTER_WORKS_MAX ? q->n_works : MASTER_WORKS_MAX;
    for (size_t i = 0; i < work_count; i++) {
        const Gradus__V1__Work *w = q->works[i];
        works[i] = (struct master_work){w->job, w->what, w->unit, w->done, w->total, w->age_ms};
    }
    struct master_event e = {.kind = MASTER_HEARTBEAT};
    e.node = (struct master_node_event){
        .node = q->node->id,
        .incarnation = q->node->incarnation,
        .jobs = jobs,
        .generations = generations,
        .openings = openings,
        .standbys = standbys,
        .leaves = q->leaves != 0,
        .job_count = count,
        .works = works,
        .work_count = work_count,
    };
    request_event(r, &e, answer_heartbeat);
    free(standbys);
    free(openings);
    free(generations);
    free(jobs);
}

static void answer_leave(struct request *r, const struct master_reply *reply)
{
    const Gradus__V1__LeaveRequest *q = (const Gradus__V1__LeaveRequest *)r->msg->body;
    job_logs_heard(r->shell, q->node, q->lines, q->n_lines);
    reply_empty(r, reply);
}

static void run_leave(struct request *r)
{
    const Gradus__V1__LeaveRequest *q = (const Gradus__V1__LeaveRequest *)r->msg->body;
    if (!has_node(r, q->node)) {
        return;
    }
    struct master_event e = {.kind = MASTER_LEAVE};
    e.node = (struct master_node_event){.node = q->node->id, .incarnation = q->node->incarnation};
    request_event(r, &e, answer_leave);
}

/* ---- LeaseSplit, ReportSplit ---- */

static struct master_event worker_event(enum master_event_kind kind,
                                        const Gradus__V1__NodeRef *node, const char *job,
                                        uint64_t generation)
{
    struct master_event e = {.kind = kind};
    e.worker = (struct master_worker_event){
        .node = node->id,
        .incarnation = node->incarnation,
        .job = job,
        .generation = generation,
        .message = "",
    };
    return e;
}

static void answer_lease(struct request *r, const struct master_reply *reply)
{
    Gradus__V1__LeaseSplitResponse response = GRADUS__V1__LEASE_SPLIT_RESPONSE__INIT;
    Gradus__V1__Lease lease = GRADUS__V1__LEASE__INIT;
    switch (reply->lease_kind) {
    case MASTER_LEASE_WAIT:
        response.kind = GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__WAIT;
        break;
    case MASTER_LEASE_DONE:
        response.kind = GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__DONE;
        break;
    case MASTER_LEASE_GRANTED:
        response.kind = GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__LEASE;
        lease.epoch = reply->lease.epoch;
        lease.split = reply->lease.split;
        lease.batch_end = reply->lease.batch_end;
        lease.fresh = reply->lease.fresh;
        response.lease = &lease;
        break;
    }
    request_reply(r, &response.base);
}

static void run_lease_split(struct request *r)
{
    const Gradus__V1__LeaseSplitRequest *q = (const Gradus__V1__LeaseSplitRequest *)r->msg->body;
    if (!has_node(r, q->node)) {
        return;
    }
    struct err err = {0};
    if (q->n_held > HELD_MAX) { /* a list that is cut would let the rest be granted again */
        err_set(&err, ERR_INVALID, "%zu leases held; at most %d", q->n_held, HELD_MAX);
        request_fail(r, &err);
        return;
    }
    struct lease held[HELD_MAX];
    for (size_t i = 0; i < q->n_held; i++) {
        const Gradus__V1__Lease *l = q->held[i];
        held[i] = (struct lease){.epoch = l->epoch,
                                 .split = l->split,
                                 .batch_end = l->batch_end,
                                 .fresh = l->fresh != 0};
    }
    struct master_event e = worker_event(MASTER_LEASE_SPLIT, q->node, q->job, q->generation);
    e.worker.held = held;
    e.worker.held_count = q->n_held;
    int64_t left_ms = rpc_time_left_ms(r->call) - PARK_MARGIN_MS;
    e.worker.wait_ms = left_ms > 0 ? (uint64_t)left_ms : 0;
    request_event(r, &e, answer_lease);
}

static void run_report_split(struct request *r)
{
    const Gradus__V1__ReportSplitRequest *q = (const Gradus__V1__ReportSplitRequest *)r->msg->body;
    if (!has_node(r, q->node)) {
        return;
    }
    struct err err = {0};
    if (q->batch_end == 0) {
        err_set(&err, ERR_INVALID, "batch_end is missing");
        request_fail(r, &err);
        return;
    }
    struct master_event e = worker_event(MASTER_REPORT_SPLIT, q->node, q->job, q->generation);
    e.worker.epoch = q->epoch;
    e.worker.split = q->split;
    e.worker.batch_end = q->batch_end;
    request_event(r, &e, reply_empty);
}

/* ---- ReportProgress, ReportFailure ---- */

static void run_report_progress(struct request *r)
{
    const Gradus__V1__ReportProgressRequest *q =
        (const Gradus__V1__ReportProgressRequest *)r->msg->body;
    if (!has_node(r, q->node)) {
        return;
    }
    struct master_event e = worker_event(MASTER_REPORT_PROGRESS, q->node, q->job, q->generation);
    size_t count = q->n_epochs < LIST_MAX ? q->n_epochs : LIST_MAX;
    struct master_epoch_progress *epochs = mem_new(count + 1, sizeof *epochs);
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__EpochProgress *p = q->epochs[i];
        epochs[i] = (struct master_epoch_progress){
            .epoch = p->epoch,
            .batches = p->batches,
            .examples = p->examples,
            .sums = p->sums == NULL ? NULL : p->sums->values,
            .sum_count = p->sums == NULL ? 0 : p->sums->n_values,
        };
    }
    e.worker.sequence = q->sequence;
    e.worker.position = q->position;
    e.worker.dropped = q->dropped;
    e.worker.speculated = q->speculated;
    e.worker.idle = q->idle != 0;
    e.worker.epochs = epochs;
    e.worker.epoch_count = count;
    e.worker.staleness = q->staleness;
    wire_step_times_from_proto(q->times, &e.worker.times);
    e.worker.staleness_count = q->n_staleness < LIST_MAX ? q->n_staleness : LIST_MAX;
    request_event(r, &e, reply_empty);
    free(epochs);
}

static void run_report_failure(struct request *r)
{
    const Gradus__V1__ReportFailureRequest *q =
        (const Gradus__V1__ReportFailureRequest *)r->msg->body;
    if (!has_node(r, q->node)) {
        return;
    }
    struct master_event e = worker_event(MASTER_REPORT_FAILURE, q->node, q->job, q->generation);
    e.worker.code = q->code > 0 && q->code <= 16 ? -q->code : ERR_UNKNOWN;
    e.worker.message = q->message;
    request_event(r, &e, reply_empty);
}

#define CLUSTER_METHODS(X)                                                                         \
    X(Join, join)                                                                                  \
    X(Heartbeat, heartbeat)                                                                        \
    X(Leave, leave)                                                                                \
    X(LeaseSplit, lease_split)                                                                     \
    X(ReportSplit, report_split)                                                                   \
    X(ReportProgress, report_progress)                                                             \
    X(ReportFailure, report_failure)

#define X(Name, name)                                                                              \
    static void on_##name(struct rpc_call *call, struct rpc_msg *msg, void *service)               \
    {                                                                                              \
        request_begin(service, call, msg, run_##name);                                             \
    }
CLUSTER_METHODS(X)
#undef X

const struct rpc_method cluster_methods[] = {
#define X(Name, lower) {.name = #Name, .request = on_##lower},
    CLUSTER_METHODS(X)
#undef X
};
const size_t cluster_method_count = sizeof cluster_methods / sizeof *cluster_methods;
