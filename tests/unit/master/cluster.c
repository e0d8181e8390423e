/* SPDX-License-Identifier: Apache-2.0 */
/* Time, messages, disk and store around the master's core. */
#include "cluster.h"

#include "base/mem.h"
#include "base/rng.h"

struct fence *cluster_fence(struct cluster *c, const char *job)
{
    size_t i = 0;
    while (c->fences[i].job[0] != 0 && strcmp(c->fences[i].job, job) != 0) {
        assert_true(++i < JOBS_MAX);
    }
    snprintf(c->fences[i].job, sizeof c->fences[i].job, "%s", job);
    return &c->fences[i].fence;
}

uint64_t cluster_draw(struct cluster *c, uint64_t n)
{
    return n == 0 ? 0 : rng_below(c->seed, c->draws++, n);
}

struct fake_node *cluster_node(struct cluster *c, const char *id)
{
    for (size_t i = 0; i < c->node_count; i++) {
        if (c->nodes[i].joined && strcmp(c->nodes[i].id, id) == 0) {
            return &c->nodes[i];
        }
    }
    return NULL;
}

bool cluster_holds(struct cluster *c, const char *node, const char *job)
{
    const struct fake_node *n = cluster_node(c, node);
    for (size_t i = 0; n != NULL && n->alive && i < 2 * MASTER_JOBS_PER_PS_MAX; i++) {
        if (strcmp(n->shards[i].job, job) == 0) {
            return true;
        }
    }
    return false;
}

size_t cluster_stored(const struct cluster *c, const char *job)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (strcmp(c->stored[i].job, job) == 0) {
            return i;
        }
    }
    fail_msg("no row of job %s", job);
    return 0;
}

struct fake_checkpoint *cluster_checkpoint(struct cluster *c, const char *job)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (strcmp(c->disk[i].job, job) == 0) {
            return &c->disk[i];
        }
    }
    return NULL;
}

static struct flight *new_flight(struct cluster *c, enum flight_kind kind)
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

/* ---- what the core asks for ---- */

/* What everybody may rely on, whatever is tested. */
static void watch(struct cluster *c, const struct job_record *r)
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
    assert_true(r->step >= c->seen[i].step || r->recoveries > 0 || r->resumes > 0);
    if (job_state_is_final(c->seen[i].state) && r->resumes == c->seen[i].resumes) {
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
    c->seen[i].resumes = r->resumes;
}

/* What a call points to is there until the next step, whatever became of its job in this one; a
 * sanitizer sees what is not. */
static void read_call(const struct cluster *c, const struct master_call *call)
{
    const char *const texts[] = {call->job,    call->text,      call->node,   call->address,
                                 call->pin_id, call->directory, call->restore};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_true(texts[i] == NULL || strlen(texts[i]) < 65536);
    }
    for (size_t i = 0; i < call->worker_count; i++) {
        assert_true(call->workers[i][0] != '\0');
    }
    bool speaks = call->kind == MASTER_CALL_ASSIGN || call->kind == MASTER_CALL_EVALUATE ||
                  (call->kind == MASTER_CALL_START && c->from != NULL); /* brings values */
    assert_true((call->shard_count > 0) == speaks); /* the worker will, to shards */
    for (size_t i = 0; i < call->shard_count; i++) {
        assert_int_equal(call->shards[i].shard, i);
        assert_true(call->shards[i].node[0] != '\0' && call->shards[i].address[0] != '\0');
        assert_true(call->shards[i].opening != 0);
    }
}

static void store(struct cluster *c, const struct master_store *store)
{
    assert_true(c->row_count < 64);
    snprintf(c->rows[c->row_count].job, 64, "%s", store->job->id);
    c->rows[c->row_count].row = store->row;
    c->rows[c->row_count++].failed = c->store_fails;
    for (size_t i = 0; i < JOBS_MAX && !c->store_fails; i++) {
        if (c->stored[i].job[0] == '\0' || strcmp(c->stored[i].job, store->job->id) == 0) {
            snprintf(c->stored[i].job, sizeof c->stored[i].job, "%s", store->job->id);
            c->stored[i].generation = store->job->generation;
            c->stored[i].adoptions = store->job->adoptions;
            c->stored[i].state = store->job->state;
            c->stored[i].mode = store->job->consistency.mode;
            c->store_fails = c->full_after == (int)store->job->consistency.mode + 1;
            break;
        }
    }
}

