/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to requests for pages: messages as JSON, errors with the status that says the same. */
#include <stdlib.h>

#include "json/json_write.h"
#include "master/shell/page_asked.h"
#include "service/http.h"
#include "wire/wire_json.h"

/* What the page may do: what it says itself, and calls of its own origin. */
#define POLICY                                                                                     \
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "      \
    "'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

void page_asked_free(struct page_asked *a)
{
    if (a == NULL) {
        return;
    }
    for (size_t i = 0; i < a->set_count; i++) {
        free(a->sets[i]);
    }
    free(a->sets);
    free(a->job);
    free(a);
}

void page_answer(struct http_call *call, unsigned status, const char *type, struct buf *body)
{
    const struct http_answer a = {.status = status,
                                  .type = type,
                                  .header = "Content-Security-Policy",
                                  .more = POLICY,
                                  .text = true,
                                  .body = body};
    http_call_answer(call, &a);
}

static unsigned status_of(int code)
{
    switch (code) {
    case ERR_NOT_FOUND:
        return 404;
    case ERR_INVALID:
        return 400;
    case ERR_UNAUTHENTICATED:
        return 401;
    case ERR_PERMISSION:
        return 403;
    case ERR_STATE:
    case ERR_EXISTS:
    case ERR_ABORTED:
        return 409;
    case ERR_EXHAUSTED:
        return 429;
    case ERR_TIMEOUT:
    case ERR_UNAVAILABLE:
        return 503;
    default:
        return 500;
    }
}

void page_fail(struct http_call *call, const struct err *err)
{
    struct buf body = {0};
    buf_add_str(&body, "{\"error\":");
    json_add_string(&body, err->msg);
    buf_add_str(&body, "}\n");
    page_answer(call, status_of(err->code), PAGE_JSON, &body);
}

void page_json(const ProtobufCMessage *message, struct buf *out)
{
    wire_json(message, out);
    buf_add_char(out, '\n');
}

void page_reply(struct http_call *call, const ProtobufCMessage *message)
{
    struct buf body = {0};
    page_json(message, &body);
    page_answer(call, 200, PAGE_JSON, &body);
}
