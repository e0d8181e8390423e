/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster of fake nodes around the master's core, under virtual time: it carries out the actions
 * of the core after random delays, loses some, and checks what must hold after every event.
 *
 * Parameter servers count: in sync a shard takes a step when all replicas are in; otherwise it
 * keeps how many batches of each split it applied and takes only the next one. Checkpoints are
 * remembered as the position that the manifest names. */
#ifndef GRADUS_TESTS_MASTER_CLUSTER_H
#define GRADUS_TESTS_MASTER_CLUSTER_H

#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/core/master.h"

#define NODES_MAX 24
#define SHARDS_MAX 32
#define SPLITS_MAX 256
#define EPOCHS_MAX 8
#define FLIGHTS_MAX 512
#define JOBS_MAX 16

struct fake_shard { /* of one job on one parameter server */
    bool open;
    char job[64];
    uint64_t generation, version;
    uint64_t in;       /* bit set of replicas of the step `version` */
    uint32_t replicas; /* 0: not sync */
    struct ledger_shape shape;
    uint32_t done[EPOCHS_MAX][SPLITS_MAX];
    uint64_t batches; /* applied, async */
    uint64_t pinned;  /* version */
};

struct fake_checkpoint { /* the newest of a job */
    char job[64], directory[96];
    uint64_t step, version;
    struct ledger ledger; /* done is in counts */
    uint32_t counts[SPLITS_MAX];
    uint64_t train_epoch;
    double train_sums[16];
    size_t train_sum_count;
};

struct fake_worker_job {
    bool started, assigned, hold, begun;
    char job[64];
    uint64_t generation, step, limit, sequence;
    uint32_t first, end, replicas, shard_count;
    char ps[8][64]; /* of each shard */
    int mode;
    bool idle_sent, dirty;
    bool leasing, leased, done;
    uint64_t lease_epoch, batches;
    uint32_t split, batch, batch_end;
    struct ledger_shape shape;
    uint64_t report; /* batches since the last report */
};

struct fake_node {
    bool alive, joined, mute;
    enum master_role role;
    char id[64], address[64];
    uint64_t incarnation, next_ms, heartbeat_ms;
    struct fake_shard shards[MASTER_JOBS_PER_PS_MAX];
    struct fake_worker_job job;
    unsigned crash_on; /* call kind + 1 at which it dies */
    int refuse;        /* code that it answers @refuse_kind with */
    enum master_call_kind refuse_kind;
    size_t room_workers; /* a parameter server: it has memory for no more; 0: for any number */
    int full_mode;       /* likewise: for no change to this mode, counted from 1 */
    uint64_t slow_ms;    /* that @slow_kind takes longer */
    enum master_call_kind slow_kind;
    bool says_works;                /* in heartbeats: what it was asked for and has not answered, */
    uint64_t work_done, work_total; /* and how far it is */
};

enum flight_kind { FLIGHT_CALL, FLIGHT_ANSWER, FLIGHT_PREPARE, FLIGHT_MANIFEST, FLIGHT_FIND };
struct flight {
    bool used;
    enum flight_kind kind;
    uint64_t ms, number, incarnation;
    enum master_call_kind call;
    struct master_call c; /* with strings copied below */
    char node[64], job[64], pin[64];
    char ps[8][64];
    struct consistency consistency;
    bool has_ledger;
    struct ledger ledger; /* done is in counts */
    uint32_t counts[SPLITS_MAX];
    struct lease lease;
    struct fake_checkpoint checkpoint; /* MANIFEST */
    struct master_call_done done;
    struct err err;
    bool failed;
};

struct cluster {
    struct master *m;
    struct master_actions actions;
    uint64_t now, timer, draws, seed;
    struct fake_node nodes[NODES_MAX];
    size_t node_count;
    struct flight flights[FLIGHTS_MAX];
    uint64_t request;
    struct master_reply reply; /* to the last request that was answered at once */
    bool replied;
    char reply_text[64];
    uint64_t reply_step;
    struct { /* what watchers saw */
        char id[64];
        enum job_state state;
        uint64_t generation, step, recoveries;
    } seen[JOBS_MAX];
    size_t seen_count;
    struct buf trace;
    /* knobs */
    uint64_t delay_ms_max; /* of a call or an answer */
    double loss;           /* of short calls */
    uint64_t train_records, test_records;
    uint32_t classes;
    bool old_manifests; /* without sums of metrics */
    bool manifest_fails, store_fails;
    struct { /* rows that the store has answered; the core does not know yet */
        char job[64];
        uint64_t row;
        bool failed;
    } rows[64];
    size_t row_count;
    struct { /* what a restarted master would find */
        char job[64];
        uint64_t generation;
        enum job_state state;
    } stored[JOBS_MAX];
    size_t manifests, evaluations_sent, discards, prunes, releases;
    size_t avoided;        /* checkpoints, by the last FIND */
    int find_fails;        /* code; 0: it does not */
    bool find_gone;        /* no checkpoint is there */
    char stop_reason[256]; /* of the last StopJob */
    struct fake_checkpoint disk[JOBS_MAX];
    uint64_t manifest_steps[64];
    uint64_t waiting[JOBS_MAX]; /* requests that are parked by tests */
    bool answered[JOBS_MAX];
    struct err answer[JOBS_MAX];
    struct { /* of the last call about a job */
        char job[64];
        struct fence fence;
    } fences[JOBS_MAX];
};

static inline struct fence *cluster_fence(struct cluster *c, const char *job)
{
    size_t i = 0;
    while (c->fences[i].job[0] != 0 && strcmp(c->fences[i].job, job) != 0) {
        assert_true(++i < JOBS_MAX);
    }
    snprintf(c->fences[i].job, sizeof c->fences[i].job, "%s", job);
    return &c->fences[i].fence;
}

