/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks of a stream of exchanges that are not messages: its beginning and its end. */
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_stream.h"

/* There is memory for the gradient whose message waits: the stream reads on. */
static void go_on(struct gradient_wait *w)
{
    struct ps_stream *s = (struct ps_stream *)((char *)w - offsetof(struct ps_stream, waiter));
    rpc_resume(s->call);
    ps_stream_unref(s);
}

static bool is_near(const char *peer)
{
    return strncmp(peer, "unix:", 5) == 0 || strncmp(peer, "ipv4:127.", 9) == 0 ||
           strncmp(peer, "ipv6:[::1]", 10) == 0 || strncmp(peer, "ipv6:%5B::1%5D", 14) == 0;
}

void ps_stream_open(struct rpc_call *call, void *service)
{
    struct ps_stream *s = mem_new(1, sizeof *s);
    atomic_store(&s->refs, 1);
    s->ps = service;
    s->call = rpc_call_ref(call);
    s->waiter.ready = go_on;
    s->near = is_near(rpc_peer(call));
    if (s->near) {
        rpc_polling_neighbour(s->ps->polling, true);
    }
    rpc_set_data(call, s);
}

/* ---- the end ---- */

static void run_half_close(struct strand_task *task)
{
    struct ps_stream *s =
        (struct ps_stream *)((char *)task - offsetof(struct ps_stream, half_close));
    s->half_closed = true;
    if (s->waiting == NULL) {
        (void)rpc_finish(s->call);
    }
    ps_stream_unref(s);
}

/* The client sends no more, but what it asked for is still answered. */
void ps_stream_half_close(struct rpc_call *call, void *service)
{
    (void)service;
    struct ps_stream *s = rpc_data(call);
    if (s->shard == NULL) {
        (void)rpc_finish(call);
        return;
    }
    struct ps_shard *shard = ps_shard_ref(s->shard);
    ps_stream_ref(s);
    (void)strand_post(&shard->strand, &s->half_close, run_half_close);
    ps_shard_unref(shard);
}

static void run_gone(struct strand_task *task)
{
    struct ps_stream *s = (struct ps_stream *)((char *)task - offsetof(struct ps_stream, gone));
    ps_stream_unlink(s);
    while (s->waiting != NULL) {
        ps_request_drop(s->waiting);
    }
    ps_stream_unref(s);
}

void ps_stream_done(struct rpc_call *call, bool cancelled, void *service)
{
    (void)cancelled;
    (void)service;
    struct ps_stream *s = rpc_data(call);
    rpc_set_data(call, NULL);
    if (s->near) {
        rpc_polling_neighbour(s->ps->polling, false);
    }
    if (gradient_wait_cancel(&s->waiter)) {
        ps_stream_unref(s);
    }
    while (s->incoming_count > 0) {
        ps_stream_remove(s, &s->incoming[s->incoming_count - 1]);
    }
    if (s->shard == NULL) {
        ps_stream_unref(s);
        return;
    }
    struct ps_shard *shard = ps_shard_ref(s->shard);
    (void)strand_post(&shard->strand, &s->gone, run_gone);
    ps_shard_unref(shard);
}
