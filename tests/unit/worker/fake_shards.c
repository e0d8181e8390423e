/* SPDX-License-Identifier: Apache-2.0 */
/* What the small parameter servers do with a request. */
#include "fake_shards.h"

static void fake_answer(const struct fake_shard *s, const struct fake_request *r, int code,
                        struct fake_answers *out)
{
    const struct asked *a = &r->ask;
    struct worker_exchanged *e = &out->items[out->count].answer;
    out->items[out->count].worker = r->worker;
    out->items[out->count].request = *a;
    *e = (struct worker_exchanged){.exchange = a->exchange, .code = code, .message = "refused"};
    if (code == 0) {
        e->answer.train.push = r->result;
        e->answer.train.clock = a->joins ? s->clock[r->worker] : 0;
        e->version = a->pull == ASKED_PULL_VERSION ? a->version : s->version;
        if (a->progress) {
            e->answer.train.progress = s->done[a->batch.epoch][a->batch.split];
        }
        uint32_t set =
            (a->push || a->ask_sums) && s->number == 0 && consistency_is_partial(&s->consistency)
                ? s->decided[a->step]
                : 0;
        if (set != 0) {
            e->answer.decision.step = a->step;
            e->answer.decision.bytes = (s->consistency.replicas + 7) / 8;
            memcpy(out->items[out->count].decision, &set, 4); /* little-endian, as bits are */
        }
    }
    out->count++;
}

static void fake_park(struct fake_shard *s, const struct fake_request *r)
{
    assert_true(s->parked_count < FAKE_PARKED_MAX);
    s->parked[s->parked_count++] = *r;
}

uint32_t fake_shard_mask(const struct asked *a)
{
    uint32_t below_end = a->replica_end == 32 ? UINT32_MAX : (UINT32_C(1) << a->replica_end) - 1;
    return below_end & ~((UINT32_C(1) << a->replica_first) - 1);
}

