/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "service/spawn.h"

/* A log in a directory of its own; the path is gone after the test. */
static int make_log(void **state)
{
    char *path = strdup("/tmp/gradus-spawn-XXXXXX");
    assert_non_null(path);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    *state = path;
    return 0;
}

static int remove_log(void **state)
{
    (void)unlink(*state);
    free(*state);
    return 0;
}

static void start(struct spawn *s, const char *script, const char *log_path)
{
    char sh[] = "/bin/sh";
    char c[] = "-c";
    char *copy = strdup(script);
    char *const argv[] = {sh, c, copy, NULL};
    struct err err = {0};
    if (spawn_start(s, "child", argv, log_path, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    free(copy);
}

static void test_ready_line_and_clean_end(void **state)
{
    struct spawn s = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    char value[64];
    char how[64];
    start(&s,
          "trap 'exit 0' TERM; echo 'gradus-ps ready grpc=1.2.3.4:5 http=x';"
          "while :; do sleep 0.01; done",
          *state);
    assert_int_equal(spawn_ready_line(&s, line, 60000, NULL), 0);
    assert_string_equal(line, "gradus-ps ready grpc=1.2.3.4:5 http=x");
    assert_true(spawn_line_value(line, "grpc", value, sizeof value));
    assert_string_equal(value, "1.2.3.4:5");
    assert_true(spawn_line_value(line, "http", value, sizeof value));
    assert_string_equal(value, "x");
    assert_false(spawn_line_value(line, "rpc", value, sizeof value));
    assert_false(spawn_line_value(line, "grpc", value, 9));
    assert_false(spawn_ended(&s));
    assert_string_equal(spawn_describe(&s, how, sizeof how), "running");
    assert_int_equal(spawn_wait(&s, 0, NULL), ERR_TIMEOUT);
    assert_true(spawn_end(&s, 60000));
    assert_string_equal(spawn_describe(&s, how, sizeof how), "exit code 0");
    spawn_release(&s);
    assert_true(spawn_ended(&s));
}

static void test_an_early_end_says_why(void **state)
{
    struct spawn s = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    struct err err = {0};
    start(&s, "echo first >&2; echo 'port in use' >&2; exit 3", *state);
    assert_int_equal(spawn_ready_line(&s, line, 60000, &err), ERR_ABORTED);
    char *says =
        mem_printf("child ended before it was ready: exit code 3: port in use; its log is %s",
                   (const char *)*state);
    assert_string_equal(err.msg, says);
    free(says);
    spawn_release(&s);
    /* Of a line of a log people need the reason only. */
    start(&s,
          "printf '%s\\n' 'time=1 level=error event=failed reason=\"say \\\"a\\\\n\\\":\\nport in "
          "use\"' >&2;"
          "exit 1",
          *state);
    assert_int_equal(spawn_ready_line(&s, line, 60000, &err), ERR_ABORTED);
    says = mem_printf("child ended before it was ready: exit code 1: "
                      "say \"a\\n\":\nport in use\nits log is %s",
                      (const char *)*state);
    assert_string_equal(err.msg, says);
    free(says);
    spawn_release(&s);
    start(&s,
          "printf '%s\\n' '{\"time\":\"1\",\"event\":\"failed\",\"reason\":\"say \\\"a\\\"\"}' "
          ">&2; exit 1",
          *state);
    assert_int_equal(spawn_ready_line(&s, line, 60000, &err), ERR_ABORTED);
    assert_non_null(strstr(err.msg, "exit code 1: say \"a\"; its log is "));
    spawn_release(&s);
    start(&s,
          "i=0; while [ $i -lt 500 ]; do echo 'line of a long log' >&2; i=$((i + 1)); done;"
          "echo 'port in use' >&2; exit 3",
          *state);
    assert_int_equal(spawn_ready_line(&s, line, 60000, &err), ERR_ABORTED);
    assert_non_null(strstr(err.msg, "exit code 3: port in use; its log is "));
    spawn_release(&s);
    start(&s, "kill -9 $$", NULL);
    assert_int_equal(spawn_ready_line(&s, line, 60000, &err), ERR_ABORTED);
    assert_string_equal(err.msg, "child ended before it was ready: signal 9 (Killed)");
    spawn_release(&s);
}

static void test_never_ready(void **state)
{
    struct spawn s = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    struct err err = {0};
    start(&s, "exec sleep 1000", *state);
    assert_int_equal(spawn_ready_line(&s, line, 20, &err), ERR_TIMEOUT);
    assert_non_null(strstr(err.msg, "child is not ready after 20 ms; its log is /tmp/"));
    pid_t pid = s.pid;
    spawn_release(&s); /* no process is left */
    assert_int_equal(kill(pid, 0), -1);
    start(&s, "head -c 5000 /dev/zero; exec sleep 1000", NULL);
    assert_int_equal(spawn_ready_line(&s, line, 60000, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "longer than"));
    spawn_release(&s);
}

static void test_who_is_late_is_waited_for_again(void **state)
{
    struct spawn s = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    char *go = mem_printf("%s.go", (const char *)*state);
    char *script = mem_printf("printf rea; while [ ! -e %s ]; do sleep 0.01; done; echo dy", go);
    (void)unlink(go);
    start(&s, script, *state);
    assert_int_equal(spawn_ready_line(&s, line, 300, NULL), ERR_TIMEOUT); /* half of it is there */
    assert_int_equal(file_write_atomic(go, "", 0, NULL), 0);
    assert_int_equal(spawn_ready_line(&s, line, 60000, NULL), 0);
    assert_string_equal(line, "ready");
    spawn_release(&s);
    (void)unlink(go);
    free(script);
    free(go);
}

static void test_one_that_ignores_the_request_is_killed(void **state)
{
    (void)state;
    struct spawn s = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    char how[64];
    start(&s, "trap '' TERM; echo ready; while :; do sleep 0.01; done", NULL);
    assert_int_equal(spawn_ready_line(&s, line, 60000, NULL), 0);
    assert_false(spawn_end(&s, 50));
    assert_string_equal(spawn_describe(&s, how, sizeof how), "signal 9 (Killed)");
    assert_false(spawn_end(&s, 50)); /* again is fine */
    spawn_release(&s);
}

static void test_the_child_inherits_nothing(void **state)
{
    (void)state;
    struct spawn s = {0};
    char line[SPAWN_LINE_BYTES_MAX];
    sigset_t term;
    sigset_t old;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &old);
    int extra = dup(STDERR_FILENO);
    char script[128];
    (void)snprintf(script, sizeof script,
                   "test -e /proc/self/fd/%d && echo open || echo closed; exec sleep 1000", extra);
    start(&s, script, NULL);
    (void)close(extra);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    assert_int_equal(spawn_ready_line(&s, line, 60000, NULL), 0);
    assert_string_equal(line, "closed");
    assert_int_equal(getpgid(s.pid), s.pid);
    spawn_ask_end(&s); /* works only when it is not blocked there */
    assert_int_equal(spawn_wait(&s, 60000, NULL), 0);
    spawn_release(&s);
}

static void test_no_such_program(void **state)
{
    (void)state;
    struct spawn s = {0};
    char path[] = "/nonexistent/gradus-ps";
    char *const argv[] = {path, NULL};
    struct err err = {0};
    assert_int_equal(spawn_start(&s, "ps 1", argv, NULL, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "start ps 1: /nonexistent/gradus-ps: "));
    assert_true(spawn_ended(&s));
    spawn_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ready_line_and_clean_end, make_log, remove_log),
        cmocka_unit_test_setup_teardown(test_an_early_end_says_why, make_log, remove_log),
        cmocka_unit_test_setup_teardown(test_never_ready, make_log, remove_log),
        cmocka_unit_test_setup_teardown(test_who_is_late_is_waited_for_again, make_log, remove_log),
        cmocka_unit_test(test_one_that_ignores_the_request_is_killed),
        cmocka_unit_test(test_the_child_inherits_nothing),
        cmocka_unit_test(test_no_such_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
