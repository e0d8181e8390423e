/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are told while they run to have another number of servers: when they move, what waits,
 * and what is taken back. */
#include "cluster.h"

/* A job on one server, of @ps that there are. */
static struct cluster *begin(uint64_t seed, size_t ps, char id[64])
{
    struct cluster *c = cluster_new(seed, ps, 2);
    cluster_submit(c, "demo", id,
                   SETS("cluster.ps=1", "cluster.workers=2", "training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    assert_int_equal(cluster_job(c, id)->servers, 1);
    return c;
}

static void assert_servers(struct cluster *c, const char *id, uint32_t count)
{
    const struct job_record *r = cluster_job(c, id);
    assert_int_equal(r->state, JOB_RUNNING);
    assert_int_equal(r->servers, count);
    assert_int_equal(r->shard_count, count);
    assert_int_equal(r->ps.count, count);
    assert_int_equal(r->workers.count, 2);
    assert_int_equal(r->recoveries, 0);
}

static void the_client_is_told_when_it_has_moved(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(1201, 3, id);
    const uint64_t step = cluster_job(c, id)->step;
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=3")), 20000), 0);
    assert_servers(c, id, 3);
    assert_true(cluster_job(c, id)->step >= step);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=2")), 20000), 0);
    assert_servers(c, id, 2);
    assert_string_equal(cluster_job(c, id)->history.changes[1].sets.items[0], "cluster.ps=2");
    cluster_free(c);
}

/* With what it has, whatever the master is, until the last server is there. */
static void it_trains_on_until_the_servers_are_there(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(1202, 1, id);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=2")), 1000), 0);
    assert_servers(c, id, 1);
    assert_non_null(strstr(cluster_job(c, id)->activity, "wants 2 parameter servers: 1 can"));
    const uint64_t step = cluster_job(c, id)->step;
    cluster_run_ms(c, 2000);
    assert_true(cluster_job(c, id)->step > step);
    cluster_restart_master(c, id);
    cluster_until_in(c, id, "TRAIN");
    assert_servers(c, id, 1);
    (void)cluster_add(c, MASTER_PS);
    for (uint64_t ms = 0; ms < 20000 && cluster_job(c, id)->servers != 2; ms += 100) {
        cluster_run_ms(c, 100);
    }
    cluster_until_in(c, id, "TRAIN");
    assert_servers(c, id, 2);
    cluster_free(c);
}

static void what_does_not_fit_is_taken_back(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(1203, 2, id);
    const char *used = cluster_job(c, id)->shards[0].ps;
    struct fake_node *n = cluster_node(c, strcmp(used, "ps-1") == 0 ? "ps-2" : "ps-1");
    n->refuse = ERR_EXHAUSTED;
    n->refuse_kind = MASTER_CALL_OPEN;
    const size_t k = cluster_set(c, id, SETS("cluster.ps=2"));
    assert_int_equal(cluster_answer(c, k, 20000), ERR_EXHAUSTED);
    assert_non_null(strstr(c->answer[k].msg, "goes on with 1 parameter server, for 2 cannot"));
    cluster_until_in(c, id, "TRAIN");
    assert_servers(c, id, 1);
    cluster_assert_reason(c, id, "for 2 cannot hold it: ");
    assert_non_null(strstr(cluster_job(c, id)->text, "\n  ps: 1\n"));
    n->refuse = 0;
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=2")), 20000), 0);
    assert_servers(c, id, 2);
    cluster_free(c);
}

/* More servers than a job asks before it gives up, and each of them may have room again before the
 * last has refused; or none ever has. */
static void it_asks_no_more_than_some_servers(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = begin(1204 + i, 8, id);
        for (size_t k = 0; k < c->node_count; k++) {
            const bool has = strcmp(c->nodes[k].id, cluster_job(c, id)->shards[0].ps) == 0;
            c->nodes[k].refuse = has || c->nodes[k].role != MASTER_PS ? 0
                                 : i == 0                             ? ERR_EXHAUSTED
                                                                      : ERR_RANGE;
            c->nodes[k].refuse_kind = MASTER_CALL_OPEN;
        }
        const size_t k = cluster_set(c, id, SETS("cluster.ps=2"));
        assert_int_equal(cluster_answer(c, k, 60000), ERR_EXHAUSTED);
        assert_non_null(strstr(c->answer[k].msg, "goes on with 1 parameter server, for 2 cannot"));
        cluster_until_in(c, id, "TRAIN");
        assert_servers(c, id, 1);
        cluster_free(c);
    }
}

/* Another job of its owner does not take what it may have while it moves. */
static void its_quota_is_kept(void **state)
{
    (void)state;
    const struct master_config config = {.owner_workers_max = 2, .finished_max = 10};
    for (uint64_t seed = 1210; seed < 1230; seed++) {
        struct cluster *c = cluster_new_with(seed, 3, 4, &config);
        char id[64], other[64];
        c->submitter = "ann";
        cluster_submit(c, "demo", id,
                       SETS("cluster.ps=1", "cluster.workers=1..2", "training.epochs=3000"));
        cluster_until_in(c, id, "TRAIN");
        assert_int_equal(cluster_job(c, id)->workers.count, 2);
        cluster_submit(c, "more", other, SETS("cluster.ps=1", "cluster.workers=1..2"));
        cluster_run_ms(c, 100);
        assert_int_equal(cluster_job(c, other)->waiting, JOB_WAITS_QUOTA);
        assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=2")), 20000), 0);
        assert_servers(c, id, 2);
        assert_int_equal(cluster_job(c, other)->waiting, JOB_WAITS_QUOTA);
        cluster_free(c);
    }
}

/* Kills the workers of @id, which has just given up its nodes to move. */
static void lose_workers(struct cluster *c, const char *id)
{
    cluster_until(c, id, JOB_PENDING, 20000);
    for (size_t i = 0; i < c->node_count; i++) {
        if (c->nodes[i].role == MASTER_WORKER && strcmp(c->nodes[i].job.job, id) == 0) {
            cluster_kill(&c->nodes[i]);
        }
    }
}

/* Its workers are gone while it moves: others make way for it, and that is not taken back. */
static void others_make_way_for_one_that_moves(void **state)
{
    (void)state;
    const struct master_config config = {.preemption = true, .finished_max = 10};
    struct cluster *c = cluster_new_with(1231, 3, 2, &config);
    char id[64], low[64], third[64];
    cluster_submit(c, "demo", id,
                   SETS("cluster.ps=1", "cluster.workers=2", "training.epochs=3000", "priority=5"));
    cluster_until_in(c, id, "TRAIN");
    (void)cluster_add(c, MASTER_WORKER);
    cluster_submit(c, "low", low,
                   SETS("cluster.ps=1", "cluster.workers=1", "training.epochs=3000"));
    cluster_until_in(c, low, "TRAIN");
    cluster_submit(c, "third", third, SETS("cluster.ps=1", "cluster.workers=1", "priority=-5"));
    (void)cluster_set(c, id, SETS("cluster.ps=2"));
    lose_workers(c, id);
    while (strstr(cluster_job(c, low)->reason, "makes way for job demo-1") == NULL) {
        cluster_advance(c);
    }
    const uint64_t began = c->now;
    while (cluster_job(c, low)->state == JOB_RUNNING) {
        cluster_advance(c); /* and the queue is looked at with each event */
        assert_int_equal(cluster_ask(c, third, MASTER_PAUSE), 0);
        assert_int_equal(cluster_ask(c, third, MASTER_RESUME), 0);
        assert_true(c->now < began + 500); /* at the next step, and not some steps later */
    }
    assert_int_equal(cluster_job(c, low)->preemptions, 1);
    cluster_until(c, id, JOB_RUNNING, 20000);
    cluster_free(c);
}

/* A move that cannot come about is one no more: its client is told, and others may have what was
 * kept for it. */
static void a_move_has_an_end(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(1232, 2, id);
    const size_t k = cluster_set(c, id, SETS("cluster.ps=2"));
    lose_workers(c, id);
    assert_int_equal(cluster_answer(c, k, 15000), 0);
    assert_int_equal(cluster_job(c, id)->state, JOB_PENDING);
    (void)cluster_add(c, MASTER_WORKER);
    (void)cluster_add(c, MASTER_WORKER);
    cluster_until(c, id, JOB_RUNNING, 20000);
    assert_servers(c, id, 2);
    cluster_free(c);
}

/* Its checkpoint cannot be written: it trains on, and has new workers for those that it loses. */
static void one_that_cannot_move_gets_workers(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(1233, 2, id);
    c->manifest_fails = true;
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=2")), 20000), 0);
    cluster_assert_reason(c, id, "moved to other servers later");
    cluster_run_ms(c, 30000); /* the next attempts are far between */
    cluster_kill_one(c, MASTER_WORKER);
    for (uint64_t ms = 0; ms < 20000 && cluster_job(c, id)->workers.count == 2; ms += 100) {
        cluster_run_ms(c, 100);
    }
    assert_int_equal(cluster_job(c, id)->workers.count, 1);
    (void)cluster_add(c, MASTER_WORKER);
    for (uint64_t ms = 0; ms < 60000 && cluster_job(c, id)->workers.count < 2; ms += 100) {
        cluster_run_ms(c, 100);
    }
    assert_servers(c, id, 1);
    c->manifest_fails = false;
    for (uint64_t ms = 0; ms < 120000 && cluster_job(c, id)->servers != 2; ms += 100) {
        cluster_run_ms(c, 100);
    }
    cluster_until_in(c, id, "TRAIN");
    assert_servers(c, id, 2);
    cluster_free(c);
}

/* A master that does not know the data yet takes any number; it is taken back when they are known,
 * while the job runs or before it starts. */
static void an_impossible_number_is_taken_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = cluster_new(1234 + i, 5, 2);
        cluster_submit(c, "demo", id,
                       SETS("cluster.ps=1", "cluster.workers=2", "training.epochs=3000",
                            "cluster.partitioner=fixed", "cluster.partitions=1"));
        cluster_until_in(c, id, "TRAIN");
        if (i == 1) {
            assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
            cluster_until(c, id, JOB_PAUSED, 20000);
        }
        cluster_restart_master(c, id);
        const size_t k = cluster_set(c, id, SETS("cluster.ps=5"));
        assert_int_equal(cluster_answer(c, k, 20000), 0);
        if (i == 1) {
            assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0);
        }
        cluster_until(c, id, JOB_RUNNING, 20000);
        cluster_run_ms(c, 1000);
        assert_servers(c, id, 1);
        cluster_assert_reason(c, id, "goes on with 1 parameter server, for it cannot move to 5: ");
        assert_non_null(strstr(cluster_job(c, id)->text, "\n  ps: 1\n"));
        cluster_free(c);
    }
}

