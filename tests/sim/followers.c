/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of running jobs (gradus-serve --master): they pin a version on every shard, read it part
 * by part while the training goes on, and give it back, or die. What they read is one version of
 * all shards; a pin lasts as long as its lease, and no longer. Requests take their time, and get
 * lost. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/core/job_follow.h"

#define PATIENCE_US (10 * SIM_S) /* for an answer, as a client's deadline */
#define PAUSE_US (300 * SIM_MS)
#define ROUNDS_MAX 12

static uint64_t draw(struct world *w, uint64_t n)
{
    return world_draw(w, "followers", w->follow.draws++, n);
}

static void next(struct world *w, uint32_t index, uint64_t us)
{
    struct sim_follower *f = &w->follow.of[index];
    world_at(w, w->now_us + 1 + us, EVENT_FOLLOW, 0, index, ++f->turn);
}

void followers_begin(struct world *w)
{
    for (uint32_t i = 0; i < w->schedule->knobs.followers && i < SIM_FOLLOWERS_MAX; i++) {
        next(w, i, draw(w, 500 * SIM_MS));
    }
}

/* ---- leases, as they should be ---- */

static void lease_end(struct sim_shard *s, uint32_t i)
{
    s->leases.of[i] = s->leases.of[--s->leases.count];
}

static struct sim_lease *lease_find(struct sim_shard *s, uint64_t pin)
{
    for (uint32_t i = 0; i < s->leases.count; i++) {
        if (s->leases.of[i].pin == pin) {
            return &s->leases.of[i];
        }
    }
    return NULL;
}

static void lease_begin(struct world *w, struct sim_shard *s, const struct sim_read *q)
{
    if (s->leases.count == SHARD_READERS_MAX) {
        violated(w, INVARIANT_READ, "shard %u lets one reader more pin a version", s->number);
    }
    s->leases.of[s->leases.count++] = (struct sim_lease){q->pin, node_ms(w, s->node) + q->ms};
}

static void lease_pass(struct world *w, struct sim_shard *s)
{
    for (uint32_t i = s->leases.count; i-- > 0;) {
        if (s->leases.of[i].ends_ms <= node_ms(w, s->node)) {
            lease_end(s, i);
        }
    }
}

void followers_check(struct world *w, struct sim_shard *s)
{
    struct shard_info info;
    lease_pass(w, s);
    shard_info(s->core, &info);
    if (s->leases.kept > s->leases.count) {
        violated(w, INVARIANT_READ, "shard %u keeps %u versions for readers, whose leases are %u",
                 s->number, s->leases.kept, s->leases.count);
    }
    if (s->leases.kept > info.readers || info.readers > SHARD_READERS_MAX) {
        violated(w, INVARIANT_READ, "shard %u keeps %u versions for %zu readers", s->number,
                 s->leases.kept, info.readers);
    }
}

/* ---- asking ---- */

static struct sim_read *read_new(struct world *w, uint32_t index, uint32_t shard, uint32_t *number)
{
    const struct sim_follower *f = &w->follow.of[index];
    *number = w->follow.read_count++ % SIM_READS_MAX;
    struct sim_read *q = &w->follow.reads[*number];
    *q = (struct sim_read){.serial = w->follow.read_count,
                           .follower = index,
                           .turn = f->turn,
                           .shard = shard,
                           .pin = f->pin,
                           .request = SIM_NONE};
    return q;
}

static void send(struct world *w, uint32_t number)
{
    struct sim_read *q = &w->follow.reads[number];
    const struct sim_follower *f = &w->follow.of[q->follower];
    const bool lost = !w->quiet && q->kind != SIM_READ_GONE && draw(w, 40) == 0;
    if (!lost) {
        world_at(w, w->now_us + 1 + draw(w, 2 * (uint64_t)w->schedule->knobs.delay_us + 1),
                 EVENT_READ, f->of[q->shard].node, number, (uint32_t)q->serial);
    }
}

static void ask_all(struct world *w, uint32_t index, enum sim_read_kind kind)
{
    struct sim_follower *f = &w->follow.of[index];
    for (uint32_t s = 0; s < f->shards; s++) {
        uint32_t number;
        if (kind == SIM_READ_GONE && f->of[s].asked == SIM_NONE) {
            continue;
        }
        struct sim_read *q = read_new(w, index, s, &number);
        q->kind = kind;
        q->exact = f->exact;
        q->version = f->version;
        q->ms = f->ms;
        q->generation = f->generation;
        q->opening = f->of[s].opening;
        q->job = f->job;
        if (kind == SIM_READ_GONE) {
            q->request = f->of[s].asked;
            q->request_serial = f->of[s].asked_serial;
        }
        f->of[s].asked = SIM_NONE;
        send(w, number);
    }
}

