/* SPDX-License-Identifier: Apache-2.0 */
/* The way to one shard: its channel, its stream and the memory that both ends share; made, and made
 * again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/local_socket.h"
#include "ps_client/ps_client_state.h"

void ps_client_link_init(struct shard_link *link, struct ps_client *c, uint32_t shard,
                         const struct ps_client_options *o)
{
    pthread_mutex_init(&link->mutex, NULL);
    ps_client_tail_init(link);
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

int ps_client_link_connect(struct shard_link *link, struct err *err)
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
        (void)ps_client_link_connect(link, &err);
    }
}

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

void ps_client_link_drop_memory(struct shard_link *link)
{
    shared_memory_unref(link->shared_memory);
    shared_memory_unref(link->tables_memory);
    link->shared_memory = NULL;
    link->tables_memory = NULL;
    link->shared_memory_offered = link->tables_memory_offered = false;
    link->shared_memory_open = link->tables_memory_open = false;
}

int ps_client_link_open(struct shard_link *link, struct err *err)
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
        ps_client_link_drop_memory(link);
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
        ps_client_link_drop_memory(link);
    }
    return link->stream == NULL ? (err->code != 0 ? err->code : ERR_UNAVAILABLE) : 0;
}

void ps_client_link_leave(struct shard_link *link)
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
    ps_client_link_drop_memory(link);
    link->broken = false;
}

void ps_client_link_close(struct shard_link *link)
{
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

void ps_client_link_release(struct shard_link *link)
{
    ps_client_pending_release(link);
    free(link->address);
    free(link->pieces);
    free(link->variable_ends);
    ps_client_tail_release(link);
    pthread_mutex_destroy(&link->mutex);
}
