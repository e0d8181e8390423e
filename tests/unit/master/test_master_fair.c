/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: priorities, quotas of owners, jobs that are paused, jobs that make way. */
#include "cluster.h"

static void assert_holds_nothing(struct cluster *c, const char *id)
{
    struct master_node_info info;
    for (size_t i = 0; master_node_at(c->m, i, c->now, &info); i++) {
        for (size_t k = 0; k < info.job_count; k++) {
            assert_string_not_equal(info.jobs[k], id);
        }
    }
    assert_int_equal(cluster_job(c, id)->workers.count, 0);
    assert_int_equal(cluster_job(c, id)->ps.count, 0);
}

/* Pauses it in TRAIN, and resumes it. */
static void go_to_and_fro(struct cluster *c, const char *id)
{
    cluster_until_in(c, id, "TRAIN");
    cluster_run_ms(c, 300);
    assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
    assert_true(cluster_job(c, id)->paused);
    const struct job_record *r = cluster_until(c, id, JOB_PAUSED, 5000);
    char words[64];
    snprintf(words, sizeof words, "by request, at step %" PRIu64, r->step);
    assert_string_equal(r->reason, words);
    uint64_t step = r->step;
    cluster_run_ms(c, 60000);
    assert_holds_nothing(c, id);
    assert_int_equal(cluster_checkpoint(c, id)->step, step);
    assert_int_equal(cluster_job(c, id)->waiting, JOB_WAITS_RESUME);
    assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0);
    cluster_until(c, id, JOB_RUNNING, 5000);
    assert_true(cluster_job(c, id)->step >= step);
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
}

static void a_paused_job_goes_on_where_it_was(void **state)
{
    (void)state;
    const char *const modes[] = {"sync", "async", "bounded"};
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(2000 + i, 2, 2);
        char id[64], mode[32];
        snprintf(mode, sizeof mode, "training.mode=%s", modes[i]);
        cluster_submit(c, "demo", id, SETS(mode, "training.epochs=60"));
        go_to_and_fro(c, id);
        go_to_and_fro(c, id);
        cluster_run_to_end(c, id);
        cluster_free(c);
    }
}

/* Wherever it is: it comes to stand, nothing of it is left, and it goes on. */
static void it_can_be_paused_anywhere(void **state)
{
    (void)state;
    for (uint64_t ms = 0; ms < 600; ms += 7) {
        struct cluster *c = cluster_new(2100 + ms, 2, 3);
        char id[64];
        cluster_submit(c, "demo", id,
                       SETS("training.epochs=20", "training.checkpoint_every=9 steps"));
        cluster_run_ms(c, ms);
        if (cluster_ask(c, id, MASTER_PAUSE) == 0) {
            cluster_until(c, id, JOB_PAUSED, 20000);
            cluster_run_ms(c, 5000);
            assert_holds_nothing(c, id);
            assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
            assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0);
            assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0);
        }
        cluster_run_to_end(c, id);
        cluster_free(c);
    }
}

static void a_pause_that_is_taken_back_costs_nothing(void **state)
{
    (void)state;
    const char *const works[] = {"PIN", "PREPARE", "CHECKPOINT", "MANIFEST"};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 2; k++) {
            struct cluster *c = cluster_new(2200 + i, 2, 2);
            char id[64];
            cluster_submit(c, "demo", id,
                           SETS(k == 0 ? "training.mode=sync" : "training.mode=async",
                                "training.epochs=60", "training.evaluate_every=never"));
            cluster_until_in(c, id, "TRAIN");
            assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
            cluster_until_in(c, id, works[i]);
            assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0);
            cluster_run_to_end(c, id);
            assert_null(strstr(buf_str(&c->trace), "PAUSED"));
            cluster_free(c);
        }
    }
}

/* It trains on, says why, and is paused when that has passed. */
static void a_checkpoint_that_fails_only_delays_it(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct cluster *c = cluster_new(2300 + k, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id,
                       SETS(k == 0 ? "training.mode=sync" : "training.mode=bounded",
                            "training.epochs=4000", "training.evaluate_every=never"));
        cluster_until_in(c, id, "TRAIN");
        c->manifest_fails = true;
        assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
        cluster_run_ms(c, 3000);
        cluster_assert_reason(c, id, "trains on, and is paused later: checkpoint at step");
        uint64_t step = cluster_job(c, id)->step;
        cluster_run_ms(c, 20000);
        assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
        assert_true(cluster_job(c, id)->step > step);
        c->manifest_fails = false;
        const struct job_record *r = cluster_until(c, id, JOB_PAUSED, 70000);
        assert_int_equal(cluster_checkpoint(c, id)->step, r->step);
        cluster_cancel(c, id, false);
        assert_int_equal(cluster_job(c, id)->state, JOB_CANCELLED);
        cluster_assert_reason(c, id, "cancelled while it was paused; the newest checkpoint is");
        cluster_free(c);
    }
}

