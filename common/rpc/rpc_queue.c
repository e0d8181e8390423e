/* SPDX-License-Identifier: Apache-2.0 */
/* The messages that wait to be sent on one stream, first in, first out. Limited in bytes, but an
 * empty queue takes a message of any size. */
#include <stdlib.h>

#include "base/recycle.h"
#include "rpc/rpc_grpc.h"

static struct recycler items = RECYCLER(sizeof(struct rpc_queued), 1024);

bool rpc_queue_push(struct rpc_queue *q, grpc_byte_buffer *buffer)
{
    size_t bytes = grpc_byte_buffer_length(buffer);
    if (q->bytes > 0 && (q->bytes > q->bytes_max || bytes > q->bytes_max - q->bytes)) {
        return false;
    }
    struct rpc_queued *item = recycler_take(&items);
    *item = (struct rpc_queued){.buffer = buffer, .bytes = bytes};
    if (q->tail) {
        q->tail->next = item;
    } else {
        q->head = item;
    }
    q->tail = item;
    q->bytes += bytes;
    return true;
}

struct rpc_queued *rpc_queue_pop(struct rpc_queue *q)
{
    struct rpc_queued *item = q->head;
    if (item) {
        q->head = item->next;
        item->next = NULL;
        if (!q->head) {
            q->tail = NULL;
        }
    }
    return item;
}

struct rpc_queued *rpc_queue_clear(struct rpc_queue *q)
{
    struct rpc_queued *list = q->head;
    for (struct rpc_queued *i = list; i; i = i->next) {
        q->bytes -= i->bytes;
    }
    q->head = q->tail = NULL;
    return list;
}

void rpc_queued_free(struct rpc_queued *list)
{
    while (list) {
        struct rpc_queued *next = list->next;
        grpc_byte_buffer_destroy(list->buffer);
        recycler_give(&items, list);
        list = next;
    }
}
