/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#define SETS(...)                                                                                  \
    ((const char *const[]){__VA_ARGS__}),                                                          \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

/* Every shard that is still open has each batch of each epoch exactly once. */
static void check_exactly_once(struct cluster *c, const char *id, uint32_t epochs)
{
    for (size_t i = 0; i < c->node_count; i++) {
        struct fake_shard *s = cluster_shard(&c->nodes[i], id);
        if (s == NULL || c->nodes[i].role != MASTER_PS) {
            continue;
        }
        for (uint32_t e = 0; e < epochs; e++) {
            for (uint32_t k = 0; k < ledger_shape_splits(&s->shape); k++) {
                assert_int_equal(s->done[e][k], ledger_shape_split_batches(&s->shape, k));
            }
        }
    }
}

static const struct job_record *run_to_end(struct cluster *c, const char *id)
{
    return cluster_until(c, id, JOB_SUCCEEDED, 300000);
}

static void sync_job_runs_to_the_end(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.checkpoint_every=10"));
    assert_string_equal(id, "demo-1");
    const struct job_record *r = run_to_end(c, id);
    assert_int_equal(r->step, 21);
    assert_int_equal(r->steps_total, 21);
    assert_int_equal(r->examples, 300);
    assert_true(r->epoch == 3 && r->epochs_total == 3);
    assert_int_equal(r->evaluation_count, 3); /* one an epoch, the last of them the end's */
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r->evaluations[i].step, 7 * (i + 1));
        assert_true(r->evaluations[i].test.values[METRIC_ACCURACY] == 0.5);
    }
    assert_int_equal(c->manifests, 3);
    assert_int_equal(c->manifest_steps[0], 10);
    assert_int_equal(c->manifest_steps[1], 20);
    assert_int_equal(c->manifest_steps[2], 21);
    assert_string_equal(r->checkpoint, "demo-1/step-000000021");
    assert_int_equal(r->generation, 1);
    assert_true(r->seconds > 0 && r->examples_per_second > 0);
    assert_string_equal(buf_str(&c->trace), "STARTING RUNNING SUCCEEDED ");
    cluster_run_ms(c, 5000); /* all nodes are free again */
    for (size_t i = 0; i < c->node_count; i++) {
        struct master_node_info n;
        assert_true(master_node_at(c->m, i, c->now, &n));
        assert_int_equal(n.job_count, 0);
        assert_null(cluster_shard(&c->nodes[i], id));
    }
    cluster_free(c);
}

static void async_and_bounded_jobs_apply_each_batch_once(void **state)
{
    (void)state;
    const char *modes[] = {"training.mode=async", "training.mode=bounded"};
    for (size_t i = 0; i < 2; i++) {
        struct cluster *c = cluster_new(2 + i, 2, 3);
        char id[64];
        cluster_submit(c, "demo", id,
                       SETS(modes[i], "cluster.workers=3", "training.checkpoint_every=25"));
        cluster_until_in(c, id, "FINISH");
        check_exactly_once(c, id, 3);
        const struct job_record *r = run_to_end(c, id);
        assert_int_equal(r->step, 60);
        assert_int_equal(r->examples, 300);
        assert_int_equal(r->evaluation_count, 3);
        assert_int_equal(r->evaluations[1].step, 40);
        assert_true(r->evaluations[1].epoch == 2);
        assert_int_equal(r->staleness[0], 60);
        assert_int_equal(c->manifest_steps[c->manifests - 1], 60);
        assert_in_range(c->manifest_steps[0], 25, 34); /* what is in hand is finished first */
        assert_in_range(c->manifest_steps[1], 50, 59);
        cluster_free(c);
    }
}

static void steps_bound_an_async_job(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(3, 1, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.mode=async", "cluster.ps=1", "training.steps=27"));
    cluster_until_in(c, id, "FINISH");
    struct fake_shard *s = NULL;
    for (size_t i = 0; i < c->node_count && s == NULL; i++) {
        s = cluster_shard(&c->nodes[i], id);
    }
    assert_int_equal(s->batches, 27);
    assert_int_equal(s->done[1][3], 1); /* the last lease was cut */
    const struct job_record *r = run_to_end(c, id);
    assert_int_equal(r->step, 27);
    cluster_free(c);
}

static void nodes_may_join_in_any_order(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(4, 0, 0);
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    assert_string_equal(cluster_job(c, id)->reason,
                        "waits for 2 more workers: 0 of 2 free; 2 more parameter servers: 0 of 2 "
                        "free");
    cluster_add(c, MASTER_WORKER);
    cluster_add(c, MASTER_PS);
    cluster_add(c, MASTER_PS);
    assert_string_equal(cluster_job(c, id)->reason, "waits for 1 more worker: 1 of 2 free");
    cluster_run_ms(c, 10000);
    assert_int_equal(cluster_job(c, id)->state, JOB_PENDING);
    cluster_add(c, MASTER_WORKER);
    assert_int_equal(cluster_job(c, id)->state, JOB_STARTING);
    run_to_end(c, id);
    cluster_free(c);
}

static void later_jobs_use_what_is_free(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(5, 2, 4);
    char a[64], b[64], big[64], small[64];
    cluster_submit(c, "a", a, NULL, 0);
    cluster_submit(c, "big", big, SETS("cluster.workers=4", "training.replicas=4"));
    cluster_submit(c, "small", small, SETS("cluster.workers=1"));
    cluster_submit(c, "a", b, SETS("cluster.workers=1"));
    assert_string_equal(b, "a-2");
    assert_int_equal(cluster_job(c, a)->state, JOB_STARTING);
    assert_int_equal(cluster_job(c, big)->state, JOB_PENDING);
    assert_string_equal(cluster_job(c, big)->reason,
                        "waits for 4 more workers: 0 of 4 free, 4 busy");
    assert_int_equal(cluster_job(c, small)->state, JOB_STARTING);
    assert_int_equal(cluster_job(c, b)->state, JOB_STARTING);
    run_to_end(c, a);
    run_to_end(c, small);
    run_to_end(c, b);
    run_to_end(c, big);
    cluster_free(c);
}

static const char *const PLACES[] = {"INSPECT",    "OPEN",     "START", "ASSIGN",
                                     "TRAIN",      "STAND",    "PIN",   "EVALUATE",
                                     "CHECKPOINT", "MANIFEST", "FINISH"};
#define PLACE_COUNT (sizeof PLACES / sizeof *PLACES)

static void kill_one(struct cluster *c, enum master_role role)
{
    for (size_t i = 0; i < c->node_count; i++) {
        if (c->nodes[i].role == role && c->nodes[i].alive) {
            cluster_kill(&c->nodes[i]);
            return;
        }
    }
}

static void a_worker_may_die_anywhere(void **state)
{
    (void)state;
    const char *modes[] = {"training.mode=sync", "training.mode=async"};
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        for (size_t mode = 0; mode < 2; mode++) {
            for (uint64_t seed = 0; seed < 3; seed++) {
                struct cluster *c = cluster_new(100 + seed, 2, 3);
                char id[64];
                cluster_submit(c, "demo", id, SETS(modes[mode], "training.checkpoint_every=5"));
                cluster_until_in(c, id, PLACES[i]);
                kill_one(c, MASTER_WORKER);
                cluster_run_ms(c, 200);
                cluster_until_in(c, id, "FINISH");
                if (mode == 1) {
                    check_exactly_once(c, id, 3);
                }
                const struct job_record *r = run_to_end(c, id);
                assert_int_equal(r->step, r->steps_total);
                assert_int_equal(r->evaluation_count, 3);
                cluster_free(c);
            }
        }
    }
}

