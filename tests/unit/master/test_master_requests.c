/* SPDX-License-Identifier: Apache-2.0 */
/* What clients and nodes ask of the master is checked, and answered once. */
#include "cluster.h"

static int send_worker(struct cluster *c, struct fake_node *n, enum master_event_kind kind,
                       uint64_t generation)
{
    struct master_event e = fake_event(c, n, kind);
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
    struct master_event e = fake_event(c, n, MASTER_REPORT_SPLIT);
    e.worker.epoch = 5;
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_INVALID); /* an epoch to come */
    e = fake_event(c, n, MASTER_REPORT_SPLIT);
    e.worker.split = 4000000000u;
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_INVALID);
    assert_int_equal(cluster_job(c, id)->step, step);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    /* A report that comes twice counts once. */
    uint64_t staleness[1] = {5};
    e = fake_event(c, n, MASTER_REPORT_PROGRESS);
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
                                     .version = release_version(),
                                     .protocol = RELEASE_PROTOCOL,
                                     .host = ""};
    struct master_join_event bad[] = {good, good, good, good, good};
    bad[0].role = 7;
    bad[1].protocol = RELEASE_PROTOCOL + 1;
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
                                        .version = release_version(),
                                        .protocol = RELEASE_PROTOCOL,
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

static void submitting_is_checked_and_idempotent(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(990, 0, 0);
    char first[64];
    for (int i = 0; i < 3; i++) {
        struct job_spec spec = {0};
        cluster_spec(&spec, "demo", NULL, 0);
        struct master_event e = {.kind = MASTER_SUBMIT, .request = ++c->request};
        e.submit = (struct master_submit_event){&spec, i < 2 ? "r-1" : "r-2", 7, NULL};
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
    e.set = (struct master_set_event){.job = id, .spec = &spec, .base = spec.text};
    cluster_event(c, &e); /* a change of what it was before */
    assert_int_equal(c->reply.err.code, ERR_ABORTED);
    assert_non_null(spec.text); /* still ours */
    e.request = ++c->request;
    e.set.job = "nobody-1";
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_NOT_FOUND);
    cluster_run_to_end(c, id);
    e.request = ++c->request;
    e.set.job = id;
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_STATE);
    job_spec_release(&spec);
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
    cluster_kill_one(c, MASTER_PS); /* the next plan may be another */
    cluster_until(c, id, JOB_RECOVERING, 10000);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("training.mode=async")), 1), 0);
    cluster_add(c, MASTER_PS);
    cluster_run_to_end(c, id);
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
    cluster_kill_one(c, MASTER_WORKER);
    cluster_kill_one(c, MASTER_WORKER);
    cluster_until(c, id, JOB_PENDING, 10000);
    assert_int_equal(cluster_answer(c, k, 1), 0);
    cluster_add(c, MASTER_WORKER);
    cluster_run_to_end(c, id);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(submitting_is_checked_and_idempotent),
        cmocka_unit_test(a_change_is_checked),
        cmocka_unit_test(a_job_with_cut_variables_stays_in_sync),
        cmocka_unit_test(a_change_outlives_a_start_that_failed),
        cmocka_unit_test(joining_is_checked),
        cmocka_unit_test(a_live_node_keeps_its_address),
        cmocka_unit_test(old_and_foreign_requests_change_nothing),
        cmocka_unit_test(calls_carry_the_fence_of_their_job),
    };
    return cmocka_run_group_tests_name("master_requests", tests, NULL, NULL);
}
