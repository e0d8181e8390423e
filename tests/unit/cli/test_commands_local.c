/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that need no job: words, environment, files that are checked, data that are made; runs
 * and traces. */
#include "commands_rig.h"

static void test_traces(void **state)
{
    (void)state;
    struct buf file = {0};
    master.traces = true;
    cli_expect_of(0, "trace digits-7 --steps 3 --within 2s");
    const Gradus__V1__TraceJobRequest *q = cli_heard("Trace");
    assert_int_equal(q->steps, 3);
    assert_int_equal(q->timeout_ms, 2000);
    cli_says(&out, "2 steps of job digits-7 in digits-7.trace.json; open it in");
    cli_says(&err_out, "warning: worker-3 made only 2 of 3 steps");
    cli_says_not(&err_out, "worker-4 made only");
    cli_says(&err_out, "warning: worker-4 did more than could be recorded: 17 spans are missing");
    cli_says(&err_out, "warning: ps-2 is missing: no room");
    cli_says_not(&err_out, "ps-1");
    cli_read_file("digits-7.trace.json", &file);
    cli_says(&file, "\"traceEvents\"");
    cli_says(&file, "worker-4");
    cli_expect_of(0, "trace digits-7 --steps 2 -o other.json --json");
    cli_says(&out, "\"job\": \"digits-7\"");
    cli_says(&out, "\"file\": \"other.json\"");
    cli_says_not(&err_out, "made only");
    cli_read_file("other.json", &file);
    cli_expect_of(5, "trace digits-7 -o nowhere/x.json");
    cli_says(&err_out, "nowhere/x.json");
    cli_expect_of(0, "timeline digits-7 --steps 3 --last 4s -o last.svg");
    q = cli_heard("Trace");
    assert_int_equal(q->steps, 1000);
    assert_int_equal(q->timeout_ms, 4000);
    cli_says_not(&err_out, "made only"); /* no number of steps was asked for */
    cli_says(&err_out, "warning: ps-2 is missing: no room");
    master.traces = false;
    buf_release(&file);
}

static void test_environment(void **state)
{
    (void)state;
    assert_int_equal(setenv("GRADUS_MASTER", address, 1), 0);
    cli_expect(0, "cancel digits-7");
    cli_expect(0, "submit job.yaml");
    cli_says(&err_out, "`gradus watch digits-7` follows it"); /* the environment says where */
    cli_expect(5, "status digits-7 --state-dir nowhere");     /* what is typed goes before */
    assert_int_equal(unsetenv("GRADUS_MASTER"), 0);
    cli_expect(4, "status digits-7 --master 127.0.0.1:1");
    cli_says(&err_out, "cannot be reached at 127.0.0.1:1");
}

static void test_words(void **state)
{
    (void)state;
    cli_expect(2, "");
    cli_says(&err_out, "Usage: gradus COMMAND");
    cli_expect(0, "--help");
    cli_says(&out, "  submit        Send a job to a master and print its id\n");
    cli_says(&out, "Exit codes: 0 done");
    cli_expect(0, "help list");
    cli_says(&out, "Usage: gradus list [FLAGS]");
    cli_says(&out, "Examples:\n  gradus list\n");
    cli_expect(0, "--man-page");
    cli_says(&out, ".TH GRADUS 1 ");
    cli_expect(0, "list --man-page");
    cli_says(&out, ".SH \"EXAMPLES\"\n.nf\n  gradus list\n");
    cli_expect(2, "help lst");
    cli_expect(2, "lst");
    cli_says(&err_out, "unknown command lst; did you mean `gradus list`?");
    cli_expect(2, "somethingelse");
    cli_says(&err_out, "`gradus --help` lists them");
    cli_expect(2, "list extra");
    cli_says(&err_out, "unexpected argument 'extra'");
    cli_says(&err_out, "`gradus list --help` tells more.");
    cli_expect(2, "list --limit 0");
    cli_expect(0, "--version");
    assert_string_equal(buf_str(&out), "gradus " GRADUS_VERSION "\n");
    cli_expect(0, "list --version");
    assert_string_equal(buf_str(&out), "gradus " GRADUS_VERSION "\n");
    cli_expect(0, "version --json");
    cli_says(&out, "\"version\": \"" GRADUS_VERSION "\"");
}