static void without_workers_a_job_waits_for_one(void **state)
{
    (void)state;
    const char *modes[] = {"training.mode=sync", "training.mode=async"};
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        for (size_t mode = 0; mode < 2; mode++) {
            struct cluster *c = cluster_new(200, 2, 2);
            char id[64];
            cluster_submit(c, "demo", id, SETS(modes[mode], "training.checkpoint_every=5"));
            cluster_until_in(c, id, PLACES[i]);
            kill_one(c, MASTER_WORKER);
            kill_one(c, MASTER_WORKER);
            cluster_run_ms(c, 10000);
            const struct job_record *r = cluster_job(c, id);
            if (i < 3) {
                assert_int_equal(r->state, JOB_PENDING);
            } else if (!job_state_is_final(r->state)) {
                assert_int_equal(r->state, JOB_RECOVERING);
                assert_non_null(strstr(r->reason, "waits for a worker: lost the last one"));
            }
            cluster_add(c, MASTER_WORKER);
            cluster_add(c, MASTER_WORKER);
            r = run_to_end(c, id);
            assert_int_equal(r->evaluation_count, 3);
            cluster_free(c);
        }
    }
}

static void a_job_goes_back_when_a_server_is_lost(void **state)
{
    (void)state;
    const char *modes[] = {"training.mode=sync", "training.mode=async", "training.mode=bounded"};
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        for (size_t mode = 0; mode < 3; mode++) {
            struct cluster *c = cluster_new(300 + i, 2, 2);
            char id[64];
            cluster_submit(c, "demo", id, SETS(modes[mode], "training.checkpoint_every=5"));
            cluster_until_in(c, id, PLACES[i]);
            kill_one(c, MASTER_PS);
            cluster_run_ms(c, 20000);
            const struct job_record *r = cluster_job(c, id);
            if (r->state == JOB_SUCCEEDED) { /* it was all but over */
                cluster_free(c);
                continue;
            }
            bool ran = r->state == JOB_RECOVERING; /* nothing is lost before it runs */
            assert_true(ran ? i >= 2 : r->state == JOB_PENDING && i < 3);
            assert_non_null(strstr(r->reason, "waits for 1 more parameter server: 1 of 2 free"));
            assert_true(!ran || strstr(r->reason, "parameter server ps-1 was lost (") != NULL);
            assert_true(!ran || strstr(c->stop_reason, "parameter server ps-1 was lost (") != NULL);
            struct fake_checkpoint *p = cluster_checkpoint(c, id);
            uint64_t step = p == NULL ? 0 : p->step;
            cluster_add(c, MASTER_PS);
            cluster_until_in(c, id, "ASSIGN");
            assert_int_equal(cluster_job(c, id)->step, step);
            cluster_until_in(c, id, "FINISH");
            if (mode > 0) {
                check_exactly_once(c, id, 3);
            }
            r = run_to_end(c, id);
            assert_int_equal(r->step, r->steps_total);
            assert_int_equal(r->recoveries, ran);
            assert_int_equal(r->evaluation_count, 3); /* none twice */
            cluster_free(c);
        }
    }
}

static void a_job_ends_cancelled_from_anywhere(void **state)
{
    (void)state;
    const char *modes[] = {"training.mode=sync", "training.mode=async", "training.mode=bounded"};
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        for (size_t mode = 0; mode < 3; mode++) {
            for (int now = 0; now < 2; now++) {
                struct cluster *c = cluster_new(400 + i, 2, 2);
                char id[64];
                cluster_submit(c, "demo", id, SETS(modes[mode], "training.checkpoint_every=5"));
                cluster_until_in(c, id, PLACES[i]);
                assert_int_equal(cluster_cancel(c, id, now != 0), 0);
                const struct job_record *r = cluster_until(c, id, JOB_CANCELLED, 60000);
                if (i >= 3 && now == 0) { /* what was computed is saved */
                    assert_string_not_equal(r->checkpoint, "");
                    assert_int_equal(c->manifest_steps[c->manifests - 1], r->step);
                }
                cluster_run_ms(c, 20000);
                struct master_counts counts;
                master_counts(c->m, &counts);
                if (counts.calls_open != 0) {
                    fail_msg("%s %s: %zu calls open", PLACES[i], modes[mode], counts.calls_open);
                }
                assert_int_equal(cluster_cancel(c, id, true), 0); /* again: no change */
                assert_int_equal(cluster_job(c, id)->state, JOB_CANCELLED);
                cluster_free(c);
            }
        }
    }
}

static void a_checkpoint_on_request_is_answered(void **state)
{
    (void)state;
    const char *modes[] = {"training.mode=sync", "training.mode=async"};
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        for (size_t mode = 0; mode < 2; mode++) {
            struct cluster *c = cluster_new(500 + i, 2, 2);
            char id[64];
            cluster_submit(c, "demo", id, SETS(modes[mode]));
            cluster_until_in(c, id, i > 7 ? "TRAIN" : PLACES[i]);
            size_t k = cluster_ask_checkpoint(c, id);
            size_t before = c->manifests;
            while (!c->answered[k]) {
                cluster_advance(c);
            }
            if (c->answer[k].code != (i < 3 ? ERR_STATE : 0)) {
                fail_msg("%s: %s", PLACES[i], c->answer[k].msg);
            }
            assert_true(i < 3 || c->manifests > before);
            run_to_end(c, id);
            cluster_free(c);
        }
    }
}

static void errors_of_nodes_fail_the_job_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        enum master_call_kind kind;
        enum master_role role;
        const char *reason;
    } cases[] = {
        {MASTER_CALL_INSPECT, MASTER_WORKER, "InspectData on worker-1: refused by the test"},
        {MASTER_CALL_START, MASTER_WORKER, "StartJob on worker-1: refused by the test"},
        {MASTER_CALL_OPEN, MASTER_PS, "OpenShard on ps-1: refused by the test"},
        {MASTER_CALL_PIN, MASTER_PS, "Pin on ps-1: refused by the test"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster *c = cluster_new(600, 2, 2);
        for (size_t k = 0; k < c->node_count; k++) {
            if (c->nodes[k].role == cases[i].role) {
                c->nodes[k].refuse = ERR_INVALID;
                c->nodes[k].refuse_kind = cases[i].kind;
                break;
            }
        }
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0);
        const struct job_record *r = cluster_until(c, id, JOB_FAILED, 300000);
        assert_string_equal(r->reason, cases[i].reason);
        cluster_free(c);
    }
}

