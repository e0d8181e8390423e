/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of a trace, event by event: who is asked what, and what comes next. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "master/core/trace_rounds.h"

enum { W1, W2, P1, P2 };

static char shown[200];

/* The actions of the last event: "record w0 w1", "take p2", "tell w0", "end". */
static const char *actions(const struct trace_rounds *t)
{
    static const char *const ASKS[] = {"clock", "record", "take"};
    size_t used = 0;
    shown[0] = '\0';
    for (size_t i = 0; i < t->action_count; i++) {
        const struct trace_action *a = &t->actions[i];
        const char *what = a->kind == TRACE_DO_TELL  ? "tell"
                           : a->kind == TRACE_DO_END ? "end"
                                                     : ASKS[a->ask.kind];
        if (i == 0) {
            used += (size_t)snprintf(shown, sizeof shown, "%s", what);
        }
        assert_memory_equal(shown, what, strlen(what)); /* one kind at a time */
        if (a->kind != TRACE_DO_END) {
            char role = t->nodes[a->node].role == MASTER_PS ? 'p' : 'w';
            used += (size_t)snprintf(shown + used, sizeof shown - used, " %c%zu", role, a->node);
        }
    }
    return shown;
}

/* Two workers, two servers; 7 steps within 1.5 s. */
static struct trace_rounds begin(void)
{
    struct trace_rounds t;
    trace_rounds_init(&t, 7, 1500, 4);
    assert_int_equal(trace_rounds_add(&t, MASTER_WORKER, false), W1);
    assert_int_equal(trace_rounds_add(&t, MASTER_WORKER, false), W2);
    assert_int_equal(trace_rounds_add(&t, MASTER_PS, false), P1);
    assert_int_equal(trace_rounds_add(&t, MASTER_PS, false), P2);
    trace_rounds_begin(&t);
    return t;
}

/* All who are asked answer, until @round is reached. */
static void go_to(struct trace_rounds *t, unsigned round)
{
    while (t->round < round) {
        size_t asked[4], n = t->action_count;
        assert_int_not_equal(n, 0);
        for (size_t i = 0; i < n; i++) {
            asked[i] = t->actions[i].node;
        }
        for (size_t i = 0; i < n; i++) {
            trace_rounds_answered(t, asked[i], false);
        }
    }
}

static void rounds_follow_each_other(void **state)
{
    (void)state;
    struct trace_rounds t = begin();
    for (int i = 0; i < 4; i++) {
        assert_string_equal(actions(&t), "clock w0 w1 p2 p3");
        for (size_t n = 0; n < 4; n++) {
            assert_true(n == 0 || t.action_count == 0); /* not before all have answered */
            trace_rounds_answered(&t, 3 - n, false);
        }
    }
    assert_string_equal(actions(&t), "record p2 p3");
    assert_int_equal(t.actions[0].ask.record_ms, 1500 + 20000); /* longer than all workers need */
    assert_int_equal(t.actions[0].ask.steps, 0);
    assert_int_equal(t.actions[0].ask.timeout_ms, 10000);
    trace_rounds_answered(&t, P2, false);
    assert_int_equal(t.action_count, 0);
    trace_rounds_answered(&t, P1, false);
    assert_string_equal(actions(&t), "record w0 w1");
    assert_int_equal(t.actions[1].ask.record_ms, 1500);
    assert_int_equal(t.actions[1].ask.steps, 7);
    assert_int_equal(t.actions[1].ask.timeout_ms, 1500 + 10000);
    trace_rounds_answered(&t, W1, false);
    assert_int_equal(t.action_count, 0);
    trace_rounds_answered(&t, W2, false);
    assert_string_equal(actions(&t), "take p2 p3");
    assert_int_equal(t.actions[0].ask.timeout_ms, 20000);
    trace_rounds_answered(&t, P1, false);
    trace_rounds_answered(&t, P2, false);
    assert_string_equal(actions(&t), "end");
    assert_true(t.client);
    trace_rounds_release(&t);
}