static void what_cannot_be_paused_says_why(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(2400, 2, 2);
    char id[64];
    assert_int_equal(cluster_ask(c, "none-1", MASTER_PAUSE), ERR_NOT_FOUND);
    assert_int_equal(cluster_ask(c, "none-1", MASTER_RESUME), ERR_NOT_FOUND);
    cluster_submit(c, "demo", id, SETS("training.epochs=3"));
    c->manifest_fails = true; /* at its end */
    cluster_until_in(c, id, "FINISH");
    assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), ERR_STATE);
    assert_string_equal(c->reply.err.msg, "job demo-1 is ending");
    c->manifest_fails = false;
    cluster_run_to_end(c, id);
    assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), ERR_STATE);
    assert_string_equal(c->reply.err.msg, "job demo-1 has ended: SUCCEEDED");
    cluster_free(c);
}

/* A row that cannot be stored is no promise. */
static void a_pause_that_is_not_stored_is_not_promised(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(2450, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=400"));
    cluster_until_in(c, id, "TRAIN");
    c->store_fails = true;
    assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), ERR_UNAVAILABLE);
    c->store_fails = false;
    cluster_until(c, id, JOB_PAUSED, 20000); /* all the same */
    cluster_free(c);
}

static void assert_place(struct cluster *c, const char *id, uint64_t place, enum job_waiting what)
{
    const struct job_record *r = cluster_job(c, id);
    assert_int_equal(r->state, JOB_PENDING);
    assert_int_equal(r->queue_position, place);
    assert_int_equal(r->waiting, what);
}

static void the_queue_goes_by_priority_then_age(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(2500, 2, 2);
    char first[64], low[64], middle[64], high[64];
    cluster_submit(c, "demo", first, SETS("training.epochs=20"));
    cluster_until_in(c, first, "TRAIN");
    cluster_submit(c, "low", low, SETS("priority=-5", "cluster.workers=1"));
    cluster_submit(c, "middle", middle, NULL, 0);
    cluster_submit(c, "high", high, SETS("priority=5"));
    assert_place(c, high, 1, JOB_WAITS_NODES);
    assert_place(c, middle, 2, JOB_WAITS_TURN);
    assert_place(c, low, 3, JOB_WAITS_TURN);
    cluster_assert_reason(c, low, "waits behind job high-1 of priority 5");
    size_t k = cluster_set(c, low, SETS("priority=9"));
    assert_int_equal(cluster_answer(c, k, 1000), 0);
    assert_place(c, low, 1, JOB_WAITS_NODES);
    assert_place(c, high, 2, JOB_WAITS_TURN);
    cluster_run_to_end(c, low);
    cluster_run_to_end(c, high);
    cluster_run_to_end(c, middle);
    int64_t began = cluster_job(c, low)->started_ms;
    assert_true(began <= cluster_job(c, high)->started_ms);
    assert_true(cluster_job(c, high)->started_ms < cluster_job(c, middle)->started_ms);
    cluster_free(c);
}

/* What the nodes could never serve has no right to them. */
static void a_job_that_is_too_large_is_in_nobodys_way(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(2510, 2, 2);
    char large[64], id[64];
    cluster_submit(c, "large", large,
                   SETS("priority=5", "cluster.workers=9", "training.replicas=9"));
    cluster_submit(c, "demo", id, NULL, 0);
    cluster_run_to_end(c, id);
    assert_place(c, large, 1, JOB_WAITS_NODES);
    cluster_free(c);
}

