/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "execution/loop.h"
#include "os/chrono.h"
#include "support/wait_until.h"

struct trace {
    struct loop *loop;
    char text[64];
    size_t length;
};

struct mark {
    struct trace *trace;
    char name;
    struct loop_timer timer;
};

static void run_mark(void *ctx)
{
    struct mark *m = ctx;
    m->trace->text[m->trace->length++] = m->name;
}

static void run_stop(void *ctx)
{
    struct mark *m = ctx;
    run_mark(ctx);
    loop_stop(m->trace->loop);
}

static void test_messages_run_in_order_until_the_stop(void **state)
{
    (void)state;
    struct loop *loop = loop_new(0);
    struct trace t = {.loop = loop};
    struct mark marks[4] = {{&t, 'a', {0}}, {&t, 'b', {0}}, {&t, 'S', {0}}, {&t, 'c', {0}}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(loop_post(loop, i == 2 ? run_stop : run_mark, &marks[i], NULL), 0);
    }
    assert_int_equal(loop_waiting(loop), 4);
    loop_run(loop);
    assert_string_equal(t.text, "abSc"); /* what was posted before the stop still runs */
    struct err err = {0};
    assert_int_equal(loop_post(loop, run_mark, &marks[0], &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "stopped"));
    loop_free(loop);
}

static void test_a_full_mailbox_is_an_error(void **state)
{
    (void)state;
    struct loop *loop = loop_new(2);
    struct trace t = {.loop = loop};
    struct mark a = {&t, 'a', {0}};
    struct err err = {0};
    assert_int_equal(loop_post(loop, run_mark, &a, &err), 0);
    assert_int_equal(loop_post(loop, run_mark, &a, &err), 0);
    assert_int_equal(loop_post(loop, run_mark, &a, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "2 messages"));
    assert_false(loop_discarding(loop));
    loop_free(loop); /* discards, by running them */
    assert_string_equal(t.text, "aa");
}

static void test_timers_run_by_deadline_then_by_setting(void **state)
{
    (void)state;
    struct loop *loop = loop_new(0);
    struct trace t = {.loop = loop};
    struct mark marks[] = {{&t, 'a', {0}}, {&t, 'b', {0}}, {&t, 'c', {0}},
                           {&t, 'd', {0}}, {&t, 'e', {0}}, {&t, 'S', {0}}};
    uint64_t now_ms = chrono_now_ms();
    const uint64_t after_ms[] = {30, 10, 10, 500000, 20, 40};
    for (size_t i = 0; i < 6; i++) {
        loop_timer_set(loop, &marks[i].timer, now_ms + after_ms[i], i == 5 ? run_stop : run_mark,
                       &marks[i]);
    }
    loop_timer_set(loop, &marks[4].timer, now_ms + 35, run_mark, &marks[4]); /* moved back */
    loop_timer_clear(loop, &marks[0].timer);
    loop_timer_clear(loop, &marks[0].timer);
    loop_run(loop);
    assert_true(chrono_now_ms() >= now_ms + 40);
    assert_string_equal(t.text, "bceS");
    loop_free(loop);
}

struct many {
    struct loop *loop;
    uint64_t last_ms;
    int ran;
    int wrong;
};

struct one_of_many {
    struct many *many;
    struct loop_timer timer;
};

static void check_order(void *ctx)
{
    const struct one_of_many *one = ctx;
    struct many *m = one->many;
    m->wrong += one->timer.deadline_ms < m->last_ms;
    m->last_ms = one->timer.deadline_ms;
    if (++m->ran == 100) {
        loop_stop(m->loop);
    }
}

/* The heap against the definition: whatever was set, moved and cleared, timers run sorted. */
static void test_many_timers_run_sorted(void **state)
{
    (void)state;
    struct many m = {.loop = loop_new(0)};
    static struct one_of_many timers[200];
    uint64_t start_ms = chrono_now_ms();
    uint32_t random = 1;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++) {
            random = random * 1664525U + 1013904223U;
            timers[i].many = &m;
            loop_timer_set(m.loop, &timers[i].timer, start_ms + (random >> 16) % 50, check_order,
                           &timers[i]);
        }
    }
    for (size_t i = 0; i < 200; i += 2) {
        loop_timer_clear(m.loop, &timers[i].timer);
    }
    loop_run(m.loop);
    assert_int_equal(m.ran, 100);
    assert_int_equal(m.wrong, 0);
    loop_free(m.loop);
}

static void set_again(void *ctx)
{
    struct mark *m = ctx;
    run_mark(ctx);
    if (m->trace->length < 4) {
        loop_timer_set(m->trace->loop, &m->timer, 0, set_again, m);
    } else {
        loop_stop(m->trace->loop);
    }
}

static void test_a_timer_in_the_past_keeps_nobody_out(void **state)
{
    (void)state;
    struct loop *loop = loop_new(0);
    struct trace t = {.loop = loop};
    struct mark again = {&t, 'r', {0}};
    struct mark other = {&t, 'o', {0}};
    loop_timer_set(loop, &again.timer, 0, set_again, &again);
    loop_timer_set(loop, &other.timer, 0, run_mark, &other);
    loop_run(loop);
    assert_string_equal(t.text, "rorr");
    loop_free(loop);
}

enum { THREADS = 4, POSTS = 20000 };

struct counter {
    struct loop *loop;
    long ran; /* of the loop's thread */
    long refused[THREADS];
};

static void count(void *ctx)
{
    struct counter *c = ctx;
    c->ran++;
}

struct poster {
    struct counter *counter;
    int thread;
};

static void *post_all(void *arg)
{
    struct poster *p = arg;
    for (int i = 0; i < POSTS; i++) {
        int code = loop_post(p->counter->loop, count, p->counter, NULL);
        p->counter->refused[p->thread] += code == ERR_EXHAUSTED;
    }
    return NULL;
}

