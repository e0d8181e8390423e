/* SPDX-License-Identifier: Apache-2.0 */
/* Shards with a backup: where it is, who takes over when, and what is never asked of whom. */
#include "cluster.h"

#define FOLLOWER "cluster.standby=follower"

/* The shard of @job on @node, or its backup there; NULL: there is none. */
static const struct fake_shard *find(struct cluster *c, const char *node, const char *job,
                                     uint32_t number)
{
    const struct fake_node *n = cluster_node(c, node);
    for (size_t i = 0; n != NULL && n->alive && i < 2 * MASTER_JOBS_PER_PS_MAX; i++) {
        if (strcmp(n->shards[i].job, job) == 0 && n->shards[i].number == number) {
            return &n->shards[i];
        }
    }
    return NULL;
}

static struct cluster *begin(uint64_t seed, size_t ps, char id[64], const char *const *sets,
                             size_t count)
{
    struct cluster *c = cluster_new(seed, ps, 2);
    cluster_submit(c, "demo", id, sets, count);
    cluster_until_in(c, id, "TRAIN");
    return c;
}

/* No server is backup of its own shard; primaries know theirs, and backups that they are one. */
static void backups_lie_on_the_next_server(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(900, 3, id, SETS(FOLLOWER, "cluster.ps=3", "training.epochs=9"));
    static const char *const servers[] = {"ps-1", "ps-2", "ps-3"};
    const struct job_record *r = cluster_job(c, id);
    for (uint32_t i = 0; i < 3; i++) {
        const struct fake_shard *primary = find(c, servers[i], id, i);
        const struct fake_shard *backup = find(c, servers[(i + 1) % 3], id, i);
        assert_false(primary->is_backup);
        assert_true(backup->is_backup);
        assert_true(primary->backup == backup->opening && primary->opening != backup->opening);
        assert_string_equal(r->shards[i].ps, servers[i]);
        assert_string_equal(r->shards[i].backup, servers[(i + 1) % 3]);
    }
    cluster_run_to_end(c, id);
    cluster_run_ms(c, 5000);
    for (size_t i = 0; i < 3; i++) {
        assert_false(cluster_holds(c, servers[i], id)); /* all were closed */
    }
    cluster_free(c);
}

/* As the page of meters has them. */
static void assert_counts(struct cluster *c, uint64_t takeovers, uint64_t adoptions, size_t alone)
{
    struct master_counts counts;
    master_counts(c->m, &counts);
    assert_int_equal(counts.takeovers, takeovers);
    assert_int_equal(counts.adoptions, adoptions);
    assert_int_equal(counts.shards_alone, alone);
}

static void without_the_key_there_are_none(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(901, 2, id, SETS("training.epochs=9"));
    assert_null(find(c, "ps-2", id, 0));
    assert_counts(c, 0, 0, 0);
    assert_string_equal(cluster_job(c, id)->shards[0].backup, "");
    cluster_free(c);
}

/* In one new generation: the place of a shard, its opening, and that its backup is the primary. */
static void a_backup_takes_over(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async",
                                        "training.mode=bounded"};
    for (size_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c = begin(910 + i, 2, id, SETS(FOLLOWER, "training.epochs=300", modes[i]));
        const uint64_t generation = cluster_job(c, id)->generation;
        const uint64_t step = cluster_job(c, id)->step;
        assert_counts(c, 0, 0, 0);
        cluster_kill(cluster_node(c, "ps-1"));
        cluster_run_ms(c, 8000);
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->recoveries, 0);
        assert_int_equal(r->takeovers, 1);
        assert_counts(c, 1, 0, 2);
        assert_true(r->generation > generation && r->step >= step);
        assert_string_equal(r->shards[0].ps, "ps-2");
        assert_string_equal(r->shards[1].ps, "ps-2");
        assert_string_equal(r->shards[0].backup, "");
        assert_string_equal(r->shards[1].backup, "");
        assert_false(find(c, "ps-2", id, 0)->is_backup);
        assert_int_equal(find(c, "ps-2", id, 1)->backup, 0); /* it goes on alone */
        assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
        assert_counts(c, 1, 0, 0); /* a job that has ended needs none */
        cluster_free(c);
    }
}

