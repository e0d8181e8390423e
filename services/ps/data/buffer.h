/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of gradient buffers of a shard. Any thread may use it. A buffer that was used is used
 * again first, because its pages are there. */
#ifndef GRADUS_PS_DATA_BUFFER_H
#define GRADUS_PS_DATA_BUFFER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ps/data/budget.h"

struct tables_gradient;

struct buffer {
    struct floats floats;
    struct buffer_pool *pool;
    struct buffer *next; /* in the pool's list */
    atomic_uint refs;
    /* Of the variables that the gradient is of, when its push brought them. */
    bool has_norms;
    size_t norm_count; /* how many, then */
    double *norms;     /* [pool->norms] */
    /* what the push brought of tables (shard_tables.h); NULL: nothing */
    struct tables_gradient *tables;
    /* Gives the memory back to its owner. NULL: the memory is the pool's. */
    void (*give_back)(struct buffer *b);
    void *owner;
    uint32_t block; /* for give_back() */
};

struct buffer_pool {
    pthread_mutex_t lock;
    struct budget *budget;
    struct buffer *unused, *unused_borrowed;
    uint64_t floats; /* of every buffer */
    size_t norms;    /* of every buffer; set before the first one is made */
    bool cold;       /* likewise: floats_init_cold() */
    size_t count;    /* allocated */
    size_t count_max;
    size_t reserved;                           /* how many more buffers the budget knows of */
    void (*given_back)(struct buffer_pool *p); /* a buffer is unused again; may be NULL */
};

void buffer_pool_init(struct buffer_pool *p, uint64_t floats, size_t count_max,
                      struct budget *budget);
void buffer_pool_release(struct buffer_pool *p);   /* every buffer is back */
uint64_t buffer_pool_bytes(struct buffer_pool *p); /* made or reserved */
/* Memory for @count buffers in all is on the budget from now on, made or not; @what: "gradients".
 * When it fails there is what there was. Errors: ERR_EXHAUSTED. */
int buffer_pool_reserve(struct buffer_pool *p, size_t count, const char *what, struct err *err);
/* A buffer that was used before, or NULL; one more, whatever the limit. Errors: ERR_EXHAUSTED. */
struct buffer *buffer_pool_take(struct buffer_pool *p);
struct buffer *buffer_pool_make(struct buffer_pool *p, struct err *err);
/* Free up to @count unused buffers; returns how many. The budget stays taken for @reserved, made or
 * not. */
size_t buffer_pool_trim(struct buffer_pool *p, size_t count, size_t reserved);
/* A buffer with one reference, without norms; its content is undefined. Errors: ERR_EXHAUSTED. */
struct buffer *buffer_get(struct buffer_pool *p, struct err *err);
/* A buffer around @data, which belongs to somebody else: the budget knows nothing of it, and with
 * the last reference @give_back(buffer) is called, where `owner` and `block` say whose it is. */
struct buffer *buffer_borrow(struct buffer_pool *p, float *data, void *owner, uint32_t block,
                             void (*give_back)(struct buffer *b));
struct buffer *buffer_ref(struct buffer *b);
void buffer_put(struct buffer *b); /* NULL is fine */

#endif
