/* SPDX-License-Identifier: Apache-2.0 */
/* Binds the server's addresses, accepts calls and drains them at the end. For each method gRPC
 * holds several accepting requests; one that was used is renewed before its call runs. */
#include "rpc/rpc_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define POLLERS_DEFAULT 2
#define GRACE_MS_DEFAULT 5000
#define INFLIGHT_FACTOR 8
#define CALLS_DEFAULT 16384 /* some hundred MB, if streams are opened and nothing else is done */
/* Requests that gRPC may have ready for us per method; each is re-armed before its call runs. */
#define ACCEPTORS_PER_METHOD 8
#define ACCEPTORS_UNKNOWN 2
/* Calls at once on one connection; more wait at the client. */
#define CONCURRENT_STREAMS_MAX 1024
/* Clients may ping this often (their keepalive is 10 s); a faster one is sent away. */
#define CLIENT_PING_MS_MIN 1000

/* A connection that nobody calls on for so long is closed; a client of gRPC opens it again when it
 * has something to say. And so long may it take to say that it speaks HTTP/2 at all. */
#define CONNECTION_IDLE_MS_MAX 120000
#define HANDSHAKE_MS_MAX 10000

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

static size_t or_default(size_t value, size_t fallback)
{
    return value > 0 ? value : fallback;
}

static int copy_addresses(struct rpc_server *s, const struct rpc_server_options *o, struct err *err)
{
    if (o->address_count == 0) {
        return err_set(err, ERR_INVALID, "a server needs an address to listen on");
    }
    s->addresses = mem_new(o->address_count, sizeof(*s->addresses));
    for (size_t i = 0; i < o->address_count; i++) {
        const char *a = o->addresses[i];
        if (rpc_address_check(a, err) != 0) {
            return err_wrap(err, "listen address");
        }
        s->addresses[s->address_count++] = mem_strdup(a);
    }
    return 0;
}

struct rpc_server *rpc_server_new(const struct rpc_server_options *o, struct err *err)
{
    struct rpc_server *s = mem_new(1, sizeof(*s));
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->lock, NULL);
    s->message_bytes_max = or_default(o->message_bytes_max, RPC_MESSAGE_BYTES_DEFAULT);
    s->unpack_bytes_max = o->unpack_bytes_max;
    s->send_bytes_max = or_default(o->send_bytes_max, RPC_SEND_FACTOR * s->message_bytes_max);
    s->calls_max = or_default(o->calls_max, CALLS_DEFAULT);
    s->poller_count = (unsigned)or_default(o->pollers, POLLERS_DEFAULT);
    s->pollers = mem_new(s->poller_count, sizeof(*s->pollers));
    s->grace_ms = (unsigned)or_default(o->grace_ms, GRACE_MS_DEFAULT);
    s->keepalive_ms = (unsigned)or_default(o->keepalive_ms, RPC_KEEPALIVE_MS_DEFAULT);
    s->credentials = o->credentials;
    s->guard = o->guard;
    s->polling = o->polling;
    s->account =
        rpc_account_new(or_default(o->inflight_bytes_max, INFLIGHT_FACTOR * s->message_bytes_max));
    s->health = rpc_health_new();
    if (copy_addresses(s, o, err) != 0 ||
        rpc_files_add(&s->files, gradus_descriptors,
                      (size_t)(gradus_descriptors_end - gradus_descriptors), err) != 0 ||
        rpc_files_add(&s->files, o->descriptors, o->descriptors_bytes, err) != 0 ||
        rpc_health_add(s->health, s, err) != 0 || rpc_reflection_add(s, err) != 0) {
        rpc_server_free(s);
        return NULL;
    }
    return s;
}

/* ---- accepting ---- */

struct acceptor {
    struct rpc_tag tag;
    struct rpc_server *server;
    grpc_completion_queue *cq;            /* of one poller */
    const struct rpc_method_entry *entry; /* NULL: for methods that nobody serves */
    void *registered;
    grpc_call_details details;
    struct rpc_arrival arrival;
};

static void acceptor_arm(struct acceptor *a)
{
    grpc_completion_queue *cq = a->cq;
    a->arrival = (struct rpc_arrival){0};
    grpc_metadata_array_init(&a->arrival.metadata);
    rpc_tag_release(&a->tag);
    if (!a->entry) {
        grpc_call_details_init(&a->details);
        grpc_server_request_call(a->server->grpc, &a->arrival.call, &a->details,
                                 &a->arrival.metadata, cq, cq, &a->tag);
    } else {
        grpc_server_request_registered_call(a->server->grpc, a->registered, &a->arrival.call,
                                            &a->arrival.deadline, &a->arrival.metadata,
                                            a->entry->client_streams ? NULL : &a->arrival.payload,
                                            cq, cq, &a->tag);
    }
}

