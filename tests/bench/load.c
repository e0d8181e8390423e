/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the load share: calls to the master with their times, and the books of jobs. */
#include "bench/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"

#define TIMEOUT_MS 10000
#define COMPLAINTS_MAX 10

const char *const load_kind_names[LOAD_KINDS] = {"join",         "heartbeat", "lease",
                                                 "report_split", "progress",  "other"};

struct ask {
    struct load_node *node;
    enum load_kind kind;
    load_done *done;
    uint64_t life, turn, sent_ns, ns;
    int code;
    struct rpc_msg *reply;
};

static void measured(struct load *l, enum load_kind kind, uint64_t ns)
{
    struct load_series *s = &l->series[kind];
    if (l->measuring) {
        s->ns = mem_grow(s->ns, &s->capacity, s->count + 1, sizeof *s->ns);
        s->ns[s->count++] = ns;
    }
}

static void deliver(void *ctx)
{
    struct ask *a = ctx;
    struct load_node *n = a->node;
    if (!loop_discarding(n->load->loop) && !n->load->ending) {
        if (a->code == 0) {
            measured(n->load, a->kind, a->ns);
        }
        if (a->life == n->life && a->done != NULL) {
            a->done(n, a->turn, a->code, a->reply == NULL ? NULL : a->reply->body);
        }
    }
    rpc_msg_unref(a->reply);
    free(a);
}

/* On the thread of gRPC. */
static void answered(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct ask *a = ctx;
    a->ns = chrono_now_ns() - a->sent_ns;
    a->code = status->err.code;
    a->reply = reply == NULL ? NULL : rpc_msg_ref(reply);
    if (loop_post(a->node->load->loop, deliver, a, NULL) != 0) {
        rpc_msg_unref(a->reply);
        free(a);
    }
}

void load_ask(struct load_node *n, enum load_kind kind, const char *method,
              const ProtobufCMessage *body, load_done *done)
{
    struct err err;
    struct ask *a = mem_new(1, sizeof *a);
    *a = (struct ask){.node = n,
                      .kind = kind,
                      .done = done,
                      .life = n->life,
                      .turn = n->turn,
                      .sent_ns = chrono_now_ns()};
    struct rpc_request request = {.service = &gradus__v1__cluster__descriptor,
                                  .method = method,
                                  .body = body,
                                  .timeout_ms = TIMEOUT_MS,
                                  .wait_for_ready = true};
    if (rpc_call_start(n->channel, &request, answered, a, &err) != 0) {
        load_complain(n->load, method, &err);
        free(a);
    }
}

struct load_job *load_job(struct load *l, const char *id)
{
    for (size_t i = l->job_count; i-- > 0;) {
        if (strcmp(l->jobs[i]->id, id) == 0) {
            return l->jobs[i];
        }
    }
    if (l->job_count == LOAD_JOBS_MAX || strlen(id) >= LOAD_ID_ROOM) {
        return NULL;
    }
    struct load_job *j = mem_new(1, sizeof *j);
    text_copy(j->id, sizeof j->id, id);
    l->jobs[l->job_count++] = j;
    return j;
}

void load_complain(struct load *l, const char *what, const struct err *err)
{
    if (++l->errors <= COMPLAINTS_MAX) {
        (void)fprintf(stderr, "bench_master: %s: %s\n", what, err->msg);
    }
}
