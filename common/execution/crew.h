/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that do one piece of work together: a loop whose rounds touch nothing in common. The
 * thread that brings the loop does its part, and hears in order how much is done.
 *
 * Any thread may bring one. A crew helps with one loop at a time; whoever comes meanwhile does its
 * own alone, rather than wait. */
#ifndef GRADUS_EXECUTION_CREW_H
#define GRADUS_EXECUTION_CREW_H

#include <stddef.h>

#include "base/err.h"

#define CREW_HELPERS_MAX 63

struct crew;

/* @helpers: threads besides the one that brings a loop, 0..CREW_HELPERS_MAX; @name: of the threads,
 * at most 15 bytes. Errors: ERR_RANGE; ERR_EXHAUSTED no thread can be made. */
struct crew *crew_new(unsigned helpers, const char *name, struct err *err);
/* No loop is running. NULL is fine. */
void crew_free(struct crew *c);
unsigned crew_threads(const struct crew *c); /* that may do a loop, its bringer among them */
/* Call @one(@ctx, i) for each i < @count, from several threads at once; they are begun in order.
 * @done (may be NULL) is called on this thread, with growing numbers up to @count: all before that
 * one are over. Returns after the last call of all. */
void crew_run(struct crew *c, size_t count, void (*one)(void *ctx, size_t i),
              void (*done)(void *ctx, size_t n), void *ctx);

#endif
