/* SPDX-License-Identifier: Apache-2.0 */
/* A shard on a parameter server: memory and actions around its core, as ps_shard.c, ps_apply.c and
 * snapshot.c of services/ps have them. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- memory ---- */

struct gradient *gradient_new(struct world *w)
{
    struct gradient *g = w->gradients;
    if (g == NULL) {
        g = mem_new(1, sizeof *g);
        g->all = w->all_gradients;
        w->all_gradients = g;
        return g;
    }
    w->gradients = g->next;
    tables_gradient_free(g->tables); /* it died with its server */
    *g = (struct gradient){.all = g->all};
    return g;
}

static void gradient_release(struct world *w, struct sim_shard *s, struct gradient *g)
{
    if (s->gradients == 0) {
        violated(w, INVARIANT_ORDER, "a buffer is released that the core does not have");
    }
    s->gradients--;
    tables_gradient_free(g->tables);
    g->tables = NULL;
    g->next = w->gradients;
    w->gradients = g;
    if (g->counted) {
        gradient_memory_back(w, s);
    }
}

struct sim_request *request_new(struct world *w, struct sim_shard *s)
{
    uint32_t index = w->request_free;
    if (index != SIM_NONE) {
        w->request_free = w->requests[index].next;
    } else {
        w->requests =
            mem_grow(w->requests, &w->request_capacity, w->request_count + 1, sizeof *w->requests);
        index = (uint32_t)w->request_count++;
        w->requests[index].serial = 0;
    }
    struct sim_request *r = &w->requests[index];
    *r = (struct sim_request){.next = index,
                              .used = true,
                              .waiting = true,
                              .shard = s,
                              .exchange = SIM_NONE,
                              .read = SIM_NONE,
                              .serial = r->serial + 1};
    s->waiting++;
    return r;
}

/* It is answered, or its caller is gone. */
void request_drop(struct world *w, struct sim_request *r)
{
    uint32_t index = (uint32_t)(r - w->requests);
    r->shard->waiting--;
    r->used = false;
    r->next = w->request_free;
    w->request_free = index;
    if (r->exchange != SIM_NONE) {
        exchange_free(w, r->exchange);
    }
}

void *request_tag(const struct world *w, const struct sim_request *r)
{
    return (void *)(((uintptr_t)r->serial << 24 | (uintptr_t)(r - w->requests)) + 1);
}

static struct sim_request *request_of(struct world *w, struct sim_shard *s, const void *tag)
{
    uintptr_t n = (uintptr_t)tag - 1;
    struct sim_request *r = &w->requests[n & 0xffffff];
    if ((n & 0xffffff) >= w->request_count || !r->used || r->serial != n >> 24 || r->shard != s) {
        violated(w, INVARIANT_ANSWER, "a shard answers a request twice, or one that is gone");
    }
    return r;
}

/* ---- snapshots ---- */

static struct snapshot_slot *find_version(struct world *w, struct sim_shard *s, uint64_t version)
{
    for (uint32_t i = 0; i < SIM_SNAPSHOTS_MAX; i++) {
        if (s->snapshots[i].refs > 0 && s->snapshots[i].version == version) {
            return &s->snapshots[i];
        }
    }
    violated(w, INVARIANT_READ, "version %llu of shard %u is not readable; it has %llu",
             (unsigned long long)version, s->number,
             (unsigned long long)s->snapshots[s->present].version);
}

const struct snapshot_slot *shard_version(struct world *w, struct sim_shard *s, uint64_t version)
{
    return find_version(w, s, version);
}

static uint32_t snapshots_used(const struct sim_shard *s)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < SIM_SNAPSHOTS_MAX; i++) {
        used += s->snapshots[i].refs > 0;
    }
    return used;
}

/* As snapshots_can_update() has it: what slow readers keep beyond two versions and those that are
 * kept is memory that gradients would have else. */
static bool has_buffer(struct world *w, struct sim_shard *s)
{
    bool gives_up = s->previous != SIM_NONE && s->snapshots[s->previous].refs == 1;
    if (gives_up || snapshots_used(s) < s->buffers) {
        return true;
    }
    if (s->buffers >= 2 + s->kept && !budget_lend(w, s)) {
        return false;
    }
    s->buffers++;
    return true;
}

