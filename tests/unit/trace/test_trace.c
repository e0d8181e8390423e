/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "trace/trace.h"

#define FAR UINT64_MAX

static struct trace_span span_at(uint64_t ns)
{
    return (struct trace_span){.kind = TRACE_APPLY, .begin_ns = ns, .end_ns = ns + 5, .shard = 2};
}

static void nothing_is_recorded_unasked(void **state)
{
    (void)state;
    struct trace t;
    struct trace_spans out;
    struct err err;
    trace_init(&t);
    const struct trace_span span = span_at(10);
    assert_false(trace_on(&t));
    trace_add(&t, "a-1", &span, NULL);
    assert_int_equal(trace_take(&t, 1, &out, &err), ERR_NOT_FOUND);
    trace_release(&t);
}

static void spans_come_back_as_they_were(void **state)
{
    (void)state;
    struct trace t;
    struct trace_spans out;
    struct err err;
    trace_init(&t);
    assert_int_equal(trace_begin(&t, 7, "a-1", 100, 0, FAR, &err), 0);
    assert_true(trace_on(&t));
    struct trace_span span = {.kind = TRACE_QUEUE,
                              .shard = 3,
                              .begin_ns = 10,
                              .end_ns = 20,
                              .exchange = 30,
                              .step = 40,
                              .bytes = 50,
                              .waited_ns = 60,
                              .applied_ns = 70};
    trace_add(&t, "a-1", &span, "w-2");
    trace_add(&t, "b-1", &span, "w-9"); /* another job's */
    trace_add(&t, "a-1", &span, NULL);
    trace_add(&t, "a-1", &span, "w-1");
    trace_add(&t, "a-1", &span, "w-2");
    assert_int_equal(trace_take(&t, 8, &out, &err), ERR_NOT_FOUND);
    assert_int_equal(trace_take(&t, 7, &out, &err), 0);
    assert_false(trace_on(&t));
    assert_int_equal(out.count, 4);
    assert_int_equal(out.lost, 0);
    assert_int_equal(out.worker_count, 2);
    assert_string_equal(out.workers[0], "w-2");
    const uint32_t workers[] = {1, 0, 2, 1};
    for (size_t i = 0; i < 4; i++) {
        span.worker = workers[i];
        assert_memory_equal(&out.items[i], &span, sizeof span);
    }
    trace_spans_release(&out);
    assert_int_equal(trace_take(&t, 7, &out, &err), ERR_NOT_FOUND); /* once */
    trace_release(&t);
}

static void what_does_not_fit_is_counted(void **state)
{
    (void)state;
    struct trace t;
    struct trace_spans out;
    struct err err;
    char name[16];
    trace_init(&t);
    const struct trace_span span = span_at(10);
    assert_int_equal(trace_begin(&t, 1, "a-1", TRACE_WORKERS_MAX + 1, 0, FAR, &err), 0);
    for (int i = 0; i < TRACE_WORKERS_MAX + 4; i++) {
        (void)snprintf(name, sizeof name, "w-%d", i);
        trace_add(&t, "a-1", &span, name);
    }
    assert_int_equal(trace_take(&t, 1, &out, &err), 0);
    assert_int_equal(out.count, TRACE_WORKERS_MAX + 1);
    assert_int_equal(out.lost, 3);
    assert_int_equal(out.worker_count, TRACE_WORKERS_MAX);
    assert_int_equal(out.items[TRACE_WORKERS_MAX - 1].worker, TRACE_WORKERS_MAX);
    assert_int_equal(out.items[TRACE_WORKERS_MAX].worker, 0);
    trace_spans_release(&out);
    trace_release(&t);
}

