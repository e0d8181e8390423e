/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers, the master and the network of the small cluster work. */
#include "fake_cluster.h"

uint64_t cluster_draw(struct cluster *c, uint64_t n)
{
    return rng_below(c->seed, c->draws++, n);
}

static struct item *post(struct cluster *c, size_t worker, uint64_t delay_ms)
{
    assert_true(c->item_count < ITEMS_MAX);
    struct item *item = &c->items[c->item_count++];
    *item = (struct item){.worker = worker, .due_ms = c->now_ms + delay_ms};
    return item;
}

static uint64_t generation_of(const struct worker_action *a)
{
    return a->kind == WORKER_DO_COMPUTE           ? a->compute.generation
           : a->kind == WORKER_DO_LEASE           ? a->lease.generation
           : a->kind == WORKER_DO_REPORT_SPLIT    ? a->report_split.generation
           : a->kind == WORKER_DO_REPORT_PROGRESS ? a->report_progress.generation
                                                  : 0;
}

static struct item *post_event(struct cluster *c, size_t worker, enum worker_event_kind kind,
                               const struct worker_action *of)
{
    struct item *item = post(c, worker, 1 + cluster_draw(c, 20));
    item->is_event = true;
    item->action = *of;
    item->event = (struct worker_event){.kind = kind};
    if (kind == WORKER_EXCHANGED) {
        item->event.exchanged.exchange = of->exchange.exchange;
        item->ask = asked_of(&of->exchange);
    } else if (kind == WORKER_LEASED) {
        item->event.leased.generation = generation_of(of);
    } else if (kind != WORKER_COMPUTED) {
        item->event.reported.generation = generation_of(of);
    }
    return item;
}

/* The request or its answer is lost. */
static void lose(struct worker_event *answer)
{
    int *code = answer->kind == WORKER_EXCHANGED ? &answer->exchanged.code
                : answer->kind == WORKER_LEASED  ? &answer->leased.code
                                                 : &answer->reported.code;
    *code = ERR_UNAVAILABLE;
}

/* ---- what a worker does is checked here ---- */

static void check_compute(struct cluster *c, struct node *n, const struct worker_action *action)
{
    const struct worker_do_compute *a = &action->compute;
    assert_false(n->computing);
    assert_true(a->buffer < BUFFERS);
    assert_int_equal(n->buffer_users[a->buffer], 0); /* nobody sends it any more */
    assert_int_equal(n->pulls_open[a->set], 0);
    assert_int_equal(a->generation, n->generation);
    struct content *buffer = &n->buffers[a->buffer];
    bool sync = c->consistency.mode == TRAINING_SYNC;
    *buffer = (struct content){.used = true, .sync = sync, .examples = a->batch.count};
    assert_true(a->batch.count > 0);
    for (uint32_t s = 0; s < c->shards; s++) {
        buffer->versions[s] = n->sets[a->set][s];
        assert_true(buffer->versions[s] != NOTHING);
    }
    buffer->epoch = a->batch.epoch;
    if (a->generation != c->generation && sync) {
        buffer->step = a->step; /* may still be pushed, as what it is */
        buffer->replicas = UINT32_C(1) << a->replica;
    } else if (a->generation != c->generation) {
        buffer->late = true;
    } else if (sync) {
        struct ledger_batch batch;
        ledger_sync_batch(&c->ledger, c->consistency.replicas, a->step - c->step_map.step,
                          a->replica, &batch);
        assert_memory_equal(&batch, &a->batch, sizeof batch);
        buffer->step = a->step;
        buffer->replicas = UINT32_C(1) << a->replica;
        for (uint32_t s = 0; s < c->shards; s++) {
            assert_int_equal(buffer->versions[s], a->step);
        }
    } else {
        buffer->split = a->batch.split;
        buffer->first = a->batch.batch;
        buffer->end = a->batch.batch + 1;
    }
    n->computing = true;
    n->computed = *a;
    post_event(c, (size_t)(n - c->nodes), WORKER_COMPUTED, action)->due_ms =
        c->now_ms + 1 + cluster_draw(c, 10) * n->slowness;
}

