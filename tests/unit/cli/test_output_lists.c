/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of many jobs and nodes, and that lines fit the terminal. */
#include "output_rig.h"

static char empty[] = "";
static const struct output_view wide = {.columns = TERMINAL_ANY, .now_ms = 1000000000},
                                narrow = {.columns = 80, .now_ms = 1000000000};

/* A reason is shown whatever else is, and below its job where there is no room beside it. */
static void test_reasons_in_the_list(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    s.job.submitted_ms = wide.now_ms - 359000;
    char reason[] = "lost worker worker-2; waits for 1 more worker: 1 of 2 free";
    s.job.state = GRADUS__V1__JOB_STATE__RECOVERING;
    s.job.reason = reason;
    s.job.test = s.metrics;
    s.job.n_test = 2;
    Gradus__V1__Job *jobs[] = {&s.job};
    struct buf out = {0};
    output_jobs_text(jobs, 1, &wide, &out);
    output_assert_text(&out, "JOB          STATE          STEP   EPOCH  AGE    TIME  RESULT\n"
                             "digits-1     RECOVERING      500    2.50   5m  12.3 s  loss 0.2500  "
                             "accuracy 0.5000  lost "
                             "worker worker-2; waits for 1 more worker: 1 of 2 free\n");
    output_jobs_text(jobs, 1, &narrow, &out);
    output_assert_text(
        &out, "JOB          STATE          STEP   EPOCH  AGE    TIME  RESULT\n"
              "digits-1     RECOVERING      500    2.50   5m  12.3 s\n"
              "    loss 0.2500 accuracy 0.5000 lost worker worker-2; waits for 1 more worker: "
              "1\n    of 2 free\n");
    char silent[] = "ps-2 has been silent for 14 s; it is waited for until 2:00";
    s.job.activity = silent; /* where there is a reason it is not shown beside it */
    output_jobs_text(jobs, 1, &wide, &out);
    assert_null(strstr(buf_str(&out), "silent"));
    buf_reset(&out);
    s.job.reason = empty;
    s.job.state = GRADUS__V1__JOB_STATE__RUNNING;
    output_jobs_text(jobs, 1, &wide, &out);
    output_assert_text(&out, "JOB          STATE          STEP   EPOCH  AGE    TIME  RESULT\n"
                             "digits-1     RUNNING         500    2.50   5m  12.3 s  loss 0.2500  "
                             "accuracy 0.5000  ps-2 has "
                             "been silent for 14 s; it is waited for until 2:00\n");
}

static void test_places_in_the_queue(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    s.job.submitted_ms = wide.now_ms - 359000;
    char reason[] = "waits for 1 more worker: 1 of 2 free", owner[] = "ann";
    s.job.state = GRADUS__V1__JOB_STATE__PENDING;
    s.job.reason = reason;
    s.job.owner = owner;
    s.job.priority = -5;
    s.job.queue_position = 3;
    Gradus__V1__Job *jobs[] = {&s.job};
    struct buf out = {0};
    output_jobs_text(jobs, 1, &narrow, &out);
    output_assert_text(&out,
                       "JOB          STATE          STEP   EPOCH  AGE    TIME  RESULT\n"
                       "digits-1     PENDING         500    2.50   5m  12.3 s\n"
                       "    of ann priority -5 place 3 waits for 1 more worker: 1 of 2 free\n");
    output_status_text(&s.job, 80, &out);
    assert_non_null(
        strstr(buf_str(&out), "\nowner       ann\npriority    -5\nqueue       place 3\n"));
    buf_release(&out);
}

