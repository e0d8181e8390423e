/* SPDX-License-Identifier: Apache-2.0 */
/* Takes paths apart and hands requests to the same functions as gRPC does. */
#include "serve/rpc/serve_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_write.h"
#include "serve/rpc/infer_json.h"

#define PREFIX "/v2"
#define MODELS "/models/"
#define VERSIONS "/versions/"
#define JSON "application/json"
#define BINARY "application/octet-stream"
#define JSON_BYTES_HEADER "Inference-Header-Content-Length"
#define SERVICE "inference.GRPCInferenceService/"
#define NAME_BYTES 256

enum page {
    PAGE_SERVER,
    PAGE_LIVE,
    PAGE_READY,
    PAGE_MODEL,
    PAGE_MODEL_READY,
    PAGE_CONFIG,
    PAGE_INFER
};

static const struct {
    const char *path; /* the part behind the prefix, or behind the model */
    const char *row;  /* of auth_table.h */
    bool of_model;
} pages[] = {
    [PAGE_SERVER] = {"", SERVICE "ServerMetadata", false},
    [PAGE_LIVE] = {"/health/live", SERVICE "ServerLive", false},
    [PAGE_READY] = {"/health/ready", SERVICE "ServerReady", false},
    [PAGE_MODEL] = {"", SERVICE "ModelMetadata", true},
    [PAGE_MODEL_READY] = {"/ready", SERVICE "ModelReady", true},
    [PAGE_CONFIG] = {"/config", SERVICE "ModelConfig", true},
    [PAGE_INFER] = {"/infer", SERVICE "ModelInfer", true},
};
#define PAGE_COUNT (sizeof pages / sizeof pages[0])

struct target {
    enum page page;
    char name[NAME_BYTES], version[NAME_BYTES];
};

/* The part of a path up to the next "/" into @out; what follows, or NULL: it is empty or too long.
 */
static const char *take_part(const char *path, char out[NAME_BYTES])
{
    const size_t n = strcspn(path, "/");
    if (n == 0 || n >= NAME_BYTES) {
        return NULL;
    }
    memcpy(out, path, n);
    out[n] = '\0';
    return path + n;
}

/* Finds the target of a path; false: there is no such page. */
static bool find_target(const char *path, struct target *t)
{
    *t = (struct target){.page = PAGE_SERVER};
    const char *rest = path + strlen(PREFIX);
    const bool of_model = strncmp(rest, MODELS, strlen(MODELS)) == 0;
    if (of_model) {
        rest = take_part(rest + strlen(MODELS), t->name);
    }
    if (of_model && rest != NULL && strncmp(rest, VERSIONS, strlen(VERSIONS)) == 0) {
        rest = take_part(rest + strlen(VERSIONS), t->version);
    }
    for (size_t i = 0; rest != NULL && i < PAGE_COUNT; i++) {
        if (pages[i].of_model == of_model && strcmp(rest, pages[i].path) == 0) {
            t->page = (enum page)i;
            return true;
        }
    }
    return false;
}

static const char *row(void *ctx, const char *path)
{
    struct target t;
    (void)ctx;
    return find_target(path, &t) ? pages[t.page].row : NULL;
}

/* ---- answers ---- */

static unsigned status_of(int code)
{
    switch (code) {
    case ERR_INVALID:
        return 400;
    case ERR_UNAUTHENTICATED:
        return 401;
    case ERR_PERMISSION:
        return 403;
    case ERR_NOT_FOUND:
        return 404;
    case ERR_EXHAUSTED:
        return 429;
    case ERR_UNAVAILABLE:
        return 503;
    default:
        return 500;
    }
}

static void answer(struct http_call *call, unsigned status, struct buf *body)
{
    const struct http_answer a = {.status = status, .type = JSON, .body = body};
    http_call_answer(call, &a);
}

static void answer_error(struct http_call *call, unsigned status, const char *message)
{
    struct buf body = {0};
    buf_add_str(&body, "{\"error\":");
    json_add_string(&body, message);
    buf_add_char(&body, '}');
    answer(call, status, &body);
}

static void answer_whether(struct http_call *call, bool well)
{
    struct buf body = {0};
    answer(call, well ? 200 : 503, &body);
}

/* ---- descriptions ---- */

static void say(void *ctx, const ProtobufCMessage *message)
{
    infer_json_message(message, ctx);
}

static void say_config(void *ctx, const ProtobufCMessage *message)
{
    infer_json_message(&((const Inference__ModelConfigResponse *)message)->config->base, ctx);
}