static void do_add(struct node *n, const struct worker_do_add *a)
{
    struct content *to = &n->buffers[a->buffer];
    const struct content *from = &n->buffers[a->buffer_from];
    assert_int_equal(n->buffer_users[a->buffer], 0);
    assert_true(to->used && from->used);
    if (to->late || from->late) {
        return;
    }
    assert_memory_equal(to->versions, from->versions, sizeof to->versions);
    if (to->sync) {
        assert_int_equal(to->step, from->step);
        assert_int_equal(to->replicas & from->replicas, 0);
        assert_true(to->replicas < from->replicas); /* left to right */
        to->replicas |= from->replicas;
    } else {
        assert_true(to->epoch == from->epoch && to->split == from->split);
        assert_int_equal(to->end, from->first);
        to->end = from->end;
    }
    to->examples += from->examples;
}

static void check_push(struct cluster *c, const struct node *n, const struct asked *a)
{
    const struct consistency *rules = &c->consistency;
    if (a->buffer == WORKER_BUFFER_NONE) {
        assert_int_equal(a->examples, 0);
        return;
    }
    const struct content *buffer = &n->buffers[a->buffer];
    assert_true(buffer->used && !buffer->late && buffer->examples == a->examples);
    if (rules->mode == TRAINING_SYNC) {
        assert_true(buffer->sync);
        assert_int_equal(buffer->step, a->step);
        assert_int_equal(buffer->replicas & ~fake_shard_mask(a), 0); /* the others are empty */
        if (consistency_is_partial(rules) || a->spare) {
            assert_int_equal(a->replica_end, a->replica_first + 1);
        }
        return;
    }
    assert_false(buffer->sync);
    assert_true(buffer->epoch == a->batch.epoch && buffer->split == a->batch.split);
    assert_int_equal(buffer->first, a->batch.batch);
    assert_int_equal(buffer->end, a->batch_end);
    assert_int_equal(buffer->versions[a->shard], a->base_version);
    uint32_t end = consistency_push_end(rules, a->batch.batch, c->leases[a->batch.split].batch_end);
    assert_int_equal(a->batch_end, end);
}

static void check_exchange(struct cluster *c, struct node *n, const struct asked *a)
{
    assert_true(a->generation <= n->generation);
    if (a->pull != ASKED_PULL_NONE) {
        bool leaves = a->push && a->buffer == n->computed.buffer; /* while it is made */
        assert_false(n->computing && n->computed.set == a->set && !leaves);
        n->pulls_open[a->set]++;
        n->sets[a->set][a->shard] = NOTHING; /* half of it may have come */
    }
    if (a->push) {
        if (a->generation == c->generation) {
            check_push(c, n, a);
        }
        if (a->buffer != WORKER_BUFFER_NONE) {
            n->buffer_users[a->buffer]++;
        }
    }
}

/* ---- the master ---- */

static bool at_master(const struct cluster *c, const struct worker_action *a)
{
    return generation_of(a) == c->generation;
}

static bool split_is_applied(const struct cluster *c, uint32_t split)
{
    for (uint32_t s = 0; s < c->shards; s++) {
        if (c->shard[s].done[c->epoch][split] < ledger_shape_split_batches(&SHAPE, split)) {
            return false;
        }
    }
    return true;
}

bool cluster_epoch_is_done(const struct cluster *c)
{
    for (uint32_t k = 0; k < ledger_shape_splits(&SHAPE); k++) {
        if (c->split[k] != SPLIT_DONE) {
            return false;
        }
    }
    return true;
}

