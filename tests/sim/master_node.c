/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of the master: requests become events, actions become messages, rows and files. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/release.h"
#include "base/rng.h"

#define PATIENT_MS 100000000
#define PARK_MARGIN_MS 300

uint32_t job_index(struct world *w, const char *id)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        if (w->jobs[i].submitted && strcmp(w->jobs[i].id, id) == 0) {
            return i;
        }
    }
    violated(w, INVARIANT_ORDER, "the master speaks of job '%s', which nobody submitted", id);
}

static void call(struct world *w, const struct master_call *c)
{
    uint32_t to = node_at(w, c->address);
    uint32_t index;
    struct unary *u = unary_new(w, 0, to, UNARY_CALL, 0, &index);
    master_call_fill(w, &u->req, c);
    struct sim_job *j = &w->jobs[u->req.job];
    const bool begins = c->kind == MASTER_CALL_OPEN && !c->standby.joins;
    if (begins) {
        check_resumed_open(w, u->req.job, c);
    }
    if (begins && c->generation > j->opened && !c->standby.is_backup) {
        j->opening = c->fence.opening;
        j->opened = c->generation;
        memset(j->granted, 0, sizeof j->granted);
    }
    if (c->kind == MASTER_CALL_INSPECT || c->kind == MASTER_CALL_START) {
        check_worker_given(w, u->req.job, to);
    }
    standby_called(j, c);
    if (c->kind == MASTER_CALL_ASSIGN) {
        for (size_t i = 0; i < c->lease_count; i++) {
            check_lease(w, u->req.job, name_of(w, c->node), c->generation, &c->leases[i]);
        }
    }
    /* its shards are there: it runs until it has been paused */
    bool adopted = disk_row(w, u->req.job)->handover.opening == c->fence.opening;
    if (j->paused && !adopted && (c->kind == MASTER_CALL_INSPECT || begins)) {
        violated(w, INVARIANT_PAUSED, "%s is paused, and begins", j->id);
    }
    if (c->kind != MASTER_CALL_INSPECT) {
        check_generation(w, u->req.job, c->generation);
    }
    if (begins && c->restore[0] == '\0' && disk_row(w, u->req.job)->checkpoint[0] != '\0') {
        violated(w, INVARIANT_ANEW, "%s begins anew, and has %s", j->id,
                 disk_row(w, u->req.job)->checkpoint);
    }
    unary_send(w, index);
}

/* ---- answers to nodes and clients ---- */

static void answer_client(struct world *w, const struct master_reply *r)
{
    uint64_t what = r->request - CLIENT_REQUEST;
    TRACE(w, 0, "answers the client's request %u: %s%s%s", (unsigned)(what & 0xffffff),
          r->err.code == 0 ? "ok" : err_code_name(r->err.code), r->err.code == 0 ? "" : ", ",
          r->err.code == 0 ? "" : r->err.msg);
    eras_answered(w, r);
    drain_answered(w, r);
    if (r->job != NULL) {
        check_record(w, r->job);
    }
    again_answered(w, r);
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        struct sim_job *j = &w->jobs[i];
        if (j->pausing && j->pause_request == r->request) {
            j->paused = r->err.code == 0;
            j->pausing = j->paused || r->err.code == ERR_UNAVAILABLE; /* done, but not stored */
        } else if (j->pausing && j->resume_request == r->request) {
            j->pausing = r->err.code == ERR_UNAVAILABLE;
        }
    }
}

static void answer(struct world *w, const struct master_reply *r)
{
    if (r->request >= CLIENT_REQUEST) {
        answer_client(w, r);
        return;
    }
    uint32_t index = (uint32_t)(r->request >> 2 & 0xffffff);
    uint32_t attempt = (uint32_t)(r->request & 3);
    struct unary *u = &w->unaries[index];
    if (u->serial != r->request >> 26 || u->served_life[attempt] != w->nodes[0].life) {
        violated(w, INVARIANT_ANSWER,
                 "the master answers a request twice, or one that it was "
                 "not asked");
    }
    struct unary_reply *out = unary_reply(w, index, attempt);
    out->code = r->err.code;
    if (r->err.code != 0) {
        snprintf(out->message, sizeof out->message, "%.150s", r->err.msg);
    }
    out->name = r->node == NULL || r->err.code != 0 ? 0 : name_of(w, r->node);
    for (size_t i = 0; i < r->stop_job_count; i++) {
        out->stop_jobs |= 1u << job_index(w, r->stop_jobs[i]);
    }
    out->stop_opening_count = (uint32_t)r->stop_opening_count;
    for (size_t i = 0; i < r->stop_opening_count; i++) {
        out->stop_openings[i] = r->stop_openings[i];
    }
    out->lease_kind = r->lease_kind;
    out->lease = r->lease;
    if (u->kind == UNARY_LEASE && r->err.code == 0 && r->lease_kind == MASTER_LEASE_GRANTED) {
        check_lease(w, u->req.job, u->req.name, u->req.generation, &r->lease);
    }
    if (u->kind == UNARY_HEARTBEAT && r->err.code == 0 && r->unready == NULL) {
        standby_told_ready(w, u->req.name);
    }
    if (u->req.leaves && r->err.code == 0) {
        out->moves = r->moves;
        departure_told(w, u, r->moves);
    }
    unary_answer(w, index, attempt);
}

