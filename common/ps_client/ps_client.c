/* SPDX-License-Identifier: Apache-2.0 */
/* The client: made with a link for each shard, told where they are, cancelled, closed, freed. */
#include "ps_client/ps_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps_client/ps_client_state.h"

int ps_client_place(struct ps_client *c, uint32_t shard, const struct ps_client_place *place,
                    struct err *err)
{
    struct shard_link *link = &c->links[shard];
    if (link->address != NULL && link->opening == place->opening &&
        strcmp(link->address, place->address) == 0) {
        return 0;
    }
    ps_client_link_leave(link);
    free(link->address);
    link->address = mem_strdup(place->address);
    link->opening = place->opening;
    shard_key(c->secret, c->job, shard, link->opening, link->key);
    return ps_client_link_connect(link, err);
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
        ps_client_link_init(&c->links[s], c, s, o);
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
        ps_client_link_close(&c->links[s]);
    }
    ps_client_wait_all_sent(c);
    if (c->rpc_loop != NULL) {
        rpc_loop_free(c->rpc_loop);
        c->rpc_loop = NULL;
    }
    for (uint32_t s = 0; s < c->link_count; s++) {
        ps_client_link_drop_memory(&c->links[s]); /* until here callbacks could still answer */
    }
}

void ps_client_free(struct ps_client *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t s = 0; s < c->link_count; s++) {
        ps_client_link_release(&c->links[s]);
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
