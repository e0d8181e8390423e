/* SPDX-License-Identifier: Apache-2.0 */
/* Backups of shards: a primary says its records to the server of its backup, each until that has
 * received it. They travel as calls, which are lost, come twice and overtake each other: more than
 * a stream does to them. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SAY_TIMEOUT_MS 1000
#define SAY_AGAIN_US (40 * SIM_MS)

/* A record that the backup has not received. */
struct sim_said {
    struct sim_said *next;
    struct unary_request req;
    bool away;
};

/* ---- the primary ---- */

void standby_open(struct sim_shard *s, const struct unary_request *q, struct shard_options *o)
{
    if (q->is_backup) {
        o->role = SHARD_BACKUP;
    } else if (q->has_backup) {
        o->role = SHARD_PRIMARY;
        o->backup = q->backup.opening;
        s->standby.node = q->backup.node;
        s->standby.opening = q->backup.opening;
    }
}

void standby_end(struct sim_shard *s)
{
    while (s->standby.said != NULL) {
        struct sim_said *first = s->standby.said;
        s->standby.said = first->next;
        free(first);
    }
}

/* All that are not on their way. */
static void send(struct world *w, struct sim_shard *s)
{
    for (struct sim_said *r = s->standby.said; r != NULL && !s->standby.refused; r = r->next) {
        if (r->away) {
            continue;
        }
        uint32_t index;
        struct unary *u =
            unary_new(w, s->node, s->standby.node, UNARY_RECORD, SAY_TIMEOUT_MS, &index);
        u->req = r->req;
        r->away = true;
        unary_send(w, index);
    }
}

static void fill_update(const struct sim_shard *s, const struct shard_action *a,
                        struct unary_request *q)
{
    const struct gradient *g = a->buffer;
    q->record.has_gradient = g != NULL;
    if (g != NULL) {
        q->given = g->t;
        q->record.generation = g->generation;
        memcpy(q->record.ids, g->ids.epoch, sizeof q->record.ids);
    }
    memcpy(q->totals, s->totals, sizeof q->totals);
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
    q->job = s->job;
    q->shard = s->number;
    q->fence = s->fence;
    q->fence.opening = s->standby.opening;
    q->record = (struct sim_record){.what = a->record, .from = s->fence.opening};
    if (a->record.decision.bytes > 0) {
        memcpy(&q->record.decision, a->record.decision.replicas,
               a->record.decision.bytes > 8 ? 8 : a->record.decision.bytes);
    }
    if (kind == SHARD_RECORD_UPDATE) {
        fill_update(s, a, q);
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
    for (uint32_t i = 0; i < SIM_ROUNDS_MAX; i++) {
        totals[i] =
            (struct exchange_totals){{e.record.version, i}, &q.totals[i], sizeof q.totals[i]};
    }
    if (q.record.has_gradient) {
        bring_gradient(w, s, &q, &e);
    }
    if (e.record.kind == SHARD_RECORD_PIN && q.slots && w->pins_us <= w->now_us) {
        e.slots_buffer = gradient_new(w);
        s->gradients++;
    }
    const uint32_t node = s->node;
    const uint32_t life = w->nodes[node].life;
    if (e.record.kind == SHARD_RECORD_MEMBERSHIP) {
        ps_membership(w, &q, &told, &e);
        ps_take_membership(w, s, &q, &e);
    } else {
        shard_take(w, s, &e);
    }
    if (w->nodes[node].life == life) {
        check_follows(w, s);
    }
}

/* ---- what both say ---- */

void standby_stepped(struct world *w, struct sim_shard *s)
{
    struct shard_info info;
    shard_info(s->core, &info);
    if (info.role != SHARD_PRIMARY || info.closed) {
        standby_end(s);
        return;
    }
    uint64_t out = 0;
    for (const struct sim_said *r = s->standby.said; r != NULL; r = r->next) {
        out++;
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
    q->held[q->held_count - 1].problem = info.broken == NULL ? NULL : "it cannot follow";
}

/* ---- what must hold ---- */

void standby_called(struct sim_job *j, const struct master_call *c)
{
    if (c->kind == MASTER_CALL_OPEN && c->generation > j->standby.opened) {
        j->standby = (struct sim_job_standby){.opened = c->generation};
    }
    if (c->kind == MASTER_CALL_OPEN && c->standby.is_backup) {
        j->standby.backups = c->fence.opening;
    } else if (c->kind == MASTER_CALL_OPEN || c->kind == MASTER_CALL_MEMBERSHIP) {
        j->standby.shards[c->shard].opening = c->fence.opening;
    }
}

bool standby_is_present(const struct world *w, const struct sim_shard *s)
{
    return w->jobs[s->job].standby.shards[s->number].opening == s->fence.opening;
}

bool standby_may_vanish(const struct sim_shard *s)
{
    struct shard_info info;
    shard_info(s->core, &info);
    return info.role == SHARD_PRIMARY;
}

/* Whatever its workers and the master know of the old primary, the new one has. */
static void check_promoted(struct world *w, const struct sim_shard *s, const struct shard_action *a)
{
    const struct sim_job *j = &w->jobs[s->job];
    TRACE(w, s->node, "is the primary of shard %u, at version %llu", s->number,
          (unsigned long long)a->version);
    w->counts.takeovers++;
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
