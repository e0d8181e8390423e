/* SPDX-License-Identifier: Apache-2.0 */
/* A request to the master, from its arrival on a thread of gRPC to its answer, which the core may
 * give much later. Each is answered once, with an error if the master stops before. */
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "master/shell/shell.h"

struct request *request_new(struct shell *s, struct rpc_call *call, struct rpc_msg *msg,
                            void (*run)(struct request *r))
{
    struct request *r = mem_new(1, sizeof *r);
    *r = (struct request){
        .shell = s, .call = rpc_call_ref(call), .msg = rpc_msg_ref(msg), .run = run};
    return r;
}

struct service_caller request_caller(const struct request *r)
{
    return r->page == NULL ? service_caller_of(r->call)
                           : (struct service_caller){.who = http_call_who(r->page),
                                                     .peer = http_call_peer(r->page),
                                                     .method = http_call_row(r->page)};
}

void request_free(struct request *r)
{
    if (r->free_data != NULL) {
        r->free_data(r->data);
    }
    page_asked_free(r->asked);
    if (r->page == NULL) {
        rpc_msg_unref(r->msg);
        rpc_call_unref(r->call);
    }
    free(r);
}

void request_fail(struct request *r, const struct err *err)
{
    if (r->page != NULL) {
        page_fail(r->page, err);
    } else {
        (void)rpc_fail(r->call, err);
    }
    request_free(r);
}

void request_reply(struct request *r, const ProtobufCMessage *message)
{
    if (r->page != NULL) {
        page_reply(r->page, message);
    } else {
        (void)rpc_reply(r->call, message, NULL);
    }
    request_free(r);
}

void request_reply_json(struct request *r, const struct buf *json)
{
    struct buf body = {0};
    buf_add(&body, json->data, json->len);
    page_answer(r->page, 200, PAGE_JSON, &body);
    request_free(r);
}

static void refuse_ending(struct request *r)
{
    struct err err = {0};
    err_set(&err, ERR_UNAVAILABLE, "the master is stopping");
    request_fail(r, &err);
}

static void on_loop(void *ctx)
{
    struct request *r = ctx;
    if (loop_discarding(r->shell->loop) || atomic_load(&r->shell->ending)) {
        refuse_ending(r);
    } else {
        r->run(r);
    }
}

void request_post(struct request *r)
{
    struct err err = {0};
    if (loop_post(r->shell->loop, on_loop, r, &err) < 0) {
        request_fail(r, &err);
    }
}

void request_begin(struct shell *s, struct rpc_call *call, struct rpc_msg *msg,
                   void (*run)(struct request *r))
{
    request_post(request_new(s, call, msg, run));
}

static void unlink_request(struct request *r)
{
    struct shell *s = r->shell;
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        s->waiting = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev;
    }
    s->waiting_count--;
}

void request_event(struct request *r, struct master_event *e,
                   void (*answer)(struct request *r, const struct master_reply *reply))
{
    struct shell *s = r->shell;
    r->answer = answer;
    r->prev = NULL;
    r->next = s->waiting;
    if (s->waiting != NULL) {
        s->waiting->prev = r;
    }
    s->waiting = r;
    s->waiting_count++;
    e->request = (uint64_t)(uintptr_t)r; /* the core only gives it back, once */
    shell_event(s, e);
}

void request_answered(struct shell *s, const struct master_reply *reply)
{
    (void)s;
    struct request *r = (struct request *)(uintptr_t)reply->request;
    unlink_request(r);
    if (reply->err.code != 0 && r->refused != NULL) {
        r->refused(r, &reply->err);
    } else if (reply->err.code != 0) {
        request_fail(r, &reply->err);
    } else {
        r->answer(r, reply);
    }
}

/* The service stops: nobody will answer these requests. */
void requests_end(struct shell *s, const char *why)
{
    struct err err = {0};
    err_set(&err, ERR_UNAVAILABLE, "%s", why);
    while (s->waiting != NULL) {
        struct request *r = s->waiting;
        unlink_request(r);
        request_fail(r, &err);
    }
}
