/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libgradus-client.so.1 that open a client and call the master once. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client_handle.h"
#include "gradus/v1/jobs.pb-c.h"
#include "service/service.h"

/* A change waits for a step's end; to resume, checkpoints are looked for. */
#define CHANGE_TIMEOUT_MS 60000

static _Thread_local struct err open_error;

/* ---- errors ---- */

/* What an error of a call means to the caller (enum gradus_client_status). */
static int handle_status(const struct err *err)
{
    switch (err->code) {
    case ERR_INVALID:
    case ERR_RANGE:
    case ERR_UNSUPPORTED:
        return GRADUS_CLIENT_INVALID;
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT:
        return GRADUS_CLIENT_UNREACHABLE;
    case ERR_NOT_FOUND:
        return GRADUS_CLIENT_NOT_FOUND;
    case ERR_PERMISSION:
    case ERR_UNAUTHENTICATED:
        return GRADUS_CLIENT_DENIED;
    case ERR_STATE:
        return GRADUS_CLIENT_STATE;
    default:
        return GRADUS_CLIENT_FAILED;
    }
}

int handle_fail(struct gradus_client *c, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    c->err.code = code;
    (void)vsnprintf(c->err.msg, sizeof c->err.msg, fmt, args);
    va_end(args);
    return handle_status(&c->err);
}

const char *gradus_client_error(const struct gradus_client *c)
{
    return c != NULL ? c->err.msg : open_error.msg;
}

uint32_t gradus_client_abi(void)
{
    return GRADUS_CLIENT_ABI;
}

/* ---- open and close ---- */

/* Of a struct that may be of an older version of the header: fields behind its end are zero. */
static void take_struct(void *out, size_t bytes, const void *given)
{
    size_t size = 0;
    memset(out, 0, bytes);
    if (given != NULL) {
        memcpy(&size, given, sizeof size);
        memcpy(out, given, size < bytes ? size : bytes);
    }
}

/* Returns owned. */
static char *chosen(const char *given, const char *variable, const char *otherwise)
{
    const char *text = given != NULL ? given : getenv(variable);
    return mem_strdup(text != NULL && text[0] != '\0' ? text : otherwise);
}

static int open_client(struct gradus_client *c, const struct gradus_client_options *o)
{
    struct tls_settings tls = {
        .cert = chosen(o->tls_cert, "GRADUS_TLS_CERT", ""),
        .key = chosen(o->tls_key, "GRADUS_TLS_KEY", ""),
        .ca = chosen(o->tls_ca, "GRADUS_TLS_CA", ""),
        .name = chosen(o->tls_name, "GRADUS_TLS_NAME", ""),
        .token_file = chosen(o->token_file, "GRADUS_TOKEN_FILE", ""),
        .token = chosen(o->token, "GRADUS_TOKEN", ""),
    };
    char *master = chosen(o->master, "GRADUS_MASTER", SERVICE_MASTER_ADDRESS);
    int rc = client_open(&c->client, master, &tls, &open_error);
    char *owned[] = {tls.cert, tls.key, tls.ca, tls.name, tls.token_file, tls.token, master};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        free(owned[i]);
    }
    return rc;
}

int gradus_client_open(const struct gradus_client_options *options, struct gradus_client **out)
{
    struct gradus_client_options o;
    open_error.msg[0] = '\0';
    if (out == NULL || (options != NULL && options->size < sizeof options->size)) {
        (void)err_set(&open_error, ERR_INVALID, "%s",
                      out == NULL ? "there is no place for the client"
                                  : "options.size is not sizeof(struct gradus_client_options)");
        return GRADUS_CLIENT_INVALID;
    }
    *out = NULL;
    take_struct(&o, sizeof o, options);
    struct gradus_client *c = mem_new(1, sizeof *c);
    c->timeout_ms = o.timeout_ms > 0 ? o.timeout_ms : CLIENT_TIMEOUT_MS;
    if (open_client(c, &o) != 0) {
        free(c);
        return handle_status(&open_error);
    }
    *out = c;
    return GRADUS_CLIENT_OK;
}

void gradus_client_close(struct gradus_client *c)
{
    if (c != NULL) {
        rpc_msg_unref(c->shown);
        job_view_release(&c->view);
        client_close(&c->client);
        free(c);
    }
}

/* ---- calls ---- */

/* Makes one call; @reply (NULL: not wanted) is owned. */
static int handle_call(struct gradus_client *c, const char *method, const ProtobufCMessage *body,
                       unsigned timeout_ms, struct rpc_msg **reply)
{
    struct rpc_msg *answer = NULL;
    int rc = client_call(&c->client, method, body, timeout_ms, &answer, &c->err);
    if (rc == 0 && reply != NULL) {
        *reply = answer;
    } else {
        rpc_msg_unref(answer);
    }
    return rc == 0 ? GRADUS_CLIENT_OK : handle_status(&c->err);
}

/* A name of a job that may be sent. */
static int check_job(struct gradus_client *c, const char *job)
{
    return job == NULL || job[0] == '\0' ? handle_fail(c, ERR_INVALID, "no job is named")
                                         : GRADUS_CLIENT_OK;
}

