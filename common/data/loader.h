/* A thread that decodes mini-batches ahead of the compute thread.
 *
 * The owner asks for batches in the order in which it will take them; the loader keeps up to @depth
 * ready. Owner: one thread calls all functions. Memory: all batches are allocated by loader_new().
 */
#ifndef GRADUS_DATA_LOADER_H
#define GRADUS_DATA_LOADER_H

#include <stdint.h>

#include "data/dataset.h"

struct loader;

/* @data is borrowed and must outlive the loader. @seed orders the records. */
int loader_new(const struct dataset *data, uint64_t seed, size_t batch_records, size_t depth,
               struct loader **out, struct err *err);
void loader_free(struct loader *l); /* stops the thread; batches taken become invalid */
/* Ask for positions first..first+count-1 of @epoch. A request is open until its batch is returned.
 * Errors: ERR_EXHAUSTED @depth requests are open; ERR_RANGE positions outside the data, or more
 * than a batch holds. */
int loader_request(struct loader *l, uint64_t epoch, uint64_t first, size_t count, struct err *err);
/* The oldest requested batch; waits until it is decoded. It stays valid until loader_return().
 * NULL when nothing is requested. */
const struct batch *loader_take(struct loader *l);
void loader_return(struct loader *l, const struct batch *b);
/* Forget all requests whose batch was not taken (a new generation changed the plan). */
void loader_reset(struct loader *l);

#endif