/* Whatever its server was asked for when it died is asked of the backup. */
static void it_takes_over_at_any_work(void **state)
{
    (void)state;
    static const enum master_call_kind kinds[] = {MASTER_CALL_MEMBERSHIP, MASTER_CALL_PIN,
                                                  MASTER_CALL_CHECKPOINT, MASTER_CALL_UNPIN};
    static const char *const modes[] = {"training.mode=sync", "training.mode=async"};
    for (size_t i = 0; i < 8; i++) {
        char id[64];
        struct cluster *c = begin(920 + i, 3, id,
                                  SETS(FOLLOWER, "cluster.ps=3", "training.epochs=30", modes[i / 4],
                                       "training.checkpoint_every=1 epoch"));
        cluster_node(c, "ps-2")->crash_on = (unsigned)kinds[i % 4] + 1;
        if (kinds[i % 4] == MASTER_CALL_MEMBERSHIP) {
            cluster_kill_one(c, MASTER_WORKER);
        }
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->recoveries, 0);
        assert_int_equal(r->takeovers, 1);
        cluster_free(c);
    }
}

/* A server that beats and does not answer is given up over that very call, which its backup gets.
 */
static void what_it_does_not_answer_is_asked_of_the_backup(void **state)
{
    (void)state;
    static const enum master_call_kind kinds[] = {MASTER_CALL_PIN, MASTER_CALL_CHECKPOINT,
                                                  MASTER_CALL_UNPIN};
    for (size_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c =
            begin(925 + i, 2, id,
                  SETS(FOLLOWER, "training.epochs=30", "training.checkpoint_every=1 epoch"));
        struct fake_node *n = cluster_node(c, "ps-1");
        n->slow_kind = kinds[i];
        n->slow_ms = 3600000;
        while (cluster_job(c, id)->takeovers == 0) {
            cluster_advance(c);
        }
        n->slow_ms = 0;
        const size_t before = c->calls[kinds[i]];
        cluster_until_in(c, id, "TRAIN");
        assert_true(c->calls[kinds[i]] > before);
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->recoveries, 0);
        assert_int_equal(r->takeovers, 1);
        cluster_free(c);
    }
}

/* A server that was started again at once answers before anybody has missed it: it has no shard, or
 * is another process. Its backup is asked the same. */
static void what_it_does_not_know_any_more_is_asked_of_the_backup(void **state)
{
    (void)state;
    static const enum master_call_kind kinds[] = {MASTER_CALL_MEMBERSHIP, MASTER_CALL_PIN,
                                                  MASTER_CALL_CHECKPOINT, MASTER_CALL_UNPIN};
    static const int codes[] = {ERR_NOT_FOUND, ERR_ABORTED, ERR_UNAUTHENTICATED};
    for (size_t i = 0; i < 12; i++) {
        char id[64];
        struct cluster *c = begin(990 + i, 3, id,
                                  SETS(FOLLOWER, "cluster.ps=3", "training.epochs=30",
                                       i % 2 == 0 ? "training.mode=sync" : "training.mode=async",
                                       "training.checkpoint_every=1 epoch"));
        struct fake_node *n = cluster_node(c, "ps-2");
        n->refuse = codes[i / 4];
        n->refuse_kind = kinds[i % 4];
        if (kinds[i % 4] == MASTER_CALL_MEMBERSHIP) {
            cluster_kill_one(c, MASTER_WORKER);
        }
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->recoveries, 0);
        assert_int_equal(r->takeovers, 1);
        assert_string_equal(r->shards[1].ps, "ps-3");
        assert_false(cluster_holds(c, "ps-2", id));
        cluster_free(c);
    }
}

/* The same of what nobody could take over. */
static void without_a_backup_it_is_a_recovery(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(1005, 2, id, SETS("training.epochs=30"));
    struct fake_node *n = cluster_node(c, "ps-2");
    n->refuse = ERR_NOT_FOUND;
    n->refuse_kind = MASTER_CALL_PIN;
    (void)cluster_until(c, id, JOB_RECOVERING, 20000);
    cluster_assert_reason(c, id, "Pin on ps-2: refused by the test");
    n->refuse = 0;
    assert_int_equal(cluster_run_to_end(c, id)->recoveries, 1);
    cluster_free(c);
}

