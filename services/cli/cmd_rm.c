/* SPDX-License-Identifier: Apache-2.0 */
/* gradus rm: a job that has ended is forgotten, with or without its checkpoints. */
#include "cli/query.h"

#define REMOVE_MS 60000 /* the files of many checkpoints may lie in an object store */

struct options {
    struct cli_common common;
    bool checkpoints;
};

static const struct field fields[] = {
    {.path = "checkpoints",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, checkpoints),
     .def = "false",
     .help = "Remove its checkpoints, too"},
};

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__RemoveJobResponse *r = (const Gradus__V1__RemoveJobResponse *)reply;
    if (r->checkpoints[0] == '\0') {
        buf_add_str(out, "removed\n");
    } else {
        buf_printf(out, "removed; its checkpoints stay in %s\n", r->checkpoints);
    }
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__RemoveJobRequest request = GRADUS__V1__REMOVE_JOB_REQUEST__INIT;
    request.job = client_text(args->positional[0]);
    request.checkpoints = o->checkpoints;
    return query_job(args, &(struct query){.method = "Remove",
                                           .body = &request.base,
                                           .text = text,
                                           .timeout_ms = REMOVE_MS,
                                           .starts_for_ended = true});
}

const struct cli_command cmd_rm = {
    .name = "rm",
    .summary = "Forget a job that has ended, and remove its checkpoints if wanted",
    .usage = "JOB",
    .examples = "  gradus rm digits-1\n  gradus rm digits-1 --checkpoints\n",
    .notes = "A job that has not ended is refused; `gradus cancel JOB` ends it. Its number is not "
             "given to another job. A job of `gradus run` is removed in its state directory, "
             "where no master has to run. Checkpoints that stay can be exported and evaluated by "
             "their directory.",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
