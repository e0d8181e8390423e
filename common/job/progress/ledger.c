/* SPDX-License-Identifier: Apache-2.0 */
/* Which records a batch has, which batches are left, and which one a replica takes in a sync
 * step: pure functions of the ledger, so that all nodes compute the same without asking. */
#include "job/progress/ledger.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

bool ledger_batch_equal(const struct ledger_batch *a, const struct ledger_batch *b)
{
    return a->epoch == b->epoch && a->split == b->split && a->batch == b->batch &&
           a->count == b->count;
}

uint64_t ledger_shape_batches(const struct ledger_shape *s)
{
    return s->batch_records == 0 ? 0 : ceil_div(s->records, s->batch_records);
}

/* Without the limit of 32 bits, for the check in ledger_init(). */
static uint64_t shape_splits(const struct ledger_shape *s)
{
    return s->split_batches == 0 ? 0 : ceil_div(ledger_shape_batches(s), s->split_batches);
}

uint32_t ledger_shape_splits(const struct ledger_shape *s)
{
    uint64_t n = shape_splits(s);
    return n <= UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

uint32_t ledger_shape_split_batches(const struct ledger_shape *s, uint32_t split)
{
    uint64_t batches = ledger_shape_batches(s);
    uint64_t first = (uint64_t)split * s->split_batches;
    if (first >= batches) {
        return 0;
    }
    uint64_t left = batches - first;
    return left < s->split_batches ? (uint32_t)left : s->split_batches;
}

void ledger_shape_batch(const struct ledger_shape *s, uint64_t epoch, uint32_t split,
                        uint32_t batch, struct ledger_batch *out)
{
    *out =
        (struct ledger_batch){.epoch = epoch, .split = split, .batch = batch, .first = s->records};
    if (batch >= ledger_shape_split_batches(s, split)) {
        return; /* it is no batch of this shape: no records */
    }
    out->first = ((uint64_t)split * s->split_batches + batch) * s->batch_records;
    uint64_t left = s->records - out->first;
    out->count = left < s->batch_records ? (uint32_t)left : s->batch_records;
}

int ledger_init(struct ledger *l, const struct ledger_shape *shape, uint64_t epoch, struct err *err)
{
    if (shape->records == 0) {
        return err_set(err, ERR_INVALID, "no records");
    }
    if (shape->records > LEDGER_RECORDS_MAX) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " records; at most %" PRIu64, shape->records,
                       LEDGER_RECORDS_MAX);
    }
    if (shape->batch_records == 0 || shape->split_batches == 0) {
        return err_set(err, ERR_INVALID,
                       "%u records in a batch and %u batches in a split; at least 1",
                       shape->batch_records, shape->split_batches);
    }
    uint64_t splits = shape_splits(shape);
    if (splits > LEDGER_SPLITS_MAX) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu64
                       " splits of %u batches of %u records; at most %u: make splits longer",
                       splits, shape->split_batches, shape->batch_records, LEDGER_SPLITS_MAX);
    }
    *l = (struct ledger){.shape = *shape, .epoch = epoch, .split_count = (uint32_t)splits};
    l->done = mem_new(l->split_count, sizeof *l->done);
    return 0;
}

void ledger_copy(struct ledger *to, const struct ledger *from)
{
    *to = *from;
    to->done = mem_new(from->split_count, sizeof *to->done);
    for (uint32_t s = 0; s < from->split_count; s++) {
        to->done[s] = from->done[s];
    }
}

void ledger_release(struct ledger *l)
{
    free(l->done);
    *l = (struct ledger){0};
}

void ledger_next_epoch(struct ledger *l)
{
    l->epoch++;
    for (uint32_t s = 0; s < l->split_count; s++) {
        l->done[s] = 0;
    }
}

/* Batches of a split that are left; a count above the split's size counts as all. */
static uint32_t split_left(const struct ledger *l, uint32_t split)
{
    uint32_t batches = ledger_shape_split_batches(&l->shape, split);
    return l->done[split] < batches ? batches - l->done[split] : 0;
}

uint64_t ledger_left(const struct ledger *l)
{
    uint64_t left = 0;
    for (uint32_t s = 0; s < l->split_count; s++) {
        left += split_left(l, s);
    }
    return left;
}

void ledger_settle(struct ledger *l)
{
    if (ledger_left(l) == 0) {
        ledger_next_epoch(l);
    }
}

