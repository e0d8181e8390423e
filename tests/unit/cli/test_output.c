/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of one job: its progress, its result, its status. */
#include "output_rig.h"

static void test_progress(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    struct buf out = {0};
    output_progress(&s.job, NULL, TERMINAL_ANY, &out);
    output_assert_text(&out, "RUNNING  epoch 2.50/5  step 500/1000  loss 0.2500  accuracy 0.5000  "
                             "61,234 examples/s  1:15 left  2 workers, 1 ps");
    char reason[] = "waits for 1 more worker";
    s.job.state = GRADUS__V1__JOB_STATE__PENDING;
    s.job.reason = reason;
    output_progress(&s.job, NULL, TERMINAL_ANY, &out);
    output_assert_text(&out, "PENDING  waits for 1 more worker");
}

/* Where it does not fit, whole parts go; speed and time left do not. */
static void test_progress_in_few_columns(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    s.job.step = 123456;
    s.job.steps_total = 1000000;
    s.job.eta_seconds = 3723;
    s.job.dropped = 12;
    s.job.recoveries = 1;
    static const struct {
        size_t columns;
        const char *line;
    } cases[] = {
        {77, "epoch 2.50/5  step 123456/1000000  61,234 examples/s  1:02:03 left"},
        {80, "epoch 2.50/5  step 123456/1000000  loss 0.2500  61,234 examples/s  1:02:03 left"},
        {100, "epoch 2.50/5  step 123456/1000000  loss 0.2500  61,234 examples/s  1:02:03 left  "
              "1 recovery"},
        {120, "epoch 2.50/5  step 123456/1000000  loss 0.2500  61,234 examples/s  1:02:03 left  "
              "2 workers, 1 ps  1 recovery"},
        {130, "epoch 2.50/5  step 123456/1000000  loss 0.2500  accuracy 0.5000  61,234 "
              "examples/s  1:02:03 left  2 workers, 1 ps  1 recovery"},
        {160, "RUNNING  epoch 2.50/5  step 123456/1000000  loss 0.2500  accuracy 0.5000  61,234 "
              "examples/s  1:02:03 left  2 workers, 1 ps  12 dropped  1 recovery"},
        {10, "epoch 2.50/5  step 123456/1000000  61,234 examples/s  1:02:03 left"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf out = {0};
        output_progress(&s.job, NULL, cases[i].columns, &out);
        output_assert_text(&out, cases[i].line);
    }
}

static void test_evaluation_in_few_columns(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    Gradus__V1__Evaluation *e = s.list[0];
    e->train = s.metrics;
    e->n_train = 2;
    struct buf out = {0};
    output_evaluation(e, TERMINAL_ANY, &out);
    output_assert_text(&out, "epoch   1.00  step     100  train  loss 0.2500  accuracy 0.5000"
                             "  test  loss 0.2500  accuracy 0.5000");
    output_evaluation(e, 80, &out);
    output_assert_text(&out, "epoch   1.00  step     100  train  loss 0.2500  accuracy 0.5000\n"
                             "                            test   loss 0.2500  accuracy 0.5000");
    output_evaluation(e, 50, &out);
    for (const char *line = buf_str(&out); *line != '\0';) {
        size_t n = strcspn(line, "\n");
        assert_in_range(n, 0, 50);
        line += n + (line[n] == '\n');
    }
    assert_non_null(strstr(buf_str(&out), "accuracy 0.5000\n"));
    buf_release(&out);
}

static void test_progress_at_the_start(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    s.job.step = 0;
    s.job.epoch = 0;
    s.job.n_train = 0;
    s.job.examples_per_second = 0;
    s.job.eta_seconds = 0;
    s.job.n_workers = 1;
    struct buf out = {0};
    output_progress(&s.job, NULL, TERMINAL_ANY, &out);
    output_assert_text(&out, "RUNNING  epoch 0.00/5  step 0/1000  1 worker, 1 ps");
}

static void test_result_text(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    char checkpoint[] = "/state/checkpoints/digits-1/step-000000500";
    s.job.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    s.job.checkpoint = checkpoint;
    s.job.test = s.metrics;
    s.job.n_test = 2;
    s.job.left_out = 3;
    s.job.dropped = 26;
    s.job.speculated = 1;
    struct buf out = {0};
    output_result_text(&s.job, &out);
    output_assert_text(&out, "job         digits-1\n"
                             "state       SUCCEEDED\n"
                             "trained     500 steps, 2.5 epochs in 12.3 s (61,234 examples/s)\n"
                             "train       loss 0.2500  accuracy 0.5000\n"
                             "test        loss 0.2500  accuracy 0.5000\n"
                             "left out    3 records of each epoch (training.drop_last)\n"
                             "dropped     26 batches\n"
                             "speculated  1 replica\n"
                             "checkpoint  /state/checkpoints/digits-1/step-000000500\n");
}

static void test_times(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    struct buf out = {0};
    text_times(&s.job, &out);
    output_assert_text(&out, ""); /* nothing is known */
    Gradus__V1__StepTimes all = GRADUS__V1__STEP_TIMES__INIT;
    all.steps = 4;
    all.load_us = 1000;
    all.compute_us = 4000;
    all.wire_us = 2000;
    all.apply_us = 1000;
    all.wait_us = 2000;
    Gradus__V1__WorkerTimes rows[2];
    Gradus__V1__WorkerTimes *list[2] = {&rows[0], &rows[1]};
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__worker_times__init(&rows[i]);
        rows[i].worker = s.worker;
        rows[i].times = &all;
    }
    Gradus__V1__StepTimes nothing = GRADUS__V1__STEP_TIMES__INIT;
    rows[1].times = &nothing;
    s.job.times = &all;
    s.job.worker_times = list;
    s.job.n_worker_times = 2;
    text_times(&s.job, &out);
    output_assert_text(&out,
                       "\nTIME OF A STEP         ms     load  compute     wire    apply     wait\n"
                       "worker-1            2.500    0.250    1.000    0.500    0.250    0.500\n"
                       "                              10 %     40 %     20 %     10 %     20 %\n"
                       "all workers         2.500    0.250    1.000    0.500    0.250    0.500\n"
                       "                              10 %     40 %     20 %     10 %     20 %\n"
                       "since the start     2.500    0.250    1.000    0.500    0.250    0.500\n"
                       "                              10 %     40 %     20 %     10 %     20 %\n");
    char pod[] = "gradus-worker-6d6c5f4896-8r6w4"; /* as wide as the longest name */
    rows[0].worker = pod;
    s.job.n_worker_times = 1;
    text_times(&s.job, &out);
    output_assert_text(&out,
                       "\nTIME OF A STEP                       ms     load  compute     wire    "
                       "apply     wait\n"
                       "gradus-worker-6d6c5f4896-8r6w4    2.500    0.250    1.000    0.500    "
                       "0.250    0.500\n"
                       "                                            10 %     40 %     20 %     "
                       "10 %     20 %\n"
                       "since the start                   2.500    0.250    1.000    0.500    "
                       "0.250    0.500\n"
                       "                                            10 %     40 %     20 %     "
                       "10 %     20 %\n");
    rows[0].worker = s.worker;
    s.job.n_worker_times = 2;
    all.wait_us = 4000000000; /* a step of a quarter of an hour keeps to its columns */
    text_times(&s.job, &out);
    for (const char *line = buf_str(&out); *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_in_range(strcspn(line, "\n"), 0, 79);
    }
    buf_release(&out);
}

