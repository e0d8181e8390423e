/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons with lines: as lines of their own where there is room, and else as one. */
#include "output_rig.h"

#include "cli/job_events.h"
#include "cli/text_reason.h"

static char traceback[] =
    "worker-1: step 5: program 'python3 a.py': \xE2\x80\xA6   File \"a.py\", line 3, in loss\n"
    "\treturn f(x)\n"
    "\n"
    "ValueError: no\x1b good\n"
    "state       SUCCEEDED\n";

static void of_a_job_that_failed(struct sample *s, char *reason)
{
    sample_init(s);
    s->job.state = GRADUS__V1__JOB_STATE__FAILED;
    s->job.reason = reason;
    s->job.step = 0;
    s->job.n_train = 0;
}

static void lines_are_indented_and_never_look_like_ours(void **state)
{
    (void)state;
    struct sample s;
    struct buf out = {0};
    of_a_job_that_failed(&s, traceback);
    output_result_text(&s.job, &out);
    output_assert_text(&out, "job         digits-1\n"
                             "state       FAILED: worker-1: step 5: program 'python3 a.py': "
                             "\xE2\x80\xA6   File \"a.py\", line 3, in loss\n"
                             "             return f(x)\n"
                             "            ValueError: no? good\n"
                             "            state       SUCCEEDED\n");
}

static void a_line_has_all_of_it(void **state)
{
    (void)state;
    struct sample s;
    struct buf out = {0};
    char two[] = "one\n two";
    of_a_job_that_failed(&s, two);
    output_state_text(&s.job, &out);
    output_assert_text(&out, "job digits-1: FAILED: one  two\n");
    output_progress(&s.job, NULL, TERMINAL_ANY, &out);
    output_assert_text(&out, "FAILED  one  two");
    struct job_events events = {.seen = true};
    s.job.state = GRADUS__V1__JOB_STATE__RECOVERING;
    s.job.recoveries = 1;
    job_events_look(&events, &s.job, &out);
    output_assert_text(&out, "recovery 1 at step 0, epoch 0.00: one  two\n");
    job_events_release(&events);
}

static void no_reason_is_nothing(void **state)
{
    (void)state;
    struct sample s;
    struct buf out = {0};
    char none[] = "", ends[] = "\n\n";
    of_a_job_that_failed(&s, none);
    text_reason(&s.job, ": ", 12, &out);
    text_reason_line(&s.job, ": ", &out);
    assert_int_equal(out.len, 0);
    s.job.reason = ends;
    text_reason(&s.job, "", 12, &out);
    assert_int_equal(out.len, 0);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_indented_and_never_look_like_ours),
        cmocka_unit_test(a_line_has_all_of_it),
        cmocka_unit_test(no_reason_is_nothing),
    };
    return cmocka_run_group_tests_name("text_reason", tests, NULL, NULL);
}
