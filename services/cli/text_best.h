/* SPDX-License-Identifier: Apache-2.0 */
/* The best version of a job so far (training.stop), as text. */
#ifndef GRADUS_CLI_TEXT_BEST_H
#define GRADUS_CLI_TEXT_BEST_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* Append a line for the best version, and one for its checkpoint where that is not the job's; both
 * where there is something to say. Before these, how a job that was resumed had ended. */
void text_best(const Gradus__V1__Job *job, struct buf *out);

#endif
