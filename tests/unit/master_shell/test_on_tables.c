/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Tables over real gRPC: what the servers of a job are asked, what the client gets of their
 * answers and of those that are missing, and that nothing is left of who goes away. Two servers are
 * the nodes; the core is a table. */
#include "calls/job_call_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradus/v1/ps.pb-c.h"
#include "support/wait_until.h"

#define NODES 2

/* What a server does when it is asked. */
enum { ANSWERS, REFUSES, HAS_NO_SHARD, HAS_NO_TABLES, HOLDS };

static struct node {
    int does;
    uint32_t shard;
    struct rpc_call *held;
    size_t asked;
    char job[32], hottest[32];
} nodes[NODES];

static struct rpc_server *servers[NODES];
static char first_id[] = "ps-1", second_id[] = "ps-2", all[] = "";
static char *ps_ids[] = {first_id, second_id};

/* ---- the nodes ---- */

/* Two tables; of each, as many rows as its place and the shard say, and one hottest key. */
static void answer(struct rpc_call *call, const struct node *n)
{
    char names[2][8] = {"ads", "users"};
    Gradus__V1__TableStats tables[2], *table_list[2];
    Gradus__V1__HotKey key = GRADUS__V1__HOT_KEY__INIT, *keys[] = {&key};
    Gradus__V1__ShardStats shard = GRADUS__V1__SHARD_STATS__INIT, *shards[] = {&shard};
    Gradus__V1__StatsResponse r = GRADUS__V1__STATS_RESPONSE__INIT;
    key.key = 77;
    key.sightings = 5;
    for (uint32_t i = 0; i < 2; i++) {
        gradus__v1__table_stats__init(&tables[i]);
        tables[i].name = names[i];
        tables[i].rows = 100 * (i + 1) + n->shard;
        if (strcmp(n->hottest, names[i]) == 0) {
            tables[i].hottest = keys;
            tables[i].n_hottest = 1;
        }
        table_list[i] = &tables[i];
    }
    shard.job = job_rig_job;
    shard.shard = n->shard;
    shard.version = 40 + n->shard;
    shard.tables = table_list;
    shard.n_tables = n->does == HAS_NO_TABLES ? 0 : 2;
    r.shards = shards;
    r.n_shards = n->does == HAS_NO_SHARD ? 0 : 1;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_stats(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct node *n = service;
    const Gradus__V1__StatsRequest *q = (const Gradus__V1__StatsRequest *)msg->body;
    struct err err;
    pthread_mutex_lock(&job_rig.lock);
    n->asked++;
    (void)snprintf(n->job, sizeof n->job, "%s", q->job);
    (void)snprintf(n->hottest, sizeof n->hottest, "%s", q->hottest);
    if (n->does == REFUSES) {
        (void)err_set(&err, ERR_EXHAUSTED, "no room");
        (void)rpc_fail(call, &err);
    } else if (n->does == HOLDS) {
        n->held = rpc_call_ref(call);
    } else {
        answer(call, n);
    }
    pthread_cond_broadcast(&job_rig.changed);
    pthread_mutex_unlock(&job_rig.lock);
}

/* ---- the rig ---- */

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        servers[i] = job_rig_server();
        job_rig_serve(servers[i], &gradus__v1__parameter_server__descriptor,
                      (struct rpc_method){.name = "Stats", .request = on_stats}, &nodes[i]);
    }
    job_rig_serve(servers[0], &gradus__v1__jobs__descriptor,
                  (struct rpc_method){.name = "Tables", .request = on_tables_call}, &job_rig.shell);
    job_rig_start(servers, NODES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    job_rig_stop(servers, NODES);
    return 0;
}

/* A running job on two servers that are well. */
static int begin(void **state)
{
    (void)state;
    job_rig.record = (struct job_record){
        .id = job_rig_job, .state = JOB_RUNNING, .ps = {.items = ps_ids, .count = NODES}};
    for (size_t i = 0; i < NODES; i++) {
        job_rig.nodes[i] = (struct master_node_info){.id = ps_ids[i],
                                                     .address = rpc_server_address(servers[i], 0),
                                                     .role = MASTER_PS,
                                                     .alive = true};
        nodes[i].does = ANSWERS;
        nodes[i].shard = (uint32_t)(NODES - 1 - i); /* the second server has the first one */
        nodes[i].asked = 0;
    }
    job_rig.node_count = NODES;
    return 0;
}

static const Gradus__V1__TablesResponse *ask(char *job, char *table, struct rpc_msg **reply)
{
    Gradus__V1__TablesRequest q = GRADUS__V1__TABLES_REQUEST__INIT;
    q.job = job;
    q.table = table;
    return job_rig_ask("Tables", &q.base, reply);
}

static const Gradus__V1__TablesResponse *tables(char *table, struct rpc_msg **reply)
{
    const Gradus__V1__TablesResponse *r = ask(job_rig_job, table, reply);
    if (r == NULL) {
        fail_msg("%s", job_rig_failed()->msg);
    }
    assert_string_equal(r->job, job_rig_job);
    assert_string_equal(r->table, table);
    return r;
}

static void refused(char *job, char *table, int code, const char *says)
{
    struct rpc_msg *reply;
    job_rig_assert_refused(ask(job, table, &reply), code, says);
}

static void wait_until_none(void)
{
    wait_until(atomic_load(&job_rig.shell.tables_asked) == 0);
}

/* ---- tests ---- */

