/* SPDX-License-Identifier: Apache-2.0 */
/* The client's connection to one server, and what all kinds of calls on it share: headers, the
 * outcome as our error, cancelling. The calls themselves are in rpc_unary.c and rpc_stream.c. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "rpc/rpc_client.h"
#include "rpc/rpc_status.h"

/* A node that restarts is back within seconds; gRPC's defaults of 1 s to 2 min are for the web.
 * Whoever begins to listen is found within BACKOFF_MS_MAX and a fifth, as long as no attempt hangs.
 *
 * CONNECT_MS_MAX is for a connection and its HTTP/2 settings. A host that is gone answers nothing,
 * and its name may have another address by now, which is asked for when the attempt is over. The
 * handshake of TLS is work for both sides, and machines without a processor to spare need seconds
 * for it: an attempt that is given up then is begun anew, for ever. */
#define CONNECT_MS_MAX 2000
#define CONNECT_TLS_MS_MAX 6000
#define BACKOFF_MS_MIN 100
#define BACKOFF_MS_MAX 500
/* Between two questions about a host name: whoever was started elsewhere has the name and another
 * address. gRPC's default of 30 s is longer than such a start takes. */
#define RESOLVE_MS_MIN 500
#define READY_POLL_MS 100 /* a watch must end before its queue can be freed */

/* ---- channels ---- */

static grpc_channel *create_channel(const struct rpc_channel *c)
{
    const struct rpc_channel_options *o = &c->options;
    struct rpc_args args = {.count = 0};
    rpc_args_common(&args, c->message_bytes_max,
                    o->keepalive_ms > 0 ? o->keepalive_ms : RPC_KEEPALIVE_MS_DEFAULT);
    rpc_args_add(&args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, BACKOFF_MS_MIN);
    /* Its name is misleading: the core uses it as the time that one attempt to connect may take. */
    rpc_args_add(&args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                 o->credentials == NULL ? CONNECT_MS_MAX : CONNECT_TLS_MS_MAX);
    rpc_args_add(&args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, BACKOFF_MS_MAX);
    rpc_args_add(&args, GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, RESOLVE_MS_MIN);
    rpc_args_add(&args, GRPC_ARG_ENABLE_RETRIES, o->retries);
    rpc_args_add(&args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, o->own_connection);
    rpc_args_add(&args, GRPC_ARG_ENABLE_HTTP_PROXY, 0); /* a cluster talks directly */
    return rpc_credentials_channel(o->credentials, c->target, &args);
}

static int check_targets(const struct rpc_targets *targets, const struct rpc_credentials *c,
                         struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < targets->count; i++) {
        rc = rpc_credentials_check(c, targets->names[i], err);
    }
    return rc;
}

struct rpc_channel *rpc_channel_new(const struct rpc_channel_options *o, struct err *err)
{
    struct rpc_targets targets;
    if (rpc_targets_read(&targets, o->target ? o->target : "", err) != 0) {
        return NULL;
    }
    if (check_targets(&targets, o->credentials, err) != 0) {
        rpc_targets_release(&targets);
        return NULL;
    }
    struct rpc_channel *c = mem_new(1, sizeof(*c));
    c->targets = targets;
    c->target = targets.names[0];
    c->message_bytes_max =
        o->message_bytes_max > 0 ? o->message_bytes_max : RPC_MESSAGE_BYTES_DEFAULT;
    c->unpack_bytes_max = o->unpack_bytes_max;
    c->send_bytes_max =
        o->send_bytes_max > 0 ? o->send_bytes_max : RPC_SEND_FACTOR * c->message_bytes_max;
    c->loop = o->loop;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->idle, NULL);
    c->options = *o;
    c->grpc = create_channel(c);
    c->made_ms = chrono_now_ms();
    return c;
}

/* Locked: from now on it leads to the chosen target. Returns the connection of before, which is
 * destroyed without the lock; calls under way go on. */
static grpc_channel *remake(struct rpc_channel *c)
{
    grpc_channel *before = c->grpc;
    c->target = c->targets.names[c->targets.at];
    c->grpc = create_channel(c);
    c->made_ms = chrono_now_ms();
    c->late_ms = 0;
    c->strange = c->elsewhere = false;
    return before;
}

static void destroy(grpc_channel *before)
{
    if (before) {
        grpc_channel_destroy(before);
    }
}

/* Locked; before a call. Leads to another target, where that was decided. Leaves a channel that
 * leads to a stranger, too: gRPC asks for the address of a name when a connection breaks. Where a
 * name led to another process (it was not known yet and a name server guessed, or the address has a
 * new owner), connections are fine and calls fail for ever: only another channel asks for the
 * address anew. Returns what is to be destroyed; NULL: nothing. */
