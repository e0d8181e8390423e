/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that begin with the values of a source (`from`): when workers look at it, and what is known
 * of it later. */
#include "cluster.h"

#define FROM "from.checkpoint=/data/a"
#define TOOK "all 1 variables from checkpoint /data/a"

static struct cluster *cluster_from(uint64_t seed, size_t ps, size_t workers)
{
    struct cluster *c = cluster_new(seed, ps, workers);
    c->from = TOOK;
    c->encoding = "{measured}";
    c->from_fingerprint = 77;
    return c;
}

static void a_job_that_begins_has_its_source_looked_at(void **state)
{
    (void)state;
    struct cluster *c = cluster_from(9100, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS(FROM));
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_true(c->asked.begins);
    assert_int_equal(c->asked.from_fingerprint, 77);
    assert_int_equal(c->asked.places, 2); /* workers bring the values */
    assert_string_equal(r->started_from, TOOK);
    assert_string_equal(c->asked.inspect_encoding, ""); /* it is to be found in the source */
    assert_string_equal(c->asked.start_encoding, "{measured}");
    cluster_free(c);
}

static void another_encoding_is_measured_by_each_worker(void **state)
{
    (void)state;
    struct cluster *c = cluster_from(9105, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS(FROM, "from.encoding=measure"));
    (void)cluster_run_to_end(c, id);
    assert_string_equal(c->asked.inspect_encoding, "");
    assert_string_equal(c->asked.start_encoding, "");
    cluster_free(c);
}

static void another_job_says_nothing(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9110, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(c->asked.from_fingerprint, 0);
    assert_int_equal(c->asked.places, 0);
    assert_string_equal(r->started_from, "");
    cluster_free(c);
}

/* A server is lost before there is a checkpoint: it begins anew, with the same values. */
static void who_begins_anew_begins_with_the_same(void **state)
{
    (void)state;
    struct cluster *c = cluster_from(9120, 3, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS(FROM, "training.checkpoint_every=never"));
    cluster_until_in(c, id, "TRAIN");
    c->find_gone = true; /* there is no checkpoint */
    const size_t inspections = c->asked.inspections;
    c->asked.from_fingerprint = 0;
    cluster_kill(cluster_node(c, "ps-1"));
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->recoveries, 1);
    assert_int_equal(c->asked.inspections, inspections); /* the data are known */
    assert_int_equal(c->asked.from_fingerprint, 77);
    assert_string_equal(r->started_from, TOOK);
    cluster_free(c);
}

/* After a restart of the master, with or without a checkpoint. */
static void restart(uint64_t seed, const char *checkpoint, bool begins)
{
    struct cluster *c = cluster_from(seed, 0, 0);
    struct job_record r;
    struct job_spec spec = {0};
    c->find_gone = begins;
    snprintf(c->disk[0].job, sizeof c->disk[0].job, "old-1");
    snprintf(c->disk[0].directory, sizeof c->disk[0].directory, "old-1/step-000000007");
    cluster_spec(&spec, "old", SETS(FROM));
    job_record_init(&r);
    job_record_set(&r.id, "old-1");
    job_record_set(&r.name, "old");
    job_record_set(&r.text, spec.text);
    consistency_of(&spec, &r.consistency);
    job_record_set(&r.checkpoint, checkpoint);
    job_record_set(&r.started_from, "what was taken before");
    r.generation = 7;
    r.state = JOB_RUNNING;
    struct master_event e = {.kind = MASTER_RESTORE};
    e.restore = (struct master_restore_event){.record = &r, .spec = &spec};
    cluster_event(c, &e);
    job_spec_release(&spec);
    job_record_release(&r);
    for (size_t i = 0; i < 2; i++) {
        cluster_add(c, MASTER_PS);
        cluster_add(c, MASTER_WORKER);
    }
    while (c->asked.inspections == 0) {
        cluster_advance(c);
    }
    cluster_run_ms(c, 1000); /* the answer has come */
    assert_int_equal(c->asked.begins, begins);
    assert_string_equal(c->asked.inspect_encoding, begins ? "" : "{measured}");
    assert_string_equal(cluster_job(c, "old-1")->started_from,
                        begins ? TOOK : "what was taken before");
    cluster_free(c);
}

static void a_job_that_goes_on_does_not_look_again(void **state)
{
    (void)state;
    restart(9130, "old-1/step-000000007", false);
    restart(9131, "", true);
}

static void workers_have_to_know_its_variables(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(9140, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS(FROM));
    cluster_until(c, id, JOB_FAILED, 60000);
    cluster_assert_reason(c, id, "from: the worker told no variables");
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_begins_has_its_source_looked_at),
        cmocka_unit_test(another_encoding_is_measured_by_each_worker),
        cmocka_unit_test(another_job_says_nothing),
        cmocka_unit_test(who_begins_anew_begins_with_the_same),
        cmocka_unit_test(a_job_that_goes_on_does_not_look_again),
        cmocka_unit_test(workers_have_to_know_its_variables),
    };
    return cmocka_run_group_tests_name("master_from", tests, NULL, NULL);
}