static void take_call(struct cluster *c, const struct master_call *call)
{
    read_call(c, call);
    *cluster_fence(c, call->job) = call->fence;
    if (call->kind != MASTER_CALL_INSPECT) {
        assert_true(call->generation <= c->stored[cluster_stored(c, call->job)].generation);
    }
    if (call->kind == MASTER_CALL_INSPECT || call->kind == MASTER_CALL_START) {
        char *said =
            call->kind == MASTER_CALL_START ? c->asked.start_encoding : c->asked.inspect_encoding;
        snprintf(said, sizeof c->asked.start_encoding, "%s", call->encoding);
    }
    if (call->kind == MASTER_CALL_STOP) {
        snprintf(c->stop_reason, sizeof c->stop_reason, "%s", call->reason);
    }
    struct flight *f = new_flight(c, FLIGHT_CALL);
    f->c = *call;
    snprintf(f->node, sizeof f->node, "%s", call->node);
    snprintf(f->job, sizeof f->job, "%s", call->job);
    f->has_backup = call->standby.backup.node != NULL;
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
    const struct fake_node *n = cluster_node(c, call->node);
    f->incarnation = n == NULL ? 0 : n->incarnation;
    f->ms += n != NULL && n->slow_kind == call->kind ? n->slow_ms : 0;
    if (call->kind == MASTER_CALL_EVALUATE) {
        f->pin_step = strtoull(call->pin_id + sizeof "step-" - 1, NULL, 10);
    }
    snprintf(f->pin_id, sizeof f->pin_id, "%s", call->pin_id == NULL ? "" : call->pin_id);
    c->evaluations_sent += call->kind == MASTER_CALL_EVALUATE;
    c->calls[call->kind]++;
}

static void take_manifest(struct cluster *c, const struct master_manifest *m)
{
    struct flight *f = new_flight(c, FLIGHT_MANIFEST);
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
    p->best = m->best;
    p->result_is_best = m->result_is_best;
    p->train_epoch = m->train_epoch;
    p->train_sum_count = m->train_sum_count;
    assert_true(m->train_sum_count <= 16);
    for (size_t i = 0; i < m->train_sum_count; i++) {
        p->train_sums[i] = m->train_sums[i];
    }
    assert_true(c->manifests < 64);
    (void)snprintf(c->manifest_bases[c->manifests], sizeof c->manifest_bases[0], "%s",
                   m->base == NULL ? "" : m->base);
    c->manifest_steps[c->manifests++] = m->step;
}

static void take_reply(struct cluster *c, const struct master_reply *r)
{
    for (size_t k = 0; k < JOBS_MAX; k++) {
        if (c->waiting[k] != 0 && c->waiting[k] == r->request) {
            c->waiting[k] = 0;
            c->answered[k] = true;
            c->answer[k] = r->err;
        }
    }
    fake_reply(c, r);
    if (r->request == c->request) {
        c->reply = *r;
        c->reply.stop_openings = c->reply_openings;
        assert_true(r->stop_opening_count <= 8);
        for (size_t i = 0; i < r->stop_opening_count; i++) {
            c->reply_openings[i] = r->stop_openings[i];
        }
        snprintf(c->reply_problem, sizeof c->reply_problem, "%s",
                 r->drained.count > 0 && r->drained.held[0].problem != NULL
                     ? r->drained.held[0].problem
                     : "");
        c->reply_state = r->job != NULL ? r->job->state : JOB_PENDING;
        const char *text = r->job != NULL    ? r->job->id
                           : r->node != NULL ? r->node
                           : r->path != NULL ? r->path
                                             : "";
        snprintf(c->reply_text, sizeof c->reply_text, "%s", text);
        snprintf(c->reply_unready, sizeof c->reply_unready, "%s",
                 r->unready == NULL ? "" : r->unready);
    }
}

static void take_find(struct cluster *c, const struct master_find *find)
{
    struct flight *f = new_flight(c, FLIGHT_FIND);
    f->number = find->number;
    snprintf(f->job, sizeof f->job, "%s", find->job->id);
    c->avoided = find->avoid_count;
}

static void take_log(const struct cluster *c, const struct master_log *log)
{
    assert_string_not_equal(log->event, "job_state_refused");
    if (getenv("GRADUS_TEST_TRACE") != NULL) {
        fprintf(stderr, "%8" PRIu64 " %s %s\n", c->now, log->event, log->text);
    }
}

