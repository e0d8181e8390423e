/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a service, up to the point where it runs. */
#include "service/service.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/float_mode.h"
#include "base/mem.h"
#include "base/release.h"
#include "config/config.h"
#include "config/man.h"
#include "service/address.h"
#include "service/service_context.h"
#include "service/service_polling.h"
#include "tls/tls_exit.h"

extern char **environ;

#define PROBE_TIMEOUT_MS 3000
#define FIELD_COUNT(table) (sizeof(table) / sizeof(table)[0])

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const log_formats[] = {"text", "json", NULL};
static const char *const tls_clients[] = {"required", "optional", NULL};
static const char *const secrets[] = {TLS_SETTINGS_SECRET, NULL};

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
             "listened on, and for 0.0.0.0 that of this host toward the master"},
    {.path = "http_listen",
     .type = FIELD_STRING,
     .offset = AT(http_listen),
     .def = "127.0.0.1:0",
     .help = "Where /metrics and the pages for probes are served: /livez, /readyz, /startupz, "
             "/healthz; with --tls-cert: HTTPS, and /metrics for holders of a certificate"},
    {.path = "http_plain",
     .type = FIELD_BOOL,
     .offset = AT(http_plain),
     .def = "false",
     .help = "Serve that port without TLS all the same: whoever reaches it reads /metrics"},
    {.path = "log_level",
     .type = FIELD_ENUM,
     .offset = AT(log_level),
     .def = "info",
     .choices = log_levels,
     .help = "Least level of the lines that are logged"},
    {.path = "log_format",
     .type = FIELD_ENUM,
     .offset = AT(log_format),
     .def = "text",
     .choices = log_formats,
     .help = "Lines as key=value, or as a JSON object each, for programs that collect them"},
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
    {.path = "connections_max",
     .type = FIELD_INT,
     .offset = AT(connections_max),
     .def = "8192",
     .min = 16,
     .max = 1000000,
     .help = "Connections to the gRPC port at once, as far as the system's limit on open files "
             "(ulimit -n) lets it; further ones are closed"},
    {.path = "calls_max",
     .type = FIELD_INT,
     .offset = AT(calls_max),
     .def = "16384",
     .min = 16,
     .max = 1000000,
     .help = "gRPC calls at once, over all connections, streams and calls that wait among them; "
             "further ones are refused"},
    {.path = "pollers",
     .type = FIELD_INT,
     .offset = AT(pollers),
     .def = "2",
     .min = 1,
     .max = 64,
     .help = "Threads that serve gRPC; more than there are cores is slower"},
    {.path = "local_sockets",
     .type = FIELD_STRING,
     .offset = AT(local_sockets),
     .def = "auto",
     .help = "Directory of the sockets through which nodes on one host talk, of this user alone; "
             "auto: /tmp/gradus-UID, off: TCP only"},
    {.path = "shared_memory",
     .type = FIELD_BOOL,
     .offset = AT(shared_memory),
     .def = "true",
     .help = "Hand parameters and gradients over in memory where nodes on one host talk through "
             "such a socket"},
    {.path = "rules_dir",
     .type = FIELD_STRING,
     .offset = AT(rules_dir),
     .def = "",
     .help = "Directory of update rules as shared objects, loaded at the start; every program of "
             "the cluster needs the same; empty: none"},
    {.path = "exit_with_parent",
     .type = FIELD_BOOL,
     .offset = AT(exit_with_parent),
     .def = "false",
     .help = "End as after SIGTERM when the process that started this one ends"},
    TLS_SETTINGS_ROWS(struct service_config, tls),
    {.path = "tls_client",
     .type = FIELD_ENUM,
     .offset = AT(tls.client),
     .def = "required",
     .choices = tls_clients,
     .help = "Whether who connects has to show a certificate; optional: a token will do (--tokens, "
             "--jwt-keys)"},
    TOKEN_SETTINGS_ROWS(struct service_config, tokens),
    {.path = "insecure",
     .type = FIELD_BOOL,
     .offset = AT(insecure),
     .def = "false",
     .help = "Listen without TLS where other hosts can connect: whoever reaches the port may do "
             "anything, and read what passes"},
    {.path = "audit_log",
     .type = FIELD_STRING,
     .offset = AT(audit_log),
     .def = "",
     .help = "File to which a line of JSON is appended for each refused call, and of a master for "
             "each job that is submitted, cancelled or changed; empty: events of the log"},
};
#undef AT

static bool other_hosts_connect(const struct service_config *c)
{
    struct address a;
    return address_parse(c->listen, &a, NULL) == 0 && !address_is_loopback(&a);
}

/* A port that other hosts reach is not opened by an oversight. */
static int check_open(const struct service_config *c, struct err *err)
{
    if (!other_hosts_connect(c) || c->insecure || tls_settings_given(&c->tls)) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "--listen %s: other hosts can connect there, and without TLS whoever does may "
                   "do anything; give --tls-cert, --tls-key and --tls-ca (`gradus certificates "
                   "init` makes them), or --insecure",
                   c->listen);
}

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
    if (tls_settings_check(&c->tls, true, err) != 0 || check_open(c, err) != 0 ||
        token_settings_check(&c->tokens, tls_settings_given(&c->tls), other_hosts_connect(c),
                             err) != 0) {
        return err->code;
    }
    if (c->inflight_bytes_max < c->message_bytes_max) {
        return err_set(err, ERR_INVALID,
                       "--inflight-bytes-max is smaller than --message-bytes-max: no message of "
                       "that size could ever be received");
    }
    return 0;
}