bool ledger_equal(const struct ledger *a, const struct ledger *b)
{
    if (a->shape.records != b->shape.records || a->shape.batch_records != b->shape.batch_records ||
        a->shape.split_batches != b->shape.split_batches) {
        return false;
    }
    bool whole_a = ledger_left(a) == 0;
    bool whole_b = ledger_left(b) == 0;
    if (a->epoch + whole_a != b->epoch + whole_b) {
        return false;
    }
    for (uint32_t s = 0; s < a->split_count; s++) {
        if ((whole_a ? 0 : a->done[s]) != (whole_b ? 0 : b->done[s])) {
            return false;
        }
    }
    return true;
}

uint64_t ledger_records(const struct ledger *l)
{
    uint64_t records = l->epoch * l->shape.records;
    for (uint32_t s = 0; s < l->split_count; s++) {
        uint64_t first = (uint64_t)s * l->shape.split_batches * l->shape.batch_records;
        uint64_t left = l->shape.records - first;
        uint64_t done = (uint64_t)l->done[s] * l->shape.batch_records;
        records += done < left ? done : left;
    }
    return records;
}

bool ledger_pending(const struct ledger *l, uint64_t n, struct ledger_batch *out)
{
    for (uint32_t s = 0; s < l->split_count; s++) {
        uint32_t left = split_left(l, s);
        if (n < left) {
            ledger_shape_batch(&l->shape, l->epoch, s, l->done[s] + (uint32_t)n, out);
            return true;
        }
        n -= left;
    }
    return false;
}

static void no_batch(const struct ledger *l, uint64_t epoch, struct ledger_batch *out)
{
    *out =
        (struct ledger_batch){.epoch = epoch, .split = l->split_count, .first = l->shape.records};
}

void ledger_sync_batch(const struct ledger *l, uint32_t replicas, uint64_t step, uint32_t replica,
                       struct ledger_batch *out)
{
    if (replica >= replicas || ledger_shape_splits(&l->shape) == 0) {
        no_batch(l, l->epoch, out);
        return;
    }
    uint64_t first_steps = ceil_div(ledger_left(l), replicas);
    if (step < first_steps) {
        if (!ledger_pending(l, step * replicas + replica, out)) {
            no_batch(l, l->epoch, out);
        }
        return;
    }
    /* Later epochs begin with nothing done, so their n-th pending batch is simply the n-th batch.
     */
    uint64_t batches = ledger_shape_batches(&l->shape);
    uint64_t steps = ceil_div(batches, replicas);
    uint64_t epoch = l->epoch + 1 + (step - first_steps) / steps;
    uint64_t n = (step - first_steps) % steps * replicas + replica;
    if (n >= batches) {
        no_batch(l, epoch, out);
        return;
    }
    ledger_shape_batch(&l->shape, epoch, (uint32_t)(n / l->shape.split_batches),
                       (uint32_t)(n % l->shape.split_batches), out);
}

/* Of an epoch in which @left batches are left, in its first @steps steps. */
static uint64_t epoch_batches(uint64_t left, uint32_t replicas, uint64_t steps, uint32_t first,
                              uint32_t end)
{
    uint64_t full = left / replicas;
    uint64_t last = left % replicas; /* replicas with a batch in the step that is not full */
    if (steps <= full) {
        return steps * (end - first);
    }
    last = last < first ? first : last;
    last = last > end ? end : last;
    return full * (end - first) + (last - first);
}

uint64_t ledger_sync_batches(const struct ledger *l, uint32_t replicas, uint64_t step,
                             uint32_t first, uint32_t end)
{
    end = end < replicas ? end : replicas;
    if (first >= end || ledger_shape_splits(&l->shape) == 0) {
        return 0;
    }
    uint64_t left = ledger_left(l);
    uint64_t first_steps = ceil_div(left, replicas);
    if (step <= first_steps) {
        return epoch_batches(left, replicas, step, first, end);
    }
    uint64_t batches = ledger_shape_batches(&l->shape);
    uint64_t steps = ceil_div(batches, replicas);
    step -= first_steps;
    return epoch_batches(left, replicas, first_steps, first, end) +
           step / steps * epoch_batches(batches, replicas, steps, first, end) +
           epoch_batches(batches, replicas, step % steps, first, end);
}

uint64_t ledger_sync_steps(const struct ledger *l, uint32_t replicas, uint64_t epochs)
{
    if (replicas == 0 || ledger_shape_splits(&l->shape) == 0 || l->epoch >= epochs) {
        return 0;
    }
    uint64_t first_steps = ceil_div(ledger_left(l), replicas);
    uint64_t steps = ceil_div(ledger_shape_batches(&l->shape), replicas);
    uint64_t later = epochs - 1 - l->epoch;
    if (later > (UINT64_MAX - first_steps) / steps) {
        return UINT64_MAX;
    }
    return first_steps + later * steps;
}