static void answer_lease(struct cluster *c, const struct item *item)
{
    struct worker_leased *e =
        &post_event(c, item->worker, WORKER_LEASED, &item->action)->event.leased;
    if (!at_master(c, &item->action)) {
        e->code = ERR_ABORTED;
        return;
    }
    size_t held = 0;
    for (uint32_t k = 0; k < ledger_shape_splits(&SHAPE); k++) {
        if (c->split[k] != SPLIT_LEASED || c->owner[k] != item->worker) {
            continue;
        }
        held++;
        bool named = false;
        for (size_t i = 0; i < item->action.lease.held_count; i++) {
            named = named || item->action.lease.held[i].split == k;
        }
        if (!named) { /* the answer was lost */
            e->kind = WORKER_LEASE_GRANTED;
            e->granted = c->leases[k];
            c->again_seen++;
            return;
        }
    }
    if (held >= WORKER_LEASES_MAX || c->holding) {
        return;
    }
    e->kind = cluster_epoch_is_done(c) ? WORKER_LEASE_DONE : WORKER_LEASE_WAIT;
    for (uint32_t k = 0; k < ledger_shape_splits(&SHAPE); k++) {
        if (c->split[k] == SPLIT_FREE) {
            c->split[k] = SPLIT_LEASED;
            c->owner[k] = item->worker;
            e->kind = WORKER_LEASE_GRANTED;
            e->granted = c->leases[k];
            return;
        }
    }
}

static void answer_split(struct cluster *c, const struct item *item)
{
    struct item *answer = post_event(c, item->worker, WORKER_SPLIT_REPORTED, &item->action);
    const struct worker_do_report_split *a = &item->action.report_split;
    if (!at_master(c, &item->action)) {
        answer->event.reported.code = ERR_ABORTED;
        return;
    }
    assert_true(a->epoch == c->epoch && split_is_applied(c, a->split));
    assert_int_equal(a->batch_end, c->leases[a->split].batch_end);
    c->split[a->split] = SPLIT_DONE;
}

static void answer_progress(struct cluster *c, const struct item *item)
{
    struct node *n = &c->nodes[item->worker];
    post_event(c, item->worker, WORKER_PROGRESS_REPORTED, &item->action);
    if (at_master(c, &item->action)) {
        n->idle = item->action.report_progress.idle;
        n->position = item->action.report_progress.position;
    }
    for (uint32_t k = 0; n->idle && c->holding && k < ledger_shape_splits(&SHAPE); k++) {
        if (c->split[k] == SPLIT_LEASED && c->owner[k] == item->worker) {
            c->split[k] = split_is_applied(c, k) ? SPLIT_DONE : SPLIT_FREE;
        }
    }
}

/* The newest word counts: one that has not arrived yet will not. */
static void forget_assignments(struct cluster *c)
{
    for (size_t i = 0; i < c->item_count;) {
        if (c->items[i].is_event && c->items[i].event.kind == WORKER_ASSIGN) {
            c->items[i] = c->items[--c->item_count];
        } else {
            i++;
        }
    }
}

void cluster_assign(struct cluster *c, bool hold)
{
    forget_assignments(c);
    uint32_t turn = (uint32_t)cluster_draw(c, c->workers);
    uint64_t lowest = UINT64_MAX;
    for (uint32_t s = 0; s < c->shards; s++) {
        lowest = c->shard[s].version < lowest ? c->shard[s].version : lowest;
    }
    for (size_t k = 0; k < c->workers; k++) {
        struct tree_block share = tree_share(c->consistency.replicas, (uint32_t)c->workers,
                                             (uint32_t)((k + turn) % c->workers));
        struct item *item = post(c, k, 1 + cluster_draw(c, 30));
        item->is_event = true;
        item->event.kind = WORKER_ASSIGN;
        struct worker_assignment *a = &item->event.assign.assignment;
        *a = (struct worker_assignment){
            .generation = c->generation,
            .consistency = c->consistency,
            .replica_first = share.lo,
            .replica_end = share.hi,
            .step = lowest,
            .step_limit = c->limit,
            .ledger = &c->ledger,
            .ledger_step = c->step_map.step,
            .hold = hold,
        };
        for (uint32_t i = 0; i < ledger_shape_splits(&SHAPE); i++) {
            if (c->split[i] == SPLIT_LEASED && c->owner[i] == k) {
                a->leases[a->lease_count++] = c->leases[i];
            }
        }
        c->nodes[k].idle = false;
    }
}

static void send_answers(struct cluster *c);

