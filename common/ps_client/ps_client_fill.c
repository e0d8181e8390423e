/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values on their way to the shards: one unary call for each part, beside the streams. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "ps_client/ps_client_state.h"

/* On the loop: delivers the answer of the link's call. */
static void deliver(void *ctx)
{
    struct shard_link *link = ctx;
    struct ps_client *c = link->client;
    if (!loop_discarding(c->loop)) {
        const struct ps_client_filled answer = link->filled;
        link->filling = false;
        c->filled(c->ctx, &answer);
    }
}

/* The channel's thread: there is one call at a time, and its answer is delivered before the next.
 */
static void on_filled(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct shard_link *link = ctx;
    link->filled = (struct ps_client_filled){.shard = link->shard, .code = status->err.code};
    if (status->err.code == 0) {
        link->filled.filled = ((const Gradus__V1__FillResponse *)reply->body)->filled;
    } else {
        text_copy(link->filled.message, sizeof link->filled.message, status->err.msg);
    }
    (void)loop_post(link->client->loop, deliver, link, NULL); /* or the job is over */
}

int ps_client_fill(struct ps_client *c, const struct ps_client_given *given, struct err *err)
{
    struct shard_link *link = &c->links[given->shard];
    if (link->channel == NULL || link->filling) {
        return err_set(err, ERR_UNAVAILABLE, "%s",
                       link->filling ? "another part is under way" : "nobody has said where it is");
    }
    Gradus__V1__ShardRef shard = GRADUS__V1__SHARD_REF__INIT;
    shard.job = c->job;
    shard.shard = link->shard;
    shard.generation = given->generation;
    shard.opening = link->opening;
    Gradus__V1__FillRequest q = GRADUS__V1__FILL_REQUEST__INIT;
    q.shard = &shard;
    q.worker = c->worker;
    q.first = given->first;
    const struct rpc_blob blob = {
        .pieces = link->pieces,
        .piece_count =
            ps_client_gather(link, given->first, given->count, given->values, link->pieces),
    };
    const struct rpc_header key = {.key = SHARD_KEY_HEADER, .value = link->key};
    const struct rpc_request request = {
        .service = &gradus__v1__parameter_server__descriptor,
        .method = "Fill",
        .body = &q.base,
        .blob = given->count > 0 ? &blob : NULL, /* copied */
        .request_bulk = PS_CLIENT_VALUES_FIELD,
        .headers = &key,
        .header_count = link->key[0] != '\0' ? 1 : 0,
    };
    link->filling = true;
    int rc = rpc_call_start(link->channel, &request, on_filled, link, err);
    link->filling = rc == 0;
    return rc;
}
