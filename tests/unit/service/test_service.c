/* SPDX-License-Identifier: Apache-2.0 */
/* service_main() in processes of its own: this program is also the service that it tests. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "grpc/health/v1/health.pb-c.h"
#include "service/address.h"
#include "service/http.h"
#include "service/service.h"
#include "service/spawn.h"

#define AS_SERVICE "as-service"
#define AS_STARTER "as-starter"

/* ---- the service under test ---- */

struct toy_config {
    char *flavour;
    int64_t size;
    bool hang;
    bool sick;
    bool end;
};

static const struct field toy_fields[] = {
    {.path = "flavour",
     .type = FIELD_STRING,
     .offset = offsetof(struct toy_config, flavour),
     .help = "What it tastes of"},
    {.path = "size",
     .type = FIELD_INT,
     .offset = offsetof(struct toy_config, size),
     .def = "3",
     .min = 1,
     .max = 9,
     .help = "How large it is"},
    {.path = "hang_at_end",
     .type = FIELD_BOOL,
     .offset = offsetof(struct toy_config, hang),
     .def = "false",
     .help = "Never end by itself"},
    {.path = "sick",
     .type = FIELD_BOOL,
     .offset = offsetof(struct toy_config, sick),
     .def = "false",
     .help = "Say that it is not well"},
    {.path = "end",
     .type = FIELD_BOOL,
     .offset = offsetof(struct toy_config, end),
     .def = "false",
     .help = "End with an error"},
};

static int toy_check(const void *config, struct err *err)
{
    const struct toy_config *c = config;
    return strcmp(c->flavour, "soap") == 0
               ? err_set(err, ERR_INVALID, "--flavour: \"soap\" is not food")
               : 0;
}

static int toy_start(struct service_context *sc, struct err *err)
{
    const struct toy_config *c = service_config(sc);
    if (strcmp(c->flavour, "sour") == 0) {
        return err_set(err, ERR_STATE, "the milk \"is\" sour");
    }
    service_set_state(sc, strdup(c->flavour));
    return 0;
}

static int toy_ready(struct service_context *sc, struct err *err)
{
    const struct toy_config *c = service_config(sc);
    bool late = strcmp(c->flavour, "late") == 0;
    log_info("toy_waits", "late=%d", late);
    while (late && !service_ending(sc)) {
        sched_yield();
    }
    if (late || strcmp(c->flavour, "never") == 0) {
        return err_set(err, ERR_CANCELLED, "the toy gave up");
    }
    log_info("toy_ready", "advertised=%s http=%s", service_advertised(sc),
             service_http_advertised(sc));
    if (c->sick) {
        service_set_unhealthy(sc, "the toy is sick");
    }
    if (c->end) {
        const struct err why = {.code = ERR_CORRUPT, .msg = "the toy broke"};
        service_end(sc, &why);
    }
    return 0;
}

static void toy_drain(struct service_context *sc, int64_t grace_ms)
{
    const struct toy_config *c = service_config(sc);
    log_info("toy_drain", "grace_ms=%lld", (long long)grace_ms);
    while (c->hang) {
        pause();
    }
}

static void toy_stop(struct service_context *sc)
{
    log_info("toy_stop", "state=%s", (const char *)service_state(sc));
    free(service_state(sc));
}

static const struct service TOY = {
    .name = "toy",
    .summary = "a service for tests",
    .fields = toy_fields,
    .field_count = sizeof toy_fields / sizeof toy_fields[0],
    .config_bytes = sizeof(struct toy_config),
    .listen = "127.0.0.2:0", /* not what it would be anyway */
    .check = toy_check,
    .start = toy_start,
    .ready = toy_ready,
    .drain = toy_drain,
    .stop = toy_stop,
};

/* ---- the processes ---- */

#define FLAGS_MAX 12
#define WAIT_MS 30000