static inline uint64_t cluster_draw(struct cluster *c, uint64_t n)
{
    return n == 0 ? 0 : rng_below(c->seed, c->draws++, n);
}

static inline struct fake_node *cluster_node(struct cluster *c, const char *id)
{
    for (size_t i = 0; i < c->node_count; i++) {
        if (c->nodes[i].joined && strcmp(c->nodes[i].id, id) == 0) {
            return &c->nodes[i];
        }
    }
    return NULL;
}

static inline struct fake_shard *cluster_shard(struct fake_node *n, const char *job)
{
    for (size_t i = 0; n != NULL && n->alive && i < MASTER_JOBS_PER_PS_MAX; i++) {
        if (n->shards[i].open && strcmp(n->shards[i].job, job) == 0) {
            return &n->shards[i];
        }
    }
    return NULL;
}

static inline struct flight *cluster_flight(struct cluster *c, enum flight_kind kind)
{
    for (size_t i = 0; i < FLIGHTS_MAX; i++) {
        if (!c->flights[i].used) {
            memset(&c->flights[i], 0, sizeof c->flights[i]);
            c->flights[i].used = true;
            c->flights[i].kind = kind;
            c->flights[i].ms = c->now + 1 + cluster_draw(c, c->delay_ms_max);
            return &c->flights[i];
        }
    }
    fail_msg("too many calls in flight");
    return NULL;
}

static inline void cluster_watch(struct cluster *c, const struct job_record *r)
{
    size_t i = 0;
    while (i < c->seen_count && strcmp(c->seen[i].id, r->id) != 0) {
        i++;
    }
    if (i == c->seen_count) {
        assert_true(i < JOBS_MAX);
        snprintf(c->seen[i].id, sizeof c->seen[i].id, "%s", r->id);
        c->seen[i].state = r->state;
        c->seen_count++;
    }
    if (c->seen[i].state != r->state) {
        /* several transitions may lie between two looks, each of them in the table */
        buf_printf(&c->trace, "%s ", job_state_name(r->state));
    }
    assert_true(r->generation >= c->seen[i].generation);
    assert_true(r->step >= c->seen[i].step || r->recoveries > 0);
    if (job_state_is_final(c->seen[i].state)) {
        assert_int_equal(c->seen[i].state, r->state);
    }
    for (size_t k = 0; job_state_is_final(r->state) && k < JOBS_MAX; k++) {
        if (strcmp(c->stored[k].job, r->id) == 0) {
            assert_int_equal(c->stored[k].state, r->state); /* what is told is final */
        }
    }
    if (r->state == JOB_PENDING || r->state == JOB_RECOVERING || r->state == JOB_FAILED) {
        assert_true(r->reason[0] != '\0' || r->submitted_ms == (int64_t)c->now);
    }
    c->seen[i].state = r->state;
    c->seen[i].generation = r->generation;
    c->seen[i].step = r->step;
}

/* What a call points to is there until the next step, whatever became of its job in this one; a
 * sanitizer sees what is not. */
static inline void cluster_read_call(const struct master_call *call)
{
    const char *const texts[] = {call->job,    call->text,      call->node,   call->address,
                                 call->pin_id, call->directory, call->restore};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_true(texts[i] == NULL || strlen(texts[i]) < 65536);
    }
    for (size_t i = 0; i < call->worker_count; i++) {
        assert_true(call->workers[i][0] != '\0');
    }
    for (size_t i = 0; i < call->shard_count; i++) {
        assert_true(call->shards[i].node[0] != '\0' && call->shards[i].address[0] != '\0');
    }
}

static inline void cluster_store(struct cluster *c, const struct master_store *store)
{
    assert_true(c->row_count < 64);
    snprintf(c->rows[c->row_count].job, 64, "%s", store->job->id);
    c->rows[c->row_count].row = store->row;
    c->rows[c->row_count++].failed = c->store_fails;
    for (size_t i = 0; i < JOBS_MAX && !c->store_fails; i++) {
        if (c->stored[i].job[0] == '\0' || strcmp(c->stored[i].job, store->job->id) == 0) {
            snprintf(c->stored[i].job, sizeof c->stored[i].job, "%s", store->job->id);
            c->stored[i].generation = store->job->generation;
            c->stored[i].state = store->job->state;
            break;
        }
    }
}

static inline size_t cluster_stored(const struct cluster *c, const char *job)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (strcmp(c->stored[i].job, job) == 0) {
            return i;
        }
    }
    fail_msg("no row of job %s", job);
    return 0;
}

static inline void cluster_take_call(struct cluster *c, const struct master_call *call)
{
    cluster_read_call(call);
    *cluster_fence(c, call->job) = call->fence;
    if (call->kind != MASTER_CALL_INSPECT && call->kind != MASTER_CALL_EVALUATE) {
        assert_true(call->generation <= c->stored[cluster_stored(c, call->job)].generation);
    }
    if (call->kind == MASTER_CALL_STOP) {
        snprintf(c->stop_reason, sizeof c->stop_reason, "%s", call->reason);
    }
    if (call->timeout_ms <= 5000 && c->loss > 0 && rng_uniform(c->seed, c->draws++) < c->loss) {
        return;
    }
    struct flight *f = cluster_flight(c, FLIGHT_CALL);
    f->c = *call;
    snprintf(f->node, sizeof f->node, "%s", call->node);
    snprintf(f->job, sizeof f->job, "%s", call->job);
    snprintf(f->pin, sizeof f->pin, "%s", call->pin_id == NULL ? "" : call->pin_id);
    for (size_t i = 0; i < call->shard_count && i < 8; i++) {
        snprintf(f->ps[i], sizeof f->ps[i], "%s", call->shards[i].node);
    }
    f->has_ledger = call->ledger != NULL;
    if (f->has_ledger) {
        f->ledger = *call->ledger;
        assert_true(f->ledger.split_count <= SPLITS_MAX);
        memcpy(f->counts, call->ledger->done, f->ledger.split_count * sizeof *f->counts);
    }
    if (call->consistency != NULL) {
        f->consistency = *call->consistency;
    }
    if (call->lease_count > 0) {
        f->lease = call->leases[0];
    }
    struct fake_node *n = cluster_node(c, call->node);
    f->incarnation = n == NULL ? 0 : n->incarnation;
    f->ms += n != NULL && n->slow_kind == call->kind ? n->slow_ms : 0;
    c->evaluations_sent += call->kind == MASTER_CALL_EVALUATE;
}

