/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of this process: what is blocked stays blocked from test to test. */
#include "support/test.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "os/signals.h"
#include "support/wait_until.h"

/* A thread that was there before anybody blocked a signal, as libraries make them. */
struct early {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
};

static struct early early = {.lock = PTHREAD_MUTEX_INITIALIZER,
                             .changed = PTHREAD_COND_INITIALIZER};

static void *be_early(void *arg)
{
    struct early *e = arg;
    pthread_mutex_lock(&e->lock);
    wait_until_signalled(e->over, &e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static int block_signals(void **state)
{
    (void)state;
    assert_int_equal(pthread_create(&early.thread, NULL, be_early, &early), 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    signals_block(&set);
    return 0;
}

static int end_early(void **state)
{
    (void)state;
    pthread_mutex_lock(&early.lock);
    early.over = true;
    pthread_cond_signal(&early.changed);
    pthread_mutex_unlock(&early.lock);
    return pthread_join(early.thread, NULL);
}

static int open_for(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    int fd = signals_open(&set, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void assert_comes(int fd, int signal)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_int_equal(signals_read(fd), signal);
    assert_int_equal(signals_read(fd), 0);
}

/* The first test: the thread blocks all of them with the first that reaches it. */
static void test_a_thread_that_was_there_before_sends_it_on(void **state)
{
    (void)state;
    int fd = open_for(SIGUSR1);
    assert_int_equal(pthread_kill(early.thread, SIGUSR1), 0);
    assert_comes(fd, SIGUSR1);
    assert_int_equal(close(fd), 0);
}

static void test_a_signal_is_read(void **state)
{
    (void)state;
    int fd = open_for(SIGUSR1);
    assert_int_equal(signals_read(fd), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kill(getpid(), SIGUSR1), 0);
        assert_comes(fd, SIGUSR1);
    }
    assert_int_equal(close(fd), 0);
}

static void test_a_signal_waits_for_the_descriptor(void **state)
{
    (void)state;
    assert_int_equal(kill(getpid(), SIGUSR2), 0);
    int other = open_for(SIGUSR1);
    int fd = open_for(SIGUSR2);
    assert_comes(fd, SIGUSR2);
    assert_int_equal(signals_read(other), 0);
    assert_int_equal(close(other), 0);
    assert_int_equal(close(fd), 0);
}

/* `timeout` signals its child and the group of it within a moment; people take longer. */
static void test_what_repeats(void **state)
{
    (void)state;
    assert_true(signals_repeats(SIGTERM, 0));
    assert_true(signals_repeats(SIGTERM, 999));
    assert_false(signals_repeats(SIGTERM, 1000));
    assert_true(signals_repeats(SIGINT, 0));
    assert_true(signals_repeats(SIGINT, 99));
    assert_false(signals_repeats(SIGINT, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_that_was_there_before_sends_it_on),
        cmocka_unit_test(test_what_repeats),
        cmocka_unit_test(test_a_signal_is_read),
        cmocka_unit_test(test_a_signal_waits_for_the_descriptor),
    };
    return cmocka_run_group_tests(tests, block_signals, end_early);
}
