/* SPDX-License-Identifier: Apache-2.0 */
/* The differences between two canonical job files. */
#ifndef GRADUS_CLI_JOB_CHANGES_H
#define GRADUS_CLI_JOB_CHANGES_H

#include <stddef.h>

struct job_change {
    char *key;       /* "training.mode" */
    char *from, *to; /* "": the key is not there */
};
struct job_changes {
    struct job_change *items;
    size_t count, capacity;
};

/* Every key whose value differs, in the order of @after. A text that cannot be read has no keys.
 * @out is overwritten; job_changes_release(). */
void job_changes_make(const char *before, const char *after, struct job_changes *out);
void job_changes_release(struct job_changes *c);

#endif