/* What a worker does of a lease is what no shard lacks. */
static inline void fake_lease(struct cluster *c, struct fake_worker_job *w,
                              const struct lease *lease)
{
    w->leased = true;
    w->lease_epoch = lease->epoch;
    w->split = lease->split;
    w->batch_end = lease->batch_end;
    w->batch = UINT32_MAX; /* starts at the lowest progress */
    for (uint32_t s = 0; s < w->shard_count; s++) {
        struct fake_shard *shard = cluster_shard(cluster_node(c, w->ps[s]), w->job);
        uint32_t done = shard == NULL ? 0 : shard->done[w->lease_epoch][w->split];
        if (lease->fresh) {
            assert_int_equal(done, 0); /* a fresh lease is one */
        }
        w->batch = done < w->batch ? done : w->batch;
    }
}

static inline void cluster_take_manifest(struct cluster *c, const struct master_manifest *m)
{
    struct flight *f = cluster_flight(c, FLIGHT_MANIFEST);
    f->number = m->number;
    snprintf(f->job, sizeof f->job, "%s", m->directory);
    struct fake_checkpoint *p = &f->checkpoint;
    snprintf(p->job, sizeof p->job, "%s", m->job->id);
    snprintf(p->directory, sizeof p->directory, "%s", m->directory);
    p->step = m->step;
    p->version = m->shards[0].version;
    for (uint32_t i = 0; i < m->plan->shard_count; i++) {
        assert_int_equal(m->shards[i].version, p->version); /* one cut */
    }
    p->ledger = *m->ledger;
    memcpy(p->counts, m->ledger->done, p->ledger.split_count * sizeof *p->counts);
    p->train_epoch = m->train_epoch;
    p->train_sum_count = m->train_sum_count;
    assert_true(m->train_sum_count <= 16);
    for (size_t i = 0; i < m->train_sum_count; i++) {
        p->train_sums[i] = m->train_sums[i];
    }
    assert_true(c->manifests < 64);
    c->manifest_steps[c->manifests++] = m->step;
}

static inline struct fake_checkpoint *cluster_checkpoint(struct cluster *c, const char *job)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (strcmp(c->disk[i].job, job) == 0) {
            return &c->disk[i];
        }
    }
    return NULL;
}

static inline void cluster_take(struct cluster *c)
{
    struct master_actions *a = &c->actions;
    c->timer = a->timer_ms;
    for (size_t i = 0; i < a->count; i++) {
        const struct master_action *x = &a->items[i];
        switch (x->kind) {
        case MASTER_REPLY:
            for (size_t k = 0; k < JOBS_MAX; k++) {
                if (c->waiting[k] != 0 && c->waiting[k] == x->reply.request) {
                    c->waiting[k] = 0;
                    c->answered[k] = true;
                    c->answer[k] = x->reply.err;
                }
            }
            for (size_t k = 0; k < c->node_count; k++) {
                struct fake_worker_job *w = &c->nodes[k].job;
                if (w->leasing && x->reply.request == (uint64_t)k + 1000000000) {
                    w->leasing = false;
                    if (x->reply.err.code != 0 || !c->nodes[k].alive) {
                        break;
                    }
                    if (x->reply.lease_kind == MASTER_LEASE_GRANTED) {
                        fake_lease(c, w, &x->reply.lease);
                    } else if (x->reply.lease_kind == MASTER_LEASE_DONE) {
                        w->done = true;
                    }
                }
            }
            if (x->reply.request == c->request) {
                c->reply = x->reply;
                c->replied = true;
                const char *text = x->reply.job != NULL    ? x->reply.job->id
                                   : x->reply.node != NULL ? x->reply.node
                                   : x->reply.path != NULL ? x->reply.path
                                                           : "";
                snprintf(c->reply_text, sizeof c->reply_text, "%s", text);
                c->reply_step = x->reply.stop_job_count;
            }
            break;
        case MASTER_CALL:
            cluster_take_call(c, &x->call);
            break;
        case MASTER_PREPARE:
            cluster_flight(c, FLIGHT_PREPARE)->number = x->prepare.number;
            c->discards += x->prepare.discard;
            break;
        case MASTER_PRUNE:
            c->prunes += !x->prune.release;
            c->releases += x->prune.release;
            break;
        case MASTER_MANIFEST:
            cluster_take_manifest(c, &x->manifest);
            break;
        case MASTER_FIND: {
            struct flight *f = cluster_flight(c, FLIGHT_FIND);
            f->number = x->find.number;
            snprintf(f->job, sizeof f->job, "%s", x->find.job->id);
            c->avoided = x->find.avoid_count;
            break;
        }
        case MASTER_STORE:
            cluster_store(c, &x->store);
            break;
        case MASTER_CHANGED:
            cluster_watch(c, x->job);
            break;
        case MASTER_LOG:
            assert_string_not_equal(x->log.event, "job_state_refused");
            if (getenv("GRADUS_TEST_TRACE") != NULL) {
                fprintf(stderr, "%8" PRIu64 " %s %s\n", c->now, x->log.event, x->log.text);
            }
            break;
        }
    }
}

