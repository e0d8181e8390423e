/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about a job: what goes to the master, what is printed where, and the exit code. */
#include "commands_rig.h"

static void test_lists(void **state)
{
    (void)state;
    cli_expect_of(0, "list --limit 3");
    assert_int_equal(((const Gradus__V1__ListJobsRequest *)cli_heard("List"))->limit, 3);
    cli_says(&out, "JOB          STATE");
    cli_says(&out, "digits-7");
    cli_says_not(&out, "--master"); /* it was typed */
    cli_expect_of(0, "list --json");
    assert_int_equal(((const Gradus__V1__ListJobsRequest *)cli_heard("List"))->limit, 100);
    cli_says(&out, "{\"jobs\":[{\"id\":\"digits-7\",");
    cli_says(&out, "}],\"more\":false}\n");
    char *master_is = mem_printf(",\"master\":\"%s\"}", address);
    cli_says(&out, master_is);
    free(master_is);
    master.workers = 1;
    cli_expect_of(0, "nodes");
    cli_says(&out, "worker-3         WORKER  yes");
    cli_expect_of(0, "nodes --json");
    cli_says(&out, "{\"nodes\":[{\"id\":\"worker-3\",\"role\":\"WORKER\",");
    master.workers = 0;
    cli_expect_of(0, "status digits-7");
    cli_says(&out, "job         digits-7\nstate       RUNNING: as told");
    cli_says(&out, "generation  5");
    cli_says_not(&out, "state dir");
    cli_expect_of(0, "status digits-7 --json");
    cli_says(&out, "{\"id\":\"digits-7\",");
    cli_says(&out, "\"generation\":\"5\"");
    cli_expect_of(5, "status nobody-1");
    cli_says(&err_out, "no job nobody-1");
    assert_int_equal(out.len, 0);
}

static void test_waits_for_backups(void **state)
{
    (void)state;
    master.workers = 1;
    master.unready_until = master.nodes + 2;
    cli_expect_of(0, "nodes");
    cli_says(&out, "worker-3 should not be ended now: a backup joins");
    master.unready_until = master.nodes + 2;
    const size_t before = master.nodes;
    cli_expect_of(0, "nodes --wait 1h");
    assert_int_equal(master.nodes, before + 3);
    cli_says(&out, "worker-3         WORKER  yes");
    cli_says_not(&out, "should not be ended");
    cli_says(&err_out, "waits: a backup joins\n");
    master.unready_until = SIZE_MAX;
    cli_expect_of(1, "nodes --wait 1ms");
    cli_says(&err_out, "a backup joins");
    assert_int_equal(out.len, 0);
    master.unready_until = master.workers = 0;
}

static void test_cancels(void **state)
{
    (void)state;
    cli_expect_of(0, "cancel digits-7");
    const Gradus__V1__CancelRequest *q = cli_heard("Cancel");
    assert_string_equal(q->job, "digits-7");
    assert_false(q->now);
    cli_says(&out, "job digits-7: RUNNING");
    cli_expect_of(0, "cancel digits-7 --now --json");
    assert_true(((const Gradus__V1__CancelRequest *)cli_heard("Cancel"))->now);
    cli_says(&out, "{\"id\":\"digits-7\",");
    size_t calls = master.calls;
    cli_expect_of(5, "cancel nobody-1");
    assert_int_equal(master.calls, calls + 1); /* List, for a job that may be meant */
    (void)cli_heard("List");
}

static void test_drops_nodes(void **state)
{
    (void)state;
    cli_expect_of(0, "drop ps-2");
    assert_string_equal(((const Gradus__V1__DropNodeRequest *)cli_heard("DropNode"))->node, "ps-2");
    cli_says(&out, "node ps-2 is given up");
    cli_expect_of(0, "drop ps-1");
    cli_says(&out, "node ps-1 was given up before");
    cli_expect_of(0, "drop ps-2 --json");
    cli_says(&out, "{\"node\":\"ps-2\",\"wasAlive\":true}\n");
    cli_expect_of(2, "drop");
}