/* It was started for another time of the job, or has not the memory: the others go on. */
static void an_assign_that_is_refused_costs_one_worker(void **state)
{
    (void)state;
    static const int CODES[] = {ERR_STATE, ERR_EXHAUSTED, ERR_INVALID};
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) {
        struct cluster *c = cluster_new(620, 2, 2);
        struct fake_node *n = cluster_node(c, "worker-1");
        char id[64];
        cluster_submit(c, "demo", id, SETS("training.epochs=300"));
        cluster_until_in(c, id, "START");
        n->refuse = CODES[i];
        n->refuse_kind = MASTER_CALL_ASSIGN;
        cluster_run_ms(c, 3000);
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->state, JOB_RUNNING);
        uint64_t generation = r->generation;
        if (CODES[i] != ERR_STATE) { /* it is not asked all the time */
            assert_int_equal(r->workers.count, 1);
            assert_true(generation < 4);
        }
        n->refuse = 0;
        cluster_run_ms(c, 12000);
        assert_int_equal(cluster_job(c, id)->workers.count, 2);
        run_to_end(c, id);
        cluster_free(c);
    }
}

static void the_last_worker_without_memory_is_asked_again(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(630, 2, 1);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=300", "cluster.workers=1"));
    cluster_until_in(c, id, "TRAIN");
    struct master_event e = worker_event(c, cluster_node(c, "worker-1"), MASTER_REPORT_FAILURE);
    e.worker.code = ERR_EXHAUSTED;
    e.worker.message = "no memory for the parameters";
    cluster_event(c, &e);
    const struct job_record *r = cluster_until(c, id, JOB_RECOVERING, 1);
    assert_non_null(strstr(r->reason, "no memory for the parameters"));
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RECOVERING);
    cluster_until(c, id, JOB_RUNNING, 8000);
    run_to_end(c, id);
    cluster_free(c);
}

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
    const struct job_record *r = run_to_end(c, id);
    assert_int_equal(r->generation, 1); /* it was not started again */
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
    assert_int_equal(run_to_end(c, id)->recoveries, 0);
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
        run_to_end(c, id);
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
    run_to_end(c, id);
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

/* It ran with one worker before the server was lost. */
static void a_job_recovers_with_fewer_workers(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(658, 3, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=300", "cluster.workers=2"));
    cluster_until_in(c, id, "TRAIN");
    cluster_kill(cluster_node(c, "worker-2"));
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    cluster_kill(cluster_node(c, "ps-1"));
    const struct job_record *r = cluster_until(c, id, JOB_RECOVERING, 10000);
    cluster_run_ms(c, 1000);
    assert_non_null(strstr(r->reason, "waits for 1 more worker: 1 of 2 free"));
    assert_non_null(strstr(r->reason, "goes on with fewer after 10 s"));
    cluster_until(c, id, JOB_RUNNING, 15000);
    assert_int_equal(run_to_end(c, id)->recoveries, 1);
    cluster_free(c);
}

static void a_chunk_that_fails_goes_to_another_worker(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(700, 2, 2);
    c->nodes[2].refuse = ERR_INTERNAL;
    c->nodes[2].refuse_kind = MASTER_CALL_EVALUATE;
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    const struct job_record *r = run_to_end(c, id);
    assert_int_equal(r->evaluation_count, 3);
    c->nodes[3].refuse = ERR_INTERNAL;
    c->nodes[3].refuse_kind = MASTER_CALL_EVALUATE;
    cluster_submit(c, "demo", id, NULL, 0);
    r = cluster_until(c, id, JOB_FAILED, 300000);
    assert_non_null(strstr(r->reason, "evaluation at step 7: test records from "));
    cluster_free(c);
}

static void a_checkpoint_that_fails_in_the_middle_is_shown(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(800, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.checkpoint_every=10"));
    c->manifest_fails = true;
    cluster_until_in(c, id, "UNPIN");
    while (c->manifests == 0 || strcmp(master_job_work(c->m, id), "UNPIN") != 0) {
        cluster_advance(c);
    }
    assert_string_equal(cluster_job(c, id)->reason, "checkpoint at step 10: no space left");
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    c->manifest_fails = false;
    const struct job_record *r = run_to_end(c, id);
    assert_string_equal(r->reason, "");
    cluster_free(c);
}

static void data_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t records;
        uint32_t classes;
        const char *set, *reason;
    } cases[] = {
        {2, 3, "training.replicas=3",
         "training.replicas: 3 replicas are more than the 2 training records"},
        {0, 3, "training.replicas=3", "data.train: no records"},
        {100, 0, "training.replicas=3", "data: no classes among the labels"},
        {100, 3, "model.loss=mean_squared_error",
         "data: the labels are classes, but the loss needs real numbers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster *c = cluster_new(900, 2, 2);
        c->train_records = cases[i].records;
        c->classes = cases[i].classes;
        char id[64];
        if (i == 3) {
            cluster_submit(c, "demo", id,
                           SETS("model.loss=mean_squared_error", "model.metrics=[rmse]"));
        } else {
            cluster_submit(c, "demo", id, SETS(cases[i].set));
        }
        const struct job_record *r = cluster_until(c, id, JOB_FAILED, 60000);
        assert_string_equal(r->reason, cases[i].reason);
        cluster_free(c);
    }
    struct cluster *c = cluster_new(901, 2, 2);
    c->classes = 5; /* the model has three outputs */
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    assert_non_null(strstr(cluster_until(c, id, JOB_FAILED, 60000)->reason, "model: "));
    cluster_free(c);
}

static void without_a_test_source_nothing_is_evaluated(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(950, 2, 2);
    c->test_records = 0;
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    assert_int_equal(run_to_end(c, id)->evaluation_count, 0);
    assert_int_equal(c->evaluations_sent, 0);
    cluster_free(c);
}

static void a_worker_that_comes_back_is_used(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(960, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=200"));
    cluster_until_in(c, id, "TRAIN");
    kill_one(c, MASTER_WORKER);
    cluster_run_ms(c, 4000);
    assert_int_equal(cluster_job(c, id)->workers.count, 1);
    assert_int_equal(cluster_job(c, id)->generation, 2);
    cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 1000);
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    assert_int_equal(cluster_job(c, id)->generation, 3);
    cluster_add(c, MASTER_WORKER); /* not needed */
    cluster_run_ms(c, 1000);
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    run_to_end(c, id);
    cluster_free(c);
}

static int send_worker(struct cluster *c, struct fake_node *n, enum master_event_kind kind,
                       uint64_t generation)
{
    struct master_event e = worker_event(c, n, kind);
    e.worker.generation = generation;
    cluster_event(c, &e);
    return c->reply.err.code;
}

static void old_and_foreign_requests_change_nothing(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(970, 2, 3);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.mode=async", "training.epochs=100"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = cluster_node(c, "worker-1");
    struct fake_node *other = cluster_node(c, "worker-3");
    const enum master_event_kind kinds[] = {MASTER_LEASE_SPLIT, MASTER_REPORT_SPLIT,
                                            MASTER_REPORT_PROGRESS};
    uint64_t step = cluster_job(c, id)->step;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(send_worker(c, n, kinds[i], 0), ERR_ABORTED);
        assert_int_equal(send_worker(c, n, kinds[i], 9), ERR_ABORTED);
        snprintf(other->job.job, sizeof other->job.job, "%s", id);
        assert_int_equal(send_worker(c, other, kinds[i], 1), ERR_NOT_FOUND);
        uint64_t incarnation = n->incarnation;
        n->incarnation = 1;
        assert_int_equal(send_worker(c, n, kinds[i], 1), ERR_NOT_FOUND);
        n->incarnation = incarnation;
    }
    struct master_event e = worker_event(c, n, MASTER_REPORT_SPLIT);
    e.worker.epoch = 5;
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_INVALID); /* an epoch to come */
    e = worker_event(c, n, MASTER_REPORT_SPLIT);
    e.worker.split = 4000000000u;
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_INVALID);
    assert_int_equal(cluster_job(c, id)->step, step);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    /* A report that comes twice counts once. */
    uint64_t staleness[1] = {5};
    e = worker_event(c, n, MASTER_REPORT_PROGRESS);
    e.worker.sequence = n->job.sequence + 1;
    e.worker.staleness = staleness;
    e.worker.staleness_count = 1;
    uint64_t before = cluster_job(c, id)->staleness[0];
    for (int i = 0; i < 2; i++) {
        e.request = ++c->request;
        cluster_event(c, &e);
        assert_int_equal(c->reply.err.code, 0);
    }
    assert_int_equal(cluster_job(c, id)->staleness[0], before + 5);
    n->job.sequence++;
    cluster_cancel(c, id, true);
    cluster_free(c);
}

