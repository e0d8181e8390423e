/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server that stands still with its shards is waited for; everybody else is not. */
#include "cluster.h"

static const struct master_config PATIENT = {.ps_timeout_ms = 120000};

static uint64_t nodes_lost(struct cluster *c)
{
    struct master_counts counts;
    master_counts(c->m, &counts);
    return counts.nodes_lost;
}

static size_t servers_awaited(struct cluster *c)
{
    struct master_counts counts;
    master_counts(c->m, &counts);
    return counts.servers_awaited;
}

static void unreachable_since(struct cluster *c, const struct fake_node *n, uint64_t broken_ms)
{
    struct master_event e = {.kind = MASTER_UNREACHABLE};
    e.node = (struct master_node_event){
        .node = n->id, .incarnation = n->incarnation, .broken_ms = broken_ms};
    cluster_event(c, &e);
}

static void unreachable(struct cluster *c, const struct fake_node *n)
{
    unreachable_since(c, n, 0);
}

/* Of a process of the name @name, at @address. */
static int ask_to_join(struct cluster *c, enum master_role role, const char *name,
                       const char *address)
{
    struct master_event e = {.kind = MASTER_JOIN, .request = ++c->request};
    e.join = (struct master_join_event){.role = (int)role,
                                        .incarnation = 999999,
                                        .name = name,
                                        .address = address,
                                        .http_address = "",
                                        .version = release_version(),
                                        .protocol = RELEASE_PROTOCOL,
                                        .host = "h"};
    cluster_event(c, &e);
    return c->reply.err.code;
}

static void it_goes_on_where_it_was(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async",
                                        "training.mode=bounded"};
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new_with(700 + i, 2, 2, &PATIENT);
        char id[64];
        cluster_submit(c, "demo", id, SETS("training.epochs=3000", modes[i]));
        cluster_until_in(c, id, "TRAIN");
        uint64_t generation = cluster_job(c, id)->generation;
        for (uint64_t ms = 2000; ms <= 116000; ms += 19000) {
            cluster_freeze(c, cluster_node(c, "ps-2"), ms);
            cluster_run_ms(c, ms - 500);
            assert_int_equal(servers_awaited(c), ms > 3500);
            cluster_run_ms(c, 2500);
            assert_int_equal(servers_awaited(c), 0);
            assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
            assert_int_equal(cluster_job(c, id)->generation, generation);
        }
        assert_int_equal(nodes_lost(c), 0);
        cluster_free(c);
    }
}

static void it_is_given_up_in_the_end(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(710, 3, 2, &PATIENT);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    cluster_freeze(c, cluster_node(c, "ps-2"), 3600000);
    cluster_run_ms(c, 118500);
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
    cluster_until(c, id, JOB_RECOVERING, 3000);
    cluster_assert_reason(c, id, "parameter server ps-2 was lost (no heartbeat for 1200");
    cluster_until(c, id, JOB_RUNNING, 20000); /* with the third */
    assert_int_equal(cluster_job(c, id)->recoveries, 1);
    cluster_free(c);
}

/* A time-out for heartbeats that is longer holds for servers, too. */
static void the_longer_time_out_holds(void **state)
{
    (void)state;
    const struct master_config config = {.ps_timeout_ms = 500};
    struct cluster *c = cluster_new_with(711, 3, 2, &config);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    cluster_freeze(c, cluster_node(c, "ps-2"), 3600000);
    cluster_run_ms(c, 1500);
    assert_int_equal(nodes_lost(c), 0);
    cluster_until(c, id, JOB_RECOVERING, 3000);
    cluster_assert_reason(c, id, "parameter server ps-2 was lost (no heartbeat for 30");
    cluster_free(c);
}