static void test_drains_nodes(void **state)
{
    (void)state;
    cli_expect_of(0, "drain ps-2");
    assert_string_equal(((const Gradus__V1__DrainNodeRequest *)cli_heard("DrainNode"))->node,
                        "ps-2");
    cli_says(&out, "node ps-2 has still\n  job digits-7: shards 0, 2; backup 1; there is no other "
                   "server for it\n  job digits-8: is being closed\n");
    cli_says(&out, "node ps-2 is empty: it can be stopped\n");
    cli_expect_of(0, "drain ps-1");
    cli_says(&out, "node ps-1 is gone\n");
    cli_expect_of(0, "drain ps-2 --json");
    cli_says(&out, "{\"node\":\"ps-2\",\"alive\":true,\"draining\":true,\"held\":[]}\n");
    cli_expect_of(0, "drain ps-2 --undo");
    assert_true(((const Gradus__V1__DrainNodeRequest *)cli_heard("DrainNode"))->undo);
    cli_says(&out, "node ps-2 is in service\n");
    cli_expect_of(1, "drain ps-3");
    cli_says(&out, "node ps-3 is gone\n");
    cli_says(&err_out, "node ps-3 has ended before it was empty");
    cli_expect_of(2, "drain");
}

static void test_removes(void **state)
{
    (void)state;
    cli_expect_of(0, "rm digits-7");
    const Gradus__V1__RemoveJobRequest *q = cli_heard("Remove");
    assert_string_equal(q->job, "digits-7");
    assert_false(q->checkpoints);
    cli_says(&out, "removed; its checkpoints stay in /c/digits-7/");
    cli_expect_of(0, "rm digits-7 --checkpoints");
    assert_true(((const Gradus__V1__RemoveJobRequest *)cli_heard("Remove"))->checkpoints);
    assert_string_equal(buf_str(&out), "removed\n");
    cli_expect_of(0, "rm digits-7 --json");
    cli_says(&out, "{\"checkpoints\":\"/c/digits-7/");
    cli_expect_of(5, "rm nobody-1");
    cli_expect_of(2, "rm");
}

static void test_pauses(void **state)
{
    (void)state;
    cli_expect_of(0, "pause digits-7");
    assert_string_equal(((const Gradus__V1__GetJobRequest *)cli_heard("Pause"))->job, "digits-7");
    cli_says(&out, "job digits-7: RUNNING");
    cli_expect_of(0, "resume digits-7 --json");
    const Gradus__V1__ResumeRequest *resume =
        (const Gradus__V1__ResumeRequest *)cli_heard("Resume");
    assert_string_equal(resume->job, "digits-7");
    assert_int_equal(resume->n_sets, 0);
    cli_says(&out, "\"paused\":false");
    cli_expect_of(0, "resume digits-7 --set training.epochs=9 --set priority=2");
    resume = (const Gradus__V1__ResumeRequest *)cli_heard("Resume");
    assert_int_equal(resume->n_sets, 2);
    assert_string_equal(resume->sets[0], "training.epochs=9");
    assert_string_equal(resume->sets[1], "priority=2");
    cli_expect_of(5, "pause nobody-1");
    cli_expect_of(5, "resume nobody-1");
    cli_expect_of(0, "list --owner ann");
    assert_string_equal(((const Gradus__V1__ListJobsRequest *)cli_heard("List"))->owner, "ann");
    cli_expect_of(0, "list --state failed");
    const Gradus__V1__ListJobsRequest *q = (const Gradus__V1__ListJobsRequest *)cli_heard("List");
    assert_int_equal(q->n_states, 1);
    assert_int_equal(q->states[0], GRADUS__V1__JOB_STATE__FAILED);
    cli_expect_of(0, "list --state unfinished");
    q = (const Gradus__V1__ListJobsRequest *)cli_heard("List");
    assert_int_equal(q->n_states, 5);
    assert_int_equal(q->states[0], GRADUS__V1__JOB_STATE__PENDING);
    assert_int_equal(q->states[4], GRADUS__V1__JOB_STATE__PAUSED);
    cli_expect_of(0, "list --state finished");
    assert_int_equal(((const Gradus__V1__ListJobsRequest *)cli_heard("List"))->n_states, 3);
    cli_expect_of(2, "list --state done");
}

