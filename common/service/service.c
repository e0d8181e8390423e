/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a service up, waits and brings it down, in the order that service.h gives. Its health
 * is SERVING from when it is ready until it drains, except while it says that it is unwell. */
#include "service/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/host_cpus.h"
#include "os/host_memory.h"
#include "os/host_threads.h"
#include "os/accept_limit.h"
#include "os/log.h"
#include "base/mem.h"
#include "host/local_socket.h"
#include "service/address.h"
#include "service/own_address.h"
#include "service/service_context.h"
#include "service/service_health.h"
#include "service/service_polling.h"
#include "service/service_rules.h"

/* ---- for the hooks ---- */

const void *service_config(const struct service_context *sc)
{
    return sc->config;
}

const struct service_config *service_common(const struct service_context *sc)
{
    return &sc->common;
}

void service_set_state(struct service_context *sc, void *state)
{
    sc->state = state;
}

void *service_state(const struct service_context *sc)
{
    return sc->state;
}

struct meter_registry *service_meters(const struct service_context *sc)
{
    return sc->meters;
}

int service_serve(struct service_context *sc, const struct service_methods *methods,
                  struct err *err)
{
    return rpc_server_add(sc->rpc, methods->service, methods->methods, methods->method_count,
                          methods->ctx, err);
}

void service_serve_pages(struct service_context *sc, const struct http_pages *pages)
{
    sc->pages = *pages;
}

static const char *service_listening(const struct service_context *sc)
{
    return rpc_server_address(sc->rpc, 0);
}

const char *service_advertised(const struct service_context *sc)
{
    return sc->advertised;
}

const struct rpc_credentials *service_credentials(const struct service_context *sc)
{
    return sc->credentials;
}

const char *service_local_dir(const struct service_context *sc)
{
    return strcmp(sc->common.local_sockets, "off") == 0 ? NULL : sc->common.local_sockets;
}

const char *service_http_advertised(const struct service_context *sc)
{
    return sc->http_advertised;
}

bool service_ending(struct service_context *sc)
{
    return service_signals_ending(sc->signals);
}

/* ---- up ---- */

static void collect(void *ctx)
{
    const struct service_context *sc = ctx;
    meter_set(meter_gauge(sc->meters, "rpc_inflight_bytes",
                          "Bytes received by the gRPC server and not yet worked off", NULL, 0),
              (double)rpc_server_inflight_bytes(sc->rpc));
    meter_set(
        meter_gauge(sc->meters, "rpc_calls", "Calls that the gRPC server has in hand", NULL, 0),
        (double)rpc_server_calls(sc->rpc));
    struct meter *refused =
        meter_total(sc->meters, "connections_refused_total",
                    "Connections that were closed because of connections_max", NULL, 0);
    meter_change(refused, (double)accept_limit_refused() - meter_value(refused));
}

static struct rpc_server *make_rpc_server(const struct service_context *sc, struct err *err)
{
    const char *const addresses[] = {sc->common.listen};
    const struct rpc_server_options options = {
        .addresses = addresses,
        .address_count = 1,
        .pollers = (unsigned)sc->common.pollers,
        .message_bytes_max = (size_t)sc->common.message_bytes_max,
        .inflight_bytes_max = (size_t)sc->common.inflight_bytes_max,
        .calls_max = (size_t)sc->common.calls_max,
        .send_bytes_max = sc->svc->send_bytes_max,
        .grace_ms = sc->common.grace_ms > 0 ? (unsigned)sc->common.grace_ms : 1, /* 0: default */
        .descriptors = sc->svc->descriptors,
        .credentials = sc->credentials,
        .guard = access_guard(sc->access),
        .polling = sc->svc->server_polls ? sc->polling : NULL,
        .descriptors_bytes = sc->svc->descriptors_bytes,
    };
    return rpc_server_new(&options, err);
}

/* The address to which other nodes connect: that of `advertise`, else that on which the service
 * listens. */
static char *find_advertised(const struct service_context *sc)
{
    const struct service_config *c = &sc->common;
    const char *listening = service_listening(sc);
    struct address heard = {0};
    struct address told = {0};
    char text[ADDRESS_BYTES];
    if (address_parse(listening, &heard, NULL) != 0) {
        return mem_strdup(c->advertise[0] != '\0' ? c->advertise : listening); /* unix:/path */
    }
    if (c->advertise[0] == '\0') {
        told = heard;
        if (address_is_any(&heard)) {
            own_address(sc->svc->peer == NULL ? NULL : sc->svc->peer(sc->config), told.host);
        }
    } else if (address_parse(c->advertise, &told, NULL) != 0) {
        (void)snprintf(told.host, sizeof told.host, "%s", c->advertise);
    }
    told.port = told.port != 0 ? told.port : heard.port;
    return mem_strdup(address_format(&told, text, sizeof text));
}