static void who_fails_is_not_asked_again(void **state)
{
    (void)state;
    struct trace_rounds t = begin();
    trace_rounds_answered(&t, P1, true);
    trace_rounds_answered(&t, W1, false);
    trace_rounds_answered(&t, W2, false);
    trace_rounds_answered(&t, P2, false);
    assert_string_equal(actions(&t), "clock w0 w1 p3");
    go_to(&t, TRACE_ROUND_PS);
    assert_string_equal(actions(&t), "record p3");
    trace_rounds_answered(&t, P2, true);
    assert_string_equal(actions(&t), "record w0 w1"); /* of workers alone there is a trace, too */
    trace_rounds_answered(&t, W1, true);
    trace_rounds_answered(&t, W2, false);
    assert_string_equal(actions(&t), "end"); /* there is no server to take from */
    assert_true(t.nodes[W1].failed && !t.nodes[W2].failed);
    trace_rounds_release(&t);
}

static void lost_nodes_take_no_part(void **state)
{
    (void)state;
    struct trace_rounds t;
    trace_rounds_init(&t, 1, 1, 2);
    (void)trace_rounds_add(&t, MASTER_WORKER, true);
    (void)trace_rounds_add(&t, MASTER_PS, true);
    trace_rounds_begin(&t);
    assert_string_equal(actions(&t), "end");
    trace_rounds_release(&t);
    trace_rounds_init(&t, 1, 1, 0);
    trace_rounds_begin(&t);
    assert_string_equal(actions(&t), "end");
    trace_rounds_release(&t);
}

/* Workers that record are told to end, and the servers are taken from when they have. */
static void the_client_goes_away_while_workers_record(void **state)
{
    (void)state;
    struct trace_rounds t = begin();
    go_to(&t, TRACE_ROUND_WORKERS);
    trace_rounds_answered(&t, W2, true);
    trace_rounds_gone(&t);
    assert_string_equal(actions(&t), "tell w0");
    assert_int_equal(t.actions[0].ask.kind, TRACE_ASK_TAKE);
    trace_rounds_answered(&t, W1, false);
    assert_int_equal(t.action_count, 0); /* it may not have heard it yet */
    trace_rounds_told(&t);
    assert_string_equal(actions(&t), "take p2 p3");
    trace_rounds_answered(&t, P1, true);
    trace_rounds_answered(&t, P2, false);
    assert_string_equal(actions(&t), "end");
    trace_rounds_release(&t);
}

static void the_client_goes_away_at_other_times(void **state)
{
    (void)state;
    struct trace_rounds t = begin();
    trace_rounds_gone(&t);
    assert_int_equal(t.action_count, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(t.action_count, 0);
        trace_rounds_answered(&t, i, false);
    }
    assert_string_equal(actions(&t), "end"); /* with this round: nothing was begun */
    trace_rounds_release(&t);

    t = begin();
    go_to(&t, TRACE_ROUND_PS);
    trace_rounds_gone(&t);
    assert_int_equal(t.action_count, 0);
    trace_rounds_answered(&t, P1, false);
    trace_rounds_answered(&t, P2, false);
    assert_string_equal(actions(&t), "take p2 p3"); /* without the workers */
    trace_rounds_release(&t);

    t = begin();
    go_to(&t, TRACE_ROUND_TAKE);
    trace_rounds_gone(&t);
    assert_int_equal(t.action_count, 0);
    trace_rounds_answered(&t, P1, false);
    trace_rounds_answered(&t, P2, false);
    assert_string_equal(actions(&t), "end");
    trace_rounds_release(&t);
}

static void the_master_ends(void **state)
{
    (void)state;
    struct trace_rounds t = begin();
    go_to(&t, TRACE_ROUND_WORKERS);
    trace_rounds_stop(&t);
    assert_int_equal(t.action_count, 0);
    trace_rounds_answered(&t, W1, false);
    trace_rounds_answered(&t, W2, false);
    assert_string_equal(actions(&t), "end"); /* nobody is asked any more */
    trace_rounds_release(&t);

    t = begin();
    go_to(&t, TRACE_ROUND_PS);
    trace_rounds_gone(&t);
    trace_rounds_stop(&t);
    trace_rounds_answered(&t, P1, false);
    trace_rounds_answered(&t, P2, false);
    assert_string_equal(actions(&t), "end");
    trace_rounds_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_follow_each_other),
        cmocka_unit_test(who_fails_is_not_asked_again),
        cmocka_unit_test(lost_nodes_take_no_part),
        cmocka_unit_test(the_client_goes_away_while_workers_record),
        cmocka_unit_test(the_client_goes_away_at_other_times),
        cmocka_unit_test(the_master_ends),
    };
    return cmocka_run_group_tests_name("trace_rounds", tests, NULL, NULL);
}
