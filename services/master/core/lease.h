/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker works on which split of the epoch (async and bounded modes), over the job's ledger.
 *
 * A lease has no deadline of its own: it ends with its report, when its worker gives it back, or
 * with its worker. Every call but the change of the epoch and leases_known() is O(1), amortised.
 * Owner: the job. */
#ifndef GRADUS_MASTER_CORE_LEASE_H
#define GRADUS_MASTER_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "job/progress/ledger.h"

struct lease {
    uint64_t epoch;
    uint32_t split;
    uint32_t batch_end; /* end of its batches, of which some may be done */
    bool fresh;         /* no worker has begun it: no shard has any of its batches */
};

struct lease_split {
    uint64_t owner;  /* node number; 0: not leased */
    uint32_t target; /* batches to do of it in this epoch: all, or fewer in the training's last */
    uint32_t end;    /* of the last lease; 0: never leased */
    uint32_t level;  /* while levelling: the highest progress of a shard */
};

struct leases {
    struct ledger ledger;       /* applied on every shard, as far as it was said */
    uint64_t batches_total;     /* batches of the whole training */
    struct lease_split *splits; /* [split_count]; NULL: the job leases no splits */
    uint32_t next;              /* no split before it is free */
    uint32_t leased_count;      /* out at workers */
    uint64_t epoch_batches;     /* batches to be done at the end of this epoch */
    uint64_t done_batches;      /* batches of the epoch that are done, by the ledger */
    bool levelling;             /* leases only batches that some shards have and others do not */
};

/* From the position @ledger (copied) on, until @batches_total (from the beginning of the training)
 * are done. A complete epoch becomes the beginning of the next unless it is the last. */
void leases_init(struct leases *l, const struct ledger *ledger, uint64_t batches_total);
void leases_release(struct leases *l); /* zeroed is fine */
/* The first free split for @owner (not 0); false: none is free in this epoch. */
bool leases_take(struct leases *l, uint64_t owner, struct lease *out);
/* Ends the lease of @split; ignored when @owner does not hold it. */
void leases_return(struct leases *l, uint32_t split, uint64_t owner);
/* The batches of @split before @batch_end are applied on every shard, whoever says so. False: a
 * split or batch that was never leased. Repeating it changes nothing. */
bool leases_report(struct leases *l, uint32_t split, uint32_t batch_end);
/* Takes what the shards have: every shard has the batches of @low, some those of @high. Both are of
 * this epoch. */
void leases_known(struct leases *l, const uint32_t *low, const uint32_t *high);
/* True if every shard has the same batches, by the last leases_known() and the reports since. */
bool leases_level(const struct leases *l);
bool leases_epoch_done(const struct leases *l);
void leases_next_epoch(struct leases *l);
/* batches that are done, since the training began */
uint64_t leases_batches(const struct leases *l);

#endif
