/* SPDX-License-Identifier: Apache-2.0 */
/* Items of one size that are used again instead of freed, so that the step path allocates nothing
 * once it is warm. Any thread; lives as long as the process. */
#ifndef GRADUS_BASE_RECYCLE_H
#define GRADUS_BASE_RECYCLE_H

#include <pthread.h>
#include <stddef.h>

struct recycler {
    pthread_mutex_t lock; /* guards what follows the size */
    size_t item_bytes;
    size_t unused_max; /* items beyond this number are freed when they are given back */
    size_t unused_count;
    struct recycled *unused;
};

/* @bytes ≥ a pointer's. */
#define RECYCLER(bytes, max)                                                                       \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, (bytes), (max), 0, NULL                                         \
    }

void *recycler_take(struct recycler *r);            /* content undefined; never NULL */
void recycler_give(struct recycler *r, void *item); /* NULL is fine */

#endif