static uint32_t fake_count(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

/* ---- sync ---- */

static void fake_apply(struct fake_shard *s)
{
    s->applied[s->version] = s->begun;
    if (s->rounds > 0) {
        s->totals_of[s->version] = s->totals[s->rounds - 1];
        memcpy(s->totals_last, s->totals, sizeof s->totals);
    }
    s->version++;
    s->begun = 0;
    s->settled = 0;
    assert_true(s->version < FAKE_STEPS_MAX);
    s->in = 0;
    s->empty = 0;
}

static void fake_step_complete(struct fake_shard *s, uint32_t set)
{
    s->begun = set;
    s->decided[s->version] = set;
    if (s->rounds == 0) {
        fake_apply(s);
    }
}

/* The partial sum of the present round: another one on every shard. */
static uint64_t fake_partial(const struct fake_shard *s)
{
    uint64_t before = s->settled == 0 ? s->version + 1 : s->totals[s->settled - 1];
    return (before * 31 + s->begun) * (s->number + 1);
}

static void fake_step_check(struct fake_shard *s)
{
    uint32_t all = s->consistency.replicas;
    if (s->begun != 0) {
        return;
    }
    if (!consistency_is_partial(&s->consistency)) {
        if (fake_count(s->in) == all) {
            fake_step_complete(s, s->in);
        }
        return;
    }
    if (s->number == 0 && s->decided[s->version] == 0) {
        uint32_t possible = all - fake_count(s->empty);
        uint32_t enough = s->consistency.aggregate < possible ? s->consistency.aggregate : possible;
        if (s->in != 0 && fake_count(s->in & ~s->empty) >= enough) {
            fake_step_complete(s, s->in);
        }
    } else if (s->decided[s->version] != 0 && (s->decided[s->version] & ~s->in) == 0) {
        fake_step_complete(s, s->decided[s->version]);
    }
}

/* The result of a push of a step; PUSH_NONE: it waits. */
static enum push_result fake_push_result(const struct fake_shard *s, const struct asked *a)
{
    uint32_t mask = fake_shard_mask(a);
    if (a->step < s->version) {
        return (s->applied[a->step] & mask) == mask ? PUSH_APPLIED : PUSH_STALE;
    }
    return consistency_is_partial(&s->consistency) ? PUSH_NONE : PUSH_ACCEPTED;
}

static void fake_push_sync(struct fake_shard *s, struct fake_request *r)
{
    const struct asked *a = &r->ask;
    assert_true(a->step <= s->version); /* nobody can be further than all shards are */
    uint32_t mask = fake_shard_mask(a);
    bool duplicate = a->step < s->version || (s->in & mask) == mask;
    if (a->step == s->version && !duplicate) {
        s->in |= mask;
        s->empty |= a->examples == 0 ? mask : 0;
        s->by_spare[a->step] |= a->spare ? mask : 0;
        fake_step_check(s);
        r->result = fake_push_result(s, a);
    } else {
        r->result = fake_push_result(s, a);
        if (r->result == PUSH_APPLIED || r->result == PUSH_ACCEPTED) {
            r->result = PUSH_DUPLICATE;
        }
    }
}

/* The replicas that the step waits for; @known: false while that is not decided. */
static uint32_t fake_lacks(const struct fake_shard *s, bool *known)
{
    uint32_t all = (uint32_t)((UINT64_C(1) << s->consistency.replicas) - 1);
    uint32_t wanted = consistency_is_partial(&s->consistency) ? s->decided[s->version] : all;
    *known = wanted != 0;
    return wanted & ~s->in;
}

static void fake_spare(struct fake_shard *s, const struct fake_request *r, struct fake_answers *out)
{
    const struct asked *a = &r->ask;
    assert_true(a->step <= s->version);
    assert_false(a->push || a->pull != ASKED_PULL_NONE);
    fake_answer(s, r, 0, out);
    struct worker_exchanged *e = &out->items[out->count - 1].answer;
    e->answer.kind = EXCHANGE_SPARE;
    if (a->step < s->version) {
        return; /* over */
    }
    bool known;
    uint32_t lacks = fake_lacks(s, &known);
    e->answer.spare.wait_ms = known && lacks == 0 ? 0 : 5;
    if (++s->spares_wanted % 3 == 0) {
        return;
    }
    for (uint32_t k = s->consistency.replicas; k-- > 0 && !e->answer.spare.given;) {
        if ((lacks & (UINT32_C(1) << k)) != 0) {
            e->answer.spare.given = true;
            e->answer.spare.replica = k;
        }
    }
}

static void fake_decision(struct fake_shard *s, const struct asked *a)
{
    uint32_t set = 0;
    assert_true(a->decision_bytes <= 4 && s->number != 0);
    memcpy(&set, a->decision, a->decision_bytes);
    assert_true(a->decision_step <= s->version && set != 0);
    uint32_t *known = &s->decided[a->decision_step];
    assert_true(*known == 0 || *known == set);
    *known = set;
    if (a->decision_step == s->version) {
        fake_step_check(s);
    }
}

/* ---- async, bounded ---- */

/* What the worker says of itself; on every shard the same. */
static void fake_says(struct fake_shard *s, size_t worker, uint64_t clock)
{
    s->clock[worker] = clock > s->clock[worker] ? clock : s->clock[worker];
}

/* It comes back at the pace of the slowest. */
static void fake_join(struct fake_shard *s, size_t worker)
{
    uint64_t pace = UINT64_MAX;
    for (size_t k = 0; k < s->workers; k++) {
        pace = !s->inactive[k] && s->clock[k] < pace ? s->clock[k] : pace;
    }
    fake_says(s, worker, pace == UINT64_MAX ? 1 : pace);
}

/* Returns 0 or the error that a shard would send. */
static int fake_push_async(struct fake_shard *s, struct fake_request *r)
{
    const struct asked *a = &r->ask;
    const struct consistency *c = &s->consistency;
    uint32_t *done = &s->done[a->batch.epoch][a->batch.split];
    assert_true(a->batch_end > a->batch.batch);
    assert_true(a->base_version <= s->version);
    bool decides = c->policy == POLICY_MAX_STALENESS;
    assert_true(!decides || a->decided == (s->number != 0));
    s->inactive[r->worker] = false;
    if (a->batch_end <= *done) {
        fake_says(s, r->worker, a->clock);
        r->result = PUSH_DUPLICATE;
        return 0;
    }
    if (a->batch.batch != *done) {
        return ERR_RANGE;
    }
    if (decides && s->number == 0 && s->version - a->base_version > c->max_staleness) {
        r->result = PUSH_DROPPED;
        return 0;
    }
    fake_says(s, r->worker, a->clock);
    *done = a->batch_end;
    s->version++;
    r->result = PUSH_APPLIED;
    return 0;
}

static bool fake_is_ahead(const struct fake_shard *s, size_t worker)
{
    for (size_t k = 0; k < s->workers && s->consistency.mode == TRAINING_BOUNDED; k++) {
        if (!s->inactive[k] && s->clock[worker] > s->clock[k] + s->consistency.staleness) {
            return true;
        }
    }
    return false;
}

/* ---- requests ---- */

/* As the shard's core does it. */
static void fake_settle(struct fake_shard *s, const struct fake_request *r)
{
    const struct asked *a = &r->ask;
    assert_true(a->step <= s->version && a->round < s->rounds);
    if (a->step < s->version || a->round < s->settled) {
        return;
    }
    assert_true(s->begun != 0 && a->round == s->settled);
    s->totals[s->settled++] = r->totals;
    if (s->settled == s->rounds) {
        fake_apply(s);
    }
}

static bool fake_try_sums(struct fake_shard *s, const struct fake_request *r,
                          struct fake_answers *out)
{
    const struct asked *a = &r->ask;
    assert_true(a->step <= s->version && a->round < s->rounds);
    bool past = a->step < s->version;
    bool known = past || a->round < s->settled;
    if (!known && (s->begun == 0 || a->round > s->settled)) {
        return false;
    }
    fake_answer(s, r, 0, out);
    struct worker_exchanged *e = &out->items[out->count - 1].answer;
    e->answer.kind = EXCHANGE_SUMS;
    e->answer.sums.known = known;
    e->answer.sums.over = a->step + 1 < s->version;
    out->items[out->count - 1].sums = past    ? s->totals_last[a->round]
                                      : known ? s->totals[a->round]
                                              : fake_partial(s);
    return true;
}

/* Answer it if it can be; false: it must wait. */
static bool fake_try(struct fake_shard *s, struct fake_request *r, struct fake_answers *out)
{
    const struct asked *a = &r->ask;
    bool sync = s->consistency.mode == TRAINING_SYNC;
    if (a->ask_sums) {
        return fake_try_sums(s, r, out);
    }
    if (a->push && sync && r->result == PUSH_NONE) {
        r->result = fake_push_result(s, a);
        if (r->result == PUSH_NONE) {
            return false;
        }
    }
    if ((a->pull == ASKED_PULL_VERSION || a->pull == ASKED_PULL_AT_LEAST) &&
        s->version < a->version) {
        return false;
    }
    if (a->pull == ASKED_PULL_LATEST && fake_is_ahead(s, r->worker)) {
        return false;
    }
    bool gone = a->pull == ASKED_PULL_VERSION && a->version + 1 < s->version;
    fake_answer(s, r, gone ? ERR_RANGE : 0, out);
    return true;
}

static void fake_wake(struct fake_shard *s, struct fake_answers *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->parked_count; i++) {
        if (!fake_try(s, &s->parked[i], out)) {
            s->parked[kept++] = s->parked[i];
        }
    }
    s->parked_count = kept;
}

