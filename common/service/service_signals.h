/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that ask a service to end, and what happens when it does not: one thread hears of them.
 *
 * One for each process, because signals are. */
#ifndef GRADUS_SERVICE_SERVICE_SIGNALS_H
#define GRADUS_SERVICE_SERVICE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct service_signals;

/* The signal that the kernel sends when the parent ends. Not SIGTERM: it comes once for each thread
 * that the parent had, and a second SIGTERM means something else. */
#define SERVICE_SIGNAL_PARENT SIGUSR1

/* Hear of SIGTERM, SIGINT and SERVICE_SIGNAL_PARENT from now on and ignore SIGHUP and SIGPIPE.
 * First of all, on the main thread: no thread that is made later is interrupted. @stop_ms: from the
 * first signal or service_signals_end() to a forced exit. */
struct service_signals *service_signals_new(int64_t stop_ms, struct err *err);
void service_signals_free(struct service_signals *s); /* the end came in time; NULL is fine */

/* Any thread. */
void service_signals_end(struct service_signals *s);
bool service_signals_ending(struct service_signals *s);
/* Wait for the first signal or service_signals_end(). */
void service_signals_wait(struct service_signals *s);

#endif