void snapshots_trim(struct world *w, struct sim_shard *s)
{
    while (s->buffers > 2 + s->kept && snapshots_used(s) < s->buffers) {
        s->buffers--;
        if (s->lent > 0) {
            budget_take_back(w, s);
        }
    }
}

/* Slow readers of older versions take the buffers that the next versions need. */
static bool can_apply(struct world *w, struct sim_shard *s)
{
    uint32_t readers = 0;
    for (uint32_t i = 0; i < SIM_SNAPSHOTS_MAX; i++) {
        readers += i != s->present ? s->snapshots[i].readers : 0;
    }
    return readers < w->schedule->knobs.readers_max && !tables_wait(s) && standby_has_room(s) &&
           (!budget_is_tight(w) || has_buffer(w, s));
}

static void read_slowly(struct world *w, struct sim_shard *s, struct snapshot_slot *snapshot,
                        uint64_t us)
{
    snapshot->refs++;
    snapshot->readers++;
    world_at(w, us, EVENT_READER, s->node, (uint32_t)(snapshot - s->snapshots), s->serial);
}

void ps_reader(struct world *w, const struct event *e)
{
    struct sim_node *n = &w->nodes[e->node];
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
        struct sim_shard *s = n->shards[i];
        if (s == NULL || s->serial != e->more) {
            continue;
        }
        s->snapshots[e->arg].refs--;
        s->snapshots[e->arg].readers--;
        if (s->open && shard_wants_snapshot(s->core)) {
            struct shard_event more = {.kind = SHARD_SNAPSHOT, .generation = s->opened};
            shard_take(w, s, &more);
        }
        return;
    }
}

/* ---- sums ---- */

static void reduce(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    const uint32_t round = a->round.round;
    const struct gradient *g = a->buffer;
    if (a->round.step != s->snapshots[s->present].version ||
        round >= eras_rounds(s->layout, s->eras, s->era_count, a->round.step) ||
        s->begun != (round > 0) || (s->begun && s->settled != round)) {
        violated(w, INVARIANT_ORDER, "shard %u reduces round %u of step %llu", s->number, round,
                 (unsigned long long)a->round.step);
    }
    s->settled = s->begun ? s->settled : 0;
    s->begun = true;
    uint64_t before = round == 0 ? 0 : s->totals[round - 1].value;
    s->mine = (struct sim_sums){
        .step = a->round.step,
        .round = round,
        .shards = 1U << s->number,
        .value = numbers_sums(g == NULL ? NULL : g->t.v, s->map, s->elements, round, before),
    };
}

/* As rule/update.h checks what comes. */
static void settle(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    struct sim_sums t = {0};
    const uint32_t all = (1U << s->layout->shard_count) - 1;
    if (a->totals_bytes == sizeof t) {
        memcpy(&t, a->totals, sizeof t);
    }
    if (!s->begun || a->round.step != s->snapshots[s->present].version ||
        a->round.round != s->settled || t.step != a->round.step || t.round != a->round.round ||
        t.shards != all) {
        violated(w, INVARIANT_SAME,
                 "shard %u at version %llu, round %u, believes totals of round %u of step %llu, of "
                 "shards %x",
                 s->number, (unsigned long long)s->snapshots[s->present].version, s->settled,
                 t.round, (unsigned long long)t.step, t.shards);
    }
    s->totals[s->settled++] = t;
}

static struct sim_sums sums_of(struct world *w, const struct sim_shard *s,
                               const struct exchange_sums *sums)
{
    static const struct sim_sums none;
    if (sums->over) {
        return none;
    }
    const struct sim_sums *from = &s->mine;
    if (sums->known) {
        bool present = sums->of.step == s->snapshots[s->present].version;
        from = present ? &s->totals[sums->of.round] : &s->last[sums->of.round];
    }
    if (from->step != sums->of.step || from->round != sums->of.round) {
        violated(w, INVARIANT_ORDER, "shard %u answers with sums of round %u of step %llu",
                 s->number, from->round, (unsigned long long)from->step);
    }
    return *from;
}

