#include "support/test.h"

#include <string.h>

#include "master/job_record.h"

static void final_states_are_final(void **state)
{
    (void)state;
    for (enum job_state from = JOB_PENDING; from < JOB_STATE_END; from++) {
        size_t ways = 0;
        for (enum job_state to = JOB_PENDING; to < JOB_STATE_END; to++) {
            ways += job_state_allows(from, to);
        }
        assert_int_equal(ways == 0, job_state_is_final(from));
        assert_false(job_state_allows(from, from));
        if (!job_state_is_final(from)) { /* it can always be failed and cancelled */
            assert_true(job_state_allows(from, JOB_FAILED));
            assert_true(job_state_allows(from, JOB_CANCELLED));
        }
    }
    assert_false(job_state_allows((enum job_state)0, JOB_PENDING));
    assert_false(job_state_allows((enum job_state)99, JOB_PENDING));
    assert_string_equal(job_state_name(JOB_RECOVERING), "RECOVERING");
    assert_string_equal(job_state_name((enum job_state)99), "UNKNOWN");
}

static void the_newest_evaluations_stay(void **state)
{
    (void)state;
    struct job_record r;
    job_record_init(&r);
    for (uint64_t i = 0; i < JOB_EVALUATIONS_MAX + 5; i++) {
        job_record_add_evaluation(&r, &(struct job_evaluation){.step = i});
    }
    assert_int_equal(r.evaluation_count, JOB_EVALUATIONS_MAX);
    assert_int_equal(r.evaluations[0].step, 5);
    assert_int_equal(r.evaluations[JOB_EVALUATIONS_MAX - 1].step, JOB_EVALUATIONS_MAX + 4);
    job_record_release(&r);
}

static void a_copy_is_a_copy(void **state)
{
    (void)state;
    struct job_record a, b;
    job_record_init(&a);
    job_record_set(&a.id, "x-1");
    job_names_add(&a.workers, "w");
    job_record_add_evaluation(&a, &(struct job_evaluation){.step = 3});
    job_record_copy(&b, &a);
    job_record_set(&a.id, a.id);
    job_record_release(&a);
    assert_string_equal(b.id, "x-1");
    assert_string_equal(b.workers.items[0], "w");
    assert_int_equal(b.evaluations[0].step, 3);
    job_record_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(final_states_are_final),
        cmocka_unit_test(the_newest_evaluations_stay),
        cmocka_unit_test(a_copy_is_a_copy),
    };
    return cmocka_run_group_tests_name("job_record", tests, NULL, NULL);
}
