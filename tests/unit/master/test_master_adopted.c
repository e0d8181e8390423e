/* SPDX-License-Identifier: Apache-2.0 */
/* How far a job is that a master has just taken over: as far as its shards are, before any worker
 * has reported. */
#include "cluster.h"

#include "base/mem.h"

static const char *const modes[] = {"training.mode=sync", "training.mode=async",
                                    "training.mode=bounded"};

static const struct fake_position *position(struct cluster *c, const char *id)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        if (strcmp(c->positions[i].job, id) == 0) {
            return &c->positions[i];
        }
    }
    fail_msg("%s is nowhere", id);
    return NULL;
}

/* The next master has a row that was stored when the job began. */
static struct cluster *restart(size_t i, char id[64])
{
    struct cluster *c = cluster_new(5000 + i, 2, 2);
    cluster_submit(c, "demo", id, SETS(modes[i % 3], "training.epochs=300"));
    cluster_until_in(c, id, "TRAIN");
    cluster_run_ms(c, 2000 + i * 371);
    c->row_of_start = true;
    cluster_restart_master(c, id);
    return c;
}

static void the_step_is_that_of_the_shards(void **state)
{
    (void)state;
    for (size_t i = 0; i < 12; i++) {
        char id[64];
        struct cluster *c = restart(i, id);
        while (cluster_job(c, id)->adoptions == 0) {
            cluster_advance(c);
        }
        assert_int_equal(cluster_job(c, id)->step, position(c, id)->version);
        cluster_free(c);
    }
}

/* Whenever that is asked for: before the shards have said how far they are, too. */
static void fewer_epochs_end_it_where_it_is(void **state)
{
    (void)state;
    size_t before = 0;
    for (size_t i = 0; i < 12; i++) {
        char id[64];
        struct cluster *c = restart(i, id);
        cluster_run_ms(c, i * 7);
        before += cluster_job(c, id)->adoptions == 0;
        const uint64_t version = position(c, id)->version;
        const size_t k = cluster_set(c, id, SETS("training.epochs=1"));
        assert_int_equal(cluster_answer(c, k, 60000), 0);
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_true(r->step >= version);
        assert_int_equal(r->step, r->steps_total);
        assert_int_equal(r->step, position(c, id)->version);
        cluster_free(c);
    }
    assert_true(before > 0 && before < 12);
}

/* Before anything else is stored: the next master counts on from it, whenever this one ends. */
static void an_adoption_is_in_the_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c = cluster_new(5100 + i, 2, 2);
        cluster_submit(c, "demo", id, SETS(modes[i], "training.epochs=300"));
        cluster_until_in(c, id, "TRAIN");
        for (uint64_t adoptions = 1; adoptions <= 3; adoptions++) {
            cluster_restart_master(c, id);
            while (cluster_job(c, id)->adoptions < adoptions) {
                cluster_advance(c);
            }
            assert_int_equal(c->stored[cluster_stored(c, id)].adoptions, adoptions);
        }
        cluster_free(c);
    }
}

/* A pin that the row knew is in the row that says that the job is adopted, too: it is not on all
 * shards again yet, and this master may end now. */
static void what_is_pinned_stays_in_the_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char id[64];
        struct cluster *c = cluster_new(5200 + i, 2, 2);
        c->tells_pins = true;
        cluster_submit(c, "demo", id,
                       SETS(modes[i], "training.epochs=300", "training.evaluate_every=4 epochs",
                            "training.checkpoint_every=4 epochs"));
        cluster_until_in(c, id, "TRAIN");
        while (cluster_job(c, id)->handover.pin.id == NULL) {
            cluster_advance(c);
        }
        char *pin = mem_strdup(cluster_job(c, id)->handover.pin.id);
        cluster_restart_master(c, id);
        while (cluster_job(c, id)->adoptions == 0) {
            cluster_advance(c);
        }
        assert_string_equal(master_job_work(c->m, id), "PIN");
        assert_non_null(cluster_job(c, id)->handover.pin.id);
        assert_string_equal(cluster_job(c, id)->handover.pin.id, pin);
        free(pin);
        cluster_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_is_that_of_the_shards),
        cmocka_unit_test(fewer_epochs_end_it_where_it_is),
        cmocka_unit_test(an_adoption_is_in_the_row),
        cmocka_unit_test(what_is_pinned_stays_in_the_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
