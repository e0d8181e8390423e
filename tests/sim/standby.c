/* SPDX-License-Identifier: Apache-2.0 */
/* Backups of shards: a primary says its records to the server of its backup, each until that has
 * received it. They travel as calls, which are lost, come twice and overtake each other: more than
 * a stream does to them. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

#define SAY_TIMEOUT_MS 1000
#define SAY_AGAIN_US (40 * SIM_MS)
#define SIM_JOINING_UPDATES 16  /* for which there is memory */
#define STATE_US (800 * SIM_MS) /* it is large */

/* A record that the backup has not received. */
struct sim_said {
    struct sim_said *next;
    struct unary_request req;
    const struct gradient *slots; /* of a state: the copy that is kept */
    uint64_t leaves_us;           /* likewise */
    bool away;
};

/* ---- the primary ---- */

void standby_open(struct sim_shard *s, const struct unary_request *q, struct shard_options *o)
{
    if (q->is_backup) {
        o->role = SHARD_BACKUP;
        o->joins = q->joins;
        s->standby.empty = q->joins;
    } else if (q->has_backup) {
        o->role = SHARD_PRIMARY;
        o->backup = q->backup.opening;
        s->standby.node = q->backup.node;
        s->standby.opening = q->backup.opening;
        s->standby.follows = true;
    }
}

void standby_release(struct sim_shard *s)
{
    while (s->standby.said != NULL) {
        struct sim_said *first = s->standby.said;
        s->standby.said = first->next;
        free(first);
    }
}

/* A state is read when it leaves. False: its rows are not kept any more, and never will be said. */
static bool read_state(struct world *w, struct sim_shard *s, struct sim_said *said)
{
    const struct snapshot_slot *from = shard_version(w, s, said->req.record.what.version);
    said->req.given = from->t;
    memcpy(said->req.record.ids, from->ids.epoch, sizeof said->req.record.ids);
    said->req.slot = said->slots == NULL ? s->slot : said->slots->t;
    return said->req.record.state != NULL ||
           standby_tables_say(w, s, said->req.record.what.version, &said->req.record);
}

/* All that are not on their way. What follows a state may come before it. */
static void send(struct world *w, struct sim_shard *s)
{
    for (struct sim_said *r = s->standby.said; r != NULL && !s->standby.refused; r = r->next) {
        if (r->away || r->leaves_us > w->now_us) {
            continue;
        }
        if (r->req.record.what.kind == SHARD_RECORD_STATE && !read_state(w, s, r)) {
            s->standby.refused = true;
            return;
        }
        uint32_t index;
        struct unary *u =
            unary_new(w, s->node, s->standby.node, UNARY_RECORD, SAY_TIMEOUT_MS, &index);
        u->req = r->req;
        r->away = true;
        unary_send(w, index);
    }
}

static void fill_update(struct world *w, const struct sim_shard *s, const struct shard_action *a,
                        struct unary_request *q)
{
    const struct gradient *g = a->buffer;
    q->record.has_gradient = g != NULL;
    if (g != NULL) {
        q->given = g->t;
        q->record.generation = g->generation;
        memcpy(q->record.ids, g->ids.epoch, sizeof q->record.ids);
        standby_rows_say(w, g, &q->record);
    }
    memcpy(q->totals, s->totals, sizeof q->totals);
}

/* It is that of the generation which names the backup. */
static void begin_joining(struct world *w, struct sim_shard *s, const struct shard_action *a,
                          struct sim_said *said)
{
    struct unary_request *q = &said->req;
    struct shard_info info;
    shard_info(s->core, &info);
    if (a->record.number != 1 || a->ledger == NULL) {
        violated(w, INVARIANT_STANDBY, "the state of shard %u is record %llu", s->number,
                 (unsigned long long)a->record.number);
    }
    standby_release(s);
    s->standby.node = q->backup.node;
    s->standby.opening = q->backup.opening;
    s->standby.refused = false;
    s->standby.follows = false;
    s->standby.caught = s->standby.newest = 0;
    if (q->era_count == 0 || !q->ledger.present) {
        q->era_count = s->era_count;
        memcpy(q->eras, s->eras, sizeof q->eras);
    }
    q->consistency = info.consistency;
    q->version = a->record.version;
    q->forget_pins = q->has_backup = q->promote = false;
    ps_flatten(&q->ledger, a->ledger);
    said->slots = a->buffer;
    if (world_draw(w, "large state", w->serials++, 2) == 0) {
        said->leaves_us = w->now_us + world_takes(w, "state", STATE_US);
        s->standby.waits = true;
        world_at(w, said->leaves_us, EVENT_SAY, s->node, s->serial, 0);
    }
}

