/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose initial values workers bring: what worker_job_fill.c, ps_client_fill.c and on_fill.c
 * of services/ do around the cores of workers and shards. */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

/* ---- the model ---- */

const char *const given_models[2] = {
    "  layers:\n    - dense: {units: 3}\n  loss: softmax_cross_entropy\n",
    "  program: p\n",
};

/* As large as that of layers. */
static const struct variable_spec variables[] = {
    {.name = "weight", .shape = {2, {4, 3}}, .init = {.kind = INIT_GIVEN}},
    {.name = "bias", .shape = {1, {3}}, .init = {.kind = INIT_GIVEN}},
};
const struct given_variables given_program = {variables, 2, 7};

/* ---- the master ---- */

uint64_t given_slots_version(const struct sim_job *j)
{
    return j->from && !j->tables ? 5 : 0;
}

/* What it says of a source, which may be gone when the job has a checkpoint. */
void given_asked(struct world *w, const struct sim_job *j, const struct master_call *c)
{
    if (c->kind == MASTER_CALL_INSPECT && c->begins && j->named) {
        violated(w, INVARIANT_GIVEN, "the source of %s is looked at, which has a checkpoint",
                 j->id);
    }
    if (c->kind == MASTER_CALL_START && j->from && !j->named &&
        c->from_fingerprint != GIVEN_FROM_FINGERPRINT) {
        violated(w, INVARIANT_GIVEN, "a worker may bring other values of the source of %s", j->id);
    }
    const bool told =
        c->kind == MASTER_CALL_START || (c->kind == MASTER_CALL_INSPECT && !c->begins);
    if (told && strcmp(c->encoding, j->from ? GIVEN_ENCODING : "") != 0) {
        violated(w, INVARIANT_GIVEN, "records of %s are encoded as '%s'", j->id, c->encoding);
    }
    const bool begins =
        c->kind == MASTER_CALL_OPEN && !c->standby.joins && j->from && c->restore[0] == '\0';
    if (begins && c->version != given_slots_version(j)) {
        violated(w, INVARIANT_GIVEN, "slots of %s are those of version %llu", j->id,
                 (unsigned long long)c->version);
    }
    if (c->kind == MASTER_CALL_OPEN && !c->standby.joins &&
        (strcmp(c->rows_from, begins ? GIVEN_ROWS_FROM : "") != 0 ||
         c->rows_manifest != (begins ? GIVEN_ROWS_MANIFEST : 0))) {
        violated(w, INVARIANT_GIVEN, "tables of %s begin with rows of '%s'", j->id, c->rows_from);
    }
}

/* ---- the worker ---- */

static void answer_all(struct world *w, struct sim_worker_job *j, int code, const char *why)
{
    struct sim_fill *f = &j->fill;
    f->active = false;
    worker_fill_release(&f->core);
    while (f->call_count > 0) {
        f->call_count--;
        const uint32_t unary = f->calls[f->call_count].unary;
        const uint32_t attempt = f->calls[f->call_count].attempt;
        if (code != 0) {
            unary_refuse(w, unary, attempt, code, why);
        } else {
            (void)unary_reply(w, unary, attempt);
            unary_answer(w, unary, attempt);
        }
    }
}

void given_stop(struct world *w, struct sim_worker_job *j, bool answer)
{
    if (!answer) {
        j->fill.call_count = 0; /* killed: nobody is told anything */
    }
    answer_all(w, j, ERR_CANCELLED, "the job was stopped");
}

static void send(struct world *w, uint32_t node, const struct worker_fill_part *part)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct sim_job *job = &w->jobs[j->job];
    const struct sim_layout *l = j->layout;
    const struct sim_place *place = &j->fill.places[part->shard];
    struct tensor initial;
    uint32_t index;
    struct unary *u = unary_new(w, node, place->node, UNARY_FILL, 0, &index);
    numbers_initial(key_of_job(w, j->job), job->elements, &initial);
    u->req.number = j->serial;
    u->req.job = j->job;
    u->req.shard = part->shard;
    u->req.generation = j->fill.generation;
    u->req.fence.opening = place->opening;
    u->req.name = j->name;
    u->req.first = part->first;
    u->req.count = part->count;
    for (uint64_t i = 0; i < part->count; i++) {
        u->req.given.v[i] = initial.v[l->map[part->shard][part->first + i]];
    }
    unary_send(w, index);
}

