/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that do one piece of work together: a loop whose rounds touch nothing in common. The
 * thread that brings the loop does its part, and hears in order how much is done.
 *
 * Any thread may bring one. A thread team helps with one loop at a time; whoever comes meanwhile
 * does its own alone, rather than wait.
 *
 * A parameter server uses its team for updates of 4 MiB and more (decision 28): a smaller update is
 * over before another thread is awake. Pieces begin in the order of the shard, so answers leave in
 * order while the rest is computed. All shards share one team, and an update that finds it busy is
 * computed by its own thread. */
#ifndef GRADUS_EXECUTION_THREAD_TEAM_H
#define GRADUS_EXECUTION_THREAD_TEAM_H

#include <stddef.h>

#include "base/err.h"

#define THREAD_TEAM_HELPERS_MAX 63

struct thread_team;

/* @helpers: threads besides the one that brings a loop, 0..THREAD_TEAM_HELPERS_MAX; @name: of the
 * threads, at most 15 bytes. Errors: ERR_RANGE; ERR_EXHAUSTED no thread can be made. */
struct thread_team *thread_team_new(unsigned helpers, const char *name, struct err *err);
/* No loop is running. NULL is fine. */
void thread_team_free(struct thread_team *c);
unsigned
thread_team_size(const struct thread_team *c); /* threads of a loop, its bringer among them */
/* Call @one(@ctx, i) for each i < @count, from several threads at once; they are begun in order.
 * @done (may be NULL) is called on this thread, with growing numbers up to @count: all before that
 * one are over. Returns after the last call of all. */
void parallel_for(struct thread_team *c, size_t count, void (*one)(void *ctx, size_t i),
                  void (*done)(void *ctx, size_t n), void *ctx);

#endif
