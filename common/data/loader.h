/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that decode mini-batches ahead of the compute thread: one for records in memory, more for
 * those that stay in their files.
 *
 * The owner asks for batches in the order in which it expects to take them, and takes whichever it
 * needs: what was asked for in vain is forgotten, what was not asked for is decoded at once. A
 * batch is known by its epoch and positions, so a wrong one is never taken. Owner: one thread calls
 * all functions. Memory: @depth batches, allocated by loader_new(). */
#ifndef GRADUS_DATA_LOADER_H
#define GRADUS_DATA_LOADER_H

#include <stdint.h>

#include "data/dataset.h"

struct loader;

/* More work on a batch ahead of time, by the thread that has decoded it: for slot @slot, below the
 * loader's depth, which belongs to that thread until the batch is returned. Errors are those of
 * loader_take(). */
struct loader_prepare {
    int (*call)(void *ctx, size_t slot, const struct batch *b, struct err *err);
    void *ctx;
};

/* @data is borrowed and must outlive the loader. @seed orders the records. @depth: batches asked
 * for and taken at once; at least 2, as one may be in the thread's hands. */
int loader_new(const struct dataset *data, uint64_t seed, size_t batch_records, size_t depth,
               struct loader **out, struct err *err);
/* Call before anything is requested; @prepare is copied. */
void loader_set_prepare(struct loader *l, const struct loader_prepare *prepare);
void loader_free(struct loader *l); /* stops the thread; batches taken become invalid */
/* Have positions first..first+count-1 of @epoch decoded, after what was asked for before. Asking
 * again only moves it to the end. When all batches are in use, the oldest that was not taken makes
 * room. Errors: ERR_EXHAUSTED all are taken, or the last is being decoded; ERR_RANGE positions
 * outside the data, or more than a batch holds. */
int loader_request(struct loader *l, uint64_t epoch, uint64_t first, size_t count, struct err *err);
/* Takes a batch; waits while the thread is at it. It stays valid until loader_return(). Requests
 * before it are forgotten: the owner has gone past them. Errors: as loader_request(); as
 * dataset_read(), and then no batch is taken. */
int loader_take(struct loader *l, uint64_t epoch, uint64_t first, size_t count,
                const struct batch **out, struct err *err);
/* The slot of a batch that is taken. */
size_t loader_slot(const struct loader *l, const struct batch *b);
void loader_return(struct loader *l, const struct batch *b);

#endif
