/* SPDX-License-Identifier: Apache-2.0 */
/* The one main of every service: settings, logs, signals, RPC server, HTTP port, drain, exit code.
 *
 * A service's main.c is its rows, its hooks and one call:
 *
 *     static const struct service SERVICE = {.name = "ps", .summary = "…", .fields = FIELDS, …};
 *     int main(int argc, char **argv) { return service_main(argc, argv, &SERVICE); }
 *
 * Order of a run: settings → logs → plug-ins → signals blocked → rpc_init → start() → RPC server
 * and HTTP port answer → ready() → one line on stdout, health SERVING → wait → signal → health
 * NOT_SERVING → drain() → RPC server stopped → stop(). All hooks run on the main thread.
 *
 * The line, complete and flushed, and all that stdout ever gets:
 *     gradus-ps ready grpc=127.0.0.1:41234 http=127.0.0.1:41235
 *
 * Exit codes: 0 drained after SIGTERM or SIGINT, 1 failed (the reason is the last line of the log),
 * 2 the arguments or the settings are wrong, 128 + signal after a second SIGTERM or SIGINT (one
 * that is no repetition of the first: signals_repeats()), or when the end takes longer than 2
 * grace_ms + SERVICE_STOP_MS after the first. SIGHUP is ignored. */
#ifndef GRADUS_SERVICE_SERVICE_H
#define GRADUS_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "config/field.h"
#include "metrics/meter.h"
#include "rpc/rpc.h"
#include "service/http.h"
#include "service/tls_settings.h"
#include "service/token_settings.h"

/* Where a master listens, and where everybody looks for one, unless told otherwise. */
#define SERVICE_MASTER_PORT 7000
#define SERVICE_MASTER_ADDRESS "127.0.0.1:7000"

enum service_exit {
    SERVICE_EXIT_OK = 0,
    SERVICE_EXIT_FAILED = 1,
    SERVICE_EXIT_USAGE = 2,
};

#define SERVICE_STOP_MS 10000 /* beyond the grace of drain() and that of the calls in flight */

/* The settings that every service has (--help lists them). */
struct service_config {
    char *listen;
    char *advertise;
    char *http_listen;
    bool http_plain; /* plain HTTP, although the service has TLS */
    int log_level;   /* enum log_level */
    int log_format;  /* enum log_format */
    int64_t grace_ms;
    int64_t message_bytes_max;
    int64_t inflight_bytes_max;
    int64_t connections_max;
    int64_t calls_max;
    int64_t pollers;
    char *local_sockets; /* a directory, "auto" or "off" (local_socket.h) */
    bool shared_memory;  /* between nodes that talk through them (shared_memory.h) */
    char *rules_dir;     /* directory of plug-ins (include/gradus/rule.h); empty: none */
    bool exit_with_parent;
    struct tls_settings tls;
    struct token_settings tokens;
    bool insecure;   /* other hosts may connect without TLS */
    char *audit_log; /* a file; empty: the log */
};

struct service_context;
struct pulse;

/* One gRPC service: rpc_server_add(). @methods borrows. */
struct service_methods {
    const ProtobufCServiceDescriptor *service;
    const struct rpc_method *methods;
    size_t method_count;
    void *ctx;
};

