/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are to end (SIGTERM): which of them wait, and for what. */
#include "cluster.h"

static struct cluster *begin(uint64_t seed, size_t ps, char id[64], const char *shards)
{
    struct cluster *c = cluster_new(seed, ps, 2);
    cluster_submit(c, "demo", id,
                   SETS("training.epochs=30000", "training.checkpoint_every=never",
                        "training.evaluate_every=never", shards,
                        ps == 3 ? "cluster.standby=follower" : "cluster.standby=none"));
    cluster_until_in(c, id, "TRAIN");
    return c;
}

/* True: it is told to wait. */
static bool asks(struct cluster *c, struct fake_node *n)
{
    n->leaves = true;
    fake_heartbeat(c, n);
    return n->moves;
}

static void ends_when_it_may(struct cluster *c, struct fake_node *n)
{
    for (const uint64_t end = c->now + 30000; asks(c, n); cluster_run_ms(c, 100)) {
        assert_true(c->now < end);
    }
    cluster_kill(n);
}

static void assert_nothing_lost(struct cluster *c, const char *id)
{
    const uint64_t step = cluster_job(c, id)->step;
    cluster_run_ms(c, 20000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
    assert_true(cluster_job(c, id)->step > step);
}

/* A backup that was not taken is tried again after a pause. */
static void it_waits_for_the_next_attempt(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7200, 2, id, "cluster.ps=1");
    struct fake_node *n = cluster_node(c, "ps-1");
    n->refuses_backups = ERR_EXHAUSTED;
    for (size_t i = 0, pauses = 0; i < 50 || pauses == 0; i++) {
        assert_true(asks(c, n));
        pauses += cluster_job(c, id)->shards[0].backup_problem[0] != '\0';
        cluster_run_ms(c, 100);
    }
    n->refuses_backups = 0;
    ends_when_it_may(c, n);
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-2");
    assert_nothing_lost(c, id);
    cluster_free(c);
}

/* A server that had no memory for a version, and lost its backups by it, is asked again soon. */
static void it_waits_for_a_server_that_had_no_memory(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(7205, 2, 2);
    cluster_submit(c, "demo", id,
                   SETS("training.epochs=30000", "training.checkpoint_every=never",
                        "training.evaluate_every=never", "cluster.ps=2",
                        "cluster.standby=follower"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *other = cluster_node(c, "ps-2");
    while (!cluster_job(c, id)->shards[0].follows) {
        cluster_run_ms(c, 10);
    }
    other->says_problem = "no memory for one more version";
    while (cluster_job(c, id)->shards[0].backup[0] != '\0') {
        cluster_run_ms(c, 10);
    }
    other->says_problem = NULL;
    assert_true(asks(c, cluster_node(c, "ps-1")));
    ends_when_it_may(c, cluster_node(c, "ps-1"));
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-2");
    assert_nothing_lost(c, id);
    cluster_free(c);
}

static void it_waits_for_the_next_master(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7210, 2, id, "cluster.ps=1");
    cluster_restart_master(c, id);
    assert_true(asks(c, cluster_node(c, "ps-1")));
    ends_when_it_may(c, cluster_node(c, "ps-1"));
    assert_int_equal(cluster_job(c, id)->adoptions, 1);
    assert_nothing_lost(c, id);
    cluster_free(c);
}

static void it_waits_for_a_worker(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7220, 2, id, "cluster.ps=1");
    cluster_kill(cluster_node(c, "worker-1"));
    cluster_kill(cluster_node(c, "worker-2"));
    cluster_until(c, id, JOB_RECOVERING, 20000);
    assert_true(asks(c, cluster_node(c, "ps-1")));
    (void)cluster_add(c, MASTER_WORKER);
    ends_when_it_may(c, cluster_node(c, "ps-1"));
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-2");
    cluster_free(c);
}

/* Two of three at once: the first one goes, and the other one has its shard. */
static void what_takes_over_stays(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7230, 3, id, "cluster.ps=3");
    assert_string_equal(cluster_job(c, id)->shards[0].backup, "ps-2");
    assert_false(asks(c, cluster_node(c, "ps-1")));
    assert_true(asks(c, cluster_node(c, "ps-2")));
    cluster_kill(cluster_node(c, "ps-1"));
    ends_when_it_may(c, cluster_node(c, "ps-2"));
    assert_nothing_lost(c, id);
    cluster_free(c);
}

/* A backup on a server that was told that it may end is none. */
static void who_leaves_takes_nothing_over(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7240, 3, id, "cluster.ps=3");
    assert_string_equal(cluster_job(c, id)->shards[2].backup, "ps-1");
    assert_false(asks(c, cluster_node(c, "ps-1")));
    assert_true(asks(c, cluster_node(c, "ps-3")));
    cluster_kill(cluster_node(c, "ps-1"));
    ends_when_it_may(c, cluster_node(c, "ps-3"));
    assert_nothing_lost(c, id);
    cluster_free(c);
}

