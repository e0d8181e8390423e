/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/output.h"
#include "cli/query.h"
#include "os/file.h"
#include "timeline/trace_spans.h"

/* Time that the master takes at most beside the steps, and beside waiting for another trace, which
 * it does for as long as for the steps. */
#define ANSWER_MS 110000

int trace_record(const struct trace_options *o, const char *job, struct rpc_msg **reply,
                 bool *stopped, struct err *err)
{
    Gradus__V1__TraceJobRequest request = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    request.job = client_text(job);
    const int64_t within = o->last > 0 ? o->last : o->within;
    request.steps = o->last > 0 ? TRACE_STEPS_MAX : (uint32_t)o->steps;
    request.timeout_ms = (uint32_t)within;
    int rc = query_job_long(&o->common, job, "Trace", &request.base,
                            2 * (unsigned)within + ANSWER_MS, reply, stopped, err);
    if (rc == 0 && *stopped) {
        cli_note("stopped; job %s is not recorded any more", job);
    }
    return rc;
}

/* Tells what is missing, a line each. Returns the number of steps that every worker has. */
static uint32_t tell_problems(const Gradus__V1__TraceJobResponse *r, int64_t wanted)
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

int trace_write(const struct trace_options *o, const Gradus__V1__TraceJobResponse *r,
                const struct buf *content, const char *ending, const char *use, struct err *err)
{
    FILE *said;
    char *path = o->out[0] != '\0' ? mem_strdup(o->out) : mem_printf("%s%s", r->job, ending);
    int rc = file_write_atomic(cli_output(path, &said), content->data, content->len, err);
    if (rc == 0) {
        const uint32_t steps = tell_problems(r, o->last > 0 ? 0 : o->steps);
        struct buf out = {0};
        if (o->common.json) {
            output_object(&out, "job", r->job, "file", path, (const char *)NULL);
        } else {
            buf_printf(&out, "%" PRIu32 " step%s of job %s in %s; %s\n", steps,
                       steps == 1 ? "" : "s", r->job, path, use);
        }
        (void)fputs(buf_str(&out), said);
        buf_release(&out);
    }
    free(path);
    return rc;
}
