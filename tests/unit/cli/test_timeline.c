/* SPDX-License-Identifier: Apache-2.0 */
/* What the picture of a trace shows: lanes, boxes, gradients and how stale they were. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/timeline_legend.h"
#include "cli/timeline_svg.h"
#include "job/progress/exchange.h"
#include "trace_rig.h"

#define P 4000000000 /* the server's clock when the worker's step begins */

/* The sample with a push of version 5 that is applied as version 8, and the worker's wait for it.
 */
static void push_init(struct trace_sample *s)
{
    trace_sample_init(s);
    (void)trace_sample_add(s, 0, GRADUS__V1__SPAN_KIND__SPAN_WAIT, P + 1000000000 + 2100, 4400, 7);
    Gradus__V1__Span *queue = s->lists[1][1], *apply = s->lists[1][2];
    queue->push = PUSH_APPLIED;
    queue->base_version = 5;
    queue->made_version = 8;
    apply->step = 8;
}

static int64_t length_of(const struct timeline *t, size_t lane, enum timeline_part part)
{
    int64_t sum = 0;
    for (size_t i = 0; i < t->box_count; i++) {
        const struct timeline_box *b = &t->boxes[i];
        assert_true(b->begin >= 0 && b->end <= t->length && b->begin < b->end);
        sum += b->lane == lane && b->part == part ? b->end - b->begin : 0;
    }
    assert_int_equal(t->lanes[lane].ns[part], sum);
    return sum;
}

static void workers_come_before_shards(void **state)
{
    (void)state;
    struct trace_sample s;
    struct timeline t;
    push_init(&s);
    timeline_init(&t, &s.response, 0);
    assert_int_equal(t.worker_count, 1);
    assert_int_equal(t.lane_count, 3);
    assert_string_equal(t.lanes[0].node, "w-1");
    assert_string_equal(t.lanes[1].node, "p-1");
    assert_int_equal(t.lanes[1].shard, 0);
    assert_string_equal(t.lanes[2].problem, "gone\nfor good");
    timeline_release(&t);
}

static void a_wait_is_divided_as_its_shard_saw_it(void **state)
{
    (void)state;
    struct trace_sample s;
    struct timeline t;
    push_init(&s);
    timeline_init(&t, &s.response, 0);
    assert_int_equal(t.length, 9000);
    assert_int_equal(length_of(&t, 0, TIMELINE_COMPUTE), 1500);
    /* in the shard's queue; and between computing and sending, of which the worker does not tell */
    assert_int_equal(length_of(&t, 0, TIMELINE_WAIT), 400 + 500);
    assert_int_equal(length_of(&t, 0, TIMELINE_APPLY), 300); /* its update */
    assert_int_equal(length_of(&t, 0, TIMELINE_WIRE), 100 + 4400 - 700);
    assert_int_equal(length_of(&t, 1, TIMELINE_APPLY),
                     300); /* the other two are not of this step */
    timeline_release(&t);
}

static void a_gradient_has_the_age_that_its_shard_counted(void **state)
{
    (void)state;
    struct trace_sample s;
    struct timeline t;
    push_init(&s);
    timeline_init(&t, &s.response, 0);
    assert_int_equal(t.push_count, 1);
    const struct timeline_push *p = &t.pushes[0];
    assert_int_equal(p->fate, TIMELINE_APPLIED);
    assert_int_equal(timeline_staleness(p), 2);
    assert_true(p->sent == 2000 && p->arrived == 3100 && p->begun == 3500);
    timeline_release(&t);

    s.lists[1][1]->push = PUSH_DROPPED;
    s.lists[1][1]->made_version = 0;
    timeline_init(&t, &s.response, 0);
    assert_int_equal(t.pushes[0].fate, TIMELINE_DROPPED);
    assert_int_equal(timeline_staleness(&t.pushes[0]), 0);
    timeline_release(&t);

    s.lists[1][1]->push = PUSH_NONE; /* a pull */
    timeline_init(&t, &s.response, 0);
    assert_int_equal(t.push_count, 0);
    timeline_release(&t);
}

static char *draw(const struct trace_sample *s, const char *mode)
{
    struct timeline t;
    struct buf svg = {0};
    const struct timeline_about about = {.job = "a<b>&\"c\"", .mode = mode, .when = "now"};
    timeline_init(&t, &s->response, 0);
    timeline_svg(&t, &about, &svg);
    timeline_release(&t);
    return buf_take(&svg);
}

static void names_are_text_in_the_picture(void **state)
{
    (void)state;
    struct trace_sample s;
    push_init(&s);
    char *svg = draw(&s, "async");
    assert_non_null(strstr(svg, "a&lt;b&gt;&amp;&quot;c&quot; · async"));
    assert_null(strstr(svg, "a<b>"));
    assert_non_null(strstr(svg, "gradient of version 5 in version 8, staleness 2"));
    assert_non_null(strstr(svg, "gone for good"));
    assert_non_null(strstr(svg, "shard 0, p-1"));
    free(svg);
    s.lists[1][1]->push = PUSH_STALE;
    s.lists[1][1]->made_version = 0;
    svg = draw(&s, "sync");
    assert_non_null(strstr(svg, "gradient of version 5: dropped"));
    free(svg);
}

static void garbage_of_nodes_is_drawn_somehow(void **state)
{
    (void)state;
    struct trace_sample s;
    push_init(&s);
    memcpy(s.ids[0], "\xff\xfe", 3);
    s.lists[1][1]->made_version = UINT64_MAX;
    s.lists[1][1]->base_version = 0;
    s.lists[1][1]->applied_ns = UINT64_MAX;
    s.lists[1][2]->begin_ns = UINT64_MAX;
    s.lists[0][1]->ns = UINT64_MAX;
    free(draw(&s, "async"));
    s.response.n_nodes = 0;
    char *svg = draw(&s, "async");
    assert_non_null(strstr(svg, "</svg>"));
    assert_non_null(strstr(svg, ">0 µs of training"));
    free(svg);
}

static void colours_rise_with_staleness(void **state)
{
    (void)state;
    for (uint64_t stalest = 0; stalest < 300; stalest++) {
        assert_int_equal(timeline_color(0, stalest), 0);
        for (uint64_t i = 1; i <= stalest; i++) {
            unsigned color = timeline_color(i, stalest);
            assert_true(color > 0 && color < TIMELINE_COLORS);
            assert_true(color >= timeline_color(i - 1, stalest));
        }
    }
    char text[32];
    assert_string_equal(timeline_time(12500000, 12500000, text, sizeof text), "12.5 ms");
    assert_string_equal(timeline_time(400000000, 2000000000, text, sizeof text), "0.4 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_come_before_shards),
        cmocka_unit_test(a_wait_is_divided_as_its_shard_saw_it),
        cmocka_unit_test(a_gradient_has_the_age_that_its_shard_counted),
        cmocka_unit_test(names_are_text_in_the_picture),
        cmocka_unit_test(garbage_of_nodes_is_drawn_somehow),
        cmocka_unit_test(colours_rise_with_staleness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