/* It may have ended itself. */
static void who_is_silent_takes_nothing_over(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7250, 3, id, "cluster.ps=3");
    cluster_node(c, "ps-2")->mute = true;
    cluster_run_ms(c, 2500);
    assert_true(asks(c, cluster_node(c, "ps-1")));
    cluster_node(c, "ps-2")->mute = false;
    ends_when_it_may(c, cluster_node(c, "ps-1"));
    assert_nothing_lost(c, id);
    cluster_free(c);
}

/* Nothing new comes to one that was told that it may end. */
static void who_leaves_gets_no_job(void **state)
{
    (void)state;
    char id[64], other[64];
    struct cluster *c = begin(7260, 2, id, "cluster.ps=1");
    assert_false(asks(c, cluster_node(c, "ps-2")));
    cluster_kill(cluster_node(c, "worker-1"));
    (void)cluster_add(c, MASTER_WORKER);
    (void)cluster_add(c, MASTER_WORKER);
    cluster_submit(c, "other", other, SETS("cluster.ps=2", "cluster.workers=1"));
    cluster_run_ms(c, 3000);
    assert_int_equal(cluster_job(c, other)->state, JOB_PENDING);
    assert_false(cluster_holds(c, "ps-2", other));
    cluster_free(c);
}

/* Nor to one that waits because another one counts upon it. */
static void who_takes_over_gets_no_job(void **state)
{
    (void)state;
    char id[64], other[64];
    struct cluster *c = begin(7280, 3, id, "cluster.ps=3");
    assert_false(asks(c, cluster_node(c, "ps-1")));
    assert_true(asks(c, cluster_node(c, "ps-2")));
    (void)cluster_add(c, MASTER_WORKER);
    cluster_submit(c, "other", other, SETS("cluster.ps=2", "cluster.workers=1"));
    cluster_run_ms(c, 500);
    assert_int_equal(cluster_job(c, other)->state, JOB_PENDING);
    assert_false(cluster_holds(c, "ps-2", other));
    cluster_free(c);
}

/* A job that wants one server more does not stop for one that is to end. */
static void no_job_moves_to_who_leaves(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7290, 2, id, "cluster.ps=1");
    assert_false(asks(c, cluster_node(c, "ps-2")));
    const uint64_t generation = cluster_job(c, id)->generation;
    (void)cluster_set(c, id, SETS("cluster.ps=2"));
    cluster_run_ms(c, 3000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    assert_int_equal(cluster_job(c, id)->generation, generation);
    cluster_free(c);
}

static void drain(struct cluster *c, const char *node, bool undo)
{
    struct master_event e = {.kind = MASTER_DRAIN, .request = ++c->request};
    e.drain = (struct master_drain_event){node, undo};
    cluster_event(c, &e);
    assert_true(c->reply.drained.changed);
}

/* What takes over is emptied when it has. */
static void who_takes_over_is_drained_later(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7300, 3, id, "cluster.ps=3");
    assert_false(asks(c, cluster_node(c, "ps-1")));
    drain(c, "ps-2", false);
    cluster_kill(cluster_node(c, "ps-1"));
    assert_nothing_lost(c, id);
    assert_false(cluster_holds(c, "ps-2", id));
    cluster_free(c);
}

/* Who takes its drain back keeps no server that is to end. */
static void who_leaves_is_not_kept(void **state)
{
    (void)state;
    char id[64], other[64];
    struct cluster *c = begin(7270, 2, id, "cluster.ps=1");
    (void)cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 3000);
    assert_true(asks(c, cluster_node(c, "ps-1")));
    drain(c, "ps-1", true);
    cluster_submit(c, "other", other, SETS("cluster.ps=2", "cluster.workers=1"));
    cluster_run_ms(c, 3000);
    assert_int_equal(cluster_job(c, other)->state, JOB_PENDING);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_for_the_next_attempt),
        cmocka_unit_test(it_waits_for_a_server_that_had_no_memory),
        cmocka_unit_test(it_waits_for_the_next_master),
        cmocka_unit_test(it_waits_for_a_worker),
        cmocka_unit_test(what_takes_over_stays),
        cmocka_unit_test(who_leaves_takes_nothing_over),
        cmocka_unit_test(who_is_silent_takes_nothing_over),
        cmocka_unit_test(who_leaves_gets_no_job),
        cmocka_unit_test(who_takes_over_gets_no_job),
        cmocka_unit_test(no_job_moves_to_who_leaves),
        cmocka_unit_test(who_takes_over_is_drained_later),
        cmocka_unit_test(who_leaves_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