static inline void cluster_event(struct cluster *c, struct master_event *e)
{
    e->now_ms = c->now;
    e->wall_ms = (int64_t)c->now;
    master_step(c->m, e, &c->actions);
    cluster_take(c);
    for (size_t i = 0; i < c->row_count; i++) {
        struct err err = {0};
        struct master_event stored = {
            .kind = MASTER_STORED, .now_ms = c->now, .wall_ms = (int64_t)c->now};
        (void)err_set(&err, ERR_EXHAUSTED, "database or disk is full");
        stored.stored =
            (struct master_stored){c->rows[i].job, c->rows[i].row, c->rows[i].failed ? &err : NULL};
        master_step(c->m, &stored, &c->actions);
        cluster_take(c);
    }
    c->row_count = 0;
}

/* ---- nodes ---- */

static inline void fake_join(struct cluster *c, struct fake_node *n)
{
    struct master_event e = {.kind = MASTER_JOIN, .request = ++c->request};
    e.join = (struct master_join_event){.role = (int)n->role,
                                        .incarnation = n->incarnation,
                                        .name = "",
                                        .address = n->address,
                                        .http_address = "",
                                        .version = GRADUS_VERSION,
                                        .host = "h"};
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, 0);
    snprintf(n->id, sizeof n->id, "%s", c->reply_text);
    n->joined = true;
    n->heartbeat_ms = c->now;
}

static inline struct fake_node *cluster_add(struct cluster *c, enum master_role role)
{
    size_t i = 0;
    while (i < c->node_count && c->nodes[i].alive) {
        i++;
    }
    assert_true(i < NODES_MAX);
    struct fake_node *n = &c->nodes[i];
    c->node_count = i == c->node_count ? i + 1 : c->node_count;
    memset(n, 0, sizeof *n);
    n->alive = true;
    n->role = role;
    n->incarnation = ++c->request + 777;
    snprintf(n->address, sizeof n->address, "h:%" PRIu64, n->incarnation);
    fake_join(c, n);
    return n;
}

static inline void cluster_kill(struct fake_node *n)
{
    n->alive = false;
}

static inline void fake_drop_job(struct fake_node *n, const char *job)
{
    for (size_t i = 0; i < MASTER_JOBS_PER_PS_MAX; i++) {
        if (strcmp(n->shards[i].job, job) == 0) {
            n->shards[i].open = false;
        }
    }
    if (strcmp(n->job.job, job) == 0) {
        bool leasing = n->job.leasing;
        memset(&n->job, 0, sizeof n->job);
        n->job.leasing = leasing;
    }
}

static inline void fake_heartbeat(struct cluster *c, struct fake_node *n)
{
    const char *jobs[MASTER_JOBS_PER_PS_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < MASTER_JOBS_PER_PS_MAX; i++) {
        if (n->shards[i].open) {
            jobs[count++] = n->shards[i].job;
        }
    }
    if (n->job.started) {
        jobs[count++] = n->job.job;
    }
    struct master_event e = {.kind = MASTER_HEARTBEAT, .request = ++c->request};
    struct master_work works[MASTER_WORKS_MAX];
    size_t work_count = 0;
    for (size_t i = 0; i < FLIGHTS_MAX && n->says_works && work_count < MASTER_WORKS_MAX; i++) {
        const struct flight *f = &c->flights[i];
        if (f->used && f->kind == FLIGHT_CALL && strcmp(f->node, n->id) == 0) {
            works[work_count++] = (struct master_work){.job = f->job,
                                                       .what = master_call_name(f->c.kind),
                                                       .unit = "bytes",
                                                       .done = n->work_done,
                                                       .total = n->work_total};
        }
    }
    e.node = (struct master_node_event){.node = n->id,
                                        .incarnation = n->incarnation,
                                        .jobs = jobs,
                                        .job_count = count,
                                        .works = works,
                                        .work_count = work_count};
    cluster_event(c, &e);
    n->heartbeat_ms = c->now;
    if (c->reply.err.code == ERR_NOT_FOUND) { /* given up: drop everything and join again */
        memset(n->shards, 0, sizeof n->shards);
        memset(&n->job, 0, sizeof n->job);
        fake_join(c, n);
        return;
    }
    for (size_t i = 0; i < c->reply.stop_job_count; i++) {
        fake_drop_job(n, c->reply.stop_jobs[i]);
    }
}

static inline struct master_event worker_event(struct cluster *c, struct fake_node *n,
                                               enum master_event_kind kind)
{
    struct master_event e = {.kind = kind, .request = ++c->request};
    e.worker = (struct master_worker_event){.node = n->id,
                                            .incarnation = n->incarnation,
                                            .job = n->job.job,
                                            .generation = n->job.generation,
                                            .wait_ms = 10000,
                                            .message = ""};
    return e;
}

static inline bool fake_report(struct cluster *c, struct fake_node *n, bool idle, uint64_t epoch)
{
    struct fake_worker_job *w = &n->job;
    struct metrics sums;
    metrics_init(&sums, 1u << METRIC_LOSS | 1u << METRIC_ACCURACY);
    sums.examples = w->report;
    sums.loss_sum = 1;
    double packed[64];
    size_t count = metrics_pack(&sums, packed);
    metrics_release(&sums);
    struct master_epoch_progress p = {epoch, w->report, w->report, packed, count};
    uint64_t staleness[2] = {w->report, 0};
    struct master_event e = worker_event(c, n, MASTER_REPORT_PROGRESS);
    e.worker.sequence = w->sequence + 1;
    e.worker.position = w->mode == TRAINING_SYNC ? w->step : w->batches;
    e.worker.idle = idle;
    e.worker.epochs = &p;
    e.worker.epoch_count = w->report > 0;
    e.worker.staleness = staleness;
    e.worker.staleness_count = 2;
    char id[64];
    snprintf(id, sizeof id, "%s", n->id);
    cluster_event(c, &e);
    if (c->reply.err.code == 0 && n->job.started) {
        w->sequence++;
        w->report = 0;
        return true;
    }
    return false;
}

