/* SPDX-License-Identifier: Apache-2.0 */
/* What a cluster lacks, in words. */
#include "support/test.h"

#include <stdio.h>

#include "cli/cluster_note.h"

static const struct cluster_counts two = {.workers = 2, .ps = 1, .known = true};

static void assert_note(Gradus__V1__JobState state, const char *reason, size_t has,
                        uint64_t workers, uint64_t ps, const struct cluster_counts *counts,
                        const char *expected)
{
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    char id[] = "x-1", text[128], *names[] = {id, id, id};
    struct buf out = {0};
    (void)snprintf(text, sizeof text, "%s", reason);
    job.id = id;
    job.state = state;
    job.reason = text;
    job.workers = names;
    job.n_workers = has;
    cluster_note(&job, workers, ps, counts, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
}

static void test_a_job_that_waits(void **state)
{
    (void)state;
    assert_note(GRADUS__V1__JOB_STATE__PENDING, "waits for 48 more workers: 2 of 50 free", 0, 50, 1,
                &two,
                "job x-1 waits for 48 more workers: 2 of 50 free; the cluster has 2 workers and 1 "
                "parameter server, so it begins when more have joined");
    assert_note(GRADUS__V1__JOB_STATE__PENDING, "waits for 1 more worker: 1 of 2 free, 1 busy", 0,
                2, 1, &two,
                "job x-1 waits for 1 more worker: 1 of 2 free, 1 busy; the cluster has 2 workers "
                "and 1 parameter server");
    assert_note(GRADUS__V1__JOB_STATE__PENDING, "", 0, 1, 3, &two,
                "job x-1 waits; the cluster has 2 workers and 1 parameter server, so it begins "
                "when more have joined");
}

static void test_a_job_that_goes_on(void **state)
{
    (void)state;
    assert_note(GRADUS__V1__JOB_STATE__RUNNING, "", 2, 9, 1, &two,
                "job x-1 asks for 9 workers, and the cluster has 2 workers and 1 parameter server: "
                "it goes on with 2 and takes more as they join");
    assert_note(GRADUS__V1__JOB_STATE__RUNNING, "", 2, 2, 1, &two, "");
    assert_note(GRADUS__V1__JOB_STATE__STARTING, "reads the data", 2, 2, 1, &two, "");
    assert_note(GRADUS__V1__JOB_STATE__SUCCEEDED, "", 2, 9, 1, &two, "");
}

/* It runs with other servers than its file says. */
static void test_a_job_that_wants_servers(void **state)
{
    (void)state;
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    char id[] = "x-1";
    struct buf out = {0};
    job.id = id;
    job.state = GRADUS__V1__JOB_STATE__RUNNING;
    job.servers = 1;
    cluster_note(&job, 1, 5, &two, &out);
    assert_string_equal(buf_str(&out),
                        "job x-1 asks for 5 parameter servers, and the cluster has 2 workers and 1 "
                        "parameter server: it goes on with 1 and moves when it can");
    buf_reset(&out);
    job.servers = 5;
    cluster_note(&job, 1, 5, &two, &out);
    assert_string_equal(buf_str(&out), "");
    job.state = GRADUS__V1__JOB_STATE__PENDING; /* it ran with fewer, and can again */
    job.servers = 1;
    cluster_note(&job, 1, 5, &two, &out);
    assert_string_equal(buf_str(&out),
                        "job x-1 waits; the cluster has 2 workers and 1 parameter server");
    buf_release(&out);
}

static void test_nothing_is_known(void **state)
{
    (void)state;
    static const struct cluster_counts none = {.known = false};
    assert_note(GRADUS__V1__JOB_STATE__RUNNING, "", 2, 9, 1, &none, "");
}

static void test_nodes_are_counted(void **state)
{
    (void)state;
    Gradus__V1__NodeInfo items[4], *nodes[4];
    for (size_t i = 0; i < 4; i++) {
        gradus__v1__node_info__init(&items[i]);
        items[i].role = i < 3 ? GRADUS__V1__NODE_ROLE__WORKER : GRADUS__V1__NODE_ROLE__PS;
        items[i].alive = i != 1;
        nodes[i] = &items[i];
    }
    struct cluster_counts counts;
    cluster_count(nodes, 4, &counts);
    assert_true(counts.known);
    assert_int_equal(counts.workers, 2);
    assert_int_equal(counts.ps, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_that_waits),         cmocka_unit_test(test_a_job_that_goes_on),
        cmocka_unit_test(test_a_job_that_wants_servers), cmocka_unit_test(test_nothing_is_known),
        cmocka_unit_test(test_nodes_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
