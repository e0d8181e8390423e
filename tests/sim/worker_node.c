/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of a worker: one job at a time, whose thread takes its mail in order and does nothing
 * else while it computes. Parameters come in beside it. */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

/* ---- life of the node's job ---- */

static void take_job(struct world *w, uint32_t node, uint32_t job)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_worker_job *j = n->job;
    struct worker_actions actions = j->actions;
    given_stop(w, j, false);
    memset(j, 0, offsetof(struct sim_worker_job, mail));
    j->actions = actions;
    j->actions.count = 0;
    j->mail_first = 0;
    j->mail_count = 0;
    j->timer = SIM_TIMER_NONE;
    j->pending_count = 0;
    memset(j->filling, 0, sizeof j->filling);
    memset(j->sets, 0, sizeof j->sets);
    memset(j->calls, 0, sizeof j->calls);
    memset(&j->measured, 0, sizeof j->measured);
    j->tag_last = 0;
    j->there = true;
    j->serial = (uint32_t)++w->serials;
    j->job = job;
    for (uint32_t s = 0; s < SIM_SHARDS_MAX; s++) {
        j->links[s].stream = SIM_NONE;
    }
    TRACE(w, node, "takes %s", w->jobs[job].id);
    member_hurry(w, node);
}

static void refuse_all(struct world *w, struct sim_worker_job *j)
{
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].tag != 0) {
            unary_refuse(w, j->calls[i].unary, j->calls[i].attempt, ERR_CANCELLED,
                         "the job was stopped");
        }
    }
    for (uint32_t i = 0; i < j->mail_count; i++) {
        const struct mail *m = &j->mail[(j->mail_first + i) % SIM_MAIL_MAX];
        if (m->kind == MAIL_REQUEST) {
            unary_refuse(w, m->index, m->attempt, ERR_CANCELLED, "the job was stopped");
        } else if (m->kind == MAIL_EXCHANGED) {
            exchange_free(w, m->index);
        } else if (m->kind == MAIL_MASTER || m->kind == MAIL_FILLED) {
            unary_unref(w, m->index);
        }
    }
    given_stop(w, j, true);
    if (j->has_loading) {
        unary_refuse(w, j->loading_mail.index, j->loading_mail.attempt, ERR_CANCELLED,
                     "the job was stopped");
    }
}

void worker_drop(struct world *w, uint32_t node, uint32_t job)
{
    struct sim_worker_job *j = w->nodes[node].job;
    if (!j->there || (job != SIM_NONE && j->job != job)) {
        return;
    }
    TRACE(w, node, "drops %s", w->jobs[j->job].id);
    recorder_end(w, node);
    j->there = false;
    refuse_all(w, j);
    for (uint32_t s = 0; s < j->shard_count; s++) {
        if (j->links[s].stream != SIM_NONE) {
            stream_close(w, j->links[s].stream);
        }
    }
    worker_free(j->core);
    j->core = NULL;
    j->serial = 0;
}

/* Killed: nobody is told anything, the mail is just gone. net_killed() has the calls. */
void worker_end(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    for (uint32_t i = 0; j->there && i < j->mail_count; i++) {
        const struct mail *m = &j->mail[(j->mail_first + i) % SIM_MAIL_MAX];
        if (m->kind == MAIL_EXCHANGED) {
            exchange_free(w, m->index);
        } else if (m->kind == MAIL_MASTER || m->kind == MAIL_FILLED) {
            unary_unref(w, m->index);
        }
    }
    given_stop(w, j, false);
    j->there = false;
    worker_free(j->core);
    j->core = NULL;
    j->serial = 0;
}

/* ---- the master's calls, on the job's thread ---- */

static void load_then(struct world *w, uint32_t node, const struct mail *m)
{
    struct sim_worker_job *j = w->nodes[node].job;
    j->busy = true;
    j->busy_us = w->now_us;
    j->has_loading = true;
    j->loading_mail = *m;
    uint64_t us = world_takes(w, "load", w->schedule->knobs.load_us);
    world_at(w, w->now_us + us, EVENT_COMPUTED, node, j->serial, 0);
}

