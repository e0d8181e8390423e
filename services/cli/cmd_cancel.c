/* SPDX-License-Identifier: Apache-2.0 */
/* gradus cancel: a job ends at its next step, with a checkpoint, or at once. */
#include "cli/query.h"

struct options {
    struct cli_common common;
    bool now;
};

static const struct field fields[] = {
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
    request.job = client_text(args->positional[0]);
    request.now = o->now;
    return query_job(args, &(struct query){.method = "Cancel",
                                           .body = &request.base,
                                           .text = query_text_state,
                                           .starts = true});
}

const struct cli_command cmd_cancel = {
    .name = "cancel",
    .summary = "Stop a job at the next step boundary and leave a checkpoint",
    .usage = "JOB",
    .notes =
        "A job that a killed `gradus run` has left is cancelled in its state directory, where no "
        "master has to run.",
    .examples = "  gradus cancel digits-1\n  gradus cancel digits-1 --now\n",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
