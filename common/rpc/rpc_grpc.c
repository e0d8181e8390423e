/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up the gRPC core for the process and wraps its C API for both sides: completion queues
 * with their threads, metadata, addresses. Numbers are measured; the reasons are beside them. */
#include "rpc/rpc_polling.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/log.h"
#include "os/log_rate.h"
#include "os/thread.h"

/* Connections without a call are looked after so often. The core's 5 s is as long as the answer to
 * a keepalive ping may take: idle connections were closed. */
#define IDLE_POLL_MS "1000"

/* ---- process ---- */

static _Thread_local char *captured;
static _Thread_local size_t captured_bytes;

void rpc_log_capture(char *out, size_t n)
{
    captured = out;
    captured_bytes = n;
    if (out) {
        out[0] = '\0';
    }
}

/* A client that fails learns why from its call. */
static void log_handshake(const char *reason)
{
    static struct log_rate rate;
    unsigned untold = 0;
    char text[1024];
    if (log_rate_take(&rate, &untold)) {
        log_info("tls_failed", "untold=%u reason=%s", untold,
                 log_quote(reason, text, sizeof(text)));
    }
}

static void log_from_grpc(gpr_log_func_args *args)
{
    if (captured) {
        snprintf(captured, captured_bytes, "%s", args->message);
        return;
    }
    if (strstr(args->file, "ssl_transport_security") || strstr(args->file, "tls_security")) {
        log_handshake(args->message);
        return;
    }
    char message[1024];
    log_error("grpc", "file=%s line=%d message=%s", args->file, args->line,
              log_quote(args->message, message, sizeof(message)));
}

static void init_once(void)
{
    /* glibc gives the memory of a large message back to the kernel when it is freed, and the next
     * message faults every page in again. Keeping it halves the cost of a 16 MiB message. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
    mallopt(M_ARENA_MAX, 2);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", IDLE_POLL_MS, 0);
    gpr_set_log_function(log_from_grpc);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
    rpc_locks_unwatched();
}

void rpc_expect_few_connections(void)
{
    (void)setenv("GRPC_POLL_STRATEGY", "poll", 0); /* the only way to tell the core */
}

void rpc_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
    grpc_init();
}

void rpc_shutdown(void)
{
    grpc_shutdown();
}

/* ---- completion queues ---- */

static void *poll_thread(void *arg)
{
    const struct rpc_poller *p = arg;
    struct rpc_waiter waiter;
    rpc_waiter_init(&waiter, p->polling);
    for (;;) {
        grpc_event event = rpc_waiter_next(&waiter, p->cq);
        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            rpc_waiter_release(&waiter);
            return NULL;
        }
        rpc_event_run(&event);
    }
}

int rpc_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = thread_start(thread, "rpc", run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int rpc_poller_start(struct rpc_poller *p, struct rpc_polling *polling, struct err *err)
{
    *p = (struct rpc_poller){.cq = grpc_completion_queue_create_for_next(NULL), .polling = polling};
    const int error = rpc_thread_start(&p->thread, poll_thread, p);
    p->started = error == 0;
    if (error != 0) {
        rpc_poller_stop(p);
        return err_errno(err, error, "start a poller thread");
    }
    return 0;
}

void rpc_poller_stop(struct rpc_poller *p)
{
    if (!p->cq) {
        return;
    }
    grpc_completion_queue_shutdown(p->cq);
    if (p->started) {
        pthread_join(p->thread, NULL);
    } else { /* nobody else sees the queue become empty */
        poll_thread(p);
    }
    grpc_completion_queue_destroy(p->cq);
    *p = (struct rpc_poller){0};
}

gpr_timespec rpc_monotonic_ms(unsigned from_now_ms)
{
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis((int64_t)from_now_ms, GPR_TIMESPAN));
}

gpr_timespec rpc_deadline(unsigned timeout_ms)
{
    return timeout_ms == 0 ? gpr_inf_future(GPR_CLOCK_MONOTONIC) : rpc_monotonic_ms(timeout_ms);
}

/* ---- metadata ---- */

int rpc_header_check(const char *key, const char *value, struct err *err)
{
    grpc_slice k = grpc_slice_from_static_string(key);
    grpc_slice v = grpc_slice_from_static_string(value);
    if (!grpc_header_key_is_legal(k) || strncmp(key, "grpc-", 5) == 0) {
        return err_set(err, ERR_INVALID, "metadata key \"%s\" is not legal", key);
    }
    if (!grpc_is_binary_header(k) && !grpc_header_nonbin_value_is_legal(v)) {
        return err_set(err, ERR_INVALID, "metadata \"%s\": the value has illegal characters", key);
    }
    return 0;
}

const grpc_metadata *rpc_header_find(const grpc_metadata_array *array, const char *key)
{
    for (size_t i = 0; i < array->count; i++) {
        if (grpc_slice_str_cmp(array->metadata[i].key, key) == 0) {
            return &array->metadata[i];
        }
    }
    return NULL;
}

char *rpc_slice_to_str(grpc_slice slice)
{
    size_t n = GRPC_SLICE_LENGTH(slice);
    char *s = mem_new(1, n + 1);
    memcpy(s, GRPC_SLICE_START_PTR(slice), n);
    grpc_slice_unref(slice);
    return s;
}

/* ---- addresses ---- */

/* The first @bytes of @text are an address of IPv6, maybe with a zone. */
static bool is_v6(const char *text, size_t bytes)
{
    struct in6_addr v6;
    char copy[INET6_ADDRSTRLEN];
    const char *zone = memchr(text, '%', bytes);
    const size_t n = zone != NULL ? (size_t)(zone - text) : bytes;
    if (n >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, n);
    copy[n] = '\0';
    return inet_pton(AF_INET6, copy, &v6) == 1;
}

int rpc_address_check(const char *address, struct err *err)
{
    if (strncmp(address, "unix:", 5) == 0 && address[5] != '\0') {
        return 0;
    }
    const char *colon = strrchr(address, ':');
    const size_t host = colon == NULL ? 0 : (size_t)(colon - address);
    int64_t port = 0;
    const bool has_port =
        host > 0 && text_to_int(colon + 1, &port) && port >= 0 && port <= UINT16_MAX;
    if (has_port && is_v6(address, host)) {
        return err_set(err, ERR_INVALID,
                       "\"%.300s\" has an IPv6 address without brackets; [%.*s]:%s is allowed",
                       address, (int)host, address, colon + 1);
    }
    if (is_v6(address, strlen(address))) {
        return err_set(err, ERR_INVALID,
                       "\"%.300s\" has an IPv6 address without brackets; [%.300s]:PORT is allowed",
                       address, address);
    }
    return has_port
               ? 0
               : err_set(err, ERR_INVALID, "\"%.300s\": expected host:port or unix:/path", address);
}

char *rpc_address_url(const char *address)
{
    if (strncmp(address, "unix:", 5) != 0) {
        return mem_strdup(address);
    }
    char *url = mem_new(1, 3 * strlen(address) + 1), *end = url;
    for (const char *c = address; *c != '\0'; c++) {
        bool plain = isalnum((unsigned char)*c) || strchr(":/-._~", *c) != NULL;
        end += sprintf(end, plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    return url;
}