/* Workers that wait for servers and links more than they compute are told of, but not those whose
 * steps are too few or too short to say so. */
static void test_times_held_up(void **state)
{
    (void)state;
    static const struct {
        uint64_t steps, step_us, away_percent;
        bool told;
    } CASES[] = {{20, 1000, 61, true},
                 {19, 1000, 61, false},
                 {20, 999, 90, false},
                 {20, 1000, 59, false},
                 {5000, 9000, 95, true}};
    struct sample s;
    sample_init(&s);
    struct buf out = {0};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const uint64_t all_us = CASES[i].steps * CASES[i].step_us;
        Gradus__V1__StepTimes t = GRADUS__V1__STEP_TIMES__INIT;
        t.steps = CASES[i].steps;
        t.wire_us = all_us * (CASES[i].away_percent - 5) / 100;
        t.apply_us = all_us * 5 / 100;
        t.compute_us = all_us - t.wire_us - t.apply_us;
        s.job.times = &t;
        out.len = 0;
        text_times(&s.job, &out);
        const char *told = strstr(buf_str(&out), "% of a step on the way to servers and there");
        assert_int_equal(told != NULL, CASES[i].told);
    }
    assert_non_null(strstr(buf_str(&out), "\nWorkers spend 95 % of a step"));
    buf_release(&out);
}

