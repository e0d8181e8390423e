/* SPDX-License-Identifier: Apache-2.0 */
/* A job from its submission to its end, as the master sees it: whom it gives it to, what it
 * records. */
#include "cluster.h"

static void sync_job_runs_to_the_end(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(1, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.checkpoint_every=10"));
    assert_string_equal(id, "demo-1");
    const struct job_record *r = cluster_run_to_end(c, id);
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
        assert_false(cluster_holds(c, c->nodes[i].id, id));
    }
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
    cluster_run_to_end(c, id);
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
    cluster_run_to_end(c, a);
    cluster_run_to_end(c, small);
    cluster_run_to_end(c, b);
    cluster_run_to_end(c, big);
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
    const struct job_record *r = cluster_run_to_end(c, id);
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

/* training.drop_last: 103 records in batches of 5 are what 100 are, in every mode. */
static void an_epoch_may_end_before_a_smaller_batch(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async"};
    for (int i = 0; i < 2; i++) {
        struct cluster *c = cluster_new(940 + (unsigned)i, 2, 2);
        c->train_records = 103;
        char id[64];
        cluster_submit(c, "demo", id, SETS("training.drop_last=true", modes[i]));
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->steps_total, i == 0 ? 21 : 60);
        assert_int_equal(r->step, r->steps_total);
        assert_int_equal(r->examples, 300);
        assert_int_equal(r->left_out, 3);
        assert_true(r->epoch == 3 && r->epochs_total == 3);
        assert_int_equal(r->evaluation_count, 3);
        cluster_free(c);
    }
    struct cluster *c = cluster_new(942, 2, 2);
    c->train_records = 4;
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.drop_last=true"));
    assert_string_equal(cluster_until(c, id, JOB_FAILED, 60000)->reason,
                        "training.drop_last: 4 train records make no batch of 5");
    cluster_free(c);
}

static void without_a_test_source_nothing_is_evaluated(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(950, 2, 2);
    c->test_records = 0;
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    assert_int_equal(cluster_run_to_end(c, id)->evaluation_count, 0);
    assert_int_equal(c->evaluations_sent, 0);
    cluster_free(c);
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
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->recoveries, 1);
        assert_int_equal(r->evaluations[0].train.part, old != 0);
        assert_false(r->evaluations[1].train.part);
        cluster_free(c);
    }
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
    e.restore =
        (struct master_restore_event){.record = &r, .spec = job_state_is_final(was) ? NULL : &spec};
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
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->step, 21);
        assert_int_equal(r->recoveries, s >= JOB_RUNNING);
    }
    char id[64];
    cluster_submit(c, "old", id, NULL, 0);
    assert_string_equal(id, "old-9");
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
        e.restore = (struct master_restore_event){.record = &r, .spec_error = "no rule mine"};
        cluster_event(c, &e);
        cluster_run_ms(c, 60000);
        const struct job_record *j = cluster_job(c, "old-1");
        assert_int_equal(j->state, was <= JOB_STARTING ? JOB_PENDING : JOB_RECOVERING);
        assert_string_equal(j->reason, "this master cannot read its job file: no rule mine");
        assert_string_equal(j->text, "update: {rule: mine}");
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0); /* it is in nobody's way */
        cluster_run_to_end(c, id);
        assert_int_equal(cluster_cancel(c, "old-1", false), 0);
        assert_int_equal(cluster_job(c, "old-1")->state, JOB_CANCELLED);
        cluster_free(c);
    }
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
    cluster_kill_one(c, MASTER_PS);
    cluster_add(c, MASTER_PS);
    cluster_until(c, id, JOB_RECOVERING, 10000);
    cluster_until(c, id, JOB_RUNNING, 5000);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sync_job_runs_to_the_end),
        cmocka_unit_test(nodes_may_join_in_any_order),
        cmocka_unit_test(later_jobs_use_what_is_free),
        cmocka_unit_test(a_start_waits_for_nobody_it_can_do_without),
        cmocka_unit_test(data_that_does_not_fit_is_refused),
        cmocka_unit_test(an_epoch_may_end_before_a_smaller_batch),
        cmocka_unit_test(without_a_test_source_nothing_is_evaluated),
        cmocka_unit_test(a_checkpoint_that_fails_in_the_middle_is_shown),
        cmocka_unit_test(an_epoch_with_a_recovery_has_all_of_its_metrics),
        cmocka_unit_test(a_restarted_master_goes_on),
        cmocka_unit_test(a_job_file_that_cannot_be_read_is_kept),
    };
    return cmocka_run_group_tests_name("master", tests, NULL, NULL);
}
