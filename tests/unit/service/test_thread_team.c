/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "execution/thread_team.h"
#include "support/wait_until.h"

#define COUNT_MAX 1000

struct loop {
    size_t count, told;
    unsigned tellings;
    pthread_t bringer;
    atomic_uint calls[COUNT_MAX];
};

static void one(void *ctx, size_t i)
{
    struct loop *l = ctx;
    assert_true(i < l->count);
    atomic_fetch_add(&l->calls[i], 1);
}

static void done(void *ctx, size_t n)
{
    struct loop *l = ctx;
    assert_true(pthread_equal(pthread_self(), l->bringer));
    assert_true(n > l->told && n <= l->count);
    for (size_t i = l->told; i < n; i++) {
        assert_int_equal(atomic_load(&l->calls[i]), 1);
    }
    l->told = n;
    l->tellings++;
}

static void run(struct thread_team *c, size_t count, bool tells)
{
    struct loop *l = test_calloc(1, sizeof *l);
    l->count = count;
    l->bringer = pthread_self();
    parallel_for(c, count, one, tells ? done : NULL, l);
    for (size_t i = 0; i < COUNT_MAX; i++) {
        assert_int_equal(atomic_load(&l->calls[i]), i < count);
    }
    assert_true(l->told == (tells ? count : 0));
    test_free(l);
}

static void test_each_round_once_and_told_in_order(void **state)
{
    (void)state;
    struct err err;
    for (unsigned helpers = 0; helpers <= 5; helpers++) {
        struct thread_team *c = thread_team_new(helpers, "test-team", &err);
        assert_non_null(c);
        assert_int_equal(thread_team_size(c), helpers + 1);
        for (size_t count = 0; count < COUNT_MAX; count = count < 8 ? count + 1 : count * 3) {
            for (int again = 0; again < 20; again++) {
                run(c, count, again % 2 == 0);
            }
        }
        thread_team_free(c);
    }
}

/* ---- together ---- */

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned here, all;
};

/* Returns when as many are in it at the same time. */
static void meet(void *ctx, size_t i)
{
    (void)i;
    struct meeting *m = ctx;
    pthread_mutex_lock(&m->lock);
    m->here++;
    pthread_cond_broadcast(&m->changed);
    wait_until_signalled(m->here >= m->all, &m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static void test_all_threads_at_once(void **state)
{
    (void)state;
    struct err err;
    struct thread_team *c = thread_team_new(3, "test-team", &err);
    struct meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER,
                        .all = thread_team_size(c)};
    parallel_for(c, m.all, meet, NULL, &m);
    assert_int_equal(m.here, 4);
    thread_team_free(c);
}

/* ---- several bringers ---- */

static void *bring(void *arg)
{
    for (int i = 0; i < 200; i++) {
        run(arg, 37, true);
    }
    return NULL;
}

struct nested {
    struct thread_team *team;
    atomic_uint calls;
};

static void count_call(void *ctx, size_t i)
{
    (void)i;
    atomic_fetch_add((atomic_uint *)ctx, 1);
}

static void bring_another(void *ctx, size_t i)
{
    struct nested *n = ctx;
    (void)i;
    parallel_for(n->team, 3, count_call, NULL, &n->calls);
}

static void test_who_finds_it_busy_goes_on_alone(void **state)
{
    (void)state;
    struct err err;
    pthread_t threads[3];
    struct thread_team *c = thread_team_new(2, "test-team", &err);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, bring, c), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    struct nested n = {.team = c};
    parallel_for(c, 5, bring_another, NULL, &n); /* from inside a loop: busy for certain */
    assert_int_equal(atomic_load(&n.calls), 15);
    thread_team_free(c);
}

static void test_limits(void **state)
{
    (void)state;
    struct err err;
    assert_null(thread_team_new(THREAD_TEAM_HELPERS_MAX + 1, "test-team", &err));
    assert_int_equal(err.code, ERR_RANGE);
    thread_team_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_round_once_and_told_in_order),
        cmocka_unit_test(test_all_threads_at_once),
        cmocka_unit_test(test_who_finds_it_busy_goes_on_alone),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