static void test_validates(void **state)
{
    (void)state;
    cli_expect(0, "validate job.yaml");
    cli_says(&out, "job.yaml is valid and fits its data");
    cli_expect(0, "validate job.yaml --json");
    cli_says(&out, "\"status\": \"valid\"");
    cli_says(&out, "\"checked_against\": \"data\"");
    cli_expect(2, "validate job.yaml --set training.epoch=3");
    cli_says(&err_out, "did you mean 'epochs'?");
    cli_expect(2, "validate bad.yaml --json");
    cli_says(&out, "\"status\": \"invalid\"");
    cli_says(&out, "\"line\": 2");
    cli_expect(0, "validate job.yaml --set data.dir=/nowhere");
    cli_says_not(&out, "fits its data");
    cli_expect(0, "plan job.yaml");
    cli_says(&out, "dense_1.kernel");
    cli_expect(0, "plan job.yaml --json");
    cli_says(&out, "\"elements\": 6");
    cli_expect(0, "schema --json");
    cli_says(&out, "\"$schema\"");
    cli_expect(0, "schema --markdown");
    cli_says(&out, "# ");
    cli_expect(0, "schema");
    cli_says(&out, "training.epochs");
}

static void test_rules(void **state)
{
    (void)state;
    cli_expect(0, "rules");
    cli_says(&out, "RULE               BYTES  WHAT IT DOES; SLOTS\nsgd                    4  ");
    cli_says(&out, "Gradient descent with momentum, heavy-ball or Nesterov; momentum\n");
    cli_says(&out, "squares (per row)\n");
    cli_says_not(&out, "plug-in: ");
    cli_expect(0, "rules momentum");
    cli_says(&out, "momentum: Gradient descent with momentum, heavy-ball or Nesterov\n"
                   "  slots: momentum\n  bytes per parameter: 8\n"
                   "  table rows: lazy, catch_up, dense\n\n  learning_rate\n      Step length");
    cli_says(&out, "      number from 0 to 1; default 0.9\n");
    cli_expect(0, "rules adafactor");
    cli_says(&out, "  slots: row (per row), column (per column)\n");
    cli_says(&out, "  table rows: none\n");
    cli_expect(0, "rules sgd");
    cli_says(&out, "  slots: none\n");
    cli_says(&out, "  table rows: exact\n");
    cli_expect(0, "rules momentum --json");
    assert_ptr_equal(strstr(buf_str(&out), "[\n  {\n    \"name\": \"momentum\""),
                     buf_str(&out)); /* alone */
    cli_says(&out, "\"help\": \"Gradient descent with momentum, heavy-ball or Nesterov\"");
    cli_says(&out, "\"default\": 0.9,\n        \"min\": 0.0,\n        \"max\": 1.0,\n"
                   "        \"help\": \"Share of the momentum");
    cli_says(&out, "\"default\": false,\n        \"min\": null,\n        \"max\": null,\n");
    cli_says(&out, "\"slots\": [\n      \"momentum\"\n    ]");
    cli_says(&out, "\"bytes_per_parameter\": 8");
    cli_says(&out, "\"catch_up\"");
    cli_says_not(&out, "\"choices\"");
    cli_says_not(&out, "\"file\"");
    cli_expect(0, "rules ftrl --json");
    cli_says(&out, "\"choices\": [");
    cli_expect(0, "rules --json");
    cli_says(&out, "\"name\": \"sgd\"");
    cli_says(&out, "\"slots_per\": [\n      \"row\",\n      \"column\"\n    ]");
    cli_expect(0, "rules --markdown");
    cli_says(&out,
             "| [adafactor](#adafactor) | 4 | `row` (per row), `column` (per column) | none | ");
    cli_says(&out, "\n## momentum\n\nGradient descent with momentum, heavy-ball or Nesterov.\n\n"
                   "| Key | Value | Default | Meaning |\n|---|---|---|---|\n"
                   "| `learning_rate` | number from 0 to 1000000 | `0.01` | Step length");
    cli_says(&out, "\n## Schedules\n");
    cli_expect(5, "rules sdg");
    cli_says(&err_out, "no rule sdg; did you mean sgd?");
    cli_expect(5, "rules qqqqqq");
    cli_says(&err_out, "no rule qqqqqq; `gradus rules` lists them");
}

