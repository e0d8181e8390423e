/* SPDX-License-Identifier: Apache-2.0 */
/* New backups of a job that runs: who gets them, when they count, and what becomes of one that does
 * not come to follow. */
#include "cluster.h"

#define FOLLOWER "cluster.standby=follower"

/* A job on two servers, of @ps that there are. */
static struct cluster *begin(uint64_t seed, size_t ps, char id[64], const char *mode)
{
    struct cluster *c = cluster_new(seed, ps, 2);
    cluster_submit(c, "demo", id,
                   SETS(FOLLOWER, "training.epochs=3000", "training.checkpoint_every=40 epoch",
                        "training.evaluate_every=never", mode));
    cluster_until_in(c, id, "TRAIN");
    return c;
}

static bool all_follow(struct cluster *c, const char *id)
{
    const struct job_record *r = cluster_job(c, id);
    bool all = r->state == JOB_RUNNING;
    for (size_t i = 0; i < r->shard_count; i++) {
        all = all && r->shards[i].backup[0] != '\0' && r->shards[i].follows;
    }
    return all;
}

static const struct job_record *until_all_follow(struct cluster *c, const char *id)
{
    const uint64_t end = c->now + 200000;
    while (!all_follow(c, id)) {
        if (c->now > end) {
            const struct job_record *r = cluster_job(c, id);
            fail_msg("%s: %s; shard 0 on %s, %s: %s", job_state_name(r->state), r->reason,
                     r->shards[0].ps, r->shards[0].backup, r->shards[0].backup_problem);
        }
        cluster_advance(c);
    }
    return cluster_job(c, id);
}

static void until_taken_over(struct cluster *c, const char *id, uint64_t count)
{
    while (cluster_job(c, id)->takeovers < count) {
        assert_int_equal(cluster_job(c, id)->recoveries, 0);
        cluster_advance(c);
    }
}

/* The first server that was not needed has both of them. */
static void a_lost_server_is_replaced(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async",
                                        "training.mode=bounded"};
    for (size_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c = begin(3000 + i, 3, id, modes[i]);
        cluster_kill(cluster_node(c, "ps-1"));
        until_taken_over(c, id, 1);
        const struct job_record *r = until_all_follow(c, id);
        for (size_t k = 0; k < 2; k++) {
            assert_string_equal(r->shards[k].ps, "ps-2");
            assert_string_equal(r->shards[k].backup, "ps-3");
            assert_string_equal(r->shards[k].backup_problem, "");
        }
        cluster_assert_reason(c, id, "every shard has a backup again");
        cluster_kill(cluster_node(c, "ps-2"));
        until_taken_over(c, id, 3);
        cluster_run_ms(c, 5000);
        r = cluster_job(c, id);
        assert_string_equal(r->shards[0].ps, "ps-3");
        assert_string_equal(r->shards[1].ps, "ps-3");
        assert_int_equal(r->recoveries, 0);
        cluster_free(c);
    }
}

