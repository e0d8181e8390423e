/* SPDX-License-Identifier: Apache-2.0 */
/* A thread names itself. To name another thread, the C library opens a file below /proc/self/task,
 * which the kernel keeps in mind until that thread has ended; a process that waits for the end of
 * this one then waits in a loop, on a busy machine for some 60 ms of a processor. */
#include "os/thread.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

struct start {
    void *(*run)(void *arg);
    void *arg;
    char name[THREAD_NAME_BYTES];
};

static void *begin(void *arg)
{
    struct start *owned = arg, start = *owned;
    free(owned);
    (void)pthread_setname_np(pthread_self(), start.name);
    return start.run(start.arg);
}

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
    struct start *start = mem_new(1, sizeof *start);
    *start = (struct start){.run = run, .arg = arg};
    (void)snprintf(start->name, sizeof start->name, "%s", name);
    int error = pthread_create(thread, NULL, begin, start);
    if (error != 0) {
        free(start);
    }
    return error;
}
