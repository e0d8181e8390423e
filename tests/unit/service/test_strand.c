/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

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

/* A task that leaves the strand to another thread when its turn is over. */
struct leaver {
    struct nested nested; /* first */
    bool resumed_inside;  /* the other thread is faster than the task */
};

static void trace_and_suspend(struct strand_task *task)
{
    const struct leaver *l = (const struct leaver *)task;
    strand_suspend(l->nested.strand);
    if (l->resumed_inside) {
        strand_resume(l->nested.strand);
    }
    trace_and_post(task);
}

static void *resume(void *strand)
{
    strand_resume(strand);
    return NULL;
}

/* What is posted meanwhile waits, in order, and who posted it goes on. */
static void test_a_suspended_strand_waits(void **state)
{
    (void)state;
    struct strand s = {.suspends = 0};
    char trace[32] = "";
    size_t length = 0;
    struct nested d = {.strand = &s, .trace = trace, .name = 'D', .length = &length};
    struct nested c = {.strand = &s, .trace = trace, .name = 'C', .length = &length};
    struct nested b = {.strand = &s, .trace = trace, .name = 'B', .length = &length};
    struct leaver a = {.nested = {.strand = &s, .trace = trace, .name = 'A', .length = &length}};
    for (int twice = 0; twice < 2; twice++) {
        memset(trace, 0, sizeof trace);
        length = 0;
        a.nested.inner[0] = &b;
        assert_true(strand_post(&s, &a.nested.task, trace_and_suspend));
        assert_string_equal(trace, "Aa"); /* and this thread is back */
        assert_false(strand_post(&s, &c.task, trace_and_post));
        assert_false(strand_post(&s, &d.task, trace_and_post));
        assert_string_equal(trace, "Aa");
        pthread_t other;
        assert_int_equal(pthread_create(&other, NULL, resume, &s), 0);
        pthread_join(other, NULL);
        assert_string_equal(trace, "AaBbCcDd");
        assert_null(atomic_load(&s.top));
    }
}

/* One that was posted along with others, before the strand was suspended, waits as well. */
static void test_what_was_taken_with_it_waits(void **state)
{
    (void)state;
    struct strand s = {.suspends = 0};
    char trace[32] = "";
    size_t length = 0;
    struct nested c = {.strand = &s, .trace = trace, .name = 'C', .length = &length};
    struct leaver b = {.nested = {.strand = &s, .trace = trace, .name = 'B', .length = &length}};
    struct leaver a = {.nested = {.strand = &s, .trace = trace, .name = 'A', .length = &length}};
    assert_true(strand_post(&s, &a.nested.task, trace_and_suspend));
    assert_false(strand_post(&s, &b.nested.task, trace_and_suspend));
    assert_false(strand_post(&s, &c.task, trace_and_post));
    strand_resume(&s); /* takes both; B suspends again */
    assert_string_equal(trace, "AaBb");
    strand_resume(&s);
    assert_string_equal(trace, "AaBbCc");
    assert_null(atomic_load(&s.top));
}

static void test_resumed_before_the_task_has_ended(void **state)
{
    (void)state;
    struct strand s = {.suspends = 0};
    char trace[32] = "";
    size_t length = 0;
    struct nested b = {.strand = &s, .trace = trace, .name = 'B', .length = &length};
    struct leaver a = {.nested = {.strand = &s, .trace = trace, .name = 'A', .length = &length},
                       .resumed_inside = true};
    for (int twice = 0; twice < 2; twice++) {
        memset(trace, 0, sizeof trace);
        length = 0;
        a.nested.inner[0] = &b;
        assert_true(strand_post(&s, &a.nested.task, trace_and_suspend));
        assert_string_equal(trace, "AaBb"); /* by this thread, which never left */
        assert_null(atomic_load(&s.top));
    }
}

/* As fast as they can: one thread posts tasks that suspend, another one resumes. */
enum { HANDOVERS = 20000 };

struct race {
    struct strand strand;
    struct strand_task task;
    atomic_int suspended; /* how often */
    int ran;              /* guarded by the strand */
    atomic_bool idle;     /* the task may be posted again */
};

static void suspend_at_once(struct strand_task *task)
{
    struct race *r = (struct race *)((char *)task - offsetof(struct race, task));
    r->ran++;
    strand_suspend(&r->strand);
    atomic_fetch_add(&r->suspended, 1);
}

static void *resume_all(void *arg)
{
    struct race *r = arg;
    for (int i = 1; i <= HANDOVERS; i++) {
        while (atomic_load(&r->suspended) < i) {
            sched_yield();
        }
        strand_resume(&r->strand);
        atomic_store(&r->idle, true);
    }
    return NULL;
}

static void test_suspending_and_resuming_race(void **state)
{
    (void)state;
    struct race r = {.idle = true};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, resume_all, &r), 0);
    for (int i = 0; i < HANDOVERS; i++) {
        while (!atomic_exchange(&r.idle, false)) {
            sched_yield();
        }
        strand_post(&r.strand, &r.task, suspend_at_once);
    }
    pthread_join(other, NULL);
    assert_int_equal(r.ran, HANDOVERS);
    assert_null(atomic_load(&r.strand.top));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads_one_at_a_time_in_order),
        cmocka_unit_test(test_a_task_posted_inside_runs_after),
        cmocka_unit_test(test_a_task_may_post_itself_again),
        cmocka_unit_test(test_a_suspended_strand_waits),
        cmocka_unit_test(test_what_was_taken_with_it_waits),
        cmocka_unit_test(test_resumed_before_the_task_has_ended),
        cmocka_unit_test(test_suspending_and_resuming_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