/* Those that are left have each other's backups, and no other server is needed. */
static void servers_of_the_job_have_them_where_there_is_no_other(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(3010, 3, 2);
    cluster_submit(c, "demo", id, SETS(FOLLOWER, "cluster.ps=3", "training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    const struct job_record *r = until_all_follow(c, id);
    for (size_t i = 0; i < 3; i++) {
        assert_string_not_equal(r->shards[i].ps, r->shards[i].backup);
    }
    cluster_kill(cluster_node(c, "ps-2"));
    until_taken_over(c, id, 3);
    cluster_run_ms(c, 3000);
    r = cluster_job(c, id);
    assert_int_equal(r->recoveries, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(r->shards[i].ps, "ps-3");
        assert_string_equal(r->shards[i].backup_problem, "there is no other server for it");
    }
    (void)cluster_add(c, MASTER_PS);
    until_all_follow(c, id);
    cluster_free(c);
}

/* Until it follows it is as good as none. */
static void one_that_joins_does_not_take_over(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3020, 3, id, "training.mode=async");
    cluster_node(c, "ps-2")->says_joining = true;
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    cluster_run_ms(c, 8000);
    const struct job_record *r = cluster_job(c, id);
    assert_string_equal(r->shards[0].backup, "ps-3");
    assert_false(r->shards[0].follows);
    assert_int_equal(r->shards[0].state_sent, 70);
    assert_int_equal(r->shards[0].state_bytes, 100);
    cluster_kill(cluster_node(c, "ps-2"));
    (void)cluster_add(c, MASTER_PS);
    (void)cluster_until(c, id, JOB_RECOVERING, 20000);
    (void)cluster_until(c, id, JOB_RUNNING, 20000);
    r = until_all_follow(c, id);
    assert_int_equal(r->recoveries, 1);
    assert_int_equal(r->takeovers, 1);
    cluster_free(c);
}

/* Its server goes away: while it opens the backup, when it has, while the backup joins. */
static void it_may_be_lost_at_any_moment(void **state)
{
    (void)state;
    for (size_t i = 0; i < 20; i++) {
        char id[64];
        struct cluster *c = begin(3030 + i, 3, id, "training.mode=sync");
        cluster_node(c, "ps-2")->says_joining = true;
        cluster_node(c, "ps-3")->crash_on = i == 0 ? MASTER_CALL_OPEN + 1 : 0;
        cluster_kill(cluster_node(c, "ps-1"));
        until_taken_over(c, id, 1);
        cluster_run_ms(c, 10 * i);
        cluster_kill(cluster_node(c, "ps-3"));
        cluster_run_ms(c, 10000);
        const struct job_record *r = cluster_job(c, id);
        assert_string_equal(r->shards[0].backup, "");
        assert_string_equal(r->shards[1].backup, "");
        cluster_node(c, "ps-2")->says_joining = false;
        (void)cluster_add(c, MASTER_PS);
        r = until_all_follow(c, id);
        assert_int_equal(r->recoveries, 0);
        assert_int_equal(r->takeovers, 1);
        cluster_free(c);
    }
}

/* A server without memory is said, and asked again later; one that has some is asked at once. */
static void a_server_without_memory_is_asked_again(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3060, 3, id, "training.mode=sync");
    struct fake_node *n = cluster_node(c, "ps-3");
    n->refuse = ERR_EXHAUSTED;
    n->refuse_kind = MASTER_CALL_OPEN;
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    cluster_run_ms(c, 4000);
    const struct job_record *r = cluster_job(c, id);
    assert_string_equal(r->shards[0].backup, "");
    assert_string_equal(r->shards[0].backup_problem, "OpenShard on ps-3: refused by the test");
    assert_false(cluster_holds(c, "ps-3", id));
    const size_t before = c->calls[MASTER_CALL_OPEN];
    cluster_run_ms(c, 12000);
    assert_true(c->calls[MASTER_CALL_OPEN] > before);
    (void)cluster_add(c, MASTER_PS);
    r = until_all_follow(c, id);
    assert_string_not_equal(r->shards[0].backup, "ps-3");
    assert_string_equal(r->shards[0].backup_problem, "");
    n->refuse = 0;
    cluster_kill(cluster_node(c, r->shards[0].backup));
    cluster_run_ms(c, 8000);
    r = until_all_follow(c, id);
    assert_string_equal(r->shards[0].backup, "ps-3");
    assert_int_equal(r->recoveries, 0);
    cluster_free(c);
}

/* A primary that has no memory for the copy goes on alone in the same generation. */
static void a_primary_without_memory_goes_on(void **state)
{
    (void)state;
    static const int codes[] = {ERR_EXHAUSTED, ERR_STATE, ERR_INVALID, ERR_UNSUPPORTED};
    for (size_t i = 0; i < 4; i++) {
        char id[64];
        struct cluster *c = begin(3070 + i, 3, id, "training.mode=async");
        struct fake_node *n = cluster_node(c, "ps-2");
        n->refuses_backups = codes[i];
        cluster_kill(cluster_node(c, "ps-1"));
        until_taken_over(c, id, 1);
        while (cluster_job(c, id)->shards[0].backup_problem[0] == '\0' ||
               strcmp(master_job_phase(c->m, id), "TRAIN") != 0) {
            assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
            cluster_advance(c);
        }
        assert_string_equal(cluster_job(c, id)->shards[0].backup_problem,
                            "SetMembership on ps-2: no memory for 7 MB of slots");
        const uint64_t step = cluster_job(c, id)->step, generation = cluster_job(c, id)->generation;
        cluster_run_ms(c, 1500);
        assert_true(cluster_job(c, id)->step > step);
        assert_int_equal(cluster_job(c, id)->generation, generation); /* not at once again */
        cluster_run_ms(c, 60000);
        assert_true(cluster_job(c, id)->generation > generation);
        assert_int_equal(cluster_job(c, id)->workers.count, 2);
        n->refuses_backups = 0;
        assert_int_equal(until_all_follow(c, id)->recoveries, 0);
        cluster_free(c);
    }
}