static grpc_channel *leave(struct rpc_channel *c)
{
    const bool stranger =
        c->strange && !c->inflight && chrono_now_ms() - c->made_ms >= RESOLVE_MS_MIN;
    return c->watchers == 0 && (c->elsewhere || stranger) ? remake(c) : NULL;
}

void rpc_channel_cancel(struct rpc_channel *c)
{
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    size_t count = 0;
    for (struct rpc_inflight *i = c->inflight; i; i = i->next) {
        count++;
    }
    grpc_call **calls = mem_new(count + 1, sizeof(grpc_call *));
    count = 0;
    for (struct rpc_inflight *i = c->inflight; i; i = i->next) {
        grpc_call_ref(i->call);
        calls[count++] = i->call;
    }
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < count; i++) {
        grpc_call_cancel_with_status(calls[i], GRPC_STATUS_CANCELLED, "the channel was closed",
                                     NULL);
        grpc_call_unref(calls[i]);
    }
    free(calls);
}

void rpc_channel_free(struct rpc_channel *c)
{
    if (!c) {
        return;
    }
    assert(!c->loop || !rpc_loop_is_self(c->loop));
    rpc_channel_cancel(c);
    if (c->loop) {
        rpc_loop_give_back(c->loop); /* this thread may be the loop's guest, and waits now */
    }
    pthread_mutex_lock(&c->lock);
    while (c->inflight) {
        pthread_cond_wait(&c->idle, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    rpc_loop_free(c->own_loop);
    grpc_channel_destroy(c->grpc);
    pthread_cond_destroy(&c->idle);
    pthread_mutex_destroy(&c->lock);
    rpc_targets_release(&c->targets);
    free(c);
}

const char *rpc_channel_target(const struct rpc_channel *c)
{
    return c->target;
}

/* Of several targets, while nobody else uses the channel. */
static void try_next(struct rpc_channel *c)
{
    pthread_mutex_lock(&c->lock);
    grpc_channel *before =
        c->watchers == 1 && !c->inflight && rpc_targets_next(&c->targets) ? remake(c) : NULL;
    pthread_mutex_unlock(&c->lock);
    destroy(before);
}

static int wait_ready(struct rpc_channel *c, grpc_completion_queue *cq, unsigned timeout_ms,
                      struct err *err)
{
    uint64_t start = chrono_now_ms();
    for (;;) {
        grpc_connectivity_state state = grpc_channel_check_connectivity_state(c->grpc, 1);
        if (state == GRPC_CHANNEL_READY) {
            return 0;
        }
        uint64_t tried = chrono_now_ms() - start;
        if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
            try_next(c);
        }
        if (tried >= timeout_ms || state == GRPC_CHANNEL_SHUTDOWN) {
            return err_set(err, ERR_UNAVAILABLE, "cannot connect to %s: tried for %llu ms",
                           c->target, (unsigned long long)tried);
        }
        uint64_t left = timeout_ms - tried;
        unsigned ms = left < READY_POLL_MS ? (unsigned)left : READY_POLL_MS;
        grpc_channel_watch_connectivity_state(c->grpc, state, rpc_monotonic_ms(ms), cq, NULL);
        grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    }
}

bool rpc_channel_is_connected(struct rpc_channel *c)
{
    pthread_mutex_lock(&c->lock);
    bool ready = grpc_channel_check_connectivity_state(c->grpc, 0) == GRPC_CHANNEL_READY;
    pthread_mutex_unlock(&c->lock);
    return ready;
}

static void watch(struct rpc_channel *c, int change)
{
    pthread_mutex_lock(&c->lock);
    c->watchers += (unsigned)change;
    pthread_mutex_unlock(&c->lock);
}

int rpc_channel_wait_ready(struct rpc_channel *c, unsigned timeout_ms, struct err *err)
{
    grpc_completion_queue *cq = grpc_completion_queue_create_for_next(NULL);
    watch(c, 1);
    int rc = wait_ready(c, cq, timeout_ms, err);
    watch(c, -1);
    grpc_completion_queue_shutdown(cq);
    grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_completion_queue_destroy(cq);
    return rc;
}

/* ---- shared by all kinds of calls ---- */

/* Locked: the queue whose thread runs the callbacks. */
static grpc_completion_queue *loop_queue(struct rpc_channel *c, struct err *err)
{
    if (!c->loop) {
        c->own_loop = rpc_loop_new(NULL, err);
        c->loop = c->own_loop;
    }
    return c->loop ? c->loop->cq : NULL;
}

static void add_header(struct rpc_outgoing *o, const char *key, const char *value)
{
    o->headers[o->header_count].key = grpc_slice_from_copied_string(key);
    o->headers[o->header_count].value = grpc_slice_from_copied_string(value);
    o->header_count++;
}

static int fill_headers(struct rpc_outgoing *o, const struct rpc_request *request, struct err *err)
{
    struct buf token = {0};
    o->headers = mem_new(request->header_count + 1, sizeof(*o->headers)); /* 1: the token */
    for (size_t i = 0; i < request->header_count; i++) {
        const struct rpc_header *h = &request->headers[i];
        int rc = rpc_header_check(h->key, h->value, err);
        if (rc != 0) {
            return rc;
        }
        add_header(o, h->key, h->value);
    }
    if (rpc_credentials_authorize(o->channel->options.credentials, o->channel->target, &token)) {
        add_header(o, RPC_AUTHORIZATION_KEY, buf_str(&token));
    }
    buf_release(&token);
    if (request->wait_for_ready) {
        o->header_flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                          GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    }
    return 0;
}

static int create_call(struct rpc_outgoing *o, const struct rpc_request *request,
                       grpc_completion_queue *cq, struct err *err)
{
    struct rpc_channel *c = o->channel;
    grpc_channel *before = NULL;
    char *path = mem_printf("/%s/%s", request->service->name, request->method);
    grpc_slice method = grpc_slice_from_copied_string(path);
    free(path);
    pthread_mutex_lock(&c->lock);
    int rc = c->closing ? err_set(err, ERR_UNAVAILABLE, "the channel was closed") : 0;
    if (rc == 0 && !cq) {
        cq = loop_queue(c, err);
        rc = cq ? 0 : ERR_EXHAUSTED;
    }
    if (rc == 0) {
        before = leave(c);
        o->target = c->target;
        o->call = grpc_channel_create_call(c->grpc, NULL, GRPC_PROPAGATE_DEFAULTS, cq, method, NULL,
                                           rpc_deadline(request->timeout_ms), NULL);
        o->inflight =
            (struct rpc_inflight){.next = c->inflight, .link = &c->inflight, .call = o->call};
        if (c->inflight) {
            c->inflight->link = &o->inflight.next;
        }
        c->inflight = &o->inflight;
    }
    pthread_mutex_unlock(&c->lock);
    destroy(before);
    grpc_slice_unref(method);
    return rc;
}

int rpc_outgoing_init(struct rpc_outgoing *o, struct rpc_channel *c,
                      const struct rpc_request *request, grpc_completion_queue *cq, struct err *err)
{
    *o = (struct rpc_outgoing){
        .channel = c, .request_bulk = request->request_bulk, .terse = request->terse};
    o->start_ms = chrono_now_ms();
    o->details = grpc_empty_slice();
    grpc_metadata_array_init(&o->initial);
    grpc_metadata_array_init(&o->trailing);
    const ProtobufCMethodDescriptor *method =
        protobuf_c_service_descriptor_get_method_by_name(request->service, request->method);
    int rc = 0;
    if (!method) {
        rc = err_set(err, ERR_INVALID, "the proto has no such rpc");
    } else {
        o->input = method->input;
        o->decoding = (struct rpc_decoding){.type = method->output,
                                            .bulk_field = request->response_bulk,
                                            .unpack_bytes_max = c->unpack_bytes_max};
        rc = fill_headers(o, request, err);
    }
    if (rc == 0) {
        rc = create_call(o, request, cq, err);
    }
    o->label = mem_printf("%s.%s at %s", request->service->name, request->method,
                          o->target ? o->target : c->target);
    if (rc != 0) {
        err_wrap(err, "%s", o->label);
    }
    return rc;
}

void rpc_outgoing_release(struct rpc_outgoing *o)
{
    for (size_t i = 0; i < o->header_count; i++) {
        grpc_slice_unref(o->headers[i].key);
        grpc_slice_unref(o->headers[i].value);
    }
    free(o->headers);
    grpc_metadata_array_destroy(&o->initial);
    grpc_metadata_array_destroy(&o->trailing);
    grpc_slice_unref(o->details);
    free(o->label);
    if (o->call) {
        struct rpc_channel *c = o->channel;
        pthread_mutex_lock(&c->lock);
        *o->inflight.link = o->inflight.next;
        if (o->inflight.next) {
            o->inflight.next->link = o->inflight.link;
        }
        /* the channel may be freed as soon as the lock is released */
        pthread_cond_broadcast(&c->idle);
        pthread_mutex_unlock(&c->lock);
        grpc_call_unref(o->call);
    }
}

grpc_op rpc_outgoing_headers(const struct rpc_outgoing *o)
{
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_SEND_INITIAL_METADATA;
    op.flags = o->header_flags;
    op.data.send_initial_metadata.count = o->header_count;
    op.data.send_initial_metadata.metadata = o->headers;
    return op;
}

grpc_op rpc_outgoing_status(struct rpc_outgoing *o)
{
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op.data.recv_status_on_client.trailing_metadata = &o->trailing;
    op.data.recv_status_on_client.status = &o->code;
    op.data.recv_status_on_client.status_details = &o->details;
    return op;
}

/* A server that shuts down resets calls which it has not looked at yet, and gRPC reports that like
 * a cancellation of our own. The caller wants to know that it may try again. */
static bool was_reset(struct rpc_outgoing *o)
{
    if (o->code != GRPC_STATUS_CANCELLED || atomic_load(&o->cancelled) ||
        grpc_slice_str_cmp(o->details, "CANCELLED") != 0) {
        return false;
    }
    pthread_mutex_lock(&o->channel->lock);
    bool closing = o->channel->closing;
    pthread_mutex_unlock(&o->channel->lock);
    return !closing;
}

/* Is the channel connected? Notes, too, whether the other side may be no server of ours: it does
 * not know the method, or is unavailable and does not say so itself. */
static bool is_connected(struct rpc_outgoing *o, bool answered)
{
    struct rpc_channel *c = o->channel;
    pthread_mutex_lock(&c->lock);
    const bool connected = grpc_channel_check_connectivity_state(c->grpc, 0) == GRPC_CHANNEL_READY;
    const bool strange =
        o->code == GRPC_STATUS_UNIMPLEMENTED || (o->code == GRPC_STATUS_UNAVAILABLE && !answered);
    c->strange |= connected && strange;
    pthread_mutex_unlock(&c->lock);
    return connected;
}

/* Codes that gRPC itself does not end calls with. */
static bool is_of_service(int code)
{
    static const int codes[] = {ERR_INVALID,    ERR_NOT_FOUND,      ERR_EXISTS,  ERR_STATE,
                                ERR_ABORTED,    ERR_EXHAUSTED,      ERR_CORRUPT, ERR_RANGE,
                                ERR_PERMISSION, ERR_UNAUTHENTICATED};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i] == code) {
            return true;
        }
    }
    return false;
}

