/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that record for a trace, as worker_job_trace.c and on_ps_trace.c of services have it; and
 * what must hold of what they record. */
#include "sim/sim.h"

#define NS_PER_MS UINT64_C(1000000)

uint64_t node_ns(const struct world *w, uint32_t node)
{
    return node_ms(w, node) * NS_PER_MS;
}

static void reply(struct world *w, uint32_t unary, uint32_t attempt)
{
    struct unary_reply *r = unary_reply(w, unary, attempt);
    r->count = w->nodes[w->unaries[unary].to].life;
    unary_answer(w, unary, attempt);
}

static uint64_t bit_of(uint64_t id)
{
    return UINT64_C(1) << id % 64;
}

/* A RECORD that is not refused: one at a time, and each trace once. */
static void check_begun(struct world *w, struct sim_recorder *r, uint32_t node, uint64_t id)
{
    if ((r->over & bit_of(id)) != 0) {
        violated(w, INVARIANT_TRACE, "n%u begins to record for trace %llu once more", node,
                 (unsigned long long)id);
    }
    r->over |= bit_of(id);
    if (r->id != 0 && (r->asked || node_ns(w, node) < r->until_ns)) {
        violated(w, INVARIANT_TRACE, "n%u records for trace %llu, and then for %llu", node,
                 (unsigned long long)r->id, (unsigned long long)id);
    }
    r->id = id;
    r->until_ns = r->recording.deadline_ns;
}

static void refuse_record(struct world *w, const struct sim_recorder *r, uint32_t node,
                          enum recording_asked asked, uint32_t unary, uint32_t attempt)
{
    if (asked == RECORDING_OTHER && (r->id == 0 || node_ns(w, node) >= r->until_ns)) {
        violated(w, INVARIANT_TRACE, "n%u refuses a trace for one that is over", node);
    }
    bool over = asked == RECORDING_OVER;
    unary_refuse(w, unary, attempt, over ? ERR_CANCELLED : ERR_EXISTS,
                 over ? "this trace was stopped" : "a trace is being recorded already");
}

static void note_taken(struct world *w, struct sim_recorder *r, uint32_t node, uint32_t unary)
{
    const struct unary_request *q = &w->unaries[unary].req;
    struct sim_trace *t = trace_find(w, q->trace.id);
    r->over |= bit_of(q->trace.id);
    r->id = r->id == q->trace.id ? 0 : r->id;
    if (t != NULL) {
        t->nodes[q->trace.node].taken_life = w->nodes[node].life;
    }
}

/* ---- a server ---- */

static bool has_shard(const struct sim_node *n, uint32_t job)
{
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
        if (n->shards[i] != NULL && n->shards[i]->open && n->shards[i]->job == job) {
            return true;
        }
    }
    return false;
}

static void server_records(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_recorder *r = &w->nodes[node].recorder;
    const struct unary_request *q = &w->unaries[unary].req;
    uint64_t now_ns = node_ns(w, node);
    if (!has_shard(&w->nodes[node], q->job)) {
        unary_refuse(w, unary, attempt, ERR_NOT_FOUND, "the job has no shard on this server");
        return;
    }
    enum recording_asked asked = recording_ask(&r->recording, q->trace.id, q->trace.ask.steps,
                                               now_ns, now_ns + q->trace.ask.record_ms * NS_PER_MS);
    if (asked == RECORDING_OTHER || asked == RECORDING_OVER) {
        refuse_record(w, r, node, asked, unary, attempt);
        return;
    }
    if (asked == RECORDING_BEGUN) {
        check_begun(w, r, node, q->trace.id);
    }
    struct sim_trace *t = trace_find(w, q->trace.id);
    if (t != NULL) {
        t->nodes[q->trace.node].until_ns = r->until_ns;
    }
    reply(w, unary, attempt);
}

