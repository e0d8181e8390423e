/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Submit: parses and checks the job file (on the pool, as it may be large), numbers the job
 * and makes its directory of checkpoints, so that no other job has it, and queues the job. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/boards.h"
#include "master/shell/shell.h"
#include "os/chrono.h"

#define SETS_MAX 1000
#define REQUEST_ID_BYTES_MAX 128
#define NUMBER_LEAST_MAX 1000000000000

struct submission {
    struct job_spec spec;
    char *name;      /* the spec's, which the core takes */
    uint64_t number; /* number of the job; 0: no directory was made */
    struct err err;
};

static void free_submission(void *data)
{
    struct submission *s = data;
    job_spec_release(&s->spec);
    free(s->name);
    free(s);
}

static void reply_id(struct request *r, const char *id)
{
    Gradus__V1__SubmitResponse response = GRADUS__V1__SUBMIT_RESPONSE__INIT;
    char *copy = mem_strdup(id);
    response.job = copy;
    request_reply(r, &response.base);
    free(copy);
}

/* The directory that was made for this request is not that of @id (NULL: of no job). */
static void release_other(struct request *r, const char *id)
{
    const struct submission *s = r->data;
    char *made = mem_printf("%s-%" PRIu64, s->name, s->number);
    if (s->number != 0 && (id == NULL || strcmp(id, made) != 0)) {
        shell_release(r->shell, made);
    }
    free(made);
}

static void answer_submit(struct request *r, const struct master_reply *reply)
{
    release_other(r, reply->job->id);
    request_done(r, "submit", reply->job->id);
    reply_id(r, reply->job->id);
}

static void refused_submit(struct request *r, const struct err *err)
{
    release_other(r, NULL);
    request_fail(r, err);
}

static void run_submit(struct request *r)
{
    const Gradus__V1__SubmitRequest *q = (const Gradus__V1__SubmitRequest *)r->msg->body;
    struct submission *submission = r->data;
    if (submission->err.code != 0) {
        struct err err = submission->err;
        request_fail(r, &err);
        return;
    }
    if (submission->number != 0) {
        struct err err = {0};
        char *id = mem_printf("%s-%" PRIu64, submission->name, submission->number);
        int rc = owner_check_room(r, &err);
        rc = rc != 0 ? rc : owner_store(r, id, &err);
        free(id);
        if (rc != 0) {
            refused_submit(r, &err);
            return;
        }
    }
    struct master_event e = {.kind = MASTER_SUBMIT};
    const char *owner = rpc_caller(r->call)->proof == AUTH_OPEN ? "" : rpc_caller(r->call)->name;
    e.submit =
        (struct master_submit_event){&submission->spec, q->request_id, submission->number, owner};
    r->refused = refused_submit;
    request_event(r, &e, answer_submit);
}

/* Claims the directory; on the pool of files. */
static void claim(void *ctx)
{
    struct request *r = ctx;
    struct submission *s = r->data;
    const uint64_t wanted = ((const Gradus__V1__SubmitRequest *)r->msg->body)->number_least;
    const uint64_t least = s->number > wanted ? s->number : wanted;
    s->number = 0;
    if (checkpoints_claim(&r->shell->checkpoints, s->name, least, chrono_wall_ms(), &s->number,
                          &s->err) < 0) {
        (void)err_wrap(&s->err, "make the job's directory of checkpoints");
        s->err.code = ERR_UNAVAILABLE; /* in any case the job file is not the reason */
    }
    r->run = run_submit;
    request_post(r);
}

/* The store knows jobs that the core has forgotten, and whether this request has made one. */
static void run_number(struct request *r)
{
    const Gradus__V1__SubmitRequest *q = (const Gradus__V1__SubmitRequest *)r->msg->body;
    struct submission *submission = r->data;
    struct store *store = r->shell->store;
    struct err err = {0};
    struct buf id = {0};
    int rc = q->request_id[0] == '\0' ? ERR_NOT_FOUND
                                      : store->ops->find_request(store, q->request_id, &id, &err);
    if (rc == 0) {
        reply_id(r, buf_str(&id));
    } else if (!job_name_is_good(submission->name)) {
        run_submit(r); /* the core says why not */
    } else if (rc != ERR_NOT_FOUND ||
               store->ops->next_number(store, submission->name, &submission->number, &err) < 0 ||
               pool_post(r->shell->files, claim, r, &err) < 0) {
        request_fail(r, &err);
    }
    buf_release(&id);
}

static int check(const Gradus__V1__SubmitRequest *q, struct err *err)
{
    if (strlen(q->text) > SHELL_TEXT_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "the job file is larger than 1 MiB");
    }
    if (q->n_sets > SETS_MAX) {
        return err_set(err, ERR_INVALID, "%zu settings; at most %d", q->n_sets, SETS_MAX);
    }
    if (strlen(q->request_id) > REQUEST_ID_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "request_id is longer than %d bytes",
                       REQUEST_ID_BYTES_MAX);
    }
    if (q->number_least > NUMBER_LEAST_MAX) {
        return err_set(err, ERR_INVALID, "number_least is above 10^12");
    }
    return 0;
}

/* Parses the file, on the pool. Every error of it is in the message, as far as they fit. */
static void parse(void *ctx)
{
    struct request *r = ctx;
    const Gradus__V1__SubmitRequest *q = (const Gradus__V1__SubmitRequest *)r->msg->body;
    char file[256];
    text_shown(q->file[0] == '\0' ? "job" : q->file, file, sizeof file);
    const char **sets = mem_new(q->n_sets + 1, sizeof *sets);
    for (size_t i = 0; i < q->n_sets; i++) {
        sets[i] = q->sets[i];
    }
    struct submission *submission = mem_new(1, sizeof *submission);
    struct diags diags = {0};
    struct err err = {0};
    int rc =
        job_spec_parse(q->text, strlen(q->text), file, sets, q->n_sets, &submission->spec, &diags);
    free(sets);
    r->data = submission;
    r->free_data = free_submission;
    const char *dir = rc < 0 ? NULL : submission->spec.training.tensorboard;
    if (rc == 0 && dir[0] != '\0' && !boards_is_path(dir)) {
        err_set(&err, ERR_INVALID,
                "%s: training.tensorboard: '%.200s' is a directory on the master's host; allowed: "
                "an absolute path without '..'",
                file, dir);
        request_fail(r, &err);
    } else if (rc < 0) {
        struct buf text = {0};
        diags_format(&diags, &text);
        err_set(&err, ERR_INVALID, "%s", buf_str(&text));
        buf_release(&text);
        request_fail(r, &err);
    } else {
        submission->name = mem_strdup(submission->spec.name);
        request_post(r);
    }
    diags_release(&diags);
}

void on_submit_call(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct shell *s = service;
    struct request *r = request_new(s, call, msg, run_number);
    struct err err = {0};
    if (check((const Gradus__V1__SubmitRequest *)msg->body, &err) < 0 ||
        pool_post(s->pool, parse, r, &err) < 0) {
        request_fail(r, &err);
    }
}
