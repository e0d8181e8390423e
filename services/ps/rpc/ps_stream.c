/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of exchanges: references, the list of its shard, and its end with that. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ps/rpc/ps_stream.h"

void ps_stream_ref(struct ps_stream *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void ps_stream_unref(struct ps_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1) {
        return;
    }
    ps_shared_memory_unref(s->shared_memory);
    ps_shared_memory_unref(s->tables_memory);
    if (s->shard != NULL) {
        ps_shard_unref(s->shard);
    }
    rpc_call_unref(s->call);
    free(s);
}

void ps_stream_wait(struct ps_stream *s, struct ps_request *r)
{
    r->next = s->waiting;
    r->link = &s->waiting;
    if (r->next != NULL) {
        r->next->link = &r->next;
    }
    s->waiting = r;
}

void ps_answer_refuse(struct rpc_call *call, uint64_t exchange, uint64_t generation,
                      uint64_t version, const struct err *err)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    char message[ERR_MESSAGE_BYTES];
    memcpy(message, err->msg, sizeof message);
    m.exchange = exchange;
    m.code = -err->code;
    m.message = message;
    m.generation = generation;
    m.version = version;
    if (rpc_send(call, &m.base, NULL) == ERR_EXHAUSTED) {
        (void)rpc_fail(call, err);
    }
}

/* ---- with the shard ---- */

/* A client that does not run any more would hold its gradient, and the answers that it does not
 * read, until its connection counts as lost. */
static void end(struct ps_stream *s)
{
    struct err err;
    bool drained = ps_drained(s->ps);
    (void)err_set(&err, drained ? ERR_UNAVAILABLE : ERR_NOT_FOUND,
                  drained ? "the server is shutting down" : "closed");
    (void)ps_shard_wrap(s->shard, &err);
    (void)rpc_abandon(s->call, &err);
}

static void run_begun(struct strand_task *task)
{
    struct ps_stream *s = (struct ps_stream *)((char *)task - offsetof(struct ps_stream, begun));
    struct ps_shard *shard = s->shard;
    if (shard->let_go) {
        end(s);
    } else {
        s->next = shard->streams;
        s->link = &shard->streams;
        if (s->next != NULL) {
            s->next->link = &s->next;
        }
        shard->streams = s;
    }
    ps_stream_unref(s);
}

void ps_stream_unlink(struct ps_stream *s)
{
    if (s->link == NULL) {
        return;
    }
    *s->link = s->next;
    if (s->next != NULL) {
        s->next->link = s->link;
    }
    s->link = NULL;
}

void ps_stream_begin(struct ps_stream *s)
{
    struct ps_shard *shard = ps_shard_ref(s->shard);
    ps_stream_ref(s);
    (void)strand_post(&shard->strand, &s->begun, run_begun);
    ps_shard_unref(shard);
}

void ps_streams_end(struct ps_shard *shard)
{
    while (shard->streams != NULL) {
        struct ps_stream *s = shard->streams;
        ps_stream_unlink(s);
        ps_stream_ref(s);
        end(s);
        ps_stream_unref(s);
    }
}