void recorder_server_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_recorder *r = &w->nodes[node].recorder;
    switch (w->unaries[unary].req.trace.ask.kind) {
    case TRACE_ASK_CLOCK:
        reply(w, unary, attempt);
        break;
    case TRACE_ASK_RECORD:
        server_records(w, node, unary, attempt);
        break;
    case TRACE_ASK_TAKE:
        note_taken(w, r, node, unary);
        if (recording_take(&r->recording, w->unaries[unary].req.trace.id)) {
            reply(w, unary, attempt);
        } else {
            unary_refuse(w, unary, attempt, ERR_NOT_FOUND, "no such trace is being recorded");
        }
        break;
    }
}

/* ---- a worker ---- */

void recorder_end(struct world *w, uint32_t node)
{
    struct sim_recorder *r = &w->nodes[node].job->recorder;
    recording_end(&r->recording);
    r->id = 0;
    if (r->asked) {
        r->asked = false;
        reply(w, r->unary, r->attempt);
    }
}

/* Nobody waits for the answer any more. */
static bool is_abandoned(const struct world *w, const struct sim_recorder *r)
{
    const struct unary *u = &w->unaries[r->unary];
    return u->done || w->nodes[u->from].life != u->from_life;
}

static void worker_records(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_recorder *r = &w->nodes[node].job->recorder;
    const struct unary_request *q = &w->unaries[unary].req;
    uint64_t now_ns = node_ns(w, node);
    if (r->asked && (is_abandoned(w, r) || now_ns >= r->recording.deadline_ns)) {
        recorder_end(w, node);
    }
    enum recording_asked asked = recording_ask(&r->recording, q->trace.id, q->trace.ask.steps,
                                               now_ns, now_ns + q->trace.ask.record_ms * NS_PER_MS);
    if (asked != RECORDING_BEGUN) {
        refuse_record(w, r, node, asked, unary, attempt);
        return;
    }
    check_begun(w, r, node, q->trace.id);
    r->asked = true;
    r->unary = unary;
    r->attempt = attempt;
    r->first = UINT64_MAX;
    r->last = 0;
    world_at(w, node_us_of(w, node, r->until_ns / NS_PER_MS), EVENT_RECORD_DUE, node,
             w->nodes[node].job->serial, (uint32_t)q->trace.id);
}

void recorder_worker_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct unary_request *q = &w->unaries[unary].req;
    if (q->trace.ask.kind == TRACE_ASK_CLOCK) {
        reply(w, unary, attempt);
    } else if (!j->there || j->job != q->job) {
        unary_refuse(w, unary, attempt, ERR_NOT_FOUND, "this worker does not have the job");
    } else if (q->trace.ask.kind == TRACE_ASK_RECORD) {
        worker_records(w, node, unary, attempt);
    } else {
        note_taken(w, &j->recorder, node, unary);
        if (recording_take(&j->recorder.recording, q->trace.id)) {
            recorder_end(w, node);
        }
        reply(w, unary, attempt);
    }
}

void recorder_due(struct world *w, uint32_t node, uint32_t id)
{
    const struct sim_recorder *r = &w->nodes[node].job->recorder;
    if (r->asked && (uint32_t)r->recording.id == id) {
        recorder_end(w, node);
    }
}

static bool is_open(const struct sim_worker_job *j, uint64_t trace)
{
    for (uint32_t i = 0; i < j->pending_count; i++) {
        if (j->pending[i].open && j->pending[i].traced == trace) {
            return true;
        }
    }
    return false;
}

/* All that was asked for is recorded. */
static void complete(struct world *w, uint32_t node)
{
    const struct sim_worker_job *j = w->nodes[node].job;
    const struct recording *r = &j->recorder.recording;
    if (!j->recorder.asked || r->steps != r->steps_wanted) {
        violated(w, INVARIANT_TRACE, "a worker is through with trace %llu after %u steps of %u",
                 (unsigned long long)r->id, r->steps, r->steps_wanted);
    }
    if (is_open(j, r->id)) {
        violated(w, INVARIANT_RECORDED, "a worker answers with an exchange of trace %llu open",
                 (unsigned long long)r->id);
    }
    recorder_end(w, node);
}

