/* SPDX-License-Identifier: Apache-2.0 */
/* What people and programs see of a job. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/text_times.h"

static char empty[] = "";

/* A job in the middle of its training. */
struct sample {
    Gradus__V1__Job job;
    Gradus__V1__MetricValue loss, accuracy;
    Gradus__V1__MetricValue *metrics[2];
    Gradus__V1__Evaluation evaluations[14];
    Gradus__V1__Evaluation *list[14];
    char id[16], loss_name[8], accuracy_name[16], worker[16], server[16];
    char *workers[2], *ps[1];
};

static void sample_init(struct sample *s)
{
    *s = (struct sample){.id = "digits-1",
                         .loss_name = "loss",
                         .accuracy_name = "accuracy",
                         .worker = "worker-1",
                         .server = "ps-1"};
    gradus__v1__metric_value__init(&s->loss);
    gradus__v1__metric_value__init(&s->accuracy);
    s->loss.name = s->loss_name;
    s->loss.value = 0.25;
    s->accuracy.name = s->accuracy_name;
    s->accuracy.value = 0.5;
    s->metrics[0] = &s->loss;
    s->metrics[1] = &s->accuracy;
    gradus__v1__job__init(&s->job);
    s->job.id = s->id;
    s->job.state = GRADUS__V1__JOB_STATE__RUNNING;
    s->job.mode = GRADUS__V1__MODE__SYNC;
    s->job.step = 500;
    s->job.steps_total = 1000;
    s->job.epoch = 2.5;
    s->job.epochs_total = 5;
    s->job.examples_per_second = 61234.4;
    s->job.seconds = 12.34;
    s->job.eta_seconds = 75;
    s->job.train = s->metrics;
    s->job.n_train = 2;
    s->workers[0] = s->worker;
    s->workers[1] = s->worker;
    s->job.workers = s->workers;
    s->job.n_workers = 2;
    s->ps[0] = s->server;
    s->job.ps = s->ps;
    s->job.n_ps = 1;
    for (size_t i = 0; i < 14; i++) {
        gradus__v1__evaluation__init(&s->evaluations[i]);
        s->evaluations[i].step = 100 * (i + 1);
        s->evaluations[i].epoch = (double)(i + 1);
        s->evaluations[i].test = s->metrics;
        s->evaluations[i].n_test = 2;
        s->list[i] = &s->evaluations[i];
    }
    s->job.evaluations = s->list;
    s->job.n_evaluations = 14;
}

static json_t *parse(struct buf *out)
{
    json_error_t error;
    json_t *json = json_loads(buf_str(out), 0, &error);
    buf_release(out);
    assert_non_null(json);
    return json;
}

static void assert_text(struct buf *out, const char *expected)
{
    assert_string_equal(buf_str(out), expected);
    buf_release(out);
}