static inline void fake_sync(struct cluster *c, struct fake_node *n)
{
    struct fake_worker_job *w = &n->job;
    if (w->step >= w->limit || (w->hold && !w->begun)) {
        if (!w->idle_sent && !w->hold) {
            w->idle_sent = fake_report(c, n, true, w->step == 0 ? 0 : (w->step - 1) / 7);
        }
        return;
    }
    bool all = true;
    for (uint32_t s = 0; s < w->shard_count; s++) {
        struct fake_shard *shard = cluster_shard(cluster_node(c, w->ps[s]), w->job);
        if (shard == NULL || shard->generation != w->generation) {
            return; /* ABORTED, or gone: the master will tell */
        }
        w->begun = true;
        if (shard->version == w->step) {
            for (uint32_t r = w->first; r < w->end; r++) {
                shard->in |= 1ull << r;
            }
            if (shard->in == (1ull << shard->replicas) - 1) {
                shard->version++;
                shard->in = 0;
            }
        }
        assert_true(shard->version >= w->step);     /* the step is readable */
        assert_true(shard->version <= w->step + 1); /* nobody runs ahead of this worker */
        all = all && shard->version == w->step + 1;
        if (cluster_draw(c, 4) == 0) {
            return; /* the rest of the shards comes with the next turn */
        }
    }
    if (all) {
        w->step++;
        w->begun = false;
        w->report++;
        if (cluster_draw(c, 5) == 0) {
            fake_report(c, n, false, (w->step - 1) / 7);
        }
    }
}

static inline void fake_async(struct cluster *c, struct fake_node *n)
{
    struct fake_worker_job *w = &n->job;
    if (w->hold) {
        if (!w->idle_sent) {
            w->leased = false;
            w->idle_sent = fake_report(c, n, true, w->lease_epoch);
        }
        return;
    }
    if (!w->leased) {
        if (!w->leasing && !w->done) {
            struct master_event e = worker_event(c, n, MASTER_LEASE_SPLIT); /* it holds none */
            e.request = (uint64_t)(n - c->nodes) + 1000000000;
            w->leasing = true;
            cluster_event(c, &e);
        }
        return;
    }
    if (w->batch < w->batch_end) {
        for (uint32_t s = 0; s < w->shard_count; s++) {
            struct fake_shard *shard = cluster_shard(cluster_node(c, w->ps[s]), w->job);
            if (shard == NULL || shard->generation != w->generation) {
                return;
            }
            uint32_t *done = &shard->done[w->lease_epoch][w->split];
            assert_true(*done >= w->batch); /* never a gap */
            if (*done == w->batch) {
                ++*done;
                shard->batches++;
                shard->version++;
            }
            if (s + 1 < w->shard_count && cluster_draw(c, 4) == 0) {
                return; /* the rest with the next turn, as duplicates */
            }
        }
        w->batch++;
        w->batches++;
        w->report++;
        if (cluster_draw(c, 3) == 0) {
            fake_report(c, n, false, w->lease_epoch);
        }
        return;
    }
    if (w->report > 0 && !fake_report(c, n, false, w->lease_epoch)) {
        return;
    }
    struct master_event e = worker_event(c, n, MASTER_REPORT_SPLIT);
    e.worker.epoch = w->lease_epoch;
    e.worker.split = w->split;
    e.worker.batch_end = w->batch_end;
    cluster_event(c, &e);
    if (c->reply.err.code == 0) {
        w->leased = false;
    }
}

static inline void fake_turn(struct cluster *c, struct fake_node *n)
{
    n->next_ms = c->now + 5 + cluster_draw(c, 10);
    if (!n->mute && c->now - n->heartbeat_ms >= 1000) {
        fake_heartbeat(c, n);
    }
    if (n->role == MASTER_WORKER && n->job.started && n->job.assigned) {
        if (n->job.mode == TRAINING_SYNC) {
            fake_sync(c, n);
        } else {
            fake_async(c, n);
        }
    }
}

/* ---- what nodes answer ---- */

/* The data position of a shard: its newest epoch. */
static inline void fake_ledger(const struct fake_shard *s, struct ledger *out, uint32_t *counts)
{
    *out = (struct ledger){.shape = s->shape, .split_count = ledger_shape_splits(&s->shape)};
    for (uint32_t e = 0; e < EPOCHS_MAX; e++) {
        for (uint32_t k = 0; k < out->split_count; k++) {
            out->epoch = s->done[e][k] > 0 ? e : out->epoch;
        }
    }
    memcpy(counts, s->done[out->epoch], out->split_count * sizeof *counts);
    out->done = counts;
}

static inline void fake_position(struct fake_shard *s, const struct flight *f)
{
    s->shape = f->ledger.shape;
    s->replicas = f->consistency.mode == TRAINING_SYNC ? f->consistency.replicas : 0;
    s->in = 0;
    memset(s->done, 0, sizeof s->done);
    for (uint32_t k = 0; k < f->ledger.split_count; k++) {
        for (uint64_t e = 0; e < f->ledger.epoch && e < EPOCHS_MAX; e++) {
            s->done[e][k] = ledger_shape_split_batches(&s->shape, k);
        }
        if (f->ledger.epoch < EPOCHS_MAX) {
            s->done[f->ledger.epoch][k] = f->counts[k];
        }
    }
}

