/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes around the master's core: when they join and beat, what they do and answer. */
#include "cluster.h"

#include <math.h>

static struct fake_position *position_of(struct cluster *c, const char *job)
{
    size_t i = 0;
    while (c->positions[i].job[0] != '\0' && strcmp(c->positions[i].job, job) != 0) {
        assert_true(++i < JOBS_MAX);
    }
    snprintf(c->positions[i].job, sizeof c->positions[i].job, "%s", job);
    return &c->positions[i];
}

static void join(struct cluster *c, struct fake_node *n)
{
    struct master_event e = {.kind = MASTER_JOIN, .request = ++c->request};
    e.join = (struct master_join_event){.role = (int)n->role,
                                        .incarnation = n->incarnation,
                                        .name = "",
                                        .address = n->address,
                                        .http_address = "",
                                        .version = release_version(),
                                        .protocol = RELEASE_PROTOCOL,
                                        .host = "h"};
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, 0);
    snprintf(n->id, sizeof n->id, "%s", c->reply_text);
    n->joined = true;
    n->heartbeat_ms = c->now;
}

struct fake_node *cluster_add(struct cluster *c, enum master_role role)
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
    join(c, n);
    return n;
}

void cluster_kill(struct fake_node *n)
{
    n->alive = false;
}

void cluster_freeze(struct cluster *c, struct fake_node *n, uint64_t ms)
{
    n->frozen_ms = c->now + ms;
    n->next_ms = n->frozen_ms;
}

void cluster_kill_one(struct cluster *c, enum master_role role)
{
    for (size_t i = 0; i < c->node_count; i++) {
        if (c->nodes[i].role == role && c->nodes[i].alive) {
            cluster_kill(&c->nodes[i]);
            return;
        }
    }
}

static void forget_worker_job(struct fake_node *n)
{
    /* its request is still with the master */
    n->job = (struct fake_worker_job){.leasing = n->job.leasing};
}

void fake_drop_job(struct fake_node *n, const char *job)
{
    for (size_t i = 0; i < 2 * MASTER_JOBS_PER_PS_MAX; i++) {
        if (strcmp(n->shards[i].job, job) == 0) {
            n->shards[i].job[0] = '\0';
        }
    }
    if (strcmp(n->job.job, job) == 0) {
        forget_worker_job(n);
    }
}

/* What it was asked for and has not answered. */
static size_t works_of(const struct cluster *c, const struct fake_node *n, struct master_work *out)
{
    size_t count = 0;
    for (size_t i = 0; i < FLIGHTS_MAX && n->says_works && count + 1 < MASTER_WORKS_MAX; i++) {
        const struct flight *f = &c->flights[i];
        if (f->used && f->kind == FLIGHT_CALL && strcmp(f->node, n->id) == 0) {
            out[count++] = (struct master_work){.job = f->job,
                                                .what = master_call_name(f->c.kind),
                                                .unit = "bytes",
                                                .done = n->work_done,
                                                .total = n->work_total};
        }
    }
    if (n->step_since_ms != 0) {
        out[count++] = (struct master_work){
            .job = n->job.job, .what = "step", .unit = "", .age_ms = c->now - n->step_since_ms};
    }
    if (n->at_a_change != NULL) {
        out[count++] = (struct master_work){.job = n->of_job, .what = n->at_a_change, .unit = ""};
    }
    return count;
}

static struct fake_shard *backup_of(struct cluster *c, const struct fake_shard *of,
                                    uint64_t opening)
{
    for (size_t i = 0; i < c->node_count; i++) {
        for (size_t k = 0; k < 2 * MASTER_JOBS_PER_PS_MAX; k++) {
            struct fake_shard *s = &c->nodes[i].shards[k];
            if (strcmp(s->job, of->job) == 0 && s->number == of->number && s->opening == opening) {
                return s;
            }
        }
    }
    return NULL;
}

static void say_standby(struct cluster *c, const struct fake_node *n, const struct fake_shard *s,
                        struct master_standby_said *out)
{
    struct fake_shard *backup = s->backup != 0 ? backup_of(c, s, s->backup) : NULL;
    out->behind = s->backup != 0 ? n->says.behind : 0;
    out->follows = backup == NULL && !n->says_joining; /* its server is opening it */
    if (backup != NULL) {
        backup->follows = backup->follows || !n->says_joining;
        out->follows = backup->follows;
        out->state_sent = 70;
        out->state_bytes = 100;
    }
    out->backup = s->backup;
    out->waits_ms = s->backup != 0 ? n->says.waits_ms : 0;
    out->problem = s->is_backup ? n->says_problem : NULL;
}