static void test_progress(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    struct buf out = {0};
    output_progress(&s.job, TERMINAL_ANY, &out);
    assert_text(&out, "RUNNING  epoch 2.50/5  step 500/1000  loss 0.2500  accuracy 0.5000  "
                      "61,234 examples/s  1:15 left  2 workers, 1 ps");
    char reason[] = "waits for 1 more worker";
    s.job.state = GRADUS__V1__JOB_STATE__PENDING;
    s.job.reason = reason;
    output_progress(&s.job, TERMINAL_ANY, &out);
    assert_text(&out, "PENDING  waits for 1 more worker");
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
        output_progress(&s.job, cases[i].columns, &out);
        assert_text(&out, cases[i].line);
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
    assert_text(&out, "epoch   1.00  step     100  train  loss 0.2500  accuracy 0.5000"
                      "  test  loss 0.2500  accuracy 0.5000");
    output_evaluation(e, 80, &out);
    assert_text(&out, "epoch   1.00  step     100  train  loss 0.2500  accuracy 0.5000\n"
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

/* A reason is shown whatever else is, and below its job where there is no room beside it. */
static void test_reasons_in_the_list(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    char reason[] = "lost worker worker-2; waits for 1 more worker: 1 of 2 free";
    s.job.state = GRADUS__V1__JOB_STATE__RECOVERING;
    s.job.reason = reason;
    s.job.test = s.metrics;
    s.job.n_test = 2;
    Gradus__V1__Job *jobs[] = {&s.job};
    struct buf out = {0};
    output_jobs_text(jobs, 1, TERMINAL_ANY, &out);
    assert_text(&out,
                "JOB          STATE          STEP   EPOCH  RESULT\n"
                "digits-1     RECOVERING      500    2.50  loss 0.2500  accuracy 0.5000  lost "
                "worker worker-2; waits for 1 more worker: 1 of 2 free\n");
    output_jobs_text(jobs, 1, 80, &out);
    assert_text(&out,
                "JOB          STATE          STEP   EPOCH  RESULT\n"
                "digits-1     RECOVERING      500    2.50\n"
                "    loss 0.2500 accuracy 0.5000 lost worker worker-2; waits for 1 more worker: "
                "1\n    of 2 free\n");
}

static void test_errors_as_json(void **state)
{
    (void)state;
    struct diags diags = {0};
    struct buf out = {0};
    diags_add(&diags, "job.yaml", 3, 7, "training.mode: 'sink' is not known");
    diags_add(&diags, "--set foo=1", 0, 0, "unknown key 'foo'; allowed: data");
    output_diags_json("job.yaml", &diags, &out);
    json_t *json = parse(&out), *errors = json_object_get(json, "errors");
    assert_string_equal(json_string_value(json_object_get(json, "status")), "invalid");
    assert_int_equal(json_array_size(errors), 2);
    json_t *first = json_array_get(errors, 0), *second = json_array_get(errors, 1);
    assert_string_equal(json_string_value(json_object_get(first, "file")), "job.yaml");
    assert_int_equal(json_integer_value(json_object_get(first, "line")), 3);
    assert_int_equal(json_integer_value(json_object_get(first, "column")), 7);
    assert_string_equal(json_string_value(json_object_get(first, "key")), "training.mode");
    assert_string_equal(json_string_value(json_object_get(first, "message")),
                        "training.mode: 'sink' is not known");
    assert_true(json_is_null(json_object_get(second, "line")));
    assert_string_equal(json_string_value(json_object_get(second, "key")), "foo");
    json_decref(json);
    diags_release(&diags);
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
    output_progress(&s.job, TERMINAL_ANY, &out);
    assert_text(&out, "RUNNING  epoch 0.00/5  step 0/1000  1 worker, 1 ps");
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
    s.job.dropped = 26;
    s.job.speculated = 1;
    struct buf out = {0};
    output_result_text(&s.job, &out);
    assert_text(&out, "job         digits-1\n"
                      "state       SUCCEEDED\n"
                      "trained     500 steps, 2.5 epochs in 12.3 s (61,234 examples/s)\n"
                      "train       loss 0.2500  accuracy 0.5000\n"
                      "test        loss 0.2500  accuracy 0.5000\n"
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
    assert_text(&out, ""); /* nothing is known */
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
    assert_text(&out, "\nTIME OF A STEP         ms     load  compute     wire    apply     wait\n"
                      "worker-1            2.500    0.250    1.000    0.500    0.250    0.500\n"
                      "                              10 %     40 %     20 %     10 %     20 %\n"
                      "all workers         2.500    0.250    1.000    0.500    0.250    0.500\n"
                      "                              10 %     40 %     20 %     10 %     20 %\n"
                      "since the start     2.500    0.250    1.000    0.500    0.250    0.500\n"
                      "                              10 %     40 %     20 %     10 %     20 %\n");
    all.wait_us = 4000000000; /* a step of a quarter of an hour keeps to its columns */
    text_times(&s.job, &out);
    for (const char *line = buf_str(&out); *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_in_range(strcspn(line, "\n"), 0, 79);
    }
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
    assert_text(&out, "job         digits-1\nstate       FAILED: no such file\n");
    output_cancel_text(&s.job, &out);
    assert_text(&out, "job digits-1: FAILED: no such file\n");
}

static void consistency_is(struct sample *s, const char *expected)
{
    struct buf out = {0}, line = {0};
    output_status_text(&s->job, TERMINAL_ANY, &out);
    const char *at = strstr(buf_str(&out), "\nmode        ");
    assert_non_null(at);
    at += strlen("\nmode        ");
    buf_add(&line, at, strcspn(at, "\n"));
    assert_text(&line, expected);
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
    output_progress(&s->job, TERMINAL_ANY, &out);
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
                                          "recoveries  2 times back to a checkpoint or the "
                                          "beginning\n"));
    buf_release(&out);
    output_progress(&s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), ", 1 ps  12 dropped  1 speculated  2 recoveries"));
    buf_release(&out);
    char reason[] = "lost parameter server ps-1; waits for 1 parameter server";
    s.job.state = GRADUS__V1__JOB_STATE__RECOVERING;
    s.job.reason = reason;
    output_status_text(&s.job, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), "state       RECOVERING: lost parameter server ps-1; "
                                          "waits for 1 parameter server\n"));
    buf_release(&out);
    output_progress(&s.job, TERMINAL_ANY, &out);
    assert_text(&out, "RECOVERING  lost parameter server ps-1; waits for 1 parameter server");
}

