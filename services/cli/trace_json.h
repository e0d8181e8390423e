/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of a job's nodes, as the JSON of Chrome's trace viewer, which Perfetto reads as well: a
 * process for each node, a thread for each worker's job and its connections, and for each shard and
 * its clients; arrows from a push to its update to its answer. */
#ifndef GRADUS_CLI_TRACE_JSON_H
#define GRADUS_CLI_TRACE_JSON_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* Append the document. Events are ordered by time, an outer one before those inside of it; times
 * are microseconds from the first one on. */
void trace_json(const Gradus__V1__TraceJobResponse *trace, struct buf *out);

#endif
