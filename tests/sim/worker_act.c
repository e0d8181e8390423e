/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of a worker's core, one after the other, as services/worker/job/worker_job.c does
 * them.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#define LEASE_TIMEOUT_MS 10000
#define REPORT_TIMEOUT_MS 3000

/* ---- calls to the master ---- */

static struct unary *call_master(struct world *w, uint32_t node, uint64_t generation,
                                 enum unary_kind kind, uint64_t timeout_ms, uint32_t *index)
{
    struct sim_node *n = &w->nodes[node];
    struct unary *u = unary_new(w, node, 0, kind, timeout_ms, index);
    u->req.name = n->name;
    u->req.incarnation = n->incarnation;
    u->req.job = n->job->job;
    u->req.generation = generation;
    u->req.first = n->job->serial; /* whose answer it is */
    return u;
}

static void lease(struct world *w, uint32_t node, const struct worker_do_lease *a)
{
    uint32_t index;
    struct unary *u = call_master(w, node, a->generation, UNARY_LEASE, LEASE_TIMEOUT_MS, &index);
    for (size_t i = 0; i < a->held_count; i++) {
        const struct worker_lease *l = &a->held[i];
        u->req.leases[i] = (struct lease){l->epoch, l->split, l->batch_end, l->fresh};
    }
    u->req.lease_count = (uint32_t)a->held_count;
    unary_send(w, index);
}

static void report_split(struct world *w, uint32_t node, const struct worker_do_report_split *a)
{
    uint32_t index;
    struct unary *u =
        call_master(w, node, a->generation, UNARY_REPORT_SPLIT, REPORT_TIMEOUT_MS, &index);
    u->req.epoch = a->epoch;
    u->req.split = a->split;
    u->req.batch_end = a->batch_end;
    unary_send(w, index);
}

static void report_progress(struct world *w, uint32_t node,
                            const struct worker_do_report_progress *a)
{
    struct sim_worker_job *j = w->nodes[node].job;
    uint32_t index;
    struct unary *u =
        call_master(w, node, a->generation, UNARY_REPORT_PROGRESS, REPORT_TIMEOUT_MS, &index);
    if (!a->again) {
        j->reporting = j->measured;
        memset(&j->measured, 0, sizeof j->measured);
    }
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX; i++) {
        if (j->reporting.epochs[i].used) {
            u->req.epochs[u->req.epoch_count].epoch = j->reporting.epochs[i].epoch;
            u->req.epochs[u->req.epoch_count].batches = j->reporting.epochs[i].batches;
            u->req.epochs[u->req.epoch_count].examples = j->reporting.epochs[i].examples;
            u->req.epoch_count++;
        }
    }
    memcpy(u->req.staleness, j->reporting.staleness, sizeof u->req.staleness);
    u->req.sequence = a->sequence;
    u->req.position = a->position;
    u->req.idle = a->idle;
    u->req.dropped = a->dropped;
    u->req.speculated = a->speculated;
    w->counts.speculated += a->again ? 0 : a->speculated;
    unary_send(w, index);
}

static void report_failure(struct world *w, uint32_t node, const struct worker_do_fail_job *a)
{
    uint32_t index;
    w->nodes[node].job->halted = true;
    struct unary *u =
        call_master(w, node, a->generation, UNARY_REPORT_FAILURE, REPORT_TIMEOUT_MS, &index);
    u->req.code = a->code;
    snprintf(u->req.message, sizeof u->req.message, "%.120s", a->message);
    unary_send(w, index);
}

/* ---- computing ---- */

static void measure(struct world *w, struct sim_worker_job *j, const struct ledger_batch *b)
{
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX; i++) {
        if (j->measured.epochs[i].used && j->measured.epochs[i].epoch != b->epoch) {
            continue;
        }
        j->measured.epochs[i].used = true;
        j->measured.epochs[i].epoch = b->epoch;
        j->measured.epochs[i].batches++;
        j->measured.epochs[i].examples += b->count;
        return;
    }
    violated(w, INVARIANT_ORDER, "a worker computes epoch %u", (unsigned)b->epoch);
}

