/* SPDX-License-Identifier: Apache-2.0 */
/* A node's place in the cluster: membership_core with the calls of common/service/membership.c. */
#include "sim/sim.h"

#include <string.h>

#define CALL_TIMEOUT_MS 2000
#define LEFTOVER_BEATS_MAX 3     /* one of them came too early to say anything */
#define MOMENT_US (500 * SIM_MS) /* what takes no longer is not told */

static void hold(struct unary_request *q, uint32_t job, uint64_t generation, uint64_t opening)
{
    q->held[q->held_count].job = job;
    q->held[q->held_count].generation = generation;
    q->held[q->held_count++].opening = opening;
}

static void fill_held(const struct world *w, uint32_t node, struct unary_request *q)
{
    const struct sim_node *n = &w->nodes[node];
    if (n->role == ROLE_WORKER && n->job->there) {
        hold(q, n->job->job, n->job->taken, n->job->held.start);
    }
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
        if (n->shards[i] != NULL && n->shards[i]->open) {
            hold(q, n->shards[i]->job, 0, n->shards[i]->fence.opening);
            standby_tell(w, n->shards[i], q);
        }
    }
}

static void add_work(const struct world *w, struct unary_request *q, uint32_t job, const char *what,
                     uint64_t since_us, uint64_t until_us, bool measured)
{
    uint64_t age_us = w->now_us - since_us;
    if (age_us < MOMENT_US) {
        return;
    }
    q->works[q->work_count].job = job;
    q->works[q->work_count].what = what;
    q->works[q->work_count].done = measured ? age_us : 0;
    q->works[q->work_count].total = measured ? until_us - since_us : 0;
    q->works[q->work_count++].age_ms = age_us / SIM_MS;
}

static void fill_works(const struct world *w, uint32_t node, struct unary_request *q)
{
    const struct sim_node *n = &w->nodes[node];
    const struct sim_worker_job *j = n->job;
    if (n->role == ROLE_WORKER && j->there) {
        if (j->busy) {
            const char *what = j->has_loading                            ? "StartJob"
                               : j->computing.kind == WORKER_DO_EVALUATE ? "Evaluate"
                                                                         : "step";
            add_work(w, q, j->job, what, j->busy_us, 0, false);
        }
        if (j->fill.active) {
            add_work(w, q, j->job, "StartJob", j->fill.since_us, 0, false);
        }
        for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
            if (j->calls[i].tag != 0) { /* an evaluation, which may wait for a server */
                add_work(w, q, j->job, "Evaluate", w->now_us - MOMENT_US, 0, false);
                break;
            }
        }
    }
    if (n->file_free_us > w->now_us) {
        add_work(w, q, n->file_job, "Checkpoint", n->file_us, 0, false);
    }
    if (n->open_free_us > w->now_us) {
        add_work(w, q, n->open_job, "OpenShard", n->open_us, 0, false);
    }
    if (n->copied_us > w->now_us) {
        add_work(w, q, n->copy_job, "Pin", n->copy_us, n->copied_us, true);
    }
}

static void drop_all(struct world *w, uint32_t node)
{
    if (w->nodes[node].role == ROLE_PS) {
        ps_drop(w, node, SIM_NONE);
    } else {
        worker_drop(w, node, SIM_NONE);
    }
}

/* The answer of a heartbeat names @job, which was named without an opening. */
static void drop_job(struct world *w, uint32_t node, uint32_t job)
{
    const struct sim_worker_job *j = w->nodes[node].job;
    if (w->nodes[node].role == ROLE_PS) {
        ps_drop(w, node, job);
    } else if (j->there && worker_drop_decide(&j->held, 0)) {
        worker_drop(w, node, job);
    }
}

static void drop_opening(struct world *w, uint32_t node, uint64_t opening)
{
    const struct sim_worker_job *j = w->nodes[node].job;
    if (w->nodes[node].role == ROLE_PS) {
        ps_drop_opening(w, node, opening);
    } else if (j->there && worker_drop_decide(&j->held, opening)) {
        TRACE(w, node, "is told by a heartbeat to drop start %llx", (unsigned long long)opening);
        worker_drop(w, node, SIM_NONE);
    }
}