void rpc_outgoing_result(struct rpc_outgoing *o, struct rpc_status *status)
{
    *status = (struct rpc_status){.err = {.code = rpc_code_to_err((int)o->code)}};
    if (status->err.code == 0) {
        rpc_outgoing_answered(o);
        return;
    }
    bool reset = was_reset(o);
    if (reset) {
        status->err.code = ERR_UNAVAILABLE;
    }
    char tried[64] = "";
    const bool answered = rpc_header_find(&o->trailing, RPC_ANSWERED_KEY) != NULL;
    const bool connected = is_connected(o, answered);
    if (answered || is_of_service(status->err.code)) {
        rpc_outgoing_answered(o);
    }
    if (status->err.code == ERR_TIMEOUT || status->err.code == ERR_UNAVAILABLE) {
        status->answered = answered;
        status->connected = connected;
        status->moved = rpc_outgoing_moves(o, status->err.code, status);
        snprintf(tried, sizeof(tried), "%s (tried for %llu ms)",
                 status->connected ? "" : ", not connected",
                 (unsigned long long)(chrono_now_ms() - o->start_ms));
    }
    size_t bytes = GRPC_SLICE_LENGTH(o->details);
    const char *text = (const char *)GRPC_SLICE_START_PTR(o->details);
    if (reset) {
        text = "the server reset the call";
        bytes = strlen(text);
    }
    const bool bare = o->terse && !reset && (answered || is_of_service(status->err.code));
    err_set(&status->err, status->err.code, "%s%s%.*s%s", bare ? "" : o->label, bare ? "" : ": ",
            bytes < 800 ? (int)bytes : 800, text, bare ? "" : tried);
    const grpc_metadata *details = rpc_header_find(&o->trailing, RPC_DETAILS_KEY);
    if (details) {
        status->details_bytes = GRPC_SLICE_LENGTH(details->value);
        status->details = mem_new(1, status->details_bytes + 1);
        memcpy(status->details, GRPC_SLICE_START_PTR(details->value), status->details_bytes);
    }
}
