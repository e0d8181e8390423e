/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes that leave in parts, while the gradient is made. Backward makes it from the last layer to
 * the first, and a shard's elements lie in the order of the layers: so the made part and the sent
 * part are each one number, the first element of it. Variables that are made in another order are
 * sent at the end. */
#include "os/chrono.h"
#include "ps_client/ps_client_state.h"

#define PART_ELEMENTS_MIN (PS_CLIENT_PART_BYTES_MIN / sizeof(float))
#define PART_ELEMENTS_MAX (PS_CLIENT_CHUNK_BYTES / sizeof(float))

/* True if the gradient is sent as a whole: no part would be large enough to leave before the rest,
 * or it goes through memory, or is rounded first. */
static bool goes_whole(struct shard_link *link)
{
    pthread_mutex_lock(&link->mutex);
    bool open = link->shared_memory_open;
    pthread_mutex_unlock(&link->mutex);
    return open || link->elements <= PART_ELEMENTS_MIN || link->client->gradients != VALUE_FP32;
}

bool ps_client_begin(struct ps_client *c, const struct ps_client_request *request)
{
    struct shard_link *link = &c->links[request->shard];
    struct parts *p = &link->parts;
    if (p->open || request->gradient == NULL) {
        return false;
    }
    *p = (struct parts){
        .whole = goes_whole(link),
        .request = *request,
        .partition = link->partition_count,
        .made = link->elements,
        .sent = link->elements,
    };
    p->pending = p->whole ? NULL : ps_client_open(link, request);
    p->open = p->whole || p->pending != NULL;
    return true;
}

/* Send what is made and was not sent. A stream that takes no more is over, or must be: it holds
 * half a request. */
static void send_made(struct shard_link *link, bool waits)
{
    struct parts *p = &link->parts;
    struct err err;
    int rc = 0;
    while (p->sent > p->made && rc == 0) {
        uint64_t n = p->sent - p->made;
        uint64_t first = p->sent - (n < PART_ELEMENTS_MAX ? n : PART_ELEMENTS_MAX);
        rc = ps_client_send_part(link, first, p->sent, waits, &err);
        if (rc == 0) {
            p->begun = true;
            p->sent = first;
        }
    }
    if (rc != 0 && (waits || rc != ERR_EXHAUSTED)) {
        rpc_stream_cancel(link->stream);
        p->open = false;
    }
}

/* Moves the beginning of the made part down, as far as this variable allows. */
static void extend(struct shard_link *link, size_t variable, uint64_t first, uint64_t count)
{
    struct parts *p = &link->parts;
    while (p->partition > 0) {
        const struct partition *at = &link->partitions[p->partition - 1];
        uint64_t end = at->first + (p->made - at->offset); /* in the variable */
        if (at->variable != variable || end <= first || end > first + count) {
            return;
        }
        uint64_t begin = first > at->first ? first : at->first;
        p->made = at->offset + (begin - at->first);
        if (begin > at->first) {
            return;
        }
        p->partition--;
    }
}

void ps_client_made(struct ps_client *c, size_t variable, uint64_t first, uint64_t count)
{
    for (uint32_t s = 0; s < c->link_count; s++) {
        struct shard_link *link = &c->links[s];
        if (!link->parts.open || link->parts.whole) {
            continue;
        }
        extend(link, variable, first, count);
        if (link->parts.sent - link->parts.made >= PART_ELEMENTS_MIN) {
            send_made(link, false);
        }
    }
}

/* First what finds room: a server without any must not keep half a push at another one. */
void ps_client_made_all(struct ps_client *c)
{
    for (uint32_t s = 0; s < c->link_count; s++) {
        struct parts *p = &c->links[s].parts;
        if (p->open && !p->whole) {
            p->made = 0;
            send_made(&c->links[s], false);
        }
    }
    for (uint32_t s = 0; s < c->link_count; s++) {
        struct parts *p = &c->links[s].parts;
        if (p->open && p->whole) {
            ps_client_exchange(c, &p->request);
        } else if (p->open) {
            send_made(&c->links[s], true);
            p->pending->answer.sent_ns = chrono_now_ns();
        }
        p->open = false;
    }
}
