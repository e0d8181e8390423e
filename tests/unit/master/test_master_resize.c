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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_client_is_told_when_it_has_moved),
        cmocka_unit_test(it_trains_on_until_the_servers_are_there),
        cmocka_unit_test(what_does_not_fit_is_taken_back),
        cmocka_unit_test(it_asks_no_more_than_some_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
