/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are emptied while jobs run: what goes, where to, and what stays with which reason. */
#include "cluster.h"

#define ASK_MS 100

static struct cluster *begin(uint64_t seed, size_t ps, size_t workers, char id[64],
                             const char *const *sets, size_t count)
{
    struct cluster *c = cluster_new(seed, ps, workers);
    const char *all[8] = {"training.epochs=3000", "training.checkpoint_every=never",
                          "training.evaluate_every=never"};
    memcpy(all + 3, sets, count * sizeof *sets);
    cluster_submit(c, "demo", id, all, 3 + count);
    cluster_until_in(c, id, "TRAIN");
    return c;
}

/* How many jobs it has something of; *@problem: why the first of them stays, "": it goes. */
static size_t ask(struct cluster *c, const char *node, bool undo, char problem[200])
{
    struct master_event e = {.kind = MASTER_DRAIN, .request = ++c->request};
    e.drain = (struct master_drain_event){node, undo};
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, 0);
    assert_int_equal(c->reply.drained.draining, !undo);
    snprintf(problem, 200, "%s", c->reply_problem);
    return c->reply.drained.count;
}

static void until_empty(struct cluster *c, const char *node)
{
    char problem[200];
    for (const uint64_t end = c->now + 200000; ask(c, node, false, problem) > 0;) {
        if (c->now > end) {
            fail_msg("%s is not empty: %s", node, problem);
        }
        cluster_run_ms(c, ASK_MS);
    }
}

static void until_problem(struct cluster *c, const char *node, const char *words)
{
    char problem[200];
    for (const uint64_t end = c->now + 20000; true; cluster_run_ms(c, ASK_MS)) {
        (void)ask(c, node, false, problem);
        if (strstr(problem, words) != NULL) {
            return;
        }
        if (c->now > end) {
            fail_msg("'%s', not '%s'", problem, words);
        }
    }
}

static void assert_goes_on(struct cluster *c, const char *id)
{
    const uint64_t step = cluster_job(c, id)->step;
    cluster_run_ms(c, 3000);
    const struct job_record *r = cluster_job(c, id);
    assert_true(r->step > step);
    assert_int_equal(r->state, JOB_RUNNING);
    assert_int_equal(r->recoveries, 0);
    assert_int_equal(r->takeovers, 0);
}

static bool drains(struct cluster *c, const char *node)
{
    struct master_node_info info;
    for (size_t i = 0; master_node_at(c->m, i, c->now, &info); i++) {
        if (strcmp(info.id, node) == 0) {
            return info.draining;
        }
    }
    return false;
}

/* To the server that is not needed otherwise. */
static void a_shard_moves(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async",
                                        "training.mode=bounded"};
    for (size_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c = begin(7000 + i, 3, 2, id, SETS(modes[i]));
        until_empty(c, "ps-1");
        const struct job_record *r = cluster_job(c, id);
        assert_string_equal(r->shards[0].ps, "ps-3");
        assert_string_equal(r->shards[0].backup, "");
        assert_string_equal(r->shards[1].ps, "ps-2");
        assert_string_equal(r->shards[1].backup, "");
        assert_false(cluster_holds(c, "ps-1", id));
        assert_true(drains(c, "ps-1"));
        cluster_kill(cluster_node(c, "ps-1"));
        assert_goes_on(c, id);
        cluster_free(c);
    }
}

/* One after the other goes and comes back: all of it is on the other one then. */
static void the_other_server_has_both(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7010, 2, 2, id, SETS("cluster.standby=follower"));
    until_empty(c, "ps-1");
    const struct job_record *r = cluster_job(c, id);
    assert_string_equal(r->shards[0].ps, "ps-2");
    assert_string_equal(r->shards[1].ps, "ps-2");
    assert_string_equal(r->shards[1].backup, "");
    cluster_kill(cluster_node(c, "ps-1"));
    assert_goes_on(c, id);
    (void)cluster_add(c, MASTER_PS);
    until_empty(c, "ps-2");
    r = cluster_job(c, id);
    assert_string_equal(r->shards[0].ps, "ps-3");
    assert_string_equal(r->shards[1].ps, "ps-3");
    assert_goes_on(c, id);
    cluster_free(c);
}

/* The row that says who follows is stored before anything is closed. */
static void it_moves_when_that_is_stored(void **state)
{
    (void)state;
    char id[64], problem[200];
    struct cluster *c = begin(7020, 2, 2, id, SETS("cluster.ps=1"));
    c->store_fails = true;
    for (size_t i = 0; i < 60; i++) {
        (void)ask(c, "ps-1", false, problem);
        cluster_run_ms(c, ASK_MS);
    }
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-1");
    assert_true(cluster_holds(c, "ps-1", id));
    c->store_fails = false;
    until_empty(c, "ps-1");
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-2");
    assert_goes_on(c, id);
    cluster_free(c);
}