void recorder_step(struct world *w, uint32_t node, uint64_t step)
{
    struct sim_recorder *r = &w->nodes[node].job->recorder;
    if (recording_step(&r->recording, step).ends) {
        complete(w, node);
    }
}

/* Not by what the recording keeps of it: that is to be checked. */
uint64_t recorder_sending(struct world *w, uint32_t node, uint64_t exchange)
{
    struct sim_recorder *r = &w->nodes[node].job->recorder;
    recording_sending(&r->recording, exchange);
    if (!r->asked || !recording_is_on(&r->recording)) {
        return 0;
    }
    if (r->recording.steps < r->recording.steps_wanted) {
        r->first = exchange < r->first ? exchange : r->first;
        r->last = exchange > r->last ? exchange : r->last;
        return r->id;
    }
    return exchange >= r->first && exchange <= r->last ? r->id : 0;
}

void recorder_answered(struct world *w, uint32_t node, uint64_t exchange)
{
    struct sim_recorder *r = &w->nodes[node].job->recorder;
    if (recording_answered(&r->recording, exchange)) {
        complete(w, node);
    }
}

/* ---- what a server does for a recorded step ---- */

/* The trace for which the worker of @stream records the exchange, and is waited for; 0: none. */
static uint64_t recorded_for(const struct world *w, uint32_t stream, uint64_t exchange)
{
    const struct stream *s = &w->streams[stream];
    const struct sim_node *n = &w->nodes[s->worker];
    const struct sim_worker_job *j = n->job;
    if (!n->up || n->life != s->worker_life || !j->there || j->serial != s->serial ||
        !j->recorder.asked || is_abandoned(w, &j->recorder)) {
        return 0;
    }
    for (uint32_t i = 0; i < j->pending_count; i++) {
        const struct pending_exchange *p = &j->pending[i];
        if (p->open && p->stream == stream && p->number == exchange) {
            return p->traced == j->recorder.id ? p->traced : 0;
        }
    }
    return 0;
}

#define LATE_NS (2 * NS_PER_MS) /* clocks are read to the millisecond */

/* A server may give up while workers record only where clocks differ, or the master stands still.
 */
static bool may_be_late(const struct sim_schedule *s)
{
    bool late = s->knobs.skew;
    for (uint32_t i = 0; i < s->fault_count; i++) {
        const struct sim_fault *f = &s->faults[i];
        late = late || (!f->off && f->kind == FAULT_PAUSE && f->node == 0);
    }
    return late;
}

void recorder_check(struct world *w, uint32_t node, uint32_t stream, uint64_t exchange)
{
    const struct sim_node *n = &w->nodes[node];
    const struct recording *r = &n->recorder.recording;
    uint64_t id = recorded_for(w, stream, exchange);
    const struct sim_trace *t = id == 0 ? NULL : trace_find(w, id);
    uint32_t i = t == NULL ? SIM_NONE : trace_node(t, node);
    if (i == SIM_NONE || (t->nodes[i].recorded && t->nodes[i].life != n->life)) {
        return; /* not of it, or it failed */
    }
    uint64_t until_ns = t->nodes[i].until_ns;
    bool in_time = until_ns == 0 || node_ns(w, node) < until_ns;
    if (until_ns != 0 && node_ns(w, node) >= until_ns + LATE_NS && !may_be_late(w->schedule)) {
        violated(w, INVARIANT_RECORDED, "server n%u gives trace %llu up while workers record", node,
                 (unsigned long long)id);
    }
    if (in_time && (!recording_is_on(r) || r->id != id)) {
        violated(w, INVARIANT_RECORDED,
                 "server n%u is at exchange %llu, which a worker records for trace %llu, and does "
                 "not record it",
                 node, (unsigned long long)exchange, (unsigned long long)id);
    }
}
