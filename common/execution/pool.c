/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take tasks from one bounded queue, first in, first out. Draining refuses new
 * tasks, runs all that wait and joins the threads. */
#include "execution/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "os/thread.h"

struct pool_task {
    void (*fn)(void *ctx);
    void *ctx;
};

struct pool {
    pthread_mutex_t lock; /* guards everything below except the threads */
    pthread_cond_t wake;
    struct pool_task *tasks; /* a ring of `capacity` */
    size_t capacity;
    size_t first;
    size_t count;
    bool draining;
    pthread_t *threads; /* used by the thread that makes and drains the pool */
    unsigned thread_count;
};

static void *work(void *arg)
{
    struct pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->count == 0 && !p->draining) {
            pthread_cond_wait(&p->wake, &p->lock);
        }
        if (p->count == 0) {
            break;
        }
        struct pool_task task = p->tasks[p->first];
        p->first = (p->first + 1) % p->capacity;
        p->count--;
        pthread_mutex_unlock(&p->lock);
        task.fn(task.ctx);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct pool *pool_new(unsigned threads, size_t queue, const char *name, struct err *err)
{
    if (threads == 0 || threads > POOL_THREADS_MAX || queue == 0 || queue > POOL_QUEUE_MAX) {
        err_set(err, ERR_RANGE, "pool %s: %u threads with a queue of %zu; 1 to %d and 1 to %d",
                name, threads, queue, POOL_THREADS_MAX, POOL_QUEUE_MAX);
        return NULL;
    }
    struct pool *p = mem_new(1, sizeof *p);
    p->capacity = queue;
    p->tasks = mem_new(queue, sizeof p->tasks[0]);
    p->threads = mem_new(threads, sizeof p->threads[0]);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    while (p->thread_count < threads) {
        int rc = thread_start(&p->threads[p->thread_count], name, work, p);
        if (rc != 0) {
            err_errno(err, rc, "start thread %u of pool %s", p->thread_count, name);
            pool_free(p);
            return NULL;
        }
        p->thread_count++;
    }
    return p;
}

int pool_post(struct pool *p, void (*fn)(void *ctx), void *ctx, struct err *err)
{
    pthread_mutex_lock(&p->lock);
    bool draining = p->draining;
    bool full = p->count == p->capacity;
    if (!draining && !full) {
        p->tasks[(p->first + p->count++) % p->capacity] = (struct pool_task){fn, ctx};
        pthread_cond_signal(&p->wake);
    }
    pthread_mutex_unlock(&p->lock);
    if (draining) {
        return err_set(err, ERR_STATE, "the pool is draining");
    }
    if (full) {
        return err_set(err, ERR_EXHAUSTED, "the pool's queue is full (%zu tasks wait)",
                       p->capacity);
    }
    return 0;
}

void pool_drain(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->draining = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    while (p->thread_count > 0) {
        pthread_join(p->threads[--p->thread_count], NULL);
    }
}

void pool_free(struct pool *p)
{
    if (p == NULL) {
        return;
    }
    pool_drain(p);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->tasks);
    free(p->threads);
    free(p);
}
