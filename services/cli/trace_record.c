/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_record.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/query.h"
#include "cli/trace_spans.h"

#define ANSWER_MS 100000 /* time that the master takes at most beside the steps */

int trace_record(const struct trace_ask *ask, struct rpc_msg **reply, bool *stopped,
                 struct err *err)
{
    Gradus__V1__TraceJobRequest request = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    request.job = mem_strdup(ask->job);
    request.steps = (uint32_t)ask->steps;
    request.timeout_ms = (uint32_t)ask->within;
    int rc = query_job_long(ask->common, ask->job, "Trace", &request.base,
                            (unsigned)ask->within + ANSWER_MS, reply, stopped, err);
    free(request.job);
    if (rc == 0 && *stopped) {
        cli_note("stopped; job %s is not recorded any more", ask->job);
    }
    return rc;
}

uint32_t trace_tell_problems(const Gradus__V1__TraceJobResponse *r, int64_t wanted)
{
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < r->n_nodes; i++) {
        const Gradus__V1__NodeTrace *n = r->nodes[i];
        if (n->problem[0] != '\0' || n->trace == NULL) {
            cli_note("warning: %s is missing: %s", n->node, n->problem);
            continue;
        }
        if (n->trace->lost > 0) {
            cli_note("warning: %s did more than could be recorded: %" PRIu64
                     " spans are missing; take fewer steps",
                     n->node, n->trace->lost);
        }
        if (!trace_is_worker(n)) {
            continue;
        }
        if (n->trace->steps < wanted) {
            cli_note("warning: %s made only %" PRIu32 " of %" PRId64 " steps", n->node,
                     n->trace->steps, wanted);
        }
        least = n->trace->steps < least ? n->trace->steps : least;
    }
    return least == UINT32_MAX ? 0 : least;
}