/* When the last of a set's values are there, whatever was told. */
static uint64_t lands_us(const struct sim_worker_job *j, enum worker_set set)
{
    uint64_t us = 0;
    for (uint32_t s = 0; s < j->shard_count; s++) {
        uint64_t lands = j->sets[set].shard[s].lands_us;
        us = lands > us ? lands : us;
    }
    return us;
}

/* Values that nobody may compute with. */
void values_lost(const struct sim_layout *l, struct worker_values *set, uint32_t shard)
{
    set->shard[shard].lost = true;
    for (uint32_t k = l->shard_elements[shard] / 2; k < l->shard_elements[shard]; k++) {
        set->t.v[l->map[shard][k]] = -1e9F;
    }
}

/* As the client: waits for the values, and gives up when they do not come. */
static bool gives_up(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct worker_do_compute *a = &j->computing.compute;
    struct worker_values *set = &j->sets[a->set];
    bool lost = j->rows_lost;
    for (uint32_t s = 0; s < j->shard_count; s++) {
        lost = lost || set->shard[s].lost;
        set->shard[s].lands_us = 0;
    }
    if (!lost) {
        return false;
    }
    TRACE(w, node, "gives up step %llu replica %u: its parameters or rows did not all come",
          (unsigned long long)a->step, a->replica);
    w->counts.given_up++;
    j->buffers[a->buffer].examples = UINT64_MAX; /* there is no gradient */
    return true;
}

static void compute(struct world *w, uint32_t node, const struct worker_do_compute *a)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_worker_job *j = n->job;
    uint64_t us = w->schedule->knobs.compute_us;
    us = w->schedule->knobs.even ? us : us / 2 + world_takes(w, "compute", us);
    us *= n->slow;
    us = lands_us(j, a->set) > w->now_us + us ? lands_us(j, a->set) - w->now_us : us;
    check_compute(w, node, a);
    recorder_step(w, node, a->step);
    TRACE(w, node, "computes step %llu replica %u, batch %u of split %u of epoch %u%s",
          (unsigned long long)a->step, a->replica, a->batch.batch, a->batch.split,
          (unsigned)a->batch.epoch, a->spare ? ", spare" : "");
    j->busy = true;
    j->busy_us = w->now_us;
    j->computing = (struct worker_action){.kind = WORKER_DO_COMPUTE, .compute = *a};
    rows_begin(w, node, us);
}

static void finish_compute(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct sim_job *job = &w->jobs[j->job];
    const struct worker_do_compute *a = &j->computing.compute;
    const struct worker_values *set = &j->sets[a->set];
    struct worker_buffer *buffer = &j->buffers[a->buffer];
    uint32_t batch = a->batch.split * job->split_batches + a->batch.batch;
    struct tensor params = set->t;
    rows_fill(w, j, &params);
    numbers_gradient(&params, job->elements, a->batch.epoch, batch, a->batch.count,
                     job->tables ? tables_pull_of(job, &j->table_rows, a->batch.epoch, batch) : 0,
                     &buffer->t);
    if (job->tables) {
        rows_gradient(w, j, &params, buffer);
    }
    memset(&buffer->ids, 0, sizeof buffer->ids);
    buffer->ids.epoch[a->batch.epoch] = UINT64_C(1) << batch;
    buffer->examples = a->batch.count;
    for (uint32_t s = 0; s < j->shard_count; s++) {
        buffer->base[s] = set->shard[s].version;
    }
    if (!a->spare) {
        measure(w, j, &a->batch);
    }
}

static void finish_evaluate(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    check_evaluate(w, node);
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].tag != 0 && j->calls[i].tag == j->computing.evaluate.tag) {
            j->calls[i].tag = 0;
            if (j->rows_lost) {
                unary_refuse(w, j->calls[i].unary, j->calls[i].attempt, j->rows_code,
                             "the rows of the evaluation did not come");
                return;
            }
            struct unary_reply *r = unary_reply(w, j->calls[i].unary, j->calls[i].attempt);
            r->count = j->computing.evaluate.count;
            r->accuracy = stop_accuracy(w, j->job, &j->sets[WORKER_SET_EVALUATION].shard[0].ids);
            unary_answer(w, j->calls[i].unary, j->calls[i].attempt);
            return;
        }
    }
}

