/* SPDX-License-Identifier: Apache-2.0 */
/* A list, under a mutex, of items that were given back; the next taker gets one of them as it
 * is, not zeroed. Sanitizer builds keep none, so that a use after giving back is found. */
#include "base/recycle.h"

#include <stdlib.h>

#include "base/mem.h"

/* A sanitizer must see what is used after it was given back, and what threads pass on through gRPC,
 * which it does not see into, must not look like the memory of something before. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RECYCLE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RECYCLE 0
#endif
#endif
#ifndef RECYCLE
#define RECYCLE 1
#endif

struct recycled {
    struct recycled *next;
};

void *recycler_take(struct recycler *r)
{
    pthread_mutex_lock(&r->lock);
    struct recycled *item = r->unused;
    if (item != NULL) {
        r->unused = item->next;
        r->unused_count--;
    }
    pthread_mutex_unlock(&r->lock);
    return item != NULL ? (void *)item : mem_new(1, r->item_bytes);
}

void recycler_give(struct recycler *r, void *item)
{
    struct recycled *unused = item;
    if (item == NULL) {
        return;
    }
    pthread_mutex_lock(&r->lock);
    if (RECYCLE && r->unused_count < r->unused_max) {
        unused->next = r->unused;
        r->unused = unused;
        r->unused_count++;
        unused = NULL;
    }
    pthread_mutex_unlock(&r->lock);
    free(unused);
}
