/* SPDX-License-Identifier: Apache-2.0 */
/* Directories and files of checkpoints, as the master's calls and actions speak of them. Plain
 * data. */
#ifndef GRADUS_MASTER_CORE_CHECKPOINT_FILES_H
#define GRADUS_MASTER_CORE_CHECKPOINT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/progress/ledger.h"
#include "master/core/job_record.h"

struct master_base {       /* a file that this opening of the shard wrote */
    const char *directory; /* NULL: everything is to be written */
    const char *file;
    uint64_t checksum, version;
};

struct master_shard_file {
    const char *file;
    uint64_t bytes, checksum, version;
    const struct ledger *ledger; /* NULL: none was given */
};

struct master_prepare {
    uint64_t number;
    const struct job_record *job;
    const char *directory; /* "<job>/step-000000500" */
    bool discard;          /* removes it: what is in it is no checkpoint */
};

struct master_find {
    uint64_t number;
    const struct job_record *job;
    const char *const *avoid; /* checkpoints that could not be read */
    size_t avoid_count;
};

/* The newest checkpoint, which the job's row names by now, stays, and so does the best version's.
 */
struct master_prune {
    const struct job_record *job;
    size_t keep;  /* checkpoints that stay; 0: all */
    bool release; /* the job ended without any: give up its directory */
};

#endif
