/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the time of steps, as text. */
#ifndef GRADUS_CLI_TEXT_TIMES_H
#define GRADUS_CLI_TEXT_TIMES_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* A table: what a step takes and its parts, in milliseconds and percent: of each worker and of all
 * of them in the last seconds while the job runs, and of all of the training. Below it, whether
 * servers and links hold up the workers. Nothing when nothing is known. */
void text_times(const Gradus__V1__Job *job, struct buf *out);

#endif
