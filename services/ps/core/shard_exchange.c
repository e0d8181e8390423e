/* SPDX-License-Identifier: Apache-2.0 */
/* Push, pull, idle, decision, spare, sums and totals: what a worker asks for, in one event. */
#include <inttypes.h>

#include "base/mutant.h"
#include "base/text.h"
#include "ps/core/shard_internal.h"

static int check_pull(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (e->pull.kind == SHARD_PULL_LATEST) {
        return 0;
    }
    if (e->pull.kind != SHARD_PULL_VERSION && e->pull.kind != SHARD_PULL_AT_LEAST) {
        return err_set(err, ERR_INVALID, "unknown kind of pull %d", (int)e->pull.kind);
    }
    if (e->has_push && s->consistency.mode != TRAINING_SYNC) {
        return err_set(err, ERR_INVALID,
                       "a push with a pull of version %" PRIu64
                       ": only in sync mode; pull the latest",
                       e->pull.version);
    }
    return 0;
}

int shard_check_request(const struct shard *s, const struct shard_event *e, struct err *err)
{
    bool pinned = e->has_pull && e->pull.kind == SHARD_PULL_PINNED;
    if (pinned && (e->has_push || e->idle || e->has_decision || e->has_spare || e->has_sums ||
                   e->has_totals)) {
        return err_set(err, ERR_INVALID, "a pull of a pinned version comes alone");
    }
    if (pinned) {
        return 0; /* of any generation: an evaluation does not end with the workers' assignment */
    }
    int rc = shard_check_generation(s, e->generation, err);
    bool lets_in = e->has_push ? MUTANT(push_of_any_generation)
                               : e->has_pull && MUTANT(pull_of_any_generation);
    if (rc != 0 && !(lets_in && e->generation < s->generation)) {
        return rc;
    }
    bool other = e->has_push || e->has_pull || e->idle || e->has_decision;
    int alone = e->has_spare + e->has_sums + e->has_totals;
    if (!other && alone == 0) {
        return err_set(err, ERR_INVALID, "neither a push nor a pull");
    }
    if (alone > 1 || (other && alone > 0)) {
        return err_set(err, ERR_INVALID, "%s",
                       e->has_spare ? "a request for a spare replica comes alone"
                                    : "a request for sums comes alone, and so do totals");
    }
    if (e->has_sums || e->has_totals) {
        return shard_sums_check(s, e, err);
    }
    return e->has_pull ? check_pull(s, e, err) : 0;
}

static int find_worker(const struct shard *s, const struct shard_event *e, uint32_t *worker,
                       struct err *err)
{
    *worker = SHARD_WORKER_NONE;
    if (s->consistency.mode == TRAINING_SYNC) {
        return 0; /* an identity does not depend on who sends it */
    }
    *worker = shard_worker_find(s, e->worker);
    if (*worker == SHARD_WORKER_NONE && s->consistency.mode == TRAINING_BOUNDED) {
        char shown[64];
        return err_set(err, ERR_PERMISSION,
                       "worker '%s' is none of the %zu workers of generation %" PRIu64,
                       text_shown(e->worker == NULL ? "" : e->worker, shown, sizeof shown),
                       s->worker_count, s->generation);
    }
    return 0;
}

static int answer_pinned(const struct shard *s, const struct shard_event *e,
                         struct shard_actions *out)
{
    const struct shard_pin *pin = shard_pin_find(s, e->pull.pin_id);
    if (pin == NULL) {
        char shown[64];
        const char *id = e->pull.pin_id == NULL ? "" : e->pull.pin_id;
        return err_set(&out->err, ERR_NOT_FOUND, "no version is pinned as '%s'",
                       text_shown(id, shown, sizeof shown));
    }
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = e->tag;
    a->values = true;
    a->buffer = pin->slots_buffer;
    a->version = pin->version;
    a->generation = s->generation;
    return 0;
}

/* The decision and the push of @e, if any; the push's buffer is taken in any case. A step can be
 * complete with one of them, not with both: no decision of the next step is known then. */
static int take(struct shard *s, const struct shard_event *e, struct shard_parked *p,
                struct shard_actions *out)
{
    int rc = e->has_decision ? shard_decide_take(s, e, out) : 0;
    rc = rc == 0 && e->has_totals ? shard_sums_take(s, e, out) : rc;
    if (rc == 0 && e->has_push) {
        rc = s->consistency.mode == TRAINING_SYNC ? shard_push_sync(s, e, p, out)
                                                  : shard_push_async(s, e, p, out);
    }
    if (rc != 0 && e->has_push) {
        shard_release_buffer(out, e->push.buffer);
    }
    return rc;
}

/* Of @e's worker with what @e brings. */
static uint64_t clock_of(const struct shard_event *e)
{
    uint64_t push = e->has_push ? e->push.clock : 0;
    uint64_t pull = e->has_pull ? e->pull.clock : 0;
    return push > pull ? push : pull;
}

/* Everything but the wake-up of others. */
static int exchange(struct shard *s, const struct shard_event *e, uint32_t worker,
                    struct shard_actions *out)
{
    struct shard_parked p = {
        .tag = e->tag,
        .since_ms = e->now_ms,
        .worker = worker,
        .has_pull = e->has_pull,
        .progress = e->pull.progress,
        .pull_kind = e->pull.kind,
        .pull_version = e->pull.version,
        .epoch = e->pull.epoch,
        .split = e->pull.split,
        .sums = e->has_sums,
        .step = e->sums_step,
        .round = e->sums_round,
        .waits = e->has_pull && e->pull.clock > 0,
        .joins = e->has_pull && e->pull.joins,
    };
    if (clock_of(e) > 0 || p.joins) {
        shard_worker_activate(s, worker, p.joins);
    }
    int rc = take(s, e, &p, out);
    if (rc == 0 && p.push != SHARD_PUSH_DROPPED) {
        shard_worker_says(s, worker, clock_of(e));
    }
    if (e->idle) {
        shard_worker_idle(s, worker);
    }
    if (rc == 0) {
        rc = shard_try_answer(s, &p, out, &out->err);
    }
    return rc == 1 ? shard_park(s, &p, &out->err) : rc;
}

static int answer(struct shard *s, const struct shard_event *e, uint32_t worker,
                  struct shard_actions *out)
{
    if (e->has_pull && e->pull.kind == SHARD_PULL_PINNED) {
        return answer_pinned(s, e, out);
    }
    shard_spare_heard(s, e->now_ms);
    return e->has_spare ? shard_spare_give(s, e, out) : exchange(s, e, worker, out);
}

void shard_on_exchange(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    uint32_t worker = SHARD_WORKER_NONE;
    uint64_t version = s->version;
    struct shard_sums sums = s->sums;
    bool pinned = e->has_pull && e->pull.kind == SHARD_PULL_PINNED;
    int rc = shard_check_request(s, e, &out->err);
    if (rc == 0 && !pinned) {
        rc = find_worker(s, e, &worker, &out->err);
    }
    if (rc != 0 || !e->has_push) {
        shard_release_buffer(out, e->push.buffer);
    }
    if (rc == 0) {
        rc = answer(s, e, worker, out);
    }
    if (rc != 0) {
        shard_refuse(s, e->tag, out);
    }
    bool reduced = s->sums.begun != sums.begun || s->sums.settled != sums.settled;
    if (s->version != version || reduced || s->consistency.mode == TRAINING_BOUNDED) {
        shard_wake(s, out);
    }
}
