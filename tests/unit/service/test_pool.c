/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "execution/pool.h"
#include "support/wait_until.h"

/* A gate that tasks wait at until the test opens it. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived;
    bool open;
    atomic_int ran;
};

#define GATE                                                                                       \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static void wait_at_gate(void *ctx)
{
    struct gate *g = ctx;
    pthread_mutex_lock(&g->lock);
    g->arrived++;
    pthread_cond_broadcast(&g->changed);
    wait_until_signalled(g->open, &g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    atomic_fetch_add(&g->ran, 1);
}

static void wait_for_arrivals(struct gate *g, int count)
{
    pthread_mutex_lock(&g->lock);
    wait_until_signalled(g->arrived >= count, &g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void open_gate(void *ctx)
{
    struct gate *g = ctx;
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void test_threads_work_at_once_and_the_queue_is_bounded(void **state)
{
    (void)state;
    struct err err = {0};
    struct pool *p = pool_new(2, 3, "test-pool", &err);
    assert_non_null(p);
    struct gate g = GATE;
    assert_int_equal(pool_post(p, wait_at_gate, &g, &err), 0);
    assert_int_equal(pool_post(p, wait_at_gate, &g, &err), 0);
    wait_for_arrivals(&g, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pool_post(p, wait_at_gate, &g, &err), 0);
    }
    assert_int_equal(pool_post(p, wait_at_gate, &g, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "3 tasks"));
    open_gate(&g);
    pool_drain(p); /* runs what waits */
    assert_int_equal(atomic_load(&g.ran), 5);
    assert_int_equal(pool_post(p, wait_at_gate, &g, &err), ERR_STATE);
    pool_drain(p);
    pool_free(p);
}

static void test_one_thread_can_wait_for_another(void **state)
{
    (void)state;
    struct pool *p = pool_new(2, 4, "test-pool", NULL);
    struct gate g = GATE;
    assert_int_equal(pool_post(p, wait_at_gate, &g, NULL), 0);
    assert_int_equal(pool_post(p, open_gate, &g, NULL), 0);
    pool_free(p);
    assert_int_equal(atomic_load(&g.ran), 1);
}

static void test_limits(void **state)
{
    (void)state;
    struct err err = {0};
    assert_null(pool_new(0, 1, "test-pool", &err));
    assert_int_equal(err.code, ERR_RANGE);
    assert_null(pool_new(POOL_THREADS_MAX + 1, 1, "test-pool", &err));
    assert_null(pool_new(1, 0, "test-pool", &err));
    assert_null(pool_new(1, POOL_QUEUE_MAX + 1, "test-pool", &err));
    pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_work_at_once_and_the_queue_is_bounded),
        cmocka_unit_test(test_one_thread_can_wait_for_another),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