void given_go_on(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    struct sim_fill *f = &j->fill;
    const uint32_t life = w->nodes[node].life;
    struct worker_fill_part part;
    if (!f->active) {
        return;
    }
    if (worker_fill_done(&f->core)) {
        worker_begin_core(w, node, f->generation);
        answer_all(w, j, 0, "");
        return;
    }
    while (worker_fill_next(&f->core, node_ms(w, node), &part)) {
        if (node_acts(w, node)) {
            node_kill(w, node);
            return;
        }
        send(w, node, &part);
    }
    uint64_t due_ms = worker_fill_timer(&f->core);
    if (due_ms != UINT64_MAX && w->nodes[node].life == life) {
        world_at(w, node_us_of(w, node, due_ms), EVENT_FILL_DUE, node, j->serial, 0);
    }
}

/* StartJob, once everything else is there. */
void given_start(struct world *w, uint32_t node, const struct mail *m)
{
    struct sim_worker_job *j = w->nodes[node].job;
    struct sim_fill *f = &j->fill;
    const struct unary_request *q = &w->unaries[m->index].req;
    const struct sim_layout *l = &w->jobs[j->job].layouts[q->planned];
    uint64_t elements[SIM_SHARDS_MAX];
    if (q->shard_count != l->shard_count) {
        violated(w, INVARIANT_ORDER, "StartJob of a job with given values says where %u shards are",
                 q->shard_count);
    }
    if (f->call_count == SIM_STARTS_KEPT) {
        unary_refuse(w, m->index, m->attempt, ERR_EXHAUSTED, "too many calls wait already");
        return;
    }
    f->generation = q->generation > f->generation ? q->generation : f->generation;
    memcpy(f->places, q->places, sizeof f->places);
    f->calls[f->call_count].unary = m->index;
    f->calls[f->call_count++].attempt = m->attempt;
    if (f->active) {
        return;
    }
    j->layout = l;
    for (uint32_t s = 0; s < l->shard_count; s++) {
        elements[s] = l->shard_elements[s];
    }
    f->active = true;
    f->since_us = w->now_us;
    worker_fill_init(&f->core, elements, l->shard_count,
                     1 + world_draw(w, "fill chunk", j->serial, 4));
    given_go_on(w, node);
}

void given_answered(struct world *w, uint32_t node, const struct mail *m)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct unary *u = &w->unaries[m->index];
    const struct unary_reply *r = &u->rsp[m->attempt];
    const uint32_t shard = u->req.shard;
    const int code = r->code;
    const uint64_t filled = r->filled;
    unary_unref(w, m->index);
    if (!j->fill.active) {
        return;
    }
    int rc = worker_fill_answered(&j->fill.core, shard, code, filled, node_ms(w, node));
    if (rc == ERR_ABORTED) { /* the master's to replace: it asks again, or starts the job anew */
        answer_all(w, j, ERR_UNAVAILABLE, "a shard is not there any more");
    } else if (rc != 0) {
        violated(w, INVARIANT_GIVEN, "shard %u does not take its initial values: %s", shard,
                 err_code_name(rc));
    } else {
        given_go_on(w, node);
    }
}

/* ---- the server ---- */

/* Somebody reads, trains or pins although nobody has told him to, yet: he gets nothing, and does
 * not wait for it either, because those who fill may never come. */
static void hurry(struct world *w, struct sim_shard *s, const struct shard_info *info)
{
    struct shard_event e = {
        .kind = SHARD_EXCHANGE, .generation = info->generation, .fence = s->fence, .worker = ""};
    struct shard_info after;
    switch (world_draw(w, "hurry", w->event_count, 4)) {
    case 0:
        e.kind = SHARD_PIN;
        e.pin_id = "early";
        break;
    case 1:
        e.ask = (struct exchange_request){.kind = EXCHANGE_ROWS, .rows = {.of = ROWS_OF_LATEST}};
        break;
    default:
        e.ask = (struct exchange_request){
            .kind = EXCHANGE_TRAIN,
            .has_pull = true,
            .pull = {.kind = PULL_VERSION, .version = info->version + (w->event_count & 1)}};
        break;
    }
    shard_step(s->core, &e, &s->actions);
    shard_info(s->core, &after);
    const struct shard_action *a = s->actions.items;
    if (s->actions.count != 1 || a->kind != SHARD_REPLY || a->code == 0 || after.parked > 0) {
        violated(w, INVARIANT_GIVEN, "shard %u, which has %llu of %u elements, answers who asks",
                 s->number, (unsigned long long)after.filled, s->elements);
    }
}

