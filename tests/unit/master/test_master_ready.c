/* SPDX-License-Identifier: Apache-2.0 */
/* When a server may be ended, as each answer tells it and as the list of nodes says. */
#include "cluster.h"

#define FOLLOWER "cluster.standby=follower"
#define PATIENCE_MS 600000

static struct cluster *begin(uint64_t seed, size_t ps, char id[64], const char *standby)
{
    struct cluster *c = cluster_new(seed, ps, 2);
    cluster_submit(c, "demo", id, SETS(standby, "training.epochs=300000"));
    cluster_until_in(c, id, "TRAIN");
    return c;
}

/* What the answer to a heartbeat of @node says; it is on the clock of this test. */
static const char *told(struct cluster *c, const char *node)
{
    struct fake_node *n = cluster_node(c, node);
    fake_heartbeat(c, n);
    return c->reply_unready;
}

static const char *listed(struct cluster *c, const char *node)
{
    static char why[256];
    struct master_node_info info;
    for (size_t i = 0; master_node_at(c->m, i, c->now, &info); i++) {
        if (strcmp(info.id, node) == 0 && info.alive) {
            snprintf(why, sizeof why, "%s", info.unready);
            return why;
        }
    }
    fail_msg("%s is not there", node);
    return NULL;
}

static void assert_both_say(struct cluster *c, const char *node, const char *why)
{
    assert_string_equal(told(c, node), why);
    assert_string_equal(listed(c, node), why);
}

static void until_taken_over(struct cluster *c, const char *id)
{
    while (cluster_job(c, id)->takeovers == 0) {
        cluster_advance(c);
    }
}

static void any_may_be_ended_when_all_follow(void **state)
{
    (void)state;
    static const char *const standbys[] = {FOLLOWER, "cluster.standby=none"};
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = begin(4000 + i, 3, id, standbys[i]);
        for (size_t k = 0; k < 3; k++) {
            assert_both_say(c, k == 0 ? "ps-1" : k == 1 ? "ps-2" : "ps-3", "");
        }
        cluster_free(c);
    }
}

/* The server that is left has what nobody else has, until it is said to another one; and that one
 * is not ready from the moment on in which it joins. */
static void none_may_be_ended_until_the_new_backup_follows(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(4010, 2, id, FOLLOWER);
    cluster_node(c, "ps-2")->says_joining = true;
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id);
    assert_both_say(c, "ps-2", "shard 0 of job demo-1 has no backup");
    struct fake_node *n = cluster_add(c, MASTER_PS);
    assert_string_equal(c->reply_text, n->id);
    assert_string_equal(c->reply_unready, "shard 0 of job demo-1 has no backup");
    cluster_run_ms(c, 8000);
    char joins[128];
    snprintf(joins, sizeof joins, "the backup of shard 0 of job demo-1 joins on %s", n->id);
    assert_both_say(c, "ps-2", joins);
    assert_both_say(c, n->id, joins);
    assert_string_equal(told(c, "worker-1"), "");
    cluster_node(c, "ps-2")->says_joining = false;
    while (cluster_job(c, id)->shards[0].follows + cluster_job(c, id)->shards[1].follows < 2) {
        cluster_advance(c);
    }
    assert_both_say(c, "ps-2", "");
    assert_both_say(c, n->id, "");
    cluster_free(c);
}

/* The list says what is so; the servers stop saying it. The patience begins anew when a backup gets
 * further than any before. */
static void nobody_is_held_up_for_ever(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(4020, 2, id, FOLLOWER);
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id);
    cluster_run_ms(c, PATIENCE_MS / 2);
    assert_both_say(c, "ps-2", "shard 0 of job demo-1 has no backup");
    cluster_run_ms(c, PATIENCE_MS / 2 + 1000);
    assert_string_equal(told(c, "ps-2"), "");
    assert_string_equal(listed(c, "ps-2"), "shard 0 of job demo-1 has no backup");
    cluster_node(c, "ps-2")->says_joining = true;
    struct fake_node *n = cluster_add(c, MASTER_PS);
    assert_string_equal(c->reply_unready, "");
    cluster_run_ms(c, 8000);
    assert_string_not_equal(told(c, n->id), "");
    cluster_run_ms(c, PATIENCE_MS + 8000);
    assert_string_equal(told(c, n->id), "");
    assert_string_not_equal(listed(c, n->id), "");
    cluster_free(c);
}

/* Who refused a backup is not asked for it soon, and may go; who has the shard stays. */
static void who_cannot_have_the_backup_may_be_ended(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(4030, 3, id, FOLLOWER);
    cluster_node(c, "ps-3")->refuse = ERR_EXHAUSTED;
    cluster_node(c, "ps-3")->refuse_kind = MASTER_CALL_OPEN;
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id);
    cluster_run_ms(c, 1500);
    assert_both_say(c, "ps-3", "");
    assert_both_say(c, "ps-2", "shard 0 of job demo-1 has no backup");
    cluster_free(c);
}

/* Nor is one that is emptied given any. */
static void who_is_emptied_may_be_ended(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(4050, 3, 2);
    cluster_submit(c, "demo", id, SETS(FOLLOWER, "training.epochs=300000", "cluster.ps=2"));
    cluster_until_in(c, id, "TRAIN");
    struct master_event e = {.kind = MASTER_DRAIN, .request = ++c->request};
    e.drain.node = "ps-3";
    cluster_event(c, &e);
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id);
    assert_both_say(c, "ps-2", "shard 0 of job demo-1 has no backup");
    assert_both_say(c, "ps-3", "");
    cluster_free(c);
}

static void a_job_that_is_taken_over_keeps_its_servers(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(4040, 2, id, FOLLOWER);
    cluster_restart_master(c, id);
    assert_string_equal(listed(c, "ps-1"), "this master is taking over job demo-1");
    while (cluster_job(c, id)->adoptions == 0) {
        cluster_advance(c);
    }
    assert_both_say(c, "ps-1", "");
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_may_be_ended_when_all_follow),
        cmocka_unit_test(none_may_be_ended_until_the_new_backup_follows),
        cmocka_unit_test(nobody_is_held_up_for_ever),
        cmocka_unit_test(who_cannot_have_the_backup_may_be_ended),
        cmocka_unit_test(who_is_emptied_may_be_ended),
        cmocka_unit_test(a_job_that_is_taken_over_keeps_its_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
