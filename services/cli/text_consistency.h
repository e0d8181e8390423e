/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers of a job keep together, and how far they were apart, in words. */
#ifndef GRADUS_CLI_TEXT_CONSISTENCY_H
#define GRADUS_CLI_TEXT_CONSISTENCY_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* "sync, 8 replicas, complete with 6", "bounded(4), push every 2" */
void text_consistency(const Gradus__V1__Job *job, struct buf *out);
/* "median 1, max 5-8: 0 41%, 1 30%, …"; nothing for a job without pushes. */
void text_staleness(const Gradus__V1__Job *job, struct buf *out);
/* "staleness 1 (max 5-8)"; nothing in sync mode either. */
void text_staleness_brief(const Gradus__V1__Job *job, struct buf *out);

#endif