static void an_old_failure_report_changes_nothing(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(976, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    cluster_until_in(c, id, "TRAIN");
    struct master_event e = worker_event(c, cluster_node(c, "worker-2"), MASTER_REPORT_FAILURE);
    e.worker.code = ERR_CORRUPT;
    e.worker.message = "record 7 changed";
    e.worker.generation = cluster_job(c, id)->generation - 1;
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_ABORTED);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    run_to_end(c, id);
    cluster_free(c);
}

static void a_failure_report_fails_the_job(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(975, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    cluster_until_in(c, id, "TRAIN");
    struct master_event e = worker_event(c, cluster_node(c, "worker-2"), MASTER_REPORT_FAILURE);
    e.worker.code = ERR_CORRUPT;
    e.worker.message = "record 7 changed";
    cluster_event(c, &e);
    const struct job_record *r = cluster_until(c, id, JOB_FAILED, 1);
    assert_string_equal(r->reason, "worker worker-2: record 7 changed (corrupt)");
    assert_int_equal(r->workers.count, 2); /* who served it is still shown */
    cluster_free(c);
}

static void a_silent_node_is_given_up_and_may_return(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(980, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=300"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = cluster_node(c, "worker-1");
    n->mute = true;
    n->job.hold = true; /* it hangs */
    n->job.idle_sent = true;
    cluster_run_ms(c, 4000);
    assert_int_equal(cluster_job(c, id)->workers.count, 1);
    n->mute = false;
    cluster_run_ms(c, 3000); /* NOT_FOUND makes it join again */
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    run_to_end(c, id);
    cluster_free(c);
}

/* Whatever kills its workers may do so again: it is tried for ever, but ever less often. */
static void starts_that_fail_are_made_again_after_a_pause(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(983, 1, 0);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.ps=1", "cluster.workers=1"));
    uint64_t pauses[8];
    for (size_t i = 0; i < 8; i++) {
        cluster_until(c, id, JOB_PENDING, 10000);
        uint64_t began = c->now;
        struct fake_node *n = cluster_add(c, MASTER_WORKER);
        n->crash_on = MASTER_CALL_START + 1;
        cluster_until(c, id, JOB_STARTING, 60000);
        pauses[i] = c->now - began;
    }
    assert_true(pauses[0] == 0 && pauses[1] < 100); /* the old shards are closed meanwhile */
    assert_true(pauses[2] > 100 && pauses[7] > pauses[2] && pauses[7] <= 30000);
    cluster_until(c, id, JOB_PENDING, 10000);
    cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 1000);
    assert_non_null(strstr(cluster_job(c, id)->reason, "its start failed 8 times"));
    run_to_end(c, id);
    cluster_free(c);
}

/* A master that was stopped for a while finds other events before its timer. */
static void a_pause_ends_with_whatever_comes_first(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(984, 1, 0);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.ps=1", "cluster.workers=1"));
    for (size_t i = 0; i < 4; i++) {
        cluster_until(c, id, JOB_PENDING, 10000);
        cluster_add(c, MASTER_WORKER)->crash_on = MASTER_CALL_START + 1;
        cluster_until(c, id, JOB_STARTING, 60000);
    }
    cluster_until(c, id, JOB_PENDING, 10000);
    struct fake_node *n = cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 500);
    assert_int_equal(cluster_job(c, id)->state, JOB_PENDING);
    c->now += 100000;
    fake_heartbeat(c, n);
    assert_int_equal(cluster_job(c, id)->state, JOB_STARTING);
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
        run_to_end(c, id);
        cluster_free(c);
    }
}

static void joining_is_checked(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(985, 0, 1);
    struct master_event e = {.kind = MASTER_JOIN, .request = ++c->request};
    struct master_join_event good = {.role = MASTER_WORKER,
                                     .incarnation = 5,
                                     .name = "w",
                                     .address = "h:1",
                                     .http_address = "",
                                     .version = GRADUS_VERSION,
                                     .host = ""};
    struct master_join_event bad[] = {good, good, good, good, good};
    bad[0].role = 7;
    bad[1].version = "0.0.0";
    bad[2].name = "../x";
    bad[3].address = "";
    bad[4].incarnation = 0;
    const int codes[] = {ERR_INVALID, ERR_STATE, ERR_INVALID, ERR_INVALID, ERR_INVALID};
    for (size_t i = 0; i < 5; i++) {
        e.request = ++c->request;
        e.join = bad[i];
        cluster_event(c, &e);
        assert_int_equal(c->reply.err.code, codes[i]);
    }
    for (int i = 0; i < 2; i++) { /* idempotent by incarnation */
        e.request = ++c->request;
        e.join = good;
        cluster_event(c, &e);
        assert_string_equal(c->reply_text, "w");
    }
    e.request = ++c->request;
    e.join.incarnation = 6; /* a second process with the name, elsewhere */
    e.join.address = "h:2";
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_EXISTS);
    e.request = ++c->request;
    e.join.address = "h:1"; /* the same place: the first one is gone */
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, 0);
    struct master_counts counts;
    master_counts(c->m, &counts);
    assert_int_equal(counts.nodes_alive[MASTER_WORKER], 2);
    cluster_free(c);
}

/* Neither a stranger nor a process with the wrong address takes the place of a live node; one that
 * was killed and started again gets it when the old one was silent. */