static void add(struct world *w, uint32_t node, const struct worker_do_add *a)
{
    struct sim_worker_job *j = w->nodes[node].job;
    struct worker_buffer *to = &j->buffers[a->buffer];
    const struct worker_buffer *from = &j->buffers[a->buffer_from];
    for (uint32_t i = 0; i < j->pending_count; i++) {
        if (j->pending[i].open && j->pending[i].push && j->pending[i].buffer == a->buffer) {
            violated(w, INVARIANT_ORDER, "a worker adds to a gradient that is being sent");
        }
    }
    if (to == from || ids_overlap(&to->ids, &from->ids)) {
        violated(w, INVARIANT_ONCE, "a worker sums the same batch twice");
    }
    for (uint32_t i = 0; i < w->jobs[j->job].elements; i++) {
        to->t.v[i] += from->t.v[i];
    }
    if (w->jobs[j->job].tables) {
        rows_add(w, to, from);
    }
    ids_add(&to->ids, &from->ids);
    to->examples += from->examples;
}

/* As rule/update.h joins: it finds what does not go together. */
static void join(struct world *w, uint32_t node, const struct worker_do_join *a)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const uint32_t all = (1U << j->shard_count) - 1;
    struct sim_sums joined = {.step = a->step, .round = a->round};
    for (uint32_t s = 0; s < j->shard_count; s++) {
        const struct sim_sums *part = &j->sums[a->known ? a->shard : s];
        if (part->step != a->step || part->round != a->round ||
            part->shards != (a->known ? all : 1U << s)) {
            violated(w, INVARIANT_SAME,
                     "a worker joins round %u of step %llu, but has round %u of step %llu of "
                     "shards %x from shard %u",
                     a->round, (unsigned long long)a->step, part->round,
                     (unsigned long long)part->step, part->shards, a->known ? a->shard : s);
        }
        joined.shards |= part->shards;
        joined.value = a->known ? part->value : joined.value + part->value;
    }
    j->totals[a->round] = joined;
}

/* ---- exchanges ---- */

static void place(struct world *w, uint32_t node, const struct worker_do_place *a)
{
    struct sim_link *link = &w->nodes[node].job->links[a->shard];
    unsigned at = 0, address = 0;
    if (sscanf(a->place.address, "%u/%u", &at, &address) != 2) {
        violated(w, INVARIANT_ORDER, "a shard is said to be at '%s'", a->place.address);
    }
    if (link->stream != SIM_NONE) {
        TRACE(w, node, "leaves shard %u where it was", a->shard);
        stream_leave(w, link->stream);
        link->stream = SIM_NONE;
    }
    link->place = (struct sim_place){(uint8_t)at, (uint8_t)address, a->place.opening};
}

static void fill_gradient(struct world *w, const struct sim_worker_job *j,
                          const struct worker_request *r, struct exchange *x)
{
    const struct sim_job *job = &w->jobs[j->job];
    const struct worker_buffer *buffer = &j->buffers[r->buffer];
    const struct sim_layout *l = j->layout;
    x->elements = l->shard_elements[r->shard];
    for (uint32_t i = 0; i < l->shard_elements[r->shard]; i++) {
        x->values.v[i] = buffer->t.v[l->map[r->shard][i]];
    }
    if (job->tables && buffer->examples > 0) {
        rows_send(l, buffer, r->shard, x);
    }
    x->ids = buffer->ids;
    if (buffer->examples != r->ask.push.examples) {
        violated(w, INVARIANT_EXAMPLES, "a push of %llu examples says %llu",
                 (unsigned long long)buffer->examples, (unsigned long long)r->ask.push.examples);
    }
}