void fake_shard_take(struct fake_shard *s, size_t worker, const struct asked *a, uint64_t totals,
                     struct fake_answers *out)
{
    struct fake_request r = {.worker = worker, .ask = *a, .totals = totals};
    if (a->generation != s->generation) {
        fake_answer(s, &r, a->generation < s->generation ? ERR_ABORTED : ERR_STATE, out);
        return;
    }
    if (a->ask_spare) {
        fake_spare(s, &r, out);
        return;
    }
    assert_true(!(a->ask_sums || a->totals) ||
                !(a->push || a->pull != ASKED_PULL_NONE || a->has_decision || a->idle));
    if (a->totals) {
        fake_settle(s, &r);
    }
    if (a->has_decision) {
        fake_decision(s, a);
    }
    if (a->idle) {
        s->inactive[worker] = true;
    } else if (a->pull == ASKED_PULL_LATEST) {
        if (a->joins) {
            assert_int_equal(s->number, 0);
            fake_join(s, worker);
        }
        assert_true(s->consistency.mode != TRAINING_BOUNDED || a->joins || a->clock > 0);
        fake_says(s, worker, a->clock);
        s->inactive[worker] = false;
    }
    int code = 0;
    if (a->push && s->consistency.mode == TRAINING_SYNC) {
        fake_push_sync(s, &r);
    } else if (a->push) {
        code = fake_push_async(s, &r);
    }
    if (code != 0) {
        fake_answer(s, &r, code, out);
    } else if (!fake_try(s, &r, out)) {
        fake_park(s, &r);
    }
    fake_wake(s, out);
}

void fake_shard_membership(struct fake_shard *s, uint64_t generation, const struct consistency *c,
                           size_t workers, struct fake_answers *out)
{
    s->generation = generation;
    s->consistency = *c;
    s->workers = workers;
    s->in = 0;
    s->empty = 0;
    s->begun = 0;
    s->settled = 0;
    memset(s->clock, 0, sizeof s->clock);
    memset(s->inactive, 1, sizeof s->inactive);
    for (size_t i = 0; i < s->parked_count; i++) {
        fake_answer(s, &s->parked[i], ERR_ABORTED, out);
    }
    s->parked_count = 0;
}
