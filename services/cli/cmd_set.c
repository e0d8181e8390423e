/* SPDX-License-Identifier: Apache-2.0 */
/* gradus set: change keys of a job that exists, and wait until that is in force. */
#include <stdio.h>

#include "cli/cli.h"
#include "client/master_client.h"
#include "cli/find_job.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/submit.h"
#include "cli/terminal.h"

#define KEYS_MAX 1000 /* the limit of the master */

struct options {
    struct cli_common common;
    int64_t wait_ms;
};

static const struct field fields[] = {
    {.path = "wait",
     .type = FIELD_MS,
     .offset = offsetof(struct options, wait_ms),
     .def = "10m",
     .min = 1,
     .max = 86400000,
     .help = "How long to wait until the change is in force"},
};

#define PENDING "%s; the change may still happen: `gradus status %s%s` shows it"

static void say_pending(const char *why, const struct cli_args *args)
{
    cli_note(PENDING, why, args->positional[0], args->where);
}

static int fail(const struct err *err, const struct cli_args *args)
{
    if (err->code == ERR_TIMEOUT) { /* the master has answered before, so it can be reached */
        struct err late;
        (void)err_set(&late, ERR_STATE, PENDING, "not in force within --wait", args->positional[0],
                      args->where);
        return cli_fail(&late);
    }
    int code = cli_fail(err);
    if (err->code == ERR_UNAVAILABLE || err->code == ERR_UNKNOWN) {
        say_pending(err->code == ERR_UNKNOWN ? "not done yet" : "the master went away", args);
    }
    return code;
}

/* What has ended goes on with a change by another command. */
static void advise_resume(const struct found_job *found, const struct cli_args *args,
                          struct err *err)
{
    if (err->code == ERR_STATE && found->job != NULL && job_has_ended(found->job)) {
        struct buf sets = {0};
        for (size_t i = 1; i < args->positional_count; i++) {
            buf_add_str(&sets, " --set ");
            cli_add_word(args->positional[i], &sets);
        }
        err_set(err, err->code, "%s; `gradus resume %s%s%s` lets it go on", err->msg,
                args->positional[0], buf_str(&sets), args->where);
        buf_release(&sets);
    }
}

static int show(const struct options *o, const Gradus__V1__Job *before,
                const Gradus__V1__Job *after)
{
    struct job_changes changes;
    struct buf out = {0};
    if (o->common.json) {
        output_message_json(&after->base, &out);
        (void)fputs(buf_str(&out), stdout);
    } else {
        job_changes_make(before->text, after->text, &changes);
        output_change_text(after, &changes, &out);
        terminal_print(&out);
        job_changes_release(&changes);
    }
    buf_release(&out);
    return CLI_OK;
}

/* The job as it is then in @after. */
static int change(struct client *client, const struct cli_args *args, struct rpc_msg **after,
                  bool *stopped, struct err *err)
{
    const struct options *o = args->options;
    Gradus__V1__SetJobRequest body = GRADUS__V1__SET_JOB_REQUEST__INIT;
    body.n_sets = args->positional_count - 1;
    body.sets = client_texts(args->positional + 1);
    body.job = client_text(args->positional[0]);
    return client_call_last(client, "Set", &body.base, (unsigned)o->wait_ms, after, stopped, err);
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    follow_block_signals(false);
    struct found_job found = {0};
    struct rpc_msg *after = NULL;
    struct cluster_counts counts;
    struct err err = {0};
    bool stopped = false;
    int code;
    if (find_live_job(&o->common, args->positional[0], &found, &err) != 0) {
        advise_resume(&found, args, &err);
        code = cli_fail(&err);
        found_job_release(&found);
        return code;
    }
    submit_count_nodes(&found.client, &counts); /* now: the change is the client's last call */
    if (change(&found.client, args, &after, &stopped, &err) != 0) {
        advise_resume(&found, args, &err);
        code = fail(&err, args);
    } else if (stopped) {
        say_pending("not waiting any more", args);
        code = FOLLOW_STOPPED;
    } else {
        const Gradus__V1__Job *job = (const Gradus__V1__Job *)after->body;
        code = show(o, found.job, job);
        submit_tell_missing(&counts, job);
    }
    found_job_release(&found);
    rpc_msg_unref(after);
    return code;
}

const struct cli_command cmd_set = {
    .name = "set",
    .summary = "Change keys of a job, also while it runs, and print what changed",
    .usage = "JOB KEY=VALUE...",
    .examples = "  gradus set digits-1 training.mode=async\n"
                "  gradus set digits-1 training.epochs=20 cluster.workers=2..8 --json\n"
                "  gradus set digits-1 update.learning_rate=0.01 update.clip_norm=1\n",
    .notes =
        "Keys of `training` can change, but for batch_size, split_batches, seed and wire; "
        "keys of `update`, but for rule and accumulate; cluster.workers, cluster.ps and "
        "cluster.standby; priority. A running job changes at a step boundary; nothing is lost "
        "or applied twice. To another number of parameter servers it moves by way of a "
        "checkpoint, as soon as they are there. Ctrl-C stops waiting; the change may still happen.",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 2,
    .positional_max = 1 + KEYS_MAX,
    .run = run,
};