static void take(struct cluster *c)
{
    c->timer = c->actions.timer_ms;
    for (size_t i = 0; i < c->actions.count; i++) {
        const struct master_action *x = &c->actions.items[i];
        switch (x->kind) {
        case MASTER_REPLY:
            take_reply(c, &x->reply);
            break;
        case MASTER_CALL:
            take_call(c, &x->call);
            break;
        case MASTER_PREPARE:
            new_flight(c, FLIGHT_PREPARE)->number = x->prepare.number;
            c->discards += x->prepare.discard;
            break;
        case MASTER_PRUNE:
            c->prunes += !x->prune.release;
            c->releases += x->prune.release;
            break;
        case MASTER_MANIFEST:
            take_manifest(c, &x->manifest);
            break;
        case MASTER_FIND:
            take_find(c, &x->find);
            break;
        case MASTER_STORE:
            store(c, &x->store);
            break;
        case MASTER_CHANGED:
            watch(c, x->job);
            break;
        case MASTER_LOG:
            take_log(c, &x->log);
            break;
        }
    }
}

void cluster_event(struct cluster *c, struct master_event *e)
{
    e->now_ms = c->now;
    e->wall_ms = (int64_t)c->now;
    master_step(c->m, e, &c->actions);
    take(c);
    for (size_t i = 0; i < c->row_count; i++) {
        struct err err = {0};
        struct master_event stored = {
            .kind = MASTER_STORED, .now_ms = c->now, .wall_ms = (int64_t)c->now};
        (void)err_set(&err, ERR_EXHAUSTED, "database or disk is full");
        stored.stored =
            (struct master_stored){c->rows[i].job, c->rows[i].row, c->rows[i].failed ? &err : NULL};
        master_step(c->m, &stored, &c->actions);
        take(c);
    }
    c->row_count = 0;
}

/* ---- what comes back ---- */

static void answer_comes(struct cluster *c, struct flight *f)
{
    struct master_event e = {.kind = MASTER_CALL_DONE};
    e.call = f->done;
    e.call.number = f->number;
    e.call.err = f->failed ? &f->err : NULL;
    f->ledger.done = f->counts;
    e.call.ledger = f->has_ledger ? &f->ledger : NULL;
    cluster_event(c, &e);
}

static void find_comes(struct cluster *c, const struct flight *f)
{
    const bool none = c->find_gone || (c->only_one && c->avoided > 0);
    struct fake_checkpoint *p = none ? NULL : cluster_checkpoint(c, f->job);
    struct master_event e = {.kind = MASTER_FOUND};
    struct err err = {0};
    char best_path[128];
    (void)snprintf(best_path, sizeof best_path, "%s/step-%09" PRIu64, f->job,
                   p == NULL ? 0 : p->best.kept_step);
    (void)err_set(&err, c->find_fails, "the disk does not answer");
    e.found = (struct master_found){.number = f->number,
                                    .found = p != NULL,
                                    .skipped = c->find_gone ? "nothing is there" : "",
                                    .err = c->find_fails != 0 ? &err : NULL};
    if (p != NULL) {
        p->ledger.done = p->counts;
        e.found.directory = p->directory;
        e.found.encoding = c->encoding;
        e.found.path = p->directory;
        e.found.step = p->step;
        e.found.version = p->version;
        e.found.ledger = &p->ledger;
        e.found.train_epoch = p->train_epoch;
        e.found.best = &p->best;
        e.found.best_path = p->best.kept ? best_path : NULL;
        e.found.train_sums = p->train_sums;
        e.found.train_sum_count = c->old_manifests ? 0 : p->train_sum_count;
    }
    cluster_event(c, &e);
}

static void manifest_comes(struct cluster *c, const struct flight *f)
{
    struct err err = {0};
    err_set(&err, c->manifest_code == 0 ? ERR_EXHAUSTED : c->manifest_code, "no space left");
    for (size_t i = 0; i < JOBS_MAX && !c->manifest_fails; i++) {
        if (c->disk[i].job[0] == '\0' || strcmp(c->disk[i].job, f->checkpoint.job) == 0) {
            c->disk[i] = f->checkpoint;
            break;
        }
    }
    struct master_event e = {.kind = MASTER_MANIFEST_DONE};
    e.manifest = (struct master_files_done){f->number, c->manifest_fails ? &err : NULL, f->job};
    cluster_event(c, &e);
}