void standby_say(struct world *w, struct sim_shard *s, const struct shard_action *a,
                 const struct sim_request *r)
{
    const enum shard_record_kind kind = a->record.kind;
    const bool alone = kind == SHARD_RECORD_UPDATE || kind == SHARD_RECORD_DECISION;
    struct sim_said *said = mem_new(1, sizeof *said);
    struct sim_said **last = &s->standby.said;
    struct unary_request *q = &said->req;
    if (!alone && (r == NULL || r->exchange != SIM_NONE || r->read != SIM_NONE)) {
        free(said);
        violated(w, INVARIANT_ORDER, "shard %u says record %llu, of no request", s->number,
                 (unsigned long long)a->record.number);
    }
    if (!alone) {
        *q = w->unaries[r->unary].req;
    }
    if (kind == SHARD_RECORD_STATE) {
        begin_joining(w, s, a, said);
        last = &s->standby.said;
    }
    q->job = s->job;
    q->shard = s->number;
    q->fence = s->fence;
    q->fence.opening = s->standby.opening;
    q->record = (struct sim_record){.what = a->record, .from = s->fence.opening};
    if (a->record.decision.bytes > 0) {
        memcpy(&q->record.decision, a->record.decision.replicas,
               a->record.decision.bytes > 8 ? 8 : a->record.decision.bytes);
    }
    if (a->record.sent_count > 0) {
        memcpy(q->record.sent, a->record.sent, a->record.sent_count * sizeof *q->record.sent);
    }
    if (kind == SHARD_RECORD_UPDATE) {
        fill_update(w, s, a, q);
    }
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = said;
    send(w, s);
}

/* The shard on @node that said @q; NULL: it is not there, or has no backup any more. */
static struct sim_shard *speaker(struct world *w, uint32_t node, const struct unary_request *q)
{
    struct sim_shard *s = ps_shard_there(w, node, q->job, q->shard);
    bool same = s != NULL && s->open && s->fence.opening == q->record.from &&
                s->standby.opening == q->fence.opening;
    return same ? s : NULL;
}

static void receive(struct world *w, struct sim_shard *s, uint64_t received)
{
    while (s->standby.said != NULL && s->standby.said->req.record.what.number <= received) {
        struct sim_said *first = s->standby.said;
        s->standby.said = first->next;
        free(first);
        w->counts.records_received++;
    }
    struct shard_event e = {
        .kind = SHARD_RECEIPT, .own = true, .backup = s->standby.opening, .received = received};
    shard_take(w, s, &e);
}

void standby_answered(struct world *w, const struct unary *u, const struct unary_reply *reply)
{
    const uint32_t node = u->from;
    const uint64_t number = u->req.record.what.number;
    struct sim_shard *s = speaker(w, node, &u->req);
    if (s == NULL) {
        return;
    }
    if (reply->code == 0) {
        receive(w, s, reply->received);
        ps_sweep(w, node);
        return;
    }
    for (struct sim_said *r = s->standby.said; r != NULL; r = r->next) {
        r->away = r->away && r->req.record.what.number != number;
    }
    /* a primary by now, or broken: never again */
    s->standby.refused |= reply->code == ERR_ABORTED || reply->code == ERR_CORRUPT;
    if (!s->standby.waits && !s->standby.refused) {
        s->standby.waits = true;
        world_at(w, w->now_us + world_takes(w, "say again", SAY_AGAIN_US), EVENT_SAY, node,
                 s->serial, 0);
    }
}

void standby_say_again(struct world *w, uint32_t node, uint32_t serial)
{
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
        struct sim_shard *s = w->nodes[node].shards[i];
        if (s != NULL && s->serial == serial && s->open) {
            s->standby.waits = false;
            send(w, s);
        }
    }
}

/* ---- the backup ---- */

static void bring_gradient(struct world *w, struct sim_shard *s, const struct unary_request *q,
                           struct shard_event *e)
{
    struct gradient *g = gradient_new(w);
    g->t = q->given;
    memcpy(g->ids.epoch, q->record.ids, sizeof g->ids.epoch);
    g->generation = q->record.generation;
    standby_rows_bring(w, s, &q->record, g);
    e->gradient = g;
    e->elements = s->elements;
    s->gradients++;
}

/* Memory for a pin there may not be; else a record fits what the ones before it have made. */
static void check_follows(struct world *w, const struct sim_shard *s)
{
    struct shard_info info;
    shard_info(s->core, &info);
    if (info.broken != NULL && info.broken->code != ERR_EXHAUSTED) {
        violated(w, INVARIANT_STANDBY, "the backup of shard %u cannot follow: %s", s->number,
                 info.broken->msg);
    }
}

