/* SPDX-License-Identifier: Apache-2.0 */
/* Begins exchanges. */
#include <inttypes.h>
#include <stdio.h>

#include "os/chrono.h"
#include "ps_client/ps_client_state.h"

static void answer_full(struct ps_client *c, const struct ps_client_request *request)
{
    struct ps_answer full = {.exchange = request->exchange,
                             .shard = request->shard,
                             .code = ERR_EXHAUSTED,
                             .answer = {.kind = request->ask.kind}};
    (void)snprintf(full.message, sizeof full.message,
                   "shard %" PRIu32 ": %zu exchanges are open already", request->shard,
                   c->exchanges_max);
    if (request->ask.kind == EXCHANGE_ROWS) {
        ps_client_rows_over(c, full.code, full.message);
    } else {
        c->answered(c->ctx, &full);
    }
}

struct pending *ps_client_open(struct shard_link *link, const struct ps_client_request *request)
{
    struct err err = {0};
    int rc = ps_client_link_open(link, &err);
    pthread_mutex_lock(&link->mutex);
    struct pending *p = ps_client_pending_take(link, request);
    bool full = p == NULL;
    bool send = !full && rc == 0 && !link->broken;
    bool due = !full && !send &&
               ps_client_answer_error(link, p, ERR_UNAVAILABLE,
                                      rc != 0 ? err.msg : "the stream was closed");
    pthread_mutex_unlock(&link->mutex);
    if (due) {
        ps_client_deliver(link);
    } else if (full) {
        answer_full(link->client, request);
    }
    return send ? p : NULL;
}

void ps_client_exchange(struct ps_client *c, const struct ps_client_request *request)
{
    struct shard_link *link = &c->links[request->shard];
    struct err err;
    struct pending *p = ps_client_open(link, request);
    if (p == NULL) {
        return;
    }
    const struct ps_client_blocks blocks = {p->block, p->rows_block};
    if (ps_client_send(link, request, &blocks, &err) != 0) {
        /* The stream takes no more: it may hold half a request, so it is cancelled. */
        rpc_stream_cancel(link->stream);
    }
    /* whether or not an answer has come: this thread has not heard of it */
    p->answer.sent_ns = chrono_now_ns();
}