/* A master that was killed had told a server that lives to put its shard away, and the row does not
 * say that its backup has it. */
static void the_next_master_finds_the_old_primary_closed(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async"};
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = begin(1010 + i, 2, id, SETS(FOLLOWER, "training.epochs=60", modes[i]));
        struct fake_node *n = cluster_node(c, "ps-1");
        for (size_t k = 0; k < 2; k++) {
            if (strcmp(n->shards[k].job, id) == 0 && !n->shards[k].is_backup) {
                n->shards[k].job[0] = '\0';
            }
        }
        cluster_restart_master(c, id);
        cluster_run_ms(c, 5000);
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->adoptions, 1);
        assert_int_equal(r->recoveries, 0);
        assert_int_equal(r->takeovers, 1);
        assert_counts(c, 1, 1, 0);
        cluster_free(c);
    }
}

/* A large state is taken, a large update is made: what comes meanwhile waits. A file of another
 * shard, or another job, is no reason. */
static void a_backup_that_is_at_a_change_is_waited_for(void **state)
{
    (void)state;
    static const char *const whats[] = {"update", "Checkpoint", "update"};
    for (size_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c = begin(1090 + i, 2, id, SETS(FOLLOWER, "training.epochs=60"));
        struct fake_node *n = cluster_node(c, "ps-1"), *other = cluster_node(c, "ps-2");
        other->at_a_change = whats[i];
        other->of_job = i == 2 ? "demo-9" : id;
        fake_heartbeat(c, other);
        n->says.waits_ms = 60000;
        for (size_t k = 0; k < 4; k++) {
            fake_heartbeat(c, n);
        }
        const bool waited = find(c, "ps-1", id, 0)->backup == find(c, "ps-2", id, 0)->opening &&
                            strstr(cluster_job(c, id)->reason, "has no backup") == NULL;
        assert_int_equal(waited, i == 0);
        other->at_a_change = NULL;
        fake_heartbeat(c, other);
        fake_heartbeat(c, n);
        fake_heartbeat(c, n);
        cluster_assert_reason(c, id, "shard 0 on ps-1 has no backup any more: ps-2 ");
        cluster_free(c);
    }
}

/* The name of a release decides nothing; how rows and messages are read does. */
static void a_master_of_another_release_takes_over_what_it_can_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c = begin(1080 + i, 2, id, SETS(FOLLOWER, "training.epochs=60"));
        c->format_more = i == 1;
        c->protocol_more = i == 2;
        cluster_restart_master(c, id);
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->adoptions, i == 0);
        assert_int_equal(r->recoveries, i != 0);
        cluster_free(c);
    }
}

/* Workers that stand for an evaluation are assigned nothing: it says where the shards are now. */
static void an_evaluation_goes_where_a_shard_has_gone(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = cluster_new(1020 + i, 2, 2);
        cluster_submit(c, "demo", id,
                       SETS(FOLLOWER, "training.epochs=30", "training.mode=async",
                            "data.test={file: b.csv}",
                            "training.stop={metric: accuracy, patience: 1}"));
        for (size_t k = 0; k < c->node_count; k++) {
            c->nodes[k].slow_kind = MASTER_CALL_EVALUATE;
            c->nodes[k].slow_ms = 30000;
            c->nodes[k].says_works = true;
        }
        c->best_step = 10000;
        while (strcmp(master_job_phase(c->m, id), "QUIESCED") != 0 ||
               strcmp(master_job_work(c->m, id), "EVALUATE") != 0) {
            cluster_advance(c);
        }
        const size_t before = c->calls[MASTER_CALL_EVALUATE];
        struct fake_node *n = cluster_node(c, "ps-2");
        if (i == 0) {
            cluster_kill(n);
        } else { /* no shard has moved: nobody computes anything again */
            n->says_problem = "no memory for one more version";
            fake_heartbeat(c, n);
            n->says_problem = NULL;
        }
        cluster_run_ms(c, 8000);
        assert_int_equal(cluster_job(c, id)->takeovers, i == 0);
        assert_string_equal(cluster_job(c, id)->shards[0].backup, "");
        assert_int_equal(c->calls[MASTER_CALL_EVALUATE], before + (i == 0 ? 2 : 0));
        for (size_t k = 0; k < c->node_count; k++) {
            c->nodes[k].slow_ms = 0;
        }
        assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
        cluster_free(c);
    }
}