/* One meaning of cluster.workers: how many are wanted, and how few will do. */
static void test_wanted_workers(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    char text[] = "name: j\ndata: {train: {file: x}}\nmodel: {layers: [{dense: {units: 2}}], loss: "
                  "mean_squared_error}\nupdate: {rule: sgd}\ncluster: {workers: 3..5}\n";
    s.job.text = text;
    struct buf out = {0};
    output_status_text(&s.job, 80, &out);
    assert_non_null(strstr(buf_str(&out),
                           "wanted      5 workers; begins with 3, goes on with fewer "
                           "when it has begun\n"));
    buf_reset(&out);
    s.job.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    output_status_text(&s.job, 80, &out);
    assert_null(strstr(buf_str(&out), "wanted"));
    buf_release(&out);
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
    output_assert_text(&out, "training.mode: sync -> async\n"
                             "job digits-1: RUNNING, generation 3, async\n");
    job_changes_release(&changes);
    output_change_text(&s.job, &changes, &out);
    output_assert_text(&out, "nothing changed: the job has these values already\n"
                             "job digits-1: RUNNING, generation 3, async\n");
}

/* How long ago each was submitted, and how long it has trained. */
static void test_ages(void **state)
{
    (void)state;
    static const struct {
        int64_t ago_ms;
        double seconds;
        const char *says;
    } rows[] = {{0, 0, "  0s       -\n"},
                {59999, 0.04, " 59s   0.0 s\n"},
                {3600000, 61, "  1h    1:01\n"},
                {86399999, 3723, " 23h 1:02:03\n"},
                {950400000, 360000, " 11d 100:00:00\n"},
                {-5, 0, "  0s       -\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sample s;
        sample_init(&s);
        s.job.submitted_ms = wide.now_ms - rows[i].ago_ms;
        s.job.seconds = rows[i].seconds;
        Gradus__V1__Job *jobs[] = {&s.job};
        struct buf out = {0};
        output_jobs_text(jobs, 1, &wide, &out);
        if (strstr(buf_str(&out), rows[i].says) == NULL) {
            fail_msg("'%s' and '%s'", buf_str(&out), rows[i].says);
        }
        buf_release(&out);
    }
}

static void test_jobs(void **state)
{
    (void)state;
    struct sample s;
    sample_init(&s);
    Gradus__V1__Job *jobs[] = {&s.job};
    struct buf out = {0};
    output_jobs_text(jobs, 0, &wide, &out);
    output_assert_text(&out, "no jobs\n");
    output_jobs_text(jobs, 1, &wide, &out);
    assert_non_null(strstr(buf_str(&out), "digits-1"));
    assert_non_null(strstr(buf_str(&out), "RUNNING"));
    buf_release(&out);
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
    output_assert_text(&out, "no nodes have joined\n");
}

/* Pods have long names: the columns are as wide as the longest. */
static void test_nodes_with_long_names(void **state)
{
    (void)state;
    char pod[] = "gradus-worker-d79cdd7f5-sd42s", ps[] = "gradus-ps-0";
    char of_pod[] = "10.88.0.11:7000", of_ps[] = "gradus-ps-0.gradus-ps.gradus:7000", job[] = "j-1";
    char *jobs[] = {job};
    Gradus__V1__NodeInfo rows[2];
    Gradus__V1__NodeInfo *nodes[2] = {&rows[0], &rows[1]};
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__node_info__init(&rows[i]);
        rows[i].id = i == 0 ? pod : ps;
        rows[i].role = i == 0 ? GRADUS__V1__NODE_ROLE__WORKER : GRADUS__V1__NODE_ROLE__PS;
        rows[i].address = i == 0 ? of_pod : of_ps;
        rows[i].alive = 1;
        rows[i].jobs = jobs;
        rows[i].n_jobs = 1;
    }
    struct buf out = {0};
    output_nodes_text(nodes, 2, &out);
    output_assert_text(
        &out,
        "NODE                          ROLE    ALIVE  ADDRESS                           JOBS\n"
        "gradus-worker-d79cdd7f5-sd42s WORKER  yes    10.88.0.11:7000                   j-1\n"
        "gradus-ps-0                   PS      yes    gradus-ps-0.gradus-ps.gradus:7000 j-1\n");
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
        cmocka_unit_test(test_reasons_in_the_list),
        cmocka_unit_test(test_places_in_the_queue),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_ages),
        cmocka_unit_test(test_wanted_workers),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_nodes_with_long_names),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_lines_fit_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
