/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of the master's HTTP port. The one for browsers is one file, compiled in; what it shows are
 * answers of Jobs as JSON, and what it changes are calls of Jobs. Whoever may call a method over
 * gRPC may do so here, by the same row of auth_table.h; changes are for callers who have said who
 * they are. */
#include <stdlib.h>
#include <string.h>

#include "auth/auth_table.h"
#include "base/mem.h"
#include "master/shell/curves.h"
#include "master/shell/events.h"
#include "master/shell/page_asked.h"
#include "service/http.h"

#define API "/api/v1/"
#define JOBS "gradus.v1.Jobs/"
#define JOBS_SHOWN 200
#define BODY_BYTES_MAX ((size_t)64 << 10)
#define BODIES_BYTES_MAX ((size_t)4 << 20)
extern const unsigned char master_page[], master_page_end[]; /* page/index.html */

/* ---- paths ---- */

/* "/api/v1/jobs/digits-1/pause" → "digits-1" and "pause", or "" where that is missing. False:
 * another path. Returns owned @job. */
static bool split(const char *path, char **job, const char **change)
{
    static const char prefix[] = API "jobs/";
    const char *id = path + sizeof prefix - 1;
    if (strncmp(path, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    const size_t n = strcspn(id, "/");
    if (n == 0 || (id[n] == '/' && (id[n + 1] == '\0' || strchr(id + n + 1, '/') != NULL))) {
        return false;
    }
    *job = mem_printf("%.*s", (int)n, id);
    *change = id[n] == '/' ? id + n + 1 : "";
    return true;
}

static const struct page_change *change_of(const char *path)
{
    char *job = NULL;
    const char *name = "";
    const struct page_change *c = split(path, &job, &name) ? page_change_find(name) : NULL;
    free(job);
    return c;
}

static const char *row(void *ctx, const char *path)
{
    (void)ctx;
    char *job = NULL;
    const char *name = "";
    if (strcmp(path, "/") == 0 || strcmp(path, "/index.html") == 0) {
        return AUTH_PAGE;
    }
    if (strcmp(path, API "jobs") == 0 || strcmp(path, API "events") == 0) {
        return JOBS "List";
    }
    if (strcmp(path, API "nodes") == 0) {
        return JOBS "Nodes";
    }
    if (!split(path, &job, &name)) {
        return NULL;
    }
    free(job);
    const struct page_change *c = page_change_find(name);
    const bool looks = name[0] == '\0' || strcmp(name, "curve") == 0;
    return c != NULL                     ? c->method
           : looks                       ? JOBS "Get"
           : strcmp(name, "events") == 0 ? JOBS "Watch"
                                         : NULL;
}

static enum http_deed deed(void *ctx, const char *path)
{
    (void)ctx;
    const struct page_change *c = change_of(path);
    return c == NULL ? HTTP_LOOKS : c->deed;
}

/* ---- requests ---- */

static void ask(struct shell *s, struct http_call *call, struct page_asked *a)
{
    struct request *r = mem_new(1, sizeof *r);
    *r = (struct request){.shell = s, .page = call, .asked = a, .msg = &a->msg, .run = a->run};
    request_post(r);
}

static int read_change(struct http_call *call, struct page_asked *a, struct err *err)
{
    const char *name = "";
    (void)split(http_call_path(call), &a->job, &name);
    return page_change_read(page_change_find(name), http_call_body(call), a, err);
}

static void read_look(struct http_call *call, struct page_asked *a)
{
    const char *path = http_call_path(call), *name = "";
    if (split(path, &a->job, &name)) {
        gradus__v1__get_job_request__init(&a->body.get);
        a->body.get.job = a->job;
        a->msg.body = &a->body.get.base;
        a->run = name[0] == '\0' ? run_get : run_curve;
    } else if (strcmp(path, API "jobs") == 0) {
        gradus__v1__list_jobs_request__init(&a->body.list);
        a->body.list.limit = JOBS_SHOWN;
        a->msg.body = &a->body.list.base;
        a->run = run_list;
    } else {
        gradus__v1__nodes_request__init(&a->body.nodes);
        a->msg.body = &a->body.nodes.base;
        a->run = run_nodes;
    }
}

/* "/api/v1/events", "/api/v1/jobs/JOB/events"; false: another path. */
static bool open_events(struct shell *s, struct http_call *call)
{
    const char *path = http_call_path(call), *name = "";
    char *job = NULL;
    const bool one = split(path, &job, &name) && strcmp(name, "events") == 0;
    const bool events = one || strcmp(path, API "events") == 0;
    if (events) {
        events_open(s, call, one ? job : NULL);
    }
    free(job);
    return events;
}

static void refuse_method(struct http_call *call, const char *allowed)
{
    struct buf body = {0};
    buf_printf(&body, "{\"error\":\"only %s\"}\n", allowed);
    page_answer(call, 405, PAGE_JSON, &body);
}

static void request(void *ctx, struct http_call *call)
{
    struct shell *s = ctx;
    const char *path = http_call_path(call), *method = http_call_method(call);
    const bool change = change_of(path) != NULL, posts = strcmp(method, "POST") == 0;
    const bool gets = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    struct err err = {0};
    if (http_call_refusal(call) != NULL || service_standing_by(s->sc, &err) != 0) {
        page_fail(call, http_call_refusal(call) != NULL ? http_call_refusal(call) : &err);
        return;
    }
    if (change ? !posts : !gets) {
        refuse_method(call, change ? "POST" : "GET");
        return;
    }
    if (strncmp(path, API, strlen(API)) != 0) {
        struct buf body = {0};
        buf_add(&body, master_page, (size_t)(master_page_end - master_page));
        page_answer(call, 200, "text/html; charset=utf-8", &body);
        return;
    }
    if (open_events(s, call)) {
        return;
    }
    struct page_asked *a = mem_new(1, sizeof *a);
    if (!change) {
        read_look(call, a);
    } else if (read_change(call, a, &err) != 0) {
        page_asked_free(a);
        page_fail(call, &err);
        return;
    }
    ask(s, call, a);
}

struct http_pages shell_pages(struct shell *s)
{
    return (struct http_pages){.prefix = "/",
                               .body_bytes_max = BODY_BYTES_MAX,
                               .bodies_bytes_max = BODIES_BYTES_MAX,
                               .row = row,
                               .deed = deed,
                               .request = request,
                               .ctx = s};
}