/* Its backup has taken over, and now it dies, before it has said that it has dropped the job. */
static void who_was_told_to_drop_it_may_die(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(928, 2, id, SETS(FOLLOWER, "training.epochs=60"));
    struct fake_node *n = cluster_node(c, "ps-1");
    n->slow_kind = MASTER_CALL_CLOSE;
    n->slow_ms = 3600000;
    for (size_t k = 0; k < 4; k++) { /* it has lost the shard */
        n->shards[k].job[0] = '\0';
    }
    fake_heartbeat(c, n);
    fake_heartbeat(c, n);
    assert_int_equal(cluster_job(c, id)->takeovers, 1);
    cluster_kill(n);
    cluster_run_ms(c, 8000);
    assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
    cluster_free(c);
}

/* Before a job runs nobody goes on without a backup: the job begins again, and says why. */
static void a_start_whose_backup_does_not_follow_is_repeated(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(929, 2, 2);
    cluster_submit(c, "demo", id, SETS(FOLLOWER));
    cluster_until_in(c, id, "START");
    struct fake_node *n = cluster_node(c, "ps-2");
    n->says_problem = "no memory for one more version";
    fake_heartbeat(c, n);
    cluster_assert_reason(c, id, "has no backup on ps-2: ps-2 could not follow: no memory");
    n->says_problem = NULL;
    cluster_run_to_end(c, id);
    cluster_free(c);
}

/* In the evaluation and the checkpoint of the end nobody trains any more. */
static void it_takes_over_at_the_end(void **state)
{
    (void)state;
    static const char *const works[] = {"EVALUATE", "CHECKPOINT"};
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = begin(930 + i, 2, id, SETS(FOLLOWER, "training.evaluate_every=never"));
        cluster_until_in(c, id, "FINISH");
        cluster_until_in(c, id, works[i]);
        cluster_kill(cluster_node(c, "ps-2"));
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->recoveries, 0);
        assert_string_equal(r->shards[1].ps, "ps-1");
        cluster_free(c);
    }
}

/* A server that leaves, or that an admin drops, gives its shards up in the same way. */
static void who_leaves_is_taken_over_from(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(940, 2, id, SETS(FOLLOWER, "training.epochs=30"));
    struct fake_node *n = cluster_node(c, "ps-1");
    struct master_event e = {.kind = MASTER_LEAVE, .request = ++c->request};
    e.node = (struct master_node_event){.node = n->id, .incarnation = n->incarnation};
    cluster_event(c, &e);
    cluster_kill(n);
    assert_int_equal(cluster_job(c, id)->takeovers, 1);
    cluster_assert_reason(c, id, "parameter server ps-1 was lost (it left); ps-2 has taken over");
    assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
    cluster_free(c);
}

/* A silent server is waited for only while it has what is nowhere else. */
static void who_is_silent_is_taken_over_from(void **state)
{
    (void)state;
    const struct master_config patient = {.ps_timeout_ms = 120000};
    char id[64];
    struct cluster *c = cluster_new_with(945, 2, 2, &patient);
    cluster_submit(c, "demo", id, SETS(FOLLOWER, "training.epochs=3000"));
    cluster_until_in(c, id, "TRAIN");
    cluster_freeze(c, cluster_node(c, "ps-1"), 60000);
    cluster_run_ms(c, 2500);
    assert_int_equal(cluster_job(c, id)->takeovers, 0);
    cluster_run_ms(c, 3000);
    assert_int_equal(cluster_job(c, id)->takeovers, 1);
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-2");
    cluster_freeze(c, cluster_node(c, "ps-2"), 20000);
    cluster_run_ms(c, 30000);
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
    assert_int_equal(cluster_job(c, id)->takeovers, 1);
    cluster_free(c);
}