void cluster_regroup(struct cluster *c)
{
    c->generation++;
    for (uint32_t s = 0; s < c->shards; s++) {
        fake_shard_membership(&c->shard[s], c->generation, &c->consistency, c->workers,
                              &c->answers);
        send_answers(c);
    }
    size_t held[FAKE_WORKERS_MAX] = {0};
    for (uint32_t k = 0; k < ledger_shape_splits(&SHAPE); k++) {
        if (c->split[k] == SPLIT_LEASED && split_is_applied(c, k)) {
            c->split[k] = SPLIT_DONE;
        } else if (c->split[k] == SPLIT_LEASED) {
            c->owner[k] = cluster_draw(c, 4) == 0 ? cluster_draw(c, c->workers) : c->owner[k];
            c->leases[k].fresh = false;
            if (held[c->owner[k]]++ >= WORKER_LEASES_MAX) {
                c->split[k] = SPLIT_FREE;
            }
        }
    }
    cluster_assign(c, false);
}

/* ---- the network ---- */

static void send_answers(struct cluster *c)
{
    for (size_t i = 0; i < c->answers.count; i++) {
        struct item *item = post(c, c->answers.items[i].worker, 1 + cluster_draw(c, 20));
        item->is_event = true;
        item->action.kind = WORKER_DO_EXCHANGE;
        item->ask = c->answers.items[i].request;
        item->event = (struct worker_event){.kind = WORKER_EXCHANGED,
                                            .exchanged = c->answers.items[i].answer};
        memcpy(item->decision, c->answers.items[i].decision, sizeof item->decision);
        item->sums = c->answers.items[i].sums;
        if (c->lossy && cluster_draw(c, 20) == 0) {
            item->event.exchanged = (struct worker_exchanged){.exchange = item->ask.exchange};
            lose(&item->event);
        }
    }
    c->answers.count = 0;
}

static void arrive(struct cluster *c, const struct item *item)
{
    const struct worker_action *a = &item->action;
    static const enum worker_event_kind answer_of[] = {
        [WORKER_DO_EXCHANGE] = WORKER_EXCHANGED,
        [WORKER_DO_LEASE] = WORKER_LEASED,
        [WORKER_DO_REPORT_SPLIT] = WORKER_SPLIT_REPORTED,
        [WORKER_DO_REPORT_PROGRESS] = WORKER_PROGRESS_REPORTED,
    };
    if (c->lossy && cluster_draw(c, 20) == 0) {
        lose(&post_event(c, item->worker, answer_of[a->kind], a)->event);
        return;
    }
    if (a->kind == WORKER_DO_EXCHANGE) {
        fake_shard_take(&c->shard[item->ask.shard], item->worker, &item->ask, item->sums,
                        &c->answers);
        send_answers(c);
    } else if (a->kind == WORKER_DO_LEASE) {
        answer_lease(c, item);
    } else if (a->kind == WORKER_DO_REPORT_SPLIT) {
        answer_split(c, item);
    } else {
        answer_progress(c, item);
    }
    if (c->lossy && a->kind != WORKER_DO_EXCHANGE && cluster_draw(c, 20) == 0) {
        lose(&c->items[c->item_count - 1].event);
    }
}

static void do_join(struct cluster *c, struct node *n, const struct worker_do_join *a)
{
    uint64_t totals = 0;
    for (uint32_t s = 0; s < c->shards; s++) {
        totals += n->parts[s];
    }
    n->totals[a->round] = a->known ? n->parts[a->shard] : totals;
    n->joined_step[a->round] = a->step;
    c->known_seen += a->known;
}

static void send_exchange(struct cluster *c, size_t worker, const struct worker_request *r)
{
    struct node *n = &c->nodes[worker];
    const struct asked a = asked_of(r);
    check_exchange(c, n, &a);
    struct item *item = post(c, worker, 1 + cluster_draw(c, 20));
    item->action = (struct worker_action){.kind = WORKER_DO_EXCHANGE, .exchange = *r};
    item->ask = a;
    if (a.totals) {
        assert_int_equal(n->joined_step[a.round], a.step);
        item->sums = n->totals[a.round];
    }
}

