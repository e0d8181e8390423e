/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of records as full batches: blocks have other ends, and how records are put together
 * decides bits. */
#ifndef GRADUS_SAVED_SAVED_BATCHES_H
#define GRADUS_SAVED_SAVED_BATCHES_H

#include "base/err.h"
#include "data/dataset.h"

#define SAVED_BATCH 256

struct saved_batches {
    size_t width; /* numbers of a record */
    int (*take)(void *context, const struct batch *b, struct err *err);
    void *context;
    struct batch left; /* fewer than a batch; capacity 0: none */
};

/* The next block. @batches: a struct saved_batches. Errors: of reading and of take. */
int saved_batches_visit(void *batches, const struct dataset *block, struct err *err);
/* Takes the rest, where @rc is 0; to be called in any case. Returns @rc, or the error of take. */
int saved_batches_end(struct saved_batches *b, int rc, struct err *err);

#endif