void standby_heard(struct world *w, struct sim_shard *s, uint32_t unary, uint32_t attempt)
{
    const struct unary_request q = w->unaries[unary].req;
    struct sim_request *r = request_new(w, s);
    struct exchange_totals totals[SIM_ROUNDS_MAX];
    struct ps_told told;
    r->unary = unary;
    r->attempt = attempt;
    struct shard_event e = {.kind = SHARD_RECORD,
                            .generation = q.generation,
                            .fence = q.fence,
                            .tag = request_tag(w, r),
                            .record = q.record.what,
                            .totals = totals,
                            .pin_id = q.pin_id,
                            .slots = q.slots,
                            .first = q.first,
                            .elements = q.count,
                            .given = q.given.v};
    uint8_t decision[8];
    memcpy(decision, &q.record.decision, sizeof decision);
    e.record.decision.replicas = decision;
    e.record.sent = q.record.sent;
    for (uint32_t i = 0; i < SIM_ROUNDS_MAX; i++) {
        totals[i] =
            (struct exchange_totals){{e.record.version, i}, &q.totals[i], sizeof q.totals[i]};
    }
    if (q.record.has_gradient) {
        bring_gradient(w, s, &q, &e);
    }
    const bool state = e.record.kind == SHARD_RECORD_STATE;
    s->standby.record = &q;
    if (e.record.kind == SHARD_RECORD_PIN && q.slots && w->pins_us <= w->now_us) {
        e.slots_buffer = gradient_new(w);
        s->gradients++;
    }
    const uint32_t node = s->node;
    const uint32_t life = w->nodes[node].life;
    if (state || e.record.kind == SHARD_RECORD_MEMBERSHIP) {
        ps_membership(w, s->layout, &q, &told, &e);
        e.elements = state ? s->elements : 0;
        ps_take_membership(w, s, &q, &e);
    } else {
        shard_take(w, s, &e);
    }
    if (w->nodes[node].life == life) {
        check_follows(w, s);
    }
}

void standby_load(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    const struct unary_request *q = s->standby.record;
    struct snapshot_slot *present = &s->snapshots[s->present];
    if (!s->standby.empty || s->previous != SIM_NONE || present->refs != 1) {
        violated(w, INVARIANT_ORDER, "shard %u takes a state, and has one", s->number);
    }
    s->standby.empty = false;
    s->standby.joined = true;
    s->version_first = a->version;
    present->version = a->version;
    present->t = q->given;
    memcpy(present->ids.epoch, q->record.ids, sizeof present->ids.epoch);
    s->slot = q->slot;
    s->applied = present->ids;
    s->examples = q->record.what.examples;
    s->era_count = q->era_count;
    memcpy(s->eras, q->eras, sizeof s->eras);
    given_open(s, false);
    standby_tables_load(w, s, &q->record, a->version);
}

/* Over values, slots, rows and batches of the present version. */
static uint64_t sum_of(const struct world *w, const struct sim_shard *s)
{
    const struct snapshot_slot *present = &s->snapshots[s->present];
    uint64_t sum = rng_key_mix(s->examples, present->version);
    for (uint32_t i = 0; i < s->elements; i++) {
        uint32_t value, slot;
        memcpy(&value, &present->t.v[i], sizeof value);
        memcpy(&slot, &s->slot.v[i], sizeof slot);
        sum = rng_key_mix(sum, (uint64_t)value << 32 | slot);
    }
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX; i++) {
        sum = rng_key_mix(sum, s->applied.epoch[i]);
    }
    if (s->tables != NULL) { /* what is in them is compared with this after each update */
        sum = rows_sum(&w->jobs[s->job], &s->tables->models[s->present], s->number, sum);
    }
    return sum | 1;
}

/* The bits of its primary. */
static void check_bits(struct world *w, const struct sim_shard *s)
{
    const struct sim_job *j = &w->jobs[s->job];
    const uint64_t version = s->snapshots[s->present].version;
    const uint64_t made =
        version < SIM_VERSIONS_MAX ? j->standby.shards[s->number].made[version] : 0;
    if (s->opened == j->opened && made != 0 && made != sum_of(w, s)) {
        violated(w, INVARIANT_STANDBY,
                 "version %llu of shard %u has other bits in the backup than in the primary",
                 (unsigned long long)version, s->number);
    }
}