/* The shards of a job that runs, as the master tells them. */
static bool ask_master(struct world *w, struct sim_follower *f)
{
    struct master_follow told = {0};
    struct err err = {0};
    const struct sim_job *j = &w->jobs[f->job];
    if (w->master == NULL || w->nodes[0].paused || !j->known ||
        master_follow(w->master, j->id, &told, &err) != 0) {
        return false;
    }
    f->shards = (uint32_t)told.shard_count;
    f->generation = told.job->generation;
    f->sync = told.sync;
    for (uint32_t s = 0; s < f->shards; s++) {
        f->of[s].node = node_at(w, told.shards[s].address);
        f->of[s].opening = told.shards[s].opening;
        f->of[s].asked = SIM_NONE;
        f->of[s].pinned = false;
    }
    free(told.shards);
    return true;
}

/* A little ahead of all shards, as a reader finds them a moment before. */
static uint64_t ahead(struct world *w, const struct sim_follower *f)
{
    uint64_t version = 0;
    for (uint32_t s = 0; s < f->shards; s++) {
        const struct sim_shard *there = ps_shard_there(w, f->of[s].node, f->job, s);
        const uint64_t v = there == NULL ? 0 : there->snapshots[there->present].version;
        version = v > version ? v : version;
    }
    return version + draw(w, 4);
}

static void begin(struct world *w, uint32_t index)
{
    struct sim_follower *f = &w->follow.of[index];
    f->reading = false;
    f->job = (uint32_t)draw(w, w->schedule->job_count);
    if (f->rounds == ROUNDS_MAX) {
        return;
    }
    if (!ask_master(w, f)) {
        next(w, index, 1 + draw(w, PAUSE_US));
        return;
    }
    f->rounds++;
    f->pin = ++w->follow.pins;
    f->exact = f->sync && draw(w, 2) == 0;
    f->version = f->exact ? ahead(w, f) : 0;
    f->ms = 1 + draw(w, draw(w, 2) == 0 ? 50 : 5000);
    f->dies = draw(w, 4) == 0;
    f->busy = true;
    next(w, index, PATIENCE_US); /* unless all answer before */
    ask_all(w, index, SIM_READ_PIN);
}

/* All have pinned a version: is it one? */
static void check_level(struct world *w, const struct sim_follower *f)
{
    for (uint32_t s = 1; s < f->shards; s++) {
        const bool same = f->of[s].version == f->of[0].version;
        if (f->exact && !same) {
            violated(w, INVARIANT_READ,
                     "a reader has pinned version %llu of shard 0 and %llu of %u",
                     (unsigned long long)f->of[0].version, (unsigned long long)f->of[s].version, s);
        }
        if (f->sync && same && !ids_equal(&f->of[s].ids, &f->of[0].ids)) {
            violated(w, INVARIANT_READ,
                     "version %llu that a reader has pinned is of other batches on shard %u",
                     (unsigned long long)f->of[0].version, s);
        }
    }
}

static void read_on(struct world *w, uint32_t index)
{
    struct sim_follower *f = &w->follow.of[index];
    if (f->dies && draw(w, 3) == 0) {
        f->busy = false; /* nobody gives its pins back */
        next(w, index, draw(w, PAUSE_US));
        return;
    }
    if (f->parts-- == 0) {
        ask_all(w, index, SIM_READ_END);
        f->busy = false;
        w->counts.versions_read++;
        next(w, index, draw(w, PAUSE_US));
        return;
    }
    ask_all(w, index, SIM_READ_PART);
    next(w, index, draw(w, 40 * SIM_MS));
}

void follower_turn(struct world *w, uint32_t index, uint32_t turn)
{
    struct sim_follower *f = &w->follow.of[index];
    if (w->ended || turn != f->turn) {
        return;
    }
    if (!f->busy) {
        begin(w, index);
    } else if (f->reading) {
        read_on(w, index);
    } else { /* somebody does not answer */
        ask_all(w, index, SIM_READ_GONE);
        if (draw(w, 2) == 0) {
            ask_all(w, index, SIM_READ_END);
        }
        f->busy = false;
        next(w, index, draw(w, PAUSE_US));
    }
}

/* ---- at the shard ---- */

void follower_asks(struct world *w, uint32_t node, uint32_t number, uint32_t serial)
{
    struct sim_read *q = &w->follow.reads[number];
    struct sim_shard *s =
        (uint32_t)q->serial == serial ? ps_shard_there(w, node, q->job, q->shard) : NULL;
    struct shard_event e = {
        .kind = SHARD_READ, .generation = q->generation, .fence = {.opening = q->opening}};
    char id[32];
    if (s == NULL || !s->open) {
        return;
    }
    if (q->kind == SIM_READ_GONE) {
        struct sim_request *r = &w->requests[q->request];
        if (q->request < w->request_count && r->used && r->serial == q->request_serial) {
            struct shard_event gone = {.kind = SHARD_GONE, .tag = request_tag(w, r)};
            const uint32_t life = w->nodes[node].life;
            shard_take(w, s, &gone);
            if (w->nodes[node].life == life) {
                request_drop(w, &w->requests[q->request]);
            }
        }
        return;
    }
    snprintf(id, sizeof id, "f%llu", (unsigned long long)q->pin);
    e.pin_id = id;
    e.read.kind = q->kind == SIM_READ_PIN   ? SHARD_READ_PIN
                  : q->kind == SIM_READ_END ? SHARD_READ_END
                                            : SHARD_READ_PART;
    e.read.exact = q->exact;
    e.read.version = q->version;
    e.read.ms = q->ms;
    lease_pass(w, s);
    q->leased = lease_find(s, q->pin) != NULL && s->fence.opening == q->opening;
    if (q->leased && q->kind == SIM_READ_PART) {
        lease_find(s, q->pin)->ends_ms = node_ms(w, node) + q->ms;
    }
    struct sim_request *r = request_new(w, s);
    r->read = number;
    q->request = (uint32_t)(r - w->requests);
    q->request_serial = r->serial;
    if (w->follow.of[q->follower].pin == q->pin && q->kind == SIM_READ_PIN) {
        w->follow.of[q->follower].of[q->shard].asked = q->request;
        w->follow.of[q->follower].of[q->shard].asked_serial = r->serial;
    }
    e.tag = request_tag(w, r);
    shard_take(w, s, &e);
    ps_sweep(w, node);
}