/* The same for the HTTP port: on all addresses, it is at the advertised host. */
static char *find_http_advertised(const char *advertised, const char *listening)
{
    struct address http = {0};
    struct address told = {0};
    char text[ADDRESS_BYTES];
    if (address_parse(listening, &http, NULL) != 0 || !address_is_any(&http) ||
        address_parse(advertised, &told, NULL) != 0) {
        return mem_strdup(listening);
    }
    told.port = http.port;
    return mem_strdup(address_format(&told, text, sizeof text));
}

/* Listens on a local socket. Without one, nodes on this host come by TCP, so that is no failure. */
static void listen_locally(struct service_context *sc)
{
    const char *dir = service_local_dir(sc);
    char path[LOCAL_SOCKET_BYTES];
    char quoted[ERR_MESSAGE_BYTES + 64];
    struct err err;
    if (dir == NULL || !sc->svc->local_socket) {
        return;
    }
    int rc = local_socket_path(dir, sc->advertised, path, &err);
    rc = rc != 0 ? rc : local_socket_prepare(path, &err);
    if (rc == 0) {
        char *address = mem_printf("unix:%s", path);
        rc = rpc_server_bind_also(sc->rpc, address, &err);
        free(address);
    }
    if (rc == 0) {
        log_info("listen_local", "path=%s", path);
    } else {
        log_warn("listen_local", "error=%s", log_quote(err.msg, quoted, sizeof quoted));
    }
}

static void warn_about_open_listener(const char *name, const char *address)
{
    struct address a;
    if (address_parse(address, &a, NULL) == 0 && !address_is_loopback(&a)) {
        log_warn("listen_open", "port=%s address=%s reason=\"other hosts reach it without TLS\"",
                 name, address);
    }
}

static bool serves_https(const struct service_context *sc)
{
    return tls_settings_given(&sc->common.tls) && !sc->common.http_plain;
}

static int token(void *ctx, const char *authorization, struct auth_identity *who, struct err *err)
{
    const struct service_context *sc = ctx;
    return access_token(sc->access, authorization, who, err);
}

static int start_http(struct service_context *sc, struct err *err)
{
    const struct tls_settings *tls = &sc->common.tls;
    const struct tls_files files = {.certificate = tls->cert, .key = tls->key, .ca = tls->ca};
    const struct http_options options = {.address = sc->common.http_listen,
                                         .meters = sc->meters,
                                         .checks = SERVICE_CHECKS,
                                         .check_count = SERVICE_CHECK_COUNT,
                                         .ctx = sc,
                                         .tls = serves_https(sc) ? &files : NULL,
                                         .token = access_takes_tokens(sc->access) ? token : NULL,
                                         .pages = &sc->pages,
                                         .guarded = !access_is_open(sc->access)};
    struct err http_err = {0};
    sc->http = http_start(&options, &http_err);
    if (sc->http == NULL) {
        return err_set(err, http_err.code,
                       "http: %s; another address: --http-listen HOST:PORT or GRADUS_HTTP_LISTEN",
                       http_err.msg);
    }
    return 0;
}

static void limit_connections(const struct service_context *sc)
{
    size_t wanted = (size_t)sc->common.connections_max, can = accept_limit_set(wanted);
    if (can < wanted) {
        log_info("connections_limited",
                 "connections=%zu wanted=%zu reason=\"the system's limit on open files (ulimit "
                 "-n)\"",
                 can, wanted);
    }
}

static int start_ports(struct service_context *sc, struct err *err)
{
    struct err bind_err = {0};
    limit_connections(sc);
    int code = rpc_server_bind(sc->rpc, &bind_err);
    if (code != 0) {
        return err_set(err, code, "%s; another address: --listen HOST:PORT or GRADUS_LISTEN",
                       bind_err.msg);
    }
    sc->advertised = find_advertised(sc);
    listen_locally(sc);
    code = rpc_server_start(sc->rpc, err);
    if (code != 0) {
        return code;
    }
    meter_process(sc->meters, sc->svc->name);
    meter_on_collect(sc->meters, collect, sc);
    code = start_http(sc, err);
    if (code != 0) {
        return code;
    }
    sc->http_advertised = find_http_advertised(sc->advertised, http_address(sc->http));
    if (!rpc_credentials_tls(sc->credentials)) {
        warn_about_open_listener("grpc", service_listening(sc));
    }
    if (!serves_https(sc)) {
        warn_about_open_listener("http", http_address(sc->http));
    }
    return 0;
}

/* Prints the line that says that the service is ready. Health says SERVING before, so a reader of
 * the line may rely on it. Printing fails when the process that started this one is gone. */