static void quotas_hold_and_are_in_nobodys_way(void **state)
{
    (void)state;
    const struct {
        struct master_config config;
        const char *reason;
    } cases[] = {
        {{.owner_running_max = 1}, "owner ann is at the quota of running jobs: 1 of 1"},
        {{.owner_workers_max = 3}, "owner ann is at the quota of workers: 2 of 3, and it needs 2"},
        {{.owner_ps_memory_max = 2000},
         "owner ann is at the quota of memory of parameter servers: "},
    };
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new_with(2600 + i, 2, 6, &cases[i].config);
        char first[64], second[64], other[64];
        c->submitter = "ann";
        cluster_submit(c, "demo", first, SETS("training.epochs=300"));
        cluster_until_in(c, first, "TRAIN");
        assert_in_range(cluster_job(c, first)->ps_memory, 1001, 2000);
        cluster_submit(c, "demo", second, SETS("training.epochs=3"));
        c->submitter = "bob";
        cluster_submit(c, "demo", other, SETS("training.epochs=3"));
        cluster_run_to_end(c, other);
        assert_place(c, second, 1, JOB_WAITS_QUOTA);
        cluster_assert_reason(c, second, cases[i].reason);
        cluster_ask(c, first, MASTER_PAUSE);
        cluster_run_to_end(c, second);
        cluster_ask(c, first, MASTER_RESUME);
        cluster_until(c, first, JOB_RUNNING, 5000);
        cluster_free(c);
    }
}

static const struct master_config PREEMPTS = {.preemption = true, .preempt_after_ms = 2000};

static void a_lower_one_makes_way(void **state)
{
    (void)state;
    for (uint64_t seed = 2700; seed < 2720; seed++) {
        struct cluster *c = cluster_new_with(seed, 2, 4, &PREEMPTS);
        char older[64], younger[64], high[64], same[64];
        cluster_submit(c, "older", older, SETS("training.epochs=400", "training.mode=async"));
        cluster_submit(c, "younger", younger, SETS("training.epochs=400"));
        cluster_until_in(c, younger, "TRAIN");
        cluster_submit(c, "same", same, NULL, 0);
        cluster_run_ms(c, 2500); /* both have run for long enough */
        cluster_submit(c, "high", high, SETS("priority=1", "training.epochs=3"));
        assert_place(c, high, 1, JOB_WAITS_NODES);
        const struct job_record *r = cluster_until(c, younger, JOB_PENDING, 5000);
        assert_int_equal(r->preemptions, 1);
        assert_int_equal(cluster_checkpoint(c, younger)->step, r->step);
        cluster_until(c, high, JOB_RUNNING, 5000);
        assert_int_equal(cluster_job(c, older)->state, JOB_RUNNING);
        cluster_run_to_end(c, high);
        cluster_run_to_end(c, same);
        cluster_run_to_end(c, younger);
        assert_int_equal(cluster_job(c, younger)->recoveries, 0);
        assert_int_equal(cluster_job(c, older)->preemptions, 0);
        cluster_free(c);
    }
}

/* Neither one that runs already nor a later one takes what was freed. */
static void what_was_freed_is_for_whom_it_was_freed(void **state)
{
    (void)state;
    for (uint64_t seed = 2730; seed < 2740; seed++) {
        struct cluster *c = cluster_new_with(seed, 2, 5, &PREEMPTS);
        char elastic[64], low[64], high[64], later[64];
        cluster_submit(c, "low", low, SETS("training.epochs=4000"));
        cluster_until_in(c, low, "TRAIN");
        cluster_submit(c, "elastic", elastic,
                       SETS("training.epochs=4000", "priority=1", "cluster.workers=1..3"));
        cluster_until_in(c, elastic, "TRAIN");
        cluster_kill(cluster_node(c, cluster_job(c, elastic)->workers.items[0]));
        cluster_run_ms(c, 6000); /* it has room for one more worker now */
        assert_int_equal(cluster_job(c, elastic)->workers.count, 2);
        cluster_submit(c, "high", high, SETS("priority=1", "training.epochs=3"));
        cluster_submit(c, "later", later, SETS("priority=1", "cluster.workers=1"));
        cluster_until(c, high, JOB_RUNNING, 20000);
        assert_true(cluster_job(c, later)->started_ms == 0);
        cluster_run_to_end(c, high);
        cluster_free(c);
    }
}

