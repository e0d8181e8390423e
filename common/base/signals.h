/* Signals that one place waits for (sigwait, signalfd) and no thread is interrupted by. */
#ifndef GRADUS_BASE_SIGNALS_H
#define GRADUS_BASE_SIGNALS_H

#include <signal.h>

/* Block @set in this thread and in those it makes; call first of all in main. Threads that a
 * library made before main (OpenBLAS does) have the signals unblocked: the first one that reaches
 * such a thread blocks it there and is sent on to the process. */
void signals_block(const sigset_t *set);

#endif