static void test_generates(void **state)
{
    (void)state;
    cli_expect(2, "generate digits");
    cli_says(&err_out, "--out DIR is missing");
    cli_expect(2, "generate letters --out d");
    cli_says(&err_out, "unknown data set letters");
    cli_expect(0, "generate digits --out d/e --train 7 --test 5 --seed 2");
    cli_says(&out, "7 train and 5 test images");
    struct buf images = {0};
    cli_read_file("d/e/t10k-images-idx3-ubyte.gz", &images);
    assert_true(images.len > 0);
    buf_release(&images);
}

/* A program that reads stdout gets an object also when nothing came of it. */
static void test_failures_as_json(void **state)
{
    (void)state;
    static const struct {
        const char *words, *status, *more;
        int code;
    } FAILURES[] = {
        {"plan bad.yaml --json", "invalid", "\"line\": 2", 2},
        {"run bad.yaml --json", "invalid", "\"file\": \"bad.yaml\"", 2},
        {"submit bad.yaml --json", "invalid", "\"key\": \"modle\"", 2},
        {"plan missing.yaml --json", "invalid", "\"file\": \"missing.yaml\"", 5},
        {"validate --json", "invalid", "too few arguments", 2},
        {"status nobody-1 --json --state-dir nowhere", "failed", "\"file\": null", 5},
        {"list --limit 0 --json", "invalid", "--limit: ", 2},
        {"export --json job-1", "invalid", "the file to write", 2},
        {"nodes --json --master 127.0.0.1:1", "failed", "cannot be reached", 4},
    };
    for (size_t i = 0; i < sizeof FAILURES / sizeof *FAILURES; i++) {
        cli_expect(FAILURES[i].code, FAILURES[i].words);
        char *status = mem_printf("\"status\": \"%s\"", FAILURES[i].status);
        cli_says(&out, status);
        cli_says(&out, FAILURES[i].more);
        assert_true(out.len > 0 && out.data[0] == '{'); /* one object */
        assert_null(strstr(buf_str(&out), "\n{"));
        free(status);
    }
    cli_expect(2, "plan bad.yaml");
    assert_int_equal(out.len, 0);
}

/* What `plan` finds, `run` finds before it starts anything. */
static void test_runs_no_job_that_cannot_be(void **state)
{
    (void)state;
    static const char kernel[] = "its kernel would be";
    cli_put("huge.yaml",
            "name: huge\nmodel:\n  input: 60000\n  layers:\n    - dense: {units: 60000}\n"
            "  loss: mean_squared_error\n"
            "data: {train: {file: none.csv}}\n"
            "update: {rule: sgd, learning_rate: 0.1}\n");
    cli_expect(2, "plan huge.yaml");
    cli_says(&err_out, kernel);
    cli_expect(2, "run huge.yaml --state-dir huge");
    cli_says(&err_out, kernel);
    cli_expect(2, "run huge.yaml --json --state-dir huge");
    cli_says(&out, kernel);
    char *dir = file_join(home, "huge");
    assert_false(file_exists(dir));
    free(dir);
    /* A cluster that does not start says where it tells why. */
    char *broken = file_join(home, "broken"), *database = file_join(broken, "master.db");
    assert_int_equal(file_make_dirs(broken, NULL), 0);
    cli_put("broken/master.db",
            "this is the file of another program, and not a short one either\n");
    cli_expect(1, "run job.yaml --state-dir broken --json");
    cli_says(&err_out, "start the local cluster: master ended before it was ready: exit code 1: ");
    cli_says(&err_out, "/master.log");
    cli_says(&out, "\"status\": \"failed\"");
    free(database);
    free(broken);
}

