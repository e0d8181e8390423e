#include "service/service.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/config.h"
#include "service/address.h"
#include "service/http.h"
#include "service/service_signals.h"

#define REASON_BYTES 256
#define PROBE_TIMEOUT_MS 3000
#define FIELD_COUNT(table) (sizeof(table) / sizeof(table)[0])

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};

#define AT(member) offsetof(struct service_config, member)
static const struct field common_fields[] = {
    {.path = "listen",
     .type = FIELD_STRING,
     .offset = AT(listen),
     .def = "127.0.0.1:0",
     .help =
         "Where the gRPC server listens; host:port with port 0 for any free one, or unix:/path"},
    {.path = "advertise",
     .type = FIELD_STRING,
     .offset = AT(advertise),
     .def = "",
     .help = "Address that other nodes are told, host or host:port; empty: the one that is "
             "listened on, with the name of this host for 0.0.0.0"},
    {.path = "http_listen",
     .type = FIELD_STRING,
     .offset = AT(http_listen),
     .def = "127.0.0.1:0",
     .help = "Where /metrics and /healthz are served"},
    {.path = "log_level",
     .type = FIELD_ENUM,
     .offset = AT(log_level),
     .def = "info",
     .choices = log_levels,
     .help = "Least level of the lines that are logged"},
    {.path = "grace_ms",
     .type = FIELD_MS,
     .offset = AT(grace_ms),
     .def = "5s",
     .min = 0,
     .max = 600000,
     .help = "Time for what is going on after the first SIGTERM"},
    {.path = "message_bytes_max",
     .type = FIELD_BYTES,
     .offset = AT(message_bytes_max),
     .def = "64MiB",
     .min = 65536,
     .max = 2147483647,
     .help = "Largest gRPC message"},
    {.path = "inflight_bytes_max",
     .type = FIELD_BYTES,
     .offset = AT(inflight_bytes_max),
     .def = "512MiB",
     .min = 65536,
     .max = 1e15,
     .help = "Bytes received and not yet worked off, over all connections"},
    {.path = "pollers",
     .type = FIELD_INT,
     .offset = AT(pollers),
     .def = "2",
     .min = 1,
     .max = 64,
     .help = "Threads that serve gRPC; more than there are cores is slower"},
    {.path = "exit_with_parent",
     .type = FIELD_BOOL,
     .offset = AT(exit_with_parent),
     .def = "false",
     .help = "End as after SIGTERM when the process that started this one ends"},
};
#undef AT

struct service_context {
    const struct service *svc;
    struct service_config common;
    void *config;
    void *state;
    char program[64];
    struct meter_registry *meters;
    struct service_signals *signals;
    struct rpc_server *rpc;
    struct http *http;
    char *advertised;

    pthread_mutex_t lock; /* guards what follows */
    bool ready;
    bool draining;
    bool serving;              /* what the RPC server was told */
    char reason[REASON_BYTES]; /* empty: well */
    struct err end;            /* of service_end(); code 0: none */
};

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

struct rpc_server *service_rpc_server(const struct service_context *sc)
{
    return sc->rpc;
}

const char *service_listening(const struct service_context *sc)
{
    return rpc_server_address(sc->rpc, 0);
}

const char *service_advertised(const struct service_context *sc)
{
    return sc->advertised;
}

/* The lock is held, so that the RPC server hears of changes in their order; it calls nobody back.
 */
static void tell_health(struct service_context *sc)
{
    bool serving = sc->ready && !sc->draining && sc->reason[0] == '\0';
    if (serving != sc->serving) {
        sc->serving = serving;
        rpc_server_set_serving(sc->rpc, serving);
    }
}

void service_set_unhealthy(struct service_context *sc, const char *reason)
{
    pthread_mutex_lock(&sc->lock);
    (void)snprintf(sc->reason, sizeof sc->reason, "%s", reason != NULL ? reason : "");
    tell_health(sc);
    pthread_mutex_unlock(&sc->lock);
}

bool service_ending(struct service_context *sc)
{
    return service_signals_ending(sc->signals);
}

void service_end(struct service_context *sc, const struct err *err)
{
    pthread_mutex_lock(&sc->lock);
    if (err != NULL && sc->end.code == 0) {
        sc->end = *err;
    }
    pthread_mutex_unlock(&sc->lock);
    service_signals_end(sc->signals);
}

/* ---- up ---- */

static bool is_healthy(void *ctx, char *reason, size_t n)
{
    struct service_context *sc = ctx;
    pthread_mutex_lock(&sc->lock);
    const char *why = !sc->ready ? "starting" : sc->draining ? "draining" : sc->reason;
    (void)snprintf(reason, n, "%s", why);
    pthread_mutex_unlock(&sc->lock);
    return reason[0] == '\0';
}

