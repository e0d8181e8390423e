/* SPDX-License-Identifier: Apache-2.0 */
/* --tensorboard of the commands that watch a job: its event files grow while it runs. */
#ifndef GRADUS_CLI_FOLLOW_EVENTS_H
#define GRADUS_CLI_FOLLOW_EVENTS_H

#include "cli/follow.h"
#include "gradus/v1/jobs.pb-c.h"

struct follow_events { /* zeroed: nothing is written yet */
    size_t count;      /* evaluations in the files, */
    uint64_t step;     /* the last of them */
    bool told;         /* the job file is in them, */
    size_t changes;    /* after so many changes */
    bool failed;
};

/* Writes the first @count evaluations of @job below the options' directory, if it is to have more
 * than it has, and the job file when that is not there or was changed; when the master does not say
 * it, it is asked again with the next evaluation. After an error nothing is written any more.
 * Blocks, for the master up to a second, at the end 5 s. Errors: tensorboard_write(). */
int follow_events_write(struct follow_events *e, struct client *client,
                        const struct follow_options *options, const Gradus__V1__Job *job,
                        size_t count, struct err *err);

#endif
