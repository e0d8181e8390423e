/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster is of child processes, which end with this one. */
#include "cli/local_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#include "cli/find_job.h"
#include "cli/follow.h"
#include "cli/job_locate.h"
#include "cli/local.h"
#include "cli/memory_need.h"
#include "cli/places.h"
#include "cli/run_dir.h"
#include "cli/submit.h"

#define UNFINISHED_TOLD 8 /* newest jobs; all that have not ended come on top */

struct training {
    struct local *local;
    const struct local_job *job;
    struct client *client;
};

static int tick(void *ctx, struct buf *notices, struct err *err)
{
    const struct training *t = ctx;
    return local_tick(t->local, notices, err);
}

static void suspend(void *ctx, bool stop)
{
    const struct training *t = ctx;
    local_suspend(t->local, stop);
}

static void look(void *ctx, struct rpc_msg *job)
{
    const struct training *t = ctx;
    t->job->look(t->job->ctx, t->client, job);
}

int local_job_submit(void *ctx, struct client *client, char **job, struct err *err)
{
    const struct local_submission *s = ctx;
    struct run_number number = {.lock_fd = -1, .least = 0};
    int rc = s->numbered ? run_number_take(s->file->spec.name, &number, err) : 0;
    rc = rc != 0 ? rc : submit_job(client, s->file, s->args, "", number.least, job, err);
    run_number_release(&number);
    return rc;
}

static int train(struct local *local, const struct local_job *j)
{
    places_remember(local->state_dir);
    struct client client = {0};
    struct err err = {0};
    char *job = NULL;
    int rc = client_open(&client, local->master_address, NULL, &err);
    if (rc == 0) {
        rc = j->begin(j->ctx, &client, &job, &err);
    }
    if (rc != 0) {
        client_close(&client);
        return cli_fail(&err);
    }
    (void)fprintf(stderr, "job %s: 1 master, %zu parameter server%s, %zu worker%s\nlogs in %s\n",
                  job, local->ps_count, local->ps_count == 1 ? "" : "s", local->worker_count,
                  local->worker_count == 1 ? "" : "s", local->log_dir);
    if (local->page_address[0] != '\0') {
        (void)fprintf(stderr, "watch it at http://%s/#/jobs/%s\n", local->page_address, job);
    }
    struct training training = {local, j, &client};
    struct follow_options follow_options = {
        .job = job,
        .where = j->where,
        .tensorboard = j->tensorboard,
        .result = j->json ? FOLLOW_JSON : FOLLOW_TEXT,
        .interrupt = FOLLOW_CANCEL,
        .tick = tick,
        .suspend = suspend,
        .look = j->look != NULL ? look : NULL,
        .ctx = &training,
    };
    int code = follow(&client, &follow_options);
    free(job);
    return code;
}

/* Tells of jobs of earlier runs that were killed: nobody goes on with them unasked. */
static void tell_unfinished(const struct local_job *j)
{
    Gradus__V1__Job **jobs = NULL;
    size_t count = 0, unfinished = 0;
    struct buf ids = {0};
    const char *last = "";
    if (find_rows(j->state_dir, UNFINISHED_TOLD, &jobs, &count, NULL) == 0) {
        for (size_t i = 0; i < count; i++) {
            if (!job_has_ended(jobs[i]) && strcmp(jobs[i]->id, j->resumed) != 0) {
                buf_printf(&ids, "%s%s", unfinished++ > 0 ? ", " : "", jobs[i]->id);
                last = jobs[i]->id;
            }
        }
    }
    if (unfinished > 0) {
        cli_note("unfinished from earlier runs: %s; `gradus resume %s%s` goes on with one, "
                 "`gradus cancel %s%s` ends it",
                 buf_str(&ids), last, j->where, last, j->where);
    }
    for (size_t i = 0; i < count; i++) {
        gradus__v1__job__free_unpacked(jobs[i], NULL);
    }
    free(jobs);
    buf_release(&ids);
}

int local_job_call(const char *state_dir, const char *method, const ProtobufCMessage *body,
                   unsigned timeout_ms, struct rpc_msg **reply, struct err *err)
{
    struct run_dir dir = {.lock_fd = -1};
    struct local local = {0};
    int rc = run_dir_claim(state_dir, &dir, err);
    if (rc == 0) {
        struct client client = {0};
        rc = local_start(&local, dir.path, "", "", 0, 0, err);
        rc = rc != 0 ? rc : client_open(&client, local.master_address, NULL, err);
        rc = rc != 0 ? rc : client_call(&client, method, body, timeout_ms, reply, err);
        client_close(&client);
        local_stop(&local, false);
    }
    run_dir_release(&dir);
    return rc;
}

int local_job_run(const struct local_job *j)
{
    struct local local = {.slow_downs = j->slow_downs};
    struct err err = {0};
    int code = CLI_FAILED;
    bool at_once = false;
    tell_unfinished(j);
    if (local_start(&local, j->state_dir, j->rules_dir, j->worker, (size_t)j->spec->cluster.ps,
                    (size_t)j->spec->cluster.workers.max, &err) != 0) {
        const bool stopped = err.code == ERR_CANCELLED;
        (void)err_wrap(&err, "start the local cluster");
        (void)cli_fail(&err); /* a process that is late is no master that cannot be reached */
        code = stopped ? FOLLOW_STOPPED : CLI_FAILED;
    } else {
        code = train(&local, j);
        at_once = code == FOLLOW_STOPPED;
    }
    local_stop(&local, at_once);
    return code;
}

/* What `gradus plan` would say: a job that cannot be is not started. */
static int check_plan(struct job_spec *spec, const struct job_file *file, bool overcommit)
{
    struct memory_need need;
    struct err err = {0};
    if (job_file_memory(spec, &need, &err) != 0) {
        if (file != NULL) {
            job_locate_err(file, &err);
        }
        return cli_fail(&err);
    }
    const struct host_memory host = host_memory("");
    if (memory_need_fits(&need, &host)) {
        return CLI_OK;
    }
    struct buf table = {0};
    memory_need_text(&need, &host, &table);
    (void)fputs(buf_str(&table), stderr);
    buf_release(&table);
    if (overcommit) {
        cli_note("that may not be enough; it goes on for --overcommit");
        return CLI_OK;
    }
    (void)err_set(
        &err, ERR_EXHAUSTED,
        "the job may not fit in the memory of this host; fewer workers or servers take less, and "
        "--overcommit tries it all the same");
    return cli_fail(&err);
}

/* Checks the program; what its model is, only workers will tell. */
static int check_program(const struct job_spec *spec, const char *worker)
{
    struct err err = {0};
    if (worker[0] == '\0') {
        (void)err_set(
            &err, ERR_INVALID,
            "the job's model is program '%s' (model.program): --worker 'COMMAND' says what "
            "computes it",
            spec->model.program);
        return cli_fail(&err);
    }
    return CLI_OK;
}

int local_job_check(struct job_spec *spec, const struct job_file *file, const char *worker,
                    bool overcommit)
{
    return job_spec_is_program(spec) ? check_program(spec, worker)
                                     : check_plan(spec, file, overcommit);
}