static void collect(void *ctx)
{
    const struct service_context *sc = ctx;
    meter_set(meter_gauge(sc->meters, "rpc_inflight_bytes",
                          "Bytes received by the gRPC server and not yet worked off", NULL, 0),
              (double)rpc_server_inflight_bytes(sc->rpc));
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
        .grace_ms = sc->common.grace_ms > 0 ? (unsigned)sc->common.grace_ms : 1, /* 0: default */
        .descriptors = sc->svc->descriptors,
        .descriptors_bytes = sc->svc->descriptors_bytes,
    };
    return rpc_server_new(&options, err);
}

/* What other nodes connect to: the words of `advertise` first, then what is listened on. */
static char *find_advertised(const struct service_config *c, const char *listening)
{
    struct address heard = {0};
    struct address told = {0};
    char text[ADDRESS_BYTES];
    if (address_parse(listening, &heard, NULL) != 0) {
        return mem_strdup(c->advertise[0] != '\0' ? c->advertise : listening); /* unix:/path */
    }
    if (c->advertise[0] == '\0') {
        told = heard;
        if (address_is_any(&heard)) {
            (void)gethostname(told.host, sizeof told.host - 1);
        }
    } else if (address_parse(c->advertise, &told, NULL) != 0) {
        (void)snprintf(told.host, sizeof told.host, "%s", c->advertise);
    }
    told.port = told.port != 0 ? told.port : heard.port;
    return mem_strdup(address_format(&told, text, sizeof text));
}

static void warn_about_open_listener(const char *name, const char *address)
{
    struct address a;
    if (address_parse(address, &a, NULL) == 0 && !address_is_loopback(&a)) {
        log_warn("listen_open", "port=%s address=%s reason=\"other hosts reach it without TLS\"",
                 name, address);
    }
}

static int start_ports(struct service_context *sc, struct err *err)
{
    int code = rpc_server_start(sc->rpc, err);
    if (code != 0) {
        return code;
    }
    sc->advertised = find_advertised(&sc->common, service_listening(sc));
    meter_process(sc->meters, sc->svc->name);
    meter_on_collect(sc->meters, collect, sc);
    const struct http_options options = {
        .address = sc->common.http_listen, .meters = sc->meters, .healthy = is_healthy, .ctx = sc};
    struct err http_err = {0};
    sc->http = http_start(&options, &http_err);
    if (sc->http == NULL) {
        return err_set(err, http_err.code, "http: %s", http_err.msg);
    }
    warn_about_open_listener("grpc", service_listening(sc));
    warn_about_open_listener("http", http_address(sc->http));
    return 0;
}

/* Well first, then the line: who has read it may rely on it. It cannot be written when the process
 * that started us is gone. */
static int announce(struct service_context *sc, struct err *err)
{
    pthread_mutex_lock(&sc->lock);
    sc->ready = true;
    tell_health(sc);
    pthread_mutex_unlock(&sc->lock);
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
        (void)service_signals_wait(sc->signals);
    }
    pthread_mutex_lock(&sc->lock);
    sc->draining = true;
    tell_health(sc);
    pthread_mutex_unlock(&sc->lock);
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
    sc->signals = service_signals_new(2 * sc->common.grace_ms + SERVICE_STOP_MS, err);
    if (sc->signals == NULL) {
        return err->code;
    }
    sc->rpc = make_rpc_server(sc, err);
    if (sc->rpc == NULL) {
        return err->code;
    }
    int code = sc->svc->start(sc, err);
    if (code == 0) {
        code = serve(sc, err);
        rpc_server_stop(sc->rpc);
        sc->svc->stop(sc);
    }
    return code;
}

static int run(struct service_context *sc)
{
    struct err err = {0};
    log_init(sc->svc->name, (enum log_level)sc->common.log_level);
    pthread_mutex_init(&sc->lock, NULL);
    rpc_init();
    sc->meters = meter_registry_new();
    int code = run_service(sc, &err);
    http_stop(sc->http); /* until here it tells that we drain */
    rpc_server_free(sc->rpc);
    service_signals_free(sc->signals);
    meter_registry_free(sc->meters);
    rpc_shutdown();
    pthread_mutex_destroy(&sc->lock);
    free(sc->advertised);
    if (code == 0 && sc->end.code != 0) {
        code = sc->end.code;
        err = sc->end;
    }
    char quoted[ERR_MESSAGE_BYTES + 64];
    if (code != 0) {
        log_error("failed", "code=%s reason=%s", err_code_name(code),
                  log_quote(err.msg, quoted, sizeof quoted));
        return SERVICE_EXIT_FAILED;
    }
    log_info("ended", "%s", "");
    return SERVICE_EXIT_OK;
}

/* ---- command line ---- */

/* Beyond what a row can say. */
static int check_common(const struct service_config *c, struct err *err)
{
    struct address a;
    if (strncmp(c->listen, "unix:", 5) != 0 && address_parse(c->listen, &a, err) != 0) {
        return err_wrap(err, "--listen");
    }
    if (address_parse(c->http_listen, &a, err) != 0) {
        return err_wrap(err, "--http-listen");
    }
    if (strchr(c->advertise, ':') != NULL && strncmp(c->advertise, "unix:", 5) != 0 &&
        address_parse(c->advertise, &a, err) != 0) {
        return err_wrap(err, "--advertise");
    }
    if (c->inflight_bytes_max < c->message_bytes_max) {
        return err_set(err, ERR_INVALID,
                       "--inflight-bytes-max is smaller than --message-bytes-max: no message of "
                       "that size could ever be received");
    }
    return 0;
}