static void it_stays_where_there_is_no_other(void **state)
{
    (void)state;
    char id[64], problem[200];
    struct cluster *c = begin(7030, 1, 2, id, SETS("cluster.ps=1"));
    until_problem(c, "ps-1", "shard 0: there is no other server for it");
    assert_goes_on(c, id);
    (void)ask(c, "ps-1", true, problem);
    assert_string_equal(cluster_job(c, id)->shards[0].backup_problem, "");
    (void)cluster_add(c, MASTER_PS);
    assert_goes_on(c, id);
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-1");
    until_empty(c, "ps-1");
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-2");
    cluster_free(c);
}

/* A backup that was there for that alone is closed. */
static void it_is_taken_back(void **state)
{
    (void)state;
    char id[64], problem[200];
    struct cluster *c = begin(7040, 2, 2, id, SETS("cluster.ps=1"));
    cluster_node(c, "ps-1")->says_joining = true;
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(ask(c, "ps-1", false, problem), 1);
        assert_string_equal(problem, "");
        cluster_run_ms(c, ASK_MS);
    }
    assert_string_equal(cluster_job(c, id)->shards[0].backup, "ps-2");
    (void)ask(c, "ps-1", true, problem);
    cluster_run_ms(c, 2000);
    assert_string_equal(cluster_job(c, id)->shards[0].backup, "");
    assert_false(cluster_holds(c, "ps-2", id));
    assert_goes_on(c, id);
    cluster_free(c);
}

static void it_gets_nothing_new(void **state)
{
    (void)state;
    char id[64], other[64];
    struct cluster *c = begin(7050, 2, 2, id, SETS("cluster.ps=1", "cluster.workers=1"));
    until_empty(c, "ps-2");
    cluster_submit(c, "other", other, SETS("cluster.ps=2", "cluster.workers=1"));
    cluster_run_ms(c, 3000);
    cluster_assert_reason(c, other, "1 of 2 free, 1 being drained");
    char problem[200];
    assert_int_equal(ask(c, "ps-2", true, problem), 0);
    (void)cluster_until(c, other, JOB_RUNNING, 20000);
    cluster_free(c);
}

/* Others take its part, when they are enough; one that is free comes in its place. */
static void a_worker_goes(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7060, 2, 2, id, SETS("cluster.workers=1..2"));
    until_empty(c, "worker-1");
    assert_int_equal(cluster_job(c, id)->workers.count, 1);
    assert_goes_on(c, id);
    until_problem(c, "worker-2", "the job needs 1 workers, and no other is free");
    assert_goes_on(c, id);
    (void)cluster_add(c, MASTER_WORKER);
    until_empty(c, "worker-2");
    assert_string_equal(cluster_job(c, id)->workers.items[0], "worker-3");
    assert_goes_on(c, id);
    cluster_free(c);
}

/* One in the place of another does not count: the quota allows for it. */
static void a_worker_goes_at_the_quota(void **state)
{
    (void)state;
    const struct master_config config = {.owner_workers_max = 2};
    struct cluster *c = cluster_new_with(7061, 1, 3, &config);
    char id[64];
    c->submitter = "ann";
    cluster_submit(c, "demo", id,
                   SETS("training.epochs=3000", "cluster.ps=1", "cluster.workers=2"));
    cluster_until_in(c, id, "TRAIN");
    until_empty(c, "worker-1");
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    assert_goes_on(c, id);
    cluster_free(c);
}

/* The only one that is free has no room: it stays, and that is said. */
static void no_other_worker_fits(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7062, 1, 2, id, SETS("cluster.ps=1", "cluster.workers=2..3"));
    cluster_node(c, "ps-1")->room_workers = 2;
    (void)cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 15000); /* it may be asked again */
    until_problem(c, "worker-1", "the job needs 2 workers, and no other is free");
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    assert_goes_on(c, id);
    cluster_free(c);
}

static void the_other_worker_has_refused(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7063, 1, 3, id, SETS("cluster.ps=1", "cluster.workers=2"));
    struct fake_node *n = cluster_node(c, "worker-3");
    n->refuse = ERR_EXHAUSTED;
    n->refuse_kind = MASTER_CALL_START;
    until_problem(c, "worker-1", "the job needs 2 workers, and no other is free");
    assert_goes_on(c, id);
    cluster_free(c);
}