static int check_peer(const struct service_context *sc, struct err *err)
{
    if (sc->svc->peer != NULL && rpc_target_check(sc->svc->peer(sc->config), err) != 0) {
        return err_wrap(err, "--master");
    }
    return 0;
}

/* A child of a local cluster must not live on alone. The kernel tells us from now on; a parent that
 * ended before shows as a new parent. One that ended even before we looked at it first shows when
 * the ready line cannot be written. */
static int follow_parent(pid_t parent, struct err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SERVICE_SIGNAL_PARENT) != 0) {
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

/* `--probe HOST:PORT[/PAGE]` alone: asks a running service instead of being one, so it needs no
 * settings. */
static int probe(const struct service_context *sc, int argc, char **argv)
{
    if (argc != 3) {
        return fail(sc, "--probe takes HOST:PORT[/PAGE] of a running service and nothing else",
                    SERVICE_EXIT_USAGE);
    }
    struct err err = {0};
    (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to sockets that the other side may close */
    if (http_probe(argv[2], PROBE_TIMEOUT_MS, &err) != 0) {
        return fail(sc, err.msg,
                    err.code == ERR_INVALID ? SERVICE_EXIT_USAGE : SERVICE_EXIT_FAILED);
    }
    return SERVICE_EXIT_OK;
}

static int check_and_run(struct service_context *sc, pid_t parent)
{
    struct err err = {0};
    if (check_common(&sc->common, &err) != 0 || check_peer(sc, &err) != 0 ||
        service_polling_check(sc, &err) != 0 ||
        (sc->svc->check != NULL && sc->svc->check(sc->config, &err) != 0)) {
        return fail(sc, err.msg, SERVICE_EXIT_USAGE);
    }
    if (sc->common.exit_with_parent && follow_parent(parent, &err) != 0) {
        return fail(sc, err.msg, SERVICE_EXIT_FAILED);
    }
    return service_run(sc);
}

static const char notes[] =
    "Also, alone:\n"
    "  --probe HOST:PORT[/PAGE]\n"
    "      Ask the HTTP port of a running service, with or without TLS, whether it is\n"
    "      well, or for another page (/readyz): exit code 0, or 1 and the reason.\n"
    "\n"
    "Every setting can be given in the environment, too, under the name that stands with it; an "
    "empty variable counts as not set.\n"
    "\n"
    "When it serves, it prints one line: NAME ready grpc=HOST:PORT http=HOST:PORT\n"
    "SIGTERM or SIGINT ends it in order, a second one ends it at once. One that comes within a "
    "second (SIGINT: a tenth of a second) of the first is taken for the same.\n";

static const struct man_entry exits[] = {
    {"0", "ended in order"},
    {"1", "failed"},
    {"2", "wrong arguments or settings"},
    {"128 + signal", "ended at once"},
    {0},
};

static const struct man_about about = {
    .chapter = 8,
    .exits = exits,
    .see_also = "gradus(1), gradus-master(8), gradus-ps(8), gradus-worker(8), gradus-serve(8)",
};

static int obey(struct service_context *sc, const struct config_command *command, int argc,
                char **argv)
{
    pid_t parent = getppid();
    struct config_line line = {0};
    struct diags diags = {0};
    struct buf text = {0};
    int code;
    int wrong = config_read(command, argc - 1, argv + 1, &line, &diags);
    diags_format(&line.warnings, &text);
    (void)fputs(buf_str(&text), stderr);
    buf_reset(&text);
    if (wrong != 0) {
        diags_format(&diags, &text);
        (void)fputs(buf_str(&text), stderr);
        buf_release(&text);
        code = SERVICE_EXIT_USAGE;
    } else if (line.ask == CONFIG_HELP) {
        config_help(command, &text);
        man_exits_help(exits, &text);
        code = print_and_free(&text);
    } else if (line.ask == CONFIG_MAN) {
        config_man(command, &about, &text);
        code = print_and_free(&text);
    } else if (line.ask == CONFIG_PRINT) {
        config_print(command, &line, &text);
        code = print_and_free(&text);
    } else if (line.ask == CONFIG_VERSION) {
        buf_printf(&text, "%s %s\n", sc->program, release_version());
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
    float_mode_flush();
    tls_keep_at_exit();
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
        {"Settings of this service", svc->fields, svc->field_count, sc.config, false},
        {"Settings of every service", common, FIELD_COUNT(common), &sc.common, false},
    };
    const struct config_command command = {
        .program = sc.program,
        .summary = svc->summary,
        .arguments = "",
        .groups = groups,
        .group_count = FIELD_COUNT(groups),
        .file = true,
        .environment = environ,
        .secrets = secrets,
        .notes = notes,
    };
    int code = obey(&sc, &command, argc, argv);
    free(sc.config);
    return code;
}