/* OpenShard: a state from another start is dropped. */
static inline int fake_open(struct flight *f, struct fake_node *n, struct fake_shard *s,
                            struct err *err)
{
    if (s != NULL && f->c.generation < s->generation) {
        return err_set(err, ERR_ABORTED, "old generation");
    }
    if (s != NULL && f->c.generation == s->generation) {
        return 0;
    }
    for (size_t i = 0; s == NULL; i++) {
        s = n->shards[i].open ? NULL : &n->shards[i];
    }
    memset(s, 0, sizeof *s);
    s->open = true;
    s->generation = f->c.generation;
    s->version = f->c.version;
    fake_position(s, f);
    snprintf(s->job, sizeof s->job, "%s", f->job);
    return 0;
}

static inline int fake_membership(struct flight *f, struct fake_node *n, struct fake_shard *s,
                                  struct err *err)
{
    if ((n->room_workers > 0 && f->c.worker_count > n->room_workers) ||
        (f->has_ledger && n->full_mode == (int)f->consistency.mode + 1)) {
        return err_set(err, ERR_EXHAUSTED, "so many bytes are too many");
    }
    if (f->has_ledger) {
        struct ledger here;
        uint32_t counts[SPLITS_MAX];
        fake_ledger(s, &here, counts);
        struct ledger there = f->ledger;
        there.done = f->counts;
        if (f->c.version != s->version || (s->replicas == 0 && !ledger_equal(&here, &there))) {
            return err_set(err, ERR_STATE, "not where the shard is");
        }
        fake_position(s, f);
    }
    s->generation = f->c.generation;
    s->in = 0;
    return 0;
}

static inline int fake_shard_call(struct flight *f, struct fake_node *n, struct flight *answer)
{
    struct err *err = &answer->err;
    struct fake_shard *s = cluster_shard(n, f->job);
    if (f->c.kind == MASTER_CALL_OPEN) {
        int rc = fake_open(f, n, s, err);
        if (rc == 0) {
            answer->done.version = cluster_shard(n, f->job)->version;
        }
        return rc;
    }
    if (f->c.kind == MASTER_CALL_CLOSE) {
        if (s != NULL && f->c.generation >= s->generation) {
            s->open = false;
        }
        return 0;
    }
    if (s == NULL) {
        return err_set(err, ERR_NOT_FOUND, "no shard of %s", f->job);
    }
    if (f->c.generation < s->generation) {
        return err_set(err, ERR_ABORTED, "old generation");
    }
    if (f->c.kind == MASTER_CALL_MEMBERSHIP) {
        int rc = fake_membership(f, n, s, err);
        if (rc != 0) {
            return rc;
        }
    } else if (f->c.generation > s->generation) {
        return err_set(err, ERR_STATE, "newer generation");
    }
    answer->done.version = s->version;
    answer->has_ledger = s->replicas == 0;
    fake_ledger(s, &answer->ledger, answer->counts);
    if (f->c.kind == MASTER_CALL_PIN) {
        s->pinned = s->version;
    }
    if (f->c.kind == MASTER_CALL_CHECKPOINT) {
        answer->done.version = s->pinned;
        answer->done.file = "shard.safetensors";
        answer->done.bytes = 10;
    }
    return 0;
}

static inline int fake_worker_call(struct cluster *c, struct flight *f, struct fake_node *n,
                                   struct flight *answer)
{
    struct fake_worker_job *w = &n->job;
    bool mine = w->started && strcmp(w->job, f->job) == 0;
    switch (f->c.kind) {
    case MASTER_CALL_INSPECT:
        answer->done.train = (struct dataset_info){.records = c->train_records,
                                                   .features = {1, {4}},
                                                   .label_is_class = true,
                                                   .classes = c->classes,
                                                   .label_scale = 1};
        answer->done.test = answer->done.train;
        answer->done.test.records = c->test_records;
        return 0;
    case MASTER_CALL_START: {
        bool leasing = w->leasing;
        memset(w, 0, sizeof *w);
        w->leasing = leasing;
        w->started = true;
        snprintf(w->job, sizeof w->job, "%s", f->job);
        w->shard_count = (uint32_t)f->c.shard_count;
        memcpy(w->ps, f->ps, sizeof w->ps);
        return 0;
    }
    case MASTER_CALL_ASSIGN:
        if (!mine) {
            return err_set(&answer->err, ERR_NOT_FOUND, "no job %s", f->job);
        }
        if (f->c.generation < w->generation) {
            return err_set(&answer->err, ERR_ABORTED, "old generation");
        }
        answer->done.position = w->step + w->begun; /* the first step not begun */
        w->idle_sent = false;
        if (f->c.hold) {
            w->hold = true;
            w->limit = w->step + w->begun;
            return 0;
        }
        w->hold = false;
        if (w->assigned && f->c.generation == w->generation) {
            w->limit = f->c.step_limit > w->limit ? f->c.step_limit : w->limit;
            return 0;
        }
        assert_true(f->consistency.mode != TRAINING_SYNC || f->c.step <= f->c.step_limit);
        w->step = f->c.step;
        w->begun = false;
        w->done = false;
        w->generation = f->c.generation;
        w->mode = (int)f->consistency.mode;
        w->leased = false;
        if (f->c.lease_count > 0) { /* what it has from now on */
            fake_lease(c, w, &f->lease);
        }
        w->first = f->c.replica_first;
        w->end = f->c.replica_end;
        w->limit = f->c.step_limit;
        w->assigned = true;
        return 0;
    case MASTER_CALL_EVALUATE: {
        if (!mine) {
            return err_set(&answer->err, ERR_NOT_FOUND, "no job %s", f->job);
        }
        static double packed[64];
        struct metrics sums;
        metrics_init(&sums, 1u << METRIC_LOSS | 1u << METRIC_ACCURACY);
        sums.examples = f->c.count;
        sums.correct = (double)f->c.count / 2;
        answer->done.sum_count = metrics_pack(&sums, packed);
        answer->done.sums = packed;
        metrics_release(&sums);
        return 0;
    }
    default:
        fake_drop_job(n, f->job);
        return 0;
    }
}