/* The refusal was of a second attempt: the first comes late, and the primary knows of a backup that
 * is closed. It hears of a generation without it, whether there is a server for another or not. */
static void a_backup_that_is_taken_late_is_taken_back(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3076, 3, id, "training.mode=async");
    struct fake_node *n = cluster_node(c, "ps-2");
    cluster_node(c, "ps-3")->slow_kind = MASTER_CALL_OPEN;
    cluster_node(c, "ps-3")->slow_ms = 1000;
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    cluster_until_in(c, id, "TRAIN"); /* its backups are being opened */
    const uint64_t generation = cluster_job(c, id)->generation;
    n->refuse = ERR_UNAVAILABLE;
    n->refuse_kind = MASTER_CALL_MEMBERSHIP;
    while (cluster_job(c, id)->generation == generation) {
        cluster_advance(c);
    }
    cluster_run_ms(c, 100);
    n->refuse = 0;
    n->refuses_backups = ERR_EXHAUSTED;
    n->takes_late = true;
    const struct job_record *r = cluster_job(c, id);
    while ((r->shards[0].backup_problem[0] == '\0' && r->shards[1].backup_problem[0] == '\0') ||
           strcmp(master_job_phase(c->m, id), "TRAIN") != 0) {
        cluster_advance(c);
        r = cluster_job(c, id);
    }
    for (size_t i = 0; i < 2; i++) {
        const bool has = n->shards[i].backup != 0;
        assert_int_equal(has, r->shards[n->shards[i].number].backup[0] != '\0');
    }
    n->refuses_backups = 0;
    n->takes_late = false;
    assert_int_equal(until_all_follow(c, id)->recoveries, 0);
    cluster_free(c);
}

/* One whose answer was lost is asked for again as it was, though workers have come and gone since:
 * its server would close it for a newer generation. */
static void one_that_opens_is_asked_for_in_its_own_generation(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3500, 3, id, "training.mode=async");
    struct fake_node *n = cluster_node(c, "ps-3");
    n->refuse = ERR_UNAVAILABLE;
    n->refuse_kind = MASTER_CALL_OPEN;
    n->loses_answers = true;
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    while (!cluster_holds(c, "ps-3", id)) {
        cluster_advance(c);
    }
    const uint64_t opening = n->shards[0].opening, generation = cluster_job(c, id)->generation;
    (void)cluster_add(c, MASTER_WORKER);
    cluster_kill(cluster_node(c, "worker-1"));
    while (cluster_job(c, id)->generation == generation) {
        cluster_advance(c);
    }
    n->refuse = 0;
    (void)until_all_follow(c, id);
    assert_int_equal(n->shards[0].opening, opening);
    cluster_free(c);
}

/* A refusal that makes another call's node a stranger is no more than that here: its other jobs go
 * on. */
static void a_server_that_refuses_it_is_not_lost(void **state)
{
    (void)state;
    static const int codes[] = {ERR_ABORTED, ERR_UNAUTHENTICATED};
    for (size_t i = 0; i < 2; i++) {
        char id[64], other[64];
        struct cluster *c = begin(3510 + i, 3, id, "training.mode=async");
        (void)cluster_add(c, MASTER_WORKER);
        cluster_submit(c, "other", other,
                       SETS("cluster.ps=1", "cluster.workers=1", "training.epochs=3000"));
        (void)cluster_until(c, other, JOB_RUNNING, 20000);
        assert_true(cluster_holds(c, "ps-3", other));
        struct fake_node *n = cluster_node(c, "ps-3");
        n->refuse = codes[i];
        n->refuse_kind = MASTER_CALL_OPEN;
        cluster_kill(cluster_node(c, "ps-1"));
        until_taken_over(c, id, 1);
        cluster_run_ms(c, 3000);
        assert_string_equal(cluster_job(c, id)->shards[0].backup_problem,
                            "OpenShard on ps-3: refused by the test");
        n->refuse = 0;
        assert_string_equal(until_all_follow(c, id)->shards[0].backup, "ps-3");
        assert_int_equal(cluster_job(c, other)->recoveries, 0);
        cluster_free(c);
    }
}

/* A server that is being told to close one does not get the next before it has: it would close
 * that. */
static void the_next_waits_until_the_last_is_closed(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3520, 2, id, "training.mode=async");
    struct fake_node *n = cluster_node(c, "ps-2");
    n->refuse = ERR_UNAVAILABLE;
    n->refuse_kind = MASTER_CALL_CLOSE;
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.standby=none")), 10000), 0);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS(FOLLOWER)), 10000), 0);
    cluster_run_ms(c, 3000);
    assert_string_equal(cluster_job(c, id)->shards[0].backup, "");
    assert_string_equal(cluster_job(c, id)->shards[1].backup, "ps-1");
    n->refuse = 0;
    assert_string_equal(until_all_follow(c, id)->shards[0].backup, "ps-2");
    cluster_free(c);
}