static void read_count(void *ctx)
{
    long *out = ((void **)ctx)[1];
    *out = ((struct counter *)((void **)ctx)[0])->ran;
}

static void test_posts_from_many_threads(void **state)
{
    (void)state;
    struct counter c = {.loop = loop_new(128)};
    assert_int_equal(loop_start(c.loop, "test-loop", NULL), 0);
    pthread_t threads[THREADS];
    struct poster posters[THREADS];
    for (int i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){&c, i};
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    long refused = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        refused += c.refused[i];
    }
    long ran = 0;
    void *args[2] = {&c, &ran};
    int code = 0; /* the mailbox may still be full */
    wait_until((code = loop_call(c.loop, read_count, args, NULL)) != ERR_EXHAUSTED);
    assert_int_equal(code, 0);
    assert_int_equal(ran + refused, THREADS * POSTS);
    loop_stop(c.loop);
    loop_join(c.loop);
    assert_int_equal(loop_call(c.loop, read_count, args, NULL), ERR_STATE);
    loop_free(c.loop);
}

/* ---- told when there is nothing to do ---- */

struct idler {
    struct mark *posts; /* what it posts while the loop is idle; NULL: the stop */
    size_t begun, ended;
    bool was_ready;
    struct trace *trace;
};

static void idle_begin(void *ctx)
{
    struct idler *i = ctx;
    i->begun++;
    i->trace->text[i->trace->length++] = '(';
    i->was_ready |= loop_ready(i->trace->loop);
    if (i->begun < 3) {
        assert_int_equal(loop_post(i->trace->loop, run_mark, i->posts, NULL), 0);
    } else {
        loop_stop(i->trace->loop);
    }
    assert_true(loop_ready(i->trace->loop));
}

static void idle_end(void *ctx)
{
    struct idler *i = ctx;
    i->ended++;
    i->trace->text[i->trace->length++] = ')';
}

static void test_who_is_told_of_idleness(void **state)
{
    (void)state;
    struct loop *loop = loop_new(0);
    struct trace t = {.loop = loop};
    struct mark a = {&t, 'a', {0}}, b = {&t, 'b', {0}};
    struct idler i = {.posts = &b, .trace = &t};
    const struct loop_idle idle = {.begin = idle_begin, .end = idle_end, .ctx = &i};
    loop_set_idle(loop, &idle);
    assert_int_equal(loop_post(loop, run_mark, &a, NULL), 0);
    loop_run(loop);
    assert_string_equal(t.text, "a()b()b()"); /* not while there is something to do */
    assert_false(i.was_ready);
    loop_free(loop);
}

static void run_nothing(void *ctx)
{
    (void)ctx;
}

/* One that sleeps in a place of its own, until it is woken. */
struct sleeper {
    struct loop *loop;
    sem_t woken;
    unsigned wakes;
};

static void sleep_begin(void *ctx)
{
    struct sleeper *s = ctx;
    while (!loop_ready(s->loop)) {
        (void)sem_wait(&s->woken);
    }
}

static void sleep_end(void *ctx)
{
    (void)ctx;
}

static void sleep_wake(void *ctx)
{
    struct sleeper *s = ctx;
    s->wakes++;
    (void)sem_post(&s->woken);
}

static void run_again(void *ctx)
{
    const struct sleeper *s = ctx;
    const unsigned wakes = s->wakes;
    assert_int_equal(loop_post(s->loop, run_nothing, NULL, NULL), 0);
    assert_int_equal(s->wakes, wakes); /* the loop's thread is awake */
}

static void *post_and_stop(void *arg)
{
    struct sleeper *s = arg;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(loop_call(s->loop, run_again, s, NULL), 0);
    }
    loop_stop(s->loop);
    return NULL;
}

static void test_who_sleeps_elsewhere_is_woken(void **state)
{
    (void)state;
    struct loop *loop = loop_new(0);
    struct sleeper s = {.loop = loop};
    assert_int_equal(sem_init(&s.woken, 0, 0), 0);
    const struct loop_idle idle = {sleep_begin, sleep_end, &s, sleep_wake};
    loop_set_idle(loop, &idle);
    assert_int_equal(loop_next_timer_ms(loop), UINT64_MAX);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, post_and_stop, &s), 0);
    loop_run(loop);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_true(s.wakes <= 101);
    (void)sem_destroy(&s.woken);
    loop_free(loop);
}

static void test_a_timer_that_is_due_makes_it_ready(void **state)
{
    (void)state;
    struct loop *loop = loop_new(0);
    struct trace t = {.loop = loop};
    struct mark m = {&t, 'm', {0}};
    assert_false(loop_ready(loop));
    loop_timer_set(loop, &m.timer, chrono_now_ms() + 3600000, run_mark, &m);
    assert_false(loop_ready(loop));
    loop_timer_set(loop, &m.timer, chrono_now_ms(), run_mark, &m);
    assert_true(loop_ready(loop));
    loop_timer_clear(loop, &m.timer);
    assert_false(loop_ready(loop));
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_run_in_order_until_the_stop),
        cmocka_unit_test(test_a_full_mailbox_is_an_error),
        cmocka_unit_test(test_timers_run_by_deadline_then_by_setting),
        cmocka_unit_test(test_many_timers_run_sorted),
        cmocka_unit_test(test_a_timer_in_the_past_keeps_nobody_out),
        cmocka_unit_test(test_posts_from_many_threads),
        cmocka_unit_test(test_who_is_told_of_idleness),
        cmocka_unit_test(test_who_sleeps_elsewhere_is_woken),
        cmocka_unit_test(test_a_timer_that_is_due_makes_it_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
