/* SPDX-License-Identifier: Apache-2.0 */
/* An event loop: a bounded ring of messages under a mutex and a binary heap of timers. Messages
 * are taken 64 at a time at most, with the due timers between, so neither starves the other. */
#include "execution/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "os/thread.h"

/* Messages taken at once: few enough that timers are not kept waiting, enough to share a lock. */
#define LOOP_BATCH 64
#define LOOP_MESSAGES_DEFAULT 4096

struct message {
    void (*fn)(void *ctx);
    void *ctx;
};

struct loop {
    pthread_mutex_t lock; /* guards the mailbox, `stopping` and `idling` */
    pthread_cond_t wake;
    struct message *messages; /* a ring of `capacity` */
    size_t capacity;
    size_t first;
    size_t count;
    bool stopping;
    bool idling; /* idle.begin() runs, and idle.wake is to be called */
    pthread_t idler;
    atomic_uint posting; /* threads inside loop_post() */

    /* For the loop's thread. */
    struct loop_timer **heap; /* earliest first */
    size_t timer_count;
    size_t timer_capacity;
    uint64_t timer_order;
    uint64_t now_ms; /* when timers last ran */
    bool discarding;
    struct loop_idle idle; /* begin NULL: nobody is told */

    pthread_t thread;
    bool started;
};

struct loop *loop_new(size_t capacity)
{
    assert(capacity <= LOOP_MESSAGES_MAX);
    struct loop *loop = mem_new(1, sizeof *loop);
    loop->capacity = capacity == 0 ? LOOP_MESSAGES_DEFAULT : capacity;
    loop->messages = mem_new(loop->capacity, sizeof loop->messages[0]);
    pthread_mutex_init(&loop->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&loop->wake, &attr);
    pthread_condattr_destroy(&attr);
    return loop;
}

/* ---- messages ---- */

/* Under the lock; there is something to do. */
static void wake_idler(struct loop *loop)
{
    if (loop->idling && !pthread_equal(loop->idler, pthread_self())) {
        loop->idle.wake(loop->idle.ctx);
    }
}

int loop_post(struct loop *loop, void (*fn)(void *ctx), void *ctx, struct err *err)
{
    atomic_fetch_add(&loop->posting, 1);
    pthread_mutex_lock(&loop->lock);
    bool stopping = loop->stopping;
    bool full = loop->count == loop->capacity;
    bool first = !stopping && !full && loop->count == 0;
    if (!stopping && !full) {
        loop->messages[(loop->first + loop->count++) % loop->capacity] = (struct message){fn, ctx};
    }
    if (first) {
        wake_idler(loop);
    }
    pthread_mutex_unlock(&loop->lock);
    if (first) { /* with more messages in it, the loop is awake or was woken already */
        pthread_cond_signal(&loop->wake); /* unlocked: it would wake to wait for the lock */
    }
    size_t capacity = loop->capacity;
    atomic_fetch_sub(&loop->posting, 1); /* from here on the loop may be freed */
    if (stopping) {
        return err_set(err, ERR_STATE, "the event loop has been stopped");
    }
    if (full) {
        return err_set(err, ERR_EXHAUSTED, "the mailbox is full (%zu messages wait)", capacity);
    }
    return 0;
}

size_t loop_waiting(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    size_t count = loop->count;
    pthread_mutex_unlock(&loop->lock);
    return count;
}

bool loop_discarding(const struct loop *loop)
{
    return loop->discarding;
}

struct loop_call_state {
    void (*fn)(void *ctx);
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
};

static void run_call(void *ctx)
{
    struct loop_call_state *call = ctx;
    call->fn(call->ctx);
    pthread_mutex_lock(&call->lock);
    call->done = true;
    pthread_cond_signal(&call->over); /* under the lock: the caller frees `call` at once */
    pthread_mutex_unlock(&call->lock);
}

