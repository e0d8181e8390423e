/* SPDX-License-Identifier: Apache-2.0 */
/* A few threads for work that blocks, such as writing a checkpoint. Any thread may post. */
#ifndef GRADUS_EXECUTION_POOL_H
#define GRADUS_EXECUTION_POOL_H

#include <stddef.h>

#include "base/err.h"

#define POOL_THREADS_MAX 64
#define POOL_QUEUE_MAX 4096

struct pool;

/* @threads: 1..POOL_THREADS_MAX; @queue: tasks waiting at once, 1..POOL_QUEUE_MAX; @name: of the
 * threads, at most 15 bytes. Errors: ERR_RANGE; ERR_EXHAUSTED no thread can be made. */
struct pool *pool_new(unsigned threads, size_t queue, const char *name, struct err *err);
/* Run @fn(@ctx) on one of the threads. Errors: ERR_EXHAUSTED the queue is full; ERR_STATE the pool
 * is draining. After an error @fn is not called. */
int pool_post(struct pool *p, void (*fn)(void *ctx), void *ctx, struct err *err);
/* Refuse new tasks, run those that wait, end the threads. Not from a task. Idempotent. */
void pool_drain(struct pool *p);
void pool_free(struct pool *p); /* drains; NULL is fine */

#endif