static void only_who_holds_a_shard_is_waited_for(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(712, 3, 3, &PATIENT);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.workers=1..3", "training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    assert_false(cluster_holds(c, "ps-3", id));
    cluster_freeze(c, cluster_node(c, "ps-3"), 3600000);
    cluster_freeze(c, cluster_node(c, "worker-1"), 3600000);
    cluster_run_ms(c, 1500);
    assert_int_equal(nodes_lost(c), 0);
    cluster_run_ms(c, 2500);
    assert_int_equal(nodes_lost(c), 2);
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    cluster_free(c);
}

/* Its shard is nobody's any more. */
static void the_server_of_a_job_that_is_over_is_not_waited_for(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(713, 2, 2, &PATIENT);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    cluster_freeze(c, cluster_node(c, "ps-2"), 3600000);
    cluster_run_ms(c, 20000);
    assert_int_equal(nodes_lost(c), 0);
    assert_int_equal(cluster_cancel(c, id, true), 0);
    cluster_run_ms(c, 1000);
    assert_int_equal(nodes_lost(c), 1);
    cluster_free(c);
}

static void the_end_of_its_process_is_proof(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(714, 3, 2, &PATIENT);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = cluster_node(c, "ps-2");
    cluster_freeze(c, n, 3600000);
    cluster_run_ms(c, 1000); /* a moment ago it was there */
    unreachable(c, n);
    assert_int_equal(nodes_lost(c), 0);
    cluster_run_ms(c, 30000);
    assert_int_equal(nodes_lost(c), 0);
    unreachable(c, n);
    assert_int_equal(nodes_lost(c), 1);
    cluster_until(c, id, JOB_RECOVERING, 100);
    cluster_assert_reason(c, id, "its process has ended");
    cluster_free(c);
}

/* Nobody listens where a connection has just ended: no heartbeat need be missing for that. */
static void so_is_a_connection_that_broke(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(719, 3, 2, &PATIENT);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = cluster_node(c, "ps-2");
    fake_heartbeat(c, n);
    const uint64_t beat_ms = c->now;
    cluster_freeze(c, n, 3600000);
    cluster_run_ms(c, 100);
    unreachable_since(c, n, beat_ms); /* it has spoken since */
    assert_int_equal(nodes_lost(c), 0);
    unreachable_since(c, n, c->now);
    assert_int_equal(nodes_lost(c), 1);
    cluster_until(c, id, JOB_RECOVERING, 100);
    cluster_free(c);
}

/* At another address it waits for the time-out of heartbeats, and no longer; at the same one for
 * two heartbeats. */
static void who_comes_instead_of_it_need_not_wait_so_long(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        struct cluster *c = cluster_new_with(715, 2, 2, &PATIENT);
        char id[64];
        cluster_submit(c, "demo", id, SETS("training.epochs=3000"));
        cluster_until_in(c, id, "TRAIN");
        struct fake_node *n = cluster_node(c, "ps-2");
        cluster_run_ms(c, 1000 - (c->now - n->heartbeat_ms) % 1000 + 20);
        uint64_t silent_ms = c->now - n->heartbeat_ms;
        cluster_freeze(c, n, 3600000);
        const char *name = same == 1 ? "another" : "ps-2";
        const char *address = same == 1 ? n->address : "elsewhere:1";
        uint64_t limit_ms = same == 1 ? 1200 : 3000;
        assert_int_equal(ask_to_join(c, MASTER_PS, name, address), ERR_EXISTS);
        while (c->now - n->heartbeat_ms < limit_ms - 20) {
            cluster_run_ms(c, 1);
        }
        assert_true(silent_ms < limit_ms);
        assert_int_equal(ask_to_join(c, MASTER_PS, name, address), ERR_EXISTS);
        cluster_run_ms(c, 120);
        assert_int_equal(nodes_lost(c), 0); /* it is waited for, */
        assert_int_equal(ask_to_join(c, MASTER_PS, name, address), 0);
        assert_int_equal(nodes_lost(c), 1); /* until somebody has its place */
        cluster_until(c, id, JOB_RECOVERING, 100);
        cluster_free(c);
    }
}