static void acceptor_run(struct rpc_tag *tag, bool ok)
{
    struct acceptor *a = RPC_OWNER(tag, struct acceptor, tag);
    if (!ok) { /* the server is shutting down */
        grpc_metadata_array_destroy(&a->arrival.metadata);
        if (!a->entry) {
            grpc_call_details_destroy(&a->details);
        }
        return;
    }
    struct rpc_server *s = a->server;
    const struct rpc_method_entry *entry = a->entry;
    struct rpc_arrival arrival = a->arrival;
    char *path = NULL;
    if (!entry) {
        path = rpc_slice_to_str(grpc_slice_ref(a->details.method));
        arrival.deadline = a->details.deadline;
        grpc_call_details_destroy(&a->details);
    }
    acceptor_arm(a);
    rpc_call_begin(s, entry, path, &arrival);
    free(path);
}

static void add_acceptors(struct rpc_server *s, const struct rpc_method_entry *entry,
                          void *registered, int count)
{
    for (unsigned p = 0; p < s->poller_count; p++) {
        for (int n = 0; n < count; n++) {
            s->acceptors[s->acceptor_count++] = (struct acceptor){.tag = {acceptor_run},
                                                                  .server = s,
                                                                  .cq = s->pollers[p].cq,
                                                                  .entry = entry,
                                                                  .registered = registered};
        }
    }
}

static int register_methods(struct rpc_server *s, struct err *err)
{
    size_t methods = 0;
    for (size_t i = 0; i < s->service_count; i++) {
        methods += s->services[i].descriptor->n_methods;
    }
    s->acceptors = mem_new((methods * ACCEPTORS_PER_METHOD + ACCEPTORS_UNKNOWN) * s->poller_count,
                           sizeof(*s->acceptors));
    for (size_t i = 0; i < s->service_count; i++) {
        for (unsigned k = 0; k < s->services[i].descriptor->n_methods; k++) {
            const struct rpc_method_entry *e = &s->services[i].entries[k];
            void *registered = grpc_server_register_method(
                s->grpc, e->path, NULL,
                e->client_streams ? GRPC_SRM_PAYLOAD_NONE
                                  : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
                0);
            if (!registered) {
                return err_set(err, ERR_INTERNAL, "gRPC refuses the method %s", e->path);
            }
            add_acceptors(s, e, registered, ACCEPTORS_PER_METHOD);
        }
    }
    add_acceptors(s, NULL, NULL, ACCEPTORS_UNKNOWN);
    return 0;
}

/* ---- binding ---- */

/* gRPC removes the socket file that is in its way; make sure that nobody listens on it. */
static bool unix_in_use(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        return false;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool used = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return used;
}

/* The reason inside gRPC's nested error text: what the system said, or the resolver. */
static void bind_reason(const char *text, char *out, size_t n)
{
    static const char *const marks[] = {"os_error:\"", "UNKNOWN:"};
    snprintf(out, n, "not an address of this machine");
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        const char *start = strstr(text, marks[i]);
        if (start) {
            start += strlen(marks[i]);
            snprintf(out, n, "%.*s", (int)strcspn(start, "\"{"), start);
            return;
        }
    }
}

static int bind_address(struct rpc_server *s, char **address, struct err *err)
{
    const char *a = *address;
    bool is_unix = strncmp(a, "unix:", 5) == 0;
    if (is_unix && unix_in_use(a + 5)) {
        return err_set(err, ERR_UNAVAILABLE, "cannot listen on %s: another server does", a);
    }
    grpc_server_credentials *credentials = rpc_credentials_server(s->credentials, a);
    mode_t mask = is_unix ? umask(0077) : 0; /* of this user alone */
    char said[2048];
    rpc_log_capture(said, sizeof(said));
    char *url = rpc_address_url(a);
    int port = grpc_server_add_http2_port(s->grpc, url, credentials);
    free(url);
    rpc_log_capture(NULL, 0);
    if (is_unix) {
        (void)umask(mask);
    }
    grpc_server_credentials_release(credentials);
    if (port <= 0) {
        char reason[256];
        bind_reason(said, reason, sizeof(reason));
        return err_set(err, ERR_UNAVAILABLE, "cannot listen on %s: %s", a, reason);
    }
    if (!is_unix) {
        size_t host = (size_t)(strrchr(a, ':') - a);
        char *bound = mem_printf("%.*s:%d", (int)host, a, port);
        free(*address);
        *address = bound;
    }
    return 0;
}

static grpc_server *create_server(const struct rpc_server *s)
{
    struct rpc_args args = {.count = 0};
    rpc_args_common(&args, s->message_bytes_max, s->keepalive_ms);
    rpc_args_add(&args, GRPC_ARG_ALLOW_REUSEPORT, 0);
    rpc_args_add(&args, GRPC_ARG_MAX_CONCURRENT_STREAMS, CONCURRENT_STREAMS_MAX);
    rpc_args_add(&args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, CLIENT_PING_MS_MIN);
    rpc_args_add(&args, GRPC_ARG_MAX_CONNECTION_IDLE_MS, CONNECTION_IDLE_MS_MAX);
    rpc_args_add(&args, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS_MAX);
    grpc_channel_args channel_args = {.num_args = args.count, .args = args.arg};
    return grpc_server_create(&channel_args, NULL);
}

