/* Push, pull and idle: what a worker asks for, in one event. */
#include <inttypes.h>

#include "base/text.h"
#include "ps/shard_internal.h"

/* What can be wrong with the request whatever its push does. */
static int check_request(const struct shard *s, const struct shard_event *e, struct err *err)
{
    bool pinned = e->has_pull && e->pull.kind == SHARD_PULL_PINNED;
    if (pinned && (e->has_push || e->idle)) {
        return err_set(err, ERR_INVALID, "a pull of a pinned version comes alone");
    }
    if (pinned) {
        return 0; /* of any generation: an evaluation does not end with the workers' assignment */
    }
    int rc = shard_check_generation(s, e->generation, err);
    if (rc != 0) {
        return rc;
    }
    if (!e->has_push && !e->has_pull && !e->idle) {
        return err_set(err, ERR_INVALID, "neither a push nor a pull");
    }
    if (e->has_pull && e->pull.kind != SHARD_PULL_LATEST && e->pull.kind != SHARD_PULL_VERSION) {
        return err_set(err, ERR_INVALID, "unknown kind of pull %d", (int)e->pull.kind);
    }
    if (e->has_pull && e->has_push && e->pull.kind == SHARD_PULL_VERSION &&
        s->mode != TRAINING_SYNC) {
        return err_set(err, ERR_INVALID,
                       "a push with a pull of version %" PRIu64
                       ": only in sync mode; pull the latest",
                       e->pull.version);
    }
    return 0;
}

static int find_worker(const struct shard *s, const struct shard_event *e, uint32_t *worker,
                       struct err *err)
{
    *worker = SHARD_WORKER_NONE;
    if (s->mode != TRAINING_BOUNDED) {
        return 0; /* an identity does not depend on who sends it */
    }
    *worker = shard_worker_find(s, e->worker);
    if (*worker == SHARD_WORKER_NONE) {
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
    a->version = pin->version;
    a->generation = s->generation;
    return 0;
}

/* The push of @e, or nothing; its buffer is taken in any case. */
static int take_push(struct shard *s, const struct shard_event *e, struct shard_parked *p,
                     struct shard_actions *out)
{
    if (!e->has_push) {
        return 0;
    }
    int rc = s->mode == TRAINING_SYNC
                 ? shard_push_sync(s, e, &p->push, out)
                 : shard_push_async(s, e, p->worker, &p->push, &p->ticket, out);
    if (rc != 0) {
        shard_release_buffer(out, e->push.buffer);
    }
    return rc;
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
    };
    if (e->has_push || e->has_pull) {
        shard_worker_activate(s, worker);
    }
    int rc = take_push(s, e, &p, out);
    if (e->idle) {
        shard_worker_idle(s, worker);
    }
    if (rc == 0) {
        rc = shard_try_answer(s, &p, out, &out->err);
    }
    return rc == 1 ? shard_park(s, &p, &out->err) : rc;
}

void shard_on_exchange(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    uint32_t worker = SHARD_WORKER_NONE;
    uint64_t version = s->version;
    bool pinned = e->has_pull && e->pull.kind == SHARD_PULL_PINNED;
    int rc = check_request(s, e, &out->err);
    if (rc == 0 && !pinned) {
        rc = find_worker(s, e, &worker, &out->err);
    }
    if (rc != 0 || !e->has_push) {
        shard_release_buffer(out, e->push.buffer);
    }
    if (rc == 0) {
        rc = pinned ? answer_pinned(s, e, out) : exchange(s, e, worker, out);
    }
    if (rc != 0) {
        shard_refuse(s, e->tag, out);
    }
    if (s->version != version || worker != SHARD_WORKER_NONE) {
        shard_wake(s, out);
    }
}