static void carry_out(struct cluster *c, size_t worker)
{
    struct node *n = &c->nodes[worker];
    for (size_t i = 0; i < c->actions.count; i++) {
        const struct worker_action *a = &c->actions.items[i];
        switch (a->kind) {
        case WORKER_DO_COMPUTE:
            check_compute(c, n, a);
            for (size_t k = 0; k < a->compute.push_count; k++) {
                send_exchange(c, worker, &a->compute.pushes[k]);
            }
            break;
        case WORKER_DO_ADD:
            do_add(n, &a->add);
            break;
        case WORKER_DO_TIMER:
            n->timer_ms = a->timer_ms;
            break;
        case WORKER_DO_EXCHANGE:
            send_exchange(c, worker, &a->exchange);
            break;
        case WORKER_DO_JOIN:
            do_join(c, n, &a->join);
            break;
        case WORKER_DO_REPORT_PROGRESS:
            if (!a->report_progress.again) {
                c->dropped_seen += a->report_progress.dropped;
                c->speculated_seen += a->report_progress.speculated;
            }
            post(c, worker, 1 + cluster_draw(c, 20))->action = *a;
            break;
        case WORKER_DO_LEASE:
        case WORKER_DO_REPORT_SPLIT:
            post(c, worker, 1 + cluster_draw(c, 20))->action = *a;
            break;
        case WORKER_DO_PREFETCH:
            break;
        case WORKER_DO_REPLY_ASSIGN:
            assert_int_equal(a->reply.code, 0);
            break;
        default:
            fail_msg("action %d: %s", (int)a->kind,
                     a->kind == WORKER_DO_FAIL_JOB ? a->fail_job.message : "");
        }
    }
    c->actions.count = 0;
}

/* The request that an answer is for, as long as the worker waits for it. */
static void close_request(struct node *n, const struct asked *a, int code, uint64_t version)
{
    if (a->pull != ASKED_PULL_NONE) {
        n->pulls_open[a->set]--;
        n->sets[a->set][a->shard] = code == 0 ? version : NOTHING;
    }
    if (a->push && a->buffer != WORKER_BUFFER_NONE) {
        n->buffer_users[a->buffer]--;
    }
}

static void deliver(struct cluster *c, struct item *item)
{
    struct node *n = &c->nodes[item->worker];
    struct worker_event *e = &item->event;
    e->now_ms = c->now_ms;
    if (e->kind == WORKER_ASSIGN) {
        if (e->assign.assignment.generation != c->generation) {
            return; /* the master does not wait for its answer any more */
        }
        n->generation = e->assign.assignment.generation;
    }
    if (e->kind == WORKER_COMPUTED) {
        n->computing = false;
    }
    if (e->kind == WORKER_EXCHANGED) {
        struct worker_exchanged *x = &e->exchanged;
        x->message = x->code != 0 ? "told to fail" : NULL;
        x->answer.decision.replicas = item->decision;
        /* The thread takes no mail while it computes: what left with the gradient is answered when
         * it is made, though the worker may not have been told. */
        n->computing = n->computing && item->ask.buffer != n->computed.buffer;
        close_request(n, &item->ask, x->code, x->version);
        if (x->answer.kind == EXCHANGE_SUMS) {
            n->parts[item->ask.shard] = item->sums;
        }
    }
    worker_step(n->worker, e, &c->actions);
    carry_out(c, item->worker);
}

bool cluster_advance(struct cluster *c)
{
    size_t first = c->item_count;
    for (size_t i = 0; i < c->item_count; i++) {
        if (first == c->item_count || c->items[i].due_ms < c->items[first].due_ms) {
            first = i;
        }
    }
    uint64_t at = first < c->item_count ? c->items[first].due_ms : UINT64_MAX;
    for (size_t k = 0; k < c->workers; k++) {
        struct node *n = &c->nodes[k];
        if (n->timer_ms != 0 && n->timer_ms <= at) {
            c->now_ms = n->timer_ms > c->now_ms ? n->timer_ms : c->now_ms;
            n->timer_ms = 0;
            struct worker_event e = {.kind = WORKER_TIMER, .now_ms = c->now_ms};
            worker_step(n->worker, &e, &c->actions);
            carry_out(c, k);
            return true;
        }
    }
    if (first == c->item_count) {
        return false;
    }
    c->now_ms = at > c->now_ms ? at : c->now_ms;
    struct item item = c->items[first];
    c->items[first] = c->items[--c->item_count];
    if (item.is_event) {
        deliver(c, &item);
    } else {
        arrive(c, &item);
    }
    return true;
}
