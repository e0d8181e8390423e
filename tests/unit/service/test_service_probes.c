/* SPDX-License-Identifier: Apache-2.0 */
/* What the pages for probes say of a service: live, started, ready, well. */
#include "service_rig.h"

#include <sys/socket.h>

#include "support/wait_until.h"

/* The status of http://@address@path; what it says into @body. */
static int ask(const char *address, const char *path, char *body, size_t n)
{
    struct address a;
    struct err err = {0};
    char text[2048];
    assert_int_equal(address_parse(address, &a, NULL), 0);
    int fd = address_connect(&a, 0, &err);
    if (fd < 0) {
        fail_msg("%s", err.msg);
    }
    int bytes = snprintf(text, sizeof text, "GET %s HTTP/1.0\r\nHost: probe\r\n\r\n", path);
    assert_int_equal(send(fd, text, (size_t)bytes, MSG_NOSIGNAL), bytes);
    size_t have = 0;
    for (ssize_t k = 1; k > 0 && have + 1 < sizeof text; have += k > 0 ? (size_t)k : 0) {
        k = recv(fd, text + have, sizeof text - 1 - have, 0);
    }
    text[have] = '\0';
    (void)close(fd);
    const char *rest = strstr(text, "\r\n\r\n");
    assert_non_null(rest);
    (void)snprintf(body, n, "%s", rest + 4);
    return (int)strtol(text + strlen("HTTP/1.1 "), NULL, 10);
}

static void check(const char *address, const char *path, int status, const char *says)
{
    char body[512];
    if (ask(address, path, body, sizeof body) != status || strstr(body, says) == NULL) {
        fail_msg("%s: not %d with \"%s\": %s", path, status, says, body);
    }
}

static void start_toy(struct fixture *f, const char *flag, char *http, size_t n)
{
    START(f, "--flavour=plum", flag);
    child_wait_ready(f);
    assert_true(spawn_line_value(f->line, "http", http, n));
}

static void test_all_is_well(void **state)
{
    struct fixture *f = *state;
    char http[64];
    start_toy(f, "--size=1", http, sizeof http);
    check(http, "/livez", 200, "ok");
    check(http, "/startupz", 200, "ok");
    check(http, "/readyz", 200, "ok");
    check(http, "/healthz", 200, "ok");
    assert_true(spawn_end(&f->child, WAIT_MS));
}

static void test_who_is_not_known_is_well_but_not_ready(void **state)
{
    struct fixture *f = *state;
    char http[64];
    start_toy(f, "--absent", http, sizeof http);
    check(http, "/livez", 200, "ok");
    check(http, "/startupz", 200, "ok");
    check(http, "/readyz", 503, "nobody knows the toy\n");
    check(http, "/healthz", 200, "ok");
    assert_true(spawn_end(&f->child, WAIT_MS));
}

static void test_who_is_unwell_is_live_but_not_ready(void **state)
{
    struct fixture *f = *state;
    char http[64];
    start_toy(f, "--sick", http, sizeof http);
    check(http, "/livez", 200, "ok");
    check(http, "/readyz", 503, "the toy is sick\n");
    check(http, "/healthz", 503, "the toy is sick\n");
    assert_true(spawn_end(&f->child, WAIT_MS));
}

static void test_a_loop_that_stands_still_is_not_live(void **state)
{
    struct fixture *f = *state;
    char http[64];
    start_toy(f, "--stuck", http, sizeof http);
    check(http, "/livez", 503, "the loop treadmill has not turned for ");
    check(http, "/readyz", 200, "ok");
    assert_true(spawn_end(&f->child, WAIT_MS));
}

/* Who is on its way out must not be started again, but be sent nobody. */
static void test_who_drains_is_live_but_not_ready(void **state)
{
    struct fixture *f = *state;
    char http[64];
    start_toy(f, "--hang-at-end", http, sizeof http);
    assert_int_equal(kill(f->child.pid, SIGTERM), 0);
    wait_until(strstr(child_log_text(f), "event=toy_drain") != NULL);
    check(http, "/livez", 200, "ok");
    check(http, "/startupz", 200, "ok");
    check(http, "/readyz", 503, "draining\n");
    assert_int_equal(kill(f->child.pid, SIGKILL), 0);
    child_assert_exit(f, "signal 9 (Killed)");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], AS_SERVICE) == 0) {
        return service_main(argc - 1, argv + 1, &TOY);
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, child_set_up, child_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_all_is_well),
        TEST(test_who_is_not_known_is_well_but_not_ready),
        TEST(test_who_is_unwell_is_live_but_not_ready),
        TEST(test_a_loop_that_stands_still_is_not_live),
        TEST(test_who_drains_is_live_but_not_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
