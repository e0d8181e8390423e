/* SPDX-License-Identifier: Apache-2.0 */
/* Modes beside each other: what a list of modes means, the table, and the charts. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/compare_chart.h"
#include "cli/compare_report.h"

static int parse(const char *list, int64_t workers, struct compare_mode *modes, size_t *count,
                 struct err *err)
{
    struct job_spec spec = {.cluster.workers = {workers, workers}};
    return compare_modes_parse(list, &spec, modes, count, err);
}

static void modes_are_settings(void **state)
{
    (void)state;
    struct compare_mode m[COMPARE_MODES_MAX];
    size_t count;
    struct err err = {0};
    assert_int_equal(
        parse("sync,sync+backup,sync+speculation,bounded:8,bounded,async", 4, m, &count, &err), 0);
    assert_int_equal(count, 6);
    const char *const sets[6][3] = {
        {"training.mode=sync"},
        {"training.mode=sync", "training.replicas=4", "training.replicas_to_aggregate=3"},
        {"training.mode=sync", "training.speculate=true"},
        {"training.mode=bounded", "training.staleness=8"},
        {"training.mode=bounded"},
        {"training.mode=async"},
    };
    for (size_t i = 0; i < count; i++) {
        size_t n = 0;
        for (; n < 3 && sets[i][n] != NULL; n++) {
            assert_string_equal(m[i].sets[n], sets[i][n]);
        }
        assert_int_equal(m[i].set_count, n);
        assert_true(m[i].gradients[0] != '\0' && m[i].tuning[0] != '\0');
    }
}

static void unknown_modes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         "sync,",     "synch",      "sync+",
                                      "bounded:", "bounded:x", ",async",     "sync+backup+backup",
                                      "async:3",  "sync sync", "a,b,c,d,e,f"};
    struct compare_mode m[COMPARE_MODES_MAX];
    size_t count;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {0};
        assert_int_equal(parse(bad[i], 4, m, &count, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "allowed: sync, sync+backup"));
    }
    struct err err = {0};
    assert_int_equal(parse("sync,sync,sync,sync,sync,sync,sync,sync,sync", 4, m, &count, &err),
                     ERR_INVALID);
    err = (struct err){0};
    assert_int_equal(parse("sync+backup", 1, m, &count, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "one replica"));
}

/* ---- the table ---- */

#define EVALUATIONS 3

struct ended {
    Gradus__V1__Job job;
    Gradus__V1__Evaluation evaluations[EVALUATIONS], *list[EVALUATIONS];
    Gradus__V1__MetricValue losses[EVALUATIONS], *values[EVALUATIONS];
    char loss[8];
};

static void ended_init(struct ended *e, Gradus__V1__Mode mode, const double *losses, int64_t every)
{
    gradus__v1__job__init(&e->job);
    strcpy(e->loss, "loss");
    e->job.mode = mode;
    e->job.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    e->job.started_ms = 5000;
    e->job.examples_per_second = 1234.4;
    e->job.epoch = EVALUATIONS;
    for (size_t i = 0; i < EVALUATIONS; i++) {
        gradus__v1__metric_value__init(&e->losses[i]);
        e->losses[i].name = e->loss;
        e->losses[i].value = losses[i];
        e->values[i] = &e->losses[i];
        gradus__v1__evaluation__init(&e->evaluations[i]);
        e->evaluations[i].test = &e->values[i];
        e->evaluations[i].n_test = 1;
        e->evaluations[i].epoch = (double)i + 1;
        e->evaluations[i].time_ms = 5000 + every * (int64_t)(i + 1);
        e->list[i] = &e->evaluations[i];
    }
    e->job.evaluations = e->list;
    e->job.n_evaluations = EVALUATIONS;
}

static void the_time_to_what_all_have_reached(void **state)
{
    (void)state;
    static struct ended a, b;
    const double first[] = {0.5, 0.3, 0.4}, second[] = {0.9, 0.7, 0.2};
    ended_init(&a, GRADUS__V1__MODE__SYNC, first, 2000);
    ended_init(&b, GRADUS__V1__MODE__ASYNC, second, 1000);
    b.job.dropped = 1;
    struct compare_run runs[] = {
        {.mode = {.name = "sync", .gradients = "of one version", .tuning = "none"}, .job = &a.job},
        {.mode = {.name = "async", .gradients = "of any age", .tuning = "much"}, .job = &b.job}};
    const struct compare_report r = {.job_file = "j.yaml", .runs = runs, .count = 2, .workers = 4};
    struct buf out = {0};
    compare_report_text(&r, &out);
    const char *all = buf_str(&out), *async = strstr(all, "\nasync");
    assert_non_null(async);
    assert_non_null(
        strstr(all, "time to a test loss of 0.3     4.0 s")); /* the second evaluation */
    assert_non_null(strstr(async, "time to a test loss of 0.3     3.0 s")); /* the third */
    assert_non_null(strstr(all, "1234 examples/s"));
    assert_non_null(strstr(async, "1 gradient dropped"));
    buf_release(&out);

    b.evaluations[0].n_test = b.evaluations[1].n_test = b.evaluations[2].n_test = 0;
    compare_report_text(&r, &out);
    assert_non_null(strstr(buf_str(&out), "time to a loss that all reach  -"));
    buf_release(&out);
}

/* ---- charts ---- */

static void charts_have_round_ends(void **state)
{
    (void)state;
    struct chart_point points[] = {{1, 0.11}, {2, NAN}, {3, 0.19}, {4, INFINITY}};
    const struct chart_line lines[] = {{"a<b", points, 4}, {"none", NULL, 0}};
    struct chart chart = {"T", "x", "y", lines, 2};
    struct buf out = {0};
    chart_svg(&chart, &out);
    const char *svg = buf_str(&out);
    assert_non_null(strstr(svg, ">0.1<"));
    assert_non_null(strstr(svg, ">0.2<"));
    assert_non_null(strstr(svg, "a&lt;b: 3, 0.19"));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    buf_release(&out);
    chart.line_count = 0;
    chart_svg(&chart, &out);
    assert_non_null(strstr(buf_str(&out), "nothing was measured"));
    buf_release(&out);
    chart.line_count = 1;
    points[2] = points[0]; /* a range of one value */
    chart_svg(&chart, &out);
    assert_null(strstr(buf_str(&out), "nan"));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_are_settings),
        cmocka_unit_test(unknown_modes_are_refused),
        cmocka_unit_test(the_time_to_what_all_have_reached),
        cmocka_unit_test(charts_have_round_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
