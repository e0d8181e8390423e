/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.health.v1 for every server: one state for the server and each of its services. */
#include <stdlib.h>
#include <string.h>

#include <grpc/health/v1/health.pb-c.h>

#include "base/mem.h"
#include "rpc/rpc_server.h"

#define WATCHERS_MAX 1024 /* a watcher is a connection's long stream; more is a leak somewhere */

typedef Grpc__Health__V1__HealthCheckRequest health_request;
typedef Grpc__Health__V1__HealthCheckResponse health_response;

struct rpc_health {
    struct rpc_server *server;
    pthread_mutex_t lock;
    bool serving;
    struct rpc_call **watchers; /* of services that exist; owns a reference each */
    size_t count;
    size_t capacity;
};

static bool known(const struct rpc_health *h, const char *service)
{
    if (!*service) {
        return true;
    }
    for (size_t i = 0; i < h->server->service_count; i++) {
        if (strcmp(h->server->services[i].descriptor->name, service) == 0) {
            return true;
        }
    }
    return false;
}

static health_response response_of(bool serving)
{
    health_response r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    r.status = serving ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                       : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
    return r;
}

static void on_check(struct rpc_call *call, struct rpc_msg *msg, void *ctx)
{
    struct rpc_health *h = ctx;
    const health_request *request = (const health_request *)msg->body;
    if (!known(h, request->service)) {
        struct err err;
        err_set(&err, ERR_NOT_FOUND, "no service \"%.200s\" here", request->service);
        rpc_fail(call, &err);
        return;
    }
    pthread_mutex_lock(&h->lock);
    health_response response = response_of(h->serving);
    pthread_mutex_unlock(&h->lock);
    rpc_reply(call, &response.base, NULL);
}

static void on_watch(struct rpc_call *call, struct rpc_msg *msg, void *ctx)
{
    struct rpc_health *h = ctx;
    const health_request *request = (const health_request *)msg->body;
    if (!known(h, request->service)) { /* the stream stays open, as the protocol demands */
        health_response unknown = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
        unknown.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
        rpc_send(call, &unknown.base, NULL);
        return;
    }
    /* Sent under the lock, so that a watcher sees the changes in their order. */
    pthread_mutex_lock(&h->lock);
    bool full = h->count == WATCHERS_MAX;
    if (!full) {
        h->watchers = mem_grow(h->watchers, &h->capacity, h->count + 1, sizeof(struct rpc_call *));
        h->watchers[h->count++] = rpc_call_ref(call);
        health_response response = response_of(h->serving);
        rpc_send(call, &response.base, NULL);
    }
    pthread_mutex_unlock(&h->lock);
    if (full) {
        struct err err;
        err_set(&err, ERR_EXHAUSTED, "%d watchers already", WATCHERS_MAX);
        rpc_fail(call, &err);
    }
}

static void on_watch_done(struct rpc_call *call, bool cancelled, void *ctx)
{
    (void)cancelled;
    struct rpc_health *h = ctx;
    struct rpc_call *found = NULL;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->count && !found; i++) {
        if (h->watchers[i] == call) {
            found = call;
            h->watchers[i] = h->watchers[--h->count];
        }
    }
    pthread_mutex_unlock(&h->lock);
    rpc_call_unref(found);
}

static const struct rpc_method methods[] = {
    {.name = "Check", .request = on_check},
    {.name = "Watch", .request = on_watch, .done = on_watch_done, .flags = RPC_END_ON_STOP},
};

struct rpc_health *rpc_health_new(void)
{
    struct rpc_health *h = mem_new(1, sizeof(*h));
    pthread_mutex_init(&h->lock, NULL);
    return h;
}

void rpc_health_free(struct rpc_health *h)
{
    pthread_mutex_destroy(&h->lock);
    free(h->watchers);
    free(h);
}

int rpc_health_add(struct rpc_health *h, struct rpc_server *s, struct err *err)
{
    h->server = s;
    return rpc_server_add(s, &grpc__health__v1__health__descriptor, methods,
                          sizeof(methods) / sizeof(methods[0]), h, err);
}

void rpc_health_set(struct rpc_health *h, bool serving)
{
    pthread_mutex_lock(&h->lock);
    bool changed = h->serving != serving;
    h->serving = serving;
    health_response response = response_of(serving);
    for (size_t i = 0; changed && i < h->count; i++) {
        rpc_send(h->watchers[i], &response.base, NULL);
    }
    pthread_mutex_unlock(&h->lock);
}
