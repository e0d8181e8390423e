/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange of a worker: all that it asks for, in one event. */
#include <inttypes.h>

#include "base/mutant.h"
#include "base/text.h"
#include "ps/core/shard_internal.h"

static int check_pull(const struct shard *s, const struct exchange_request *ask, struct err *err)
{
    if (ask->pull.kind == PULL_LATEST) {
        return 0;
    }
    if (ask->pull.kind != PULL_VERSION && ask->pull.kind != PULL_AT_LEAST) {
        return err_set(err, ERR_INVALID, "unknown kind of pull %d", (int)ask->pull.kind);
    }
    if (ask->has_push && s->consistency.mode != TRAINING_SYNC) {
        return err_set(err, ERR_INVALID,
                       "a push with a pull of version %" PRIu64
                       ": only in sync mode; pull the latest",
                       ask->pull.version);
    }
    return 0;
}

/* Whoever reads rows of a version has had that version of every shard: it does not wait. Those of
 * the newest one wait until that may be shown (shard_try_answer()). */
static int check_rows(const struct shard *s, const struct exchange_rows *rows, struct err *err)
{
    const bool there = shard_readable(s, rows->version) && rows->version <= shard_shown(s);
    if (rows->of == ROWS_OF_LATEST || there) {
        return 0;
    }
    return err_set(err, ERR_RANGE,
                   "rows of version %" PRIu64 ", which is not there; the shard is at %" PRIu64,
                   rows->version, s->version);
}

static bool is_of_a_pin(const struct exchange_request *ask)
{
    return ask->kind == EXCHANGE_PINNED ||
           (ask->kind == EXCHANGE_ROWS && ask->rows.of == ROWS_OF_PIN);
}

static int check_request(const struct shard *s, const struct shard_event *e, struct err *err)
{
    const struct exchange_request *ask = &e->ask;
    if (is_of_a_pin(ask)) { /* before the shard has values there is no pin */
        return 0; /* of any generation: an evaluation does not end with the workers' assignment */
    }
    int rc = shard_check_generation(s, e->generation, err);
    bool lets_in = ask->has_push ? MUTANT(push_of_any_generation)
                                 : ask->has_pull && MUTANT(pull_of_any_generation);
    if (rc != 0 && !(lets_in && e->generation < s->generation)) {
        return rc;
    }
    rc = shard_check_filled(s, err);
    if (rc != 0) {
        return rc;
    }
    switch (ask->kind) {
    case EXCHANGE_TRAIN:
        if (!ask->has_push && !ask->has_pull && !ask->idle && !ask->has_decision) {
            break;
        }
        return ask->has_pull ? check_pull(s, ask, err) : 0;
    case EXCHANGE_SUMS:
    case EXCHANGE_TOTALS:
        return shard_sums_check(s, e, err);
    case EXCHANGE_ROWS:
        return check_rows(s, &ask->rows, err);
    case EXCHANGE_SPARE:
    case EXCHANGE_PINNED:
        return 0;
    case EXCHANGE_NONE:
        break;
    }
    return err_set(err, ERR_INVALID, "neither a push nor a pull");
}