static const struct snapshot_slot *snapshot_of(const struct sim_shard *s, uint64_t version)
{
    for (uint32_t i = 0; i < SIM_SNAPSHOTS_MAX; i++) {
        if (s->snapshots[i].refs > 0 && s->snapshots[i].version == version) {
            return &s->snapshots[i];
        }
    }
    return NULL;
}

static void pinned(struct world *w, struct sim_shard *s, struct sim_read *q, uint64_t version)
{
    struct sim_follower *f = &w->follow.of[q->follower];
    const struct snapshot_slot *snapshot = snapshot_of(s, version);
    if (version != s->snapshots[s->present].version || (q->exact && version != q->version)) {
        violated(w, INVARIANT_READ, "a reader that wants version %llu of shard %u gets %llu",
                 (unsigned long long)q->version, s->number, (unsigned long long)version);
    }
    given_check(w, s, "is pinned by a reader");
    if (f->pin != q->pin || f->turn != q->turn || f->of[q->shard].pinned) {
        return; /* it waits no longer */
    }
    f->of[q->shard].pinned = true;
    f->of[q->shard].asked = SIM_NONE;
    f->of[q->shard].version = version;
    f->of[q->shard].ids = snapshot->ids;
    f->of[q->shard].values = snapshot->t;
    memset(f->of[q->shard].cursors, 0, sizeof f->of[q->shard].cursors);
    memset(f->of[q->shard].rows, 0, sizeof f->of[q->shard].rows);
    for (uint32_t i = 0; i < f->shards; i++) {
        if (!f->of[i].pinned) {
            return;
        }
    }
    check_level(w, f);
    f->reading = true;
    f->parts = 1 + (uint32_t)draw(w, 24);
    next(w, q->follower, draw(w, 20 * SIM_MS));
}

/* The pin is there: values, and rows where there was room for copies of what changed. */
static void check_part(struct world *w, struct sim_shard *s, const struct sim_read *q,
                       uint64_t version)
{
    struct sim_follower *f = &w->follow.of[q->follower];
    if (f->pin != q->pin || !f->reading) {
        return;
    }
    struct sim_followed *of = &f->of[q->shard];
    const struct snapshot_slot *snapshot = snapshot_of(s, version);
    if (version != of->version || snapshot == NULL || !ids_equal(&snapshot->ids, &of->ids) ||
        memcmp(snapshot->t.v, of->values.v, s->elements * sizeof *snapshot->t.v) != 0) {
        violated(w, INVARIANT_READ, "a reader has pinned version %llu of shard %u and reads %llu",
                 (unsigned long long)of->version, s->number, (unsigned long long)version);
    }
    if (s->tables != NULL) {
        const uint32_t table = (uint32_t)draw(w, SIM_TABLE_COUNT);
        tables_part(w, s, version, table, 1 + draw(w, 20), &of->cursors[table], &of->rows[table]);
    }
}

void follower_answered(struct world *w, struct sim_shard *s, struct sim_request *r,
                       const struct shard_action *a)
{
    struct sim_read *q = &w->follow.reads[r->read];
    if (q->request != (uint32_t)(r - w->requests) || q->request_serial != r->serial) {
        violated(w, INVARIANT_ORDER, "a reader asks for too much at once");
    }
    request_drop(w, r);
    if (q->kind == SIM_READ_PART && (a->code == 0) != q->leased && s->fence.opening == q->opening) {
        violated(w, INVARIANT_READ, "a pin of shard %u is %s, and its lease is %s", s->number,
                 a->code == 0 ? "read" : "gone", q->leased ? "not over" : "over");
    }
    if (a->code != 0) {
        struct sim_follower *f = &w->follow.of[q->follower];
        if (q->kind == SIM_READ_PIN && f->pin == q->pin && f->turn == q->turn) {
            f->of[q->shard].asked = SIM_NONE;
        }
        return;
    }
    if (q->kind == SIM_READ_PIN) {
        lease_begin(w, s, q);
        pinned(w, s, q, a->version);
    } else if (q->kind == SIM_READ_END && lease_find(s, q->pin) != NULL) {
        lease_end(s, (uint32_t)(lease_find(s, q->pin) - s->leases.of));
    } else if (q->kind == SIM_READ_PART) {
        check_part(w, s, q, a->version);
    }
}