/* What has lost its backup goes back to a checkpoint when its server is lost, too. */
static void the_second_loss_is_a_recovery(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(950, 2, id, SETS(FOLLOWER, "training.epochs=60"));
    cluster_kill(cluster_node(c, "ps-1"));
    cluster_run_ms(c, 8000);
    assert_int_equal(cluster_job(c, id)->takeovers, 1);
    cluster_kill(cluster_node(c, "ps-2"));
    (void)cluster_add(c, MASTER_PS);
    (void)cluster_add(c, MASTER_PS);
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->recoveries, 1);
    assert_int_equal(r->takeovers, 1);
    cluster_free(c);
}

/* A primary waits until this master tells it to go on alone. */
static void a_backup_that_does_not_follow_is_given_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = begin(960 + i, 2, id, SETS(FOLLOWER, "training.epochs=60"));
        struct fake_node *n = cluster_node(c, "ps-1");
        n->says.waits_ms = i == 0 ? 2999 : 0; /* less than the time-out of heartbeats */
        n->says.behind = 7;
        fake_heartbeat(c, n);
        assert_int_equal(cluster_job(c, id)->shards[0].backup_behind, 7);
        assert_true(cluster_job(c, id)->shards[0].value_bytes >= sizeof(float));
        assert_int_equal(cluster_job(c, id)->shards[1].backup_behind, 0); /* of the other server */
        assert_int_equal(find(c, "ps-1", id, 0)->backup, find(c, "ps-2", id, 0)->opening);
        n->says.waits_ms = i == 0 ? 3000 : 0;
        struct fake_node *other = cluster_node(c, "ps-2");
        other->says_problem = i == 0 ? NULL : "no memory for the slots";
        fake_heartbeat(c, i == 0 ? n : other);
        if (i == 0) { /* what came while it stood still may be on its way */
            assert_int_equal(find(c, "ps-1", id, 0)->backup, find(c, "ps-2", id, 0)->opening);
            fake_heartbeat(c, n);
        }
        n->says.waits_ms = 0;
        other->says_problem = NULL;
        cluster_assert_reason(c, id, "shard 0 on ps-1 has no backup any more: ps-2 ");
        cluster_run_ms(c, 1000);
        assert_int_equal(find(c, "ps-1", id, 0)->backup, 0);
        assert_int_equal(cluster_job(c, id)->shards[0].backup_behind, 0);
        assert_null(find(c, "ps-2", id, 0)); /* it was closed */
        assert_non_null(find(c, "ps-1", id, 1));
        assert_true(cluster_holds(c, "ps-2", id));
        cluster_kill(other);
        cluster_run_ms(c, 8000);
        assert_int_equal(cluster_job(c, id)->takeovers, 1); /* of the other shard */
        assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
        cluster_free(c);
    }
}

/* A server that lives, and has lost its shard or a backup. */
static void what_a_server_does_not_name_is_lost(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char id[64];
        struct cluster *c = begin(970 + i, 2, id, SETS(FOLLOWER, "training.epochs=60"));
        struct fake_node *n = cluster_node(c, "ps-1");
        for (size_t k = 0; k < 2; k++) {
            if (strcmp(n->shards[k].job, id) == 0 && n->shards[k].is_backup == (i == 1)) {
                n->shards[k].job[0] = '\0';
            }
        }
        fake_heartbeat(c, n);
        assert_int_equal(cluster_job(c, id)->takeovers, 0); /* one may have been on its way */
        fake_heartbeat(c, n);
        assert_int_equal(cluster_job(c, id)->takeovers, i == 0);
        cluster_run_ms(c, 1000);
        assert_int_equal(find(c, "ps-2", id, 1)->backup, 0);
        assert_int_equal(cluster_holds(c, "ps-1", id), i == 1);
        assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
        cluster_free(c);
    }
}