/* ---- actions ---- */

static void apply(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    struct gradient *g = a->buffer;
    struct snapshot_slot *present = &s->snapshots[s->present];
    struct snapshot_slot *base = a->has_base ? find_version(w, s, a->base_version) : NULL;
    if (a->version != present->version + 1) {
        violated(w, INVARIANT_VERSION, "shard %u goes from version %llu to %llu", s->number,
                 (unsigned long long)present->version, (unsigned long long)a->version);
    }
    check_applied(w, s, a, g);
    shard_sum_alone(s, a, g);
    given_check(w, s, "is updated");
    if (s->previous != SIM_NONE) {
        s->snapshots[s->previous].refs--;
    }
    uint32_t next = 0;
    while (next < SIM_SNAPSHOTS_MAX && s->snapshots[next].refs > 0) {
        next++;
    }
    if (next == SIM_SNAPSHOTS_MAX) {
        violated(w, INVARIANT_ORDER, "no snapshot is free on shard %u", s->number);
    }
    struct snapshot_slot *to = &s->snapshots[next];
    to->version = a->version;
    to->refs = 1;
    if (g == NULL) {
        to->t = present->t;
    } else {
        struct numbers_update u = {.scale = 1.0F / (float)a->examples,
                                   .rate = s->eras[a->era].rate,
                                   .lr_scale = a->lr_scale,
                                   .lambda = a->lambda,
                                   .base = base == NULL ? NULL : base->t.v};
        if (s->begun) {
            u.scale *= numbers_factor(s->totals[s->settled - 1].value);
        }
        numbers_apply(present->t.v, to->t.v, s->slot.v, g->t.v, s->elements, &u);
        ids_add(&s->applied, &g->ids);
    }
    tables_apply(w, s, a, g, s->present, next);
    to->ids = s->applied;
    s->examples += a->examples;
    if (s->begun) {
        memcpy(s->last, s->totals, sizeof s->last);
    }
    s->begun = false;
    s->previous = s->present;
    s->present = next;
    tables_applied(w, s);
    standby_made(w, s);
    w->counts.steps++;
}

static void add(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    struct gradient *to = a->buffer;
    const struct gradient *from = a->source;
    if (to == from || ids_overlap(&to->ids, &from->ids)) {
        violated(w, INVARIANT_ONCE, "shard %u sums the same batch twice", s->number);
    }
    for (uint32_t i = 0; i < s->elements; i++) {
        to->t.v[i] += from->t.v[i];
    }
    if (s->tables != NULL) {
        tables_add(w, a->buffer, a->source);
    }
    ids_add(&to->ids, &from->ids);
    to->generation = from->generation < to->generation ? from->generation : to->generation;
}

void ps_flatten(struct flat_ledger *to, const struct ledger *from)
{
    to->present = from != NULL;
    if (from != NULL) {
        to->shape = from->shape;
        to->epoch = from->epoch;
        to->split_count = from->split_count;
        memcpy(to->done, from->done, from->split_count * sizeof *from->done);
    }
}

static void reply_unary(struct world *w, struct sim_shard *s, struct sim_request *r,
                        const struct shard_action *a)
{
    struct unary_reply *out = unary_reply(w, r->unary, r->attempt);
    bool close = w->unaries[r->unary].kind == UNARY_CALL &&
                 w->unaries[r->unary].req.call == MASTER_CALL_CLOSE;
    out->code = a->code;
    if (a->code != 0) {
        snprintf(out->message, sizeof out->message, "%.150s", s->actions.err.msg);
    } else {
        struct shard_info info;
        shard_info(s->core, &info);
        out->version = a->version;
        out->filled = a->filled;
        out->received = a->received;
        out->generation = a->generation;
        out->examples = a->examples_applied;
        out->pushes = info.pushes_applied;
        out->duplicates = info.pushes_duplicate;
        out->dropped = info.pushes_dropped;
        ps_flatten(&out->ledger, a->ledger);
        out->pin_count = (uint32_t)info.pins;
        for (size_t i = 0; i < info.pins; i++) {
            snprintf(out->pins[i].id, sizeof out->pins[i].id, "%s", info.pinned[i].id);
            out->pins[i].version = info.pinned[i].version;
            out->pins[i].slots = info.pinned[i].slots;
        }
    }
    uint32_t unary = r->unary;
    uint32_t attempt = r->attempt;
    if (close && a->code == 0) {
        s->open = false;
    }
    request_drop(w, r);
    unary_answer(w, unary, attempt);
}