void worker_begin_core(struct world *w, uint32_t node, uint64_t generation)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct sim_job *job = &w->jobs[j->job];
    struct worker_config config = {
        .generation = generation,
        .shard_count = j->layout->shard_count,
        .tables = job->tables,
        .shape = {job->records, job->batch_records,
                  job->split_batches > 0 ? job->split_batches : 1},
    };
    j->core = worker_new(&config);
    j->started = true;
    j->shard_count = j->layout->shard_count;
}

static void start(struct world *w, uint32_t node, const struct mail *m)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_worker_job *j = n->job;
    const struct unary_request *q = &w->unaries[m->index].req;
    if (n->name == 0) {
        unary_refuse(w, m->index, m->attempt, ERR_UNAVAILABLE,
                     "this worker has not joined the master");
        return;
    }
    if (!j->started && w->jobs[j->job].given) {
        j->core_start = q->start;
        j->name = n->name;
        given_start(w, node, m);
        return;
    }
    if (!j->started) {
        j->core_start = q->start;
        j->name = n->name;
        j->layout = &w->jobs[j->job].layouts[q->planned];
        worker_begin_core(w, node, q->generation);
    }
    if (j->core_start != q->start) { /* what it knows, holds and has measured is over */
        violated(w, INVARIANT_ORDER, "a worker answers start %llx of a job with start %llx",
                 (unsigned long long)q->start, (unsigned long long)j->core_start);
    }
    (void)unary_reply(w, m->index, m->attempt);
    unary_answer(w, m->index, m->attempt);
}

static uint64_t keep_call(struct sim_worker_job *j, const struct mail *m)
{
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].tag == 0) {
            j->calls[i].tag = ++j->tag_last;
            j->calls[i].unary = m->index;
            j->calls[i].attempt = m->attempt;
            return j->tag_last;
        }
    }
    return 0;
}

/* Addresses as the core knows them: node, and which of its addresses. */
struct said_places {
    char text[SIM_SHARDS_MAX][16];
    struct worker_place at[SIM_SHARDS_MAX];
};

static const struct worker_place *read_places(const struct unary_request *q, struct said_places *p)
{
    for (uint32_t s = 0; s < q->shard_count; s++) {
        snprintf(p->text[s], sizeof p->text[s], "%u/%u", q->places[s].node, q->places[s].address);
        p->at[s] = (struct worker_place){p->text[s], q->places[s].opening};
    }
    return p->at;
}

static void assign(struct world *w, uint32_t node, const struct mail *m)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct unary_request *q = &w->unaries[m->index].req;
    uint32_t done[SIM_SPLITS_MAX];
    struct said_places places;
    struct ledger ledger;
    struct era eras[SIM_ERAS_MAX];
    struct worker_event e = {.kind = WORKER_ASSIGN};
    struct worker_assignment *a = &e.assign.assignment;
    *a = (struct worker_assignment){
        .generation = q->generation,
        .number = q->number,
        .replica_first = q->replica_first,
        .replica_end = q->replica_end,
        .step = q->step,
        .step_limit = q->step_limit,
        .ledger_step = q->ledger_step,
        .hold = q->hold,
    };
    if (q->incarnation != w->nodes[node].incarnation) {
        unary_refuse(w, m->index, m->attempt, ERR_ABORTED, "this was meant for another process");
        return;
    }
    if (q->lease_count > WORKER_LEASES_MAX) {
        violated(w, INVARIANT_ORDER, "an assignment of %u leases", q->lease_count);
    }
    if (q->generation > worker_generation(j->core)) { /* otherwise nobody looks at the rest */
        memcpy(done, q->ledger.done, sizeof done);
        ledger = (struct ledger){q->ledger.shape, q->ledger.epoch, q->ledger.split_count, done};
        a->ledger = &ledger;
        e.assign.places = read_places(q, &places);
        e.assign.eras = eras;
        e.assign.era_count = eras_for_core(j->layout, q->eras, q->era_count, eras);
        a->consistency = q->consistency;
        j->consistency = q->consistency;
        bool sync = q->consistency.mode == TRAINING_SYNC;
        for (uint32_t i = 0; i < q->lease_count && !sync; i++) {
            const struct lease *l = &q->leases[i];
            a->leases[i] = (struct worker_lease){l->epoch, l->split, l->batch_end, l->fresh};
        }
        a->lease_count = sync ? 0 : q->lease_count;
    }
    e.assign.tag = keep_call(j, m);
    if (e.assign.tag == 0) {
        unary_refuse(w, m->index, m->attempt, ERR_EXHAUSTED, "too many calls wait already");
        return;
    }
    job_feed(w, node, &e);
}

