/* SPDX-License-Identifier: Apache-2.0 */
/* One message to a shard, when there is room for it. */
#include "ps_client/ps_client_state.h"

/* A server that has no room for gradients reads no further until it has; one that is gone ends the
 * stream. */
#define SEND_WAIT_MS 0

/* Room for what follows. */
int ps_client_wait_writable(struct shard_link *link, struct err *err)
{
    ps_client_stop_polling(link->client);
    return rpc_stream_wait_writable(link->stream, SEND_WAIT_MS, err);
}

int ps_client_send_one(struct shard_link *link, const Gradus__V1__ExchangeRequest *message,
                       const struct rpc_blob *blob, struct err *err)
{
    int rc = rpc_stream_send(link->stream, &message->base, blob, err);
    while (rc == ERR_EXHAUSTED) {
        rc = ps_client_wait_writable(link, err);
        if (rc == 0) {
            rc = rpc_stream_send(link->stream, &message->base, blob, err);
        }
    }
    return rc;
}

/* Removes what only the first message of an exchange says. */
void ps_client_strip(Gradus__V1__ExchangeRequest *message)
{
    message->shard = NULL;
    message->what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT__NOT_SET;
    message->training = NULL;
    message->shared_memory = NULL;
    message->values_block = 0;
    message->tables_bytes = 0;
    message->tables_memory = NULL;
    message->tables_block = 0;
    message->rows_block = 0;
}
