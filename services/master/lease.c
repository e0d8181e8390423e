#include "master/lease.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void epoch_begin(struct leases *l)
{
    uint64_t batches = ledger_shape_batches(&l->ledger.shape);
    uint64_t before = leases_batches_before(l);
    uint64_t left = l->batches_total > before ? l->batches_total - before : 0;
    l->epoch_batches = left < batches ? left : batches;
    l->granted_batches = 0;
    l->done_batches = 0;
    l->next = 0;
    l->returned_count = 0;
    l->leased_count = 0;
    memset(l->owners, 0, l->ledger.split_count * sizeof *l->owners);
    memset(l->ends, 0, l->ledger.split_count * sizeof *l->ends);
}

int leases_init(struct leases *l, const struct ledger_shape *shape, uint64_t batches_total,
                struct err *err)
{
    memset(l, 0, sizeof *l);
    int rc = ledger_init(&l->ledger, shape, 0, err);
    if (rc < 0)
        return rc;
    l->batches_total = batches_total;
    l->owners = mem_new(l->ledger.split_count, sizeof *l->owners);
    l->ends = mem_new(l->ledger.split_count, sizeof *l->ends);
    l->returned = mem_new(l->ledger.split_count, sizeof *l->returned);
    epoch_begin(l);
    return 0;
}

void leases_release(struct leases *l)
{
    ledger_release(&l->ledger);
    free(l->owners);
    free(l->ends);
    free(l->returned);
    memset(l, 0, sizeof *l);
}

void leases_again(const struct leases *l, uint32_t split, struct lease *out)
{
    *out = (struct lease){.epoch = l->ledger.epoch, .split = split, .batch_end = l->ends[split]};
}

bool leases_take(struct leases *l, uint64_t owner, struct lease *out)
{
    while (l->returned_count > 0) {
        uint32_t split = l->returned[--l->returned_count];
        if (l->ledger.done[split] > 0)
            continue; /* its lost worker's report arrived after all */
        l->owners[split] = owner;
        l->leased_count++;
        leases_again(l, split, out);
        return true;
    }
    if (l->granted_batches >= l->epoch_batches || l->next >= l->ledger.split_count)
        return false;
    uint32_t split = l->next++;
    uint64_t left = l->epoch_batches - l->granted_batches;
    uint32_t size = ledger_shape_split_batches(&l->ledger.shape, split);
    l->ends[split] = size < left ? size : (uint32_t)left;
    l->granted_batches += l->ends[split];
    l->owners[split] = owner;
    l->leased_count++;
    leases_again(l, split, out);
    out->fresh = true;
    return true;
}

void leases_return(struct leases *l, uint32_t split, uint64_t owner)
{
    if (split >= l->ledger.split_count || l->owners[split] != owner || owner == 0)
        return;
    l->owners[split] = 0;
    l->leased_count--;
    l->returned[l->returned_count++] = split;
}

bool leases_report(struct leases *l, uint32_t split)
{
    if (split >= l->ledger.split_count || l->ends[split] == 0)
        return false;
    if (l->ledger.done[split] > 0)
        return true;
    if (l->owners[split] != 0) {
        l->owners[split] = 0;
        l->leased_count--;
    }
    l->ledger.done[split] = l->ends[split];
    l->done_batches += l->ends[split];
    return true;
}

bool leases_epoch_done(const struct leases *l)
{
    return l->done_batches >= l->epoch_batches;
}

bool leases_all_done(const struct leases *l)
{
    return leases_batches_before(l) + l->done_batches >= l->batches_total;
}

void leases_next_epoch(struct leases *l)
{
    ledger_next_epoch(&l->ledger);
    epoch_begin(l);
}

uint64_t leases_batches_before(const struct leases *l)
{
    return l->ledger.epoch * ledger_shape_batches(&l->ledger.shape);
}
