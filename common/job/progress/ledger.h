/* SPDX-License-Identifier: Apache-2.0 */
/* The data position of a job: for each split of an epoch, how many of its batches are done.
 *
 * Batch k of an epoch is positions [k·batch, (k+1)·batch) of the epoch's order; split s holds
 * batches [s·split_batches, (s+1)·split_batches). The last batch of the epoch may be short. Plain
 * data. */
#ifndef GRADUS_JOB_PROGRESS_LEDGER_H
#define GRADUS_JOB_PROGRESS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LEDGER_SPLITS_MAX (1U << 20) /* 4 MiB of counts, in memory and in every checkpoint */
#define LEDGER_RECORDS_MAX (UINT64_C(1) << 48) /* so that no product of positions overflows */

struct ledger_shape {
    uint64_t records;
    uint32_t batch_records;
    uint32_t split_batches;
};

struct ledger {
    struct ledger_shape shape;
    uint64_t epoch;
    uint32_t split_count;
    uint32_t *done; /* [split_count] batches done */
};

struct ledger_batch {
    uint64_t epoch;
    uint32_t split, batch; /* batch: within the split */
    uint64_t first;        /* position in the epoch's order */
    uint32_t count;        /* records */
};

/* True if it is the same batch of the same data. */
bool ledger_batch_equal(const struct ledger_batch *a, const struct ledger_batch *b);

uint64_t ledger_shape_batches(const struct ledger_shape *s); /* of an epoch */
uint32_t ledger_shape_splits(const struct ledger_shape *s);
uint32_t ledger_shape_split_batches(const struct ledger_shape *s, uint32_t split);
void ledger_shape_batch(const struct ledger_shape *s, uint64_t epoch, uint32_t split,
                        uint32_t batch, struct ledger_batch *out);
/* Errors: ERR_INVALID (no records, zero sizes, too many splits). */
int ledger_init(struct ledger *l, const struct ledger_shape *shape, uint64_t epoch,
                struct err *err);
/* @to is overwritten and owns its counts. */
void ledger_copy(struct ledger *to, const struct ledger *from);
void ledger_release(struct ledger *l);
void ledger_next_epoch(struct ledger *l);     /* epoch + 1, nothing done */
uint64_t ledger_left(const struct ledger *l); /* batches not done in this epoch */
/* A complete epoch is the same position as the beginning of the next; settled, it is that. */
void ledger_settle(struct ledger *l);
/* True if both are at the same position of the same data. */
bool ledger_equal(const struct ledger *a, const struct ledger *b);
/* Records of the batches that are done, in all epochs. */
uint64_t ledger_records(const struct ledger *l);
/* The @n-th batch (0-based) of this epoch that is not done yet, in order of splits; false past the
 * end. */
bool ledger_pending(const struct ledger *l, uint64_t n, struct ledger_batch *out);

/* sync: global step g (counted from the ledger's position) gives replica r the pending batch
 * (g within its epoch)·replicas + r; a replica past the end of the epoch has count 0.
 * Step 0 is the first step after the ledger. The ledger's epoch has ceil(left / replicas) steps
 * (none when nothing is left), each later one ceil(batches / replicas). */
void ledger_sync_batch(const struct ledger *l, uint32_t replicas, uint64_t step, uint32_t replica,
                       struct ledger_batch *out);
/* How many batches with records the replicas first..end-1 have in the steps before @step; modulo
 * 2^64, and in the same time for any step. */
uint64_t ledger_sync_batches(const struct ledger *l, uint32_t replicas, uint64_t step,
                             uint32_t first, uint32_t end);
/* Steps from the ledger until @epochs epochs (from epoch 0) are done. */
uint64_t ledger_sync_steps(const struct ledger *l, uint32_t replicas, uint64_t epochs);

#endif
