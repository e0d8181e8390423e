/* SPDX-License-Identifier: Apache-2.0 */
/* Open exchanges: taken when they are asked, ended when they are answered, handed to the job's
 * loop. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"
#include "ps_client/ps_client_state.h"

/* The block in which the rows that it asks for are to come. */
static uint32_t take_rows_block(struct shard_link *link, const struct ps_client_request *request)
{
    const bool asks = request->ask.kind == EXCHANGE_ROWS || request->ask.has_pull;
    return asks && request->rows.count > 0 && link->tables_memory_open
               ? shared_memory_take_values_of(link->tables_memory, request->rows.floats)
               : SHARED_MEMORY_NONE;
}

struct pending *ps_client_pending_take(struct shard_link *link,
                                       const struct ps_client_request *request)
{
    const bool rows = request->ask.kind == EXCHANGE_ROWS;
    float *values = rows ? request->rows.values : request->values;
    if (link->pending_count == link->client->exchanges_max) {
        return NULL;
    }
    ps_client_tail_detach(link, values);
    struct pending *p = link->spare;
    if (p != NULL) {
        link->spare = p->next;
    } else {
        p = mem_new(1, sizeof *p);
    }
    uint8_t *decision = p->decision;
    struct buf sums = p->sums;
    size_t capacity = p->decision_capacity;
    uint64_t now_ns = chrono_now_ns();
    const struct exchange_request *ask = &request->ask;
    *p = (struct pending){
        .values = values,
        .block = values != NULL && !rows && link->shared_memory_open
                     ? shared_memory_take_values(link->shared_memory)
                     : SHARED_MEMORY_NONE,
        .rows_block = take_rows_block(link, request),
        .type = ps_client_pull_type(link->client, ask),
        .ask = *ask,
        .early = request->early,
        .rows = rows,
        .expected = rows ? request->rows.floats : link->elements,
        .along = !rows && ask->has_pull && request->rows.count > 0 ? request->rows.values : NULL,
        .along_expected = request->rows.floats,
        .answer = {.exchange = request->exchange,
                   .shard = link->shard,
                   .begun_ns = now_ns,
                   .sent_ns = now_ns, /* until all of it is */
                   .batches = ask->has_push && ask->push.replica_first == ask->push.replica_end,
                   .answer = {.kind = ask->kind}},
        .decision = decision,
        .decision_capacity = capacity,
        .sums = sums,
    };
    *link->open_end = p;
    link->open_end = &p->next;
    link->pending_count++;
    return p;
}

struct pending *ps_client_pending_find(struct shard_link *link, uint64_t exchange)
{
    struct pending *p = link->open;
    while (p != NULL && p->answer.exchange != exchange) {
        p = p->next;
    }
    return p;
}

static void pending_free_list(struct pending *p)
{
    while (p != NULL) {
        struct pending *next = p->next;
        free(p->decision);
        buf_release(&p->sums);
        free(p);
        p = next;
    }
}

void ps_client_pending_release(struct shard_link *link)
{
    pending_free_list(link->open);
    pending_free_list(link->answered);
    pending_free_list(link->spare);
}

/* Delivers all answers that have come, in order, by one message. */
static void deliver(void *ctx)
{
    struct shard_link *link = ctx;
    struct ps_client *c = link->client;
    pthread_mutex_lock(&link->mutex);
    struct pending *answered = link->answered;
    link->answered = NULL;
    link->answered_end = &link->answered;
    link->posted = false;
    pthread_mutex_unlock(&link->mutex);
    while (answered != NULL) {
        struct pending *p = answered;
        answered = p->next;
        pthread_mutex_lock(&link->mutex);
        link->pending_count--; /* the callback may open the next exchange */
        pthread_mutex_unlock(&link->mutex);
        if (!loop_discarding(c->loop)) {
            c->answered(c->ctx, &p->answer);
        }
        pthread_mutex_lock(&link->mutex);
        p->next = link->spare;
        link->spare = p;
        pthread_mutex_unlock(&link->mutex);
    }
}

/* Delivers answers, without the link's mutex, which the message takes at once. The mailbox cannot
 * be full: it holds more messages than there are shards. When the loop has ended nobody waits for
 * the answer. */
void ps_client_deliver(struct shard_link *link)
{
    if (loop_post(link->client->loop, deliver, link, NULL) != 0) {
        pthread_mutex_lock(&link->mutex);
        link->posted = false;
        pthread_mutex_unlock(&link->mutex);
    }
}

bool ps_client_answer(struct shard_link *link, struct pending *p)
{
    struct pending **at = &link->open;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    if (p->next == NULL) {
        link->open_end = at;
    }
    p->next = NULL;
    if (p->block != SHARED_MEMORY_NONE) {
        shared_memory_return_values(link->shared_memory, p->block);
        p->block = SHARED_MEMORY_NONE;
    }
    if (p->rows_block != SHARED_MEMORY_NONE) {
        shared_memory_return_values(link->tables_memory, p->rows_block);
        p->rows_block = SHARED_MEMORY_NONE;
    }
    if (p->tail) {
        ps_client_tail_end(link, p);
        return false;
    }
    if (p->rows) {
        if (!p->detached) {
            ps_client_rows_over(link->client, p->answer.code, p->answer.message);
        }
        link->pending_count--;
        p->next = link->spare;
        link->spare = p;
        return false;
    }
    *link->answered_end = p;
    link->answered_end = &p->next;
    bool due = !link->posted;
    link->posted = true;
    return due;
}

bool ps_client_answer_error(struct shard_link *link, struct pending *p, int code,
                            const char *message)
{
    p->answer.code = code == 0 ? ERR_INTERNAL : code;
    text_copy(p->answer.message, sizeof p->answer.message, message);
    return ps_client_answer(link, p);
}