static void fill_values(struct world *w, struct sim_shard *s, struct exchange *x, uint64_t version)
{
    struct snapshot_slot *snapshot = find_version(w, s, version);
    const struct sim_knobs *k = &w->schedule->knobs;
    given_check(w, s, "is read");
    x->has_values = true;
    x->values = snapshot->t;
    x->ids = snapshot->ids;
    x->opened = s->opened;
    if (k->reader_part > 0 && !w->quiet &&
        world_draw(w, "reader", w->serials++, 1000000) < k->reader_part) {
        read_slowly(w, s, snapshot,
                    w->now_us + 1 + world_draw(w, "reader", w->serials++, k->reader_us));
    }
}

/* Rows go with the values that are pulled, unless there is no memory for them. */
static bool brings_rows(struct world *w, const struct exchange *q, const struct shard_action *a)
{
    return q->with_rows && a->code == 0 && a->values &&
           (w->quiet || world_draw(w, "rows", w->rows_asked++, 16) > 0);
}

static void reply_exchange(struct world *w, struct sim_shard *s, struct sim_request *r,
                           const struct shard_action *a)
{
    const struct exchange *q = &w->exchanges[r->exchange];
    const bool rows = brings_rows(w, q, a);
    uint32_t stream = q->stream;
    uint64_t number = q->number;
    unsigned char asked[SIM_TABLE_COUNT * (1 + SIM_KEYS)];
    memcpy(asked, rows ? q->along : q->rows, sizeof asked);
    recorder_check(w, s->node, stream, number);
    request_drop(w, r);
    uint32_t index = exchange_new(w);
    struct exchange *x = &w->exchanges[index];
    x->stream = stream;
    x->number = number;
    x->code = a->code;
    x->with_rows = rows;
    x->version = a->version;
    x->generation = a->generation;
    if (a->code != 0) {
        snprintf(x->message, sizeof x->message, "%.110s", s->actions.err.msg);
    } else {
        const struct exchange_decision *d = &a->answer.decision;
        const enum push_result push = a->answer.train.push;
        x->answer = a->answer;
        if (d->bytes > 0) {
            memcpy(&x->decision, d->replicas, d->bytes > 8 ? 8 : d->bytes);
        }
        if (a->answer.kind == EXCHANGE_SUMS) {
            x->sums = sums_of(w, s, &a->answer.sums);
        }
        w->counts.duplicates += push == PUSH_DUPLICATE;
        w->counts.dropped += push == PUSH_STALE || push == PUSH_DROPPED;
        if (a->values || a->rows) {
            fill_values(w, s, x, a->version);
        }
        if ((a->rows || rows) && s->tables != NULL) {
            tables_answer(w, s, asked, a->version, x);
        }
    }
    w->counts.old += a->code == ERR_ABORTED;
    if (w->streams[stream].gone) { /* on its way out, behind others of the same stream */
        exchange_free(w, index);
        return;
    }
    stream_answer(w, index);
}

static void keep(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    given_check(w, s, "is pinned");
    find_version(w, s, a->version)->refs++;
    s->kept++;
    s->leases.kept += a->reader;
    if (a->reader) {
        tables_pin_reader(s);
    } else if (!a->has_base) {
        tables_pin(w, s, a->version);
    }
    if (a->buffer != NULL) {
        ((struct gradient *)a->buffer)->t = s->slot;
    }
}

