/* SPDX-License-Identifier: Apache-2.0 */
/* gradus cancel: a job ends at its next step, with a checkpoint, or at once. */
#include <stdlib.h>

#include "base/mem.h"
#include "cli/query.h"

struct options {
    struct cli_common common;
    bool now;
};

static const struct field fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
    {.path = "now",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, now),
     .def = "false",
     .help = "Do not wait for a step boundary; save nothing"},
};

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__CancelRequest request = GRADUS__V1__CANCEL_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    request.now = o->now;
    const struct query_call call = {.method = "Cancel",
                                    .body = &request.base,
                                    .timeout_ms = client_timeout_ms(),
                                    .text = query_text_state};
    int code = query_job_anywhere(&o->common, request.job, &call);
    free(request.job);
    return code;
}

const struct cli_command cmd_cancel = {
    .name = "cancel",
    .summary = "Stop a job at the next step boundary and leave a checkpoint",
    .usage = "JOB",
    .notes =
        "A job that a killed `gradus run` has left is cancelled in its state directory, where no "
        "master has to run.",
    .examples = "  gradus cancel digits-1\n  gradus cancel digits-1 --now\n",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
