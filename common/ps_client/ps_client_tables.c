/* SPDX-License-Identifier: Apache-2.0 */
/* What a request says of tables: keys, and the gradients of rows; in messages, or in memory that
 * the server shares. */
#include "base/mem.h"
#include "ps_client/ps_client_state.h"

/* Sends @pieces in messages; they are copied. The first goes with @message, even if there are none.
 * @each: bytes of one item that offsets count. */
static int send_copied(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                       struct rpc_piece *pieces, size_t count, size_t each, struct err *err)
{
    uint64_t at = 0;
    int rc = 0;
    while (count > 0 && rc == 0) {
        struct rpc_piece sent[2];
        uint64_t room = PS_CLIENT_CHUNK_BYTES;
        size_t n = 0;
        message->offset = at / each;
        while (count > 0 && room > 0 && n < sizeof sent / sizeof sent[0]) {
            const size_t bytes = pieces->bytes < room ? pieces->bytes : room;
            sent[n++] = (struct rpc_piece){pieces->data, bytes};
            pieces->data = (const unsigned char *)pieces->data + bytes;
            pieces->bytes -= bytes;
            at += bytes;
            room -= bytes;
            if (pieces->bytes == 0) {
                pieces++;
                count--;
            }
        }
        const struct rpc_blob blob = {.pieces = sent, .piece_count = n};
        rc = ps_client_send_one(link, message, &blob, err);
        ps_client_strip(message);
    }
    return rc;
}

int ps_client_send_keys(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                        const struct ps_client_request *r, struct err *err)
{
    struct rpc_piece keys = {r->rows.keys, r->rows.count * sizeof *r->rows.keys};
    return send_copied(link, message, &keys, 1, sizeof *r->rows.keys, err);
}

/* Returns how many. */
static size_t find_pieces(const struct ps_client_request *r, struct rpc_piece pieces[2])
{
    size_t n = 0;
    if (r->ask.has_push && r->tables_bytes > 0) {
        pieces[n++] = (struct rpc_piece){r->tables, r->tables_bytes};
    }
    if (r->ask.has_pull && r->rows.count > 0) {
        pieces[n++] = (struct rpc_piece){r->rows.keys, r->rows.count * sizeof *r->rows.keys};
    }
    return n;
}

bool ps_client_fill_tables(struct shard_link *link, const struct ps_client_request *r,
                           Gradus__V1__ExchangeRequest *message)
{
    struct rpc_piece pieces[2];
    const size_t n = find_pieces(r, pieces);
    uint64_t bytes = 0;
    pthread_mutex_lock(&link->mutex);
    const bool open = link->tables_memory_open;
    pthread_mutex_unlock(&link->mutex);
    for (size_t i = 0; i < n; i++) {
        bytes += pieces[i].bytes;
    }
    if (!open || bytes == 0) {
        return false;
    }
    const uint64_t floats = (bytes + sizeof(float) - 1) / sizeof(float);
    const uint32_t block = shared_memory_take_gradient_of(link->tables_memory, floats);
    if (block == SHARED_MEMORY_NONE) {
        return false;
    }
    char *to = (char *)shared_memory_gradient(link->tables_memory, block);
    for (size_t i = 0; i < n; i++) {
        mem_copy(to, pieces[i].data, pieces[i].bytes);
        to += pieces[i].bytes;
    }
    message->tables_block = block + 1;
    return true;
}

int ps_client_send_tables(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                          const struct ps_client_request *r, struct err *err)
{
    struct rpc_piece pieces[2];
    const size_t n = find_pieces(r, pieces);
    ps_client_strip(message);
    message->gradient_block = 0;
    message->of_tables = true;
    return send_copied(link, message, pieces, n, 1, err);
}
