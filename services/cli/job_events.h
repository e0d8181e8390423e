/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to a job between two looks at it, in lines: recoveries, and nodes that are gone or
 * have joined. It also knows which steps a recovery has lost, until they are made up for. */
#ifndef GRADUS_CLI_JOB_EVENTS_H
#define GRADUS_CLI_JOB_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* Zeroed: nothing was seen yet. `cancelled` is the caller's. */
struct job_events {
    bool cancelled; /* by who looks at it */
    bool seen;
    uint64_t recoveries, adoptions, takeovers;
    bool covered;     /* each of its shards had a backup that follows */
    bool lost;        /* there was a recovery since @reached */
    uint64_t reached; /* the furthest step, with its epoch */
    double epoch;
    char *reason;  /* why it has not ended at its last step; NULL: it is not there. Owned */
    bool back;     /* the job went back, and is not at @reached again */
    uint64_t from; /* the step that it went back to */
    /* Of the last look at which it was RUNNING. Owned. */
    bool ran;
    char **workers, **ps;
    size_t worker_count, ps_count;
};

/* Append a line for each thing that has happened since the last look. */
void job_events_look(struct job_events *e, const Gradus__V1__Job *job, struct buf *out);
void job_events_release(struct job_events *e);

#endif