/* A child of a local cluster must not live on alone. The kernel tells us from now on; a parent that
 * ended before shows as a new parent. One that ended even before we looked at it first shows when
 * the ready line cannot be written. */
static int follow_parent(pid_t parent, struct err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
        return err_errno(err, errno, "ask to be told when the parent process ends");
    }
    if (getppid() != parent) {
        return err_set(err, ERR_ABORTED, "the process that started this one has ended");
    }
    return 0;
}

static int print_and_free(struct buf *out)
{
    bool ok = fputs(buf_str(out), stdout) >= 0 && fflush(stdout) == 0;
    buf_release(out);
    return ok ? SERVICE_EXIT_OK : SERVICE_EXIT_FAILED;
}

static int fail(const struct service_context *sc, const char *message, int exit_code)
{
    (void)fprintf(stderr, "%s: %s\n", sc->program, message);
    return exit_code;
}

/* `--probe HOST:PORT` alone: asks a running service instead of being one, so it needs no settings.
 */
static int probe(const struct service_context *sc, int argc, char **argv)
{
    if (argc != 3) {
        return fail(sc, "--probe takes HOST:PORT of a running service and nothing else",
                    SERVICE_EXIT_USAGE);
    }
    struct err err = {0};
    if (http_probe(argv[2], PROBE_TIMEOUT_MS, &err) != 0) {
        return fail(sc, err.msg,
                    err.code == ERR_INVALID ? SERVICE_EXIT_USAGE : SERVICE_EXIT_FAILED);
    }
    return SERVICE_EXIT_OK;
}

static int check_and_run(struct service_context *sc, pid_t parent)
{
    struct err err = {0};
    if (check_common(&sc->common, &err) != 0 ||
        (sc->svc->check != NULL && sc->svc->check(sc->config, &err) != 0)) {
        return fail(sc, err.msg, SERVICE_EXIT_USAGE);
    }
    if (sc->common.exit_with_parent && follow_parent(parent, &err) != 0) {
        return fail(sc, err.msg, SERVICE_EXIT_FAILED);
    }
    service_signals_block();
    return run(sc);
}

static const char notes[] =
    "Also, alone:\n"
    "  --probe HOST:PORT\n"
    "      Ask the HTTP port of a running service whether it is well: exit code 0 or 1.\n"
    "\n"
    "When it serves, it prints one line: NAME ready grpc=HOST:PORT http=HOST:PORT\n"
    "SIGTERM or SIGINT ends it in order, a second one at once. Exit codes: 0 ended in order,\n"
    "1 failed, 2 wrong arguments or settings, 128 + signal ended at once.\n";

static int obey(struct service_context *sc, const struct config_command *command, int argc,
                char **argv)
{
    pid_t parent = getppid();
    struct config_line line = {0};
    struct diags diags = {0};
    struct buf text = {0};
    int code;
    if (config_read(command, argc - 1, argv + 1, &line, &diags) != 0) {
        diags_format(&diags, &text);
        (void)fputs(buf_str(&text), stderr);
        buf_release(&text);
        code = SERVICE_EXIT_USAGE;
    } else if (line.ask == CONFIG_HELP) {
        config_help(command, &text);
        code = print_and_free(&text);
    } else if (line.ask == CONFIG_PRINT) {
        config_print(command, &text);
        code = print_and_free(&text);
    } else if (line.ask == CONFIG_VERSION) {
        buf_printf(&text, "%s %s\n", sc->program, GRADUS_VERSION);
        code = print_and_free(&text);
    } else {
        code = check_and_run(sc, parent);
    }
    diags_release(&diags);
    config_release(command, &line);
    return code;
}

int service_main(int argc, char **argv, const struct service *svc)
{
    struct service_context sc = {.svc = svc};
    (void)snprintf(sc.program, sizeof sc.program, "gradus-%s", svc->name);
    if (argc > 1 && strcmp(argv[1], "--probe") == 0) {
        return probe(&sc, argc, argv);
    }
    sc.config = mem_new(1, svc->config_bytes > 0 ? svc->config_bytes : 1);
    struct field common[FIELD_COUNT(common_fields)];
    memcpy(common, common_fields, sizeof common);
    if (svc->listen != NULL) {
        common[0].def = svc->listen;
    }
    const struct config_group groups[] = {
        {"Settings of this service", svc->fields, svc->field_count, sc.config},
        {"Settings of every service", common, FIELD_COUNT(common), &sc.common},
    };
    const struct config_command command = {
        .program = sc.program,
        .summary = svc->summary,
        .arguments = "",
        .groups = groups,
        .group_count = FIELD_COUNT(groups),
        .file = true,
        .notes = notes,
    };
    int code = obey(&sc, &command, argc, argv);
    free(sc.config);
    return code;
}
