/* SPDX-License-Identifier: Apache-2.0 */
/* When a node records for a trace, event by event. */
#include "support/test.h"

#include "trace/recording.h"

#define FAR UINT64_MAX

static enum recording_asked record(struct recording *r, uint64_t id, uint32_t steps)
{
    return recording_ask(r, id, steps, 0, FAR);
}

/* A worker that records two steps of trace 5, from step 10 on. */
static struct recording two_steps(void)
{
    struct recording r = {0};
    assert_int_equal(record(&r, 5, 2), RECORDING_BEGUN);
    assert_true(recording_step(&r, 10).begins);
    return r;
}

static void a_server_records_until_it_is_taken(void **state)
{
    (void)state;
    struct recording r = {0};
    assert_false(recording_is_on(&r));
    assert_false(recording_take(&r, 7));
    assert_int_equal(record(&r, 1, 0), RECORDING_BEGUN);
    assert_true(recording_is_on(&r));
    assert_int_equal(record(&r, 1, 0), RECORDING_AGAIN);
    assert_int_equal(record(&r, 2, 0), RECORDING_OTHER);
    assert_false(recording_take(&r, 2));
    assert_true(recording_is_on(&r));
    assert_true(recording_take(&r, 1));
    assert_false(recording_is_on(&r));
    assert_false(recording_take(&r, 1)); /* once */
}

static void an_id_is_good_for_one_recording(void **state)
{
    (void)state;
    struct recording r = {0};
    assert_false(recording_take(&r, 3)); /* it overtook */
    assert_int_equal(record(&r, 3, 0), RECORDING_OVER);
    assert_int_equal(record(&r, 4, 1), RECORDING_BEGUN);
    assert_true(recording_take(&r, 4)); /* no step has begun */
    assert_int_equal(record(&r, 4, 1), RECORDING_OVER);
    assert_int_equal(record(&r, 6, 1), RECORDING_BEGUN);
    recording_end(&r);
    assert_int_equal(record(&r, 6, 1), RECORDING_OVER);
    recording_end(&r); /* of nothing: it does not forget */
    assert_int_equal(record(&r, 6, 1), RECORDING_OVER);
    assert_int_equal(record(&r, 4, 1), RECORDING_OVER); /* nor that before */
    assert_int_equal(record(&r, 3, 1), RECORDING_OVER);
    for (int i = 0; i < 2; i++) { /* a trace without an id may come as often as it likes */
        assert_int_equal(record(&r, 0, 0), RECORDING_BEGUN);
        assert_true(recording_take(&r, 0));
    }
}

static void who_is_late_is_replaced(void **state)
{
    (void)state;
    struct recording r = {0};
    assert_int_equal(recording_ask(&r, 1, 0, 0, 100), RECORDING_BEGUN);
    assert_int_equal(recording_ask(&r, 2, 0, 99, 300), RECORDING_OTHER);
    assert_int_equal(recording_ask(&r, 1, 0, 100, 300), RECORDING_AGAIN); /* can still be had */
    assert_int_equal(recording_ask(&r, 2, 0, 100, 300), RECORDING_BEGUN);
    assert_int_equal(r.deadline_ns, 300);
    assert_false(recording_take(&r, 1));
    assert_true(recording_take(&r, 2));
}

static void a_worker_counts_its_steps(void **state)
{
    (void)state;
    struct recording r = {0};
    struct recording_step s = recording_step(&r, 9); /* unasked */
    assert_true(!s.begins && !s.completes && !s.ends);
    assert_int_equal(record(&r, 5, 2), RECORDING_BEGUN);
    assert_false(recording_is_on(&r));          /* it waits for a step */
    assert_false(recording_step(&r, 9).begins); /* one more replica of a step that has begun */
    s = recording_step(&r, 10);
    assert_true(s.begins && !s.completes && !s.ends && recording_is_on(&r));
    s = recording_step(&r, 10);
    assert_true(!s.begins && !s.completes && !s.ends);
    s = recording_step(&r, 11);
    assert_true(!s.begins && s.completes && !s.ends);
    assert_int_equal(r.steps, 1);
    s = recording_step(&r, 12);
    assert_true(s.completes && s.ends);
    assert_int_equal(r.steps, 2);
    recording_end(&r);
    assert_int_equal(r.steps, 2); /* to be told */
}

static void it_waits_for_its_exchanges(void **state)
{
    (void)state;
    struct recording r = two_steps();
    assert_false(recording_answered(&r, 19)); /* of the step before */
    recording_sending(&r, 20);
    recording_sending(&r, 21);
    assert_false(recording_answered(&r, 19)); /* late: it is none of those two */
    assert_false(recording_answered(&r, 20));
    assert_true(recording_step(&r, 11).completes);
    struct recording_step s = recording_step(&r, 12);
    assert_true(s.completes && !s.ends && recording_is_on(&r));
    recording_sending(&r, 22); /* of a step that is not recorded */
    assert_false(recording_answered(&r, 22));
    s = recording_step(&r, 13);
    assert_true(!s.completes && !s.ends);
    assert_int_equal(r.steps, 2);
    recording_sending(&r, 20); /* once more: it was answered with an error */
    assert_false(recording_answered(&r, 21));
    assert_true(recording_answered(&r, 20));
}

static void what_was_open_before_does_not_count(void **state)
{
    (void)state;
    struct recording r = two_steps();
    recording_sending(&r, 30);
    recording_end(&r);
    assert_false(recording_answered(&r, 30));
    assert_int_equal(record(&r, 6, 1), RECORDING_BEGUN);
    assert_true(recording_step(&r, 11).begins);
    assert_false(recording_answered(&r, 30));
    assert_true(recording_step(&r, 12).ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_records_until_it_is_taken),
        cmocka_unit_test(an_id_is_good_for_one_recording),
        cmocka_unit_test(who_is_late_is_replaced),
        cmocka_unit_test(a_worker_counts_its_steps),
        cmocka_unit_test(it_waits_for_its_exchanges),
        cmocka_unit_test(what_was_open_before_does_not_count),
    };
    return cmocka_run_group_tests_name("recording", tests, NULL, NULL);
}