static void a_live_node_keeps_its_address(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(986, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=300"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *n = cluster_node(c, "worker-1");
    struct master_event e = {.kind = MASTER_JOIN, .request = ++c->request};
    e.join = (struct master_join_event){.role = MASTER_WORKER,
                                        .incarnation = 5,
                                        .name = "evil",
                                        .address = n->address,
                                        .http_address = "",
                                        .version = GRADUS_VERSION,
                                        .host = ""};
    for (int i = 0; i < 40; i++) { /* whenever it tries, between two heartbeats, too */
        e.request = ++c->request;
        cluster_event(c, &e);
        assert_int_equal(c->reply.err.code, ERR_EXISTS);
        assert_non_null(strstr(c->reply.err.msg, "evil wants the address"));
        assert_non_null(strstr(c->reply.err.msg, "of worker-1, which is alive"));
        cluster_run_ms(c, 97);
    }
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    cluster_kill(n);
    uint64_t begin = c->now;
    e.join.name = "";
    do {
        cluster_run_ms(c, 50);
        e.request = ++c->request;
        cluster_event(c, &e);
    } while (c->reply.err.code == ERR_EXISTS);
    assert_int_equal(c->reply.err.code, 0);
    assert_in_range(c->now - begin, 200, 1400); /* not the 3 s of a lost node */
    cluster_free(c);
}

/* All calls about a job carry its secret; all of one start name the same opening. */
static void calls_carry_the_fence_of_their_job(void **state)
{
    (void)state;
    static const uint8_t none[FENCE_SECRET_BYTES];
    struct cluster *c = cluster_new(987, 2, 4);
    char first[64], second[64];
    cluster_submit(c, "one", first, SETS("cluster.workers=2", "training.epochs=300"));
    cluster_submit(c, "two", second, SETS("cluster.workers=2", "training.epochs=300"));
    cluster_until_in(c, first, "TRAIN");
    cluster_until_in(c, second, "TRAIN");
    const struct job_record *a = cluster_job(c, first);
    const struct job_record *b = cluster_job(c, second);
    assert_memory_not_equal(a->secret, none, sizeof none);
    assert_memory_not_equal(a->secret, b->secret, sizeof none);
    uint8_t secret[FENCE_SECRET_BYTES];
    memcpy(secret, a->secret, sizeof secret);
    uint64_t opening = cluster_fence(c, first)->opening;
    assert_true(opening != 0 && opening != cluster_fence(c, second)->opening);
    assert_memory_equal(cluster_fence(c, first)->secret, secret, sizeof secret);
    cluster_kill(cluster_node(c, "ps-1"));
    cluster_until(c, first, JOB_RECOVERING, 5000);
    cluster_add(c, MASTER_PS);
    cluster_until(c, first, JOB_RUNNING, 20000);
    assert_true(cluster_fence(c, first)->opening != opening); /* its shards were opened anew */
    assert_memory_equal(cluster_fence(c, first)->secret, secret, sizeof secret);
    cluster_free(c);
}

/* Another process answers at a node's address, or one that another master has given a job of that
 * name: the node is given up, not the job. */
static void a_stranger_at_an_address_fails_no_job(void **state)
{
    (void)state;
    static const struct {
        const char *node;
        enum master_call_kind kind;
        int code;
    } cases[] = {
        {"ps-1", MASTER_CALL_OPEN, ERR_ABORTED},
        {"ps-1", MASTER_CALL_OPEN, ERR_UNAUTHENTICATED},
        {"worker-1", MASTER_CALL_INSPECT, ERR_ABORTED},
        {"worker-1", MASTER_CALL_START, ERR_ABORTED},
        {"ps-1", MASTER_CALL_PIN, ERR_UNAUTHENTICATED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cluster *c = cluster_new(988 + i, 2, 2);
        char id[64];
        struct fake_node *n = cluster_node(c, cases[i].node);
        n->refuse = cases[i].code;
        n->refuse_kind = cases[i].kind;
        cluster_submit(c, "demo", id, SETS("training.epochs=3"));
        cluster_run_ms(c, 2000);
        assert_int_not_equal(cluster_job(c, id)->state, JOB_FAILED);
        n->refuse = 0; /* and the right one is there again */
        const struct job_record *r = run_to_end(c, id);
        assert_int_equal(r->state, JOB_SUCCEEDED);
        cluster_free(c);
    }
}

/* The sums up to the checkpoint are in it; without them (of an earlier version) what is known is
 * part of the epoch, and says so. */
static void an_epoch_with_a_recovery_has_all_of_its_metrics(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        struct cluster *c = cluster_new(995, 2, 1);
        char id[64];
        c->old_manifests = old != 0;
        cluster_submit(c, "demo", id,
                       SETS("cluster.ps=1", "cluster.workers=1", "training.epochs=2",
                            "training.checkpoint_every=5"));
        cluster_until_in(c, id, "TRAIN");
        while (c->manifests < 1) {
            cluster_run_ms(c, 1);
        }
        cluster_run_ms(c, 20);
        const struct fake_checkpoint *p = cluster_checkpoint(c, id);
        assert_true(p->train_sum_count > 0 && p->train_epoch == 0);
        cluster_kill(cluster_node(c, cluster_job(c, id)->ps.items[0]));
        const struct job_record *r = run_to_end(c, id);
        assert_int_equal(r->recoveries, 1);
        assert_int_equal(r->evaluations[0].train.part, old != 0);
        assert_false(r->evaluations[1].train.part);
        cluster_free(c);
    }
}

static void submitting_is_checked_and_idempotent(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(990, 0, 0);
    char first[64];
    for (int i = 0; i < 3; i++) {
        struct job_spec spec = {0};
        cluster_spec(&spec, "demo", NULL, 0);
        struct master_event e = {.kind = MASTER_SUBMIT, .request = ++c->request};
        e.submit = (struct master_submit_event){&spec, i < 2 ? "r-1" : "r-2", 7};
        cluster_event(c, &e);
        if (i == 2) { /* whose directory it is has been decided before */
            assert_int_equal(c->reply.err.code, ERR_EXISTS);
            e.request = ++c->request;
            e.submit.number = 8;
            cluster_event(c, &e);
        }
        job_spec_release(&spec);
        if (i == 0) {
            snprintf(first, sizeof first, "%s", c->reply_text);
            assert_string_equal(first, "demo-7");
        }
        assert_string_equal(c->reply_text, i < 2 ? first : "demo-8");
    }
    char id[64];
    for (int i = 2; i < 16; i++) {
        cluster_submit(c, "demo", id, NULL, 0);
    }
    assert_int_equal(cluster_try(c, "demo", NULL, 0, id), ERR_EXHAUSTED);
    assert_int_equal(cluster_cancel(c, "nobody-1", false), ERR_NOT_FOUND);
    cluster_free(c);
}

/* What the store would give back to a new master. */
static void restore(struct cluster *c, enum job_state was, const char *id)
{
    struct job_spec spec = {0};
    cluster_spec(&spec, "old", NULL, 0);
    struct job_record r;
    job_record_init(&r);
    job_record_set(&r.id, id);
    job_record_set(&r.name, "old");
    job_record_set(&r.text, spec.text);
    job_record_set(&r.reason, "before");
    consistency_of(&spec, &r.consistency);
    r.generation = 7;
    r.state = was;
    struct master_event e = {.kind = MASTER_RESTORE};
    e.restore = (struct master_restore_event){&r, job_state_is_final(was) ? NULL : &spec, NULL};
    cluster_event(c, &e);
    job_spec_release(&spec);
    job_record_release(&r);
}

static void a_restarted_master_goes_on(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(995, 0, 0);
    for (enum job_state s = JOB_PENDING; s < JOB_STATE_END; s++) {
        char id[64];
        snprintf(id, sizeof id, "old-%d", (int)s);
        restore(c, s, id);
        enum job_state now = s == JOB_STARTING  ? JOB_PENDING
                             : s == JOB_RUNNING ? JOB_RECOVERING
                                                : s;
        assert_int_equal(cluster_job(c, id)->state, now);
    }
    assert_string_equal(cluster_job(c, "old-3")->reason,
                        "the master restarted; waits for 2 more workers: 0 of 2 free; 2 more "
                        "parameter servers: 0 of 2 free");
    cluster_add(c, MASTER_PS);
    cluster_add(c, MASTER_PS);
    cluster_add(c, MASTER_WORKER);
    cluster_add(c, MASTER_WORKER);
    assert_true(cluster_job(c, "old-3")->generation > 7);
    assert_int_equal(cluster_job(c, "old-1")->state, JOB_PENDING); /* those that ran go first */
    for (int s = JOB_PENDING; s <= JOB_RECOVERING; s++) {
        char id[64];
        snprintf(id, sizeof id, "old-%d", s);
        const struct job_record *r = run_to_end(c, id);
        assert_int_equal(r->step, 21);
        assert_int_equal(r->recoveries, s >= JOB_RUNNING);
    }
    char id[64];
    cluster_submit(c, "old", id, NULL, 0);
    assert_string_equal(id, "old-8");
    cluster_free(c);
}

/* After an upgrade, or without a plug-in: the next master may be able to. */
static void a_job_file_that_cannot_be_read_is_kept(void **state)
{
    (void)state;
    for (enum job_state was = JOB_PENDING; was <= JOB_RECOVERING; was++) {
        struct cluster *c = cluster_new(996, 2, 2);
        struct job_record r;
        job_record_init(&r);
        job_record_set(&r.id, "old-1");
        job_record_set(&r.name, "old");
        job_record_set(&r.text, "update: {rule: mine}");
        r.generation = 7;
        r.state = was;
        struct master_event e = {.kind = MASTER_RESTORE};
        e.restore = (struct master_restore_event){&r, NULL, "no rule mine"};
        cluster_event(c, &e);
        cluster_run_ms(c, 60000);
        const struct job_record *j = cluster_job(c, "old-1");
        assert_int_equal(j->state, was <= JOB_STARTING ? JOB_PENDING : JOB_RECOVERING);
        assert_string_equal(j->reason, "this master cannot read its job file: no rule mine");
        assert_string_equal(j->text, "update: {rule: mine}");
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0); /* it is in nobody's way */
        run_to_end(c, id);
        assert_int_equal(cluster_cancel(c, "old-1", false), 0);
        assert_int_equal(cluster_job(c, "old-1")->state, JOB_CANCELLED);
        cluster_free(c);
    }
}