void fake_heartbeat(struct cluster *c, struct fake_node *n)
{
    const char *jobs[2 * MASTER_JOBS_PER_PS_MAX + 1];
    uint64_t openings[2 * MASTER_JOBS_PER_PS_MAX + 1] = {0};
    struct master_standby_said standbys[2 * MASTER_JOBS_PER_PS_MAX + 1] = {0};
    size_t count = 0;
    for (size_t i = 0; i < 2 * MASTER_JOBS_PER_PS_MAX; i++) {
        const struct fake_shard *s = &n->shards[i];
        if (s->job[0] != '\0') {
            openings[count] = n->says_opening != 0 ? n->says_opening : s->opening;
            say_standby(c, n, s, &standbys[count]);
            jobs[count++] = s->job;
        }
    }
    if (n->job.started) {
        openings[count] = n->says_opening != 0 ? n->says_opening : n->job.start;
        jobs[count++] = n->job.job;
    }
    struct master_event e = {.kind = MASTER_HEARTBEAT, .request = ++c->request};
    struct master_work works[MASTER_WORKS_MAX];
    e.node = (struct master_node_event){.node = n->id,
                                        .incarnation = n->incarnation,
                                        .jobs = jobs,
                                        .openings = openings,
                                        .standbys = standbys,
                                        .leaves = n->leaves,
                                        .job_count = count,
                                        .works = works,
                                        .work_count = works_of(c, n, works)};
    cluster_event(c, &e);
    n->heartbeat_ms = c->now;
    n->moves = c->reply.moves;
    if (c->reply.err.code == ERR_NOT_FOUND) { /* given up: drop everything and join again */
        memset(n->shards, 0, sizeof n->shards);
        memset(&n->job, 0, sizeof n->job);
        join(c, n);
        return;
    }
    for (size_t i = 0; i < c->reply.stop_job_count; i++) {
        fake_drop_job(n, c->reply.stop_jobs[i]);
    }
    for (size_t i = 0; i < c->reply.stop_opening_count; i++) {
        if (n->job.started && n->job.start == c->reply.stop_openings[i]) {
            forget_worker_job(n);
        }
        for (size_t k = 0; k < 2 * MASTER_JOBS_PER_PS_MAX; k++) {
            struct fake_shard *s = &n->shards[k];
            if (s->opening == c->reply.stop_openings[i]) {
                s->job[0] = '\0';
            }
        }
    }
}

/* ---- a worker at work ---- */

struct master_event fake_event(struct cluster *c, struct fake_node *n, enum master_event_kind kind)
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

static bool report(struct cluster *c, struct fake_node *n, bool idle, uint64_t epoch)
{
    struct fake_worker_job *w = &n->job;
    struct metrics sums;
    metrics_init(&sums, 1u << METRIC_LOSS | 1u << METRIC_ACCURACY);
    sums.examples = w->report;
    sums.weight = (double)w->report;
    sums.loss_sum = 1;
    double packed[64];
    size_t count = metrics_pack(&sums, packed);
    metrics_release(&sums);
    struct master_epoch_progress p = {epoch, w->report, w->report, packed, count};
    uint64_t staleness[2] = {w->report, 0};
    struct master_event e = fake_event(c, n, MASTER_REPORT_PROGRESS);
    e.worker.sequence = w->sequence + 1;
    e.worker.position = w->mode == TRAINING_SYNC ? w->step : w->batches;
    e.worker.idle = idle;
    e.worker.epochs = &p;
    e.worker.epoch_count = w->report > 0;
    e.worker.staleness = staleness;
    e.worker.staleness_count = 2;
    cluster_event(c, &e);
    if (c->reply.err.code == 0 && n->job.started) {
        w->sequence++;
        w->report = 0;
        return true;
    }
    return false;
}

/* One step more, up to where it was told to go. */
static void work_sync(struct cluster *c, struct fake_node *n)
{
    struct fake_worker_job *w = &n->job;
    if (w->step >= w->limit || w->hold) {
        if (!w->idle_sent && !w->hold) {
            w->idle_sent = report(c, n, true, w->step == 0 ? 0 : (w->step - 1) / 7);
        }
        return;
    }
    struct fake_position *p = position_of(c, w->job);
    w->step++;
    w->report++;
    p->version = w->step > p->version ? w->step : p->version;
    if (cluster_draw(c, 5) == 0) {
        report(c, n, false, (w->step - 1) / 7);
    }
}

