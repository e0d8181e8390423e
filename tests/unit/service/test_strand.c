/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>

#include "execution/strand.h"

enum { THREADS = 4, POSTS = 100000 };

/* What the strand guards: plain variables, so that a race is a wrong sum here and a report of the
 * thread sanitizer. */
struct guarded {
    struct strand strand;
    int inside;
    int overlaps;
    int out_of_order;
    int ran;
    int last[THREADS];
};

struct item {
    struct strand_task task; /* first: a task is an item */
    struct guarded *guarded;
    int thread;
    int number;
};

static void count(struct strand_task *task)
{
    struct item *item = (struct item *)task;
    struct guarded *g = item->guarded;
    g->overlaps += g->inside++ != 0;
    g->out_of_order += g->last[item->thread] != item->number - 1;
    g->last[item->thread] = item->number;
    g->ran++;
    g->inside--;
    free(item);
}

struct poster {
    struct guarded *guarded;
    int thread;
};

static void *post_all(void *arg)
{
    const struct poster *p = arg;
    for (int i = 1; i <= POSTS; i++) {
        struct item *item = malloc(sizeof *item);
        assert_non_null(item);
        *item = (struct item){.guarded = p->guarded, .thread = p->thread, .number = i};
        strand_post(&p->guarded->strand, &item->task, count);
    }
    return NULL;
}

static void test_many_threads_one_at_a_time_in_order(void **state)
{
    (void)state;
    struct guarded g = {.ran = 0};
    pthread_t threads[THREADS];
    struct poster posters[THREADS];
    for (int i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){&g, i};
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(g.ran, THREADS * POSTS);
    assert_int_equal(g.overlaps, 0);
    assert_int_equal(g.out_of_order, 0);
    assert_null(atomic_load(&g.strand.top));
}

struct nested {
    struct strand_task task;
    struct strand *strand;
    struct nested *inner[2];
    char *trace;
    char name;
    size_t *length;
};

static void trace_and_post(struct strand_task *task)
{
    struct nested *n = (struct nested *)task;
    n->trace[(*n->length)++] = n->name;
    for (int i = 0; i < 2; i++) {
        if (n->inner[i] != NULL) {
            assert_false(strand_post(n->strand, &n->inner[i]->task, trace_and_post));
        }
    }
    n->trace[(*n->length)++] = (char)(n->name + 'a' - 'A'); /* end */
}

static void test_a_task_posted_inside_runs_after(void **state)
{
    (void)state;
    struct strand s = {.suspends = 0};
    char trace[16] = "";
    size_t length = 0;
    struct nested d = {.strand = &s, .trace = trace, .name = 'D', .length = &length};
    struct nested c = {.strand = &s, .trace = trace, .name = 'C', .length = &length};
    struct nested b = {.strand = &s, .inner = {&d}, .trace = trace, .name = 'B', .length = &length};
    struct nested a = {
        .strand = &s, .inner = {&b, &c}, .trace = trace, .name = 'A', .length = &length};
    assert_true(strand_post(&s, &a.task, trace_and_post));
    assert_string_equal(trace, "AaBbCcDd");
    assert_null(atomic_load(&s.top));
}

static void run_again(struct strand_task *task)
{
    struct nested *n = (struct nested *)task;
    if (++*n->length < 10) {
        strand_post(n->strand, task, run_again);
    }
}

static void test_a_task_may_post_itself_again(void **state)
{
    (void)state;
    struct strand s = {.suspends = 0};
    size_t times = 0;
    struct nested a = {.strand = &s, .length = &times};
    strand_post(&s, &a.task, run_again);
    assert_int_equal(times, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads_one_at_a_time_in_order),
        cmocka_unit_test(test_a_task_posted_inside_runs_after),
        cmocka_unit_test(test_a_task_may_post_itself_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