bool shard_takes_totals(const struct shard *s, const struct shard_event *e)
{
    const struct exchange_round *of = &e->ask.totals.of;
    return !s->closed && e->kind == SHARD_EXCHANGE && e->ask.kind == EXCHANGE_TOTALS &&
           check_request(s, e, NULL) == 0 && of->step == s->version && s->sums.begun &&
           of->round == s->sums.settled;
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

static const struct shard_pin *find_pin(const struct shard *s, const struct shard_event *e,
                                        struct shard_actions *out)
{
    const struct shard_pin *pin = shard_pin_find(s, e->ask.pin_id);
    if (pin == NULL) {
        char shown[64];
        (void)err_set(&out->err, ERR_NOT_FOUND, "no version is pinned as '%s'",
                      text_shown(e->ask.pin_id, shown, sizeof shown));
    }
    return pin;
}

static int answer_pinned(const struct shard *s, const struct shard_event *e,
                         struct shard_actions *out)
{
    const struct shard_pin *pin = find_pin(s, e, out);
    if (pin == NULL) {
        return ERR_NOT_FOUND;
    }
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = e->tag;
    a->answer.kind = EXCHANGE_PINNED;
    a->values = true;
    a->buffer = pin->slots_buffer;
    a->version = pin->version;
    a->generation = s->generation;
    return 0;
}

static int answer_rows(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const struct exchange_rows *rows = &e->ask.rows;
    uint64_t version = MUTANT(rows_of_present) ? s->version : rows->version;
    if (rows->of == ROWS_OF_PIN) {
        const struct shard_pin *pin = find_pin(s, e, out);
        if (pin == NULL) {
            return ERR_NOT_FOUND;
        }
        version = MUTANT(pinned_rows_of_present) ? s->version : pin->version;
    }
    if (rows->of == ROWS_OF_LATEST) {
        const struct shard_parked p = {.tag = e->tag, .since_ms = e->now_ms, .kind = EXCHANGE_ROWS};
        const int rc = shard_try_answer(s, &p, out, &out->err);
        return rc == 1 ? shard_park(s, &p, &out->err) : rc;
    }
    shard_answer_rows(s, e->tag, version, out);
    return 0;
}

/* @rc 1: the step may have all that it waits for now. */
static int go_on(struct shard *s, const struct shard_event *e, int rc, struct shard_actions *out)
{
    if (rc == 1) {
        shard_sync_go_on(s, e, out);
        rc = 0;
    }
    return rc;
}

/* The decision and the push of @e, if any; the push's buffer is taken in any case. A step can be
 * complete with one of them, not with both: no decision of the next step is known then. */
static int take(struct shard *s, const struct shard_event *e, struct shard_parked *p,
                struct shard_actions *out)
{
    const struct exchange_request *ask = &e->ask;
    int rc = ask->has_decision ? go_on(s, e, shard_decide_take(s, e, out), out) : 0;
    if (rc == 0 && ask->kind == EXCHANGE_TOTALS) {
        rc = go_on(s, e, shard_sums_take(s, e, out), out);
    }
    if (rc == 0 && ask->has_push) {
        rc = s->consistency.mode == TRAINING_SYNC ? shard_push_sync(s, e, p, out)
                                                  : shard_push_async(s, e, p, out);
    }
    if (rc != 0 && ask->has_push) {
        shard_release_buffer(out, e->gradient);
    }
    return rc;
}

/* The clock of @e's worker, which comes with a push or a pull. */
static uint64_t clock_of(const struct shard_event *e)
{
    uint64_t push = e->ask.push.clock;
    uint64_t pull = e->ask.pull.clock;
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
        .kind = e->ask.kind,
        .has_pull = e->ask.has_pull,
        .pull = e->ask.pull,
        .sums = e->ask.sums,
    };
    if (clock_of(e) > 0 || p.pull.joins) {
        shard_worker_activate(s, worker, e->ask.session, p.pull.joins);
    }
    int rc = take(s, e, &p, out);
    if (rc == 0 && p.train.push != PUSH_DROPPED) {
        shard_worker_says(s, worker, clock_of(e));
    }
    if (e->ask.idle) {
        shard_worker_idle(s, worker, e->ask.session);
    }
    if (rc == 0) {
        rc = shard_try_answer(s, &p, out, &out->err);
    }
    return rc == 1 ? shard_park(s, &p, &out->err) : rc;
}

static int answer(struct shard *s, const struct shard_event *e, uint32_t worker,
                  struct shard_actions *out)
{
    if (e->ask.kind == EXCHANGE_PINNED) {
        return answer_pinned(s, e, out);
    }
    if (e->ask.kind == EXCHANGE_ROWS) {
        return answer_rows(s, e, out);
    }
    shard_spare_heard(s, e->now_ms);
    return e->ask.kind == EXCHANGE_SPARE ? shard_spare_give(s, e, out)
                                         : exchange(s, e, worker, out);
}

void shard_on_exchange(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    uint32_t worker = SHARD_WORKER_NONE;
    uint64_t version = s->version;
    struct shard_sums sums = s->sums;
    int rc = check_request(s, e, &out->err);
    if (rc == 0 && !is_of_a_pin(&e->ask)) {
        rc = find_worker(s, e, &worker, &out->err);
    }
    if (rc != 0 || !e->ask.has_push) {
        shard_release_buffer(out, e->gradient);
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