/* Servers that die of what they are sent are not taken one after the other. */
static void after_one_that_died_the_next_is_not_placed_at_once(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3530, 4, id, "training.mode=async");
    cluster_node(c, "ps-2")->says_joining = true;
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    while (cluster_job(c, id)->shards[0].state_sent == 0) {
        cluster_advance(c);
    }
    cluster_kill(cluster_node(c, cluster_job(c, id)->shards[0].backup));
    while (cluster_job(c, id)->shards[0].backup[0] != '\0') {
        cluster_advance(c);
    }
    cluster_run_ms(c, 900);
    assert_string_equal(cluster_job(c, id)->shards[0].backup, "");
    assert_non_null(strstr(cluster_job(c, id)->shards[0].backup_problem, "was lost"));
    cluster_node(c, "ps-2")->says_joining = false;
    assert_int_equal(until_all_follow(c, id)->recoveries, 0);
    cluster_free(c);
}

/* One that its primary cannot reach is dropped, whether it follows or joins, and another server has
 * the next. */
static void one_that_is_not_reached_is_given_up(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3080, 4, id, "training.mode=sync");
    struct fake_node *n = cluster_node(c, "ps-1");
    static const char *const not_again[] = {"ps-2", "ps-3"};
    for (size_t i = 0; i < 2; i++) {
        n->says.waits_ms = 3000;
        fake_heartbeat(c, n);
        fake_heartbeat(c, n);
        cluster_assert_reason(c, id, "has not received a change for 3000 ms");
        n->says.waits_ms = 0;
        n->says_joining = i == 0;
        while (cluster_job(c, id)->shards[0].backup[0] == '\0' ||
               cluster_job(c, id)->shards[0].state_sent == 0) {
            cluster_advance(c);
        }
        assert_string_not_equal(cluster_job(c, id)->shards[0].backup, not_again[i]);
    }
    const struct job_record *r = until_all_follow(c, id);
    assert_string_equal(r->shards[0].backup, "ps-4");
    assert_string_equal(r->shards[1].backup, "ps-1");
    assert_int_equal(r->recoveries, 0);
    cluster_free(c);
}

/* A primary says from the beginning that the backup follows, which its server may still be opening:
 * that server has not lost it. */
static void one_that_opens_with_its_shard_counts_when_it_is_open(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(3090, 2, 2);
    struct fake_node *n = cluster_node(c, "ps-2");
    n->slow_kind = MASTER_CALL_OPEN;
    n->slow_ms = 8000;
    cluster_submit(c, "demo", id, SETS(FOLLOWER));
    cluster_until_in(c, id, "OPEN");
    for (size_t i = 0; i < 3; i++) {
        const struct fake_shard *s = &cluster_node(c, "ps-1")->shards[0];
        while (s->job[0] == '\0') {
            cluster_advance(c);
        }
        fake_heartbeat(c, cluster_node(c, "ps-1"));
        fake_heartbeat(c, n);
    }
    (void)cluster_until(c, id, JOB_RUNNING, 20000);
    assert_int_equal(c->calls[MASTER_CALL_OPEN], 4);
    cluster_free(c);
}

/* The row names what a primary knows; what it does not name is closed, and placed anew. */
static void the_next_master_goes_on_with_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < 40; i++) {
        char id[64];
        struct cluster *c =
            begin(3100 + i, 3, id, i % 2 == 0 ? "training.mode=sync" : "training.mode=async");
        cluster_node(c, "ps-2")->says_joining = i % 4 < 2;
        cluster_kill(cluster_node(c, "ps-1"));
        until_taken_over(c, id, 1);
        cluster_run_ms(c, i * 8); /* at another moment each time */
        cluster_restart_master(c, id);
        cluster_run_ms(c, 3000);
        cluster_node(c, "ps-2")->says_joining = false;
        const struct job_record *r = until_all_follow(c, id);
        assert_int_equal(r->adoptions, 1);
        assert_string_equal(r->shards[0].backup, "ps-3");
        cluster_kill(cluster_node(c, "ps-2"));
        until_taken_over(c, id, r->takeovers + 2);
        cluster_run_ms(c, 3000);
        assert_int_equal(cluster_job(c, id)->recoveries, 0);
        cluster_free(c);
    }
}

