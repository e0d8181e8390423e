/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that one place waits for and no thread is interrupted by. */
#ifndef GRADUS_OS_SIGNALS_H
#define GRADUS_OS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Block @set in this thread and in those it makes; call first of all in main, once. Threads that a
 * library made before main (OpenBLAS does) have the signals unblocked: the first one that reaches
 * such a thread blocks it there and is sent on to the process. */
void signals_block(const sigset_t *set);
/* A descriptor that can be read while one of @set, which is blocked, waits; close() it. Signals
 * that nobody reads wait for the next descriptor. Errors: ERR_EXHAUSTED. */
int signals_open(const sigset_t *set, struct err *err);
/* True if @signal, @ms after the first one, is only the same order once more. Whoever gives an
 * order may reach a process in two ways: `timeout` signals its child and then the process group,
 * which the child is in. SIGINT may come from a person who types Ctrl-C twice, so it counts sooner.
 */
bool signals_repeats(int signal, uint64_t ms);
#define SIGNALS_REPEAT_MS 1000
#define SIGNALS_REPEAT_INTERRUPT_MS 100
/* The next signal, or 0 when none waits. */
int signals_read(int fd);

#endif