static void all_tables_of_all_servers(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    const Gradus__V1__TablesResponse *r = tables(all, &reply);
    assert_int_equal(r->n_shards, 2);
    for (uint32_t i = 0; i < 2; i++) { /* in the order of the shards */
        const Gradus__V1__ShardTables *s = r->shards[i];
        assert_int_equal(s->shard, i);
        assert_string_equal(s->ps, i == 0 ? second_id : first_id);
        assert_string_equal(s->problem, "");
        assert_int_equal(s->version, 40 + i);
        assert_int_equal(s->n_tables, 2);
        assert_string_equal(s->tables[1]->name, "users");
        assert_int_equal(s->tables[1]->rows, 200 + i);
        assert_int_equal(s->tables[1]->n_hottest, 0);
        assert_int_equal(nodes[i].asked, 1);
        assert_string_equal(nodes[i].job, job_rig_job);
        assert_string_equal(nodes[i].hottest, "");
    }
    rpc_msg_unref(reply);
    wait_until_none();
}

static void one_table_with_its_hottest_keys(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    char name[] = "users";
    const Gradus__V1__TablesResponse *r = tables(name, &reply);
    assert_int_equal(r->n_shards, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const Gradus__V1__ShardTables *s = r->shards[i];
        assert_string_equal(nodes[i].hottest, "users");
        assert_int_equal(s->n_tables, 1);
        assert_string_equal(s->tables[0]->name, "users");
        assert_int_equal(s->tables[0]->rows, 200 + i);
        assert_int_equal(s->tables[0]->n_hottest, 1);
        assert_int_equal(s->tables[0]->hottest[0]->key, 77);
    }
    rpc_msg_unref(reply);
}

/* Who does not answer is named behind the others. */
static void servers_may_fail(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    static const struct {
        int does;
        bool lost;
        const char *address, *says;
    } ways[] = {
        {REFUSES, false, NULL, "no room"},
        {HAS_NO_SHARD, false, NULL, "it has no shard of the job"},
        {ANSWERS, true, NULL, "the master has lost this node"},
        {ANSWERS, false, "no address", "no address"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        begin(NULL);
        nodes[1].does = ways[i].does;
        job_rig.nodes[1].alive = !ways[i].lost;
        job_rig.nodes[1].address =
            ways[i].address == NULL ? job_rig.nodes[1].address : ways[i].address;
        const Gradus__V1__TablesResponse *r = tables(all, &reply);
        assert_int_equal(r->n_shards, 2);
        assert_string_equal(r->shards[0]->ps, first_id);
        assert_int_equal(r->shards[0]->shard, 1);
        assert_int_equal(r->shards[0]->n_tables, 2);
        assert_string_equal(r->shards[1]->ps, second_id);
        assert_int_equal(r->shards[1]->n_tables, 0);
        if (strstr(r->shards[1]->problem, ways[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", r->shards[1]->problem, ways[i].says);
        }
        rpc_msg_unref(reply);
    }
    nodes[0].does = REFUSES;
    refused(job_rig_job, all, ERR_UNAVAILABLE,
            "no parameter server of job demo-1 says what its tables hold: ps-1: ");
    wait_until_none();
}

static void what_cannot_be_asked_is_refused(void **state)
{
    (void)state;
    char none[] = "none-1", old[] = "old-1", other[] = "clicks";
    refused(none, all, ERR_NOT_FOUND, "no job none-1");
    refused(old, all, ERR_STATE, "job old-1 has ended");
    job_rig.record.state = JOB_PAUSED;
    refused(job_rig_job, all, ERR_STATE, "job demo-1 is PAUSED; only a running job");
    job_rig.record.state = JOB_RUNNING;
    job_rig.shell.tables_asked = 8;
    refused(job_rig_job, all, ERR_EXHAUSTED, "8 clients are asking for tables");
    job_rig.shell.tables_asked = 0;
    assert_int_equal(nodes[0].asked + nodes[1].asked, 0);
    refused(job_rig_job, other, ERR_NOT_FOUND,
            "job demo-1 has no table 'clicks'; it has ads, users");
    nodes[0].does = nodes[1].does = HAS_NO_TABLES;
    refused(job_rig_job, all, ERR_STATE, "job demo-1 has no tables");
    refused(job_rig_job, other, ERR_STATE, "job demo-1 has no tables");
    job_rig.record.ps.count = 0;
    refused(job_rig_job, all, ERR_STATE, "job demo-1 has no parameter server now");
    wait_until_none();
}

/* ---- calls that nobody waits for ---- */

/* Both servers answer when they like; returns when they have been asked. */
static void start_held(struct rpc_channel *from)
{
    Gradus__V1__TablesRequest q = GRADUS__V1__TABLES_REQUEST__INIT;
    q.job = job_rig_job;
    nodes[0].does = nodes[1].does = HOLDS;
    job_rig_ask_nobody(from, "Tables", &q.base);
    pthread_mutex_lock(&job_rig.lock);
    wait_until_signalled(nodes[0].held != NULL && nodes[1].held != NULL, &job_rig.changed,
                         &job_rig.lock);
    pthread_mutex_unlock(&job_rig.lock);
}

static void let_go(struct node *n)
{
    n->does = ANSWERS;
    answer(n->held, n);
    rpc_call_unref(n->held);
    n->held = NULL;
}

static void who_goes_away_leaves_nothing(void **state)
{
    (void)state;
    struct rpc_channel *from = job_rig_client(servers[0]);
    start_held(from);
    assert_int_equal(atomic_load(&job_rig.shell.tables_asked), 1);
    rpc_channel_free(from);
    assert_int_equal(job_rig.end.code, ERR_CANCELLED);
    let_go(&nodes[0]);
    let_go(&nodes[1]);
    wait_until_none();
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_tables_of_all_servers),
        TEST(one_table_with_its_hottest_keys),
        TEST(servers_may_fail),
        TEST(what_cannot_be_asked_is_refused),
        TEST(who_goes_away_leaves_nothing),
    };
    return cmocka_run_group_tests_name("on_tables", tests, set_up, tear_down);
}