static void test_result_of_a_job_that_never_ran(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    char reason[] = "no such file";
    s.job.state = GRADUS__V1__JOB_STATE__FAILED;
    s.job.reason = reason;
    s.job.step = 0;
    s.job.n_train = 0;
    struct buf out = {0};
    output_result_text(&s.job, &out);
    output_assert_text(&out, "job         digits-1\nstate       FAILED: no such file\n");
    output_state_text(&s.job, &out);
    output_assert_text(&out, "job digits-1: FAILED: no such file\n");
}

static void consistency_is(struct sample *s, const char *expected)
{
    struct buf out = {0}, line = {0};
    output_status_text(&s->job, TERMINAL_ANY, &out);
    const char *at = strstr(buf_str(&out), "\nmode        ");
    assert_non_null(at);
    at += strlen("\nmode        ");
    buf_add(&line, at, strcspn(at, "\n"));
    output_assert_text(&line, expected);
    buf_release(&out);
}

static void test_consistency_in_one_line(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    consistency_is(&s, "sync"); /* of an earlier version */
    Gradus__V1__Consistency c = GRADUS__V1__CONSISTENCY__INIT;
    c.replicas = c.aggregate = 8;
    c.push_every = c.pull_every = 1;
    s.job.consistency = &c;
    consistency_is(&s, "sync, 8 replicas");
    c.aggregate = 6;
    consistency_is(&s, "sync, 8 replicas, complete with 6");
    c.replicas = c.aggregate = 1;
    c.speculate = 2.5;
    consistency_is(&s, "sync, 1 replica, speculative after 2.5 times the usual time");
    c.mode = GRADUS__V1__MODE__ASYNC;
    consistency_is(&s, "async");
    c.policy = GRADUS__V1__STALENESS_POLICY__MAX_STALENESS;
    c.max_staleness = 16;
    consistency_is(&s, "async, max_staleness 16");
    c.mode = GRADUS__V1__MODE__BOUNDED;
    c.staleness = 4;
    c.policy = GRADUS__V1__STALENESS_POLICY__STALENESS_NONE;
    c.push_every = 2;
    consistency_is(&s, "bounded(4), push every 2");
    c.policy = GRADUS__V1__STALENESS_POLICY__SCALE_LR;
    c.pull_every = 3;
    consistency_is(&s, "bounded(4), scale_lr, push every 2, pull every 3");
    c.policy = GRADUS__V1__STALENESS_POLICY__DELAY_COMPENSATION;
    c.lambda = 0.04;
    c.push_every = c.pull_every = 1;
    c.overlap = 1;
    consistency_is(&s, "bounded(4), delay_compensation 0.04, overlap");
}