static void evaluate(struct world *w, uint32_t node, const struct mail *m)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct unary_request *q = &w->unaries[m->index].req;
    char pin_id[64];
    struct said_places places;
    memcpy(pin_id, q->pin_id, sizeof pin_id);
    if (w->tests_us > w->now_us) {
        unary_refuse(w, m->index, m->attempt, ERR_CORRUPT, "the test records cannot be read");
        return;
    }
    evaluation_begun(w, j->job, pin_id);
    struct worker_event e = {.kind = WORKER_EVALUATE,
                             .evaluate = {.tag = keep_call(j, m),
                                          .generation = q->generation,
                                          .pin_id = pin_id,
                                          .first = q->first,
                                          .count = q->count,
                                          .places = read_places(q, &places)}};
    if (e.evaluate.tag == 0) {
        unary_refuse(w, m->index, m->attempt, ERR_EXHAUSTED, "too many calls wait already");
        return;
    }
    job_feed(w, node, &e);
}

/* An order is for what one StartJob has begun. */
static void check_order(struct world *w, const struct sim_worker_job *j, uint64_t start)
{
    if (j->core_start != start) {
        violated(w, INVARIANT_FENCE, "a worker with start %llx of %s obeys an order of start %llx",
                 (unsigned long long)j->core_start, w->jobs[j->job].id, (unsigned long long)start);
    }
}

static void handle_request(struct world *w, uint32_t node, const struct mail *m)
{
    struct sim_worker_job *j = w->nodes[node].job;
    enum master_call_kind call = w->unaries[m->index].req.call;
    if (w->unaries[m->index].kind == UNARY_TRACE) {
        recorder_worker_called(w, node, m->index, m->attempt);
        return;
    }
    if ((call == MASTER_CALL_INSPECT || call == MASTER_CALL_START) && !j->loaded) {
        j->loaded = true;
        load_then(w, node, m);
    } else if (call == MASTER_CALL_INSPECT) {
        (void)unary_reply(w, m->index, m->attempt);
        unary_answer(w, m->index, m->attempt);
    } else if (call == MASTER_CALL_START) {
        start(w, node, m);
    } else if (!j->started) {
        unary_refuse(w, m->index, m->attempt, ERR_STATE, "the job is not started on this worker");
    } else {
        check_order(w, j, w->unaries[m->index].req.start);
        (call == MASTER_CALL_ASSIGN ? assign : evaluate)(w, node, m);
    }
}

/* ---- answers ---- */

static size_t staleness_bucket(uint64_t staleness)
{
    size_t bucket = 0;
    if (staleness <= 2) {
        return (size_t)staleness;
    }
    for (uint64_t top = 2; top < staleness && bucket < JOB_STALENESS_BUCKETS - 3; top *= 2) {
        bucket++;
    }
    return bucket + 2;
}

static void handle_exchanged(struct world *w, uint32_t node, uint32_t index)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct exchange x = w->exchanges[index];
    exchange_free(w, index);
    uint8_t decision[8];
    memcpy(decision, &x.decision, sizeof decision);
    struct worker_event e = {.kind = WORKER_EXCHANGED,
                             .exchanged = {.exchange = x.number,
                                           .code = x.code,
                                           .message = x.message,
                                           .version = x.version,
                                           .partial = x.partial,
                                           .rows = x.with_rows,
                                           .answer = x.answer}};
    e.exchanged.answer.decision.replicas = decision;
    if (x.code == 0 && x.answer.kind == EXCHANGE_SUMS) {
        j->sums[w->streams[x.stream].shard] = x.sums;
    }
    if (x.code == 0 && x.answer.train.push == PUSH_APPLIED) {
        j->measured.staleness[staleness_bucket(x.answer.train.staleness)]++;
    }
    recorder_answered(w, node, x.number);
    job_feed(w, node, &e);
}

