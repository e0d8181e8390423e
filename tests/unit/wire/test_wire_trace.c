/* SPDX-License-Identifier: Apache-2.0 */
/* What was recorded, as it goes out: every span with every number, and the names of workers. */
#include "support/test.h"

#include <string.h>

#include "os/chrono.h"
#include "wire/wire.h"

#define SPANS 3

static void fill(struct trace_span *s, uint64_t n)
{
    *s = (struct trace_span){.kind = (enum trace_kind)(1 + n),
                             .shard = (uint32_t)(10 + n),
                             .worker = (uint32_t)(1 + n % 2),
                             .begin_ns = 20 + n,
                             .end_ns = 30 + 3 * n,
                             .exchange = 40 + n,
                             .step = 50 + n,
                             .bytes = 60 + n,
                             .waited_ns = 70 + n,
                             .applied_ns = 80 + n};
}

static void check(const Gradus__V1__Span *s, uint64_t n)
{
    assert_int_equal(s->shard, 10 + n);
    assert_int_equal(s->worker, 1 + n % 2);
    assert_int_equal(s->begin_ns, 20 + n);
    assert_int_equal(s->exchange, 40 + n);
    assert_int_equal(s->step, 50 + n);
    assert_int_equal(s->bytes, 60 + n);
    assert_int_equal(s->waited_ns, 70 + n);
    assert_int_equal(s->applied_ns, 80 + n);
}

static void test_all_of_it(void **state)
{
    (void)state;
    struct trace_span items[SPANS];
    char workers[2][TRACE_NAME_BYTES] = {"worker-1", "worker-2"}, boot[TRACE_BOOT_BYTES];
    struct trace_spans spans = {
        .items = items, .count = SPANS, .lost = 7, .workers = workers, .worker_count = 2};
    struct wire_trace w;
    for (uint64_t n = 0; n < SPANS; n++) {
        fill(&items[n], n);
    }
    items[2].end_ns = items[2].begin_ns - 1; /* no time is below 0 */
    uint64_t before = chrono_now_ns();
    wire_trace_to_proto(&spans, &w);
    const Gradus__V1__TraceResponse *r = &w.response;
    assert_in_range(r->clock_ns, before, chrono_now_ns());
    assert_int_equal(r->lost, 7);
    trace_boot(boot);
    assert_string_equal(r->boot, boot);
    assert_int_equal(r->n_spans, SPANS);
    for (uint64_t n = 0; n < SPANS; n++) {
        check(r->spans[n], n);
        assert_int_equal(r->spans[n]->ns, n == 2 ? 0 : 10 + 2 * n);
        assert_int_equal(r->spans[n]->kind, 1 + n);
    }
    assert_int_equal(r->n_workers, 2);
    assert_string_equal(r->workers[0], "worker-1");
    assert_string_equal(r->workers[1], "worker-2");
    wire_trace_release(&w);
}

/* Who recorded nothing says when it is, and what was lost. */
static void test_nothing(void **state)
{
    (void)state;
    struct trace_spans spans = {.lost = 3};
    struct wire_trace w;
    wire_trace_to_proto(&spans, &w);
    assert_int_equal(w.response.n_spans + w.response.n_workers, 0);
    assert_int_equal(w.response.lost, 3);
    wire_trace_release(&w);
    wire_trace_to_proto(NULL, &w);
    assert_int_equal(w.response.n_spans + w.response.n_workers + w.response.lost, 0);
    assert_true(w.response.clock_ns > 0);
    wire_trace_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
