/* SPDX-License-Identifier: Apache-2.0 */
/* Async and bounded: every push is an update; the ledger says which are applied. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "ps/core/shard_internal.h"

uint32_t shard_progress(const struct shard *s, uint64_t epoch, uint32_t split)
{
    if (split >= s->ledger.split_count || epoch > s->ledger.epoch) {
        return 0;
    }
    if (epoch < s->ledger.epoch) {
        return ledger_shape_split_batches(&s->ledger.shape, split);
    }
    return s->ledger.done[split];
}

static uint32_t end_of(const struct exchange_push *p)
{
    return p->batch_end != 0 ? p->batch_end : p->batch + 1;
}

static int check_identity(const struct shard *s, const struct exchange_push *p, struct err *err)
{
    uint32_t batches = ledger_shape_split_batches(&s->ledger.shape, p->split);
    if (p->split >= s->ledger.split_count || p->batch >= batches) {
        return err_set(err, ERR_INVALID,
                       "a push of batch %" PRIu32 " of split %" PRIu32 ", which has %" PRIu32
                       " batches; the epoch has %" PRIu32 " splits",
                       p->batch, p->split, batches, s->ledger.split_count);
    }
    uint32_t end_max = consistency_push_end(&s->consistency, p->batch, batches);
    if (end_of(p) <= p->batch || end_of(p) > end_max) {
        return err_set(err, ERR_INVALID,
                       "a push of batches %" PRIu32 "..%" PRIu32 " of split %" PRIu32
                       "; one that begins there ends at %" PRIu32 " at the latest",
                       p->batch, end_of(p), p->split, end_max);
    }
    if (p->base_version > s->version) {
        return err_set(err, ERR_INVALID,
                       "a gradient of version %" PRIu64 ", but the shard is at %" PRIu64,
                       p->base_version, s->version);
    }
    return 0;
}

/* The ticket of the first queued push after which all of @p is in, or 0. @next: the batch of the
 * split that comes after all that is applied and queued. */
static uint64_t find_queued(const struct shard *s, const struct exchange_push *p, uint32_t *next)
{
    uint64_t ticket = 0;
    for (size_t i = 0; i < s->queue_count; i++) {
        const struct shard_queued *q = &s->queue[i];
        if (q->epoch != p->epoch || q->split != p->split) {
            continue;
        }
        if (*next < end_of(p) && q->batch_end >= end_of(p)) {
            ticket = s->tickets_applied + i + 1;
        }
        *next = q->batch_end;
    }
    return ticket;
}

static int out_of_order(const struct shard *s, const struct exchange_push *p, uint32_t next,
                        struct err *err)
{
    return err_set(err, ERR_RANGE,
                   "a push of batch %" PRIu32 " of split %" PRIu32 " of epoch %" PRIu64
                   "; next is batch %" PRIu32 " of that split, in epoch %" PRIu64 " with %" PRIu64
                   " batches to go",
                   p->batch, p->split, p->epoch, next, s->ledger.epoch, ledger_left(&s->ledger));
}

/* 0 it is the next of its split, maybe the first of the next epoch; 1 it is in; ERR_RANGE it is not
 * its turn. */
static int place(const struct shard *s, const struct exchange_push *p, uint64_t *ticket,
                 struct err *err)
{
    *ticket = 0;
    if (p->epoch < s->ledger.epoch) {
        return 1;
    }
    uint32_t next = shard_progress(s, p->epoch, p->split);
    if (p->epoch == s->ledger.epoch) {
        *ticket = find_queued(s, p, &next);
        if (end_of(p) <= next && !MUTANT(async_push_again)) {
            return 1;
        }
        return p->batch == next || MUTANT(async_push_again) ? 0 : out_of_order(s, p, next, err);
    }
    bool rolls = p->epoch - s->ledger.epoch == 1 && p->batch == 0 && s->queue_count == 0 &&
                 ledger_left(&s->ledger) == 0;
    return rolls ? 0 : out_of_order(s, p, next, err);
}

