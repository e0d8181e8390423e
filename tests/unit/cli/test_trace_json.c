/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of a trace, read back. */
#include "support/test.h"

#include <string.h>

#include <jansson.h>

#include "cli/trace_json.h"
#include "trace_rig.h"

static json_t *write(const struct trace_sample *s)
{
    struct buf out = {0};
    json_error_t error;
    trace_json(&s->response, &out);
    json_t *o = json_loads(buf_str(&out), 0, &error);
    if (o == NULL) {
        fail_msg("%s at line %d of\n%s", error.text, error.line, buf_str(&out));
    }
    buf_release(&out);
    return o;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text == NULL ? "" : text;
}

static double number_of(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

/* The @i-th event of this phase and name; NULL: there are not so many. */
static const json_t *find(const json_t *o, const char *phase, const char *name, size_t i)
{
    size_t at;
    const json_t *event;
    json_array_foreach(json_object_get(o, "traceEvents"), at, event)
    {
        if (strcmp(text_of(event, "ph"), phase) == 0 && strcmp(text_of(event, "name"), name) == 0 &&
            i-- == 0) {
            return event;
        }
    }
    return NULL;
}

static void events_are_in_order_and_on_one_clock(void **state)
{
    (void)state;
    struct trace_sample s;
    trace_sample_init(&s);
    json_t *o = write(&s);
    double last = -1;
    size_t at;
    const json_t *event;
    json_array_foreach(json_object_get(o, "traceEvents"), at, event)
    {
        if (strcmp(text_of(event, "ph"), "M") != 0) {
            assert_true(number_of(event, "ts") >= last);
            last = number_of(event, "ts");
        }
    }
    const json_t *step = find(o, "X", "step 0", 0), *compute = find(o, "X", "compute", 0);
    assert_true(number_of(step, "ts") == 0 && number_of(step, "dur") == 9);
    assert_true(number_of(compute, "ts") == 0 && number_of(compute, "dur") == 1.5);
    const json_t *apply = find(o, "X", "apply", 0);
    assert_true(number_of(apply, "ts") == 3.5);
    assert_null(find(o, "X", "apply", 1)); /* the other ones belong to no step */
    assert_int_equal(number_of(apply, "pid"), 2);
    json_decref(o);
}

static void arrows_join_a_push_with_its_update_and_answer(void **state)
{
    (void)state;
    struct trace_sample s;
    trace_sample_init(&s);
    json_t *o = write(&s);
    const json_t *begin = find(o, "s", "exchange", 0), *end = find(o, "f", "exchange", 0);
    assert_true(number_of(begin, "ts") == 2 && number_of(begin, "pid") == 1);
    assert_true(number_of(end, "ts") == 6 && number_of(end, "pid") == 1);
    assert_string_equal(text_of(end, "bp"), "e");
    const double steps[] = {3.0, 3.5, 3.9};
    for (size_t i = 0; i < 3; i++) {
        const json_t *t = find(o, "t", "exchange", i);
        assert_true(number_of(t, "ts") == steps[i]);
        assert_true(number_of(t, "id") == number_of(begin, "id"));
    }
    assert_null(find(o, "t", "exchange", 3));
    const json_t *applied = find(o, "t", "exchange", 1), *apply = find(o, "X", "apply", 0);
    assert_true(number_of(applied, "tid") == number_of(apply, "tid"));
    assert_true(number_of(find(o, "b", "queue", 0), "id") ==
                number_of(find(o, "e", "queue", 0), "id"));
    json_decref(o);
}

static void who_is_who(void **state)
{
    (void)state;
    struct trace_sample s;
    trace_sample_init(&s);
    json_t *o = write(&s);
    const char *threads[] = {"job", "answers of shard 0", "shard 0 from w-1", "shard 0"};
    for (size_t i = 0; i < 4; i++) {
        const json_t *m = find(o, "M", "thread_name", i);
        assert_string_equal(text_of(json_object_get(m, "args"), "name"), threads[i]);
    }
    const json_t *about = json_object_get(o, "otherData");
    assert_string_equal(text_of(about, "job"), "a-1");
    const json_t *gone = json_array_get(json_object_get(about, "nodes"), 2);
    assert_string_equal(text_of(gone, "node"), "p\"2");
    assert_string_equal(text_of(gone, "problem"), "gone\nfor good");
    json_decref(o);
}

static void garbage_of_nodes_is_text(void **state)
{
    (void)state;
    struct trace_sample s;
    trace_sample_init(&s);
    memcpy(s.ids[0], "\xff\xfe", 3);
    s.spans[1][0].worker = 9;
    s.spans[1][0].shard = UINT32_MAX;
    s.spans[1][1].begin_ns = UINT64_MAX;
    s.spans[1][1].ns = UINT64_MAX;
    s.spans[0][0].begin_ns = 0;
    json_t *o = write(&s);
    json_decref(o);
    s.response.n_nodes = 0;
    o = write(&s);
    assert_int_equal(json_array_size(json_object_get(o, "traceEvents")), 0);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_in_order_and_on_one_clock),
        cmocka_unit_test(arrows_join_a_push_with_its_update_and_answer),
        cmocka_unit_test(who_is_who),
        cmocka_unit_test(garbage_of_nodes_is_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
