/* SPDX-License-Identifier: Apache-2.0 */
/* A strand: tasks that run one at a time and in order, on the threads that bring them.
 *
 * Who posts to an idle strand runs tasks until none is left; who posts to a busy one leaves its
 * task there and goes on. So what a strand guards needs no lock, nobody ever waits, and there is no
 * thread per strand. Posting is one compare-and-swap on one word and allocates nothing, because the
 * task is part of the caller's object. A task posted from inside a task of the same strand runs
 * after it, never within it. What a task wrote is visible to the tasks after it.
 *
 * The draining thread stays as long as others bring work: handing the strand over would mean waking
 * a thread, which costs more than a task. Tasks must therefore be short and must not block, and the
 * number of tasks in flight must be bounded by who makes them (calls in flight, for a shard).
 *
 * A task that takes long suspends its strand (decision 41): a copy of slots for a checkpoint is of
 * one version, so nothing may be applied before it is made. The strand hands itself over: the
 * thread of gRPC leaves, another thread copies and goes on with the tasks that came meanwhile. */
#ifndef GRADUS_EXECUTION_STRAND_H
#define GRADUS_EXECUTION_STRAND_H

#include <stdatomic.h>
#include <stdbool.h>

struct strand_task {
    struct strand_task *next;
    void (*run)(struct strand_task *task); /* may free the task or post it again */
};

/* A zeroed struct is a valid idle strand. It needs no release. */
struct strand {
    _Atomic(struct strand_task *) top; /* NULL: idle; else the tasks posted since, newest first */
    bool suspends;                     /* set by the running task */
    struct strand_task *left;          /* suspended: the tasks that come first when it goes on */
    atomic_int handover;
};

/* Run @task after all that was posted before it: here and now together with what others bring in
 * the meantime, or on the thread that is draining. The task belongs to the strand until its @run is
 * called. True when this thread drained. */
bool strand_post(struct strand *s, struct strand_task *task, void (*run)(struct strand_task *task));

/* From a task: the tasks after it wait until another thread, which does something long for the
 * strand meanwhile, calls strand_resume(). The thread that drained is free for other work. */
void strand_suspend(struct strand *s);
/* Once for each strand_suspend(), from any thread: go on, on this one, unless the task that
 * suspended still runs; then on that one's. */
void strand_resume(struct strand *s);

#endif