static void staleness_is(struct sample *s, uint64_t *counts, size_t n, const char *line,
                         const char *progress)
{
    struct buf out = {0};
    s->job.staleness = counts;
    s->job.n_staleness = n;
    output_status_text(&s->job, TERMINAL_ANY, &out);
    if (line != NULL) {
        assert_non_null(strstr(buf_str(&out), line));
    } else {
        assert_null(strstr(buf_str(&out), "staleness"));
    }
    buf_release(&out);
    output_progress(&s->job, NULL, TERMINAL_ANY, &out);
    const char *at = strstr(buf_str(&out), ", 1 ps");
    assert_non_null(at);
    assert_string_equal(at + strlen(", 1 ps"), progress);
    buf_release(&out);
}

static void test_staleness(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    s.job.mode = GRADUS__V1__MODE__ASYNC;
    uint64_t none[3] = {0}, fresh[1] = {7}, late[4] = {0, 0, 0, 5};
    uint64_t all[24] = {400, 300, 200, 80, 19, 1};
    uint64_t halves[2] = {5, 5}, far[24] = {[23] = 1};
    staleness_is(&s, NULL, 0, NULL, "");
    staleness_is(&s, none, 3, NULL, "");
    staleness_is(&s, fresh, 1, "\nstaleness   median 0, max 0: 0 100%\n", "  staleness 0 (max 0)");
    staleness_is(&s, late, 4, "\nstaleness   median 3-4, max 3-4: 3-4 100%\n",
                 "  staleness 3-4 (max 3-4)");
    staleness_is(&s, all, 24,
                 "\nstaleness   median 1, max 9-16: 0 40%, 1 30%, 2 20%, 3-4 8%, 5-8 2%, "
                 "9-16 <1%\n",
                 "  staleness 1 (max 9-16)");
    staleness_is(&s, halves, 2, "median 0, max 1: 0 50%, 1 50%\n", "  staleness 0 (max 1)");
    s.job.mode = GRADUS__V1__MODE__SYNC; /* of before */
    staleness_is(&s, halves, 2, "median 0, max 1: 0 50%, 1 50%\n", "");
    s.job.mode = GRADUS__V1__MODE__BOUNDED;
    staleness_is(&s, far, 24,
                 "max 2097153-4194304: ", "  staleness 2097153-4194304 (max 2097153-4194304)");
}

static void test_losses(void **state)
{
    (void)state;
    struct sample s;
    char saved[] = "/state/checkpoints/digits-1/step-000000100";
    sample_init(&s);
    struct buf out = {0};
    output_status_text(&s.job, TERMINAL_ANY, &out);
    assert_null(strstr(buf_str(&out), "dropped"));
    assert_null(strstr(buf_str(&out), "speculated"));
    assert_null(strstr(buf_str(&out), "recoveries"));
    buf_release(&out);
    s.job.dropped = 12;
    s.job.speculated = 1;
    s.job.recoveries = 2;
    output_status_text(&s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), "\ndropped     12 batches\n"
                                          "speculated  1 replica\n"
                                          "recoveries  2 times back to the beginning\n"));
    buf_release(&out);
    s.job.checkpoint = saved;
    output_status_text(&s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), "\nrecoveries  2 times back to a checkpoint or the "
                                          "beginning\n"));
    buf_release(&out);
    s.job.takeovers = 2;
    output_status_text(&s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), "\ntaken over  2 times by backups\n"));
    buf_release(&out);
    s.job.takeovers = 0;
    output_progress(&s.job, NULL, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), ", 1 ps  12 dropped  1 speculated  2 recoveries"));
    buf_release(&out);
    char reason[] = "lost parameter server ps-1; waits for 1 parameter server";
    s.job.state = GRADUS__V1__JOB_STATE__RECOVERING;
    s.job.reason = reason;
    output_status_text(&s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), "state       RECOVERING: lost parameter server ps-1; "
                                          "waits for 1 parameter server\n"));
    buf_release(&out);
    output_progress(&s.job, NULL, TERMINAL_ANY, &out);
    output_assert_text(&out,
                       "RECOVERING  lost parameter server ps-1; waits for 1 parameter server");
}

