/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of the load say to the master of their own accord. */
#include <stdlib.h>
#include <string.h>

#include "base/release.h"
#include "base/text.h"
#include "bench/load.h"
#include "os/chrono.h"
#include "wire/wire.h"

#define SPREAD_MS 3    /* from one joining to the next */
#define AGAIN_MS 200   /* after a joining that was refused */
#define REPORT_MS 500  /* as a worker's */
#define BEAT_MS 1000   /* as a node's, by the default of the time-out */
#define FLAP_MS 6000   /* of who comes and goes: there, */
#define AWAY_MS 500    /* and away */
#define LIVES_SHIFT 20 /* of incarnations */

static void join(void *ctx);

struct load_node *load_node_of(struct load *l, uint64_t incarnation)
{
    size_t number = incarnation & ((1U << LIVES_SHIFT) - 1);
    struct load_node *n = number >= 1 && number <= l->node_count ? &l->nodes[number - 1] : NULL;
    return n != NULL && n->incarnation == incarnation ? n : NULL;
}

static Gradus__V1__NodeRef ref_of(struct load_node *n)
{
    Gradus__V1__NodeRef ref = GRADUS__V1__NODE_REF__INIT;
    ref.id = n->id;
    ref.incarnation = n->incarnation;
    return ref;
}

static void timer(struct load_node *n, struct loop_timer *t, uint64_t ms, void (*fn)(void *ctx))
{
    loop_timer_set(n->load->loop, t, chrono_now_ms() + ms, fn, n);
}

/* ---- splits ---- */

static void lease(struct load_node *n);

static void split_reported(struct load_node *n, uint64_t turn, int code,
                           const ProtobufCMessage *reply)
{
    (void)reply;
    if (turn == n->turn && code == 0) {
        n->leased = false;
        lease(n);
    }
}

/* Its batches are applied on every shard. */
static void split_done(void *ctx)
{
    struct load_node *n = ctx;
    struct load_job *j = n->job;
    if (n->load->paused) {
        timer(n, &n->work, n->load->options.split_ms, split_done);
        return;
    }
    if (j->ledger.epoch == n->epoch && n->split < j->ledger.split_count &&
        j->ledger.done[n->split] < n->batch_end) {
        j->version += n->batch_end - j->ledger.done[n->split];
        n->batches += n->batch_end - j->ledger.done[n->split];
        j->ledger.done[n->split] = n->batch_end;
    }
    if (ledger_left(&j->ledger) == 0) {
        ledger_next_epoch(&j->ledger);
        j->taken = 0;
    }
    Gradus__V1__NodeRef ref = ref_of(n);
    Gradus__V1__ReportSplitRequest q = GRADUS__V1__REPORT_SPLIT_REQUEST__INIT;
    q.node = &ref;
    q.job = j->id;
    q.generation = n->generation;
    q.epoch = n->epoch;
    q.split = n->split;
    q.batch_end = n->batch_end;
    load_ask(n, LOAD_REPORT_SPLIT, "ReportSplit", &q.base, split_reported);
}

static void leased(struct load_node *n, uint64_t turn, int code, const ProtobufCMessage *reply)
{
    const Gradus__V1__LeaseSplitResponse *r = (const Gradus__V1__LeaseSplitResponse *)reply;
    if (turn != n->turn || n->job == NULL) {
        return;
    }
    if (code != 0) { /* the next Assign says more */
        return;
    }
    if (r->kind == GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__WAIT) {
        lease(n);
    } else if (r->kind == GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__LEASE && r->lease != NULL) {
        n->leased = true;
        n->epoch = r->lease->epoch;
        n->split = r->lease->split;
        n->batch_end = r->lease->batch_end;
        timer(n, &n->work, n->load->options.split_ms, split_done);
    }
}

static void lease(struct load_node *n)
{
    Gradus__V1__NodeRef ref = ref_of(n);
    Gradus__V1__LeaseSplitRequest q = GRADUS__V1__LEASE_SPLIT_REQUEST__INIT;
    q.node = &ref;
    q.job = n->job->id;
    q.generation = n->generation;
    bool at_once = !n->job->stands && n->job->taken < n->job->ledger.split_count;
    n->job->taken++;
    load_ask(n, at_once ? LOAD_LEASE : LOAD_OTHER, "LeaseSplit", &q.base, leased);
}

static void report(struct load_node *n, bool idle)
{
    Gradus__V1__NodeRef ref = ref_of(n);
    Gradus__V1__ReportProgressRequest q = GRADUS__V1__REPORT_PROGRESS_REQUEST__INIT;
    q.node = &ref;
    q.job = n->job->id;
    q.generation = n->generation;
    q.sequence = ++n->sequence;
    q.position = n->batches;
    q.idle = idle;
    load_ask(n, LOAD_PROGRESS, "ReportProgress", &q.base, NULL);
}

static void report_time(void *ctx)
{
    struct load_node *n = ctx;
    if (!n->load->paused) {
        report(n, false);
    }
    timer(n, &n->report, REPORT_MS, report_time);
}

static void stop_work(struct load_node *n)
{
    n->turn++;
    n->leased = false;
    loop_timer_clear(n->load->loop, &n->work);
    loop_timer_clear(n->load->loop, &n->report);
}

/* The lease that it may have been given goes on. */
void load_node_work(struct load_node *n)
{
    bool goes_on = n->leased;
    stop_work(n);
    timer(n, &n->report, REPORT_MS, report_time);
    n->leased = goes_on;
    if (goes_on) {
        timer(n, &n->work, n->load->options.split_ms, split_done);
    } else {
        lease(n);
    }
}