/* The mode of a running job changes where all stand, wherever it is asked for. */
static void the_mode_changes_while_the_job_runs(void **state)
{
    (void)state;
    static const char *const modes[] = {"sync", "async", "bounded"};
    for (size_t i = 2; i < PLACE_COUNT; i++) {
        for (size_t change = 0; change < 9; change++) {
            char from[64], to[64];
            snprintf(from, sizeof from, "training.mode=%s", modes[change / 3]);
            snprintf(to, sizeof to, "training.mode=%s", modes[change % 3]);
            struct cluster *c = cluster_new(1000 + change, 2, 2);
            char id[64];
            cluster_submit(c, "demo", id, SETS(from, "training.checkpoint_every=6"));
            cluster_until_in(c, id, PLACES[i]);
            size_t k = cluster_set(c, id, SETS(to, "training.replicas=2"));
            int rc = cluster_answer(c, k, 60000);
            if (strcmp(PLACES[i], "FINISH") == 0) {
                assert_int_equal(rc, ERR_STATE);
            } else if (rc == 0) {
                const struct job_record *r = cluster_job(c, id);
                assert_int_equal(r->consistency.mode, change % 3);
                assert_int_equal(r->consistency.replicas, 2);
                assert_non_null(strstr(r->text, modes[change % 3]));
            } else {
                assert_int_equal(rc, ERR_ABORTED); /* the job ended before */
            }
            cluster_until_in(c, id, "FINISH");
            if (cluster_job(c, id)->consistency.mode != TRAINING_SYNC) {
                check_exactly_once(c, id, 3);
            }
            const struct job_record *r = run_to_end(c, id);
            assert_int_equal(r->step, r->steps_total);
            assert_int_equal(r->examples, 300);
            assert_true(r->epoch == 3);
            cluster_free(c);
        }
    }
}

/* There and back again, with workers dying around it. */
static void modes_may_change_often(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=async", "training.mode=sync",
                                        "training.mode=bounded", "training.mode=sync"};
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct cluster *c = cluster_new(1100 + seed, 3, 3);
        c->delay_ms_max = 1 + cluster_draw(c, 60);
        char id[64];
        cluster_submit(c, "demo", id, SETS("cluster.workers=1..3", "cluster.ps=3"));
        cluster_until_in(c, id, "TRAIN");
        for (size_t i = 0; i < 4; i++) {
            size_t k = cluster_set(c, id, SETS(modes[i]));
            if (cluster_draw(c, 2) == 0) {
                cluster_run_ms(c, cluster_draw(c, 40));
                kill_one(c, MASTER_WORKER);
                cluster_add(c, MASTER_WORKER);
            }
            int rc = cluster_answer(c, k, 60000);
            if (rc != 0) {
                break;
            }
            cluster_run_ms(c, cluster_draw(c, 100));
            if (job_state_is_final(cluster_job(c, id)->state)) {
                break;
            }
        }
        const struct job_record *r = run_to_end(c, id);
        assert_int_equal(r->examples, 300);
        cluster_free(c);
    }
}

