/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Submit: parse and check the job file (on the pool, as it may be large), then queue the job.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/checkpoints.h"
#include "master/shell.h"

#define SETS_MAX 1000
#define REQUEST_ID_BYTES_MAX 128

struct submission {
    struct job_spec spec;
    uint64_t number; /* the least that has no checkpoints yet */
};

static void free_submission(void *data)
{
    struct submission *s = data;
    job_spec_release(&s->spec);
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

static void answer_submit(struct request *r, const struct master_reply *reply)
{
    reply_id(r, reply->job->id);
}

/* The store knows jobs that the core has forgotten; a job with checkpoints is known by these even
 * when its row is gone, as after master.db was deleted. */
static int ask_store(struct shell *s, const Gradus__V1__SubmitRequest *q,
                     const struct submission *submission, struct buf *id, uint64_t *number,
                     struct err *err)
{
    if (q->request_id[0] != '\0') {
        int rc = s->store->ops->find_request(s->store, q->request_id, id, err);
        if (rc != ERR_NOT_FOUND) {
            return rc;
        }
    }
    int rc = s->store->ops->next_number(s->store, submission->spec.name, number, err);
    if (rc == 0 && *number < submission->number) {
        *number = submission->number;
    }
    return rc;
}

static void run_submit(struct request *r)
{
    const Gradus__V1__SubmitRequest *q = (const Gradus__V1__SubmitRequest *)r->msg->body;
    struct submission *submission = r->data;
    struct err err = {0};
    struct buf id = {0};
    uint64_t number = 0;
    if (ask_store(r->shell, q, submission, &id, &number, &err) < 0) {
        request_fail(r, &err);
    } else if (id.len > 0) {
        reply_id(r, buf_str(&id));
    } else {
        struct master_event e = {.kind = MASTER_SUBMIT};
        e.submit = (struct master_submit_event){&submission->spec, q->request_id, number};
        request_event(r, &e, answer_submit);
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
    return 0;
}

/* On the pool. Every error of the file is in the message, as much of it as fits. */
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
    if (rc < 0) {
        struct buf text = {0};
        diags_format(&diags, &text);
        err_set(&err, ERR_INVALID, "%s", buf_str(&text));
        buf_release(&text);
        request_fail(r, &err);
    } else if (checkpoints_next_number(r->shell->checkpoint_dir, submission->spec.name,
                                       &submission->number, &err) < 0) {
        (void)err_wrap(&err, "number the job");
        request_fail(r, &err);
    } else {
        request_post(r);
    }
    diags_release(&diags);
}

void on_submit_call(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct shell *s = service;
    struct request *r = request_new(s, call, msg, run_submit);
    struct err err = {0};
    if (check((const Gradus__V1__SubmitRequest *)msg->body, &err) < 0 ||
        pool_post(s->pool, parse, r, &err) < 0) {
        request_fail(r, &err);
    }
}