void load_node_hold(struct load_node *n)
{
    stop_work(n);
    report(n, true);
}

void load_node_drop(struct load_node *n)
{
    stop_work(n);
    n->job = NULL;
    n->start = n->generation = n->batches = n->sequence = 0;
}

/* ---- membership ---- */

/* Of who is away, or begins a new life. */
static void forget(struct load_node *n)
{
    load_node_drop(n);
    n->shard_count = 0;
    n->life++;
    n->load->in_count -= n->in;
    n->in = false;
    loop_timer_clear(n->load->loop, &n->beat);
}

static void drop_opening(struct load_node *n, uint64_t opening)
{
    if (n->job != NULL && n->start == opening) {
        load_node_drop(n);
    }
    for (size_t i = n->shard_count; i-- > 0;) {
        if (n->shards[i].opening == opening) {
            n->shards[i] = n->shards[--n->shard_count];
        }
    }
}

static void beaten(struct load_node *n, uint64_t turn, int code, const ProtobufCMessage *reply)
{
    (void)turn;
    const Gradus__V1__HeartbeatResponse *r = (const Gradus__V1__HeartbeatResponse *)reply;
    if (code == ERR_NOT_FOUND) { /* given up, though it was there */
        n->load->lost++;
        forget(n);
        join(n);
    }
    for (size_t i = 0; code == 0 && i < r->n_stop_openings; i++) {
        drop_opening(n, r->stop_openings[i]);
    }
    for (size_t i = 0; code == 0 && i < r->n_stop_jobs; i++) {
        if (n->job != NULL && strcmp(n->job->id, r->stop_jobs[i]) == 0) {
            load_node_drop(n);
        }
    }
}

static void beat(void *ctx)
{
    struct load_node *n = ctx;
    timer(n, &n->beat, BEAT_MS, beat);
    if (n->load->paused) {
        return;
    }
    Gradus__V1__NodeRef ref = ref_of(n);
    Gradus__V1__HeldJob held[LOAD_SHARDS_MAX + 1], *list[LOAD_SHARDS_MAX + 1];
    Gradus__V1__HeartbeatRequest q = GRADUS__V1__HEARTBEAT_REQUEST__INIT;
    for (size_t i = 0; i < LOAD_SHARDS_MAX + 1; i++) {
        gradus__v1__held_job__init(&held[i]);
        list[i] = &held[i];
    }
    for (size_t i = 0; i < n->shard_count; i++) {
        held[i].job = n->shards[i].job->id;
        held[i].generation = n->shards[i].generation;
        held[i].opening = n->shards[i].opening;
    }
    q.n_jobs = n->shard_count;
    if (n->job != NULL) {
        held[0].job = n->job->id;
        held[0].generation = n->generation;
        held[0].opening = n->start;
        q.n_jobs = 1;
    }
    q.node = &ref;
    q.jobs = list;
    load_ask(n, LOAD_HEARTBEAT, "Heartbeat", &q.base, beaten);
}

static void come_back(void *ctx)
{
    struct load_node *n = ctx;
    n->incarnation += UINT64_C(1) << LIVES_SHIFT; /* another process */
    join(n);
}

/* In turn it says good-bye, or is another process at the same place that wants its name. */
static void go_away(void *ctx)
{
    struct load_node *n = ctx;
    if (n->load->paused) {
        timer(n, &n->flap, FLAP_MS, go_away);
        return;
    }
    if (n->mood++ % 2 == 0) {
        Gradus__V1__NodeRef ref = ref_of(n);
        Gradus__V1__LeaveRequest q = GRADUS__V1__LEAVE_REQUEST__INIT;
        q.node = &ref;
        load_ask(n, LOAD_OTHER, "Leave", &q.base, NULL);
    }
    forget(n);
    timer(n, &n->flap, AWAY_MS, come_back);
}

static void joined(struct load_node *n, uint64_t turn, int code, const ProtobufCMessage *reply)
{
    (void)turn;
    const Gradus__V1__JoinResponse *r = (const Gradus__V1__JoinResponse *)reply;
    if (code != 0) {
        timer(n, &n->beat, AGAIN_MS, join);
        return;
    }
    text_copy(n->id, sizeof n->id, r->id);
    n->in = true;
    n->load->in_count++;
    size_t number = (size_t)(n - n->load->nodes);
    timer(n, &n->beat, BEAT_MS * (number % 97) / 97, beat);
    if (n->flaps) {
        timer(n, &n->flap, FLAP_MS + FLAP_MS * (number % 13) / 13, go_away);
    }
}

static void join(void *ctx)
{
    struct load_node *n = ctx;
    Gradus__V1__JoinRequest q = GRADUS__V1__JOIN_REQUEST__INIT;
    char version[] = GRADUS_VERSION, host[] = "load";
    q.role = n->server ? GRADUS__V1__NODE_ROLE__PS : GRADUS__V1__NODE_ROLE__WORKER;
    q.incarnation = n->incarnation;
    q.name = n->id; /* none at first */
    q.address = n->address;
    q.version = version;
    q.protocol = RELEASE_PROTOCOL;
    q.host = host;
    load_ask(n, LOAD_JOIN, "Join", &q.base, joined);
}

void load_nodes_begin(struct load *l)
{
    for (size_t i = 0; i < l->node_count; i++) {
        l->nodes[i].incarnation = i + 1 + (UINT64_C(1) << LIVES_SHIFT);
        timer(&l->nodes[i], &l->nodes[i].beat, i * SPREAD_MS, join);
    }
}
