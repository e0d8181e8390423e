/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of a running job's parameters needs: the model, and where the shards are. */
#ifndef GRADUS_MASTER_CORE_JOB_FOLLOW_H
#define GRADUS_MASTER_CORE_JOB_FOLLOW_H

#include "master/core/master.h"

struct master_follow {                    /* borrowed until the next step, but for: */
    struct master_shard_location *shards; /* [shard_count] owned: free() */
    size_t shard_count;
    const struct job_record *job;
    const struct plan *plan;
    const char *encoding; /* NULL: nothing was measured */
    uint64_t model_file;  /* fingerprint of the ONNX file that is the model; 0: it is another one */
    struct fence fence;   /* with the job's secret, which is not for readers */
    bool sync;
    uint64_t version_shift; /* sync: version of a shard = step + this (modulo 2^64) */
    uint64_t step;
    bool average; /* the job is evaluated with its moving average */
};

/* Errors: ERR_NOT_FOUND; ERR_STATE it has no shards now, or what readers cannot read: a
 * program. */
int master_follow(struct master *m, const char *id, struct master_follow *out, struct err *err);

#endif
