/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of the master's HTTP port. The one for browsers is one file, compiled in; what it shows are
 * answers of Jobs as JSON, to GET alone: nobody changes anything here. Whoever may call a method
 * over gRPC may read its page, by the same row of auth_table.h. */
#include <stdlib.h>
#include <string.h>

#include "auth/auth_table.h"
#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/shell.h"
#include "service/http.h"

#define API "/api/v1/"
#define JOBS "gradus.v1.Jobs/"
#define JOBS_SHOWN 200
extern const unsigned char master_page[], master_page_end[]; /* page/index.html */

/* A message for a handler, as a call over gRPC brings it. */
struct asked {
    struct rpc_msg msg;
    union {
        Gradus__V1__GetJobRequest get;
        Gradus__V1__ListJobsRequest list;
        Gradus__V1__NodesRequest nodes;
    } body;
    char *job;
};

static void asked_free(void *data)
{
    struct asked *a = data;
    free(a->job);
    free(a);
}

/* ---- requests ---- */

static void ask(struct shell *s, struct http_call *call, struct asked *a, ProtobufCMessage *body,
                void (*run)(struct request *r))
{
    struct request *r = mem_new(1, sizeof *r);
    a->msg.body = body;
    *r = (struct request){
        .shell = s, .page = call, .msg = &a->msg, .run = run, .data = a, .free_data = asked_free};
    request_post(r);
}

/* "jobs/digits-1" → "digits-1"; NULL: another path. */
static const char *job_of(const char *path)
{
    static const char prefix[] = API "jobs/";
    const char *id = path + sizeof prefix - 1;
    return strncmp(path, prefix, sizeof prefix - 1) == 0 && id[0] != '\0' && strchr(id, '/') == NULL
               ? id
               : NULL;
}

static const char *row(void *ctx, const char *path)
{
    (void)ctx;
    if (strcmp(path, "/") == 0 || strcmp(path, "/index.html") == 0) {
        return AUTH_PAGE;
    }
    if (strcmp(path, API "jobs") == 0) {
        return JOBS "List";
    }
    if (strcmp(path, API "nodes") == 0) {
        return JOBS "Nodes";
    }
    return job_of(path) != NULL ? JOBS "Get" : NULL;
}

static void request(void *ctx, struct http_call *call)
{
    struct shell *s = ctx;
    const char *path = http_call_path(call), *method = http_call_method(call), *job = job_of(path);
    if (http_call_refusal(call) != NULL) {
        page_fail(call, http_call_refusal(call));
        return;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        struct buf body = {0};
        buf_add_str(&body, "{\"error\":\"only GET\"}\n");
        page_answer(call, 405, PAGE_JSON, &body);
        return;
    }
    if (strncmp(path, API, strlen(API)) != 0) {
        struct buf body = {0};
        buf_add(&body, master_page, (size_t)(master_page_end - master_page));
        page_answer(call, 200, "text/html; charset=utf-8", &body);
        return;
    }
    struct asked *a = mem_new(1, sizeof *a);
    if (job != NULL) {
        gradus__v1__get_job_request__init(&a->body.get);
        a->body.get.job = a->job = mem_strdup(job);
        ask(s, call, a, &a->body.get.base, run_get);
    } else if (strcmp(path, API "jobs") == 0) {
        gradus__v1__list_jobs_request__init(&a->body.list);
        a->body.list.limit = JOBS_SHOWN;
        ask(s, call, a, &a->body.list.base, run_list);
    } else {
        gradus__v1__nodes_request__init(&a->body.nodes);
        ask(s, call, a, &a->body.nodes.base, run_nodes);
    }
}

struct http_pages shell_pages(struct shell *s)
{
    return (struct http_pages){.prefix = "/", .row = row, .request = request, .ctx = s};
}