/* Master and primary die together: the row says that the backup follows. */
static void the_next_master_knows_who_follows(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3150, 3, id, "training.mode=async");
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    (void)until_all_follow(c, id);
    cluster_restart_master(c, id);
    cluster_kill(cluster_node(c, "ps-2"));
    until_taken_over(c, id, 3);
    cluster_run_ms(c, 3000);
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-3");
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
    cluster_free(c);
}

/* A server that the row names only for a backup, and that cannot be the one, costs the backup. */
static void the_next_master_does_without_one_that_cannot_be(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3540, 3, id, "training.mode=sync");
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    (void)until_all_follow(c, id);
    const uint64_t opening = cluster_node(c, "ps-2")->shards[0].backup;
    assert_int_not_equal(opening, 0);
    c->other_unsound = true;
    cluster_restart_master(c, id);
    while (cluster_job(c, id)->adoptions == 0) {
        assert_int_equal(cluster_job(c, id)->recoveries, 0);
        cluster_advance(c);
    }
    const struct job_record *r = until_all_follow(c, id);
    assert_int_equal(r->recoveries, 0);
    assert_string_equal(r->shards[0].backup, "ps-3");
    assert_int_not_equal(cluster_node(c, "ps-2")->shards[0].backup, opening);
    cluster_free(c);
}

static void it_is_set_while_the_job_runs(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async"};
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = cluster_new(3160 + i, 2, 2);
        cluster_submit(c, "demo", id, SETS("training.epochs=3000", modes[i]));
        cluster_until_in(c, id, "TRAIN");
        assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS(FOLLOWER)), 10000), 0);
        const struct job_record *r = until_all_follow(c, id);
        assert_string_equal(r->shards[0].backup, "ps-2");
        assert_string_equal(r->shards[1].backup, "ps-1");
        const uint64_t generation = r->generation;
        assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.standby=none")), 10000),
                         0);
        cluster_run_ms(c, 3000);
        r = cluster_job(c, id);
        assert_true(r->generation > generation);
        for (size_t k = 0; k < 2; k++) {
            assert_string_equal(r->shards[k].backup, "");
            assert_string_equal(r->shards[k].backup_problem, "");
        }
        assert_int_equal(cluster_node(c, "ps-1")->shards[0].backup, 0);
        cluster_kill(cluster_node(c, "ps-2"));
        (void)cluster_until(c, id, JOB_RECOVERING, 20000);
        cluster_free(c);
    }
}

/* It cannot be where there is one server, and the answer says so. */
static void it_is_refused_where_there_is_no_second_server(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(3170, 2, id, "training.mode=sync");
    cluster_kill(cluster_node(c, "ps-1"));
    until_taken_over(c, id, 1);
    cluster_run_ms(c, 2000);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.standby=none")), 10000), 0);
    const size_t k = cluster_set(c, id, SETS(FOLLOWER));
    assert_int_equal(cluster_answer(c, k, 10000), ERR_STATE);
    assert_non_null(strstr(c->answer[k].msg, "two parameter servers, and 1 is alive"));
    (void)cluster_add(c, MASTER_PS);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS(FOLLOWER)), 10000), 0);
    assert_int_equal(until_all_follow(c, id)->recoveries, 0);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_server_is_replaced),
        cmocka_unit_test(servers_of_the_job_have_them_where_there_is_no_other),
        cmocka_unit_test(one_that_joins_does_not_take_over),
        cmocka_unit_test(it_may_be_lost_at_any_moment),
        cmocka_unit_test(a_server_without_memory_is_asked_again),
        cmocka_unit_test(a_primary_without_memory_goes_on),
        cmocka_unit_test(a_backup_that_is_taken_late_is_taken_back),
        cmocka_unit_test(one_that_opens_is_asked_for_in_its_own_generation),
        cmocka_unit_test(a_server_that_refuses_it_is_not_lost),
        cmocka_unit_test(the_next_waits_until_the_last_is_closed),
        cmocka_unit_test(after_one_that_died_the_next_is_not_placed_at_once),
        cmocka_unit_test(one_that_is_not_reached_is_given_up),
        cmocka_unit_test(one_that_opens_with_its_shard_counts_when_it_is_open),
        cmocka_unit_test(the_next_master_goes_on_with_it),
        cmocka_unit_test(the_next_master_knows_who_follows),
        cmocka_unit_test(the_next_master_does_without_one_that_cannot_be),
        cmocka_unit_test(it_is_set_while_the_job_runs),
        cmocka_unit_test(it_is_refused_where_there_is_no_second_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
