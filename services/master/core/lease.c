/* SPDX-License-Identifier: Apache-2.0 */
/* Hands out the splits of an epoch to workers, in async and bounded modes, and counts the batches
 * that are done. A split that comes back unfinished is handed out again, before later ones. */
#include "base/mutant.h"
#include "master/core/lease.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static uint64_t batches_before(const struct leases *l)
{
    return l->ledger.epoch * ledger_shape_batches(&l->ledger.shape);
}

/* The splits' targets: in order as many as the training has left, beside what is done already. */
static void epoch_begin(struct leases *l)
{
    uint64_t before = batches_before(l);
    l->done_batches = 0;
    for (uint32_t s = 0; s < l->ledger.split_count; s++) {
        l->done_batches += l->ledger.done[s];
    }
    uint64_t done = before + l->done_batches;
    uint64_t left = l->batches_total > done ? l->batches_total - done : 0;
    l->epoch_batches = l->done_batches;
    for (uint32_t s = 0; s < l->ledger.split_count; s++) {
        uint32_t open = ledger_shape_split_batches(&l->ledger.shape, s) - l->ledger.done[s];
        uint32_t take = open < left ? open : (uint32_t)left;
        l->splits[s] = (struct lease_split){.target = l->ledger.done[s] + take};
        l->epoch_batches += take;
        left -= take;
    }
    l->next = 0;
    l->leased_count = 0;
    l->levelling = false;
}

void leases_init(struct leases *l, const struct ledger *ledger, uint64_t batches_total)
{
    memset(l, 0, sizeof *l);
    ledger_copy(&l->ledger, ledger);
    l->batches_total = batches_total;
    l->splits = mem_new(l->ledger.split_count, sizeof *l->splits);
    if (ledger_left(&l->ledger) == 0 &&
        batches_total > (l->ledger.epoch + 1) * ledger_shape_batches(&l->ledger.shape)) {
        ledger_next_epoch(&l->ledger);
    }
    epoch_begin(l);
}

void leases_release(struct leases *l)
{
    ledger_release(&l->ledger);
    free(l->splits);
    memset(l, 0, sizeof *l);
}

/* The batch up to which @split may be leased now. */
static uint32_t limit(const struct leases *l, uint32_t split)
{
    return l->levelling ? l->splits[split].level : l->splits[split].target;
}

bool leases_take(struct leases *l, uint64_t owner, struct lease *out)
{
    for (; l->next < l->ledger.split_count; l->next++) {
        struct lease_split *s = &l->splits[l->next];
        if (s->owner != 0 || l->ledger.done[l->next] >= limit(l, l->next)) {
            continue;
        }
        *out = (struct lease){.epoch = l->ledger.epoch,
                              .split = l->next,
                              .batch_end = limit(l, l->next),
                              .fresh = (s->end == 0 && l->ledger.done[l->next] == 0) ||
                                       MUTANT(lease_always_fresh)};
        s->owner = owner;
        s->end = out->batch_end;
        l->leased_count++;
        return true;
    }
    return false;
}

static void set_free(struct leases *l, uint32_t split)
{
    if (l->splits[split].owner != 0) {
        l->splits[split].owner = 0;
        l->leased_count--;
    }
    l->next = split < l->next ? split : l->next;
}

void leases_return(struct leases *l, uint32_t split, uint64_t owner)
{
    if (split < l->ledger.split_count && owner != 0 && l->splits[split].owner == owner) {
        set_free(l, split);
    }
}

static void set_done(struct leases *l, uint32_t split, uint32_t done)
{
    if (done > l->ledger.done[split]) {
        l->done_batches += done - l->ledger.done[split];
        l->ledger.done[split] = done;
    }
}

bool leases_report(struct leases *l, uint32_t split, uint32_t batch_end)
{
    if (split >= l->ledger.split_count || batch_end == 0 || l->splits[split].end == 0 ||
        batch_end > l->splits[split].target) {
        return false;
    }
    set_done(l, split, batch_end);
    if (l->ledger.done[split] >= l->splits[split].end) {
        set_free(l, split);
    }
    return true;
}

void leases_known(struct leases *l, const uint32_t *low, const uint32_t *high)
{
    for (uint32_t s = 0; s < l->ledger.split_count; s++) {
        set_done(l, s, low[s]);
        l->splits[s].level = high[s];
        if (l->splits[s].end == 0) {
            l->splits[s].end = high[s]; /* it was leased before this table was made */
        }
        if (l->ledger.done[s] >= l->splits[s].target) {
            set_free(l, s);
        }
    }
    l->next = 0;
}

bool leases_level(const struct leases *l)
{
    for (uint32_t s = 0; s < l->ledger.split_count; s++) {
        if (l->ledger.done[s] < l->splits[s].level) {
            return false;
        }
    }
    return true;
}

bool leases_epoch_done(const struct leases *l)
{
    return l->done_batches >= l->epoch_batches;
}

void leases_next_epoch(struct leases *l)
{
    ledger_next_epoch(&l->ledger);
    epoch_begin(l);
}

uint64_t leases_batches(const struct leases *l)
{
    return batches_before(l) + l->done_batches;
}
