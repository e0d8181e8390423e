/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as JSON, by protobuf's mapping. */
#include "support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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

static void contains(const ProtobufCMessage *m, const char *expected)
{
    struct buf out = {0};
    wire_json(m, &out);
    if (strstr(buf_str(&out), expected) == NULL) {
        fail_msg("%s is not in %s", expected, buf_str(&out));
    }
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
    loss.name = name;
    loss.value = 0.1;
    evaluation.step = 7;
    evaluation.test = metrics;
    evaluation.n_test = 1;
    job.evaluations = evaluations;
    job.n_evaluations = 1;
    contains(&job.base, "{\"id\":\"a-1\\n\\\"<\\\\xFF>\",\"name\":\"\",\"state\":\"RUNNING\",");
    contains(&job.base, ",\"submittedMs\":\"-5\",");
    contains(&job.base, ",\"epochsTotal\":0.5,");
    contains(
        &job.base,
        ",\"evaluations\":[{\"step\":\"7\",\"epoch\":0,\"train\":[],\"test\":[{\"name\":\"loss\","
        "\"value\":0.1}],\"timeMs\":\"0\",\"trainPart\":false}],\"examplesPerSecond\":\"NaN\","
        "\"seconds\":\"-Infinity\",");
    contains(&job.base, ",\"workers\":[\"w-1\",\"w-2\"],");
    contains(&job.base, ",\"staleness\":[\"0\",\"18446744073709551615\"],");
    contains(&job.base, ",\"priority\":-3,");
    contains(&job.base, ",\"paused\":true,");
    job.state = (Gradus__V1__JobState)77; /* of a later version */
    contains(&job.base, "\"state\":77,");
}

/* A script finds every name that there is, but for messages that are missing. */
static void defaults_are_written(void **state)
{
    (void)state;
    Gradus__V1__BestVersion best = GRADUS__V1__BEST_VERSION__INIT;
    Gradus__V1__WorkerTimes times = GRADUS__V1__WORKER_TIMES__INIT;
    Gradus__V1__Consistency consistency = GRADUS__V1__CONSISTENCY__INIT;
    check(&best.base, "{\"metric\":\"\",\"value\":0,\"step\":\"0\",\"known\":false,\"count\":\"0\","
                      "\"last\":\"0\",\"without\":\"0\",\"stops\":false,\"checkpoint\":\"\","
                      "\"keptStep\":\"0\"}");
    check(&times.base, "{\"worker\":\"\"}");
    contains(&consistency.base, "{\"mode\":\"SYNC\",\"replicas\":0,");
    contains(&consistency.base, ",\"policy\":\"STALENESS_NONE\",");
}

/* As many digits as it takes: they read back to the same bits. */
static void numbers_are_exact(void **state)
{
    (void)state;
    static const double values[] = {0.1, 1.0 / 3, 1e300, -0.0, 5e-324, 9007199254740993.0, 61234.4};
    static const char *const texts[] = {"0.1",    "0.3333333333333333",    "1e+300",
                                        "-0",     "4.94065645841247e-324", "9007199254740992",
                                        "61234.4"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        Gradus__V1__MetricValue metric = GRADUS__V1__METRIC_VALUE__INIT;
        char *expected = mem_printf("{\"name\":\"\",\"value\":%s}", texts[i]);
        metric.value = values[i];
        check(&metric.base, expected);
        free(expected);
    }
}

static void bytes_are_base64(void **state)
{
    (void)state;
    Gradus__V1__FollowResponse follow = GRADUS__V1__FOLLOW_RESPONSE__INIT;
    uint8_t bytes[] = {0, 255, 16, 7};
    contains(&follow.base, ",\"secret\":\"\",");
    follow.secret = (ProtobufCBinaryData){4, bytes};
    contains(&follow.base, ",\"secret\":\"AP8QBw==\",");
}

/* What the master keeps in its rows alone. */
static void private_fields_are_left_out(void **state)
{
    (void)state;
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    Gradus__V1__Era era = GRADUS__V1__ERA__INIT, *eras[] = {&era};
    struct buf out = {0};
    uint8_t secret[] = {1};
    job.secret = (ProtobufCBinaryData){1, secret};
    job.train_fingerprint = 1;
    job.eras = eras;
    job.n_eras = 1;
    wire_json(&job.base, &out);
    assert_null(strstr(buf_str(&out), "secret"));
    assert_null(strstr(buf_str(&out), "ingerprint"));
    assert_null(strstr(buf_str(&out), "eras"));
    assert_non_null(strstr(buf_str(&out), "\"testConfusion\":[],\"leftOut\":\"0\","));
    buf_release(&out);
}

static void one_of_several(void **state)
{
    (void)state;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    struct buf out = {0};
    rows.version = 3; /* is not what is chosen */
    wire_json(&rows.base, &out);
    assert_null(strstr(buf_str(&out), "\"version\""));
    buf_release(&out);
    rows.of_case = GRADUS__V1__ROWS_REQUEST__OF_VERSION;
    rows.version = 0;
    contains(&rows.base, "\"version\":\"0\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_field),          cmocka_unit_test(defaults_are_written),
        cmocka_unit_test(numbers_are_exact),           cmocka_unit_test(bytes_are_base64),
        cmocka_unit_test(private_fields_are_left_out), cmocka_unit_test(one_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