static inline void flight_lands(struct cluster *c, struct flight *f)
{
    struct flight flown = *f;
    f->used = false;
    if (flown.kind == FLIGHT_ANSWER) {
        struct master_event e = {.kind = MASTER_CALL_DONE};
        e.call = flown.done;
        e.call.number = flown.number;
        e.call.err = flown.failed ? &flown.err : NULL;
        flown.ledger.done = flown.counts;
        e.call.ledger = flown.has_ledger ? &flown.ledger : NULL;
        cluster_event(c, &e);
        return;
    }
    if (flown.kind == FLIGHT_PREPARE) {
        struct master_event e = {.kind = MASTER_PREPARE_DONE};
        e.prepare = (struct master_prepare_done){flown.number, NULL};
        cluster_event(c, &e);
        return;
    }
    if (flown.kind == FLIGHT_FIND) {
        struct fake_checkpoint *p = cluster_checkpoint(c, flown.job);
        struct master_event e = {.kind = MASTER_FOUND};
        struct err err = {0};
        (void)err_set(&err, c->find_fails, "the disk does not answer");
        p = c->find_gone ? NULL : p;
        e.found = (struct master_found){.number = flown.number,
                                        .found = p != NULL,
                                        .skipped = c->find_gone ? "nothing is there" : "",
                                        .err = c->find_fails != 0 ? &err : NULL};
        if (p != NULL) {
            p->ledger.done = p->counts;
            e.found.directory = p->directory;
            e.found.path = p->directory;
            e.found.step = p->step;
            e.found.version = p->version;
            e.found.ledger = &p->ledger;
            e.found.train_epoch = p->train_epoch;
            e.found.train_sums = p->train_sums;
            e.found.train_sum_count = c->old_manifests ? 0 : p->train_sum_count;
        }
        cluster_event(c, &e);
        return;
    }
    if (flown.kind == FLIGHT_MANIFEST) {
        struct err err = {0};
        err_set(&err, ERR_EXHAUSTED, "no space left");
        for (size_t i = 0; i < JOBS_MAX && !c->manifest_fails; i++) {
            if (c->disk[i].job[0] == '\0' || strcmp(c->disk[i].job, flown.checkpoint.job) == 0) {
                c->disk[i] = flown.checkpoint;
                break;
            }
        }
        struct master_event e = {.kind = MASTER_MANIFEST_DONE};
        e.manifest =
            (struct master_manifest_done){flown.number, c->manifest_fails ? &err : NULL, flown.job};
        cluster_event(c, &e);
        return;
    }
    struct fake_node *n = cluster_node(c, flown.node);
    if (n != NULL && n->alive && n->crash_on == (unsigned)flown.c.kind + 1) {
        cluster_kill(n);
    }
    struct flight *answer = cluster_flight(c, FLIGHT_ANSWER);
    answer->number = flown.c.number;
    int rc;
    if (n == NULL || !n->alive || n->incarnation != flown.incarnation) {
        rc = err_set(&answer->err, ERR_UNAVAILABLE, "cannot connect");
    } else if (n->refuse != 0 && n->refuse_kind == flown.c.kind) {
        rc = err_set(&answer->err, n->refuse, "refused by the test");
    } else if (n->role == MASTER_PS) {
        rc = fake_shard_call(&flown, n, answer);
    } else {
        rc = fake_worker_call(c, &flown, n, answer);
    }
    answer->failed = rc < 0;
    if (flown.c.timeout_ms <= 5000 && c->loss > 0 && rng_uniform(c->seed, c->draws++) < c->loss) {
        answer->used = false; /* the answer is lost */
    }
}

/* ---- the clock ---- */

static inline void cluster_advance(struct cluster *c)
{
    uint64_t next = c->timer < c->now ? c->now : c->timer;
    struct flight *flight = NULL;
    struct fake_node *node = NULL;
    for (size_t i = 0; i < FLIGHTS_MAX; i++) {
        if (c->flights[i].used && c->flights[i].ms < next) {
            next = c->flights[i].ms;
            flight = &c->flights[i];
        }
    }
    for (size_t i = 0; i < c->node_count; i++) {
        if (c->nodes[i].alive && c->nodes[i].next_ms < next) {
            next = c->nodes[i].next_ms;
            node = &c->nodes[i];
            flight = NULL;
        }
    }
    c->now = next > c->now ? next : c->now;
    if (node != NULL) {
        fake_turn(c, node);
    } else if (flight != NULL) {
        flight_lands(c, flight);
    } else {
        struct master_event e = {.kind = MASTER_TICK};
        cluster_event(c, &e);
    }
}

static inline void cluster_run_ms(struct cluster *c, uint64_t ms)
{
    uint64_t end = c->now + ms;
    while (c->now < end) {
        cluster_advance(c);
    }
}

static inline const struct job_record *cluster_job(struct cluster *c, const char *id)
{
    const struct job_record *r = master_job(c->m, id, c->now);
    assert_non_null(r);
    return r;
}

/* Until the job is in @state; fails after @ms of virtual time. */
static inline const struct job_record *cluster_until(struct cluster *c, const char *id,
                                                     enum job_state state, uint64_t ms)
{
    uint64_t end = c->now + ms;
    while (cluster_job(c, id)->state != state) {
        const struct job_record *r = cluster_job(c, id);
        if (c->now >= end || job_state_is_final(r->state)) {
            fail_msg("job %s is %s (%s, %s), step %" PRIu64 ", not %s: %s", id,
                     job_state_name(r->state), master_job_phase(c->m, id),
                     master_job_work(c->m, id), r->step, job_state_name(state), r->reason);
        }
        cluster_advance(c);
    }
    return cluster_job(c, id);
}

