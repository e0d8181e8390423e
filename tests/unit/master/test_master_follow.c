/* SPDX-License-Identifier: Apache-2.0 */
/* What readers of a running job are told, and when they are told that there is nothing to read. */
#include "cluster.h"
#include "master/core/job_follow.h"

static void refused(struct cluster *c, const char *job, int code, const char *part)
{
    struct master_follow f = {0};
    struct err err = {0};
    assert_int_equal(master_follow(c->m, job, &f, &err), code);
    if (strstr(err.msg, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, part);
    }
}

static void a_running_job_is_told(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7100, 2, 2);
    char id[64];
    struct master_follow f = {0};
    struct err err = {0};
    refused(c, "none-1", ERR_NOT_FOUND, "no job none-1 runs");
    cluster_submit(c, "demo", id, SETS("training.epochs=1000", "cluster.ps=2"));
    cluster_until(c, id, JOB_RUNNING, 600000);
    cluster_run_ms(c, 2000);
    assert_int_equal(master_follow(c->m, id, &f, &err), 0);
    assert_string_equal(f.job->id, id);
    assert_true(f.sync && !f.average);
    assert_int_equal(f.shard_count, 2);
    assert_int_equal(f.plan->shard_count, 2);
    assert_int_equal(f.shards[1].shard, 1);
    assert_true(f.shards[0].opening != 0 && f.shards[0].opening == f.shards[1].opening);
    assert_string_not_equal(f.shards[0].address, f.shards[1].address);
    free(f.shards);
    assert_int_equal(cluster_cancel(c, id, true), 0);
    cluster_until(c, id, JOB_CANCELLED, 600000);
    cluster_free(c);
}

static void a_moving_average_is_told(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7101, 2, 2);
    char id[64];
    cluster_submit(
        c, "demo", id,
        SETS("training.epochs=1000", "update.average=0.9", "update.evaluate_average=true"));
    cluster_until(c, id, JOB_RUNNING, 600000);
    struct master_follow f = {0};
    assert_int_equal(master_follow(c->m, id, &f, NULL), 0);
    assert_true(f.average);
    free(f.shards);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_job_is_told),
        cmocka_unit_test(a_moving_average_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