static struct pending_exchange *take_pending(struct world *w, struct sim_worker_job *j)
{
    for (uint32_t i = 0; i < j->pending_count; i++) {
        if (!j->pending[i].open) {
            return &j->pending[i];
        }
    }
    if (j->pending_count == SIM_PENDING_MAX) {
        violated(w, INVARIANT_ORDER, "a worker has more than %d exchanges open", SIM_PENDING_MAX);
    }
    return &j->pending[j->pending_count++];
}

void exchange_send(struct world *w, uint32_t node, const struct worker_request *r)
{
    struct sim_worker_job *j = w->nodes[node].job;
    struct sim_link *link = &j->links[r->shard];
    if (link->stream == SIM_NONE || w->streams[link->stream].broken) {
        link->stream = stream_open(w, node, link->place.node, j->job, r->shard);
    }
    uint32_t index = exchange_new(w);
    struct exchange *x = &w->exchanges[index];
    const bool pulls = r->ask.has_pull || r->ask.kind == EXCHANGE_PINNED;
    const bool pushes = r->ask.has_push && r->buffer != WORKER_BUFFER_NONE;
    x->stream = link->stream;
    x->number = r->exchange;
    x->generation = r->generation;
    x->opening = link->place.opening;
    x->name = j->name;
    x->ask = r->ask;
    x->with_rows = r->brings_rows;
    if (r->brings_rows) {
        (void)rows_ask(&w->jobs[j->job], j->layout, &r->rows_of, r->shard, x->along);
    }
    if (pushes) {
        fill_gradient(w, j, r, x);
    }
    if (pulls) {
        j->filling[r->set]++;
    }
    if (r->ask.has_decision) {
        size_t n = r->ask.decision.bytes;
        memcpy(&x->decision, r->ask.decision.replicas, n > 8 ? 8 : n);
    }
    if (r->ask.kind == EXCHANGE_ROWS) {
        const bool all = j->computing.kind != WORKER_DO_COMPUTE;
        x->rows_bytes = rows_ask(&w->jobs[j->job], j->layout,
                                 all ? NULL : &j->computing.compute.batch, r->shard, x->rows);
    }
    if (r->ask.kind == EXCHANGE_TOTALS) {
        x->sums = j->totals[r->ask.totals.of.round];
    }
    struct pending_exchange *p = take_pending(w, j);
    *p = (struct pending_exchange){.open = true,
                                   .pulls = pulls,
                                   .early = r->early,
                                   .rows = r->ask.kind == EXCHANGE_ROWS,
                                   .brings_rows = r->brings_rows,
                                   .rows_of = r->rows_of,
                                   .number = r->exchange,
                                   .shard = r->shard,
                                   .stream = link->stream,
                                   .set = r->set,
                                   .buffer = r->buffer,
                                   .push = pushes,
                                   .traced = recorder_sending(w, node, r->exchange)};
    stream_send(w, index);
}

/* ---- the list ---- */

static void reply(struct world *w, uint32_t node, const struct worker_do_reply *a)
{
    struct sim_worker_job *j = w->nodes[node].job;
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].tag == 0 || j->calls[i].tag != a->tag) {
            continue;
        }
        j->calls[i].tag = 0;
        if (a->code != 0) {
            unary_refuse(w, j->calls[i].unary, j->calls[i].attempt, a->code, a->message);
        } else {
            unary_reply(w, j->calls[i].unary, j->calls[i].attempt)->position = a->position;
            unary_answer(w, j->calls[i].unary, j->calls[i].attempt);
        }
        return;
    }
    violated(w, INVARIANT_ANSWER, "a worker answers a call twice");
}

static bool needs_the_data(enum worker_action_kind kind)
{
    return kind == WORKER_DO_COMPUTE || kind == WORKER_DO_EVALUATE || kind == WORKER_DO_ADD ||
           kind == WORKER_DO_EXCHANGE || kind == WORKER_DO_JOIN;
}