/* Its heartbeat may have come and not be read: the name is not free before it is. */
static void the_name_of_one_whose_heartbeat_is_not_read_is_not_free(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(716, 2, 2, &PATIENT);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = cluster_node(c, "ps-2");
    cluster_freeze(c, n, 3600000);
    while (c->now - n->heartbeat_ms < 2990) {
        cluster_run_ms(c, 1);
    }
    c->now = n->heartbeat_ms + 3005; /* the first that it reads since then */
    assert_int_equal(ask_to_join(c, MASTER_PS, "ps-2", "elsewhere:1"), ERR_EXISTS);
    c->now = n->heartbeat_ms + 60000; /* it has stood still itself */
    assert_int_equal(ask_to_join(c, MASTER_PS, "ps-2", "elsewhere:1"), ERR_EXISTS);
    fake_heartbeat(c, n);
    assert_int_equal(c->reply.err.code, 0);
    assert_int_equal(nodes_lost(c), 0);
    cluster_free(c);
}

/* The limits of calls are for those that beat. */
static void it_is_not_given_up_for_its_calls_either(void **state)
{
    (void)state;
    for (int says = 0; says < 2; says++) {
        const struct master_config config = {.ps_timeout_ms = 3600000};
        struct cluster *c = cluster_new_with(717, 3, 2, &config);
        char id[64];
        struct fake_node *n = cluster_node(c, "ps-2");
        n->slow_kind = MASTER_CALL_PIN;
        n->slow_ms = 30000000;
        n->says_works = says == 1;
        n->work_done = 7;
        n->work_total = 2200000000;
        uint64_t limit_ms = says == 1 ? 600000 : 60000;
        cluster_submit(c, "demo", id, NULL, 0);
        cluster_until_in(c, id, "PIN");
        cluster_run_ms(c, limit_ms / 2);
        cluster_freeze(c, n, 2000000);
        cluster_run_ms(c, 2000000);
        assert_int_equal(nodes_lost(c), 0);
        cluster_run_ms(c, limit_ms / 2 - 4000); /* the time before its silence counts */
        assert_int_equal(nodes_lost(c), 0);
        cluster_until(c, id, JOB_RECOVERING, 8000);
        cluster_assert_reason(c, id, "ps-2 was lost (it beats, but ");
        cluster_free(c);
    }
}

static void it_is_given_no_other_job(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(718, 2, 4, &PATIENT);
    char first[64], second[64], third[64];
    cluster_submit(c, "first", first,
                   SETS("cluster.ps=1", "cluster.workers=1", "training.epochs=30000"));
    cluster_until_in(c, first, "TRAIN");
    assert_true(cluster_holds(c, "ps-1", first));
    cluster_submit(c, "second", second,
                   SETS("cluster.ps=1", "cluster.workers=1", "training.epochs=30000"));
    cluster_until_in(c, second, "TRAIN");
    assert_true(cluster_holds(c, "ps-2", second)); /* both have one */
    struct fake_node *n = cluster_node(c, "ps-1");
    cluster_freeze(c, n, 60000);
    while (c->now - n->heartbeat_ms < 1500) {
        cluster_run_ms(c, 1);
    }
    cluster_submit(c, "third", third,
                   SETS("cluster.ps=1", "cluster.workers=1", "training.epochs=30000"));
    cluster_until_in(c, third, "TRAIN"); /* on the other one: this one is late */
    assert_true(cluster_holds(c, "ps-2", third));
    cluster_run_ms(c, 5000);
    char fourth[64];
    cluster_submit(c, "fourth", fourth, SETS("cluster.ps=2", "cluster.workers=1"));
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_job(c, fourth)->state, JOB_PENDING);
    cluster_assert_reason(c, fourth, "waits for 1 more parameter server: 1 of 2 free");
    cluster_run_ms(c, 60000); /* it beats again */
    assert_int_equal(cluster_run_to_end(c, fourth)->recoveries, 0);
    assert_int_equal(nodes_lost(c), 0);
    cluster_free(c);
}

