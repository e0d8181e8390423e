#include "support/test.h"

#include <string.h>

#include "master/job_wire.h"

static void a_record_survives_the_wire(void **state)
{
    (void)state;
    struct job_record a, b;
    job_record_init(&a);
    job_record_set(&a.id, "x-1");
    job_record_set(&a.name, "x");
    job_record_set(&a.reason, "why");
    job_record_set(&a.text, "name: x\n");
    job_record_set(&a.checkpoint, "/c");
    a.state = JOB_FAILED;
    a.mode = 2;
    a.submitted_ms = 5;
    a.step = 7;
    a.steps_total = 9;
    a.examples = 11;
    a.seconds = 1.5;
    a.examples_per_second = 2.5;
    a.generation = 3;
    a.train.kinds = 1u << METRIC_LOSS;
    a.train.values[METRIC_LOSS] = 0.25;
    a.staleness[3] = 4;
    job_names_add(&a.workers, "w-1");
    job_names_add(&a.ps, "p-1");
    for (uint64_t i = 0; i < 3; i++) {
        struct job_evaluation e = {.step = i, .time_ms = 8};
        e.test.kinds = 1u << METRIC_ACCURACY | 1u << METRIC_RMSE;
        e.test.values[METRIC_RMSE] = (double)i;
        job_record_add_evaluation(&a, &e);
    }
    struct buf packed = {0};
    job_wire_pack(&a, &packed);
    assert_int_equal(job_wire_unpack(packed.data, packed.len, &b, NULL), 0);
    struct buf again = {0};
    job_wire_pack(&b, &again);
    assert_int_equal(packed.len, again.len);
    assert_memory_equal(packed.data, again.data, packed.len);
    assert_string_equal(b.text, "name: x\n");
    assert_int_equal(b.state, JOB_FAILED);
    assert_int_equal(b.mode, 2);
    assert_int_equal(b.evaluation_count, 3);
    assert_true(b.evaluations[2].test.values[METRIC_RMSE] == 2);
    assert_int_equal(b.evaluations[2].test.kinds, 1u << METRIC_ACCURACY | 1u << METRIC_RMSE);
    struct job_wire w;
    job_wire_init(&w, &a, JOB_WIRE_BRIEF);
    assert_int_equal(w.job.n_evaluations, 0);
    assert_string_equal(w.job.text, "");
    assert_int_equal(w.job.n_staleness, 4);
    job_wire_release(&w);
    struct err err = {0};
    struct job_record c;
    for (size_t n = 1; n < packed.len; n++) { /* cut anywhere: refused or read, never a crash */
        if (job_wire_unpack(packed.data, n, &c, &err) == 0) {
            job_record_release(&c);
        }
    }
    assert_int_equal(job_wire_unpack("", 0, &c, &err), ERR_CORRUPT); /* no state */
    assert_int_equal(job_wire_unpack("\xff\xff", 2, &c, &err), ERR_CORRUPT);
    buf_release(&packed);
    buf_release(&again);
    job_record_release(&a);
    job_record_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_record_survives_the_wire)};
    return cmocka_run_group_tests_name("job_wire", tests, NULL, NULL);
}
