/* SPDX-License-Identifier: Apache-2.0 */
/* What `gradus watch --json` prints: a line of JSON for each event of a job (gradus.v1.WatchEvent),
 * which is on standard output before the next one is waited for. */
#ifndef GRADUS_CLI_WATCH_LINES_H
#define GRADUS_CLI_WATCH_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "gradus/v1/jobs.pb-c.h"

/* What the last line about the job said. Zeroed: there was none. */
struct watch_lines {
    bool began;
    Gradus__V1__JobState state;
    uint64_t generation, recoveries;
    char *reason, *checkpoint; /* owned */
};

/* "job" or "progress". */
void watch_lines_job(struct watch_lines *w, const Gradus__V1__Job *job);
void watch_lines_evaluation(const Gradus__V1__Evaluation *e);
void watch_lines_end(const Gradus__V1__Job *job);
void watch_lines_error(const char *text);
void watch_lines_release(struct watch_lines *w);

#endif