/* More than one answer holds: each goes on where the one before ended, until there are enough. */
static void test_lists_page_by_page(void **state)
{
    (void)state;
    master.lists_more = true;
    cli_expect_of(0, "list --limit 3");
    const Gradus__V1__ListJobsRequest *q = (const Gradus__V1__ListJobsRequest *)cli_heard("List");
    assert_int_equal(q->limit, 1); /* the third call */
    assert_string_equal(q->before, "digits-7");
    master.lists_more = false;
    cli_expect_of(0, "list --limit 3");
    q = (const Gradus__V1__ListJobsRequest *)cli_heard("List");
    assert_int_equal(q->limit, 3);
    assert_string_equal(q->before, "");
}

/* A master that says that it cannot is one that can be reached. */
static void test_refusals(void **state)
{
    (void)state;
    static const int codes[] = {ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_STATE};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        master.refuses = codes[i];
        cli_expect_of(1, "cancel digits-7");
        cli_says(&err_out, "the disk is full");
        cli_says_not(&err_out, "cannot be reached");
        cli_says_not(&err_out, "has not answered");
        cli_says(&err_out, "gradus: the disk is full"); /* no name of an RPC, and no port */
    }
}

static void test_checkpoints(void **state)
{
    (void)state;
    cli_expect_of(0, "checkpoint digits-7");
    assert_string_equal(((const Gradus__V1__GetJobRequest *)cli_heard("Checkpoint"))->job,
                        "digits-7");
    assert_string_equal(buf_str(&out), "/c/digits-7/step-000000012\n");
    cli_expect_of(0, "checkpoint digits-7 --json");
    cli_says(&out, "{\"path\":\"/c/digits-7/step-000000012\",\"step\":");
    master.refuses = ERR_UNAVAILABLE;
    cli_expect_of(1, "checkpoint digits-7");
    cli_says(&err_out, "the disk is full");
    cli_says_not(&err_out, "cannot be reached");
    master.interrupts = true;
    cli_expect_of(130, "checkpoint digits-7");
    cli_says(&err_out, "not waiting any more; job digits-7 goes on making its checkpoint");
    assert_int_equal(out.len, 0);
    master.interrupts = false;
    cli_expect_of(1, "trace digits-7");
    assert_string_equal(((const Gradus__V1__TraceJobRequest *)cli_heard("Trace"))->job, "digits-7");
    cli_says(&err_out, "it does not run");
    cli_expect_of(5, "trace nobody-1");
    cli_says(&err_out, "no job nobody-1");
}

static void test_tables(void **state)
{
    (void)state;
    cli_expect_of(0, "table digits-7");
    const Gradus__V1__TablesRequest *q = cli_heard("Tables");
    assert_string_equal(q->job, "digits-7");
    assert_string_equal(q->table, "");
    cli_says(&out, "ads                 0      12");
    cli_says(&err_out, "warning: ps-2 is missing: it is gone");
    cli_expect_of(0, "table digits-7 ads");
    q = cli_heard("Tables");
    assert_string_equal(q->table, "ads");
    cli_says(&out, "table       ads\njob         digits-7\n");
    cli_expect_of(0, "table digits-7 ads --json");
    cli_says(&out, "\"rows\":\"12\"");
    cli_says(&out, "\"problem\":\"it is gone\"");
    cli_expect_of(2, "table");
    cli_expect_of(2, "table digits-7 ads users");
    cli_expect_of(5, "table nobody-1");
    cli_says(&err_out, "no job nobody-1");
}