/* While it starts: there are enough servers, so the client hears when it has moved to them. */
static void one_that_starts_is_answered_when_it_has_moved(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(1236, 3, 2);
    cluster_submit(c, "demo", id, SETS("cluster.ps=1", "training.epochs=3000"));
    cluster_until_in(c, id, "START");
    assert_int_equal(cluster_job(c, id)->state, JOB_STARTING);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=2")), 20000), 0);
    assert_servers(c, id, 2);
    cluster_set(c, id, SETS("cluster.ps=3"));
    cluster_until(c, id, JOB_STARTING, 20000);
    assert_int_equal(cluster_cancel(c, id, false), 0);
    cluster_assert_reason(c, id, "cancelled while it was starting again; the newest checkpoint is");
    cluster_free(c);
}

/* The file says so since it was to be paused, which was taken back before it stood. */
static void who_asks_again_waits_too(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(1237, 3, id);
    assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
    (void)cluster_set(c, id, SETS("cluster.ps=3"));
    assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=3")), 20000), 0);
    assert_servers(c, id, 3);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=3")), 100), 0);
    cluster_free(c);
}

/* Its master was started again, and does not know yet where the shards are. */
static void one_that_is_adopted_is_answered_when_it_has_moved(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = begin(1238, 3, id);
        assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=3")), 20000), 0);
        cluster_restart_master(c, id);
        cluster_until(c, id, i == 0 ? JOB_RECOVERING : JOB_RUNNING, 20000);
        assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=2")), 20000), 0);
        assert_servers(c, id, 2);
        cluster_free(c);
    }
}