/* ps-2 has shards 0, whose backup does not follow, and 1, which it loses. */
static struct cluster *with_one_of_two(uint64_t seed, const char *mode, char id[64])
{
    struct cluster *c =
        begin(seed, 3, id, SETS(FOLLOWER, "cluster.ps=3", "training.epochs=300", mode));
    struct fake_node *n = cluster_node(c, "ps-2");
    n->says_joining = true;
    cluster_kill(cluster_node(c, "ps-1"));
    cluster_run_ms(c, 8000);
    assert_int_equal(cluster_job(c, id)->takeovers, 1);
    assert_string_equal(cluster_job(c, id)->shards[0].ps, "ps-2");
    assert_non_null(find(c, "ps-2", id, 1));
    for (size_t k = 0; k < 2 * MASTER_JOBS_PER_PS_MAX; k++) {
        if (strcmp(n->shards[k].job, id) == 0 && n->shards[k].number == 1) {
            n->shards[k].job[0] = '\0';
        }
    }
    return c;
}

/* The server lives, and keeps what nobody could take over. */
static void one_of_its_shards_is_taken_over(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async"};
    for (size_t i = 0; i < 4; i++) {
        char id[64];
        struct cluster *c = with_one_of_two(984 + i, modes[i / 2], id);
        if (i % 2 == 0) {
            cluster_restart_master(c, id);
        } else {
            fake_heartbeat(c, cluster_node(c, "ps-2"));
            fake_heartbeat(c, cluster_node(c, "ps-2"));
        }
        cluster_run_ms(c, 3000);
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->adoptions, i % 2 == 0);
        assert_int_equal(r->takeovers, 2);
        assert_string_equal(r->shards[0].ps, "ps-2");
        assert_string_equal(r->shards[1].ps, "ps-3");
        assert_int_equal(r->recoveries, 0);
        cluster_node(c, "ps-2")->says_joining = false;
        assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
        cluster_free(c);
    }
}

/* One that cannot be the primary, as it says, is as good as none. */
static void a_refused_promotion_is_a_recovery(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = begin(980, 2, id, SETS(FOLLOWER, "training.epochs=60"));
    struct fake_node *n = cluster_node(c, "ps-2");
    n->refuse = ERR_CORRUPT;
    n->refuse_kind = MASTER_CALL_MEMBERSHIP;
    cluster_kill(cluster_node(c, "ps-1"));
    (void)cluster_until(c, id, JOB_RECOVERING, 20000);
    n->refuse = 0;
    (void)cluster_add(c, MASTER_PS);
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->recoveries, 1);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backups_lie_on_the_next_server),
        cmocka_unit_test(without_the_key_there_are_none),
        cmocka_unit_test(a_backup_takes_over),
        cmocka_unit_test(it_takes_over_at_any_work),
        cmocka_unit_test(what_it_does_not_answer_is_asked_of_the_backup),
        cmocka_unit_test(what_it_does_not_know_any_more_is_asked_of_the_backup),
        cmocka_unit_test(without_a_backup_it_is_a_recovery),
        cmocka_unit_test(a_backup_that_is_at_a_change_is_waited_for),
        cmocka_unit_test(a_master_of_another_release_takes_over_what_it_can_read),
        cmocka_unit_test(the_next_master_finds_the_old_primary_closed),
        cmocka_unit_test(an_evaluation_goes_where_a_shard_has_gone),
        cmocka_unit_test(who_was_told_to_drop_it_may_die),
        cmocka_unit_test(a_start_whose_backup_does_not_follow_is_repeated),
        cmocka_unit_test(it_takes_over_at_the_end),
        cmocka_unit_test(who_leaves_is_taken_over_from),
        cmocka_unit_test(who_is_silent_is_taken_over_from),
        cmocka_unit_test(the_second_loss_is_a_recovery),
        cmocka_unit_test(a_backup_that_does_not_follow_is_given_up),
        cmocka_unit_test(what_a_server_does_not_name_is_lost),
        cmocka_unit_test(one_of_its_shards_is_taken_over),
        cmocka_unit_test(a_refused_promotion_is_a_recovery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