static int announce(struct service_context *sc, struct err *err)
{
    service_health_ready(sc);
    log_info("ready", "grpc=%s advertised=%s http=%s pid=%d", service_listening(sc), sc->advertised,
             http_address(sc->http), (int)getpid());
    if (printf("%s ready grpc=%s http=%s\n", sc->program, service_listening(sc),
               http_address(sc->http)) < 0 ||
        fflush(stdout) != 0) {
        return err_errno(err, errno, "write the ready line to stdout");
    }
    return 0;
}

/* ---- one run ---- */

static int serve(struct service_context *sc, struct err *err)
{
    const struct service *svc = sc->svc;
    int code = start_ports(sc, err);
    if (code != 0) {
        return code;
    }
    code = svc->ready != NULL ? svc->ready(sc, err) : 0;
    if (code == 0) {
        code = announce(sc, err);
    }
    if (code == 0) {
        service_signals_wait(sc->signals);
    }
    service_health_draining(sc);
    bool gave_up = code == ERR_CANCELLED && service_ending(sc); /* as it was asked to */
    if (code != 0) {
        service_signals_end(sc->signals); /* so that the end has its deadline here, too */
    }
    if (svc->drain != NULL) {
        svc->drain(sc, sc->common.grace_ms);
    }
    return gave_up ? 0 : code;
}

static int run_service(struct service_context *sc, struct err *err)
{
    struct bearer *bearer = NULL;
    int code = tls_settings_open(&sc->common.tls, true, &sc->credentials, err);
    code = code != 0 ? code : token_settings_open(&sc->common.tokens, &bearer, err);
    if (code != 0) {
        return code;
    }
    const struct access_options access = {.certificates = tls_settings_given(&sc->common.tls),
                                          .bearer = bearer,
                                          .audit_log = sc->common.audit_log,
                                          .meters = sc->meters,
                                          .may_stand_by = sc->svc->may_stand_by};
    sc->access = access_new(&access, err);
    if (sc->access == NULL) {
        return err->code;
    }
    service_polling_start(sc);
    sc->rpc = make_rpc_server(sc, err);
    if (sc->rpc == NULL) {
        return err->code;
    }
    code = sc->svc->start(sc, err);
    if (code == 0) {
        code = serve(sc, err);
        rpc_server_stop(sc->rpc);
        http_close_pages(sc->http);
        sc->svc->stop(sc);
    }
    return code;
}

static int log_failure(int code, const struct err *err)
{
    char quoted[ERR_MESSAGE_BYTES + 64];
    log_error("failed", "code=%s reason=%s", err_code_name(code),
              log_quote(err->msg, quoted, sizeof quoted));
    return SERVICE_EXIT_FAILED;
}

#define THREADS_MIN 20 /* about so many has each service */
#define FILES_MIN 48   /* open, without any connection */

/* Logs what this process has of the machine, so that nobody has to guess where a limit comes from.
 */
static void log_host(void)
{
    const struct host_memory memory = host_memory("");
    const struct host_cpus cpus = host_cpus("");
    log_info("host",
             "memory_bytes=%" PRIu64 " available_bytes=%" PRIu64 " memory_limited_by=%s cpus=%.2f "
             "cpus_limited_by=%s",
             memory.total, memory.available, memory.limited ? "control_group" : "machine",
             cpus.time, cpus.limited ? "control_group" : "machine");
}

int service_run(struct service_context *sc)
{
    struct err err = {0};
    log_init(sc->svc->name, (enum log_level)sc->common.log_level);
    log_set_format((enum log_format)sc->common.log_format);
    log_host();
    if (host_threads_need("", THREADS_MIN, "a service", &err) != 0 ||
        accept_limit_files_need(FILES_MIN, "a service", &err) != 0) {
        return log_failure(err.code, &err);
    }
    /* While there is one thread: plug-ins are tried out in forks of this process. */
    if (service_load_rules(sc->common.rules_dir, &err) != 0) {
        return log_failure(err.code, &err);
    }
    sc->signals =
        service_signals_new(2 * sc->common.grace_ms + SERVICE_STOP_MS +
                                (sc->svc->leave_ms == NULL ? 0 : sc->svc->leave_ms(sc->config)),
                            &err);
    int code = err.code;
    if (sc->signals != NULL) {
        pthread_mutex_init(&sc->lock, NULL);
        if (sc->svc->few_connections) {
            rpc_expect_few_connections();
        }
        rpc_init();
        sc->meters = meter_registry_new();
        code = run_service(sc, &err);
        http_stop(sc->http); /* until here it tells that the service drains */
        rpc_server_free(sc->rpc);
        rpc_polling_free(sc->polling);
        rpc_credentials_free(sc->credentials);
        access_free(sc->access);
        meter_registry_free(sc->meters);
        rpc_shutdown();
        pthread_mutex_destroy(&sc->lock);
        free(sc->advertised);
        free(sc->http_advertised);
        service_signals_free(sc->signals);
    }
    if (code != 0) {
        return log_failure(code, &err);
    }
    log_info("ended", "%s", "");
    return SERVICE_EXIT_OK;
}