static void call(struct world *w, uint32_t node, enum membership_call kind)
{
    static const enum unary_kind KINDS[] = {[MEMBERSHIP_JOIN] = UNARY_JOIN,
                                            [MEMBERSHIP_HEARTBEAT] = UNARY_HEARTBEAT,
                                            [MEMBERSHIP_LEAVE] = UNARY_LEAVE};
    struct sim_node *n = &w->nodes[node];
    uint32_t index;
    struct unary *u = unary_new(w, node, 0, KINDS[kind], CALL_TIMEOUT_MS, &index);
    u->req.name = n->name;
    u->req.incarnation = n->incarnation;
    u->req.membership_call = n->member.call;
    if (kind == MEMBERSHIP_HEARTBEAT) {
        u->req.leaves = departure_waits(n);
        fill_held(w, node, &u->req);
        fill_works(w, node, &u->req);
    }
    unary_send(w, index);
}

static void step(struct world *w, uint32_t node, struct membership_event *e,
                 const struct unary_reply *r)
{
    struct sim_node *n = &w->nodes[node];
    struct membership_actions todo;
    e->now_ms = node_ms(w, node);
    membership_step(&n->member, e, &todo);
    if (todo.lost) {
        TRACE(w, node, "is not known to the master any more");
        n->name = 0;
        drop_all(w, node);
    }
    if (todo.joined) {
        n->name = r->name;
        TRACE(w, node, "is %s", w->names[n->name]);
    }
    if (todo.call != MEMBERSHIP_NO_CALL) {
        call(w, node, todo.call);
    }
    if (todo.timer_ms != 0) {
        timer_set(w, node, EVENT_MEMBER_TIMER, 0, &n->member_timer,
                  node_us_of(w, node, todo.timer_ms));
    }
    if (todo.left) {
        node_kill(w, node);
    }
}

void member_begin(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    memset(&n->member, 0, sizeof n->member);
    n->member.seed = n->incarnation;
    n->member_timer = SIM_TIMER_NONE;
    member_timer(w, node);
}

void member_timer(struct world *w, uint32_t node)
{
    struct membership_event e = {.kind = MEMBERSHIP_ON_TIMER};
    step(w, node, &e, NULL);
}

/* Sooner or later a shard of an earlier start, which nobody asks for anything, is closed. */
static void check_leftovers(struct world *w, uint32_t node, const struct unary_request *q)
{
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
        struct sim_shard *s = w->nodes[node].shards[i];
        bool named = false;
        for (uint32_t k = 0; k < q->held_count && s != NULL; k++) {
            named = named || q->held[k].opening == s->fence.opening;
        }
        if (s == NULL || !named || s->fence.opening == w->jobs[s->job].opening ||
            standby_is_known(w, s)) {
            continue;
        }
        if (++s->leftover_beats > LEFTOVER_BEATS_MAX) {
            violated(w, INVARIANT_CLEAN, "server n%u keeps a shard of an earlier start of %s", node,
                     w->jobs[s->job].id);
        }
    }
}

void member_answer(struct world *w, uint32_t node, const struct unary *u,
                   const struct unary_reply *r)
{
    struct sim_node *n = &w->nodes[node];
    struct membership_event e = {.kind = MEMBERSHIP_ON_ANSWER,
                                 .call = u->req.membership_call,
                                 .code = r->code,
                                 .interval_ms = w->schedule->knobs.beat_ms};
    bool heartbeat = u->kind == UNARY_HEARTBEAT && r->code == 0;
    e.interval_ms = e.interval_ms > 0 ? e.interval_ms : SIM_HEARTBEAT_TIMEOUT_MS / 5;
    const struct unary_reply stop = *r;
    const struct unary_request asked = u->req;
    uint32_t life = n->life;
    step(w, node, &e, r);
    if (n->life == life && asked.leaves) {
        departure_heard(w, node, stop.code, stop.moves);
    }
    if (!heartbeat || n->life != life || n->member.state != MEMBERSHIP_IN) {
        return;
    }
    for (uint32_t job = 0; job < SIM_JOBS_MAX; job++) {
        if ((stop.stop_jobs >> job & 1u) != 0) {
            TRACE(w, node, "is told by a heartbeat to drop %s", w->jobs[job].id);
            drop_job(w, node, job);
        }
    }
    check_leftovers(w, node, &asked);
    for (uint32_t i = 0; i < stop.stop_opening_count && n->life == life; i++) {
        drop_opening(w, node, stop.stop_openings[i]);
    }
}

void member_hurry(struct world *w, uint32_t node)
{
    struct membership_event e = {.kind = MEMBERSHIP_ON_HURRY};
    step(w, node, &e, NULL);
}

void member_leave(struct world *w, uint32_t node)
{
    struct membership_event e = {.kind = MEMBERSHIP_ON_LEAVE};
    step(w, node, &e, NULL);
}
