/* SPDX-License-Identifier: Apache-2.0 */
/* Polls a completion queue before a thread sleeps in it, as long as poll_policy.h says. */
#include "rpc/rpc_polling.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "os/host_cpus.h"
#include "os/thread_load.h"

struct rpc_polling {
    struct poll_setting setting;
    unsigned processors;
    atomic_uint neighbours;
    atomic_uint_fast64_t found, missed, slept, polled_ns;
    atomic_uint waiters[POLL_WHY_COUNT];
};

/* ---- of the process ---- */

/* The number of processors that polling may take. A control group that has used up its quota stands
 * still with all its threads, so one processor's worth of a quota is left to threads that nobody
 * counts. */
static unsigned processors_to_take(void)
{
    const struct host_cpus host = host_cpus("");
    const unsigned whole = (unsigned)host.time;
    return host.limited && whole > 0 ? whole - 1 : whole;
}

struct rpc_polling *rpc_polling_new(const struct poll_setting *setting)
{
    struct rpc_polling *p = mem_new(1, sizeof *p);
    p->setting = *setting;
    p->processors = processors_to_take();
    return p;
}

void rpc_polling_free(struct rpc_polling *p)
{
    free(p);
}

void rpc_polling_neighbour(struct rpc_polling *p, bool comes)
{
    if (p != NULL && comes) {
        atomic_fetch_add(&p->neighbours, 1);
    } else if (p != NULL) {
        atomic_fetch_sub(&p->neighbours, 1);
    }
}

struct rpc_polling_totals rpc_polling_totals(const struct rpc_polling *p)
{
    struct rpc_polling_totals t = {
        .found = atomic_load(&p->found),
        .missed = atomic_load(&p->missed),
        .slept = atomic_load(&p->slept),
        .polled_ns = atomic_load(&p->polled_ns),
        .neighbours = atomic_load(&p->neighbours),
        .processors = p->processors,
    };
    for (size_t i = 0; i < POLL_WHY_COUNT; i++) {
        t.waiters[i] = atomic_load(&p->waiters[i]);
    }
    return t;
}

/* ---- of a thread ---- */

void rpc_waiter_init(struct rpc_waiter *w, struct rpc_polling *polling)
{
    *w = (struct rpc_waiter){0};
    if (polling != NULL && (polling->setting.adapts || polling->setting.ns > 0)) {
        w->polling = polling;
        poll_policy_init(&w->policy, &polling->setting);
        w->told = POLL_LATE;
        atomic_fetch_add(&polling->waiters[w->told], 1);
    }
}

void rpc_waiter_release(struct rpc_waiter *w)
{
    if (w->polling != NULL) {
        atomic_fetch_sub(&w->polling->waiters[w->told], 1);
        w->polling = NULL;
    }
}

static void tell(struct rpc_waiter *w)
{
    if (w->told != w->policy.why) {
        atomic_fetch_sub(&w->polling->waiters[w->told], 1);
        w->told = w->policy.why;
        atomic_fetch_add(&w->polling->waiters[w->told], 1);
    }
}

uint64_t rpc_waiter_begin(struct rpc_waiter *w)
{
    struct rpc_polling *p = w->polling;
    w->since_ns = chrono_now_ns();
    if (p == NULL) {
        return 0;
    }
    if (poll_policy_load_due(&w->policy, w->since_ns)) {
        const struct thread_load load = thread_load();
        poll_policy_load(&w->policy, w->since_ns, &load);
    }
    w->polled_ns = poll_policy_begin(&w->policy, w->since_ns,
                                     1 + atomic_load_explicit(&p->neighbours, memory_order_relaxed),
                                     p->processors);
    tell(w);
    return w->polled_ns;
}

static void count(atomic_uint_fast64_t *n, uint64_t more)
{
    atomic_fetch_add_explicit(n, more, memory_order_relaxed);
}

void rpc_waiter_end(struct rpc_waiter *w)
{
    struct rpc_polling *p = w->polling;
    if (p == NULL) {
        return;
    }
    const uint64_t now_ns = chrono_now_ns();
    const uint64_t waited_ns = now_ns - w->since_ns;
    poll_policy_end(&w->policy, now_ns, waited_ns, w->polled_ns);
    const bool slept = waited_ns > w->polled_ns;
    count(w->polled_ns == 0 ? &p->slept : slept ? &p->missed : &p->found, 1);
    count(&p->polled_ns, slept ? w->polled_ns : waited_ns);
}

/* ---- events ---- */

grpc_event rpc_event_now(grpc_completion_queue *cq)
{
    return grpc_completion_queue_next(cq, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
}

void rpc_event_run(const grpc_event *event)
{
    struct rpc_tag *tag = event->tag;
    rpc_tag_acquire(tag);
    tag->run(tag, event->success != 0);
}

grpc_event rpc_waiter_next(struct rpc_waiter *w, grpc_completion_queue *cq)
{
    if (w->polling == NULL) {
        return grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    }
    const uint64_t poll_ns = rpc_waiter_begin(w);
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    while (event.type == GRPC_QUEUE_TIMEOUT && poll_ns > 0 &&
           chrono_now_ns() - w->since_ns < poll_ns) {
        (void)sched_yield(); /* any thread that is ready to run has more to do */
        event = rpc_event_now(cq);
    }
    if (event.type == GRPC_QUEUE_TIMEOUT) {
        event = grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    }
    rpc_waiter_end(w);
    return event;
}