struct fixture {
    struct spawn child;
    char *dir, *log_path, *config_path;
    char line[SPAWN_LINE_BYTES_MAX];
    char text[16384];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->dir = tmp_dir_make("service");
    f->log_path = file_join(f->dir, "log");
    f->config_path = file_join(f->dir, "toy.yaml");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    spawn_release(&f->child);
    tmp_dir_remove(f->dir);
    free(f->log_path);
    free(f->config_path);
    free(f);
    return 0;
}

/* Start this program as @role with @flags (NULL-terminated). */
static void start(struct fixture *f, const char *role, const char *const *flags)
{
    char *argv[FLAGS_MAX + 3] = {strdup("/proc/self/exe"), strdup(role)};
    size_t n = 2;
    for (size_t i = 0; flags[i] != NULL; i++) {
        assert_true(n < FLAGS_MAX);
        argv[n++] = strdup(flags[i]);
    }
    struct err err = {0};
    if (spawn_start(&f->child, "toy", argv, f->log_path, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    for (size_t i = 0; i < n; i++) {
        free(argv[i]);
    }
}

#define START(f, ...) start(f, AS_SERVICE, (const char *const[]){__VA_ARGS__, NULL})

static void wait_ready(struct fixture *f)
{
    struct err err = {0};
    if (spawn_ready_line(&f->child, f->line, WAIT_MS, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static const char *log_text(struct fixture *f)
{
    FILE *file = fopen(f->log_path, "r");
    assert_non_null(file);
    size_t n = fread(f->text, 1, sizeof f->text - 1, file);
    f->text[n] = '\0';
    (void)fclose(file);
    return f->text;
}

static const char *stdout_text(struct fixture *f)
{
    size_t n = 0;
    for (ssize_t k = 1; k > 0; n += k > 0 ? (size_t)k : 0) {
        k = read(f->child.stdout_fd, f->text + n, sizeof f->text - 1 - n);
    }
    f->text[n] = '\0';
    return f->text;
}

static void assert_exit(struct fixture *f, const char *expected)
{
    char how[64];
    assert_int_equal(spawn_wait(&f->child, WAIT_MS, NULL), 0);
    spawn_describe(&f->child, how, sizeof how);
    if (strcmp(how, expected) != 0) {
        fail_msg("%s instead of %s; log:\n%s", how, expected, log_text(f));
    }
}

static void assert_part(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

/* ---- a life ---- */

static void test_ready_line_pages_and_clean_end(void **state)
{
    struct fixture *f = *state;
    char grpc[64];
    char http[64];
    START(f, "--flavour", "plum", "--grace-ms=2s");
    wait_ready(f);
    assert_int_equal(strncmp(f->line, "gradus-toy ready grpc=127.0.0.2:", 32), 0);
    assert_true(spawn_line_value(f->line, "grpc", grpc, sizeof grpc));
    assert_true(spawn_line_value(f->line, "http", http, sizeof http));
    assert_null(strstr(f->line, ":0"));
    struct err err = {0};
    if (http_probe(http, WAIT_MS, &err) != 0) { /* ready means: everything answers */
        fail_msg("%s", err.msg);
    }
    struct address a;
    assert_int_equal(address_parse(grpc, &a, NULL), 0);
    int fd = address_connect(&a, WAIT_MS, &err);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_true(spawn_end(&f->child, WAIT_MS));
    const char *log = log_text(f);
    assert_part(log, "level=info service=toy event=ready grpc=");
    assert_part(log, "event=signal signal=15\n");
    assert_part(log, "event=toy_drain grace_ms=2000\n");
    assert_part(log, "event=toy_stop state=plum\n");
    assert_null(strstr(log, "event=listen_open"));
    assert_string_equal(stdout_text(f), ""); /* nothing after the line */
}

static void test_interrupt_is_a_clean_end_too(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=plum");
    wait_ready(f);
    assert_int_equal(kill(f->child.pid, SIGHUP), 0); /* ignored */
    assert_int_equal(kill(f->child.pid, SIGINT), 0);
    assert_exit(f, "exit code 0");
}

/* Wait until the log has @part: the child writes it before it can be waited for. */
static void wait_for_log(struct fixture *f, const char *part)
{
    for (int i = 0; i < 3000 && strstr(log_text(f), part) == NULL; i++) {
        (void)spawn_wait(&f->child, 10, NULL);
    }
    assert_part(f->text, part);
}

/* What grpc.health.v1 of the service at @address says. */
static int grpc_health(const char *address)
{
    struct err err = {0};
    const struct rpc_channel_options options = {.target = address};
    struct rpc_channel *channel = rpc_channel_new(&options, &err);
    assert_non_null(channel);
    Grpc__Health__V1__HealthCheckRequest body = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    const struct rpc_request request = {.service = &grpc__health__v1__health__descriptor,
                                        .method = "Check",
                                        .body = &body.base,
                                        .timeout_ms = WAIT_MS};
    struct rpc_msg *reply = NULL;
    if (rpc_call_blocking(channel, &request, &reply, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    int status = (int)((const Grpc__Health__V1__HealthCheckResponse *)reply->body)->status;
    rpc_msg_unref(reply);
    rpc_channel_free(channel);
    return status;
}

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING

static void test_draining_shows_and_a_second_signal_ends_at_once(void **state)
{
    struct fixture *f = *state;
    char grpc[64];
    char http[64];
    struct err err = {0};
    rpc_init();
    START(f, "--flavour=plum", "--hang-at-end");
    wait_ready(f);
    assert_true(spawn_line_value(f->line, "grpc", grpc, sizeof grpc));
    assert_true(spawn_line_value(f->line, "http", http, sizeof http));
    assert_int_equal(grpc_health(grpc), SERVING);
    assert_int_equal(kill(f->child.pid, SIGTERM), 0);
    wait_for_log(f, "event=toy_drain");
    assert_int_equal(grpc_health(grpc), NOT_SERVING);
    assert_int_equal(http_probe(http, WAIT_MS, &err), ERR_UNAVAILABLE);
    assert_part(err.msg, "draining (HTTP 503)");
    rpc_shutdown();
    assert_int_equal(kill(f->child.pid, SIGTERM), 0); /* the same order again, from elsewhere */
    usleep(1000 * SIGNALS_REPEAT_INTERRUPT_MS);
    assert_false(spawn_ended(&f->child));
    assert_int_equal(kill(f->child.pid, SIGINT), 0);
    assert_exit(f, "exit code 130");
}

static void test_the_service_may_end_itself(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=plum", "--end");
    assert_exit(f, "exit code 1");
    assert_part(log_text(f), "event=toy_stop");
    assert_part(f->text, "event=failed code=corrupt reason=\"the toy broke\"\n");
}

static void test_unhealthy(void **state)
{
    struct fixture *f = *state;
    char http[64];
    START(f, "--flavour=plum", "--sick");
    wait_ready(f);
    assert_true(spawn_line_value(f->line, "http", http, sizeof http));
    struct err err = {0};
    assert_int_equal(http_probe(http, WAIT_MS, &err), ERR_UNAVAILABLE);
    assert_part(err.msg, "the toy is sick (HTTP 503)");
    struct fixture probe = {.log_path = "/dev/null"};
    START(&probe, "--probe", http);
    assert_exit(&probe, "exit code 1");
    spawn_release(&probe.child);
    assert_true(spawn_end(&f->child, WAIT_MS));
}

static void test_a_signal_before_it_is_ready(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=late");
    wait_for_log(f, "event=toy_waits late=1");
    assert_int_equal(kill(f->child.pid, SIGTERM), 0);
    assert_exit(f, "exit code 0");
    assert_part(log_text(f), "event=toy_drain");
    assert_part(f->text, "event=toy_stop");
    assert_string_equal(stdout_text(f), "");
    spawn_release(&f->child);
    START(f, "--flavour=never"); /* nobody asked for the end */
    assert_exit(f, "exit code 1");
    assert_part(log_text(f), "reason=\"the toy gave up\"");
}

static void test_a_start_that_fails(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=sour");
    assert_exit(f, "exit code 1");
    assert_part(log_text(f), "reason=\"the milk \\\"is\\\" sour\"\n");
    assert_null(strstr(f->text, "event=toy_stop"));
    assert_string_equal(stdout_text(f), "");
}

static void test_port_in_use(void **state)
{
    struct fixture *f = *state;
    struct address a = {.host = "127.0.0.1"};
    int fd = address_listen(&a, NULL);
    assert_true(fd >= 0);
    char text[ADDRESS_BYTES];
    address_format(&a, text, sizeof text);
    START(f, "--flavour=plum", "--http-listen", text);
    assert_exit(f, "exit code 1");
    assert_part(log_text(f), text);
    assert_part(f->text, "in use");
    spawn_release(&f->child);
    START(f, "--flavour=plum", "--listen", text);
    assert_exit(f, "exit code 1");
    assert_part(log_text(f), "event=failed code=unavailable");
    (void)close(fd);
}

static void test_listening_to_everybody_is_warned_about(void **state)
{
    struct fixture *f = *state;
    char host[128] = "";
    char expected[160];
    START(f, "--flavour=plum", "--listen=0.0.0.0:0", "--advertise=toy.example",
          "--http-listen=0.0.0.0:0");
    wait_ready(f);
    assert_true(spawn_end(&f->child, WAIT_MS));
    assert_part(log_text(f), "event=listen_open port=grpc");
    assert_part(f->text, "event=toy_ready advertised=toy.example:");
    assert_part(f->text, " http=toy.example:");
    assert_null(strstr(f->text, "toy.example:0"));
    spawn_release(&f->child);
    START(f, "--flavour=plum", "--listen=0.0.0.0:0");
    wait_ready(f);
    assert_true(spawn_end(&f->child, WAIT_MS));
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    (void)snprintf(expected, sizeof expected, "event=toy_ready advertised=%s:", host);
    assert_part(log_text(f), expected);
}

/* ---- settings ---- */

static void test_help_version_and_print(void **state)
{
    struct fixture *f = *state;
    START(f, "--help");
    assert_exit(f, "exit code 0");
    assert_part(stdout_text(f), "gradus-toy: a service for tests");
    assert_part(f->text, "hang-at-end");
    assert_part(f->text, "exit-with-parent");
    assert_part(f->text, "What it tastes of\n");
    spawn_release(&f->child);
    START(f, "--version");
    assert_exit(f, "exit code 0");
    assert_string_equal(stdout_text(f), "gradus-toy " GRADUS_VERSION "\n");
    spawn_release(&f->child);
    START(f, "--print-config", "--flavour=a b", "--grace-ms", "1m");
    assert_exit(f, "exit code 0");
    assert_part(stdout_text(f), "flavour: a b  # --flavour\n");
    assert_part(f->text, "size: 3  # default\n");
    assert_part(f->text, "\nlisten: \"127.0.0.2:0\"  # default\n");
    assert_part(f->text, "\nhttp_listen: \"127.0.0.1:0\"  # default\n");
    assert_part(f->text, "grace_ms: 1m  # --grace-ms\n");
}

static void write_config(const struct fixture *f, const char *text)
{
    FILE *file = fopen(f->config_path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_file_then_flags(void **state)
{
    struct fixture *f = *state;
    write_config(f, "flavour: plum\nsize: 5\nlog_level: warn\n");
    START(f, "--print-config", "--size", "7", "--config", f->config_path);
    assert_exit(f, "exit code 0");
    assert_part(stdout_text(f), "flavour: plum  # config file\nsize: 7  # --size\n");
    assert_part(f->text, "log_level: warn  # config file\n");
    write_config(f, f->text); /* what it prints, it reads */
    assert_part(f->text, "shared_memory: true  # default\n");
    spawn_release(&f->child);
    START(f, "--print-config", "--config", f->config_path);
    assert_exit(f, "exit code 0");
    assert_part(stdout_text(f), "flavour: plum  # config file\nsize: 7  # config file\n");
    assert_part(f->text, "shared_memory: true  # config file\n");
    spawn_release(&f->child);
    assert_int_equal(setenv("GRADUS_SIZE", "9", 1), 0);
    START(f, "--print-config", "--config", f->config_path);
    assert_int_equal(unsetenv("GRADUS_SIZE"), 0);
    assert_exit(f, "exit code 0");
    assert_part(stdout_text(f), "flavour: plum  # config file\nsize: 9  # GRADUS_SIZE\n");
}

static void test_bad_files(void **state)
{
    struct fixture *f = *state;
    write_config(f, "flavour: plum\nsize: 50\nflavor: x\n");
    START(f, "--config", f->config_path);
    assert_exit(f, "exit code 2");
    assert_part(log_text(f), "/toy.yaml:2:7: size: ");
    assert_part(f->text, "/toy.yaml:3:1: unknown key 'flavor'; did you mean 'flavour'?");
    static const char *const texts[] = {"- a\n", "flavour: [\n", "flavour: plum\nsize:\n"};
    for (size_t i = 0; i < 3; i++) {
        spawn_release(&f->child);
        write_config(f, texts[i]);
        START(f, "--config", f->config_path, "--flavour=plum");
        assert_exit(f, "exit code 2");
        assert_part(log_text(f), "/toy.yaml:");
    }
    spawn_release(&f->child);
    START(f, "--config=/nonexistent.yaml", "--flavour=plum");
    assert_exit(f, "exit code 2");
    assert_part(log_text(f), "/nonexistent.yaml");
}

static void test_bad_flags(void **state)
{
    static const struct {
        const char *flag;
        const char *value;
        const char *message;
    } rows[] = {
        {"--size=10", NULL, "--size: "},
        {"--flavor", "x", "gradus-toy: unknown flag --flavor; did you mean --flavour?"},
        {"--zzzzzz", NULL, "gradus-toy: unknown flag --zzzzzz; --help lists all"},
        {"--size", NULL, "gradus-toy: --size needs a value"},
        {"plum", NULL, "gradus-toy: unexpected argument 'plum'"},
        {"--flavour=soap", NULL, "gradus-toy: --flavour: \"soap\" is not food"},
        {"--listen", "nowhere", "gradus-toy: --listen: \"nowhere\" has no valid port"},
        {"--http-listen=:80", NULL, "gradus-toy: --http-listen: "},
        {"--advertise=a:b", NULL, "gradus-toy: --advertise: "},
        {"--inflight-bytes-max=1MiB", NULL, "--inflight-bytes-max is smaller than"},
        {"--pollers", "0", "--pollers: "},
        {"--log-level=loud", NULL, "--log-level: "},
        {"--sick=perhaps", NULL, "--sick: "},
        {"--probe", "127.0.0.1:1", "gradus-toy: unknown flag --probe"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        START(f, "--flavour=plum", rows[i].flag, rows[i].value);
        assert_exit(f, "exit code 2");
        assert_part(log_text(f), rows[i].message);
        spawn_release(&f->child);
        (void)unlink(f->log_path);
    }
    START(f, "--probe");
    assert_exit(f, "exit code 2");
    assert_part(log_text(f), "--probe takes HOST:PORT");
    spawn_release(&f->child);
    START(f, "--probe", "nowhere");
    assert_exit(f, "exit code 2");
    assert_part(log_text(f), "\"nowhere\" has no valid port");
    spawn_release(&f->child);
    START(f, "--size=10", "--pollers=x");
    assert_exit(f, "exit code 2"); /* all that is wrong, not just the first thing */
    assert_part(log_text(f), "--size: ");
    assert_part(f->text, "--pollers: ");
    assert_part(f->text, "--flavour is missing: What it tastes of\n");
}

/* As OpenBLAS does: a thread that was there before main() and blocks no signal. */
static void *linger(void *arg)
{
    while (pause() != 0) {
    }
    return arg;
}

static void start_foreign_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, linger, NULL) != 0) {
        abort();
    }
    pthread_detach(thread);
}

/* ---- the parent ---- */

/* A process that starts the service, passes its ready line on, and waits for its own end. */
static int be_starter(void)
{
    struct spawn child = {0};
    char exe[] = "/proc/self/exe";
    char role[] = AS_SERVICE;
    char flavour[] = "--flavour=plum";
    char follow[] = "--exit-with-parent";
    char *const argv[] = {exe, role, flavour, follow, NULL};
    char line[SPAWN_LINE_BYTES_MAX];
    if (spawn_start(&child, "toy", argv, NULL, NULL) != 0 ||
        spawn_ready_line(&child, line, WAIT_MS, NULL) != 0) {
        return 1;
    }
    for (int i = 0; i < 8; i++) {
        start_foreign_thread(); /* the kernel tells of the end of each */
    }
    (void)printf("%s pid=%d\n", line, (int)child.pid);
    (void)fflush(stdout);
    for (;;) {
        pause();
    }
}

static void test_no_orphan_when_the_parent_is_killed(void **state)
{
    struct fixture *f = *state;
    char pid[32];
    /* The service becomes our child when its parent is gone, so that we can wait for it. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    start(f, AS_STARTER, (const char *const[]){NULL});
    wait_ready(f);
    assert_true(spawn_line_value(f->line, "pid", pid, sizeof pid));
    assert_int_equal(kill(f->child.pid, SIGKILL), 0);
    struct spawn orphan = {.pid = (pid_t)strtol(pid, NULL, 10), .name = strdup("orphan")};
    orphan.stdout_fd = dup(STDIN_FILENO);
    assert_exit(f, "signal 9 (Killed)");
    assert_int_equal(spawn_wait(&orphan, WAIT_MS, NULL), 0);
    assert_true(WIFEXITED(orphan.status));
    assert_int_equal(WEXITSTATUS(orphan.status), 0);
    spawn_release(&orphan);
    assert_part(log_text(f), "event=toy_stop");
}

/* The reader of the ready line is gone before it comes: the service must not stay. */
static void test_nobody_reads_the_ready_line(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=plum");
    (void)close(f->child.stdout_fd);
    f->child.stdout_fd = dup(STDIN_FILENO);
    assert_exit(f, "exit code 1");
    assert_part(log_text(f), "ready line");
    assert_part(f->text, "event=toy_stop");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], AS_SERVICE) == 0) {
        start_foreign_thread();
        return service_main(argc - 1, argv + 1, &TOY);
    }
    if (argc > 1 && strcmp(argv[1], AS_STARTER) == 0) {
        return be_starter();
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_ready_line_pages_and_clean_end),
        TEST(test_interrupt_is_a_clean_end_too),
        TEST(test_draining_shows_and_a_second_signal_ends_at_once),
        TEST(test_the_service_may_end_itself),
        TEST(test_unhealthy),
        TEST(test_a_signal_before_it_is_ready),
        TEST(test_a_start_that_fails),
        TEST(test_port_in_use),
        TEST(test_listening_to_everybody_is_warned_about),
        TEST(test_help_version_and_print),
        TEST(test_file_then_flags),
        TEST(test_bad_files),
        TEST(test_bad_flags),
        TEST(test_no_orphan_when_the_parent_is_killed),
        TEST(test_nobody_reads_the_ready_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