/* Two shards: one with a ledger, one that has said nothing. */
struct shards_sample {
    struct sample s;
    Gradus__V1__ShardProgress shards[2];
    Gradus__V1__ShardProgress *list[2];
    Gradus__V1__Ledger ledger;
    uint32_t done[3];
};

static void shards_init(struct shards_sample *x)
{
    sample_init(&x->s);
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__shard_progress__init(&x->shards[i]);
        x->shards[i].shard = (uint32_t)i;
        x->list[i] = &x->shards[i];
    }
    gradus__v1__ledger__init(&x->ledger);
    x->ledger.records = 53; /* 6 batches, the last one of 3; splits of 2 */
    x->ledger.batch_records = 10;
    x->ledger.split_batches = 2;
    x->ledger.epoch = 2;
    x->done[0] = 2;
    x->done[1] = 1;
    x->done[2] = 2;
    x->ledger.done = x->done;
    x->ledger.n_done = 3;
    x->shards[0].ps = x->s.server;
    x->shards[0].version = 120;
    x->shards[0].examples = 61234;
    x->shards[0].duplicates = 1;
    x->shards[0].dropped = 2;
    x->shards[0].ledger = &x->ledger;
    x->s.job.shards = x->list;
    x->s.job.n_shards = 2;
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
}

static void test_result_json(void **state)
{
    (void)state;
    static const char *const keys[] = {"job",     "state",      "reason",
                                       "steps",   "epochs",     "metrics",
                                       "seconds", "checkpoint", "examples_per_second",
                                       "activity"};
    struct sample s;
    sample_init(&s);
    s.job.examples_per_second = (double)INFINITY;
    s.accuracy.value = (double)NAN;
    struct buf out = {0};
    output_result_json(&s.job, &out);
    json_t *json = parse(&out);
    assert_int_equal(json_object_size(json), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_non_null(json_object_get(json, keys[i]));
    }
    assert_string_equal(json_string_value(json_object_get(json, "job")), "digits-1");
    assert_int_equal(json_integer_value(json_object_get(json, "steps")), 500);
    assert_true(json_is_null(json_object_get(json, "examples_per_second")));
    json_t *train = json_object_get(json_object_get(json, "metrics"), "train");
    assert_true(json_real_value(json_object_get(train, "loss")) == 0.25);
    assert_true(json_is_null(json_object_get(train, "accuracy")));
    json_decref(json);
}

static void test_status_json(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    char reason[] = "quote \" and \xff";
    s.job.reason = reason;
    struct buf out = {0};
    output_status_json(&s.job, &out);
    json_t *json = parse(&out); /* whatever a peer sent, it is JSON */
    assert_int_equal(json_array_size(json_object_get(json, "evaluations")), 14);
    assert_int_equal(json_array_size(json_object_get(json, "workers")), 2);
    json_decref(json);
}