/* A call to a node that is frozen: it lies in the node's socket. */
static bool waits_for_node(struct cluster *c, struct flight *f)
{
    const struct fake_node *n = f->kind == FLIGHT_CALL ? cluster_node(c, f->node) : NULL;
    if (n == NULL || !n->alive || n->frozen_ms <= c->now) {
        return false;
    }
    f->ms = n->frozen_ms;
    return true;
}

static void land(struct cluster *c, struct flight *f)
{
    if (waits_for_node(c, f)) {
        return;
    }
    struct flight flown = *f;
    f->used = false;
    switch (flown.kind) {
    case FLIGHT_ANSWER:
        answer_comes(c, &flown);
        break;
    case FLIGHT_PREPARE: {
        struct master_event e = {.kind = MASTER_PREPARE_DONE};
        e.prepare = (struct master_files_done){.number = flown.number};
        cluster_event(c, &e);
        break;
    }
    case FLIGHT_FIND:
        find_comes(c, &flown);
        break;
    case FLIGHT_MANIFEST:
        manifest_comes(c, &flown);
        break;
    case FLIGHT_CALL: {
        struct flight *answer = new_flight(c, FLIGHT_ANSWER);
        answer->number = flown.c.number;
        answer->failed = fake_call(c, &flown, cluster_node(c, flown.node), answer) < 0;
        answer->done.problem = flown.c.kind == MASTER_CALL_OPEN ? c->cannot_save : NULL;
        break;
    }
    }
}

/* ---- the clock ---- */

void cluster_advance(struct cluster *c)
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
        land(c, flight);
    } else {
        struct master_event e = {.kind = MASTER_TICK};
        cluster_event(c, &e);
    }
}

void cluster_run_ms(struct cluster *c, uint64_t ms)
{
    uint64_t end = c->now + ms;
    while (c->now < end) {
        cluster_advance(c);
    }
}

const struct job_record *cluster_job(struct cluster *c, const char *id)
{
    const struct job_record *r = master_job(c->m, id, c->now);
    assert_non_null(r);
    return r;
}

void cluster_assert_reason(struct cluster *c, const char *id, const char *words)
{
    const char *reason = cluster_job(c, id)->reason;
    if (strstr(reason, words) == NULL) {
        fail_msg("no \"%s\" in \"%s\"", words, reason);
    }
}

const struct job_record *cluster_until(struct cluster *c, const char *id, enum job_state state,
                                       uint64_t ms)
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

const struct job_record *cluster_run_to_end(struct cluster *c, const char *id)
{
    return cluster_until(c, id, JOB_SUCCEEDED, 300000);
}

void cluster_until_in(struct cluster *c, const char *id, const char *where)
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

struct cluster *cluster_new(uint64_t seed, size_t ps, size_t workers)
{
    return cluster_new_with(seed, ps, workers, &(struct master_config){0});
}

struct cluster *cluster_new_with(uint64_t seed, size_t ps, size_t workers,
                                 const struct master_config *config)
{
    struct cluster *c = mem_new(1, sizeof *c);
    c->config = *config;
    c->config.heartbeat_timeout_ms = 3000;
    c->config.jobs_max = config->jobs_max == 0 ? 16 : config->jobs_max;
    c->config.finished_max = 100;
    c->m = master_new(&c->config);
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

void cluster_restart_master(struct cluster *c, const char *id)
{
    struct job_record r;
    struct job_spec spec = {0};
    struct diags d = {0};
    job_record_copy(&r, cluster_job(c, id));
    if (c->row_of_start) {
        r.step = r.examples = 0;
        r.epoch = 0;
        c->seen_count = 0;
        memset(c->seen, 0, sizeof c->seen);
    }
    r.handover.format += c->format_more;
    r.handover.protocol += c->protocol_more;
    if (c->other_unsound) {
        assert_true(r.handover.other_count > 0);
        r.handover.others[0].incarnation++;
        r.handover.others[0].address[0] = '\0';
    }
    assert_int_equal(job_spec_parse(r.text, strlen(r.text), "row", NULL, 0, &spec, &d), 0);
    diags_release(&d);
    master_free(c->m);
    memset(c->flights, 0, sizeof c->flights);
    c->config.seeds[2]++;
    c->m = master_new(&c->config);
    struct master_event e = {.kind = MASTER_RESTORE};
    e.restore = (struct master_restore_event){.record = &r, .spec = &spec};
    cluster_event(c, &e);
    job_spec_release(&spec);
    job_record_release(&r);
}

void cluster_free(struct cluster *c)
{
    master_free(c->m);
    master_actions_release(&c->actions);
    buf_release(&c->trace);
    free(c);
}