static void begin_lease(struct cluster *c, struct fake_worker_job *w, const struct lease *lease)
{
    const struct fake_position *p = position_of(c, w->job);
    w->leased = true;
    w->lease = *lease;
    w->batch = p->ledger.epoch == lease->epoch ? p->counts[lease->split] : 0;
}

void fake_reply(struct cluster *c, const struct master_reply *r)
{
    for (size_t k = 0; k < c->node_count; k++) {
        struct fake_worker_job *w = &c->nodes[k].job;
        if (!w->leasing || r->request != (uint64_t)k + 1000000000) {
            continue;
        }
        w->leasing = false;
        if (r->err.code == 0 && c->nodes[k].alive && r->lease_kind == MASTER_LEASE_GRANTED) {
            begin_lease(c, w, &r->lease);
        } else if (r->err.code == 0 && r->lease_kind == MASTER_LEASE_DONE) {
            w->done = true;
        }
    }
}

static void apply_batch(struct cluster *c, struct fake_worker_job *w)
{
    struct fake_position *p = position_of(c, w->job);
    if (p->ledger.epoch < w->lease.epoch) {
        p->ledger.epoch = w->lease.epoch;
        memset(p->counts, 0, sizeof p->counts);
    }
    p->counts[w->lease.split] = ++w->batch;
    p->version++;
    w->batches++;
    w->report++;
}

/* One batch more of its lease; or it wants one, or says that it is done. */
static void work_async(struct cluster *c, struct fake_node *n)
{
    struct fake_worker_job *w = &n->job;
    if (w->hold) {
        if (!w->idle_sent) {
            w->leased = false;
            w->idle_sent = report(c, n, true, w->lease.epoch);
        }
        return;
    }
    if (!w->leased) {
        if (!w->leasing && !w->done) {
            struct master_event e = fake_event(c, n, MASTER_LEASE_SPLIT); /* it holds none */
            e.request = (uint64_t)(n - c->nodes) + 1000000000;
            w->leasing = true;
            cluster_event(c, &e);
        }
        return;
    }
    if (w->batch < w->lease.batch_end) {
        apply_batch(c, w);
        if (cluster_draw(c, 3) == 0) {
            report(c, n, false, w->lease.epoch);
        }
        return;
    }
    if (w->report > 0 && !report(c, n, false, w->lease.epoch)) {
        return;
    }
    struct master_event e = fake_event(c, n, MASTER_REPORT_SPLIT);
    e.worker.epoch = w->lease.epoch;
    e.worker.split = w->lease.split;
    e.worker.batch_end = w->lease.batch_end;
    cluster_event(c, &e);
    if (c->reply.err.code == 0) {
        w->leased = false;
    }
}

void fake_turn(struct cluster *c, struct fake_node *n)
{
    n->next_ms = c->now + 5 + cluster_draw(c, 10);
    if (!n->mute && c->now - n->heartbeat_ms >= 1000) {
        fake_heartbeat(c, n);
    }
    if (n->role == MASTER_WORKER && n->job.started && n->job.assigned &&
        n->job.generation >= position_of(c, n->job.job)->generation) {
        if (n->job.mode == TRAINING_SYNC) {
            work_sync(c, n);
        } else {
            work_async(c, n);
        }
    }
}

/* ---- what nodes answer ---- */

/* OpenShard, or a SetMembership that says where the job is and in which mode it goes on. */
static void take_position(struct cluster *c, const struct flight *f, struct fake_node *n)
{
    struct fake_position *p = position_of(c, f->job);
    p->version = f->c.version;
    p->sync = f->consistency.mode == TRAINING_SYNC;
    p->ledger = f->ledger;
    memcpy(p->counts, f->counts, sizeof p->counts);
    n->told_mode = (int)f->consistency.mode;
}

static bool has_room(const struct flight *f, const struct fake_node *n)
{
    return !(n->room_workers > 0 && f->c.worker_count > n->room_workers) &&
           !(f->has_ledger && n->full_mode == (int)f->consistency.mode + 1);
}

static struct fake_shard *shard_of(struct fake_node *n, const struct flight *f)
{
    for (size_t i = 0; i < 2 * MASTER_JOBS_PER_PS_MAX; i++) {
        struct fake_shard *s = &n->shards[i];
        if (strcmp(s->job, f->job) == 0 && s->opening == f->c.fence.opening &&
            s->number == f->c.shard) {
            return s;
        }
    }
    return NULL;
}