/* ---- events ---- */

static void store(struct world *w, const struct master_store *s)
{
    struct sim_store_row *row = &w->rows[w->row_count++];
    if (w->row_count > SIM_ROWS_MAX) {
        violated(w, INVARIANT_ORDER, "more than %d rows in one step", SIM_ROWS_MAX);
    }
    *row = (struct sim_store_row){.job = job_index(w, s->job->id), .row = s->row};
    row->failed = !disk_store(w, s->job);
    if (!row->failed) {
        w->jobs[row->job].named = s->job->checkpoint[0] != '\0';
        eras_stored(w, row->job, s->job);
    }
}

static void act(struct world *w)
{
    for (size_t i = 0; i < w->actions.count; i++) {
        const struct master_action *a = &w->actions.items[i];
        if (a->kind != MASTER_LOG && a->kind != MASTER_CHANGED && node_acts(w, 0)) {
            node_kill(w, 0);
            return;
        }
        switch (a->kind) {
        case MASTER_REPLY:
            answer(w, &a->reply);
            break;
        case MASTER_CALL:
            call(w, &a->call);
            break;
        case MASTER_PREPARE:
            disk_prepare(w, &a->prepare);
            break;
        case MASTER_MANIFEST:
            disk_manifest(w, &a->manifest);
            break;
        case MASTER_FIND:
            disk_find(w, &a->find);
            break;
        case MASTER_PRUNE:
            disk_prune(w, &a->prune);
            break;
        case MASTER_STORE:
            store(w, &a->store);
            break;
        case MASTER_CHANGED:
            check_record(w, a->job);
            break;
        case MASTER_LOG:
            TRACE(w, 0, "%s %s", a->log.event, a->log.text);
            check_stop_log(w, a->log.event, a->log.text);
            drain_logged(w, a->log.event, a->log.text);
            departure_logged(w, a->log.event, a->log.text);
            if (strcmp(a->log.event, "node_lost") == 0) {
                check_lost(w, a->log.text);
            }
            if (strcmp(a->log.event, "job_state") == 0) {
                check_patience(w, a->log.text);
            }
            if (strcmp(a->log.event, "job_moves") == 0) {
                check_moves_log(w, a->log.text);
            }
            if (strcmp(a->log.event, "job_preempted") == 0) {
                check_preempted(w, a->log.text);
            }
            if (strcmp(a->log.event, "job_state_refused") == 0) {
                violated(w, INVARIANT_STATE, "%s", a->log.text);
            }
            break;
        }
    }
}

static void step(struct world *w, struct master_event *e)
{
    e->now_ms = node_ms(w, 0);
    e->wall_ms = (int64_t)e->now_ms;
    master_step(w->master, e, &w->actions);
    act(w);
    check_fair(w);
    drain_check(w);
    departure_check(w);
    if (w->master != NULL) {
        check_wanted(w);
    }
}

void master_event(struct world *w, struct master_event *e)
{
    step(w, e);
    for (uint32_t i = 0; i < w->row_count && w->master != NULL; i++) {
        struct sim_store_row row = w->rows[i];
        struct err err = {0};
        err_set(&err, ERR_EXHAUSTED, "disk full");
        struct master_event stored = {.kind = MASTER_STORED};
        stored.stored =
            (struct master_stored){w->jobs[row.job].id, row.row, row.failed ? &err : NULL};
        step(w, &stored);
    }
    w->row_count = 0;
    if (w->master == NULL) {
        return;
    }
    uint64_t timer_ms = w->actions.timer_ms;
    timer_set(w, 0, EVENT_MASTER_TIMER, 0, &w->master_timer,
              timer_ms == UINT64_MAX ? UINT64_MAX : node_us_of(w, 0, timer_ms));
}

void master_tick(struct world *w)
{
    struct master_event e = {.kind = MASTER_TICK};
    master_event(w, &e);
}

/* Unless somebody listens there again. */
void master_refused(struct world *w, uint32_t node, bool broken)
{
    const struct sim_node *n = &w->nodes[node];
    if (w->master == NULL || w->nodes[0].paused || n->up || n->dead_name == 0) {
        return;
    }
    struct master_event e = {.kind = MASTER_UNREACHABLE};
    e.node = (struct master_node_event){.node = w->names[n->dead_name],
                                        .incarnation = n->dead_incarnation,
                                        .broken_ms = broken ? node_ms(w, 0) : 0};
    TRACE(w, 0, "finds nobody at %s", w->names[n->dead_name]);
    master_event(w, &e);
}