static void a_change_is_checked(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1200, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=5"));
    cluster_until_in(c, id, "TRAIN");
    size_t first = cluster_set(c, id, SETS("training.mode=async"));
    size_t second = cluster_set(c, id, SETS("training.mode=bounded"));
    assert_int_equal(cluster_answer(c, second, 1), ERR_STATE); /* one at a time */
    struct job_spec spec = {0};
    cluster_spec(&spec, "demo", NULL, 0);
    assert_int_equal(cluster_answer(c, first, 10000), 0);
    uint64_t generation = cluster_job(c, id)->generation;
    size_t again = cluster_set(c, id, SETS("training.mode=async"));
    assert_int_equal(cluster_answer(c, again, 1), 0); /* is in force: nothing stops for it */
    assert_int_equal(cluster_job(c, id)->generation, generation);
    struct master_event e = {.kind = MASTER_SET, .request = ++c->request};
    e.set = (struct master_set_event){id, &spec, spec.text};
    cluster_event(c, &e); /* a change of what it was before */
    assert_int_equal(c->reply.err.code, ERR_ABORTED);
    assert_non_null(spec.text); /* still ours */
    e.request = ++c->request;
    e.set.job = "nobody-1";
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_NOT_FOUND);
    run_to_end(c, id);
    e.request = ++c->request;
    e.set.job = id;
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_STATE);
    job_spec_release(&spec);
    cluster_free(c);
}

/* A job that has not begun, or waits for nodes, changes at once. */
static void what_waits_changes_at_once(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1300, 2, 0);
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.workers=1")), 1), 0);
    cluster_add(c, MASTER_WORKER);
    cluster_until_in(c, id, "TRAIN");
    kill_one(c, MASTER_PS);
    cluster_until(c, id, JOB_RECOVERING, 10000);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("training.mode=async")), 1), 0);
    cluster_add(c, MASTER_PS);
    cluster_until_in(c, id, "FINISH");
    check_exactly_once(c, id, 3);
    run_to_end(c, id);
    cluster_free(c);
}

/* Outside of sync a rule with sums wants each variable on one server, and those of a job that runs
 * stay where they are. */
static void a_job_with_cut_variables_stays_in_sync(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1330, 2, 2);
    char id[64];
    cluster_submit(
        c, "demo", id,
        SETS("update.rule=lamb", "cluster.ps=2", "cluster.slice_bytes=4", "training.epochs=5"));
    cluster_until(c, id, JOB_STARTING, 10000);
    size_t early = cluster_set(c, id, SETS("training.mode=async")); /* there is no plan yet */
    assert_int_equal(cluster_answer(c, early, 60000), ERR_STATE);
    cluster_until_in(c, id, "TRAIN");
    size_t late = cluster_set(c, id, SETS("training.mode=async"));
    assert_int_equal(cluster_answer(c, late, 1), ERR_STATE);
    assert_int_equal(cluster_job(c, id)->consistency.mode, TRAINING_SYNC);
    kill_one(c, MASTER_PS); /* the next plan may be another */
    cluster_until(c, id, JOB_RECOVERING, 10000);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("training.mode=async")), 1), 0);
    cluster_add(c, MASTER_PS);
    run_to_end(c, id);
    cluster_free(c);
}

/* A start that fails leaves nothing that runs: what waited for a step boundary is in force, or a
 * job that needs the change to begin would wait for ever. */
static void a_change_outlives_a_start_that_failed(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1350, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.workers=2"));
    cluster_until(c, id, JOB_STARTING, 10000);
    size_t k = cluster_set(c, id, SETS("cluster.workers=1"));
    kill_one(c, MASTER_WORKER);
    kill_one(c, MASTER_WORKER);
    cluster_until(c, id, JOB_PENDING, 10000);
    assert_int_equal(cluster_answer(c, k, 1), 0);
    cluster_add(c, MASTER_WORKER);
    run_to_end(c, id);
    cluster_free(c);
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

/* One that loads the data for longer than the others comes in later, and what is known of the data
 * is not asked for again. */
static void a_start_waits_for_nobody_it_can_do_without(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1390, 2, 3);
    char id[64];
    c->nodes[2].slow_kind = MASTER_CALL_INSPECT; /* all are asked; the first answer counts */
    c->nodes[2].slow_ms = 60000;
    c->nodes[3].slow_kind = MASTER_CALL_START;
    c->nodes[3].slow_ms = 20000;
    cluster_submit(c, "demo", id, SETS("cluster.workers=2..3", "training.epochs=3000"));
    cluster_until(c, id, JOB_RUNNING, 5000);
    assert_string_equal(cluster_job(c, id)->reason, "");
    cluster_run_ms(c, 25000);
    assert_int_equal(cluster_job(c, id)->workers.count, 3);
    uint64_t generation = cluster_job(c, id)->generation;
    assert_int_equal(generation, 3); /* without it, and with it */
    for (size_t i = 2; i < 5; i++) {
        c->nodes[i].slow_kind = MASTER_CALL_INSPECT;
        c->nodes[i].slow_ms = 60000;
    }
    kill_one(c, MASTER_PS);
    cluster_add(c, MASTER_PS);
    cluster_until(c, id, JOB_RECOVERING, 10000);
    cluster_until(c, id, JOB_RUNNING, 5000);
    cluster_free(c);
}

static void an_elastic_job_takes_and_gives_workers(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1400, 2, 1);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.workers=1..3", "training.epochs=300"));
    cluster_until_in(c, id, "TRAIN"); /* one is enough to begin */
    for (size_t workers = 2; workers <= 4; workers++) {
        cluster_add(c, MASTER_WORKER);
        cluster_run_ms(c, 1000);
        assert_int_equal(cluster_job(c, id)->workers.count, workers < 3 ? workers : 3);
    }
    assert_int_equal(
        cluster_answer(c, cluster_set(c, id, SETS("cluster.workers=1..4", "training.replicas=4")),
                       5000),
        0);
    cluster_run_ms(c, 1000);
    assert_int_equal(cluster_job(c, id)->workers.count, 4);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.workers=2")), 5000), 0);
    assert_int_equal(cluster_job(c, id)->workers.count, 2);
    run_to_end(c, id);
    cluster_free(c);
}

/* A worker dies between two shards; the checkpoint is of one cut all the same. */
static void a_checkpoint_is_of_one_cut(void **state)
{
    (void)state;
    size_t unequal = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct cluster *c = cluster_new(1500 + seed, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, SETS("training.mode=async", "training.split_batches=10"));
        cluster_until_in(c, id, "TRAIN");
        cluster_run_ms(c, 20 + cluster_draw(c, 100));
        struct fake_shard *a = cluster_shard(&c->nodes[0], id);
        struct fake_shard *b = cluster_shard(&c->nodes[1], id);
        kill_one(c, MASTER_WORKER);
        unequal += a->batches != b->batches;
        size_t k = cluster_ask_checkpoint(c, id);
        if (cluster_answer(c, k, 60000) == 0) { /* cluster_take_manifest() compares versions */
            assert_true(c->manifests > 0);
        }
        run_to_end(c, id);
        cluster_free(c);
    }
    assert_true(unequal > 5); /* else this test tests nothing */
}