static json_int_t number_at(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static void test_status_json_of_consistency_and_shards(void **state)
{
    (void)state;
    static const char *const keys[] = {"mode",       "replicas",   "aggregate", "speculate",
                                       "staleness",  "policy",     "lambda",    "max_staleness",
                                       "push_every", "pull_every", "overlap"};
    struct shards_sample x;
    shards_init(&x);
    struct buf out = {0};
    output_status_json(&x.s.job, &out);
    json_t *json = parse(&out);
    assert_true(json_is_null(json_object_get(json, "consistency")));
    json_decref(json);
    Gradus__V1__Consistency c = GRADUS__V1__CONSISTENCY__INIT;
    c.mode = GRADUS__V1__MODE__BOUNDED;
    c.staleness = 4;
    c.policy = GRADUS__V1__STALENESS_POLICY__SCALE_LR;
    uint64_t staleness[2] = {3, 4};
    x.s.job.consistency = &c;
    x.s.job.staleness = staleness;
    x.s.job.n_staleness = 2;
    x.s.job.dropped = 1;
    x.s.job.speculated = 2;
    x.s.job.recoveries = 3;
    output_status_json(&x.s.job, &out);
    json = parse(&out);
    const json_t *o = json_object_get(json, "consistency");
    assert_int_equal(json_object_size(o), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_non_null(json_object_get(o, keys[i]));
    }
    assert_string_equal(json_string_value(json_object_get(o, "mode")), "BOUNDED");
    assert_string_equal(json_string_value(json_object_get(o, "policy")), "SCALE_LR");
    assert_int_equal(number_at(o, "staleness"), 4);
    assert_int_equal(number_at(json, "dropped"), 1);
    assert_int_equal(number_at(json, "speculated"), 2);
    assert_int_equal(number_at(json, "recoveries"), 3);
    assert_int_equal(json_array_size(json_object_get(json, "staleness")), 2);
    const json_t *shards = json_object_get(json, "shards");
    assert_int_equal(json_array_size(shards), 2);
    const json_t *first = json_array_get(shards, 0), *second = json_array_get(shards, 1);
    assert_string_equal(json_string_value(json_object_get(first, "ps")), "ps-1");
    assert_int_equal(number_at(first, "version"), 120);
    assert_int_equal(number_at(first, "examples"), 61234);
    assert_int_equal(number_at(first, "duplicates"), 1);
    assert_int_equal(number_at(first, "dropped"), 2);
    const json_t *ledger = json_object_get(first, "ledger");
    assert_int_equal(number_at(ledger, "epoch"), 2);
    assert_int_equal(number_at(ledger, "records"), 53);
    assert_int_equal(number_at(ledger, "records_applied"), 2 * 53 + 20 + 10 + 13);
    assert_int_equal(json_array_size(json_object_get(ledger, "done")), 3);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(ledger, "done"), 1)), 1);
    assert_int_equal(number_at(second, "shard"), 1);
    assert_true(json_is_null(json_object_get(second, "ledger")));
    json_decref(json);
    x.done[1] = 7; /* more than the split has */
    output_status_json(&x.s.job, &out);
    json = parse(&out);
    first = json_array_get(json_object_get(json, "shards"), 0);
    assert_true(json_is_null(json_object_get(first, "ledger")));
    json_decref(json);
}

static void test_changes(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    Gradus__V1__Consistency c = GRADUS__V1__CONSISTENCY__INIT;
    c.mode = GRADUS__V1__MODE__ASYNC;
    s.job.consistency = &c;
    s.job.generation = 3;
    struct job_changes changes;
    job_changes_make("name: x\ntraining:\n  mode: sync\n  seed: 1\n",
                     "name: x\ntraining:\n  mode: async\n  seed: 1\n", &changes);
    struct buf out = {0};
    output_change_text(&s.job, &changes, &out);
    assert_text(&out, "training.mode: sync -> async\n"
                      "job digits-1: RUNNING, generation 3, async\n");
    output_change_json(&s.job, &changes, &out);
    json_t *json = parse(&out);
    const json_t *mode = json_object_get(json_object_get(json, "changes"), "training.mode");
    assert_string_equal(json_string_value(json_object_get(mode, "from")), "sync");
    assert_string_equal(json_string_value(json_object_get(mode, "to")), "async");
    assert_string_equal(json_string_value(json_object_get(json, "job")), "digits-1");
    assert_string_equal(json_string_value(json_object_get(json, "state")), "RUNNING");
    assert_int_equal(number_at(json, "generation"), 3);
    assert_non_null(json_object_get(json_object_get(json, "consistency"), "replicas"));
    json_decref(json);
    job_changes_release(&changes);
    output_change_text(&s.job, &changes, &out);
    assert_text(&out, "nothing changed: the job has these values already\n"
                      "job digits-1: RUNNING, generation 3, async\n");
}