static void who_has_just_begun_is_left_alone(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(2750, 2, 2, &PREEMPTS);
    char low[64], high[64];
    cluster_submit(c, "low", low, SETS("training.epochs=4000"));
    cluster_until(c, low, JOB_RUNNING, 5000);
    uint64_t began = c->now;
    cluster_submit(c, "high", high, SETS("priority=1", "training.epochs=3"));
    cluster_until(c, low, JOB_PENDING, 5000); /* when its time has come, without any other event */
    assert_in_range(c->now - began, 2000, 2500);
    cluster_run_to_end(c, high);
    cluster_free(c);
}

/* When all would not do, or who waits goes away, nobody stops. */
static void nobody_makes_way_in_vain(void **state)
{
    (void)state;
    struct cluster *c = cluster_new_with(2800, 2, 4, &PREEMPTS);
    char low[64], high[64], higher[64];
    cluster_submit(c, "low", low, SETS("training.epochs=4000"));
    cluster_submit(c, "high", high, SETS("training.epochs=4000", "priority=3"));
    cluster_until_in(c, high, "TRAIN");
    cluster_submit(c, "higher", higher, SETS("priority=2", "cluster.workers=3"));
    cluster_run_ms(c, 20000);
    assert_int_equal(cluster_job(c, low)->state, JOB_RUNNING);
    assert_int_equal(cluster_job(c, low)->preemptions, 0);
    cluster_cancel(c, higher, false);
    c->manifest_fails = true; /* it cannot stop before its preemptor has gone */
    cluster_submit(c, "higher", higher, SETS("priority=2"));
    cluster_run_ms(c, 1000);
    cluster_assert_reason(c, low, "trains on, and is preempted later");
    cluster_cancel(c, higher, false);
    c->manifest_fails = false;
    cluster_run_ms(c, 20000);
    assert_int_equal(cluster_job(c, low)->state, JOB_RUNNING);
    assert_string_equal(cluster_job(c, low)->reason, "");
    assert_int_equal(cluster_job(c, low)->preemptions, 0);
    cluster_free(c);
}

static void restore(struct cluster *c, enum job_state was, bool paused, const char *checkpoint)
{
    struct job_record r;
    struct job_spec spec = {0};
    cluster_spec(&spec, "old", SETS("priority=4"));
    job_record_init(&r);
    job_record_set(&r.id, "old-1");
    job_record_set(&r.name, "old");
    job_record_set(&r.text, spec.text);
    job_record_set(&r.checkpoint, checkpoint);
    consistency_of(&spec, &r.consistency);
    r.generation = 7;
    r.state = was;
    r.paused = paused;
    struct master_event e = {.kind = MASTER_RESTORE};
    e.restore = (struct master_restore_event){.record = &r, .spec = &spec};
    cluster_event(c, &e);
    job_spec_release(&spec);
    job_record_release(&r);
}

static void a_pause_outlives_the_master(void **state)
{
    (void)state;
    const enum job_state states[] = {JOB_PAUSED, JOB_RUNNING, JOB_RECOVERING};
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(2900 + i, 2, 2);
        restore(c, states[i], true, "");
        cluster_run_ms(c, 60000);
        assert_int_equal(cluster_job(c, "old-1")->state, JOB_PAUSED);
        assert_int_equal(cluster_job(c, "old-1")->priority, 4);
        assert_int_equal(cluster_job(c, "old-1")->generation, 7);
        assert_int_equal(cluster_ask(c, "old-1", MASTER_RESUME), 0);
        cluster_run_to_end(c, "old-1");
        cluster_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_job_goes_on_where_it_was),
        cmocka_unit_test(it_can_be_paused_anywhere),
        cmocka_unit_test(a_pause_that_is_taken_back_costs_nothing),
        cmocka_unit_test(a_checkpoint_that_fails_only_delays_it),
        cmocka_unit_test(what_cannot_be_paused_says_why),
        cmocka_unit_test(a_pause_that_is_not_stored_is_not_promised),
        cmocka_unit_test(the_queue_goes_by_priority_then_age),
        cmocka_unit_test(a_job_that_is_too_large_is_in_nobodys_way),
        cmocka_unit_test(quotas_hold_and_are_in_nobodys_way),
        cmocka_unit_test(a_lower_one_makes_way),
        cmocka_unit_test(what_was_freed_is_for_whom_it_was_freed),
        cmocka_unit_test(who_has_just_begun_is_left_alone),
        cmocka_unit_test(nobody_makes_way_in_vain),
        cmocka_unit_test(a_pause_outlives_the_master),
    };
    return cmocka_run_group_tests_name("master_fair", tests, NULL, NULL);
}
