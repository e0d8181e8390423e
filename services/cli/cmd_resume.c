/* SPDX-License-Identifier: Apache-2.0 */
/* gradus resume: a job that is paused, or has ended, goes back into the queue; keys of its file can
 * change at the same moment. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint_dir.h"
#include "cli/cli.h"
#include "cli/find_job.h"
#include "cli/follow.h"
#include "cli/local_job.h"
#include "cli/query.h"
#include "cli/run_dir.h"
#include "cli/text_reason.h"
#include "wire/wire.h"

#define RESUME_MS 60000 /* the master reads the job's file and looks for its checkpoints */

/* Says from where a job that has ended goes on: its state only says that it waits. */
static void tell(const Gradus__V1__Job *before)
{
    if (!job_has_ended(before)) {
        return;
    }
    struct buf why = {0};
    text_reason_line(before, ": ", &why);
    cli_note("job %s had %s%s; %s", before->id, wire_state_name(before->state), buf_str(&why),
             before->checkpoint[0] == '\0' ? "it has no checkpoint, and begins again"
                                           : "it goes on from its newest checkpoint");
    buf_release(&why);
}

static int ask(struct client *client, const struct cli_args *args, struct rpc_msg **reply,
               struct err *err)
{
    Gradus__V1__ResumeRequest request = GRADUS__V1__RESUME_REQUEST__INIT;
    request.job = client_text(args->positional[0]);
    request.sets = client_texts(args->sets);
    request.n_sets = args->set_count;
    return client_call(client, "Resume", &request.base, client_at_least_ms(RESUME_MS), reply, err);
}

/* ---- jobs of `gradus run`, whose master has ended ---- */

struct resuming {
    const struct cli_args *args;
    const Gradus__V1__Job *before;
};

static int begin(void *ctx, struct client *client, char **job, struct err *err)
{
    const struct resuming *r = ctx;
    struct rpc_msg *reply = NULL;
    int rc = ask(client, r->args, &reply, err);
    rpc_msg_unref(reply);
    if (rc == 0) {
        tell(r->before);
        *job = mem_strdup(r->before->id);
    }
    return rc;
}

static int read_spec(const Gradus__V1__Job *job, const struct cli_args *args, struct job_spec *spec,
                     struct err *err)
{
    struct diags diags = {0};
    int rc = job_spec_parse(job->text, strlen(job->text), job->id, args->sets, args->set_count,
                            spec, &diags);
    if (rc != 0) {
        struct buf messages = {0};
        diags_format(&diags, &messages);
        err_set(err, rc, "%s", buf_str(&messages));
        buf_release(&messages);
    }
    diags_release(&diags);
    return rc;
}

/* Nothing is started for a job whose checkpoints are all damaged. What cannot be looked at here is
 * left to the master. */
static int check_saved(const Gradus__V1__Job *job, const char *state_dir, struct err *err)
{
    if (job->checkpoint[0] == '\0') {
        return 0;
    }
    struct err why = {0};
    char *dir = mem_printf("%s/checkpoints/%s", state_dir, job->id), *path = NULL;
    int rc = checkpoint_find_whole(dir, &path, &why);
    free(path);
    free(dir);
    return rc != ERR_CORRUPT
               ? 0
               : err_set(err, ERR_STATE,
                         "job %s cannot go on: none of its checkpoints is whole: %s; it can when "
                         "what is damaged is put back",
                         job->id, why.msg);
}

static int run_here(const struct found_job *found, const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    struct job_spec spec = {0};
    struct run_dir dir = {.lock_fd = -1};
    struct err err = {0};
    int code = cli_load_rules(o);
    if (code == CLI_OK && read_spec(found->job, args, &spec, &err) != 0) {
        code = cli_fail(&err);
    }
    code = code != CLI_OK ? code : local_job_check(&spec, NULL, o->worker, o->overcommit);
    if (code == CLI_OK && check_saved(found->job, found->state_dir, &err) != 0) {
        code = cli_fail(&err);
    }
    if (code == CLI_OK) {
        follow_block_signals(true);
        code = run_dir_claim(found->state_dir, &dir, &err) == 0 ? CLI_OK : cli_fail(&err);
    }
    if (code == CLI_OK) {
        struct resuming resuming = {.args = args, .before = found->job};
        const struct local_job job = {.spec = &spec,
                                      .state_dir = dir.path,
                                      .rules_dir = o->rules_dir,
                                      .worker = o->worker,
                                      .where = args->where,
                                      .resumed = found->job->id,
                                      .json = o->json,
                                      .begin = begin,
                                      .ctx = &resuming};
        code = local_job_run(&job);
        run_dir_release(&dir);
    }
    job_spec_release(&spec);
    return code;
}

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    struct found_job found = {0};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    int rc = find_live_job(o, args->positional[0], &found, &err);
    if (rc == ERR_STATE && found.row != NULL) {
        int code = run_here(&found, args);
        found_job_release(&found);
        return code;
    }
    rc = rc != 0 ? rc : ask(&found.client, args, &reply, &err);
    if (rc == 0) {
        tell(found.job);
        query_show(o, reply->body, query_text_state);
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
    .notes =
        "The job keeps its id and its history, and waits for nodes like any other. One that "
        "has FAILED or was CANCELLED goes on from its newest checkpoint, or begins again when "
        "it never had one; one that has SUCCEEDED needs more to do (--set "
        "training.epochs=MORE), unless it was stopped early. --set changes keys as `gradus "
        "set` does. Data, and variables of a program, have to be those of before.\nA job "
        "of `gradus run`, of which no master runs any more, goes on here as `gradus run` would "
        "train it: processes are started in its state directory, and the job is followed to "
        "its end.",
    .shares = CLI_MASTER | CLI_RULES_DIR | CLI_JSON | CLI_LOCAL,
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
