/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: as data, in the order in which they came. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "ps/core/shard_internal.h"

static struct shard_action *reply(struct shard *s, const struct shard_parked *p,
                                  struct shard_actions *out)
{
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = p->tag;
    a->version = s->version;
    a->generation = s->generation;
    a->answer.kind = p->kind;
    a->answer.train = p->train;
    if (p->partial) {
        shard_decide_answer(s, p, &a->answer);
    }
    const enum push_result push = a->answer.train.push;
    s->pushes_duplicate += push == PUSH_DUPLICATE;
    s->pushes_dropped += push == PUSH_STALE || push == PUSH_DROPPED;
    return a;
}

static void reply_values(struct shard *s, const struct shard_parked *p, uint64_t version,
                         struct shard_actions *out)
{
    struct shard_action *a = reply(s, p, out);
    a->version = version;
    a->values = true;
    if (p->pull.progress) {
        a->answer.train.progress = shard_progress(s, p->pull.epoch, p->pull.split);
    }
}

void shard_answer_rows(const struct shard *s, void *tag, uint64_t version,
                       struct shard_actions *out)
{
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = tag;
    a->answer.kind = EXCHANGE_ROWS;
    a->rows = true;
    a->version = version;
    a->generation = s->generation;
}

/* The version before the present one can still be read: when a worker dies in between, another
 * worker has to pull from a shard that is one step ahead what it had before. */
bool shard_readable(const struct shard *s, uint64_t version)
{
    return version == s->version ||
           (version < s->version && s->version - version == 1 && version >= s->version_first);
}

int shard_try_answer(struct shard *s, const struct shard_parked *p, struct shard_actions *out,
                     struct err *err)
{
    const bool early = p->kind == EXCHANGE_ROWS && MUTANT(rows_before_received);
    if (shard_unreceived(s) && !early && !MUTANT(shown_before_received)) {
        return 1;
    }
    if (p->kind == EXCHANGE_ROWS) {
        shard_answer_rows(s, p->tag, s->version, out);
        return 0;
    }
    if (p->kind == EXCHANGE_SUMS) {
        return shard_sums_answer(s, p, out, err);
    }
    if (p->ticket > s->tickets_applied || (p->partial && p->step >= s->version)) {
        return 1;
    }
    if (!p->has_pull) {
        (void)reply(s, p, out);
        return 0;
    }
    if (p->pull.kind == PULL_LATEST) {
        if (p->pull.clock > 0 && shard_worker_ahead(s, p->worker)) {
            return 1;
        }
        reply_values(s, p, s->version, out);
        if (p->pull.joins && p->worker != SHARD_WORKER_NONE) {
            out->items[out->count - 1].answer.train.clock = s->workers[p->worker].clock;
        }
        shard_policy_sent(s, p->worker, out);
        return 0;
    }
    if (p->pull.version > s->version) {
        return 1;
    }
    if (p->pull.kind == PULL_AT_LEAST) {
        reply_values(s, p, s->version, out);
        return 0;
    }
    if (!shard_readable(s, p->pull.version)) {
        return err_set(err, ERR_RANGE,
                       "a pull of version %" PRIu64 ", which is gone; the shard is at %" PRIu64,
                       p->pull.version, s->version);
    }
    reply_values(s, p, p->pull.version, out);
    return 0;
}

int shard_park(struct shard *s, const struct shard_parked *p, struct err *err)
{
    if (s->parked_count == SHARD_PARKED_MAX) {
        return err_set(err, ERR_EXHAUSTED, "%d requests wait already; try again later",
                       SHARD_PARKED_MAX);
    }
    s->parked = mem_grow(s->parked, &s->parked_capacity, s->parked_count + 1, sizeof *s->parked);
    s->parked[s->parked_count++] = *p;
    return 0;
}

void shard_wake(struct shard *s, struct shard_actions *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->parked_count; i++) {
        struct shard_parked p = s->parked[i];
        int rc = shard_try_answer(s, &p, out, &out->err);
        if (rc == 1) {
            s->parked[kept++] = p;
        } else if (rc != 0) {
            shard_refuse(s, p.tag, out);
        }
    }
    s->parked_count = kept;
}

void shard_refuse_parked(struct shard *s, struct shard_actions *out)
{
    for (size_t i = 0; i < s->parked_count; i++) {
        shard_refuse(s, s->parked[i].tag, out);
    }
    s->parked_count = 0;
}

/* The caller is gone, so there is nobody to answer. What it pushed stays in. */
void shard_on_gone(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (shard_readers_gone(s, e->tag, out)) {
        return;
    }
    shard_hold_gone(s, e->tag);
    for (size_t i = 0; i < s->parked_count; i++) {
        if (s->parked[i].tag == e->tag) {
            s->parked_count--;
            memmove(&s->parked[i], &s->parked[i + 1], (s->parked_count - i) * sizeof *s->parked);
            return;
        }
    }
}
