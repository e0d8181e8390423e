/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that runs the callbacks of channels, and its guest: another thread that takes its
 * place for as long as it waits, so that an answer is not handed over from one to the other.
 *
 * At any time one thread at most takes events: the loop's own while `inside`, the guest otherwise.
 * The guest says that it comes (`taken`), and takes nothing before the loop's thread has left the
 * queue: with its next event, while the guest polls; one that is to sleep in the queue knocks
 * (rpc_knock.c), and does so more and more rarely where the place is not its own for long. The
 * loop's thread then stands aside until the place is given back, or for ASIDE_MS after the guest's
 * last visit: a guest that went to compute and forgot to give it back delays an event by so much at
 * most. None is lost: events lie in the queue, and bytes in the socket, until somebody takes them,
 * and who begins to sleep in the queue looks there first. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "rpc/rpc_client.h"

#define ASIDE_MS 20
#define ASIDE_ASLEEP_MS 200 /* while the guest sleeps in the queue */
#define STAY 16             /* waits in the queue for which a knock pays */
#define PASS_MAX 255

/* ---- the loop's thread ---- */

/* Under the lock. */
static void stand_aside(struct rpc_loop *loop)
{
    while (loop->taken) {
        const uint64_t visits = loop->visits;
        const uint64_t aside_ms = loop->guest_asleep ? ASIDE_ASLEEP_MS : ASIDE_MS;
        const uint64_t until_ns = chrono_now_ns() + aside_ms * UINT64_C(1000000);
        const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                       .tv_nsec = (long)(until_ns % 1000000000)};
        int rc = 0;
        while (loop->taken && rc != ETIMEDOUT) {
            rc = pthread_cond_timedwait(&loop->given_back, &loop->lock, &until);
        }
        if (visits == loop->visits && !loop->guest_inside) {
            loop->taken = false; /* it was forgotten */
        }
    }
}