static void test_logs(void **state)
{
    (void)state;
    cli_expect_of(0, "logs digits-7 worker-1");
    const Gradus__V1__LogsRequest *q = cli_heard("Logs");
    assert_string_equal(q->job, "digits-7");
    assert_string_equal(q->node, "worker-1");
    assert_int_equal(q->after, 0);
    cli_says(&out, "1970-01-01T00:00:01.500Z  master  INFO   printed  x=1\n"
                   "(9 lines of worker-1 are lost: it had no room for them)\n"
                   "1970-01-01T00:00:01.501Z  worker-1  INFO   printed  hello\n");
    cli_says(&err_out, "note: older lines are not kept any more");
    cli_says(&err_out, "note: worker-1 has died");
    cli_expect_of(0, "logs digits-7 --tail 1");
    cli_says_not(&out, "x=1");
    cli_says_not(&err_out, "older lines");
    cli_expect_of(0, "logs digits-7 -f --json --tail 1");
    q = cli_heard("Logs");
    assert_int_equal(q->after, 2);
    cli_says(&out, "\"text\":\"hello\",\"lost\":\"9\"}\n{\"timeMs\":\"1502\"");
    cli_expect_of(2, "logs");
    cli_expect_of(2, "logs digits-7 a b");
    cli_expect_of(5, "logs nobody-1");
    cli_says(&err_out, "no job nobody-1");
}

static void test_sets(void **state)
{
    (void)state;
    master.workers = 1;
    cli_expect_of(0, "set digits-7 training.epochs=9 training.mode=async");
    const Gradus__V1__SetJobRequest *q = cli_heard("Set");
    assert_string_equal(q->job, "digits-7");
    assert_int_equal(q->n_sets, 2);
    assert_string_equal(q->sets[0], "training.epochs=9");
    assert_string_equal(q->sets[1], "training.mode=async");
    cli_says(&out, "training.epochs: 2 -> 9\n");
    cli_says(&out, "job digits-7: RUNNING, generation 6");
    cli_expect_of(0, "set digits-7 training.epochs=9 --json");
    cli_says(&out, "\"generation\":\"6\"");
    cli_expect_of(2, "set digits-7"); /* nothing to set */
    master.workers = 0;
}

static void test_submits(void **state)
{
    (void)state;
    size_t nodes = master.nodes;
    cli_expect_of(0, "submit job.yaml --set training.epochs=3 --set training.seed=4");
    const Gradus__V1__SubmitRequest *q = cli_heard("Submit");
    assert_string_equal(q->file, "job.yaml");
    assert_string_equal(q->text, JOB_FILE);
    assert_int_equal(q->n_sets, 3);
    assert_string_equal(q->sets[0], "training.epochs=3");
    assert_string_equal(q->sets[1], "training.seed=4");
    char *data = mem_printf("data.dir=%s", home);
    assert_string_equal(q->sets[2], data);
    free(data);
    assert_string_equal(buf_str(&out), "digits-7\n");
    cli_says(&err_out, "the workers look there");
    char *follow = mem_printf("`gradus watch digits-7 --master %s` follows it", address);
    cli_says(&err_out, follow);
    free(follow);
    cli_says(&err_out, "parameter server"); /* the cluster has none */
    assert_int_equal(master.nodes, nodes + 1);
    cli_expect_of(0, "submit job.yaml --json");
    assert_string_equal(buf_str(&out), "{\"job\":\"digits-7\"}\n");
    assert_int_equal(strlen(master.request_ids[0]), 32); /* another one each time */
    assert_int_equal(strlen(master.request_ids[1]), 32);
    assert_string_not_equal(master.request_ids[0], master.request_ids[1]);
    master.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    size_t watches = master.watches;
    cli_expect_of(0, "submit job.yaml --watch");
    assert_int_equal(master.watches, watches + 1);
    cli_says(&err_out, "job digits-7 submitted");
    cli_says(&out, "state       SUCCEEDED");
    master.state = GRADUS__V1__JOB_STATE__RUNNING;
    size_t calls = master.calls;
    cli_expect_of(2, "submit bad.yaml");
    cli_expect_of(5, "submit missing.yaml");
    assert_int_equal(master.calls, calls);
}

/* That some line of the output begins so. */
static void says_line(const char *begins)
{
    char *line = mem_printf("\n%s", begins), *all = mem_printf("\n%s", buf_str(&out));
    if (strstr(all, line) == NULL) {
        fail_msg("no line begins with %s in:%s", begins, all);
    }
    free(line);
    free(all);
}