/* No checkpoint can be written, which is known when the servers have opened their shards: who has
 * asked before is refused then, and a wish that is older is said to be in vain. */
static void without_checkpoints_nothing_moves(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(1240, 3, 2);
    c->cannot_save = "it sees another directory";
    cluster_submit(c, "demo", id,
                   SETS("cluster.ps=1", "cluster.workers=2", "training.epochs=3000"));
    cluster_until(c, id, JOB_STARTING, 1000);
    const size_t k = cluster_set(c, id, SETS("cluster.ps=2"));
    assert_int_equal(cluster_answer(c, k, 20000), ERR_EXHAUSTED);
    assert_non_null(strstr(c->answer[k].msg, "for it cannot move to 2: "));
    assert_non_null(strstr(c->answer[k].msg, "it sees another directory"));
    cluster_until_in(c, id, "TRAIN");
    assert_servers(c, id, 1);
    assert_non_null(strstr(cluster_job(c, id)->text, "\n  ps: 1\n"));
    cluster_free(c);
    c = begin(1241, 1, id);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.ps=2")), 1000), 0);
    c->cannot_save = "it sees another directory";
    cluster_kill_one(c, MASTER_PS);
    cluster_until(c, id, JOB_RECOVERING, 20000);
    (void)cluster_add(c, MASTER_PS);
    cluster_until(c, id, JOB_RUNNING, 20000);
    assert_non_null(
        strstr(cluster_job(c, id)->activity, "1 can serve it, and no checkpoint can be written"));
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_client_is_told_when_it_has_moved),
        cmocka_unit_test(it_trains_on_until_the_servers_are_there),
        cmocka_unit_test(what_does_not_fit_is_taken_back),
        cmocka_unit_test(it_asks_no_more_than_some_servers),
        cmocka_unit_test(its_quota_is_kept),
        cmocka_unit_test(others_make_way_for_one_that_moves),
        cmocka_unit_test(a_move_has_an_end),
        cmocka_unit_test(one_that_cannot_move_gets_workers),
        cmocka_unit_test(an_impossible_number_is_taken_back),
        cmocka_unit_test(one_that_starts_is_answered_when_it_has_moved),
        cmocka_unit_test(who_asks_again_waits_too),
        cmocka_unit_test(one_that_is_adopted_is_answered_when_it_has_moved),
        cmocka_unit_test(without_checkpoints_nothing_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