/* Random crashes, losses, delays and joins for a while; then the job must end. */
static void any_schedule_ends(void **state)
{
    (void)state;
    const char *modes[] = {"training.mode=sync", "training.mode=async", "training.mode=bounded"};
    const char *text = getenv("GRADUS_TEST_SEEDS");
    uint64_t seeds = text == NULL ? 150 : strtoull(text, NULL, 10);
    const char *from = getenv("GRADUS_TEST_SEED");
    uint64_t first = from == NULL ? 0 : strtoull(from, NULL, 10);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct cluster *c = cluster_new(10000 + seed, 2, 3);
        c->delay_ms_max = 1 + cluster_draw(c, 400);
        c->loss = cluster_draw(c, 3) == 0 ? 0.1 : 0;
        char id[64];
        cluster_submit(c, "demo", id,
                       SETS(modes[seed % 3], "training.checkpoint_every=5", "training.epochs=8",
                            cluster_draw(c, 2) == 0 ? "cluster.workers=3" : "cluster.workers=2"));
        bool cancelled = false;
        for (int i = 0; i < 40 && !job_state_is_final(cluster_job(c, id)->state); i++) {
            cluster_run_ms(c, cluster_draw(c, 1500));
            switch (cluster_draw(c, 6)) {
            case 0:
                kill_one(c, MASTER_WORKER);
                break;
            case 1:
            case 2:
                if (c->node_count < 12) {
                    cluster_add(c, MASTER_WORKER);
                }
                break;
            case 3:
                if (cluster_draw(c, 3) == 0) {
                    kill_one(c, MASTER_PS);
                    cluster_add(c, MASTER_PS);
                } else if (cluster_draw(c, 4) == 0 && !cancelled) {
                    cancelled = true;
                    cluster_cancel(c, id, false);
                } else if (cluster_job(c, id)->state == JOB_RUNNING && !c->answered[0] &&
                           c->waiting[0] == 0) {
                    cluster_ask_checkpoint(c, id);
                }
                break;
            default:
                break;
            }
        }
        c->loss = 0;
        for (int i = 0; i < 3 && c->node_count < NODES_MAX; i++) {
            cluster_add(c, MASTER_WORKER);
        }
        if (strcmp(modes[seed % 3], "training.mode=sync") != 0 && !cancelled &&
            !job_state_is_final(cluster_job(c, id)->state)) {
            for (size_t i = 0; i < 200000 && strcmp(master_job_phase(c->m, id), "FINISH") != 0 &&
                               !job_state_is_final(cluster_job(c, id)->state);
                 i++) {
                cluster_advance(c);
            }
            if (cluster_job(c, id)->state == JOB_RUNNING) {
                check_exactly_once(c, id, 8);
            }
        }
        uint64_t end = c->now + 2000000;
        const struct job_record *r = cluster_job(c, id);
        while (!job_state_is_final(r->state)) {
            if (c->now > end) {
                fail_msg("seed %" PRIu64 ": %s in %s/%s at step %" PRIu64 ": %s", seed,
                         job_state_name(r->state), master_job_phase(c->m, id),
                         master_job_work(c->m, id), r->step, r->reason);
            }
            cluster_advance(c);
            r = cluster_job(c, id);
        }
        if (r->state == JOB_FAILED) {
            fail_msg("seed %" PRIu64 ": %s", seed, r->reason);
        } else if (r->state == JOB_SUCCEEDED) {
            assert_int_equal(r->step, r->steps_total);
            assert_string_not_equal(r->checkpoint, "");
        }
        assert_true(c->waiting[0] == 0); /* nobody waits for ever */
        cluster_run_ms(c, 30000);
        struct master_counts counts;
        master_counts(c->m, &counts);
        assert_int_equal(counts.calls_open, 0);
        cluster_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_job_runs_to_the_end),
        cmocka_unit_test(async_and_bounded_jobs_apply_each_batch_once),
        cmocka_unit_test(steps_bound_an_async_job),
        cmocka_unit_test(nodes_may_join_in_any_order),
        cmocka_unit_test(later_jobs_use_what_is_free),
        cmocka_unit_test(a_worker_may_die_anywhere),
        cmocka_unit_test(without_workers_a_job_waits_for_one),
        cmocka_unit_test(a_job_goes_back_when_a_server_is_lost),
        cmocka_unit_test(a_job_ends_cancelled_from_anywhere),
        cmocka_unit_test(a_checkpoint_on_request_is_answered),
        cmocka_unit_test(errors_of_nodes_fail_the_job_with_a_reason),
        cmocka_unit_test(an_assign_that_is_refused_costs_one_worker),
        cmocka_unit_test(the_last_worker_without_memory_is_asked_again),
        cmocka_unit_test(initial_values_may_take_minutes),
        cmocka_unit_test(a_copy_may_take_an_hour),
        cmocka_unit_test(a_node_that_does_not_get_on_is_given_up),
        cmocka_unit_test(a_master_that_stood_still_gives_nobody_up),
        cmocka_unit_test(an_overdue_node_is_judged_when_messages_are_read),
        cmocka_unit_test(a_master_that_stood_still_while_it_read_reads_first),
        cmocka_unit_test(standing_still_counts_once),
        cmocka_unit_test(a_job_recovers_with_fewer_workers),
        cmocka_unit_test(a_chunk_that_fails_goes_to_another_worker),
        cmocka_unit_test(a_checkpoint_that_fails_in_the_middle_is_shown),
        cmocka_unit_test(data_that_does_not_fit_is_refused),
        cmocka_unit_test(without_a_test_source_nothing_is_evaluated),
        cmocka_unit_test(a_worker_that_comes_back_is_used),
        cmocka_unit_test(old_and_foreign_requests_change_nothing),
        cmocka_unit_test(an_old_failure_report_changes_nothing),
        cmocka_unit_test(a_failure_report_fails_the_job),
        cmocka_unit_test(a_silent_node_is_given_up_and_may_return),
        cmocka_unit_test(starts_that_fail_are_made_again_after_a_pause),
        cmocka_unit_test(a_pause_ends_with_whatever_comes_first),
        cmocka_unit_test(a_job_that_a_node_has_lost_is_given_again),
        cmocka_unit_test(joining_is_checked),
        cmocka_unit_test(a_live_node_keeps_its_address),
        cmocka_unit_test(calls_carry_the_fence_of_their_job),
        cmocka_unit_test(a_stranger_at_an_address_fails_no_job),
        cmocka_unit_test(an_epoch_with_a_recovery_has_all_of_its_metrics),
        cmocka_unit_test(submitting_is_checked_and_idempotent),
        cmocka_unit_test(a_restarted_master_goes_on),
        cmocka_unit_test(a_job_file_that_cannot_be_read_is_kept),
        cmocka_unit_test(the_mode_changes_while_the_job_runs),
        cmocka_unit_test(modes_may_change_often),
        cmocka_unit_test(a_change_is_checked),
        cmocka_unit_test(what_waits_changes_at_once),
        cmocka_unit_test(a_job_with_cut_variables_stays_in_sync),
        cmocka_unit_test(a_change_outlives_a_start_that_failed),
        cmocka_unit_test(an_end_is_seen_before_the_time_out),
        cmocka_unit_test(a_start_waits_for_nobody_it_can_do_without),
        cmocka_unit_test(an_elastic_job_takes_and_gives_workers),
        cmocka_unit_test(a_checkpoint_is_of_one_cut),
        cmocka_unit_test(any_schedule_ends),
    };
    return cmocka_run_group_tests_name("master", tests, NULL, NULL);
}