void master_begin(struct world *w)
{
    bool patient = schedule_freezes(w->schedule);
    w->master = master_new(&(struct master_config){
        .heartbeat_timeout_ms = patient ? PATIENT_MS : SIM_HEARTBEAT_TIMEOUT_MS,
        .heartbeat_interval_ms = patient ? 0 : w->schedule->knobs.beat_ms,
        .ps_timeout_ms = w->schedule->knobs.ps_timeout_ms,
        .jobs_max = 16,
        .finished_max = 100,
        .owner_running_max = w->schedule->fair.running_max,
        .owner_workers_max = w->schedule->fair.workers_max,
        .owner_ps_memory_max = w->schedule->fair.memory_max,
        .preemption = w->schedule->fair.preemption,
        .preempt_after_ms = w->schedule->fair.preempt_after_ms,
        .seeds = {rng_key_mix(w->key, 5000 + w->nodes[0].life),
                  rng_key_mix(w->key, 6000 + w->nodes[0].life),
                  rng_key_mix(w->key, 7000 + w->nodes[0].life)}});
    w->master_timer = SIM_TIMER_NONE;
    disk_restore(w);
}

void master_end(struct world *w)
{
    rounds_drop(w);
    master_free(w->master);
    w->master = NULL;
    w->actions.count = 0;
}

static void fill_join(struct world *w, const struct unary *u, struct master_event *e,
                      char address[16])
{
    const struct sim_node *n = &w->nodes[u->from];
    snprintf(address, 16, "n%u", u->from);
    e->kind = MASTER_JOIN;
    e->join = (struct master_join_event){
        .role = n->role == ROLE_PS ? MASTER_PS : MASTER_WORKER,
        .incarnation = u->req.incarnation,
        .name = "",
        .address = address,
        .http_address = "",
        .version = release_version(),
        .protocol = RELEASE_PROTOCOL,
        .host = "host",
        .pid = u->from,
    };
}

static size_t fill_epochs(const struct unary_request *q, struct master_epoch_progress *out,
                          double sums[][8])
{
    for (uint32_t i = 0; i < q->epoch_count; i++) {
        struct metrics m;
        metrics_init(&m, 1u << METRIC_LOSS | 1u << METRIC_ACCURACY);
        m.examples = q->epochs[i].examples;
        m.weight = (double)m.examples;
        m.loss_sum = (double)m.examples;
        size_t count = metrics_pack(&m, sums[i]);
        metrics_release(&m);
        out[i] = (struct master_epoch_progress){q->epochs[i].epoch, q->epochs[i].batches,
                                                q->epochs[i].examples, sums[i], count};
    }
    return q->epoch_count;
}

void master_called(struct world *w, uint32_t index, uint32_t attempt)
{
    static const enum master_event_kind KINDS[UNARY_KIND_COUNT] = {
        [UNARY_JOIN] = MASTER_JOIN,
        [UNARY_HEARTBEAT] = MASTER_HEARTBEAT,
        [UNARY_LEAVE] = MASTER_LEAVE,
        [UNARY_LEASE] = MASTER_LEASE_SPLIT,
        [UNARY_REPORT_SPLIT] = MASTER_REPORT_SPLIT,
        [UNARY_REPORT_PROGRESS] = MASTER_REPORT_PROGRESS,
        [UNARY_REPORT_FAILURE] = MASTER_REPORT_FAILURE,
    };
    struct unary *u = &w->unaries[index];
    const struct unary_request *q = &u->req;
    struct master_event e = {.kind = KINDS[u->kind],
                             .request = (uint64_t)u->serial << 26 | (uint64_t)index << 2 | attempt};
    char address[16];
    const char *jobs[SIM_SHARDS_OF_PS];
    uint64_t generations[SIM_SHARDS_OF_PS], openings[SIM_SHARDS_OF_PS];
    struct master_standby_said standbys[SIM_SHARDS_OF_PS];
    struct master_work works[SIM_WORKS_MAX];
    struct master_epoch_progress epochs[SIM_EPOCHS_MAX];
    double sums[SIM_EPOCHS_MAX][8];
    if (u->kind == UNARY_JOIN) {
        fill_join(w, u, &e, address);
    } else if (u->kind == UNARY_HEARTBEAT || u->kind == UNARY_LEAVE) {
        e.node = (struct master_node_event){.node = w->names[q->name],
                                            .incarnation = q->incarnation,
                                            .jobs = jobs,
                                            .generations = generations,
                                            .openings = openings,
                                            .standbys = standbys,
                                            .leaves = q->leaves,
                                            .job_count = q->held_count,
                                            .works = works,
                                            .work_count = q->work_count};
        for (uint32_t i = 0; i < q->work_count; i++) {
            works[i] = (struct master_work){
                w->jobs[q->works[i].job].id, q->works[i].what,  "us", q->works[i].done,
                q->works[i].total,           q->works[i].age_ms};
        }
        for (uint32_t i = 0; i < q->held_count; i++) {
            generations[i] = q->held[i].generation;
            openings[i] = q->held[i].opening;
            standbys[i] = (struct master_standby_said){.waits_ms = q->held[i].waits_ms,
                                                       .problem = q->held[i].problem,
                                                       .backup = q->held[i].backup,
                                                       .follows = q->held[i].follows};
            jobs[i] = w->jobs[q->held[i].job].id;
        }
    } else {
        uint64_t left_ms = u->deadline_us > w->now_us ? (u->deadline_us - w->now_us) / SIM_MS : 0;
        e.worker = (struct master_worker_event){
            .node = w->names[q->name],
            .incarnation = q->incarnation,
            .job = w->jobs[q->job].id,
            .generation = q->generation,
            .wait_ms = left_ms > PARK_MARGIN_MS ? left_ms - PARK_MARGIN_MS : 0,
            .held = q->leases,
            .held_count = q->lease_count,
            .epoch = q->epoch,
            .split = q->split,
            .batch_end = q->batch_end,
            .sequence = q->sequence,
            .position = q->position,
            .dropped = q->dropped,
            .speculated = q->speculated,
            .idle = q->idle,
            .epochs = epochs,
            .epoch_count = fill_epochs(q, epochs, sums),
            .staleness = q->staleness,
            .staleness_count = JOB_STALENESS_BUCKETS,
            .code = q->code,
            .message = q->message,
        };
    }
    departure_asks(w, u);
    master_event(w, &e);
}