/* All three processes of a run, whose messages are in `err_out`, were asked to end, and did. */
static void assert_ended(void)
{
    static const char *const names[] = {"master", "ps-1", "worker-1"};
    const char *logs = strstr(buf_str(&err_out), "logs in ");
    assert_non_null(logs);
    logs += strlen("logs in ");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct buf log = {0};
        char *path = mem_printf("%.*s/%s.log", (int)strcspn(logs, "\n"), logs, names[i]);
        assert_int_equal(file_read(path, 1 << 20, &log, NULL), 0);
        cli_says(&log, " event=signal signal=15");
        cli_says(&log, " event=ended");
        buf_release(&log);
        free(path);
    }
}

/* A job of a second, and what is left of it. */
static void test_runs(void **state)
{
    (void)state;
    cli_expect(0, "run job.yaml");
    assert_ended();
    cli_says(&out, "job         tiny-1\nstate       SUCCEEDED\ntrained     8 steps, 2 epochs");
    cli_says(&err_out, "job tiny-1: 1 master, 1 parameter server, 1 worker");
    cli_expect(0, "list");
    cli_says(&out, "(no master runs there now)");
    cli_says(&out, "tiny-1");
    cli_expect(0, "list --json");
    cli_says(&out, "\"stateDir\":\"");
    cli_expect(0, "status tiny-1");
    cli_says(&out, "state       SUCCEEDED");
    cli_says(&out, "(no master runs there now)");
    cli_expect(0, "watch tiny-1");
    cli_says(&out, "state       SUCCEEDED");
    cli_expect(1, "cancel tiny-1");
    cli_says(&err_out, "no master runs in");
    cli_expect(0, "evaluate tiny-1");
    cli_says(&out, "examples    32\n");
    cli_expect(0, "evaluate tiny-1 --on train --json");
    cli_says(&out, "\"data\": \"train\"");
    cli_says(&out, "\"examples\": 32");
    cli_expect(2, "evaluate tiny-1 --set training.batch_size=none");
    cli_says(&err_out, "training.batch_size: 'none' is not a whole number");
    cli_expect(0, "export tiny-1 out.safetensors");
    cli_says(&out, "out.safetensors written from ");
    cli_expect(0, "export --average tiny-1 average.safetensors --json");
    cli_says(&out, "\"file\": \"average.safetensors\"");
    struct buf a = {0}, b = {0};
    cli_read_file("out.safetensors", &a);
    cli_read_file("average.safetensors", &b);
    /* the last values differ; before them the header says which they are, in words and blanks */
    assert_true(a.len >= b.len && a.len - b.len <= 8 && b.len > 16);
    assert_true(memcmp(a.data + a.len - 16, b.data + b.len - 16, 16) != 0);
    buf_release(&a);
    buf_release(&b);
    cli_expect(2, "export tiny-1");
    cli_says(&err_out, "give the job and the file to write");
    cli_expect(2, "export --from x tiny-1 out.safetensors");
    cli_says(&err_out, "with --from give OUT alone");
    cli_expect(0, "run job.yaml --json");
    cli_says(&out, "{\"id\":\"tiny-2\",");
    cli_says_not(&out, "secret"); /* nor in what is read from its row */
    cli_expect(0, "status tiny-2 --json");
    cli_says(&out, "\"state\":\"SUCCEEDED\"");
    cli_says_not(&out, "secret");
    cli_expect(0, "list --limit 1 --json");
    cli_says(&out, "{\"jobs\":[{\"id\":\"tiny-2\",");
    cli_says(&out, "}],\"more\":true}\n");
    cli_says_not(&out, "tiny-1");
    cli_says_not(&err_out, "older jobs");
    cli_expect(0, "list --limit 1 --state succeeded");
    cli_says(&err_out, "There are older jobs, too: --limit says how many to show.\n");
    cli_expect(0, "list --limit 2");
    cli_says_not(&err_out, "older jobs");
    cli_put("damaged.csv", "0.0,1,2,0\n4.0,2\n");
    cli_expect(1, "run job.yaml --set data.train.file=damaged.csv");
    cli_expect(0, "list --limit 1 --state succeeded"); /* as many of those that are wanted */
    cli_says(&out, "tiny-2 ");
    cli_expect(2, "run bad.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_validates),
        cmocka_unit_test(test_generates),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_failures_as_json),
        cmocka_unit_test(test_runs_no_job_that_cannot_be),
    };
    return cmocka_run_group_tests_name("commands_local", tests, cli_set_up, cli_tear_down);
}
