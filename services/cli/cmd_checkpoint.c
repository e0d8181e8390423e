/* SPDX-License-Identifier: Apache-2.0 */
/* gradus checkpoint: write one now, and say where it lies. */
#include <stdlib.h>

#include "base/mem.h"
#include "cli/output.h"
#include "cli/query.h"

#define TIMEOUT_MS 600000

struct options {
    struct cli_common common;
};

static const struct field fields[] = {CLI_MASTER_ROWS(struct options),
                                      CLI_JSON_ROW(struct options)};

static void show(const struct cli_common *common, const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__CheckpointJobResponse *r = (const Gradus__V1__CheckpointJobResponse *)reply;
    if (common->json) {
        output_object(out, "checkpoint", r->path, (const char *)NULL);
    } else {
        buf_printf(out, "%s\n", r->path);
    }
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    int code = query_job(&o->common, request.job, "Checkpoint", &request.base, TIMEOUT_MS, show);
    free(request.job);
    return code;
}

const struct cli_command cmd_checkpoint = {
    .name = "checkpoint",
    .summary = "Write a checkpoint of a running job now",
    .usage = "JOB",
    .examples = "  gradus checkpoint digits-1\n",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