int loop_call(struct loop *loop, void (*fn)(void *ctx), void *ctx, struct err *err)
{
    struct loop_call_state call = {.fn = fn, .ctx = ctx};
    pthread_mutex_init(&call.lock, NULL);
    pthread_cond_init(&call.over, NULL);
    int code = loop_post(loop, run_call, &call, err);
    if (code == 0) {
        pthread_mutex_lock(&call.lock);
        while (!call.done) {
            pthread_cond_wait(&call.over, &call.lock);
        }
        pthread_mutex_unlock(&call.lock);
    }
    pthread_cond_destroy(&call.over);
    pthread_mutex_destroy(&call.lock);
    return code;
}

/* Moves up to LOOP_BATCH messages to @batch. The lock is held. */
static size_t take_messages(struct loop *loop, struct message *batch)
{
    size_t n = loop->count < LOOP_BATCH ? loop->count : LOOP_BATCH;
    for (size_t i = 0; i < n; i++) {
        batch[i] = loop->messages[(loop->first + i) % loop->capacity];
    }
    loop->first = (loop->first + n) % loop->capacity;
    loop->count -= n;
    return n;
}

/* ---- timers: a binary heap ---- */

static bool earlier(const struct loop_timer *a, const struct loop_timer *b)
{
    return a->deadline_ms != b->deadline_ms ? a->deadline_ms < b->deadline_ms : a->order < b->order;
}

static void put(struct loop *loop, size_t i, struct loop_timer *timer)
{
    loop->heap[i] = timer;
    timer->slot = i + 1;
}