static void test_watches(void **state)
{
    (void)state;
    static const struct {
        int32_t state;
        int code;
        const char *says;
    } ENDS[] = {{GRADUS__V1__JOB_STATE__SUCCEEDED, 0, "state       SUCCEEDED"},
                {GRADUS__V1__JOB_STATE__FAILED, 1, "state       FAILED: as told"},
                {GRADUS__V1__JOB_STATE__CANCELLED, 3, "state       CANCELLED: as told"}};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        master.state = ENDS[i].state;
        cli_expect_of(ENDS[i].code, "watch digits-7");
        cli_says(&out, ENDS[i].says);
        cli_expect_of(ENDS[i].code, "watch digits-7 --json");
        says_line("{\"event\":\"job\",\"job\":{\"id\":\"digits-7\",");
        says_line("{\"event\":\"end\",\"job\":{\"id\":\"digits-7\",");
        assert_ptr_equal(strchr(strstr(buf_str(&out), "\"end\""), '\n'),
                         buf_str(&out) + out.len - 1);
        cli_says_not(&err_out, "epoch"); /* no word for people but how it failed */
    }
    master.state = GRADUS__V1__JOB_STATE__SUCCEEDED;
    master.evaluates = true; /* each is told once */
    cli_expect_of(0, "watch digits-7");
    const char *told = "epoch   0.50  step       5  train  loss 0.2500\n"
                       "epoch   1.00  step      10\n";
    cli_says(&err_out, told); /* a line of progress may come before, where time went by */
    assert_null(strstr(strstr(buf_str(&err_out), told) + 1, "epoch   0.50"));
    cli_expect_of(0, "watch digits-7 --json");
    says_line("{\"event\":\"evaluation\",\"evaluation\":{\"step\":\"5\",\"epoch\":0.5,\"train\":["
              "{\"name\":\"loss\",\"value\":0.25}],");
    says_line("{\"event\":\"evaluation\",\"evaluation\":{\"step\":\"10\",");
    cli_says_not(&err_out, "epoch   0.50");
    master.evaluates = false;
    size_t watches = master.watches;
    master.breaks = ERR_UNAVAILABLE; /* a master that starts again */
    cli_expect_of(0, "watch digits-7");
    assert_int_equal(master.watches, watches + 2);
    cli_says(&err_out, "no word from the master; trying again for ");
    cli_says(&err_out, ": not now");
    master.breaks = ERR_PERMISSION; /* that will not pass */
    cli_expect_of(1, "watch digits-7");
    cli_says(&err_out, ": not now?[31m"); /* and no terminal takes it for an order */
    cli_says_not(&err_out, "\x1b");
    cli_says_not(&err_out, "trying again");
    master.breaks = ERR_PERMISSION; /* a line like others */
    cli_expect_of(1, "watch digits-7 --json");
    says_line("{\"event\":\"error\",\"text\":\"not now?[31m\"}");
    cli_expect_of(5, "watch nobody-1 --json");
    says_line("{\"event\":\"error\",\"text\":\"no job nobody-1\"}");
    size_t calls = master.calls;
    master.interrupts = true;
    cli_expect_of(130, "watch digits-7"); /* it only looks */
    char *again = mem_printf("job digits-7 goes on; `gradus watch digits-7 --master %s` watches it "
                             "again, `gradus cancel digits-7 --master %s` stops it\n",
                             address, address);
    cli_says(&err_out, again);
    assert_int_equal(master.calls, calls);
    master.interrupts = false;
    free(again);
    cli_expect_of(5, "watch nobody-1");
    master.state = GRADUS__V1__JOB_STATE__RUNNING;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_page_by_page),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_waits_for_backups),
        cmocka_unit_test(test_drops_nodes),
        cmocka_unit_test(test_drains_nodes),
        cmocka_unit_test(test_removes),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_logs),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_submits),
        cmocka_unit_test(test_watches),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("commands", tests, cli_set_up, cli_tear_down);
}