void master_answered(struct world *w, const struct unary *u, const struct unary_reply *r)
{
    struct err err = {0};
    double sums[8];
    struct ledger ledger;
    struct master_event e = {.kind = MASTER_CALL_DONE};
    struct sim_job *j = &w->jobs[u->req.job];
    e.call.number = u->req.number;
    if (r->code != 0) {
        err_set(&err, r->code, "%s", r->message);
        e.call.err = &err;
        master_event(w, &e);
        return;
    }
    e.call.version = r->version;
    e.call.examples = r->examples;
    e.call.pushes = r->pushes;
    e.call.duplicates = r->duplicates;
    e.call.dropped = r->dropped;
    e.call.position = r->position;
    e.call.pin_count = r->pin_count;
    for (uint32_t i = 0; i < r->pin_count; i++) {
        e.call.pins[i].id = r->pins[i].id;
        e.call.pins[i].version = r->pins[i].version;
        e.call.pins[i].slots = r->pins[i].slots;
    }
    e.call.file = r->file;
    e.call.bytes = r->bytes;
    e.call.checksum = r->checksum;
    e.call.delta = r->delta;
    uint32_t done[SIM_SPLITS_MAX];
    if (r->ledger.present) {
        memcpy(done, r->ledger.done, sizeof done);
        ledger = (struct ledger){r->ledger.shape, r->ledger.epoch, r->ledger.split_count, done};
        e.call.ledger = &ledger;
    }
    if (u->req.call == MASTER_CALL_INSPECT) {
        e.call.train = (struct dataset_info){.records = j->train_records,
                                             .features = {1, {4}},
                                             .label_is_class = true,
                                             .classes = 3,
                                             .label_scale = 1};
        e.call.given = j->given ? given_program : e.call.given;
        e.call.from = j->from && u->req.begins ? "the source" : "";
        e.call.from_fingerprint = j->from && u->req.begins ? GIVEN_FROM_FINGERPRINT : 0;
        e.call.rows_from = j->from && u->req.begins ? GIVEN_ROWS_FROM : "";
        e.call.rows_manifest = j->from && u->req.begins ? GIVEN_ROWS_MANIFEST : 0;
        e.call.slots_version = u->req.begins ? given_slots_version(j) : 0;
        e.call.encoding =
            j->from && (u->req.begins || u->req.encoded) ? GIVEN_ENCODING : "measured";
        e.call.test = e.call.train;
        e.call.test.records = j->test_records;
    } else if (u->req.call == MASTER_CALL_EVALUATE) {
        struct metrics m;
        metrics_init(&m, 1u << METRIC_LOSS | 1u << METRIC_ACCURACY);
        m.examples = r->count;
        m.weight = (double)r->count;
        m.correct = (double)r->count * r->accuracy;
        e.call.sum_count = metrics_pack(&m, sums);
        metrics_release(&m);
        e.call.sums = sums;
    }
    master_event(w, &e);
}
