/* SPDX-License-Identifier: Apache-2.0 */
/* Channels and streams to the shards: made, opened again, cancelled, freed. */
#include "worker/ps_client/ps_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "host/local_socket.h"
#include "worker/ps_client/ps_client_state.h"

/* ---- connections ---- */

static bool find_local(const struct shard_link *link, char path[LOCAL_SOCKET_BYTES])
{
    const char *dir = link->client->local_sockets;
    return dir != NULL && local_socket_path(dir, link->address, path, NULL) == 0 &&
           local_socket_answers(path);
}

/* Notes whether the server is on this host: a socket of its own is there, or its address is one
 * that no other host has. */
static void note_nearness(struct shard_link *link, bool near)
{
    if (link->near != near) {
        link->near = near;
        rpc_polling_neighbour(link->client->polling, near);
    }
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0 ||
           strncmp(address, "localhost:", 10) == 0;
}

static int link_connect(struct shard_link *link, struct err *err)
{
    char path[LOCAL_SOCKET_BYTES];
    bool local = find_local(link, path);
    char *target = local ? mem_printf("unix:%s", path) : mem_strdup(link->address);
    struct rpc_channel_options options = {
        .target = target,
        .loop = link->client->rpc_loop,
        .message_bytes_max = link->client->message_bytes_max,
        .own_connection = true,
        .credentials = link->client->credentials,
    };
    struct rpc_channel *channel = rpc_channel_new(&options, err);
    free(target);
    if (channel == NULL) {
        return err->code != 0 ? err->code : ERR_INVALID;
    }
    pthread_mutex_lock(&link->mutex);
    struct rpc_channel *old = link->channel;
    link->channel = channel;
    link->local = local;
    bool cancelled = link->cancelled;
    pthread_mutex_unlock(&link->mutex);
    note_nearness(link, local || is_loopback(link->address));
    if (cancelled) {
        rpc_channel_cancel(channel);
    }
    rpc_channel_free(old);
    return 0;
}

/* Connects a link anew when the server's local socket has come or gone: a server that was started
 * again may have another one. */
static void link_reconnect(struct shard_link *link)
{
    char path[LOCAL_SOCKET_BYTES];
    struct err err;
    if (link->local != find_local(link, path)) {
        /* a failure leaves the old channel, whose calls then say why */
        (void)link_connect(link, &err);
    }
}

/* ---- memory that is shared ---- */

/* Blocks hold floats. Values that travel in 16 bits go in messages, so they have the same bits on
 * every way. */
static void shared_memory_begin(struct shard_link *link)
{
    const struct ps_client *c = link->client;
    bool plain = c->gradients == VALUE_FP32 && c->parameters == VALUE_FP32;
    if (!link->local || !c->shared_memory || !plain) {
        return;
    }
    if (link->elements * sizeof(float) >= PS_CLIENT_SHARED_MEMORY_FROM_BYTES) {
        /* on failure values go in messages */
        (void)shared_memory_new(link->elements, &link->shared_memory, NULL);
    }
    if (c->tables > 0) {
        /* rows that do not fit into memory need a message of their own, however small */
        const uint64_t floats = PS_CLIENT_ROWS_BLOCK_BYTES / sizeof(float);
        (void)shared_memory_new(floats, &link->tables_memory, NULL);
    }
}

/* Called after the stream's last callback, so its blocks may be freed. */
static void shared_memory_end(struct shard_link *link)
{
    shared_memory_unref(link->shared_memory);
    shared_memory_unref(link->tables_memory);
    link->shared_memory = NULL;
    link->tables_memory = NULL;
    link->shared_memory_offered = link->tables_memory_offered = false;
    link->shared_memory_open = link->tables_memory_open = false;
}

/* ---- one exchange ---- */

static int link_open(struct shard_link *link, struct err *err)
{
    if (link->channel == NULL) {
        return err_set(err, ERR_UNAVAILABLE, "shard %" PRIu32 ": nobody has said where it is",
                       link->shard);
    }
    pthread_mutex_lock(&link->mutex);
    struct rpc_stream *old = link->broken ? link->stream : NULL;
    if (old != NULL) {
        link->stream = NULL;
    }
    link->broken = false;
    pthread_mutex_unlock(&link->mutex);
    if (old != NULL) {
        rpc_stream_free(old);
        shared_memory_end(link);
        link_reconnect(link);
    }
    if (link->stream != NULL) {
        return 0;
    }
    const struct rpc_header key = {.key = SHARD_KEY_HEADER, .value = link->key};
    struct rpc_request request = {
        .service = &gradus__v1__parameter_server__descriptor,
        .method = "Exchange",
        .request_bulk = PS_CLIENT_VALUES_FIELD,
        .response_bulk = PS_CLIENT_VALUES_FIELD,
        .headers = &key,
        .header_count = link->key[0] != '\0' ? 1 : 0,
    };
    shared_memory_begin(link);
    link->stream = rpc_stream_open(link->channel, &request, &ps_client_events, link, err);
    if (link->stream == NULL) {
        shared_memory_end(link);
    }
    return link->stream == NULL ? (err->code != 0 ? err->code : ERR_UNAVAILABLE) : 0;
}

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
    int rc = link_open(link, &err);
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

/* ---- life ---- */

