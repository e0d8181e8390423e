/* SPDX-License-Identifier: Apache-2.0 */
/* What a program prints goes to the worker's log as it is, and line by line to os/log_tail.h, so
 * that `gradus logs` shows it. A thread of its own reads it: a program that prints never waits for
 * its worker's work. Its last lines are kept, for the reason of what fails because it ended.
 *
 * Owner: the thread that starts the program. Limits: PROGRAM_LINE_BYTES of a line; a longer one is
 * several. */
#ifndef GRADUS_WORKER_PROGRAM_PROGRAM_OUTPUT_H
#define GRADUS_WORKER_PROGRAM_PROGRAM_OUTPUT_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

#define PROGRAM_LINE_BYTES 1000
#define PROGRAM_LAST_BYTES 601      /* with the NUL */
#define PROGRAM_LAST_LINE_BYTES 160 /* of one of them */

/* Zeroed is valid, of no program. */
struct program_output {
    pthread_t thread;
    bool runs;
    int from, stop; /* the pipe's end, and an eventfd */
    /* Its last lines, once program_output_end() is over and until it begins again. */
    char last[PROGRAM_LAST_BYTES];
};

/* Begins to read; @*to, where the program is to write, is the caller's to close. Errors:
 * ERR_EXHAUSTED. */
int program_output_begin(struct program_output *o, int *to, struct err *err);
/* Takes what is there still and ends, whoever else has the pipe. */
void program_output_end(struct program_output *o);

#endif
