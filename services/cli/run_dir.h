/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory of one `gradus run`: no two have the same at once. */
#ifndef GRADUS_CLI_RUN_DIR_H
#define GRADUS_CLI_RUN_DIR_H

#include <stdbool.h>

#include "base/err.h"

struct run_dir {
    char *path; /* absolute */
    int lock_fd;
    bool moved; /* the usual one is in use, so this is another */
};

/* Claims @given, or when it is empty the default (cli_state_dir()) or else the first of run-2,
 * run-3, … in it that nobody uses. It is made when missing, and belongs to this process until
 * run_dir_release(). Errors: ERR_STATE another process uses it: which, and what to type; those of
 * making it. */
int run_dir_claim(const char *given, struct run_dir *out, struct err *err);
void run_dir_release(struct run_dir *d);

#endif