/* The same values for another opening, or of a generation that is over. */
static void misdirect(struct world *w, struct sim_shard *s, struct shard_event e)
{
    struct shard_info info;
    const struct sim_node *n = &w->nodes[s->node];
    shard_info(s->core, &info);
    if (w->quiet || info.filled == info.elements || world_draw(w, "hasty", w->event_count, 3) > 0) {
        return;
    }
    hurry(w, s, &info);
    e.tag = NULL;
    e.fence.opening++;
    shard_take(w, s, &e);
    e.fence.opening--;
    e.generation--;
    if (n->up) { /* it was not killed in the middle */
        shard_take(w, s, &e);
    }
}

void given_called(struct world *w, struct sim_shard *s, uint32_t unary, uint32_t attempt)
{
    const struct unary_request *q = &w->unaries[unary].req;
    const struct tensor values = q->given;
    const struct sim_node *n = &w->nodes[s->node];
    misdirect(w, s,
              (struct shard_event){.kind = SHARD_FILL,
                                   .generation = q->generation,
                                   .fence = {.opening = q->fence.opening},
                                   .first = q->first,
                                   .elements = q->count,
                                   .given = values.v});
    if (!n->up) {
        return; /* killed in the middle: who asked hears of it */
    }
    q = &w->unaries[unary].req;
    struct sim_request *r = request_new(w, s);
    r->unary = unary;
    r->attempt = attempt;
    struct shard_event e = {.kind = SHARD_FILL,
                            .generation = q->generation,
                            .fence = {.opening = q->fence.opening},
                            .tag = request_tag(w, r),
                            .worker = w->names[q->name],
                            .first = q->first,
                            .elements = q->count,
                            .given = values.v};
    shard_take(w, s, &e);
}

static uint32_t bits_of(uint64_t first, uint64_t count)
{
    return ((UINT32_C(1) << count) - 1) << first;
}

void given_put(struct world *w, struct sim_shard *s, const struct shard_action *a)
{
    struct snapshot_slot *present = &s->snapshots[s->present];
    const uint32_t bits = bits_of(a->first, a->count);
    struct tensor initial;
    if (a->first + a->count > s->elements || (s->has & bits) != 0 ||
        a->version != s->version_first || present->version != a->version ||
        s->previous != SIM_NONE) {
        violated(w, INVARIANT_GIVEN, "shard %u takes elements %llu+%llu at version %llu again",
                 s->number, (unsigned long long)a->first, (unsigned long long)a->count,
                 (unsigned long long)present->version);
    }
    memcpy(present->t.v + a->first, (const float *)a->given + a->skip, a->count * sizeof(float));
    s->has |= bits;
    if (!a->whole) {
        return;
    }
    given_check(w, s, "says that it is filled");
    numbers_initial(key_of_job(w, s->job), w->jobs[s->job].elements, &initial);
    for (uint32_t i = 0; i < s->elements; i++) {
        if (memcmp(&present->t.v[i], &initial.v[s->map[i]], sizeof(float)) != 0) {
            violated(w, INVARIANT_GIVEN, "element %u of shard %u begins with %a, not with %a", i,
                     s->number, (double)present->t.v[i], (double)initial.v[s->map[i]]);
        }
    }
}

void given_check(struct world *w, const struct sim_shard *s, const char *what)
{
    if (s->has != bits_of(0, s->elements)) {
        violated(w, INVARIANT_GIVEN, "shard %u %s, and has elements %x of %u", s->number, what,
                 s->has, s->elements);
    }
}

void given_open(struct sim_shard *s, bool given)
{
    s->has = given ? 0 : bits_of(0, s->elements);
    for (uint32_t i = 0; given && i < s->elements; i++) {
        s->snapshots[0].t.v[i] = 1e9F; /* whoever trains with it is far off */
    }
}
