/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that have a name from their first moment on, in ps, top and traces. */
#ifndef GRADUS_OS_THREAD_H
#define GRADUS_OS_THREAD_H

#include <pthread.h>

#define THREAD_NAME_BYTES 16 /* what Linux keeps, the NUL included; more is cut */

/* Starts @run with @arg in *@thread, which the caller joins or detaches. @name is copied. Returns 0
 * or the number of an error, as pthread_create() does. */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

#endif