static void act(struct world *w, uint32_t node, const struct worker_action *a)
{
    struct sim_worker_job *j = w->nodes[node].job;
    if (j->halted && needs_the_data(a->kind)) {
        return;
    }
    switch (a->kind) {
    case WORKER_DO_COMPUTE:
        compute(w, node, &a->compute);
        break;
    case WORKER_DO_EVALUATE:
        j->busy = true;
        j->busy_us = w->now_us;
        j->computing = *a;
        rows_begin(w, node, w->schedule->knobs.compute_us + 1);
        break;
    case WORKER_DO_PLACE:
        place(w, node, &a->place);
        break;
    case WORKER_DO_JOIN:
        join(w, node, &a->join);
        break;
    case WORKER_DO_ADD:
        add(w, node, &a->add);
        break;
    case WORKER_DO_EXCHANGE:
        exchange_send(w, node, &a->exchange);
        break;
    case WORKER_DO_LEASE:
        lease(w, node, &a->lease);
        break;
    case WORKER_DO_REPORT_SPLIT:
        report_split(w, node, &a->report_split);
        break;
    case WORKER_DO_REPORT_PROGRESS:
        report_progress(w, node, &a->report_progress);
        break;
    case WORKER_DO_PREFETCH:
        break;
    case WORKER_DO_TIMER:
        timer_set(w, node, EVENT_WORKER_TIMER, j->serial, &j->timer,
                  node_us_of(w, node, a->timer_ms));
        break;
    case WORKER_DO_REPLY_ASSIGN:
        if (a->reply.code == 0) {
            w->nodes[node].job->taken = worker_generation(w->nodes[node].job->core);
        }
        reply(w, node, &a->reply);
        break;
    case WORKER_DO_FAIL_EVALUATE:
        reply(w, node, &a->reply);
        break;
    case WORKER_DO_FAIL_JOB:
        report_failure(w, node, &a->fail_job);
        break;
    }
}

static void act_all(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    uint32_t serial = j->serial;
    j->stepping = true;
    while (j->at < j->actions.count) {
        const struct worker_action *a = &j->actions.items[j->at++];
        if (a->kind != WORKER_DO_TIMER && a->kind != WORKER_DO_PREFETCH && node_acts(w, node)) {
            node_kill(w, node);
            return;
        }
        if (a->kind == WORKER_DO_EXCHANGE && a->exchange.ask.has_push && node_freezes(w, node)) {
            return;
        }
        act(w, node, a);
        if (!j->there || j->serial != serial || j->busy) {
            return; /* the rest comes when it is computed */
        }
    }
    j->actions.count = 0;
    j->at = 0;
    j->stepping = false;
}

void job_feed(struct world *w, uint32_t node, struct worker_event *e)
{
    struct sim_worker_job *j = w->nodes[node].job;
    if (j->core == NULL) {
        return;
    }
    e->now_ms = node_ms(w, node);
    worker_step(j->core, e, &j->actions);
    if (!j->stepping) {
        act_all(w, node);
    }
}

/* The pushes of the gradient that was computed. False: the machine died or stopped among them. */
static bool push_computed(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    for (size_t i = 0; i < j->computing.compute.push_count && !j->halted; i++) {
        if (node_acts(w, node)) {
            node_kill(w, node);
            return false;
        }
        if (node_freezes(w, node)) {
            return false;
        }
        exchange_send(w, node, &j->computing.compute.pushes[i]);
    }
    return true;
}

void job_go_on(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    struct worker_event e = {.kind = WORKER_COMPUTED, .now_ms = node_ms(w, node)};
    if (j->computing.kind == WORKER_DO_COMPUTE && gives_up(w, node)) {
        e.computed.code = j->rows_lost ? j->rows_code : ERR_UNAVAILABLE;
        e.computed.rows_lost = j->rows_lost;
    } else if (j->computing.kind == WORKER_DO_COMPUTE) {
        finish_compute(w, node);
        if (!push_computed(w, node)) {
            return;
        }
    } else {
        finish_evaluate(w, node);
    }
    worker_step(j->core, &e, &j->actions);
    act_all(w, node);
}