struct service {
    const char *name;           /* "ps": the program is gradus-ps */
    const char *summary;        /* one line for --help */
    const char *listen;         /* default of --listen; NULL: 127.0.0.1 and any free port */
    const struct field *fields; /* rows of the service's own settings */
    size_t field_count;
    size_t config_bytes; /* of the struct that the rows describe; zeroed, then filled */
    const unsigned char *descriptors; /* a packed FileDescriptorSet, for reflection */
    size_t descriptors_bytes;
    bool few_connections;  /* rpc_expect_few_connections() */
    size_t send_bytes_max; /* queued on one stream, as in rpc_server_options */
    bool may_stand_by;     /* service_stand_by() may be called */
    bool local_socket;     /* also listen beside the TCP port (local_socket.h) */
    /* From the settings: --master, to which this service connects, host:port. Without `advertise`
     * the service advertises this host's address toward it. NULL: there is none. */
    const char *(*peer)(const void *config);
    /* From the settings: whether threads may poll before they sleep (poll_setting_parse()); it is
     * checked before start(). NULL: they never poll. */
    const char *(*poll)(const void *config);
    bool server_polls; /* the threads of the RPC server, too */
    /* From the settings: so much longer than others drain() may take, in ms. NULL: no longer. */
    int64_t (*leave_ms)(const void *config);
    /* Check the settings beyond what the rows say, or NULL. Errors end with exit code 2. */
    int (*check)(const void *config, struct err *err);
    /* Make the service's state (service_set_state()) and name its RPC services with
     * service_serve(). The RPC server does not answer yet. When it fails, it has undone what it
     * did. */
    int (*start)(struct service_context *sc, struct err *err);
    /* The addresses are known and calls may come: join a master, start threads. May be NULL. One
     * that waits looks at service_ending(), and fails with ERR_CANCELLED. */
    int (*ready)(struct service_context *sc, struct err *err);
    /* Health says NOT_SERVING: end what is going on within @grace_ms. Calls are still answered. May
     * be NULL. Called when ready() was called, also after it failed. */
    void (*drain)(struct service_context *sc, int64_t grace_ms);
    /* No call comes any more: free the state. Called when start() was well. */
    void (*stop)(struct service_context *sc);
};

/* Runs the service to its end; returns the exit code of the process. */
int service_main(int argc, char **argv, const struct service *svc);

/* ---- for the hooks ---- */

const void *service_config(const struct service_context *sc); /* the service's own; borrows */
const struct service_config *service_common(const struct service_context *sc);
void service_set_state(struct service_context *sc, void *state);
void *service_state(const struct service_context *sc);
struct meter_registry *service_meters(const struct service_context *sc);

/* In start(): serve these methods. Errors: as rpc_server_add(). */
int service_serve(struct service_context *sc, const struct service_methods *methods,
                  struct err *err);
/* In start(): serves pages of its own on the HTTP port, for callers that may call the rows that the
 * pages name. @pages is copied. From before stop() on there are none; requests of before are
 * answered by the end of it. */
void service_serve_pages(struct service_context *sc, const struct http_pages *pages);
/* What others are told to connect to; from ready() on. Borrows. */
const char *service_advertised(const struct service_context *sc);
const char *service_http_advertised(const struct service_context *sc);

/* For channels to other nodes; NULL: plain. Borrows. */
const struct rpc_credentials *service_credentials(const struct service_context *sc);

/* For threads that wait for connections; NULL: they never poll, as where there is no service (@sc
 * NULL). Borrows, to the end of stop(). */
struct rpc_polling *service_polling(const struct service_context *sc);

/* Whether sockets of other nodes on this host are looked for: their directory, or NULL. */
const char *service_local_dir(const struct service_context *sc);

/* Any thread: why /healthz and grpc.health.v1 say no, or NULL for well. @reason is copied. */
void service_set_unhealthy(struct service_context *sc, const char *reason);
/* Any thread: why /readyz says no although the service is well, such as a node that the master does
 * not know yet; NULL: nothing. @reason is copied. */
void service_set_absent(struct service_context *sc, const char *reason);
/* Any thread: calls are refused, with @why and, when it is known ("": it is not), the address of
 * @leader, which would answer them; /readyz says no. Such a service has started, and may wait in
 * ready() for as long as it likes. NULL: it serves. */
void service_stand_by(struct service_context *sc, const char *why, const char *leader);
/* Errors: ERR_UNAVAILABLE it stands by, and why. */
int service_standing_by(struct service_context *sc, struct err *err);
/* In start(): a pulse for pulse_begin() on one of the service's loops. /livez says no when that
 * loop stands still. At most SERVICE_PULSES_MAX; it lives as long as the process. */
struct pulse *service_pulse(struct service_context *sc);
/* Any thread: has a signal asked for the end? */
bool service_ending(struct service_context *sc);

#endif