static void describe(struct serve *s, const struct target *t, struct http_call *call)
{
    struct buf body = {0};
    struct err err = {0};
    int rc = 0;
    if (t->page == PAGE_SERVER) {
        serve_say_server(say, &body);
    } else if (t->page == PAGE_MODEL) {
        rc = serve_say_model(s, t->name, t->version, say, &body, &err);
    } else {
        rc = serve_say_config(s, t->name, t->version, say_config, &body, &err);
    }
    if (rc != 0) {
        answer_error(call, status_of(rc), err.msg);
    } else {
        answer(call, 200, &body);
    }
    buf_release(&body);
}

/* ---- requests ---- */

struct asked {
    struct http_call *call;
    struct infer_json request;
    struct target target;
};

static void end_asked(struct asked *a)
{
    infer_json_release(&a->request);
    free(a);
}

static void answer_call(void *ctx, const Inference__ModelInferResponse *r)
{
    struct asked *a = ctx;
    struct buf body = {0};
    char bytes[24];
    size_t json_bytes;
    infer_json_answer(&a->request, r, &body, &json_bytes);
    (void)snprintf(bytes, sizeof bytes, "%zu", json_bytes);
    const struct http_answer all = {.status = 200,
                                    .type = json_bytes > 0 ? BINARY : JSON,
                                    .header = json_bytes > 0 ? JSON_BYTES_HEADER : NULL,
                                    .more = bytes,
                                    .body = &body};
    http_call_answer(a->call, &all);
    end_asked(a);
}

static void fail_call(void *ctx, const struct err *err)
{
    struct asked *a = ctx;
    answer_error(a->call, status_of(err->code), err->msg);
    end_asked(a);
}

/* Finds how much of the body is JSON. */
static int find_json(const struct http_call *call, size_t *bytes, struct err *err)
{
    const char *text = http_call_header(call, JSON_BYTES_HEADER);
    *bytes = http_call_body(call)->len;
    if (text == NULL) {
        return 0;
    }
    if (text[0] == '\0' || strlen(text) > 12 || text[strspn(text, "0123456789")] != '\0') {
        return err_set(err, ERR_INVALID, JSON_BYTES_HEADER ": a number of bytes is expected");
    }
    *bytes = strtoul(text, NULL, 10);
    return 0;
}

static void infer(struct serve *s, const struct target *t, struct http_call *call)
{
    static const struct serve_asker asker = {answer_call, fail_call};
    const struct buf *body = http_call_body(call);
    struct asked *a = mem_new(1, sizeof *a);
    struct err err = {0};
    size_t json_bytes;
    a->call = call;
    a->target = *t;
    int rc = find_json(call, &json_bytes, &err);
    rc = rc != 0 ? rc : infer_json_read(buf_str(body), body->len, json_bytes, &a->request, &err);
    if (rc != 0) {
        fail_call(a, &err);
        return;
    }
    a->request.message.model_name = a->target.name;
    a->request.message.model_version = a->target.version;
    serve_infer(s, &a->request.message, &asker, a);
}

static void request(void *ctx, struct http_call *call)
{
    struct serve *s = ctx;
    struct target t;
    const struct err *refusal = http_call_refusal(call);
    const char *method = http_call_method(call);
    if (refusal != NULL) {
        answer_error(call, status_of(refusal->code), refusal->msg);
        return;
    }
    (void)find_target(http_call_path(call), &t); /* row() has found it */
    const bool post = strcmp(method, "POST") == 0;
    if (post != (t.page == PAGE_INFER) || (!post && strcmp(method, "GET") != 0)) {
        answer_error(call, 405, t.page == PAGE_INFER ? "only POST" : "only GET");
        return;
    }
    switch (t.page) {
    case PAGE_LIVE:
        answer_whether(call, true);
        break;
    case PAGE_READY:
        answer_whether(call, serve_ready(s));
        break;
    case PAGE_MODEL_READY: {
        struct serve_model *m = serve_find(s, t.name, t.version, NULL);
        answer_whether(call, m != NULL && serve_ready(s));
        serve_model_unref(m);
        break;
    }
    case PAGE_INFER:
        infer(s, &t, call);
        break;
    default:
        describe(s, &t, call);
        break;
    }
}

struct http_pages serve_pages(struct serve *s)
{
    return (struct http_pages){.prefix = PREFIX, .row = row, .request = request, .ctx = s};
}