static struct worker_leased read_lease(const struct unary *u, const struct unary_reply *r)
{
    struct worker_leased l = {.generation = u->req.generation, .code = r->code};
    if (r->code == ERR_TIMEOUT) {
        l.code = 0; /* none was free */
        l.kind = WORKER_LEASE_WAIT;
    } else if (r->code == 0) {
        l.kind = r->lease_kind == MASTER_LEASE_GRANTED ? WORKER_LEASE_GRANTED
                 : r->lease_kind == MASTER_LEASE_DONE  ? WORKER_LEASE_DONE
                                                       : WORKER_LEASE_WAIT;
        l.granted = (struct worker_lease){r->lease.epoch, r->lease.split, r->lease.batch_end,
                                          r->lease.fresh};
    }
    return l;
}

static void handle_master(struct world *w, uint32_t node, const struct mail *m)
{
    static const enum worker_event_kind KINDS[UNARY_KIND_COUNT] = {
        [UNARY_LEASE] = WORKER_LEASED,
        [UNARY_REPORT_SPLIT] = WORKER_SPLIT_REPORTED,
        [UNARY_REPORT_PROGRESS] = WORKER_PROGRESS_REPORTED,
        [UNARY_REPORT_FAILURE] = WORKER_FAILURE_REPORTED,
    };
    const struct unary *u = &w->unaries[m->index];
    const struct unary_reply *r = &u->rsp[m->attempt];
    struct worker_event e = {.kind = KINDS[u->kind]};
    if (u->kind == UNARY_LEASE) {
        e.leased = read_lease(u, r);
    } else {
        e.reported = (struct worker_reported){u->req.generation, r->code};
    }
    const bool unknown = r->code == ERR_NOT_FOUND;
    unary_unref(w, m->index);
    if (unknown) {
        member_hurry(w, node);
    }
    job_feed(w, node, &e);
}

/* ---- the mailbox ---- */

static void handle(struct world *w, uint32_t node, const struct mail *m)
{
    struct worker_event timer = {.kind = WORKER_TIMER};
    switch (m->kind) {
    case MAIL_REQUEST:
        handle_request(w, node, m);
        break;
    case MAIL_EXCHANGED:
        handle_exchanged(w, node, m->index);
        break;
    case MAIL_MASTER:
        handle_master(w, node, m);
        break;
    case MAIL_TIMER:
        job_feed(w, node, &timer);
        break;
    case MAIL_RECORD_DUE:
        recorder_due(w, node, m->index);
        break;
    case MAIL_FILLED:
        given_answered(w, node, m);
        break;
    case MAIL_FILL_DUE:
        given_go_on(w, node);
        break;
    }
}

static void read_mail(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    uint32_t serial = j->serial;
    while (j->there && j->serial == serial && !j->busy && j->mail_count > 0) {
        struct mail m = j->mail[j->mail_first];
        j->mail_first = (j->mail_first + 1) % SIM_MAIL_MAX;
        j->mail_count--;
        handle(w, node, &m);
    }
}

void worker_post(struct world *w, uint32_t node, struct mail m)
{
    struct sim_worker_job *j = w->nodes[node].job;
    if (j->mail_count == SIM_MAIL_MAX) {
        violated(w, INVARIANT_ORDER, "a worker's mailbox is full");
    }
    j->mail[(j->mail_first + j->mail_count++) % SIM_MAIL_MAX] = m;
    read_mail(w, node);
}

/* False: it is refused. */
static bool take_start(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_worker_job *j = n->job;
    const struct unary_request *q = &w->unaries[unary].req;
    bool mine = j->there && j->job == q->job;
    struct err err = {0};
    enum worker_start what =
        worker_start_decide(&n->starts, mine ? &j->held : NULL, q->start, &q->fence, &err);
    if (what == WORKER_START_REFUSED) {
        unary_refuse(w, unary, attempt, err.code, err.msg);
        return false;
    }
    if (!mine || what == WORKER_START_AGAIN) {
        worker_drop(w, node, SIM_NONE);
        take_job(w, node, q->job);
    }
    q = &w->unaries[unary].req; /* dropping may have sent others */
    j->held = (struct worker_held){q->start, q->fence};
    worker_starts_note(&n->starts, &q->fence, q->start);
    return true;
}