static void one_at_a_time(void **state)
{
    (void)state;
    struct trace t;
    struct trace_spans out;
    struct err err;
    trace_init(&t);
    const struct trace_span span = span_at(10);
    assert_int_equal(trace_begin(&t, 1, "a-1", 0, 5, 100, &err), 0);
    trace_add(&t, "a-1", &span, NULL);
    assert_int_equal(trace_begin(&t, 2, "b-1", 0, 99, 200, &err), ERR_EXISTS);
    assert_non_null(strstr(err.msg, "another job"));
    assert_null(strstr(err.msg, "a-1")); /* may be somebody else's */
    assert_int_equal(trace_begin(&t, 2, "a-1", 0, 99, 200, &err), ERR_EXISTS);
    assert_non_null(strstr(err.msg, "job a-1"));
    assert_int_equal(trace_begin(&t, 1, "a-1", 0, 99, 300, &err), 0); /* said twice */
    assert_int_equal(trace_take(&t, 1, &out, &err), 0);
    assert_int_equal(out.count, 1);
    trace_spans_release(&out);
    assert_int_equal(trace_begin(&t, 2, "b-1", 0, 99, 200, &err), 0);
    trace_release(&t); /* what was never taken is freed */
}

static void it_ends_by_itself(void **state)
{
    (void)state;
    struct trace t;
    struct trace_spans out;
    struct err err;
    trace_init(&t);
    const struct trace_span early = span_at(10), last = span_at(95), late = span_at(96);
    assert_int_equal(trace_begin(&t, 1, "a-1", 0, 0, 100, &err), 0);
    trace_add(&t, "a-1", &early, NULL);
    trace_add(&t, "a-1", &last, NULL); /* ends just then */
    assert_true(trace_on(&t));
    trace_add(&t, "a-1", &late, NULL);
    assert_false(trace_on(&t));
    trace_add(&t, "a-1", &early, NULL);
    assert_int_equal(trace_take(&t, 1, &out, &err), 0); /* what it has can still be had */
    assert_int_equal(out.count, 2);
    trace_spans_release(&out);
    assert_int_equal(trace_begin(&t, 1, "a-1", 0, 0, 100, &err), ERR_CANCELLED); /* late */
    assert_false(trace_on(&t));
    assert_int_equal(trace_begin(&t, 3, "a-1", 0, 0, 100, &err), 0);
    assert_int_equal(trace_begin(&t, 3, "b-1", 0, 50, 200, &err), ERR_EXISTS);
    assert_int_equal(trace_begin(&t, 2, "b-1", 0, 100, 200, &err), 0); /* or is overwritten */
    trace_release(&t);
}

#define THREADS 4
#define SPANS 3000

static void *add_many(void *ctx)
{
    struct trace *t = ctx;
    for (uint64_t i = 0; i < SPANS; i++) {
        const struct trace_span span = span_at(i);
        trace_add(t, "a-1", &span, "w-1");
    }
    return NULL;
}

static void threads_add_at_once(void **state)
{
    (void)state;
    struct trace t;
    struct trace_spans out;
    struct err err;
    pthread_t threads[THREADS];
    trace_init(&t);
    assert_int_equal(trace_begin(&t, 1, "a-1", 0, 0, FAR, &err), 0);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &t), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(trace_take(&t, 1, &out, &err), 0);
    assert_int_equal(out.count, THREADS * SPANS);
    assert_int_equal(out.worker_count, 1);
    trace_spans_release(&out);
    trace_release(&t);
}

static void the_boot_has_a_name(void **state)
{
    (void)state;
    char a[TRACE_BOOT_BYTES], b[TRACE_BOOT_BYTES];
    trace_boot(a);
    trace_boot(b);
    assert_string_equal(a, b);
    assert_null(strchr(a, '\n'));
    assert_int_equal(strlen(a), 36); /* Linux: a UUID */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_recorded_unasked),
        cmocka_unit_test(spans_come_back_as_they_were),
        cmocka_unit_test(what_does_not_fit_is_counted),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(it_ends_by_itself),
        cmocka_unit_test(threads_add_at_once),
        cmocka_unit_test(the_boot_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