static void sift_up(struct loop *loop, size_t i, struct loop_timer *timer)
{
    while (i > 0 && earlier(timer, loop->heap[(i - 1) / 2])) {
        put(loop, i, loop->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put(loop, i, timer);
}

static void sift_down(struct loop *loop, size_t i, struct loop_timer *timer)
{
    for (size_t child = 2 * i + 1; child < loop->timer_count; child = 2 * i + 1) {
        if (child + 1 < loop->timer_count && earlier(loop->heap[child + 1], loop->heap[child])) {
            child++;
        }
        if (!earlier(loop->heap[child], timer)) {
            break;
        }
        put(loop, i, loop->heap[child]);
        i = child;
    }
    put(loop, i, timer);
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
    if (timer->slot == 0) {
        return;
    }
    size_t i = timer->slot - 1;
    timer->slot = 0;
    struct loop_timer *last = loop->heap[--loop->timer_count];
    if (last != timer) {
        sift_down(loop, i, last);
        sift_up(loop, last->slot - 1, last);
    }
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ms,
                    void (*fn)(void *ctx), void *ctx)
{
    loop_timer_clear(loop, timer);
    /* One that is set into the past again and again must not stay ahead of the others. */
    timer->deadline_ms = deadline_ms > loop->now_ms ? deadline_ms : loop->now_ms;
    timer->order = loop->timer_order++;
    timer->fn = fn;
    timer->ctx = ctx;
    loop->heap =
        mem_grow(loop->heap, &loop->timer_capacity, loop->timer_count + 1, sizeof loop->heap[0]);
    sift_up(loop, loop->timer_count++, timer);
}

/* Runs timers that are due now and were set before: a timer that sets itself again at once must not
 * keep messages out. */
static void run_timers(struct loop *loop)
{
    if (loop->timer_count == 0) {
        return;
    }
    loop->now_ms = chrono_now_ms();
    uint64_t order = loop->timer_order;
    while (loop->timer_count > 0) {
        struct loop_timer *timer = loop->heap[0];
        if (timer->deadline_ms > loop->now_ms || timer->order >= order) {
            return;
        }
        loop_timer_clear(loop, timer);
        timer->fn(timer->ctx);
    }
}

/* ---- running ---- */

/* Sleeps until a message, the next timer or the stop; the lock is held. */
static void wait_for_work(struct loop *loop)
{
    while (loop->count == 0 && !loop->stopping) {
        if (loop->timer_count == 0) {
            pthread_cond_wait(&loop->wake, &loop->lock);
            continue;
        }
        uint64_t deadline_ms = loop->heap[0]->deadline_ms;
        struct timespec until = {
            .tv_sec = (time_t)(deadline_ms / 1000),
            .tv_nsec = (long)(deadline_ms % 1000) * 1000000,
        };
        if (pthread_cond_timedwait(&loop->wake, &loop->lock, &until) == ETIMEDOUT) {
            return;
        }
    }
}

static bool loop_is_stopping(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool stopping = loop->stopping;
    pthread_mutex_unlock(&loop->lock);
    return stopping;
}

void loop_set_idle(struct loop *loop, const struct loop_idle *idle)
{
    loop->idle = idle != NULL ? *idle : (struct loop_idle){0};
}

bool loop_ready(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool ready = loop->count > 0 || loop->stopping;
    pthread_mutex_unlock(&loop->lock);
    return ready || (loop->timer_count > 0 && loop->heap[0]->deadline_ms <= chrono_now_ms());
}

uint64_t loop_next_timer_ms(const struct loop *loop)
{
    return loop->timer_count > 0 ? loop->heap[0]->deadline_ms : UINT64_MAX;
}

static void set_idling(struct loop *loop, bool idling)
{
    pthread_mutex_lock(&loop->lock);
    loop->idling = idling && loop->idle.wake != NULL;
    loop->idler = pthread_self();
    pthread_mutex_unlock(&loop->lock);
}

/* Takes the next messages. A message that is posted between the two looks is found at the second
 * one, under the lock. */
static size_t next_messages(struct loop *loop, struct message *batch, bool *over)
{
    const struct loop_idle idle = loop->idle;
    const bool tells = idle.begin != NULL && !loop_ready(loop);
    if (tells) {
        set_idling(loop, true);
        idle.begin(idle.ctx);
        set_idling(loop, false);
    }
    pthread_mutex_lock(&loop->lock);
    wait_for_work(loop);
    size_t n = take_messages(loop, batch);
    *over = loop->stopping && n == 0;
    pthread_mutex_unlock(&loop->lock);
    if (tells) {
        idle.end(idle.ctx);
    }
    return n;
}

void loop_run(struct loop *loop)
{
    struct message batch[LOOP_BATCH];
    for (;;) {
        bool over = false;
        size_t n = next_messages(loop, batch, &over);
        if (over) {
            return;
        }
        for (size_t i = 0; i < n; i++) {
            batch[i].fn(batch[i].ctx);
        }
        if (!loop_is_stopping(loop)) {
            run_timers(loop);
        }
    }
}

static void *thread_main(void *arg)
{
    loop_run(arg);
    return NULL;
}

int loop_start(struct loop *loop, const char *name, struct err *err)
{
    int rc = thread_start(&loop->thread, name, thread_main, loop);
    if (rc != 0) {
        return err_errno(err, rc, "start thread %s", name);
    }
    loop->started = true;
    return 0;
}

void loop_join(struct loop *loop)
{
    if (loop->started) {
        pthread_join(loop->thread, NULL);
        loop->started = false;
    }
}

void loop_stop(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->stopping = true;
    pthread_cond_signal(&loop->wake);
    wake_idler(loop);
    pthread_mutex_unlock(&loop->lock);
}

void loop_free(struct loop *loop)
{
    if (loop == NULL) {
        return;
    }
    loop_stop(loop);
    loop_join(loop);
    while (atomic_load(&loop->posting) > 0) { /* its message ran before its post returned */
        (void)sched_yield();
    }
    loop->discarding = true;
    struct message batch[LOOP_BATCH];
    for (size_t n = take_messages(loop, batch); n > 0; n = take_messages(loop, batch)) {
        for (size_t i = 0; i < n; i++) {
            batch[i].fn(batch[i].ctx);
        }
    }
    pthread_cond_destroy(&loop->wake);
    pthread_mutex_destroy(&loop->lock);
    free(loop->messages);
    free(loop->heap);
    free(loop);
}
