/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines are kept until the master has them, what is lost when there are too many, and what
 * is never shown. */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/log.h"
#include "os/log_secret.h"
#include "os/log_tail.h"

static int begin(void **state)
{
    (void)state;
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
    (void)close(nowhere);
    log_tail_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    log_tell(NULL);
    log_tail_told(UINT64_MAX);
    log_tail_job(NULL);
    return 0;
}

/* The oldest line is this one, and goes. */
static void expect(const char *job, const char *event, const char *text, uint64_t lost)
{
    struct log_tail_line line;
    assert_int_equal(log_tail_read(&line, 1, 0), 1);
    assert_string_equal(line.job, job);
    assert_string_equal(line.event, event);
    assert_string_equal(line.text, text);
    assert_int_equal(line.lost, lost);
    log_tail_told(line.number);
    log_tail_release(&line);
}

static void expect_none(void)
{
    struct log_tail_line line;
    assert_int_equal(log_tail_read(&line, 1, 0), 0);
}

static void test_lines_of_jobs(void **state)
{
    (void)state;
    log_info("ready", "grpc=%s", "here");
    log_info("taken", "job=%s x=1", "a-1");
    log_debug("quiet", "job=%s", "a-1");
    log_tail_printed("early");
    log_tail_job("b-2");
    log_warn("lost", "reason=%s", "gone");
    log_warn("of_another", "old_job=%s", "c-3");
    log_tail_printed("loss 0.5\x1b[2J\xff");
    log_tail_job(NULL);
    log_info("drained", "ms=%d", 3);
    expect("a-1", "taken", "job=a-1 x=1", 0);
    expect("b-2", "printed", "early", 0);
    expect("b-2", "lost", "reason=gone", 0);
    expect("b-2", "of_another", "old_job=c-3", 0);
    expect("b-2", "printed", "loss 0.5?[2J\\xFF", 0);
    expect_none();
}

static void test_lines_stay_until_they_are_told(void **state)
{
    (void)state;
    struct log_tail_line first[2], again[3];
    log_info("e", "job=a n=%d", 1);
    log_info("e", "job=a n=%d", 2);
    log_info("e", "job=a n=%d", 3);
    assert_int_equal(log_tail_read(first, 2, SIZE_MAX), 2);
    assert_int_equal(log_tail_read(again, 3, 1), 1); /* the first one in any case */
    assert_int_equal(again[0].number, first[0].number);
    log_tail_release(&again[0]);
    log_tail_told(first[1].number);
    expect("a", "e", "job=a n=3", 0);
    expect_none();
    log_tail_release(&first[0]);
    log_tail_release(&first[1]);
}

static void test_too_many(void **state)
{
    (void)state;
    log_info("e", "job=b n=%d", 0);
    for (int i = 0; i < LOG_TAIL_LINES + 3; i++) {
        log_info("e", "job=a n=%d", i);
    }
    expect("a", "e", "job=a n=3", 3); /* and the line of b is with none of a */
    expect("a", "e", "job=a n=4", 0);
}

static void test_long_lines(void **state)
{
    (void)state;
    static char text[3 * LOG_TAIL_TEXT_BYTES];
    struct log_tail_line line;
    memset(text, 'x', sizeof text - 1);
    log_tail_job("a");
    log_tail_printed(text);
    assert_int_equal(log_tail_read(&line, 1, 0), 1);
    assert_true(strlen(line.text) < LOG_TAIL_TEXT_BYTES);
    assert_string_equal(line.text + strlen(line.text) - 4, "x...");
    log_tail_release(&line);
}

static void test_secrets(void **state)
{
    (void)state;
    static const char *const secrets[] = {
        "password=hunter2hunter2",
        "{\"api_key\": \"0123456789abcdef\"}",
        "Authorization: Bearer abcdefgh12345678",
        "token: 0123456789abcdef0123",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG",
        "AKIAIOSFODNN7EXAMPLE22",
        "gradus_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG",
        "x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc",
        "-----BEGIN RSA PRIVATE KEY-----",
    };
    static const char *const others[] = {
        "loss per token: 2.3", "tokens=123456789", "a secret was found", "job=gradus_1", "",
        "password=",           "token_count=12",
    };
    log_tail_job("a");
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        assert_true(log_has_secret(secrets[i]));
        log_tail_printed(secrets[i]);
        expect("a", "printed", LOG_SECRET_SHOWN, 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(log_has_secret(others[i]));
    }
}

static void test_job_of(void **state)
{
    (void)state;
    char job[LOG_TAIL_JOB_BYTES];
    assert_true(log_job_of("a=1 job=x-1", job));
    assert_string_equal(job, "x-1");
    assert_false(log_job_of("ajob=x-1", job));
    assert_false(log_job_of("job= x", job));
    assert_false(log_job_of("job=\"x y\"", job));
    assert_false(log_job_of("", job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_of_jobs, begin, end),
        cmocka_unit_test_setup_teardown(test_lines_stay_until_they_are_told, begin, end),
        cmocka_unit_test_setup_teardown(test_too_many, begin, end),
        cmocka_unit_test_setup_teardown(test_long_lines, begin, end),
        cmocka_unit_test_setup_teardown(test_secrets, begin, end),
        cmocka_unit_test(test_job_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
