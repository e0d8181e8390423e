/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that runs the callbacks of channels, and its guest: another thread that takes its
 * place for as long as it polls, so that an answer wakes nobody.
 *
 * At any time one thread at most takes events: the loop's own while `inside`, the guest otherwise.
 * The guest says that it comes (`taken`), and takes nothing before the loop's thread has left the
 * queue, which it does with its next event: nothing gets it out before, so the first answer after a
 * while wakes a thread, and none after it. The loop's thread then stands aside until the place is
 * given back, or for ASIDE_MS after the guest's last visit: a guest that went to compute and forgot
 * to give it back delays an event by so much at most. None is lost: events lie in the queue, and
 * bytes in the socket, until somebody takes them, and who begins to sleep in the queue looks there
 * first. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "rpc/rpc_client.h"

#define ASIDE_MS 20

/* ---- the loop's thread ---- */

/* Under the lock. */
static void stand_aside(struct rpc_loop *loop)
{
    while (loop->taken) {
        const uint64_t visits = loop->visits;
        const uint64_t until_ns = chrono_now_ns() + ASIDE_MS * UINT64_C(1000000);
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
        rpc_event_run(&event);
        atomic_store(&loop->inside, false); /* not before: one thread runs callbacks at a time */
    }
}

struct rpc_loop *rpc_loop_new(struct rpc_polling *polling, struct err *err)
{
    struct rpc_loop *loop = mem_new(1, sizeof *loop);
    loop->cq = grpc_completion_queue_create_for_next(NULL);
    rpc_waiter_init(&loop->guest, polling);
    pthread_mutex_init(&loop->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&loop->given_back, &attr);
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
    rpc_waiter_release(&loop->guest);
    pthread_cond_destroy(&loop->given_back);
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

bool rpc_loop_wait(struct rpc_loop *loop, bool (*ready)(void *ctx), void *ctx)
{
    const uint64_t poll_ns = rpc_waiter_begin(&loop->guest);
    if (poll_ns == 0) {
        rpc_loop_give_back(loop);
        return false;
    }
    take(loop);
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
    leave(loop);
    if (!is_ready) {
        rpc_loop_give_back(loop);
    }
    return is_ready;
}

void rpc_loop_waited(struct rpc_loop *loop)
{
    rpc_waiter_end(&loop->guest);
}
