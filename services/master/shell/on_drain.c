/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.DrainNode: a node is taken out of service while its jobs go on, or back into it. */
#include <stdlib.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/shell.h"

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)(text == NULL ? "" : text);
}

static uint32_t *numbers_of(const uint32_t *numbers)
{
    return (uint32_t *)(uintptr_t)numbers;
}

static void answer(struct request *r, const struct master_reply *reply)
{
    const struct master_drained *d = &reply->drained;
    Gradus__V1__DrainNodeResponse m = GRADUS__V1__DRAIN_NODE_RESPONSE__INIT;
    Gradus__V1__HeldByNode *rows = mem_new(d->count + 1, sizeof *rows);
    m.held = mem_new(d->count + 1, sizeof *m.held);
    m.n_held = d->count;
    for (size_t i = 0; i < d->count; i++) {
        const struct master_held *h = &d->held[i];
        gradus__v1__held_by_node__init(&rows[i]);
        rows[i].job = text_of(h->job);
        rows[i].shards = numbers_of(h->primaries);
        rows[i].n_shards = h->primary_count;
        rows[i].backups = numbers_of(h->backups);
        rows[i].n_backups = h->backup_count;
        rows[i].works = h->works;
        rows[i].problem = text_of(h->problem);
        m.held[i] = &rows[i];
    }
    m.node = text_of(reply->node);
    m.alive = reply->was_alive;
    m.draining = d->draining;
    if (d->changed) { /* it is asked again and again */
        request_done(r, d->draining ? "drain_node" : "drain_node_undo", reply->node);
    }
    request_reply(r, &m.base);
    free(m.held);
    free(rows);
}

static void run_drain(struct request *r)
{
    const Gradus__V1__DrainNodeRequest *q = (const Gradus__V1__DrainNodeRequest *)r->msg->body;
    struct master_event e = {.kind = MASTER_DRAIN};
    e.drain = (struct master_drain_event){.node = q->node, .undo = q->undo};
    request_event(r, &e, answer);
}

void on_drain_call(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    request_begin(service, call, msg, run_drain);
}