void standby_made(struct world *w, const struct sim_shard *s)
{
    struct shard_info info;
    struct sim_job *j = &w->jobs[s->job];
    shard_info(s->core, &info);
    const uint64_t version = s->snapshots[s->present].version;
    if (info.role != SHARD_BACKUP && s->opened == j->opened && version < SIM_VERSIONS_MAX &&
        standby_is_present(w, s)) {
        j->standby.shards[s->number].made[version] = sum_of(w, s);
    }
    if (info.role == SHARD_BACKUP && standby_is_known(w, s)) {
        check_bits(w, s);
    }
}

/* The primary says for the first time that its backup can take over. */
static void check_follows_now(struct world *w, const struct sim_shard *s,
                              const struct shard_info *info)
{
    const struct sim_shard *b = ps_shard_there(w, s->standby.node, s->job, s->number);
    struct shard_info there;
    w->counts.joined++;
    if (b == NULL || b->fence.opening != s->standby.opening) {
        return; /* it has died since */
    }
    shard_info(b->core, &there);
    if (b->standby.empty || there.records != info->records || there.version != info->version ||
        there.generation != info->generation || there.examples != info->examples ||
        there.pins != info->pins ||
        (info->ledger != NULL && !ledger_equal(there.ledger, info->ledger))) {
        violated(w, INVARIANT_STANDBY,
                 "the backup of shard %u is said to follow, and is at version %llu, record %llu",
                 s->number, (unsigned long long)there.version, (unsigned long long)there.records);
    }
    if (there.consistency.mode == TRAINING_SYNC && s->previous != SIM_NONE &&
        b->previous == SIM_NONE) {
        violated(w, INVARIANT_STANDBY,
                 "the backup of shard %u is said to follow, and lacks the version before %llu",
                 s->number, (unsigned long long)there.version);
    }
    check_bits(w, b);
}

/* ---- what both say ---- */

/* How many records it lacks. A backup that follows lacks one version at most. One that catches up
 * receives two records for each update that is made. */
static uint64_t check_lacks(struct world *w, struct sim_shard *s, const struct shard_info *info)
{
    struct sim_standby *b = &s->standby;
    uint64_t out = 0, updates = 0, newest = b->newest;
    for (const struct sim_said *r = b->said; r != NULL; r = r->next) {
        const bool update = r->req.record.what.kind == SHARD_RECORD_UPDATE;
        out++;
        updates += update;
        newest = update ? r->req.record.what.number : newest;
    }
    if (b->caught == 0 && info->received > 0) {
        b->caught = info->received;
        b->behind = out;
        b->newest = newest;
    }
    const bool catches_up = b->caught > 0 && !info->follows;
    const uint64_t least = catches_up && newest > b->newest ? (info->received - b->caught) / 2 : 0;
    if (info->follows ? updates > 1 : catches_up && updates > 1 && updates + least > b->behind) {
        violated(w, INVARIANT_STANDBY, "shard %u has made %llu versions that its backup lacks",
                 s->number, (unsigned long long)updates);
    }
    if (!info->joining && !info->follows && updates > 1) {
        violated(w, INVARIANT_STANDBY, "shard %u waits for %llu versions at once", s->number,
                 (unsigned long long)updates);
    }
    b->newest = newest;
    return out;
}

bool standby_has_room(const struct sim_shard *s)
{
    struct shard_info info;
    size_t updates = 0;
    shard_info(s->core, &info);
    for (const struct sim_said *r = s->standby.said; info.state_kept && r != NULL; r = r->next) {
        updates += r->req.record.what.kind == SHARD_RECORD_UPDATE;
    }
    return updates < SIM_JOINING_UPDATES &&
           (!info.state_kept || s->tables == NULL || !shard_tables_short(s->tables->real));
}

void standby_stepped(struct world *w, struct sim_shard *s)
{
    struct shard_info info;
    shard_info(s->core, &info);
    if (info.role != SHARD_PRIMARY || info.closed) {
        standby_release(s);
        return;
    }
    const uint64_t out = check_lacks(w, s, &info);
    if (info.follows && !s->standby.follows) {
        s->standby.follows = true;
        check_follows_now(w, s, &info);
    }
    if (out != info.records - info.received) {
        violated(w, INVARIANT_STANDBY,
                 "shard %u has said %llu records, of which %llu are received, and keeps %llu",
                 s->number, (unsigned long long)info.records, (unsigned long long)info.received,
                 (unsigned long long)out);
    }
}

void standby_tell(const struct world *w, const struct sim_shard *s, struct unary_request *q)
{
    struct shard_info info;
    const uint64_t now_ms = node_ms(w, s->node);
    shard_info(s->core, &info);
    q->held[q->held_count - 1].waits_ms = info.unreceived_ms == 0 ? 0 : now_ms - info.unreceived_ms;
    q->held[q->held_count - 1].backup = info.role == SHARD_PRIMARY ? info.backup : 0;
    q->held[q->held_count - 1].follows = info.follows;
    q->held[q->held_count - 1].problem = info.broken == NULL ? NULL : "it cannot follow";
}

