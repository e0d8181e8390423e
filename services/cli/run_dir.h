/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory of one `gradus run`: no two have the same at once. */
#ifndef GRADUS_CLI_RUN_DIR_H
#define GRADUS_CLI_RUN_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct run_dir {
    char *path; /* absolute */
    int lock_fd;
    bool moved; /* another directory than the usual one, which is in use */
};

/* Claims @given, or when it is empty the default (cli_state_dir()) or else the first of run-2,
 * run-3, … in it that nobody uses. It is made when missing, and belongs to this process until
 * run_dir_release(). Errors: ERR_STATE another process uses it: which, and what to type; those of
 * making it. */
int run_dir_claim(const char *given, struct run_dir *out, struct err *err);
void run_dir_release(struct run_dir *d);

/* The number of a new job, by which no two runs with the default directory make jobs of one id. */
struct run_number {
    int lock_fd;    /* other runs wait */
    uint64_t least; /* above all numbers of its name in the default directory and those in it */
};
/* Wait until no other run makes a job. Errors: those of files. */
int run_number_take(const char *name, struct run_number *out, struct err *err);
/* The job is there. */
void run_number_release(struct run_number *n);

#endif