/* Whoever knows that it is gone need not wait; one that lives joins again. */
static void a_node_is_dropped_by_request(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(721, 3, 2, &PATIENT);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=30000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = cluster_node(c, "ps-2");
    cluster_freeze(c, n, 20000);
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
    struct master_event e = {.kind = MASTER_DROP, .request = ++c->request, .id = "ps-9"};
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_NOT_FOUND);
    for (int again = 0; again < 2; again++) {
        e.request = ++c->request;
        e.id = "ps-2";
        cluster_event(c, &e);
        assert_int_equal(c->reply.err.code, 0);
        assert_string_equal(c->reply_text, "ps-2");
        assert_int_equal(c->reply.was_alive, again == 0);
        assert_int_equal(nodes_lost(c), 1);
    }
    cluster_until(c, id, JOB_RECOVERING, 100);
    cluster_assert_reason(c, id,
                          "parameter server ps-2 was lost (it is gone for good, by request)");
    cluster_until(c, id, JOB_RUNNING, 10000); /* with the third */
    cluster_run_ms(c, 20000);                 /* it goes on, and is told */
    assert_string_equal(n->id, "ps-4");
    assert_int_equal(cluster_job(c, id)->recoveries, 1);
    cluster_free(c);
}

static void silence_is_shown(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(720, 2, 2, &PATIENT);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=30000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = cluster_node(c, "ps-2");
    cluster_freeze(c, n, 60000);
    while (c->now - n->heartbeat_ms < 2990) {
        cluster_run_ms(c, 1);
    }
    assert_string_equal(cluster_job(c, id)->activity, "");
    while (c->now - n->heartbeat_ms < 14100) {
        cluster_run_ms(c, 1);
    }
    assert_string_equal(
        cluster_job(c, id)->activity,
        "ps-2 has been silent for 14 s; it is waited for until 2:00; Pin on ps-2 for 13 s");
    assert_string_equal(cluster_job(c, id)->reason, "");
    cluster_run_ms(c, 50000); /* it is back */
    assert_string_equal(cluster_job(c, id)->activity, "");
    cluster_free(c);
}

static void heartbeats_are_a_fifth_of_the_time_out(void **state)
{
    (void)state;
    struct master_config config = {.heartbeat_timeout_ms = 3000};
    assert_int_equal(master_beat_ms(&config), 600);
    config.heartbeat_interval_ms = 1400;
    assert_int_equal(master_beat_ms(&config), 1400);
    struct cluster *c = cluster_new_with(719, 1, 1, &config); /* late after two of them */
    struct fake_node *n = cluster_node(c, "ps-1");
    cluster_freeze(c, n, 60000);
    while (c->now - n->heartbeat_ms < 2790) {
        cluster_run_ms(c, 1);
    }
    assert_int_equal(ask_to_join(c, MASTER_PS, "another", n->address), ERR_EXISTS);
    cluster_run_ms(c, 20);
    assert_int_equal(ask_to_join(c, MASTER_PS, "another", n->address), 0);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_on_where_it_was),
        cmocka_unit_test(it_is_given_up_in_the_end),
        cmocka_unit_test(the_longer_time_out_holds),
        cmocka_unit_test(only_who_holds_a_shard_is_waited_for),
        cmocka_unit_test(the_server_of_a_job_that_is_over_is_not_waited_for),
        cmocka_unit_test(the_end_of_its_process_is_proof),
        cmocka_unit_test(so_is_a_connection_that_broke),
        cmocka_unit_test(who_comes_instead_of_it_need_not_wait_so_long),
        cmocka_unit_test(the_name_of_one_whose_heartbeat_is_not_read_is_not_free),
        cmocka_unit_test(it_is_not_given_up_for_its_calls_either),
        cmocka_unit_test(it_is_given_no_other_job),
        cmocka_unit_test(a_node_is_dropped_by_request),
        cmocka_unit_test(silence_is_shown),
        cmocka_unit_test(heartbeats_are_a_fifth_of_the_time_out),
    };
    return cmocka_run_group_tests_name("master_patience", tests, NULL, NULL);
}
