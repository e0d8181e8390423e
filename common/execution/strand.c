/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tasks one at a time without a lock or a thread of its own: a list to which any thread
 * adds by compare-and-swap, and from which only the thread that found it idle takes. */
#include "execution/strand.h"

#include <stddef.h>

/* `top` is NULL when idle, &busy when a thread drains and nothing was posted since it last looked,
 * and otherwise a list of tasks, newest first, that ends with &busy. Only the draining thread takes
 * tasks off, and it takes all at once, so the list has no ABA problem. */
static struct strand_task busy;

/* Posted order from newest-first order. */
static struct strand_task *reverse(struct strand_task *newest)
{
    struct strand_task *oldest = NULL;
    while (newest != &busy) {
        struct strand_task *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

enum { HANDOVER_NONE, HANDOVER_LEFT, HANDOVER_RESUMED };

/* Run @task and those behind it; true: the strand is suspended, and this thread has left it. */
static bool run_list(struct strand *s, struct strand_task *task)
{
    while (task != NULL) {
        struct strand_task *next = task->next; /* run() may free the task */
        task->run(task);
        if (s->suspends) {
            s->suspends = false;
            s->left = next;
            if (atomic_exchange(&s->handover, HANDOVER_LEFT) != HANDOVER_RESUMED) {
                return true;
            }
            atomic_store(&s->handover, HANDOVER_NONE);
        }
        task = next;
    }
    return false;
}

static void drain(struct strand *s)
{
    struct strand_task *expected = &busy;
    while (!atomic_compare_exchange_strong_explicit(&s->top, &expected, NULL, memory_order_release,
                                                    memory_order_relaxed)) {
        struct strand_task *task =
            reverse(atomic_exchange_explicit(&s->top, &busy, memory_order_acquire));
        if (run_list(s, task)) {
            return;
        }
        expected = &busy;
    }
}

bool strand_post(struct strand *s, struct strand_task *task, void (*run)(struct strand_task *task))
{
    task->run = run;
    struct strand_task *old = atomic_load_explicit(&s->top, memory_order_relaxed);
    struct strand_task *top;
    do {
        task->next = old;
        top = old == NULL ? &busy : task;
        /* Release hands the task to the draining thread; acquire takes over what the last draining
         * thread wrote. */
    } while (!atomic_compare_exchange_weak_explicit(&s->top, &old, top, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (old != NULL) {
        return false;
    }
    task->next = NULL;
    if (!run_list(s, task)) {
        drain(s);
    }
    return true;
}

void strand_suspend(struct strand *s)
{
    s->suspends = true;
}

void strand_resume(struct strand *s)
{
    if (atomic_exchange(&s->handover, HANDOVER_RESUMED) != HANDOVER_LEFT) {
        return; /* the thread that suspended it has not left yet, and goes on */
    }
    atomic_store(&s->handover, HANDOVER_NONE);
    if (!run_list(s, s->left)) {
        drain(s);
    }
}
