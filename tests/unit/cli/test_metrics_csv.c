/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations as CSV: columns, quotes, numbers and cells that are empty. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/metrics_csv.h"

static char loss[] = "loss", odd[] = "a \"b\", c", accuracy[] = "accuracy";

static Gradus__V1__MetricValue metric(char *name, double value)
{
    Gradus__V1__MetricValue m = GRADUS__V1__METRIC_VALUE__INIT;
    m.name = name;
    m.value = value;
    return m;
}

static void test_columns_and_cells(void **state)
{
    (void)state;
    Gradus__V1__MetricValue m[] = {metric(loss, 0.1), metric(odd, NAN), metric(loss, 1e-300),
                                   metric(accuracy, -INFINITY)},
                            *first[] = {&m[0]}, *second[] = {&m[1], &m[2]}, *third[] = {&m[3]};
    Gradus__V1__Evaluation e[3], *list[] = {&e[0], &e[1], &e[2]};
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    struct buf out = {0};
    for (size_t i = 0; i < 3; i++) {
        gradus__v1__evaluation__init(&e[i]);
        e[i].step = 100 * (i + 1);
        e[i].epoch = 0.25 * (double)(i + 2);
        e[i].time_ms = 1700000000005 + 250 * (int64_t)i;
    }
    e[0].train = first;
    e[0].n_train = 1;
    e[1].train = second;
    e[1].n_train = 2;
    e[2].test = third;
    e[2].n_test = 1;
    job.evaluations = list;
    job.n_evaluations = 3;
    metrics_csv(&job, &out);
    assert_string_equal(buf_str(&out),
                        "step,epoch,wall_time,train_loss,\"train_a \"\"b\"\", c\",test_accuracy\n"
                        "100,0.5,1700000000.005,0.1,,\n"
                        "200,0.75,1700000000.255,1e-300,nan,\n"
                        "300,1,1700000000.505,,,-inf\n");
    buf_release(&out);
}

static void test_numbers_read_back(void **state)
{
    (void)state;
    static const double values[] = {0.1 + 0.2, 1.0 / 3, 5e-324, 1.7976931348623157e308,
                                    123456789.25};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        Gradus__V1__MetricValue m = metric(loss, values[i]), *metrics[] = {&m};
        Gradus__V1__Evaluation e = GRADUS__V1__EVALUATION__INIT, *list[] = {&e};
        Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
        struct buf out = {0};
        e.test = metrics;
        e.n_test = 1;
        job.evaluations = list;
        job.n_evaluations = 1;
        metrics_csv(&job, &out);
        assert_true(strtod(strrchr(buf_str(&out), ',') + 1, NULL) == values[i]);
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_and_cells),
        cmocka_unit_test(test_numbers_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