static void forget(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    struct snapshot_slot *snapshot = find_version(w, s, a->version);
    bool has_own = snapshot == &s->snapshots[s->present] ||
                   (s->previous != SIM_NONE && snapshot == &s->snapshots[s->previous]);
    uint32_t own = has_own ? 1 : 0;
    if (s->kept == 0 || snapshot->refs <= own) {
        violated(w, INVARIANT_ORDER, "version %llu of shard %u is forgotten, but not kept",
                 (unsigned long long)a->version, s->number);
    }
    if (a->reader && s->leases.kept == 0) {
        violated(w, INVARIANT_ORDER,
                 "version %llu of shard %u is forgotten, but kept for no reader",
                 (unsigned long long)a->version, s->number);
    }
    if (a->reader) {
        s->leases.kept--;
        tables_unpin_reader(s, a->version);
    } else if (!a->has_base) {
        tables_unpin(w, s, a->version);
    }
    s->kept--;
    snapshot->refs--;
}

static void write_file(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    struct sim_request *r = request_of(w, s, a->tag);
    uint32_t unary = r->unary;
    uint32_t attempt = r->attempt;
    (void)find_version(w, s, a->version);
    request_drop(w, r);
    disk_write(w, s, a, unary, attempt);
}

static void act(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    struct sim_request *r;
    switch (a->kind) {
    case SHARD_ADD:
        add(w, s, a);
        break;
    case SHARD_APPLY:
        if (a->source != NULL) {
            add(w, s, a);
        }
        apply(w, s, a);
        break;
    case SHARD_REDUCE:
        reduce(w, s, a);
        break;
    case SHARD_SETTLE:
        settle(w, s, a);
        break;
    case SHARD_ABANDON:
        s->begun = false;
        break;
    case SHARD_PUT:
        given_put(w, s, a);
        break;
    case SHARD_RELEASE:
        gradient_release(w, s, a->buffer);
        break;
    case SHARD_KEEP:
        keep(w, s, a);
        break;
    case SHARD_FORGET:
        forget(w, s, a);
        break;
    case SHARD_WRITE:
        write_file(w, s, a);
        break;
    case SHARD_EMIT:
        standby_say(w, s, a, s->standby.tag == NULL ? NULL : request_of(w, s, s->standby.tag));
        break;
    case SHARD_LOAD:
        standby_load(w, s, a);
        break;
    case SHARD_REPLY:
        if (a->tag == NULL) {
            break; /* of a drop that nobody asked for */
        }
        r = request_of(w, s, a->tag);
        standby_shows(w, s, r, a);
        if (r->read != SIM_NONE) {
            follower_answered(w, s, r, a);
        } else if (r->exchange != SIM_NONE) {
            reply_exchange(w, s, r, a);
        } else {
            reply_unary(w, s, r, a);
        }
        break;
    }
}

/* False: the server died in the middle. */
static bool act_all(struct world *w, struct sim_shard *s)
{
    for (size_t i = 0; i < s->actions.count; i++) {
        if (node_acts(w, s->node)) {
            node_kill(w, s->node);
            return false;
        }
        act(w, s, &s->actions.items[i]);
    }
    return true;
}

bool shard_do(struct world *w, struct sim_shard *s, struct shard_event *e)
{
    struct shard_info before;
    e->now_ms = node_ms(w, s->node);
    shard_info(s->core, &before);
    s->standby.tag = e->tag;
    shard_step(s->core, e, &s->actions);
    if (!act_all(w, s)) {
        return false;
    }
    standby_stepped(w, s);
    tables_follow(s);
    check_step(w, s, e, &before);
    followers_check(w, s);
    return true;
}

void shard_take(struct world *w, struct sim_shard *s, struct shard_event *e)
{
    e->can_apply = e->ask.has_push && can_apply(w, s);
    if (!shard_do(w, s, e)) {
        return;
    }
    while (s->open && can_apply(w, s) && shard_wants_snapshot(s->core)) {
        struct shard_event more = {.kind = SHARD_SNAPSHOT, .can_apply = true};
        if (!shard_do(w, s, &more)) {
            return;
        }
    }
}
