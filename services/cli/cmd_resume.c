/* SPDX-License-Identifier: Apache-2.0 */
/* gradus resume: a job that is paused, or has ended, goes back into the queue; keys of its file can
 * change at the same moment. */
#include <stdlib.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/find_job.h"
#include "cli/query.h"
#include "wire/wire.h"

#define RESUME_MS 60000 /* the master reads the job's file and looks for its checkpoints */

struct options {
    struct cli_common common;
};

static const struct field fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
};

/* What a job that has ended goes on from, in words: its state says only that it waits. */
static void tell(const Gradus__V1__Job *before)
{
    const char *why = before->reason[0] == '\0' ? "" : ": ";
    if (!job_has_ended(before)) {
        return;
    }
    if (before->checkpoint[0] == '\0') {
        cli_note("job %s had %s%s%s; it has no checkpoint, and begins again", before->id,
                 wire_state_name(before->state), why, before->reason);
    } else {
        cli_note("job %s had %s%s%s; it goes on from its newest checkpoint", before->id,
                 wire_state_name(before->state), why, before->reason);
    }
}

static int ask(struct found_job *found, const struct cli_args *args, struct rpc_msg **reply,
               struct err *err)
{
    Gradus__V1__ResumeRequest request = GRADUS__V1__RESUME_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    request.sets = mem_copy_texts(args->sets, args->set_count);
    request.n_sets = args->set_count;
    int rc = client_call(&found->client, "Resume", &request.base, client_at_least_ms(RESUME_MS),
                         reply, err);
    mem_free_texts(request.sets, request.n_sets);
    free(request.job);
    return rc;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct found_job found = {0};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    int rc = find_live_job(&o->common, args->positional[0], &found, &err);
    rc = rc != 0 ? rc : ask(&found, args, &reply, &err);
    if (rc == 0) {
        struct buf out = {0};
        tell(found.job);
        query_show_state(&o->common, reply->body, &out);
        query_print(&o->common, &out);
        buf_release(&out);
    }
    rpc_msg_unref(reply);
    found_job_release(&found);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_resume = {
    .name = "resume",
    .summary = "Let a job that is paused, or has ended, go on from its newest checkpoint",
    .usage = "JOB",
    .examples = "  gradus resume digits-1\n"
                "  gradus resume digits-1 --set training.epochs=20 --json\n",
    .notes = "The job keeps its id and its history, and waits for nodes like any other. One that "
             "has FAILED or was CANCELLED goes on from its newest checkpoint, or begins again when "
             "it never had one; one that has SUCCEEDED needs more to do (--set "
             "training.epochs=MORE), unless it was stopped early. --set changes keys as `gradus "
             "set` does. Data, and variables of a program, have to be those of before.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
