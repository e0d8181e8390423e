/* Async and bounded: every push is an update; the ledger says which are applied. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "ps/shard_internal.h"

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

static int check_identity(const struct shard *s, const struct shard_push *p, struct err *err)
{
    uint32_t batches = ledger_shape_split_batches(&s->ledger.shape, p->split);
    if (p->split >= s->ledger.split_count || p->batch >= batches) {
        return err_set(err, ERR_INVALID,
                       "a push of batch %" PRIu32 " of split %" PRIu32 ", which has %" PRIu32
                       " batches; the epoch has %" PRIu32 " splits",
                       p->batch, p->split, batches, s->ledger.split_count);
    }
    if (p->base_version > s->version) {
        return err_set(err, ERR_INVALID,
                       "a gradient of version %" PRIu64 ", but the shard is at %" PRIu64,
                       p->base_version, s->version);
    }
    return 0;
}

/* The queued push of this identity: its ticket, or 0. @next becomes the batch of the split that is
 * to come after what is applied and queued. */
static uint64_t find_queued(const struct shard *s, const struct shard_push *p, uint32_t *next)
{
    uint64_t ticket = 0;
    for (size_t i = 0; i < s->queue_count; i++) {
        const struct shard_queued *q = &s->queue[i];
        if (q->epoch != p->epoch || q->split != p->split) {
            continue;
        }
        (*next)++;
        if (q->batch == p->batch) {
            ticket = s->tickets_applied + i + 1;
        }
    }
    return ticket;
}

static int out_of_order(const struct shard *s, const struct shard_push *p, uint32_t next,
                        struct err *err)
{
    return err_set(err, ERR_RANGE,
                   "a push of batch %" PRIu32 " of split %" PRIu32 " of epoch %" PRIu64
                   "; next is batch %" PRIu32 " of that split, in epoch %" PRIu64 " with %" PRIu64
                   " batches to go",
                   p->batch, p->split, p->epoch, next, s->ledger.epoch, ledger_left(&s->ledger));
}

/* 0 it is the next of its split; 1 it is in; ERR_RANGE it is not its turn. */
static int place(struct shard *s, const struct shard_push *p, uint64_t *ticket, struct err *err)
{
    *ticket = 0;
    if (p->epoch < s->ledger.epoch) {
        return 1;
    }
    uint32_t next = shard_progress(s, p->epoch, p->split);
    if (p->epoch == s->ledger.epoch) {
        *ticket = find_queued(s, p, &next);
        if (p->batch < next) {
            return 1;
        }
        return p->batch == next ? 0 : out_of_order(s, p, next, err);
    }
    bool rolls = p->epoch - s->ledger.epoch == 1 && p->batch == 0 && s->queue_count == 0 &&
                 ledger_left(&s->ledger) == 0;
    if (!rolls) {
        return out_of_order(s, p, next, err);
    }
    ledger_next_epoch(&s->ledger);
    return 0;
}

static void apply(struct shard *s, const struct shard_queued *q, struct shard_actions *out)
{
    struct shard_action *a = shard_act(out, SHARD_APPLY);
    a->buffer = q->examples == 0 ? NULL : q->buffer;
    a->examples = q->examples;
    a->staleness = s->version - q->base_version;
    a->version = ++s->version;
    shard_release_buffer(out, q->buffer);
    assert(q->epoch == s->ledger.epoch && s->ledger.done[q->split] == q->batch);
    s->ledger.done[q->split]++;
    s->pushes_applied++;
    shard_worker_tick(s, q->worker);
}

/* There must be room for the request too, which waits with its push. */
static int enqueue(struct shard *s, const struct shard_queued *q, uint64_t *ticket, struct err *err)
{
    if (s->queue_count == SHARD_QUEUE_MAX || s->parked_count == SHARD_PARKED_MAX) {
        return err_set(err, ERR_EXHAUSTED,
                       "%zu pushes wait for slow readers already; try again later", s->queue_count);
    }
    s->queue = mem_grow(s->queue, &s->queue_capacity, s->queue_count + 1, sizeof *s->queue);
    s->queue[s->queue_count++] = *q;
    *ticket = s->tickets_applied + s->queue_count;
    return 0;
}

int shard_push_async(struct shard *s, const struct shard_event *e, uint32_t worker,
                     enum shard_push_result *result, uint64_t *ticket, struct shard_actions *out)
{
    const struct shard_push *p = &e->push;
    int rc = check_identity(s, p, &out->err);
    rc = rc != 0 ? rc : shard_check_push(s, p, &out->err);
    rc = rc != 0 ? rc : place(s, p, ticket, &out->err);
    if (rc < 0) {
        return rc;
    }
    if (rc == 1) {
        s->pushes_duplicate++;
        shard_release_buffer(out, p->buffer);
        *result = SHARD_PUSH_DUPLICATE;
        return 0;
    }
    struct shard_queued q = {p->epoch,        p->split,  p->batch, p->examples,
                             p->base_version, p->buffer, worker};
    if (!e->can_apply || s->queue_count > 0) {
        *result = SHARD_PUSH_APPLIED; /* what is answered once its ticket is up */
        return enqueue(s, &q, ticket, &out->err);
    }
    apply(s, &q, out);
    *result = SHARD_PUSH_APPLIED;
    return 0;
}

void shard_async_apply(struct shard *s, struct shard_actions *out)
{
    assert(s->queue_count > 0);
    struct shard_queued q = s->queue[0];
    s->queue_count--;
    memmove(s->queue, s->queue + 1, s->queue_count * sizeof *s->queue);
    s->tickets_applied++;
    apply(s, &q, out);
}

void shard_async_forget(struct shard *s, struct shard_actions *out)
{
    for (size_t i = 0; i < s->queue_count; i++) {
        shard_release_buffer(out, s->queue[i].buffer);
    }
    s->tickets_applied += s->queue_count;
    s->queue_count = 0;
}

void shard_on_snapshot(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (!e->can_apply) {
        return;
    }
    if (s->mode == TRAINING_SYNC) {
        if (!shard_sync_ready(s)) {
            return;
        }
        shard_sync_apply(s, out);
    } else {
        if (s->queue_count == 0) {
            return;
        }
        shard_async_apply(s, out);
    }
    shard_wake(s, out);
}