static void test_shards(void **state)
{
    (void)state;
    struct shards_sample x;
    shards_init(&x);
    struct buf out = {0};
    output_status_text(&x.s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out),
                           "\nshard 0     ps-1: version 120, 61,234 examples, 1 duplicate, 2 "
                           "dropped\n"
                           "shard 1     version 0, 0 examples, 0 duplicates\n"));
    buf_release(&out);
    char backup[] = "ps-2";
    x.shards[0].backup = backup;
    output_status_text(&x.s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), ", 2 dropped, backup on ps-2 joins\nshard 1 "));
    buf_release(&out);
    x.shards[0].state_sent = 1600000;
    x.shards[0].state_bytes = 5000000;
    output_status_text(&x.s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), ", backup on ps-2 joins (2 of 5 MB)\nshard 1 "));
    buf_release(&out);
    x.shards[0].backup_follows = 1;
    output_status_text(&x.s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), ", 2 dropped, backup on ps-2\nshard 1 "));
    buf_release(&out);
    x.shards[0].backup_behind = 3;
    output_status_text(&x.s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), ", backup on ps-2, 3 changes behind\nshard 1 "));
    buf_release(&out);
    char none[] = "", problem[] = "there is no other server for it";
    x.shards[0].backup = none;
    x.shards[0].backup_behind = 0;
    x.shards[0].backup_problem = problem;
    output_status_text(&x.s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), ", no backup: there is no other server for it\n"));
    buf_release(&out);
}

/* Long histories are cut to their end. */
static void test_status_text(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    struct buf out = {0};
    output_status_text(&s.job, TERMINAL_ANY, &out);
    const char *text = buf_str(&out);
    assert_non_null(strstr(text, "workers     worker-1 worker-1\n"));
    assert_non_null(strstr(text, "ps          ps-1\n"));
    assert_non_null(strstr(text, "4 earlier evaluations are in --json\n"));
    assert_null(strstr(text, "step     400"));
    assert_non_null(
        strstr(text, "epoch   5.00  step     500  test  loss 0.2500  accuracy 0.5000\n"));
    assert_non_null(strstr(text, "step    1400"));
    buf_release(&out);
    s.job.n_workers = 0;
    s.job.n_evaluations = 0;
    output_status_text(&s.job, TERMINAL_ANY, &out);
    assert_null(strstr(buf_str(&out), "workers"));
    buf_release(&out);
}

static void test_metrics_of_all_sizes(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0.0000"},       {0.926, "0.9260"},     {0.00012345, "1.234e-04"},
                 {-2.5, "-2.5000"},   {99999, "99999.0000"}, {1234567, "1.235e+06"},
                 {(double)NAN, "nan"}};
    struct sample s;
    sample_init(&s);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        s.loss.value = cases[i].value;
        s.evaluations[0].n_test = 1;
        struct buf out = {0};
        output_evaluation(&s.evaluations[0], TERMINAL_ANY, &out);
        const char *at = strstr(buf_str(&out), "loss ");
        assert_non_null(at);
        assert_string_equal(at + strlen("loss "), cases[i].text);
        buf_release(&out);
    }
    s.loss.name = (char[]){"auc"};
    s.loss.value = -(double)NAN;
    struct buf out = {0};
    output_evaluation(&s.evaluations[0], TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), "auc undefined (one class)"));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_progress_in_few_columns),
        cmocka_unit_test(test_evaluation_in_few_columns),
        cmocka_unit_test(test_progress_at_the_start),
        cmocka_unit_test(test_result_text),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_times_held_up),
        cmocka_unit_test(test_result_of_a_job_that_never_ran),
        cmocka_unit_test(test_consistency_in_one_line),
        cmocka_unit_test(test_staleness),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_status_text),
        cmocka_unit_test(test_metrics_of_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