/* Until it is inside its state in @phase or @work. */
static inline void cluster_until_in(struct cluster *c, const char *id, const char *where)
{
    for (size_t i = 0; i < 100000; i++) {
        if (strcmp(master_job_phase(c->m, id), where) == 0 ||
            strcmp(master_job_work(c->m, id), where) == 0) {
            return;
        }
        cluster_advance(c);
    }
    fail_msg("job %s never came to %s; it is %s in %s/%s at step %" PRIu64 ": %s", id, where,
             job_state_name(cluster_job(c, id)->state), master_job_phase(c->m, id),
             master_job_work(c->m, id), cluster_job(c, id)->step, cluster_job(c, id)->reason);
}

/* ---- jobs ---- */

/* 100 records in batches of 5, 3 replicas: 7 steps an epoch in sync, 20 batches otherwise. */
static inline void cluster_spec(struct job_spec *spec, const char *name, const char *const *sets,
                                size_t count)
{
    struct buf text = {0};
    buf_printf(&text,
               "name: %s\ndata:\n  train: {file: a.csv}\nmodel:\n  layers:\n    - dense: "
               "{units: 8}\n    - relu\n    - dense: {units: 3}\n  loss: softmax_cross_entropy\n"
               "  metrics: [accuracy]\nupdate:\n  rule: sgd\ntraining:\n  batch_size: 5\n"
               "  replicas: 3\n  epochs: 3\n  split_batches: 2\ncluster:\n  workers: 2\n  ps: 2\n",
               name);
    struct diags d = {0};
    if (job_spec_parse(buf_str(&text), text.len, "test", sets, count, spec, &d) < 0) {
        struct buf out = {0};
        diags_format(&d, &out);
        fail_msg("%s", buf_str(&out));
    }
    diags_release(&d);
    buf_release(&text);
}

static inline int cluster_try(struct cluster *c, const char *name, const char *const *sets,
                              size_t count, char id[64])
{
    struct job_spec spec = {0};
    cluster_spec(&spec, name, sets, count);
    struct master_event e = {.kind = MASTER_SUBMIT, .request = ++c->request};
    e.submit = (struct master_submit_event){.spec = &spec, .request_id = ""};
    cluster_event(c, &e);
    job_spec_release(&spec);
    snprintf(id, 64, "%s", c->reply_text);
    return c->reply.err.code;
}

static inline void cluster_submit(struct cluster *c, const char *name, char id[64],
                                  const char *const *sets, size_t count)
{
    assert_int_equal(cluster_try(c, name, sets, count, id), 0);
}

static inline int cluster_cancel(struct cluster *c, const char *id, bool now)
{
    struct master_event e = {.kind = MASTER_CANCEL, .request = ++c->request};
    e.cancel = (struct master_cancel_event){id, now};
    cluster_event(c, &e);
    return c->reply.err.code;
}

static inline size_t cluster_ask_checkpoint(struct cluster *c, const char *id)
{
    size_t k = 0;
    while (c->waiting[k] != 0 || c->answered[k]) {
        k++;
    }
    struct master_event e = {.kind = MASTER_CHECKPOINT, .request = 2000000000 + k};
    c->waiting[k] = e.request;
    e.job = id;
    cluster_event(c, &e);
    return k;
}

/* Change the file of @id; the request waits in place of a checkpoint's. */
static inline size_t cluster_set(struct cluster *c, const char *id, const char *const *sets,
                                 size_t count)
{
    size_t k = 0;
    while (c->waiting[k] != 0 || c->answered[k]) {
        k++;
    }
    const struct job_record *r = cluster_job(c, id);
    struct job_spec spec = {0};
    struct diags d = {0};
    assert_int_equal(job_spec_parse(r->text, strlen(r->text), "job", sets, count, &spec, &d), 0);
    diags_release(&d);
    char *base = mem_strdup(r->text);
    struct master_event e = {.kind = MASTER_SET, .request = 2000000000 + k};
    c->waiting[k] = e.request;
    e.set = (struct master_set_event){id, &spec, base};
    cluster_event(c, &e);
    job_spec_release(&spec);
    free(base);
    return k;
}

/* Until request @k is answered; its code. */
static inline int cluster_answer(struct cluster *c, size_t k, uint64_t ms)
{
    for (uint64_t end = c->now + ms; !c->answered[k] && c->now < end;) {
        cluster_advance(c);
    }
    if (!c->answered[k]) {
        fail_msg("a request was not answered in %" PRIu64 " ms", ms);
    }
    c->answered[k] = false;
    return c->answer[k].code;
}

static inline struct cluster *cluster_new(uint64_t seed, size_t ps, size_t workers)
{
    struct cluster *c = mem_new(1, sizeof *c);
    c->m = master_new(
        &(struct master_config){.heartbeat_timeout_ms = 3000, .jobs_max = 16, .finished_max = 100});
    c->seed = rng_key(seed, "cluster");
    c->now = 1000;
    c->timer = UINT64_MAX;
    c->delay_ms_max = 20;
    c->train_records = 100;
    c->test_records = 2500;
    c->classes = 3;
    for (size_t i = 0; i < ps; i++) {
        cluster_add(c, MASTER_PS);
    }
    for (size_t i = 0; i < workers; i++) {
        cluster_add(c, MASTER_WORKER);
    }
    return c;
}

static inline void cluster_free(struct cluster *c)
{
    master_free(c->m);
    master_actions_release(&c->actions);
    buf_release(&c->trace);
    free(c);
}

#endif