static grpc_event next_event(struct rpc_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    atomic_store(&loop->inside, false);
    if (loop->guest_waits) {
        pthread_cond_signal(&loop->left);
    }
    stand_aside(loop);
    atomic_store(&loop->inside, true);
    pthread_mutex_unlock(&loop->lock);
    return grpc_completion_queue_next(loop->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

static void *loop_thread(void *arg)
{
    struct rpc_loop *loop = arg;
    for (;;) {
        grpc_event event = next_event(loop);
        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        rpc_event_run(&event); /* still inside: one thread runs callbacks at a time */
    }
}

struct rpc_loop *rpc_loop_new(struct rpc_polling *polling, struct err *err)
{
    struct rpc_loop *loop = mem_new(1, sizeof *loop);
    loop->cq = grpc_completion_queue_create_for_next(NULL);
    loop->knock = rpc_knock_new(loop->cq);
    rpc_waiter_init(&loop->guest, polling);
    pthread_mutex_init(&loop->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&loop->given_back, &attr);
    pthread_cond_init(&loop->left, &attr);
    pthread_condattr_destroy(&attr);
    const int error = rpc_thread_start(&loop->thread, loop_thread, loop);
    loop->started = error == 0;
    if (error != 0) {
        (void)err_errno(err, error, "start the thread of an RPC loop");
        rpc_loop_free(loop);
        return NULL;
    }
    return loop;
}

void rpc_loop_free(struct rpc_loop *loop)
{
    if (!loop) {
        return;
    }
    rpc_loop_give_back(loop);
    grpc_completion_queue_shutdown(loop->cq);
    if (loop->started) {
        pthread_join(loop->thread, NULL);
    } else {
        grpc_completion_queue_next(loop->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    }
    grpc_completion_queue_destroy(loop->cq);
    rpc_knock_free(loop->knock);
    rpc_waiter_release(&loop->guest);
    pthread_cond_destroy(&loop->given_back);
    pthread_cond_destroy(&loop->left);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

bool rpc_loop_is_self(const struct rpc_loop *loop)
{
    return pthread_equal(loop->thread, pthread_self());
}

/* ---- the guest ---- */

static void take(struct rpc_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->taken = true;
    loop->guest_inside = true;
    loop->visits++;
    pthread_mutex_unlock(&loop->lock);
}

void rpc_loop_give_back(struct rpc_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    /* while the guest polls nobody is missing */
    const bool gives = loop->taken && !loop->guest_inside;
    if (gives) {
        loop->taken = false;
        pthread_cond_signal(&loop->given_back);
    }
    pthread_mutex_unlock(&loop->lock);
}

/* The guest leaves: it takes no events for now. */
static void leave(struct rpc_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->guest_inside = false;
    pthread_mutex_unlock(&loop->lock);
}

/* Until it is ready, or does not pay any more. */
static bool poll(struct rpc_loop *loop, bool (*ready)(void *ctx), void *ctx, uint64_t poll_ns)
{
    bool is_ready = ready(ctx);
    while (!is_ready && chrono_now_ns() - loop->guest.since_ns < poll_ns) {
        (void)sched_yield(); /* any thread that is ready to run has more to do */
        if (!atomic_load(&loop->inside)) {
            /* the loop's thread may bring the answer, and leaves then */
            grpc_event event = rpc_event_now(loop->cq);
            if (event.type == GRPC_OP_COMPLETE) {
                rpc_event_run(&event);
            }
        }
        is_ready = ready(ctx);
    }
    return is_ready;
}

/* Gets the loop's thread out of the queue, unless that has not paid lately; false: it is there. */
static bool get_out(struct rpc_loop *loop)
{
    if (!atomic_load(&loop->inside)) {
        return true;
    }
    if (loop->passed < loop->pass) {
        loop->passed++;
        return false;
    }
    loop->pass = loop->slept >= STAY ? 0 : loop->pass * 2 + 1;
    loop->pass = loop->pass < PASS_MAX ? loop->pass : PASS_MAX;
    loop->passed = loop->slept = 0;
    pthread_mutex_lock(&loop->lock);
    loop->guest_waits = true;
    rpc_knock_at(loop->knock);
    while (atomic_load(&loop->inside)) {
        pthread_cond_wait(&loop->left, &loop->lock);
    }
    loop->guest_waits = false;
    pthread_mutex_unlock(&loop->lock);
    return true;
}

static void set_asleep(struct rpc_loop *loop, bool asleep)
{
    pthread_mutex_lock(&loop->lock);
    loop->guest_asleep = asleep;
    pthread_mutex_unlock(&loop->lock);
}

/* Until it is ready. Who makes it so and finds it asleep knocks; who did before is seen. */
static void sleep_in_queue(struct rpc_loop *loop, bool (*ready)(void *ctx), void *ctx,
                           uint64_t until_ms)
{
    set_asleep(loop, true);
    while (!ready(ctx)) {
        gpr_timespec until = gpr_inf_future(GPR_CLOCK_MONOTONIC);
        if (until_ms != UINT64_MAX) {
            const uint64_t now_ms = chrono_now_ms();
            const int64_t left_ms = until_ms > now_ms ? (int64_t)(until_ms - now_ms) : 0;
            until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                 gpr_time_from_millis(left_ms, GPR_TIMESPAN));
        }
        grpc_event event = grpc_completion_queue_next(loop->cq, until, NULL);
        if (event.type == GRPC_OP_COMPLETE) {
            rpc_event_run(&event);
        }
    }
    set_asleep(loop, false);
    loop->slept++;
}

bool rpc_loop_wait(struct rpc_loop *loop, bool (*ready)(void *ctx), void *ctx, uint64_t until_ms)
{
    const uint64_t poll_ns = rpc_waiter_begin(&loop->guest);
    take(loop);
    bool is_ready = poll(loop, ready, ctx, poll_ns);
    if (!is_ready && get_out(loop)) {
        sleep_in_queue(loop, ready, ctx, until_ms);
        is_ready = true;
    }
    leave(loop);
    if (!is_ready) {
        rpc_loop_give_back(loop);
    }
    return is_ready;
}

void rpc_loop_wake(struct rpc_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    if (loop->guest_asleep) {
        rpc_knock_at(loop->knock);
    }
    pthread_mutex_unlock(&loop->lock);
}

void rpc_loop_waited(struct rpc_loop *loop)
{
    rpc_waiter_end(&loop->guest);
}