static struct fake_shard *open_shard(struct fake_node *n, const struct flight *f)
{
    struct fake_shard *s = n->shards;
    while (s->job[0] != '\0') {
        s++;
    }
    *s = (struct fake_shard){.number = f->c.shard,
                             .opening = f->c.fence.opening,
                             .opened = f->c.generation,
                             .backup = f->has_backup ? f->c.standby.backup.opening : 0,
                             .is_backup = f->c.standby.is_backup,
                             .follows = !f->c.standby.joins};
    snprintf(s->job, sizeof s->job, "%s", f->job);
    return s;
}

/* The generation that it is told says what it is. */
static int refuses_backup(const struct fake_node *n, const struct fake_shard *s,
                          const struct flight *f, struct err *err)
{
    const bool joins = f->c.kind == MASTER_CALL_MEMBERSHIP && f->has_backup &&
                       f->c.standby.backup.opening != s->backup;
    const int code = joins ? n->refuses_backups : 0;
    return code != 0 ? err_set(err, code, "no memory for 7 MB of slots") : 0;
}

static int take_role(struct cluster *c, struct fake_shard *s, const struct flight *f,
                     struct err *err)
{
    if (s->is_backup && !f->c.standby.promote && f->c.kind != MASTER_CALL_OPEN) {
        return err_set(err, ERR_STATE, "it is a backup");
    }
    if (f->c.kind == MASTER_CALL_MEMBERSHIP) {
        if (f->c.generation < s->generation) {
            return err_set(err, ERR_ABORTED, "that generation is over");
        }
        if (f->c.generation == s->generation) {
            return 0; /* it was told before */
        }
        s->generation = f->c.generation;
        struct fake_position *p = position_of(c, f->job);
        p->generation = f->c.generation > p->generation ? f->c.generation : p->generation;
        const uint64_t backup = f->has_backup ? f->c.standby.backup.opening : 0;
        const struct fake_shard *there = backup == 0 ? NULL : backup_of(c, s, backup);
        assert_true(there == NULL || (there->is_backup && there->number == s->number));
        assert_true(there == NULL || backup == s->backup || !there->follows); /* a new one joins */
        assert_true(backup == 0 || !f->c.standby.promote);
        assert_true(!s->is_backup || s->follows); /* it has what its primary had */
        s->backup = backup;
        s->is_backup = false;
    }
    return 0;
}

static int answer_of_server(struct cluster *c, struct flight *f, struct fake_node *n,
                            struct flight *answer)
{
    struct fake_position *p = position_of(c, f->job);
    struct fake_shard *s = shard_of(n, f);
    if (f->c.kind == MASTER_CALL_CLOSE) {
        if (s != NULL) {
            s->job[0] = '\0';
        }
        return 0;
    }
    if (s != NULL && f->c.kind == MASTER_CALL_OPEN && f->c.generation > s->opened) {
        s->job[0] = '\0'; /* a newer one closes what is there, and this was that */
        return err_set(&answer->err, ERR_ABORTED, "this opening of the shard is closed");
    }
    s = s == NULL && f->c.kind == MASTER_CALL_OPEN ? open_shard(n, f) : s;
    if (s == NULL) {
        return err_set(&answer->err, ERR_NOT_FOUND, "no shard of %s", f->job);
    }
    if (refuses_backup(n, s, f, &answer->err) != 0) {
        struct err late;
        return n->takes_late && take_role(c, s, f, &late) != 0 ? late.code : answer->err.code;
    }
    if (take_role(c, s, f, &answer->err) != 0) {
        return answer->err.code;
    }
    if (f->c.kind == MASTER_CALL_MEMBERSHIP && !has_room(f, n)) {
        return err_set(&answer->err, ERR_EXHAUSTED, "so many bytes are too many");
    }
    if ((f->c.kind == MASTER_CALL_OPEN && !f->c.standby.is_backup) ||
        (f->c.kind == MASTER_CALL_MEMBERSHIP && f->has_ledger)) {
        take_position(c, f, n);
    }
    answer->done.version = p->version;
    answer->has_ledger = f->c.kind != MASTER_CALL_OPEN && !p->sync &&
                         !(f->c.kind == MASTER_CALL_PIN && n->pinned_in_sync);
    answer->ledger = p->ledger;
    memcpy(answer->counts, p->counts, sizeof answer->counts);
    cluster_pins_answer(c, p, f, &answer->done);
    if (f->c.kind == MASTER_CALL_CHECKPOINT) {
        answer->done.version = p->pinned;
        answer->done.file = "shard.safetensors";
        answer->done.bytes = 10;
        answer->done.delta = f->c.base.directory != NULL && !n->knows_no_base;
    }
    return 0;
}

