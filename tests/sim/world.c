/* SPDX-License-Identifier: Apache-2.0 */
/* Time, processes, and the run of a schedule. */
#include "sim/sim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

#define EVENTS_MAX 400000            /* more is a livelock */
#define CLEAN_US (60 * SIM_S)        /* after the last job has ended */
#define CLEAN_LOOK_US (500 * SIM_MS) /* how often it is looked whether all is clean */

/* ---- the heap ---- */

static bool earlier(const struct event *a, const struct event *b)
{
    return a->us != b->us ? a->us < b->us : a->seq < b->seq;
}

static void heap_push(struct world *w, struct event e)
{
    w->heap = mem_grow(w->heap, &w->heap_capacity, w->heap_count + 1, sizeof *w->heap);
    size_t i = w->heap_count++;
    while (i > 0 && earlier(&e, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = e;
}

static struct event heap_pop(struct world *w)
{
    struct event top = w->heap[0];
    struct event last = w->heap[--w->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->heap_count) {
            break;
        }
        if (child + 1 < w->heap_count && earlier(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!earlier(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

void world_at(struct world *w, uint64_t us, enum event_kind kind, uint32_t node, uint32_t arg,
              uint32_t more)
{
    heap_push(w, (struct event){.us = us < w->now_us ? w->now_us : us,
                                .seq = w->seq++,
                                .kind = (uint8_t)kind,
                                .node = (uint8_t)node,
                                .life = w->nodes[node].life,
                                .arg = arg,
                                .more = more});
}

uint64_t world_draw(struct world *w, const char *what, uint64_t index, uint64_t n)
{
    return n == 0 ? 0 : rng_below(rng_key(w->key, what), index, n);
}

uint64_t world_takes(struct world *w, const char *what, uint64_t us)
{
    return w->schedule->knobs.even ? us : 1 + world_draw(w, what, w->serials++, us + 1);
}

/* ---- clocks and timers ---- */

uint64_t node_ms(const struct world *w, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    return (n->clock_offset_us + w->now_us * n->clock_rate / 1024) / SIM_MS;
}

/* The first moment at which the node's clock shows @ms. */
uint64_t node_us_of(const struct world *w, uint32_t node, uint64_t ms)
{
    const struct sim_node *n = &w->nodes[node];
    if (ms > UINT64_MAX / SIM_MS / 2048) {
        return UINT64_MAX;
    }
    uint64_t local = ms * SIM_MS;
    uint64_t us = local <= n->clock_offset_us
                      ? 0
                      : ((local - n->clock_offset_us) * 1024 + n->clock_rate - 1) / n->clock_rate;
    return us < w->now_us ? w->now_us : us;
}

/* One event of a timer is in the heap at most as often as it is set to an earlier time. */
void timer_set(struct world *w, uint32_t node, enum event_kind kind, uint32_t arg,
               struct sim_timer *t, uint64_t us)
{
    t->due_us = us;
    if (us != UINT64_MAX && us < t->queued_us) {
        t->queued_us = us;
        world_at(w, us, kind, node, arg, 0);
    }
}

/* False: it was set to a later time meanwhile, or cleared. */
static bool timer_due(struct world *w, const struct event *e, struct sim_timer *t)
{
    if (e->us != t->queued_us && t->queued_us > w->now_us) {
        return false; /* an earlier one has taken its place */
    }
    t->queued_us = UINT64_MAX;
    if (t->due_us > w->now_us) {
        timer_set(w, e->node, (enum event_kind)e->kind, e->arg, t, t->due_us);
        return false;
    }
    t->due_us = UINT64_MAX;
    return true;
}

/* ---- life of a world ---- */

struct world *world_new(void)
{
    struct world *w = mem_new(1, sizeof *w);
    w->disk = disk_new();
    for (uint32_t i = 0; i < SIM_NODES_MAX; i++) {
        w->nodes[i].job = mem_new(1, sizeof *w->nodes[i].job);
    }
    return w;
}

static void clear(struct world *w)
{
    rounds_drop(w);
    w->trace_last = 0;
    if (w->master != NULL) {
        master_free(w->master);
        w->master = NULL;
    }
    for (uint32_t i = 0; i < SIM_NODES_MAX; i++) {
        struct sim_node *n = &w->nodes[i];
        for (uint32_t k = 0; k < SIM_SHARDS_OF_PS; k++) {
            if (n->shards[k] != NULL) {
                shard_free(n->shards[k]->core);
                shard_actions_release(&n->shards[k]->actions);
                tables_close(w, n->shards[k]->tables);
                standby_release(n->shards[k]);
                free(n->shards[k]);
            }
        }
        worker_free(n->job->core);
        struct worker_actions actions = n->job->actions;
        struct sim_worker_job *job = n->job;
        memset(job, 0, offsetof(struct sim_worker_job, mail));
        job->actions = actions;
        job->actions.count = 0;
        memset(n, 0, sizeof *n);
        n->job = job;
    }
    budget_clear(w);
    standby_forget(w);
    w->gradients = NULL; /* those that died with a server are free again, too */
    for (struct gradient *g = w->all_gradients; g != NULL; g = g->all) {
        tables_gradient_free(g->tables);
        g->tables = NULL;
        g->next = w->gradients;
        w->gradients = g;
    }
    w->heap_count = 0;
    w->seq = 0;
    w->event_count = 0;
    w->now_us = 0;
    w->quiet = false;
    w->ended = false;
    w->unary_count = 0;
    w->unary_free = SIM_NONE;
    w->stream_count = 0;
    w->exchange_count = 0;
    w->exchange_free = SIM_NONE;
    w->request_count = 0;
    w->request_free = SIM_NONE;
    w->name_count = 1;
    w->node_count = 0;
    w->client_request = 0;
    w->again_us = 0;
    w->drains = w->departures = 0;
    w->troubles = 0;
    w->submits = 0;
    w->serials = 0;
    w->inlet_serials = 0;
    w->moves = 0;
    w->answers = 0;
    w->rows_asked = 0;
    memset(&w->follow, 0, sizeof w->follow);
    w->broken = INVARIANT_NONE;
    memset(w->blocked_until, 0, sizeof w->blocked_until);
    w->rows_full_us = w->full_us = w->gone_us = w->pins_us = w->tests_us = 0;
    w->row_count = 0;
    memset(w->jobs, 0, sizeof w->jobs);
    rows_forget(w);
    w->table_draws = 0;
    disk_clear(w->disk);
}

void world_free(struct world *w)
{
    clear(w);
    for (uint32_t i = 0; i < SIM_NODES_MAX; i++) {
        worker_actions_release(&w->nodes[i].job->actions);
        rows_release(w->nodes[i].job);
        free(w->nodes[i].job);
    }
    standby_forget(w);
    while (w->all_gradients != NULL) {
        struct gradient *g = w->all_gradients;
        w->all_gradients = g->all;
        free(g);
    }
    budget_free(w);
    rows_free(w);
    master_actions_release(&w->actions);
    disk_free(w->disk);
    free(w->heap);
    free(w->unaries);
    free(w->streams);
    free(w->exchanges);
    free(w->requests);
    free(w);
}

static void make_nodes(struct world *w)
{
    const struct sim_schedule *s = w->schedule;
    w->node_count = 1 + s->ps_count + s->worker_count + s->spare_count;
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct sim_node *n = &w->nodes[i];
        n->role = i == 0 ? ROLE_MASTER : i <= s->ps_count ? ROLE_PS : ROLE_WORKER;
        n->slow = 1;
        n->clock_rate = 1024;
        n->clock_offset_us = 1000 * SIM_S;
        if (s->knobs.skew) {
            n->clock_rate = 922 + world_draw(w, "rate", i, 205);
            n->clock_offset_us += world_draw(w, "offset", i, 500 * SIM_S);
        }
    }
    for (uint32_t i = 0; i < 1 + s->ps_count + s->worker_count; i++) {
        node_start(w, i);
    }
}

static void prepare(struct world *w)
{
    const struct sim_schedule *s = w->schedule;
    w->key = rng_key(s->seed, "world");
    make_nodes(w);
    for (uint32_t i = 0; i < s->fault_count; i++) {
        if (!s->faults[i].off) {
            world_at(w, s->faults[i].at_us, EVENT_FAULT, 0, i, 0);
        }
    }
    for (uint32_t i = 0; i < s->job_count; i++) {
        world_at(w, s->jobs[i].submit_us, EVENT_SUBMIT, 0, i, 0);
    }
    world_at(w, s->quiet_us, EVENT_QUIET, 0, 0, 0);
    followers_begin(w);
}

/* A timer or a thread of a process that is no more. */
static bool is_stale(const struct world *w, const struct event *e)
{
    switch ((enum event_kind)e->kind) {
    case EVENT_MASTER_TIMER:
    case EVENT_WORKER_TIMER:
    case EVENT_MEMBER_TIMER:
    case EVENT_COMPUTED:
    case EVENT_OPENED:
    case EVENT_READER:
    case EVENT_READ:
    case EVENT_ROOM:
    case EVENT_TAKEN:
    case EVENT_RECORD_DUE:
    case EVENT_ROWS_DUE:
    case EVENT_FILL_DUE:
    case EVENT_SAY:
        return e->life != w->nodes[e->node].life;
    default:
        return false; /* messages and files look for themselves */
    }
}

static void dispatch(struct world *w, const struct event *e)
{
    struct sim_node *n = &w->nodes[e->node];
    if (is_stale(w, e)) {
        return;
    }
    switch ((enum event_kind)e->kind) {
    case EVENT_REQUEST:
        on_request(w, e);
        break;
    case EVENT_REPLY:
        on_reply(w, e);
        break;
    case EVENT_EXCHANGE:
        on_exchange(w, e);
        break;
    case EVENT_ANSWER:
        on_answer(w, e);
        break;
    case EVENT_BROKEN:
        on_broken(w, e);
        break;
    case EVENT_GONE:
        on_gone(w, e);
        break;
    case EVENT_MASTER_TIMER:
        if (timer_due(w, e, &w->master_timer)) {
            master_tick(w);
        }
        break;
    case EVENT_WORKER_TIMER:
        if (n->job->serial == e->arg && timer_due(w, e, &n->job->timer)) {
            worker_timer(w, e->node);
        }
        break;
    case EVENT_MEMBER_TIMER:
        if (timer_due(w, e, &n->member_timer)) {
            member_timer(w, e->node);
        }
        break;
    case EVENT_COMPUTED:
        worker_computed(w, e->node, e->arg);
        break;
    case EVENT_OPENED:
        ps_open(w, e->node, e->arg >> 2, e->arg & 3);
        break;
    case EVENT_FILE:
        on_file(w, e);
        break;
    case EVENT_READER:
        ps_reader(w, e);
        break;
    case EVENT_READ:
        follower_asks(w, e->node, e->arg, e->more);
        break;
    case EVENT_ROOM:
        budget_tell(w, e->node);
        break;
    case EVENT_TAKEN:
        budget_taken(w, e);
        break;
    case EVENT_RECORD_DUE:
        if (n->job->there && n->job->serial == e->arg) {
            worker_record_due(w, e->node, e->more);
        }
        break;
    case EVENT_ROWS_DUE:
        rows_due(w, e->node, e->arg, e->more);
        break;
    case EVENT_FILL_DUE:
        worker_fill_due(w, e->node, e->arg);
        break;
    case EVENT_SAY:
        standby_say_again(w, e->node, e->arg);
        break;
    case EVENT_FAULT:
    case EVENT_FAULT_END:
    case EVENT_SUBMIT:
    case EVENT_QUIET:
    case EVENT_REFUSED:
    case EVENT_TRACE_DUE:
    case EVENT_UNPAUSE:
    case EVENT_AGAIN:
    case EVENT_DRAIN:
    case EVENT_DEPART:
    case EVENT_FOLLOW:
        break; /* of the world: below */
    }
}

/* What happens to the world, whatever the nodes do. */
static bool dispatch_world(struct world *w, const struct event *e)
{
    switch ((enum event_kind)e->kind) {
    case EVENT_FAULT:
        fault_begin(w, e->arg);
        return true;
    case EVENT_FAULT_END:
        fault_end(w, e->arg);
        return true;
    case EVENT_SUBMIT:
        master_submit(w, e->arg);
        return true;
    case EVENT_QUIET:
        faults_stop(w);
        return true;
    case EVENT_REFUSED:
        master_refused(w, e->arg, e->more != 0);
        return true;
    case EVENT_TRACE_DUE:
        rounds_check_due(w, e->arg);
        return true;
    case EVENT_UNPAUSE:
        check_unpause(w, e->arg);
        return true;
    case EVENT_AGAIN:
        again_ask(w, e->arg);
        return true;
    case EVENT_DRAIN:
        drain_ask(w, e->arg);
        return true;
    case EVENT_DEPART:
        departure_goes_on(w, e->arg, e->more);
        return true;
    case EVENT_FOLLOW:
        follower_turn(w, e->arg, e->more);
        return true;
    default:
        return false;
    }
}

/* All jobs are over: whatever is wrong comes to an end, and then everything must be put away. */
static bool is_over(struct world *w)
{
    for (uint32_t i = 0; i < w->schedule->job_count; i++) {
        if (!job_state_is_final(w->jobs[i].state) || w->jobs[i].again.due) {
            return false;
        }
    }
    return true;
}

/* What came to a node that stood still lies there until its time is over. */
static uint64_t all_go_on_us(const struct world *w)
{
    uint64_t us = w->now_us;
    for (uint32_t i = 0; i < w->node_count; i++) {
        uint64_t resume_us = w->nodes[i].resume_us;
        us = resume_us != UINT64_MAX && resume_us > us ? resume_us : us;
    }
    return us;
}

/* The last time that anything went wrong, or a job was taken up again. */
static uint64_t last_us(const struct world *w)
{
    return w->again_us > w->schedule->quiet_us ? w->again_us : w->schedule->quiet_us;
}

static bool is_clean(const struct world *w)
{
    for (uint32_t i = 1; i < w->node_count; i++) {
        const struct sim_node *n = &w->nodes[i];
        if (n->job->there && !n->frozen) {
            return false;
        }
        for (uint32_t k = 0; k < SIM_SHARDS_OF_PS; k++) {
            if (n->shards[k] != NULL && n->shards[k]->open) {
                return false;
            }
        }
    }
    return trace_open(w) == NULL;
}

/* Whoever copies slots does nothing else for the shards meanwhile; in order, later. Backups of
 * others have strands of their own. */
static uint64_t waits_until(const struct world *w, const struct event *e)
{
    if (e->kind == EVENT_REQUEST && w->unaries[e->arg >> 2].kind == UNARY_RECORD) {
        return 0;
    }
    bool of_shards = e->kind == EVENT_REQUEST || e->kind == EVENT_EXCHANGE ||
                     e->kind == EVENT_GONE || e->kind == EVENT_READER || e->kind == EVENT_READ ||
                     e->kind == EVENT_TAKEN;
    return of_shards ? w->nodes[e->node].copied_us : 0;
}

#define SILENT_US (2700 * SIM_MS) /* the time-out is 3 s, by a clock that may be a tenth fast */

/* It is at the master's machine, whether or not the master runs. */
static void note_beat(struct world *w, const struct event *e)
{
    if (e->kind == EVENT_REQUEST && e->node == 0) {
        const struct unary *u = &w->unaries[e->arg >> 2];
        if (u->kind == UNARY_HEARTBEAT && u->req.incarnation == w->nodes[u->from].incarnation) {
            struct sim_node *n = &w->nodes[u->from];
            check_waited(w, u->from);
            n->heard_us = w->now_us - n->beat_us > SILENT_US ? w->now_us : n->heard_us;
            n->beat_us = w->now_us;
            n->beat_name = u->req.name;
        }
    }
}

/* A scenario looks at what has just happened, and does what is due before the next event. */
static void look(struct world *w)
{
    if (w->look == NULL) {
        return;
    }
    w->look(w);
    while (w->heap_count > 0 && w->look_us <= w->heap[0].us) {
        w->now_us = w->look_us;
        w->look(w);
    }
}

static void run(struct world *w)
{
    uint64_t look_us = 0;
    prepare(w);
    for (;;) {
        look(w);
        if (w->heap_count == 0 || ++w->event_count > EVENTS_MAX) {
            violated(w, INVARIANT_LIVE, "%s at %llu ms",
                     w->heap_count == 0 ? "nothing is left to do" : "endless events",
                     (unsigned long long)(w->now_us / SIM_MS));
        }
        struct event e = heap_pop(w);
        w->now_us = e.us;
        if (dispatch_world(w, &e)) {
            continue;
        }
        struct sim_node *n = &w->nodes[e.node];
        uint64_t until_us = waits_until(w, &e);
        note_beat(w, &e);
        if (n->paused || until_us > w->now_us) {
            until_us = n->paused ? n->resume_us : until_us;
            heap_push(w, (struct event){until_us, w->seq++, e.kind, e.node, e.life, e.arg, e.more});
            continue;
        }
        dispatch(w, &e);
        if (w->ended) {
            if (w->now_us >= look_us) {
                look_us = w->now_us + CLEAN_LOOK_US;
                if (is_clean(w) && !w->look_waits) {
                    return;
                }
                if (w->now_us > w->ended_us + CLEAN_US && !w->look_waits) {
                    check_clean(w);
                }
            }
        } else if (is_over(w)) {
            faults_stop(w);
            w->ended = true;
            w->ended_us = all_go_on_us(w);
        } else if (w->quiet && w->now_us > last_us(w) + w->schedule->live_us) {
            world_check_end(w);
        }
    }
}

void world_check_end(struct world *w)
{
    for (uint32_t i = 0; i < w->schedule->job_count; i++) {
        struct sim_job *j = &w->jobs[i];
        if (!job_state_is_final(j->state) || j->again.due) {
            violated(w, INVARIANT_LIVE, "%s is %s (%s/%s) %llu s after the last fault: %s", j->id,
                     job_state_name(j->state),
                     w->master == NULL ? "-" : master_job_phase(w->master, j->id),
                     w->master == NULL ? "-" : master_job_work(w->master, j->id),
                     (unsigned long long)(w->schedule->live_us / SIM_S), j->reason);
        }
    }
}

bool world_run(struct world *w, const struct sim_schedule *schedule, bool tracing)
{
    sigjmp_buf escape;
    clear(w);
    w->schedule = schedule;
    w->steady = schedule_is_steady(schedule);
    w->tracing = tracing;
    w->escape = &escape;
    if (sigsetjmp(escape, 1) == 0) {
        run(w);
        for (uint32_t i = 0; i < schedule->job_count; i++) {
            check_job_end(w, i);
        }
    }
    w->escape = NULL;
    w->counts.events += w->event_count;
    for (uint32_t i = 0; i < schedule->job_count; i++) {
        w->counts.states[w->jobs[i].state]++;
    }
    if (w->broken != INVARIANT_NONE) {
        TRACE(w, 0, "VIOLATED %s: %s", sim_invariant_names[w->broken], w->why);
    }
    return w->broken == INVARIANT_NONE;
}
