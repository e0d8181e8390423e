/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a service: it is ready, drains, and ends. */
#include "service_rig.h"

#include "os/chrono.h"
#include "support/wait_until.h"

static void test_ready_line_pages_and_clean_end(void **state)
{
    struct fixture *f = *state;
    char grpc[64];
    char http[64];
    START(f, "--flavour", "plum", "--grace-ms=20s");
    child_wait_ready(f);
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
    const char *log = child_log_text(f);
    child_assert_part(log, "level=info service=toy event=ready grpc=");
    child_assert_part(log, "level=info service=toy event=host memory_bytes=");
    child_assert_part(log, "event=signal signal=15\n");
    child_assert_part(log, "event=toy_drain grace_ms=20000\n");
    child_assert_part(log, "event=toy_stop state=plum\n");
    assert_null(strstr(log, "event=listen_open"));
    assert_string_equal(child_stdout_text(f), ""); /* nothing after the line */
}

static void test_interrupt_is_a_clean_end_too(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=plum");
    child_wait_ready(f);
    assert_int_equal(kill(f->child.pid, SIGHUP), 0); /* ignored */
    assert_int_equal(kill(f->child.pid, SIGINT), 0);
    child_assert_exit(f, "exit code 0");
}

/* Wait until the log has @part: the child writes it before it can be waited for. */
static void wait_for_log(struct fixture *f, const char *part)
{
    wait_until(strstr(child_log_text(f), part) != NULL);
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

bool __real_signals_repeats(int signal, uint64_t ms);
bool __wrap_signals_repeats(int signal, uint64_t ms);

/* In the service: however long the machine stands still, a second SIGTERM comes at once. */
bool __wrap_signals_repeats(int signal, uint64_t ms)
{
    return __real_signals_repeats(signal, signal == SIGTERM ? 0 : ms);
}

static void test_draining_shows_and_a_second_signal_ends_at_once(void **state)
{
    struct fixture *f = *state;
    char grpc[64];
    char http[64];
    struct err err = {0};
    rpc_init();
    START(f, "--flavour=plum", "--hang-at-end", "--grace-ms=600s");
    child_wait_ready(f);
    assert_true(spawn_line_value(f->line, "grpc", grpc, sizeof grpc));
    assert_true(spawn_line_value(f->line, "http", http, sizeof http));
    assert_int_equal(grpc_health(grpc), SERVING);
    assert_int_equal(kill(f->child.pid, SIGTERM), 0);
    wait_for_log(f, "event=toy_drain");
    const uint64_t drains_ms = chrono_now_ms();
    assert_int_equal(kill(f->child.pid, SIGTERM), 0); /* the same one again, from elsewhere */
    assert_int_equal(grpc_health(grpc), NOT_SERVING);
    assert_int_equal(http_probe(http, WAIT_MS, &err), ERR_UNAVAILABLE);
    child_assert_part(err.msg, "draining (HTTP 503)");
    rpc_shutdown();
    wait_until(chrono_now_ms() > drains_ms + SIGNALS_REPEAT_INTERRUPT_MS);
    assert_false(spawn_ended(&f->child));
    assert_int_equal(kill(f->child.pid, SIGINT), 0);
    child_assert_exit(f, "exit code 130");
}

static void test_unhealthy(void **state)
{
    struct fixture *f = *state;
    char http[64];
    START(f, "--flavour=plum", "--sick");
    child_wait_ready(f);
    assert_true(spawn_line_value(f->line, "http", http, sizeof http));
    struct err err = {0};
    assert_int_equal(http_probe(http, WAIT_MS, &err), ERR_UNAVAILABLE);
    child_assert_part(err.msg, "the toy is sick (HTTP 503)");
    struct fixture probe = {.log_path = "/dev/null"};
    START(&probe, "--probe", http);
    child_assert_exit(&probe, "exit code 1");
    spawn_release(&probe.child);
    assert_true(spawn_end(&f->child, WAIT_MS));
}

static void test_a_signal_before_it_is_ready(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=late");
    wait_for_log(f, "event=toy_waits late=1");
    assert_int_equal(kill(f->child.pid, SIGTERM), 0);
    child_assert_exit(f, "exit code 0");
    child_assert_part(child_log_text(f), "event=toy_drain");
    child_assert_part(f->text, "event=toy_stop");
    assert_string_equal(child_stdout_text(f), "");
    spawn_release(&f->child);
    START(f, "--flavour=never"); /* nobody asked for the end */
    child_assert_exit(f, "exit code 1");
    child_assert_part(child_log_text(f), "reason=\"the toy gave up\"");
}

static void test_no_orphan_when_the_parent_is_killed(void **state)
{
    struct fixture *f = *state;
    char pid[32];
    /* The service becomes our child when its parent is gone, so that we can wait for it. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    child_start(f, AS_STARTER, (const char *const[]){NULL});
    child_wait_ready(f);
    assert_true(spawn_line_value(f->line, "pid", pid, sizeof pid));
    assert_int_equal(kill(f->child.pid, SIGKILL), 0);
    struct spawn orphan = {.pid = (pid_t)strtol(pid, NULL, 10), .name = strdup("orphan")};
    orphan.stdout_fd = dup(STDIN_FILENO);
    child_assert_exit(f, "signal 9 (Killed)");
    assert_int_equal(spawn_wait(&orphan, WAIT_MS, NULL), 0);
    assert_true(WIFEXITED(orphan.status));
    assert_int_equal(WEXITSTATUS(orphan.status), 0);
    spawn_release(&orphan);
    child_assert_part(child_log_text(f), "event=toy_stop");
}

/* The reader of the ready line is gone before it comes: the service must not stay. */
static void test_nobody_reads_the_ready_line(void **state)
{
    struct fixture *f = *state;
    START(f, "--flavour=plum");
    (void)close(f->child.stdout_fd);
    f->child.stdout_fd = dup(STDIN_FILENO);
    child_assert_exit(f, "exit code 1");
    child_assert_part(child_log_text(f), "ready line");
    child_assert_part(f->text, "event=toy_stop");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], AS_SERVICE) == 0) {
        child_start_foreign_thread();
        return service_main(argc - 1, argv + 1, &TOY);
    }
    if (argc > 1 && strcmp(argv[1], AS_STARTER) == 0) {
        return child_be_starter();
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, child_set_up, child_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_ready_line_pages_and_clean_end),
        TEST(test_interrupt_is_a_clean_end_too),
        TEST(test_draining_shows_and_a_second_signal_ends_at_once),
        TEST(test_unhealthy),
        TEST(test_a_signal_before_it_is_ready),
        TEST(test_no_orphan_when_the_parent_is_killed),
        TEST(test_nobody_reads_the_ready_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