static void answer_inspect(const struct cluster *c, struct master_call_done *done)
{
    done->train = (struct dataset_info){.records = c->train_records,
                                        .features = {1, {4}},
                                        .label_is_class = true,
                                        .classes = c->classes,
                                        .label_scale = 1};
    done->encoding = c->encoding;
    done->test = done->train;
    done->test.records = c->test_records;
    if (c->from != NULL) {
        static const struct variable_spec variable = {
            .name = "w", .shape = {.rank = 2, .dims = {4, 3}}, .init = {.kind = INIT_GIVEN}};
        done->given = (struct given_variables){&variable, 1, 1};
        done->from = c->asked.begins ? c->from : "";
        done->from_fingerprint = c->asked.begins ? c->from_fingerprint : 0;
    }
}

static void answer_evaluate(const struct cluster *c, const struct flight *f,
                            struct master_call_done *done)
{
    static double packed[64];
    struct metrics sums;
    metrics_init(&sums, 1u << METRIC_LOSS | 1u << METRIC_ACCURACY);
    sums.examples = f->c.count;
    sums.weight = (double)f->c.count;
    const double far = fabs((double)f->pin_step - c->best_step);
    sums.correct = (double)f->c.count * (c->best_step > 0 ? 1 - far / 1024 : 0.5);
    done->sum_count = metrics_pack(&sums, packed);
    done->sums = packed;
    metrics_release(&sums);
}

static void take_assignment(struct cluster *c, const struct flight *f, struct fake_worker_job *w)
{
    w->idle_sent = false;
    w->hold = f->c.hold;
    if (f->c.hold) {
        w->limit = w->step;
        return;
    }
    if (w->assigned && f->c.generation == w->generation) {
        w->limit = f->c.step_limit > w->limit ? f->c.step_limit : w->limit;
        return;
    }
    assert_true(f->consistency.mode != TRAINING_SYNC || f->c.step <= f->c.step_limit);
    w->assigned = true;
    w->generation = f->c.generation;
    w->mode = (int)f->consistency.mode;
    w->step = f->c.step;
    w->limit = f->c.step_limit;
    w->done = w->leased = false;
    if (f->c.lease_count > 0) { /* what it has from now on */
        begin_lease(c, w, &f->lease);
    }
}

static int answer_of_worker(struct cluster *c, struct flight *f, struct fake_node *n,
                            struct flight *answer)
{
    struct fake_worker_job *w = &n->job;
    const bool mine = w->started && strcmp(w->job, f->job) == 0;
    const bool needs_it = f->c.kind == MASTER_CALL_ASSIGN || f->c.kind == MASTER_CALL_EVALUATE;
    if (needs_it && !mine) {
        return err_set(&answer->err, ERR_NOT_FOUND, "no job %s", f->job);
    }
    switch (f->c.kind) {
    case MASTER_CALL_INSPECT:
        c->asked.begins = f->c.begins;
        c->asked.inspections++;
        answer_inspect(c, &answer->done);
        return 0;
    case MASTER_CALL_START:
        c->asked.from_fingerprint = f->c.from_fingerprint;
        c->asked.places = f->c.shard_count;
        forget_worker_job(n);
        w->started = true;
        w->start = f->c.start;
        snprintf(w->job, sizeof w->job, "%s", f->job);
        return 0;
    case MASTER_CALL_ASSIGN:
        answer->done.position = w->step;
        take_assignment(c, f, w);
        return 0;
    case MASTER_CALL_EVALUATE:
        answer_evaluate(c, f, &answer->done);
        return 0;
    default:
        fake_drop_job(n, f->job);
        return 0;
    }
}

int fake_call(struct cluster *c, struct flight *f, struct fake_node *n, struct flight *answer)
{
    if (n != NULL && n->alive && n->crash_on == (unsigned)f->c.kind + 1) {
        cluster_kill(n);
    }
    if (n == NULL || !n->alive || n->incarnation != f->incarnation) {
        return err_set(&answer->err, ERR_UNAVAILABLE, "cannot connect");
    }
    const bool refuses = n->refuse != 0 && n->refuse_kind == f->c.kind;
    int rc = 0;
    if (!refuses || n->loses_answers) {
        rc = n->role == MASTER_PS ? answer_of_server(c, f, n, answer)
                                  : answer_of_worker(c, f, n, answer);
    }
    return refuses ? err_set(&answer->err, n->refuse, "refused by the test") : rc;
}
