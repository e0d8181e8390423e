/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a job that recovers, and of nodes that come and go. */
#include "output_rig.h"

#include "cli/job_events.h"

static struct job_events events;
static struct sample s;
static char names[4][12] = {"worker-1", "worker-2", "worker-3", "ps-2"};

static int begin(void **state)
{
    (void)state;
    sample_init(&s);
    s.workers[0] = names[0];
    s.workers[1] = names[1];
    return 0;
}

static int end(void **state)
{
    (void)state;
    job_events_release(&events);
    return 0;
}

static void says(const char *expected)
{
    struct buf out = {0};
    job_events_look(&events, &s.job, &out);
    output_assert_text(&out, expected);
}

static void progress_says(const char *words, bool there)
{
    struct buf out = {0};
    output_progress(&s.job, &events, TERMINAL_ANY, &out);
    if ((strstr(buf_str(&out), words) != NULL) != there) {
        fail_msg("'%s' and '%s'", buf_str(&out), words);
    }
    buf_release(&out);
}

static void test_nodes_come_and_go(void **state)
{
    (void)state;
    says("");
    s.job.step = 510;
    s.job.n_workers = 1;
    says("step 510: worker-2 is gone; 1 worker\n");
    says("");
    s.job.n_workers = 2;
    s.workers[1] = names[2];
    s.job.step = 520;
    says("step 520: worker-3 joined; 2 workers\n");
    s.workers[0] = names[1]; /* between two looks */
    says("step 520: worker-1 is gone; 2 workers\nstep 520: worker-2 joined; 2 workers\n");
}

static void test_a_recovery(void **state)
{
    (void)state;
    char reason[] = "ps-1 was lost";
    says("");
    s.job.state = GRADUS__V1__JOB_STATE__RECOVERING;
    s.job.reason = reason;
    s.job.recoveries = 1;
    s.job.n_workers = s.job.n_ps = 0;
    says("recovery 1 at step 500, epoch 2.50: ps-1 was lost\n");
    s.job.step = 320;
    s.job.epoch = 1.6;
    says("back to step 320 of 500: what came after it is trained again\n");
    s.job.state = GRADUS__V1__JOB_STATE__RUNNING;
    s.job.n_workers = 2;
    s.job.n_ps = 1;
    s.ps[0] = names[3];
    s.job.step = 340;
    says("step 340: ps-1 is gone; 1 ps\nstep 340: ps-2 joined; 1 ps\n");
    progress_says("0.5000  back to step 320 of 500  61,234", true);
    s.job.step = 300; /* once more, before it was made up for */
    s.job.recoveries = 2;
    says("recovery 2 at step 500, epoch 2.50\n");
    progress_says("back to step 300 of 500", true);
    s.job.step = 500;
    says("");
    progress_says("back to", false);
    s.job.step = 400;
    s.job.recoveries = 3;
    says("recovery 3 at step 500, epoch 1.60\n"
         "back to step 400 of 500: what came after it is trained again\n");
}

/* Workers report steps that were made before the loss, until they hear of it. */
static void test_a_step_told_late(void **state)
{
    (void)state;
    says("");
    s.job.state = GRADUS__V1__JOB_STATE__RECOVERING;
    s.job.recoveries = 1;
    says("recovery 1 at step 500, epoch 2.50\n");
    s.job.step = 510;
    says("");
    s.job.step = 320;
    says("back to step 320 of 510: what came after it is trained again\n");
}

/* Until a new master knows more, it shows the step that its row has. */
static void test_an_adoption(void **state)
{
    (void)state;
    says("");
    s.job.step = 320;
    says("");
    progress_says("back to", false);
    s.job.adoptions = 1;
    s.job.step = 500;
    says("adopted by a master that was started again, at step 500\n");
}

static void test_a_takeover(void **state)
{
    (void)state;
    says("");
    s.job.step = 320;
    s.job.takeovers = 1;
    says("taken over by a backup at step 320: no step is lost\n");
    says("");
    progress_says("back to", false);
}

/* Those with which it began are no news. */
static void test_backups(void **state)
{
    (void)state;
    Gradus__V1__ShardProgress shards[2], *list[] = {&shards[0], &shards[1]};
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__shard_progress__init(&shards[i]);
        shards[i].backup_follows = 1;
    }
    s.job.shards = list;
    s.job.n_shards = 2;
    says("");
    shards[1].backup_follows = 0;
    says("");
    s.job.step = 330;
    says("");
    shards[1].backup_follows = 1;
    says("step 330: each shard has a backup\n");
    says("");
    s.job.n_shards = 0;
    s.job.shards = NULL;
}

/* One that has made all steps and does not end. */
static void test_what_keeps_it(void **state)
{
    (void)state;
    static char full[] = "checkpoint at step 938: no space; attempt 1 is in 1 s";
    static char again[] = "checkpoint at step 938: no space; attempt 12 is in 60 s";
    static char other[] = "checkpoint at step 938: no permission; attempt 13 is in 60 s";
    s.job.reason = full;
    says("");
    s.job.step = s.job.steps_total;
    says("checkpoint at step 938: no space; attempt 1 is in 1 s\n");
    s.job.reason = again;
    says("");
    s.job.reason = other;
    says("checkpoint at step 938: no permission; attempt 13 is in 60 s\n");
    s.job.reason = other + sizeof other - 1;
    says("");
}

/* A batch that hangs: who has pressed Ctrl-C is told what it waits for, in place of counts that
 * stand still. */
static void test_a_cancel_that_waits(void **state)
{
    (void)state;
    char activity[] = "Assign on worker-1 for 20 s, which is at a step";
    char none[] = "";
    says("");
    s.job.activity = activity;
    progress_says("waits for", false); /* it trains beside that */
    events.cancelled = true;
    struct buf out = {0};
    output_progress(&s.job, &events, TERMINAL_ANY, &out);
    output_assert_text(&out, "Ctrl-C again stops at once; waits for Assign on worker-1 for 20 s, "
                             "which is at a step");
    s.job.activity = none;
    progress_says("step 500/1000", true);
    progress_says("Ctrl-C", false);
    s.job.activity = activity;
    s.job.state = GRADUS__V1__JOB_STATE__RECOVERING;
    progress_says("RECOVERING", true);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_nodes_come_and_go), TEST(test_a_recovery),         TEST(test_a_step_told_late),
        TEST(test_an_adoption),       TEST(test_a_takeover),         TEST(test_backups),
        TEST(test_what_keeps_it),     TEST(test_a_cancel_that_waits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