void worker_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_worker_job *j = n->job;
    const struct unary_request *q = &w->unaries[unary].req;
    bool mine = j->there && j->job == q->job;
    struct err err = {0};
    bool first = q->call == MASTER_CALL_START || q->call == MASTER_CALL_INSPECT;
    if (w->unaries[unary].kind == UNARY_TRACE) {
        if (mine && q->trace.ask.kind != TRACE_ASK_CLOCK) {
            worker_post(w, node, (struct mail){MAIL_REQUEST, unary, attempt});
        } else {
            recorder_worker_called(w, node, unary, attempt);
        }
        return;
    }
    if (first && q->incarnation != w->nodes[node].incarnation) {
        unary_refuse(w, unary, attempt, ERR_ABORTED, "this was meant for another process");
        return;
    }
    if (mine && q->call != MASTER_CALL_START &&
        fence_check_secret(&j->held.fence, &q->fence, &err) != 0) {
        unary_refuse(w, unary, attempt, err.code, err.msg);
        return;
    }
    switch (q->call) {
    case MASTER_CALL_START:
        if (!take_start(w, node, unary, attempt)) {
            return;
        }
        break;
    case MASTER_CALL_INSPECT:
        if (!mine) {
            worker_drop(w, node, SIM_NONE);
            take_job(w, node, q->job);
            j->held.fence = w->unaries[unary].req.fence;
        }
        break;
    case MASTER_CALL_STOP:
        worker_starts_note(&n->starts, &q->fence, q->start);
        if (mine && worker_stop_decide(&j->held, q->start)) {
            worker_drop(w, node, q->job);
        }
        (void)unary_reply(w, unary, attempt);
        unary_answer(w, unary, attempt);
        return;
    default:
        if (!mine) {
            unary_refuse(w, unary, attempt, ERR_NOT_FOUND, "this worker does not have the job");
            return;
        }
        if (worker_held_check(&j->held, q->start, &err) != 0) {
            unary_refuse(w, unary, attempt, err.code, err.msg);
            return;
        }
        break;
    }
    worker_post(w, node, (struct mail){MAIL_REQUEST, unary, attempt});
}

/* The call's hold stays until the mail is read. */
void worker_master(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct unary *u = &w->unaries[unary];
    if (!j->there || j->core == NULL || u->req.first != j->serial) {
        return; /* of a job that is no more */
    }
    w->unaries[unary].refs++;
    worker_post(w, node, (struct mail){MAIL_MASTER, unary, attempt > 1 ? 0 : attempt});
}

void worker_filled(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    const struct sim_worker_job *j = w->nodes[node].job;
    if (!j->there || w->unaries[unary].req.number != j->serial) {
        return; /* of a job that is no more */
    }
    w->unaries[unary].refs++;
    worker_post(w, node, (struct mail){MAIL_FILLED, unary, attempt > 1 ? 0 : attempt});
}

void worker_fill_due(struct world *w, uint32_t node, uint32_t serial)
{
    const struct sim_worker_job *j = w->nodes[node].job;
    if (j->there && j->serial == serial) {
        worker_post(w, node, (struct mail){MAIL_FILL_DUE, 0, 0});
    }
}

void worker_record_due(struct world *w, uint32_t node, uint32_t id)
{
    worker_post(w, node, (struct mail){MAIL_RECORD_DUE, id, 0});
}

void worker_timer(struct world *w, uint32_t node)
{
    worker_post(w, node, (struct mail){MAIL_TIMER, 0, 0});
}

/* Computing, evaluating or loading is over. */
void worker_computed(struct world *w, uint32_t node, uint32_t serial)
{
    struct sim_worker_job *j = w->nodes[node].job;
    if (!j->there || j->serial != serial) {
        return;
    }
    j->busy = false;
    if (j->has_loading) {
        struct mail m = j->loading_mail;
        j->has_loading = false;
        handle_request(w, node, &m);
    } else {
        job_go_on(w, node);
    }
    read_mail(w, node);
}
