/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations of a job as CSV (RFC 4180, but with "\n" at the end of a line): a header, and a line
 * for each, oldest first. */
#ifndef GRADUS_CLI_METRICS_CSV_H
#define GRADUS_CLI_METRICS_CSV_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* Appends the columns step, epoch, wall_time (seconds of Unix time), and "train_" and "test_" with
 * the name of each metric that any evaluation has, in the order in which they come. A cell is empty
 * where an evaluation has not measured it, and nan, inf or -inf where that is the value; numbers
 * read back to the same bits. */
void metrics_csv(const Gradus__V1__Job *job, struct buf *out);

#endif