int gradus_client_submit(struct gradus_client *c, const struct gradus_submission *submission,
                         char job[GRADUS_JOB_ID_BYTES])
{
    struct gradus_submission s;
    take_struct(&s, sizeof s, submission);
    if (s.text == NULL || (s.set_count > 0 && s.sets == NULL)) {
        return handle_fail(c, ERR_INVALID, "the submission has no %s",
                           s.text == NULL ? "text" : "sets, but their number");
    }
    Gradus__V1__SubmitRequest request = GRADUS__V1__SUBMIT_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    request.file = client_text(s.name != NULL ? s.name : "job.yaml");
    request.text = client_text(s.text);
    request.request_id = client_text(s.request_id != NULL ? s.request_id : "");
    request.sets = client_texts(s.sets);
    request.n_sets = s.set_count;
    int rc = handle_call(c, "Submit", &request.base, c->timeout_ms, &reply);
    if (rc == GRADUS_CLIENT_OK) {
        (void)snprintf(job, GRADUS_JOB_ID_BYTES, "%s",
                       ((const Gradus__V1__SubmitResponse *)reply->body)->job);
    }
    rpc_msg_unref(reply);
    return rc;
}

/* Makes a call whose request is a job's name. */
static int call_with_job(struct gradus_client *c, const char *method, const char *job,
                         struct rpc_msg **reply)
{
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    int rc = check_job(c, job);
    if (rc == GRADUS_CLIENT_OK) {
        request.job = client_text(job);
        rc = handle_call(c, method, &request.base, c->timeout_ms, reply);
    }
    return rc;
}

int gradus_client_job(struct gradus_client *c, const char *job, struct gradus_job_status *out)
{
    struct rpc_msg *reply = NULL;
    int rc = call_with_job(c, "Get", job, &reply);
    if (rc == GRADUS_CLIENT_OK) {
        rpc_msg_unref(c->shown);
        c->shown = reply;
        job_view_set(&c->view, (const Gradus__V1__Job *)reply->body);
        *out = c->view.status;
    }
    return rc;
}

int gradus_client_list(struct gradus_client *c, const char *owner, uint32_t limit,
                       gradus_job_fn *each, void *ctx)
{
    Gradus__V1__ListJobsRequest request = GRADUS__V1__LIST_JOBS_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    request.limit = limit;
    request.owner = client_text(owner != NULL ? owner : "");
    int rc = handle_call(c, "List", &request.base, c->timeout_ms, &reply);
    if (rc != GRADUS_CLIENT_OK) {
        return rc;
    }
    const Gradus__V1__ListJobsResponse *r = (const Gradus__V1__ListJobsResponse *)reply->body;
    struct job_view view = {.metrics = NULL};
    for (size_t i = 0; i < r->n_jobs && rc == GRADUS_CLIENT_OK; i++) {
        job_view_set(&view, r->jobs[i]);
        rc = each(ctx, &view.status) == 0 ? GRADUS_CLIENT_OK : GRADUS_CLIENT_STOPPED;
    }
    job_view_release(&view);
    rpc_msg_unref(reply);
    return rc;
}

int gradus_client_cancel(struct gradus_client *c, const char *job, int now)
{
    Gradus__V1__CancelRequest request = GRADUS__V1__CANCEL_REQUEST__INIT;
    int rc = check_job(c, job);
    if (rc == GRADUS_CLIENT_OK) {
        request.job = client_text(job);
        request.now = now != 0;
        rc = handle_call(c, "Cancel", &request.base, c->timeout_ms, NULL);
    }
    return rc;
}

int gradus_client_pause(struct gradus_client *c, const char *job)
{
    return call_with_job(c, "Pause", job, NULL);
}

int gradus_client_resume(struct gradus_client *c, const char *job)
{
    return gradus_client_resume_set(c, job, NULL, 0);
}

/* @sets of @job: what the two requests have in common. @request begins with nothing. */
struct job_sets {
    ProtobufCMessage *request;
    char **job, ***sets;
    size_t *count;
};

static int call_with_sets(struct gradus_client *c, const char *method, const struct job_sets *to,
                          const char *job, const char *const *sets, size_t set_count)
{
    int rc = check_job(c, job);
    if (rc == GRADUS_CLIENT_OK) {
        *to->job = client_text(job);
        *to->sets = client_texts(sets);
        *to->count = set_count;
        rc = handle_call(c, method, to->request,
                         c->timeout_ms > CHANGE_TIMEOUT_MS ? c->timeout_ms : CHANGE_TIMEOUT_MS,
                         NULL);
    }
    return rc;
}

int gradus_client_resume_set(struct gradus_client *c, const char *job, const char *const *sets,
                             size_t set_count)
{
    Gradus__V1__ResumeRequest request = GRADUS__V1__RESUME_REQUEST__INIT;
    const struct job_sets to = {&request.base, &request.job, &request.sets, &request.n_sets};
    return call_with_sets(c, "Resume", &to, job, sets, set_count);
}

int gradus_client_set(struct gradus_client *c, const char *job, const char *const *sets,
                      size_t set_count)
{
    Gradus__V1__SetJobRequest request = GRADUS__V1__SET_JOB_REQUEST__INIT;
    const struct job_sets to = {&request.base, &request.job, &request.sets, &request.n_sets};
    return call_with_sets(c, "Set", &to, job, sets, set_count);
}