void shard_async_update(struct shard *s, const struct shard_queued *q, struct shard_actions *out)
{
    shard_record_update(s, q, out);
    if (q->epoch != s->ledger.epoch) {
        ledger_next_epoch(&s->ledger);
    }
    assert(q->epoch == s->ledger.epoch && s->ledger.done[q->split] == q->batch);
    struct shard_action *a = shard_act(out, SHARD_APPLY);
    a->buffer = q->examples == 0 ? NULL : q->buffer;
    a->examples = q->examples;
    a->era = shard_era(s, MUTANT(era_of_base) ? q->base_version : s->version);
    a->staleness = s->version - q->base_version;
    a->version = s->version + 1;
    shard_policy_correct(s, q, a);
    shard_release_buffer(out, q->buffer);
    s->version++;
    s->ledger.done[q->split] = q->batch_end;
    s->examples += q->examples;
    s->pushes_applied++;
}

/* There must be room for the request too, which waits with its push. */
static int enqueue(struct shard *s, const struct shard_queued *q, uint64_t *ticket, struct err *err)
{
    if (s->queue_count == SHARD_QUEUE_MAX || s->parked_count == SHARD_PARKED_MAX) {
        return err_set(err, ERR_EXHAUSTED,
                       "%zu pushes wait for slow readers already; try again later", s->queue_count);
    }
    if (q->epoch != s->ledger.epoch) { /* so that the next pushes of that epoch find their place */
        ledger_next_epoch(&s->ledger);
    }
    s->queue = mem_grow(s->queue, &s->queue_capacity, s->queue_count + 1, sizeof *s->queue);
    s->queue[s->queue_count++] = *q;
    *ticket = s->tickets_applied + s->queue_count;
    return 0;
}

/* It is its turn. */
static int take(struct shard *s, const struct shard_event *e, struct shard_parked *request,
                struct shard_actions *out)
{
    const struct exchange_push *p = &e->ask.push;
    request->train.push = PUSH_APPLIED; /* the answer, once its ticket is applied */
    request->train.staleness = s->version + s->queue_count - p->base_version;
    if (shard_policy_drops(s, request->train.staleness)) {
        shard_release_buffer(out, e->gradient);
        request->train.push = PUSH_DROPPED;
        request->train.staleness = 0;
        return 0;
    }
    struct shard_queued q = {p->epoch,    p->split,        p->batch,    end_of(p),
                             p->examples, p->base_version, e->gradient, request->worker};
    if (!e->can_apply || s->queue_count > 0) {
        int rc = enqueue(s, &q, &request->ticket, &out->err);
        request->ticket = MUTANT(ack_before_apply) ? 0 : request->ticket;
        return rc;
    }
    shard_async_update(s, &q, out);
    return 0;
}

int shard_push_async(struct shard *s, const struct shard_event *e, struct shard_parked *request,
                     struct shard_actions *out)
{
    const struct exchange_push *p = &e->ask.push;
    int rc = check_identity(s, p, &out->err);
    rc = rc != 0 ? rc : shard_check_push(s, e, &out->err);
    rc = rc != 0 ? rc : shard_policy_check(s, p, &out->err);
    rc = rc != 0 ? rc : place(s, p, &request->ticket, &out->err);
    if (rc < 0) {
        return rc;
    }
    if (rc == 0) {
        return take(s, e, request, out);
    }
    shard_release_buffer(out, e->gradient);
    request->train.push = PUSH_DUPLICATE;
    return 0;
}

void shard_async_apply(struct shard *s, struct shard_actions *out)
{
    assert(s->queue_count > 0);
    struct shard_queued q = s->queue[0];
    s->queue_count--;
    memmove(s->queue, s->queue + 1, s->queue_count * sizeof *s->queue);
    s->tickets_applied++;
    shard_async_update(s, &q, out);
}

void shard_async_forget(struct shard *s, struct shard_actions *out)
{
    for (size_t i = 0; i < s->queue_count; i++) {
        shard_release_buffer(out, s->queue[i].buffer);
    }
    s->tickets_applied += s->queue_count;
    s->queue_count = 0;
}
