/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as JSON, by protobuf's mapping. */
#include "support/test.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "gradus/v1/jobs.pb-c.h"
#include "gradus/v1/ps.pb-c.h"
#include "wire/wire_json.h"

static void check(const ProtobufCMessage *m, const char *expected)
{
    struct buf out = {0};
    wire_json(m, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
}

static void each_kind_of_field(void **state)
{
    (void)state;
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    Gradus__V1__Evaluation evaluation = GRADUS__V1__EVALUATION__INIT,
                           *evaluations[] = {&evaluation};
    Gradus__V1__MetricValue loss = GRADUS__V1__METRIC_VALUE__INIT, *metrics[] = {&loss};
    char id[] = "a-1\n\"<\xff>", worker[] = "w-1", other[] = "w-2", name[] = "loss";
    char *workers[] = {worker, other};
    uint64_t staleness[] = {0, UINT64_MAX};
    uint8_t secret[] = {0, 255, 16, 7};
    check(&job.base, "{}");
    job.id = id;
    job.state = GRADUS__V1__JOB_STATE__RUNNING;
    job.submitted_ms = -5;
    job.epochs_total = 0.5;
    job.examples_per_second = NAN;
    job.seconds = -INFINITY;
    job.priority = -3;
    job.paused = true;
    job.workers = workers;
    job.n_workers = 2;
    job.staleness = staleness;
    job.n_staleness = 2;
    job.secret = (ProtobufCBinaryData){4, secret};
    loss.name = name;
    loss.value = 0.1;
    evaluation.step = 7;
    evaluation.test = metrics;
    evaluation.n_test = 1;
    job.evaluations = evaluations;
    job.n_evaluations = 1;
    check(&job.base, "{\"id\":\"a-1\\n\\\"<\\\\xFF>\",\"state\":\"RUNNING\",\"submittedMs\":\"-5\","
                     "\"epochsTotal\":0.5,\"evaluations\":[{\"step\":\"7\",\"test\":[{\"name\":"
                     "\"loss\",\"value\":0.10000000000000001}]}],\"examplesPerSecond\":\"NaN\","
                     "\"seconds\":\"-Infinity\",\"workers\":[\"w-1\",\"w-2\"],\"staleness\":[\"0\","
                     "\"18446744073709551615\"],\"priority\":-3,\"paused\":true,\"secret\":"
                     "\"AP8QBw==\"}");
    job = (Gradus__V1__Job)GRADUS__V1__JOB__INIT;
    job.state = (Gradus__V1__JobState)77; /* of a later version */
    check(&job.base, "{\"state\":77}");
}

static void one_of_several(void **state)
{
    (void)state;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    rows.version = 3; /* is not what is chosen */
    check(&rows.base, "{}");
    rows.of_case = GRADUS__V1__ROWS_REQUEST__OF_VERSION;
    rows.version = 0;
    check(&rows.base, "{\"version\":\"0\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_field),
        cmocka_unit_test(one_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