static void shutdown_run(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct rpc_server *s = RPC_OWNER(tag, struct rpc_server, shutdown_tag);
    pthread_mutex_lock(&s->lock);
    s->shut_down = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void stop_pollers(struct rpc_server *s)
{
    for (unsigned i = 0; i < s->poller_count; i++) {
        rpc_poller_stop(&s->pollers[i]); /* not started: fine */
    }
}

/* A queue for each thread: a connection belongs to one of them, and its messages wake one thread.
 * Several threads of one queue wake each other for every event. */
static int start_pollers(struct rpc_server *s, struct err *err)
{
    for (unsigned i = 0; i < s->poller_count; i++) {
        int rc = rpc_poller_start(&s->pollers[i], s->polling, err);
        if (rc != 0) {
            stop_pollers(s);
            return rc;
        }
    }
    return 0;
}

int rpc_server_bind(struct rpc_server *s, struct err *err)
{
    if (s->grpc || s->stopping) {
        return err_set(err, ERR_STATE, "the server was started already");
    }
    int rc = start_pollers(s, err);
    if (rc != 0) {
        return rc;
    }
    s->grpc = create_server(s);
    s->shutdown_tag.run = shutdown_run;
    for (unsigned i = 0; i < s->poller_count; i++) {
        grpc_server_register_completion_queue(s->grpc, s->pollers[i].cq, NULL);
    }
    rc = register_methods(s, err);
    for (size_t i = 0; rc == 0 && i < s->address_count; i++) {
        rc = bind_address(s, &s->addresses[i], err);
    }
    if (rc != 0) {
        s->acceptor_count = 0;
        rpc_server_stop(s);
    }
    return rc;
}

int rpc_server_bind_also(struct rpc_server *s, const char *address, struct err *err)
{
    if (!s->grpc || s->started) {
        return err_set(err, ERR_STATE, "the server is not bound, or serves already");
    }
    if (rpc_address_check(address, err) != 0) {
        return err_wrap(err, "listen address");
    }
    char *also = mem_strdup(address);
    int rc = bind_address(s, &also, err);
    if (rc != 0) {
        free(also);
        return rc;
    }
    s->addresses = mem_resize(s->addresses, s->address_count + 1, sizeof(*s->addresses));
    s->addresses[s->address_count++] = also;
    return 0;
}

int rpc_server_start(struct rpc_server *s, struct err *err)
{
    if (s->started) {
        return err_set(err, ERR_STATE, "the server was started already");
    }
    int rc = s->grpc ? 0 : rpc_server_bind(s, err);
    if (rc != 0) {
        return rc;
    }
    s->started = true;
    grpc_server_start(s->grpc);
    for (size_t i = 0; i < s->acceptor_count; i++) {
        acceptor_arm(&s->acceptors[i]);
    }
    return 0;
}

const char *rpc_server_address(const struct rpc_server *s, size_t i)
{
    return i < s->address_count ? s->addresses[i] : NULL;
}

void rpc_server_set_serving(struct rpc_server *s, bool serving)
{
    rpc_health_set(s->health, serving);
}

size_t rpc_server_inflight_bytes(const struct rpc_server *s)
{
    return atomic_load(&s->account->bytes);
}

size_t rpc_server_calls(const struct rpc_server *s)
{
    return atomic_load(&s->call_count);
}

/* ---- stopping ---- */

static bool wait_shut_down(struct rpc_server *s, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&s->lock);
    int rc = 0;
    while (!(s->shut_down && !s->calls) && rc != ETIMEDOUT) {
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    }
    bool done = s->shut_down && !s->calls;
    pthread_mutex_unlock(&s->lock);
    return done;
}

void rpc_server_stop(struct rpc_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_mutex_unlock(&s->lock);
    if (!s->grpc) {
        return;
    }
    rpc_health_set(s->health, false);
    rpc_calls_end_on_stop(s);
    rpc_tag_release(&s->shutdown_tag);
    grpc_server_shutdown_and_notify(s->grpc, s->pollers[0].cq, &s->shutdown_tag);
    if (!wait_shut_down(s, s->grace_ms)) {
        grpc_server_cancel_all_calls(s->grpc);
        pthread_mutex_lock(&s->lock);
        while (!s->shut_down || s->calls) {
            pthread_cond_wait(&s->changed, &s->lock);
        }
        pthread_mutex_unlock(&s->lock);
    }
    stop_pollers(s);
    grpc_server_destroy(s->grpc);
    s->grpc = NULL;
}

void rpc_server_free(struct rpc_server *s)
{
    if (!s) {
        return;
    }
    rpc_server_stop(s);
    for (size_t i = 0; i < s->service_count; i++) {
        for (unsigned k = 0; k < s->services[i].descriptor->n_methods; k++) {
            free(s->services[i].entries[k].path);
        }
        free(s->services[i].entries);
    }
    free(s->services);
    free(s->acceptors);
    free(s->pollers);
    for (size_t i = 0; i < s->address_count; i++) {
        free(s->addresses[i]);
    }
    free(s->addresses);
    rpc_health_free(s->health);
    rpc_files_release(&s->files);
    rpc_account_unref(s->account);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
