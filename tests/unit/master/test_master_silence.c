/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are silent, late, or busy for long, and a master that stood still: who is given up
 * when. */
#include "cluster.h"

static void initial_values_may_take_minutes(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(650, 2, 2);
    struct fake_node *server = cluster_node(c, "ps-1");
    server->slow_kind = MASTER_CALL_OPEN;
    server->slow_ms = 120000;
    server->says_works = true;
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    cluster_run_ms(c, 100000);
    assert_int_equal(cluster_job(c, id)->state, JOB_STARTING);
    assert_non_null(strstr(cluster_job(c, id)->activity, "OpenShard on ps-1 for "));
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->generation, 1); /* it was not started again */
    cluster_free(c);
}

/* Nothing is called, and yet it is shown why nothing gets on. */
static void a_long_step_is_shown(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(651, 2, 2);
    char id[64];
    c->train_records = 40000;
    cluster_submit(c, "demo", id, SETS("training.epochs=50", "training.split_batches=500"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *worker = cluster_node(c, "worker-2");
    worker->step_since_ms = c->now;
    cluster_run_ms(c, 2000);
    assert_string_equal(cluster_job(c, id)->activity, "");
    cluster_run_ms(c, 31000);
    assert_string_equal(cluster_job(c, id)->activity, "worker-2, which is at a step for 33 s");
    worker->step_since_ms = 0;
    cluster_run_ms(c, 2000);
    assert_string_equal(cluster_job(c, id)->activity, "");
    cluster_free(c);
}

/* A server that has only a shard of an earlier start has lost the job, and is told to close that.
 */
static void a_shard_of_an_earlier_start_is_none(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(653, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=30"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *server = cluster_node(c, "ps-1");
    server->says_opening = 12345;
    fake_heartbeat(c, server);
    assert_int_equal(c->reply.stop_job_count, 0);
    assert_int_equal(c->reply.stop_opening_count, 1);
    assert_int_equal(c->reply.stop_openings[0], 12345);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING); /* one may have been on its way */
    fake_heartbeat(c, server);
    assert_int_equal(cluster_job(c, id)->recoveries, 1);
    server->says_opening = 0;
    cluster_run_to_end(c, id);
    cluster_free(c);
}

/* A worker that has been made to take the job anew by a message of another time does nothing,
 * though it names the job. */
static void another_start_of_a_worker_is_none(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(655, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=30"));
    cluster_until_in(c, id, "TRAIN");
    uint64_t generation = cluster_job(c, id)->generation;
    struct fake_node *worker = cluster_node(c, "worker-1");
    uint64_t start = worker->job.start;
    assert_true(start >> 32 == 1); /* of generation 1 */
    worker->says_opening = 12345;
    fake_heartbeat(c, worker);
    assert_int_equal(c->reply.stop_job_count, 0);
    assert_int_equal(c->reply.stop_opening_count, 1);
    assert_int_equal(c->reply.stop_openings[0], 12345);
    assert_int_equal(cluster_job(c, id)->generation, generation); /* one may be on its way */
    fake_heartbeat(c, worker);
    worker->says_opening = 0;
    cluster_run_to_end(c, id);
    assert_true(cluster_job(c, id)->generation > generation);
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
    cluster_free(c);
}

/* It says how far it is: it may take as long as it wants, as long as it gets on. */
static void a_copy_may_take_an_hour(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(652, 2, 2);
    struct fake_node *server = cluster_node(c, "ps-2");
    server->slow_kind = MASTER_CALL_PIN;
    server->slow_ms = 3500000;
    server->says_works = true;
    server->work_total = 2200000000;
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    for (int i = 0; i < 340; i++) {
        cluster_run_ms(c, 10000);
        server->work_done += 5000000;
    }
    const struct job_record *r = cluster_job(c, id);
    assert_int_equal(r->state, JOB_RUNNING);
    assert_non_null(strstr(r->activity, "Pin on ps-2 for 3"));
    assert_non_null(strstr(r->activity, "1695.0 of 2200.0 MB"));
    server->slow_ms = 0;
    assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
    cluster_free(c);
}

/* One that says that it is at it, and is not, is given up after ten minutes; one that says nothing
 * after one, and the reason says that it beats. */
static void a_node_that_does_not_get_on_is_given_up(void **state)
{
    (void)state;
    for (int says = 0; says < 2; says++) {
        struct cluster *c = cluster_new(654, 3, 2);
        struct fake_node *server = cluster_node(c, "ps-2");
        server->slow_kind = MASTER_CALL_PIN;
        server->slow_ms = 30000000;
        server->says_works = says == 1;
        server->work_done = 7;
        server->work_total = 2200000000;
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0);
        cluster_run_ms(c, says == 1 ? 590000 : 55000);
        assert_int_equal(cluster_job(c, id)->recoveries, 0);
        if (says == 1) {
            assert_non_null(strstr(cluster_job(c, id)->activity, "has not got on for "));
        }
        cluster_until(c, id, JOB_RECOVERING, 30000);
        const char *why = says == 1 ? "ps-2 was lost (it beats, but Pin has not got on for 600 s)"
                                    : "ps-2 was lost (it beats, but cannot be called: no answer "
                                      "to Pin for 60 s";
        assert_non_null(strstr(cluster_job(c, id)->reason, why));
        server->slow_ms = 0;
        cluster_run_to_end(c, id);
        cluster_free(c);
    }
}

/* SIGSTOP, a slow disk: what it waits for may lie in its sockets. */
static void a_master_that_stood_still_gives_nobody_up(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(656, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=300"));
    cluster_until_in(c, id, "TRAIN");
    uint64_t generation = cluster_job(c, id)->generation;
    for (uint64_t still_ms = 1000; still_ms < 4000000; still_ms *= 3) {
        cluster_run_ms(c, 1700);
        c->now += still_ms; /* the first that it does is to look at its timer */
        struct master_event e = {.kind = MASTER_TICK};
        cluster_event(c, &e);
        cluster_run_ms(c, 2000);
        struct master_counts counts;
        master_counts(c->m, &counts);
        assert_int_equal(counts.nodes_lost, 0);
    }
    assert_int_equal(cluster_job(c, id)->generation, generation);
    cluster_run_to_end(c, id);
    cluster_free(c);
}

static uint64_t heartbeat_age_ms(struct cluster *c, const char *id)
{
    struct master_node_info info;
    for (size_t i = 0; master_node_at(c->m, i, c->now, &info); i++) {
        if (strcmp(info.id, id) == 0) {
            return info.heartbeat_age_ms;
        }
    }
    return 0;
}

static void heartbeat(struct cluster *c, const struct fake_node *n, const char *job)
{
    const char *jobs[] = {job};
    struct master_event e = {.kind = MASTER_HEARTBEAT, .request = ++c->request};
    e.node = (struct master_node_event){
        .node = n->id, .incarnation = n->incarnation, .jobs = jobs, .job_count = 1};
    cluster_event(c, &e);
}

/* The heartbeat may be among the messages that have come and are not read yet. */
static void an_overdue_node_is_judged_when_messages_are_read(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(657, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.workers=1..2", "training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = &c->nodes[3];
    for (int beats = 1; beats >= 0; beats--) {
        n->alive = false;
        while (heartbeat_age_ms(c, n->id) < 3020) { /* the time-out is over */
            cluster_run_ms(c, 1);
        }
        assert_int_equal(cluster_job(c, id)->workers.count, 2);
        if (beats == 1) {
            heartbeat(c, n, id);
        }
        cluster_run_ms(c, 100);
        assert_int_equal(cluster_job(c, id)->workers.count, beats == 1 ? 2 : 1);
        n->alive = true;
        cluster_run_ms(c, 1100);
    }
    cluster_free(c);
}

/* It saw that a heartbeat is late, and stood still before it had read what has come. */
static void a_master_that_stood_still_while_it_read_reads_first(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(660, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.workers=1..2", "training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = &c->nodes[3];
    for (int beats = 1; beats >= 0; beats--) {
        n->alive = false;
        while (heartbeat_age_ms(c, n->id) < 3010) {
            cluster_run_ms(c, 1);
        }
        c->now += 90;
        struct master_event tick = {.kind = MASTER_TICK};
        cluster_event(c, &tick);
        assert_int_equal(cluster_job(c, id)->workers.count, 2);
        if (beats == 1) {
            heartbeat(c, n, id);
        }
        cluster_run_ms(c, 100);
        assert_int_equal(cluster_job(c, id)->workers.count, beats == 1 ? 2 : 1);
        n->alive = true;
        cluster_run_ms(c, 1100);
    }
    cluster_free(c);
}

/* What it was late by counts once, whatever it reads first. */
static void standing_still_counts_once(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(661, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.workers=1..2", "training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = &c->nodes[3];
    n->alive = false;
    while (heartbeat_age_ms(c, n->id) < 1500) {
        cluster_run_ms(c, 1);
    }
    c->now += 900;
    heartbeat(c, &c->nodes[2], id);
    uint64_t age_ms = heartbeat_age_ms(c, n->id);
    assert_in_range(age_ms, 1500, 2000);
    heartbeat(c, &c->nodes[2], id);
    heartbeat(c, &c->nodes[2], id);
    assert_int_equal(heartbeat_age_ms(c, n->id), age_ms);
    n->alive = true;
    cluster_free(c);
}

/* A node may lose a job without anybody noticing; its heartbeats tell. */
static void a_job_that_a_node_has_lost_is_given_again(void **state)
{
    (void)state;
    static const char *const nodes[] = {"worker-1", "ps-2"};
    for (size_t i = 0; i < 2; i++) {
        struct cluster *c = cluster_new(982, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, SETS("training.epochs=300"));
        cluster_until_in(c, id, "TRAIN");
        fake_drop_job(cluster_node(c, nodes[i]), id);
        cluster_run_ms(c, 4500);
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->state, JOB_RUNNING);
        assert_int_equal(r->workers.count, 2);
        assert_int_equal(r->recoveries, i);
        assert_true(r->generation > 1);
        cluster_run_to_end(c, id);
        cluster_free(c);
    }
}

/* The host says that the process has ended: sooner than the time-out, but only of one that is late.
 */
static void an_end_is_seen_before_the_time_out(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1380, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.workers=1..2", "training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = &c->nodes[3];
    struct master_event e = {.kind = MASTER_UNREACHABLE};
    e.node = (struct master_node_event){.node = n->id, .incarnation = n->incarnation};
    cluster_event(c, &e); /* its heartbeat came a moment ago */
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    n->alive = false;
    cluster_run_ms(c, 2500); /* of 3000 */
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    e.node.incarnation++;
    cluster_event(c, &e); /* another process */
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    e.node.incarnation--;
    cluster_event(c, &e);
    assert_int_equal(cluster_job(c, id)->workers.count, 1);
    cluster_free(c);
}

/* Its workers are told to stop, and why. */
static void workers_are_told_which_server_was_lost(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(300, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=300"));
    cluster_until_in(c, id, "TRAIN");
    cluster_kill_one(c, MASTER_PS);
    cluster_until(c, id, JOB_RECOVERING, 10000);
    assert_non_null(strstr(c->stop_reason, "parameter server ps-1 was lost ("));
    cluster_add(c, MASTER_PS);
    assert_int_equal(cluster_run_to_end(c, id)->recoveries, 1);
    cluster_free(c);
}

/* Nodes that are listed, those that are not alive in lower case: "W w P". */
static const char *listed(struct cluster *c)
{
    static char text[64];
    size_t length = 0;
    struct master_node_info n;
    for (size_t i = 0; master_node_at(c->m, i, c->now, &n); i++) {
        assert_false(n.alive && n.gone);
        if (!n.gone) {
            const char *letters = n.alive ? "PW" : "pw";
            text[length++] = letters[n.role == MASTER_WORKER];
        }
    }
    text[length] = '\0';
    return text;
}

/* Until another node has its place; one that left in order has none. */
static void a_lost_node_is_listed_until_it_is_replaced(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(660, 2, 2);
    cluster_run_ms(c, 1000);
    assert_string_equal(listed(c), "PPWW");
    cluster_kill(&c->nodes[0]);
    cluster_kill(&c->nodes[2]);
    cluster_kill(&c->nodes[3]);
    cluster_run_ms(c, 10000);
    assert_string_equal(listed(c), "pPww");
    /* at another address, as a pod that replaces one */
    struct fake_node *worker = cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 1000);
    assert_string_equal(listed(c), "pPwW");
    cluster_add(c, MASTER_PS);
    cluster_add(c, MASTER_PS); /* more than there were */
    cluster_run_ms(c, 1000);
    assert_string_equal(listed(c), "PwWPP");
    struct master_event leave = fake_event(c, worker, MASTER_LEAVE);
    leave.node = (struct master_node_event){.node = worker->id, .incarnation = worker->incarnation};
    cluster_event(c, &leave);
    cluster_kill(worker);
    assert_string_equal(listed(c), "PwPP");
    cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 1000);
    assert_string_equal(listed(c), "PPPW");
    cluster_kill_one(c, MASTER_PS);
    cluster_run_ms(c, 10000);
    assert_int_equal(strlen(listed(c)), 4);
    assert_non_null(strchr(listed(c), 'p'));
    cluster_run_ms(c, 700000); /* nobody came for it */
    assert_string_equal(listed(c), "PPW");
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values_may_take_minutes),
        cmocka_unit_test(a_long_step_is_shown),
        cmocka_unit_test(a_shard_of_an_earlier_start_is_none),
        cmocka_unit_test(another_start_of_a_worker_is_none),
        cmocka_unit_test(a_copy_may_take_an_hour),
        cmocka_unit_test(a_node_that_does_not_get_on_is_given_up),
        cmocka_unit_test(a_master_that_stood_still_gives_nobody_up),
        cmocka_unit_test(an_overdue_node_is_judged_when_messages_are_read),
        cmocka_unit_test(a_master_that_stood_still_while_it_read_reads_first),
        cmocka_unit_test(standing_still_counts_once),
        cmocka_unit_test(an_end_is_seen_before_the_time_out),
        cmocka_unit_test(a_job_that_a_node_has_lost_is_given_again),
        cmocka_unit_test(workers_are_told_which_server_was_lost),
        cmocka_unit_test(a_lost_node_is_listed_until_it_is_replaced),
    };
    return cmocka_run_group_tests_name("master_silence", tests, NULL, NULL);
}