static void test_jobs(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    Gradus__V1__Job *jobs[] = {&s.job};
    struct buf out = {0};
    output_jobs_text(jobs, 0, TERMINAL_ANY, &out);
    assert_text(&out, "no jobs\n");
    output_jobs_text(jobs, 1, TERMINAL_ANY, &out);
    assert_non_null(strstr(buf_str(&out), "digits-1"));
    assert_non_null(strstr(buf_str(&out), "RUNNING"));
    buf_release(&out);
    output_jobs_json(jobs, NULL, 0, &out);
    json_t *json = parse(&out);
    assert_int_equal(json_array_size(json), 0);
    json_decref(json);
}

static void test_nodes(void **state)
{
    (void)state;
    Gradus__V1__NodeInfo node = GRADUS__V1__NODE_INFO__INIT;
    char id[] = "worker-1", address[] = "127.0.0.1:7001", job[] = "digits-1";
    char *jobs[] = {job};
    node.id = id;
    node.role = GRADUS__V1__NODE_ROLE__WORKER;
    node.address = address;
    node.http_address = empty;
    node.alive = 1;
    Gradus__V1__NodeInfo *nodes[] = {&node};
    struct buf out = {0};
    output_nodes_text(nodes, 1, &out);
    assert_non_null(strstr(buf_str(&out), "yes    127.0.0.1:7001\n")); /* no blanks at the end */
    buf_release(&out);
    node.jobs = jobs;
    node.n_jobs = 1;
    output_nodes_text(nodes, 1, &out);
    assert_non_null(strstr(buf_str(&out), "127.0.0.1:7001           digits-1\n"));
    buf_release(&out);
    output_nodes_text(nodes, 0, &out);
    assert_text(&out, "no nodes have joined\n");
}

static void test_seconds(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0.0 s"},        {59.94, "59.9 s"}, {59.96, "1:00"}, {61, "1:01"},
                 {3599.6, "1:00:00"}, {7384, "2:03:04"}, {-1, "?"},       {(double)INFINITY, "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[40];
        assert_string_equal(output_seconds(cases[i].seconds, text, sizeof text), cases[i].text);
    }
}

static void test_lines_fit_the_terminal(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        size_t columns;
        const char *shown;
    } cases[] = {{"", 5, ""},
                 {"abcde", 5, "abcde"},
                 {"abcdef", 5, "abcd…"},
                 {"abc", 0, ""},
                 {"abc", 1, "…"},
                 {"äöüß", 4, "äöüß"},
                 {"äöüßa", 4, "äöü…"},
                 {"a\nb\033[31m", 9, "a b [31m"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char shown[64];
        assert_string_equal(output_fit(cases[i].line, cases[i].columns, shown, sizeof shown),
                            cases[i].shown);
    }
    char small[8]; /* cut to the buffer as well */
    assert_string_equal(output_fit("abcdefghijkl", 80, small, sizeof small), "abcd…");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_progress_in_few_columns),
        cmocka_unit_test(test_evaluation_in_few_columns),
        cmocka_unit_test(test_reasons_in_the_list),
        cmocka_unit_test(test_errors_as_json),
        cmocka_unit_test(test_progress_at_the_start),
        cmocka_unit_test(test_result_text),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_result_of_a_job_that_never_ran),
        cmocka_unit_test(test_consistency_in_one_line),
        cmocka_unit_test(test_staleness),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_status_text),
        cmocka_unit_test(test_metrics_of_all_sizes),
        cmocka_unit_test(test_result_json),
        cmocka_unit_test(test_status_json),
        cmocka_unit_test(test_status_json_of_consistency_and_shards),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_lines_fit_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