/* The one that was to come in its place goes again. */
static void a_worker_is_taken_back(void **state)
{
    (void)state;
    const struct master_config configs[] = {{0}, {.owner_workers_max = 2}};
    for (size_t i = 0; i < 2; i++) {
        char id[64], problem[200];
        struct cluster *c = cluster_new_with(7064 + i, 1, 3, &configs[i]);
        c->submitter = "ann";
        cluster_submit(c, "demo", id,
                       SETS("training.epochs=3000", "cluster.ps=1",
                            i == 0 ? "cluster.workers=2" : "cluster.workers=2..3"));
        cluster_until_in(c, id, "TRAIN");
        struct fake_node *n = cluster_node(c, "worker-3");
        n->slow_ms = 60000;
        n->slow_kind = MASTER_CALL_START;
        n->says_works = true;
        assert_int_equal(ask(c, "worker-1", false, problem), 1);
        cluster_run_ms(c, 1000);
        assert_int_equal(cluster_job(c, id)->workers.count, 3);
        (void)ask(c, "worker-1", true, problem);
        cluster_run_ms(c, 1000);
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->workers.count, 2);
        assert_string_equal(r->workers.items[0], "worker-1");
        assert_string_equal(r->workers.items[1], "worker-2");
        assert_goes_on(c, id);
        cluster_free(c);
    }
}

/* The next master is told at once, when it has heard of no node yet. */
static void the_next_master_goes_on(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        char id[64], problem[200];
        struct cluster *c = begin(7100 + i, 3, 2, id, SETS("training.mode=sync"));
        cluster_node(c, "ps-1")->says_joining = true;
        for (uint64_t k = 0; k < 1 + i; k++) {
            (void)ask(c, "ps-1", false, problem);
            cluster_run_ms(c, ASK_MS);
        }
        cluster_restart_master(c, id);
        cluster_node(c, "ps-1")->says_joining = false;
        cluster_run_ms(c, 37 * i);
        until_empty(c, "ps-1");
        assert_string_not_equal(cluster_job(c, id)->shards[0].ps, "ps-1");
        assert_goes_on(c, id);
        assert_int_equal(cluster_job(c, id)->adoptions, 1);
        cluster_free(c);
    }
}

/* SIGTERM: it waits while what would be lost with it is on its way. */
static void a_server_leaves(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7080, 2, 2, id, SETS("cluster.ps=1"));
    struct fake_node *n = cluster_node(c, "ps-1");
    n->says_joining = n->leaves = true;
    for (size_t i = 0; i < 40; i++) {
        fake_heartbeat(c, n);
        assert_true(n->moves);
        cluster_run_ms(c, ASK_MS);
    }
    assert_true(drains(c, "ps-1"));
    n->says_joining = false;
    for (const uint64_t end = c->now + 20000; n->moves; cluster_run_ms(c, ASK_MS)) {
        assert_true(c->now < end);
        fake_heartbeat(c, n);
    }
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-2");
    cluster_kill(n);
    assert_goes_on(c, id);
    cluster_free(c);
}

/* What has a place nowhere else is lost all the same, and what has a backup is not. */
static void it_leaves_at_once(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(7090, 1, 2, id, SETS("cluster.ps=1"));
    struct fake_node *n = cluster_node(c, "ps-1");
    n->leaves = true;
    fake_heartbeat(c, n);
    assert_false(n->moves);
    assert_false(drains(c, "ps-1"));
    cluster_free(c);
    c = begin(7091, 2, 2, id, SETS("cluster.standby=follower"));
    n = cluster_node(c, "ps-1");
    n->leaves = true;
    fake_heartbeat(c, n);
    assert_false(n->moves);
    assert_int_equal(cluster_cancel(c, id, true), 0);
    cluster_node(c, "ps-2")->leaves = true;
    fake_heartbeat(c, cluster_node(c, "ps-2"));
    assert_false(cluster_node(c, "ps-2")->moves);
    cluster_free(c);
}

static void unknown_ones_are_refused(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(7070, 1, 1);
    struct master_event e = {.kind = MASTER_DRAIN, .request = ++c->request};
    e.drain = (struct master_drain_event){"ps-9", false};
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_NOT_FOUND);
    cluster_run_ms(c, 1000);
    cluster_kill(cluster_node(c, "ps-1"));
    cluster_run_ms(c, 200000);
    e.request = ++c->request;
    e.drain.node = "ps-1";
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, 0);
    assert_false(c->reply.was_alive);
    assert_false(c->reply.drained.draining);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_moves),
        cmocka_unit_test(the_other_server_has_both),
        cmocka_unit_test(it_moves_when_that_is_stored),
        cmocka_unit_test(it_stays_where_there_is_no_other),
        cmocka_unit_test(it_is_taken_back),
        cmocka_unit_test(it_gets_nothing_new),
        cmocka_unit_test(a_worker_goes),
        cmocka_unit_test(a_worker_goes_at_the_quota),
        cmocka_unit_test(no_other_worker_fits),
        cmocka_unit_test(the_other_worker_has_refused),
        cmocka_unit_test(a_worker_is_taken_back),
        cmocka_unit_test(the_next_master_goes_on),
        cmocka_unit_test(a_server_leaves),
        cmocka_unit_test(it_leaves_at_once),
        cmocka_unit_test(unknown_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