/* ---- what must hold ---- */

void standby_called(struct sim_job *j, const struct master_call *c)
{
    if (c->kind == MASTER_CALL_OPEN && !c->standby.joins && c->generation > j->standby.opened) {
        j->standby = (struct sim_job_standby){.opened = c->generation};
    }
    if (c->kind == MASTER_CALL_OPEN && c->standby.is_backup) {
        j->standby.shards[c->shard].backup = c->fence.opening;
    } else if (c->kind == MASTER_CALL_OPEN || c->kind == MASTER_CALL_MEMBERSHIP) {
        j->standby.shards[c->shard].opening = c->fence.opening;
    }
}

bool standby_is_present(const struct world *w, const struct sim_shard *s)
{
    return w->jobs[s->job].standby.shards[s->number].opening == s->fence.opening;
}

bool standby_is_known(const struct world *w, const struct sim_shard *s)
{
    return standby_is_present(w, s) ||
           w->jobs[s->job].standby.shards[s->number].backup == s->fence.opening;
}

bool standby_may_vanish(const struct sim_shard *s)
{
    struct shard_info info;
    shard_info(s->core, &info);
    return info.follows;
}

/* Whatever its workers and the master know of the old primary, the new one has. */
static void check_promoted(struct world *w, const struct sim_shard *s, const struct shard_action *a)
{
    const struct sim_job *j = &w->jobs[s->job];
    TRACE(w, s->node, "is the primary of shard %u, at version %llu", s->number,
          (unsigned long long)a->version);
    w->counts.takeovers++;
    w->counts.joined_takeovers += s->standby.joined;
    check_bits(w, s);
    if (a->version < j->standby.shards[s->number].shown) {
        violated(w, INVARIANT_STANDBY,
                 "shard %u is at version %llu after its backup took over; %llu "
                 "was shown before",
                 s->number, (unsigned long long)a->version,
                 (unsigned long long)j->standby.shards[s->number].shown);
    }
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX; i++) {
        if ((j->standby.shards[s->number].applied[i] & ~s->applied.epoch[i]) != 0) {
            violated(w, INVARIANT_STANDBY,
                     "shard %u lacks batches of epoch %u that were acknowledged, after its backup "
                     "took over",
                     s->number, i);
        }
    }
}

static void note_push(struct world *w, const struct sim_shard *s, const struct exchange *x,
                      const struct shard_action *a)
{
    struct sim_job *j = &w->jobs[s->job];
    const enum push_result push = a->answer.train.push;
    struct shard_info info;
    shard_info(s->core, &info);
    const bool applied =
        push == PUSH_APPLIED || (push == PUSH_DUPLICATE && info.consistency.mode != TRAINING_SYNC);
    for (uint32_t i = 0; i < SIM_EPOCHS_MAX && x->ask.has_push && applied; i++) {
        j->standby.shards[s->number].applied[i] |= x->ids.epoch[i];
    }
}

void standby_shows(struct world *w, struct sim_shard *s, const struct sim_request *r,
                   const struct shard_action *a)
{
    struct sim_job *j = &w->jobs[s->job];
    struct shard_info info;
    shard_info(s->core, &info);
    if (a->code != 0 || info.role == SHARD_BACKUP || s->opened != j->opened || info.closed) {
        return;
    }
    const bool unary = r->exchange == SIM_NONE && r->read == SIM_NONE;
    const struct unary *u = unary ? &w->unaries[r->unary] : NULL;
    if (u != NULL && u->kind == UNARY_CALL && u->req.call == MASTER_CALL_MEMBERSHIP) {
        uint64_t *generation = &j->standby.shards[s->number].generation;
        uint64_t *answered = &j->standby.shards[s->number].answered;
        if (*generation == info.generation && *answered != s->fence.opening) {
            violated(w, INVARIANT_STANDBY, "shard %u has two primaries of generation %llu",
                     s->number, (unsigned long long)info.generation);
        }
        if (u->req.promote) {
            check_promoted(w, s, a);
        }
        *generation = info.generation;
        *answered = s->fence.opening;
    }
    uint64_t *shown = &j->standby.shards[s->number].shown;
    *shown = a->version > *shown ? a->version : *shown;
    if (r->exchange != SIM_NONE) {
        note_push(w, s, &w->exchanges[r->exchange], a);
    }
}