static void link_init(struct shard_link *link, struct ps_client *c, uint32_t shard,
                      const struct ps_client_options *o)
{
    link->client = c;
    link->shard = shard;
    link->open_end = &link->open;
    link->answered_end = &link->answered;
    link->partitions = plan_shard(o->plan, shard, &link->partition_count);
    link->pieces = mem_new(link->partition_count, sizeof *link->pieces);
    link->variable_ends = mem_new(o->plan->variable_count, sizeof *link->variable_ends);
    for (size_t i = 0; i < link->partition_count; i++) {
        const struct partition *p = &link->partitions[i];
        /* the parts of a variable in a shard lie in a row */
        link->variable_ends[p->variable] = p->offset + p->count;
    }
    link->elements = o->plan->shard_elements[shard];
}

/* Closes the stream of a link. When it returns, all open exchanges are answered, and no callback
 * comes any more. */
static void link_leave(struct shard_link *link)
{
    pthread_mutex_lock(&link->mutex);
    struct rpc_channel *channel = link->channel;
    note_nearness(link, false);
    link->channel = NULL; /* no other thread cancels the channel from now on */
    pthread_mutex_unlock(&link->mutex);
    if (link->stream != NULL) {
        rpc_stream_free(link->stream);
        link->stream = NULL;
    }
    rpc_channel_free(channel);
    shared_memory_end(link);
    link->broken = false;
}

int ps_client_place(struct ps_client *c, uint32_t shard, const struct ps_client_place *place,
                    struct err *err)
{
    struct shard_link *link = &c->links[shard];
    if (link->address != NULL && link->opening == place->opening &&
        strcmp(link->address, place->address) == 0) {
        return 0;
    }
    link_leave(link);
    free(link->address);
    link->address = mem_strdup(place->address);
    link->opening = place->opening;
    shard_key(c->secret, c->job, shard, link->opening, link->key);
    return link_connect(link, err);
}

int ps_client_new(const struct ps_client_options *o, struct ps_client **out, struct err *err)
{
    struct err local = {0};
    struct ps_client *c = mem_new(1, sizeof *c);
    c->job = mem_strdup(o->job);
    c->worker = mem_strdup(o->worker);
    c->plan = o->plan;
    c->variable_offsets = o->variable_offsets;
    c->message_bytes_max = o->message_bytes_max;
    c->exchanges_max = o->exchanges_max;
    c->gradients_max = o->gradients_max;
    c->tables = o->tables;
    ps_client_rows_init(c);
    c->sending = mem_new(o->gradients_max, sizeof *c->sending);
    c->gradients = o->gradients;
    c->parameters = o->parameters;
    c->credentials = o->credentials;
    if (o->secret != NULL) {
        memcpy(c->secret, o->secret, sizeof c->secret);
    }
    c->local_sockets = o->local_sockets;
    c->shared_memory = o->shared_memory;
    c->trace = o->trace;
    c->polling = o->polling;
    c->loop = o->loop;
    c->answered = o->answered;
    c->filled = o->filled;
    c->ctx = o->ctx;
    pthread_mutex_init(&c->sending_mutex, NULL);
    pthread_cond_init(&c->sending_cond, NULL);
    c->rpc_loop = rpc_loop_new(o->polling, &local);
    c->links = mem_new(o->plan->shard_count, sizeof *c->links);
    c->link_count = o->plan->shard_count;
    for (uint32_t s = 0; s < c->link_count; s++) {
        pthread_mutex_init(&c->links[s].mutex, NULL);
        ps_client_tail_init(&c->links[s]);
        link_init(&c->links[s], c, s, o);
    }
    if (c->rpc_loop == NULL) {
        ps_client_close(c);
        ps_client_free(c);
        return err_set(err, local.code, "%s", local.msg);
    }
    ps_client_poll_begin(c);
    *out = c;
    return 0;
}

void ps_client_cancel(struct ps_client *c)
{
    for (uint32_t s = 0; s < c->link_count; s++) {
        struct shard_link *link = &c->links[s];
        pthread_mutex_lock(&link->mutex);
        link->cancelled = true;
        if (link->channel != NULL) {
            rpc_channel_cancel(link->channel);
        }
        pthread_cond_broadcast(&link->landed);
        pthread_mutex_unlock(&link->mutex);
    }
}

void ps_client_close(struct ps_client *c)
{
    if (c->rpc_loop != NULL) {
        ps_client_poll_end(c);
    }
    for (uint32_t s = 0; s < c->link_count; s++) {
        struct shard_link *link = &c->links[s];
        note_nearness(link, false);
        if (link->stream != NULL) {
            rpc_stream_free(link->stream);
            link->stream = NULL;
        }
        if (link->channel != NULL) {
            rpc_channel_free(link->channel);
            link->channel = NULL;
        }
    }
    ps_client_wait_all_sent(c);
    if (c->rpc_loop != NULL) {
        rpc_loop_free(c->rpc_loop);
        c->rpc_loop = NULL;
    }
    for (uint32_t s = 0; s < c->link_count; s++) {
        shared_memory_end(&c->links[s]); /* until here callbacks could still answer */
    }
}

void ps_client_free(struct ps_client *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t s = 0; s < c->link_count; s++) {
        ps_client_pending_release(&c->links[s]);
        free(c->links[s].address);
        free(c->links[s].pieces);
        free(c->links[s].variable_ends);
        ps_client_tail_release(&c->links[s]);
        pthread_mutex_destroy(&c->links[s].mutex);
    }
    ps_client_rows_release(c);
    free(c->links);
    free(c->sending);
    ps_client_staged_release(c);
    pthread_mutex_destroy(&c->sending_mutex);
    pthread_cond_destroy(&c->sending_cond);
    free(c->job);
    free(c->worker);
    free(c);
}
