/* SPDX-License-Identifier: Apache-2.0 */
/* Makes batches of the records of blocks; the rest of one block waits for the next. */
#include "saved/saved_batches.h"

#include "data/batch_join.h"

/* The next @n records of @block into @b, from @at on. */
static int read_some(const struct dataset *block, uint64_t at, size_t n, struct batch *b,
                     struct err *err)
{
    uint64_t records[SAVED_BATCH];
    for (size_t i = 0; i < n; i++) {
        records[i] = at + i;
    }
    return dataset_read(block, records, n, b, err);
}

static size_t most(uint64_t left, size_t room)
{
    return left < room ? (size_t)left : room;
}

int saved_batches_visit(void *batches, const struct dataset *block, struct err *err)
{
    struct saved_batches *p = batches;
    const uint64_t count = dataset_info(block)->records;
    struct batch b = {0};
    int rc = batch_init(&b, block, SAVED_BATCH, err);
    for (uint64_t at = 0; rc == 0 && at < count;) {
        const size_t n = most(count - at, SAVED_BATCH - p->left.count);
        rc = read_some(block, at, n, &b, err);
        if (rc == 0 && p->left.capacity > 0) {
            rc = batch_append(&p->left, &b, p->width, err);
        }
        struct batch *full = p->left.capacity > 0 ? &p->left : &b;
        if (rc == 0 && full->count == SAVED_BATCH) {
            rc = p->take(p->context, full, err);
            batch_release(&p->left);
        } else if (rc == 0 && full == &b) {
            p->left = b;
            b = (struct batch){0}; /* the block ends here */
        }
        at += n;
    }
    batch_release(&b);
    return rc;
}

int saved_batches_end(struct saved_batches *b, int rc, struct err *err)
{
    if (rc == 0 && b->left.count > 0) {
        rc = b->take(b->context, &b->left, err);
    }
    batch_release(&b->left);
    return rc;
}
