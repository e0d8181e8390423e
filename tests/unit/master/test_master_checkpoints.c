/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that cannot be written, or read, for a time: the job waits and says for what. */
#include "cluster.h"

static void refuse(struct cluster *c, const char *node, enum master_call_kind kind, int code)
{
    struct fake_node *n = cluster_node(c, node);
    n->refuse = code;
    n->refuse_kind = kind;
}

/* The disk of the checkpoints, or memory for a copy, is full where the job ends. */
static void the_last_checkpoint_is_tried_until_there_is_room(void **state)
{
    (void)state;
    static const enum master_call_kind kinds[] = {MASTER_CALL_CHECKPOINT, MASTER_CALL_PIN};
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(8000 + i, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, SETS("training.checkpoint_every=never"));
        cluster_until_in(c, id, "TRAIN");
        if (i < 2) {
            refuse(c, "ps-2", kinds[i], ERR_EXHAUSTED);
        }
        c->manifest_fails = i == 2;
        cluster_run_ms(c, 400000);
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->state, JOB_RUNNING);
        assert_int_equal(r->step, 21);
        cluster_assert_reason(c, id, "checkpoint at step 21: ");
        cluster_assert_reason(c, id, "is in 60 s, its shards are kept");
        assert_true(cluster_holds(c, "ps-1", id));
        assert_int_equal(c->discards > 5, kinds[i % 2] == MASTER_CALL_CHECKPOINT);
        refuse(c, "ps-2", MASTER_CALL_CHECKPOINT, 0);
        c->manifest_fails = false;
        r = cluster_until(c, id, JOB_SUCCEEDED, 70000);
        assert_string_equal(r->checkpoint, "demo-1/step-000000021");
        assert_in_range(c->prunes, 1, c->discards + 1);
        cluster_run_ms(c, 5000);
        assert_false(cluster_holds(c, "ps-1", id));
        cluster_free(c);
    }
}

/* Who cancels does not wait for a disk. */
static void a_cancelled_job_ends_without_a_checkpoint(void **state)
{
    (void)state;
    static const char *const PLACES[] = {"TRAIN", "FINISH"};
    for (size_t i = 0; i < 4; i++) {
        struct cluster *c = cluster_new(8010 + i, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0);
        refuse(c, "ps-2", i < 2 ? MASTER_CALL_CHECKPOINT : MASTER_CALL_PIN, ERR_EXHAUSTED);
        if (i % 2 == 1) {
            cluster_run_ms(c, 200000); /* it stands at its end */
            cluster_assert_reason(c, id, "its shards are kept");
        } else {
            cluster_until_in(c, id, PLACES[0]);
        }
        assert_int_equal(cluster_cancel(c, id, false), 0);
        const struct job_record *r = cluster_until(c, id, JOB_CANCELLED, 10000);
        assert_non_null(strstr(r->reason, "refused by the test"));
        assert_non_null(strstr(r->reason, "there is no checkpoint"));
        assert_string_equal(r->checkpoint, "");
        assert_int_equal(c->releases, 1);
        cluster_free(c);
    }
}

/* Within a job a checkpoint that fails is one that is missing. */
static void a_pin_that_is_refused_fails_a_checkpoint(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async",
                                        "training.mode=bounded"};
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(8020 + i, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id, SETS(modes[i], "training.checkpoint_every=5"));
        cluster_until_in(c, id, "TRAIN");
        refuse(c, "ps-1", MASTER_CALL_PIN, ERR_EXHAUSTED);
        size_t k = cluster_ask_checkpoint(c, id);
        assert_int_equal(cluster_answer(c, k, 60000), ERR_INTERNAL);
        assert_non_null(strstr(c->answer[k].msg, "Pin on ps-1: refused by the test"));
        assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
        uint64_t step = cluster_job(c, id)->step;
        while (cluster_job(c, id)->step <= step) {
            cluster_advance(c);
        }
        cluster_assert_reason(c, id, "checkpoint at step ");
        refuse(c, "ps-1", MASTER_CALL_PIN, 0);
        assert_string_equal(cluster_until(c, id, JOB_SUCCEEDED, 600000)->reason, "");
        cluster_free(c);
    }
}

static struct cluster *with_checkpoint(uint64_t seed, char id[64])
{
    struct cluster *c = cluster_new(seed, 3, 2);
    cluster_submit(c, "demo", id, SETS("training.checkpoint_every=5"));
    while (cluster_job(c, id)->checkpoint[0] == '\0') {
        cluster_advance(c);
    }
    return c;
}

/* A master that died may have left more than are kept, and these fill the disk. */
static void a_checkpoint_that_fails_lets_older_ones_go(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(8033, 2, 2);
    cluster_submit(
        c, "demo", id,
        SETS("training.checkpoint_every=5", "training.epochs=0", "training.steps=100000"));
    c->manifest_fails = true;
    for (size_t discards = 1; discards < 4; discards++) {
        while (c->discards < discards) {
            cluster_advance(c);
        }
        cluster_run_ms(c, 100);
        assert_in_range(c->prunes, discards, c->discards);
    }
    c->store_fails = true; /* its stored row may name one of those that would go */
    while (strstr(cluster_job(c, id)->reason, "cannot be stored") == NULL) {
        cluster_advance(c);
    }
    const size_t prunes = c->prunes, discards = c->discards;
    while (c->discards < discards + 3) {
        cluster_advance(c);
    }
    assert_int_equal(c->prunes, prunes);
    c->store_fails = false;
    while (c->prunes == prunes) {
        cluster_advance(c);
    }
    assert_string_equal(cluster_job(c, id)->checkpoint, "");
    cluster_free(c);
}

static void a_job_waits_for_its_checkpoints(void **state)
{
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        char id[64];
        struct cluster *c = with_checkpoint(8030, id);
        c->find_gone = gone == 1;
        c->find_fails = gone == 1 ? 0 : ERR_INTERNAL;
        cluster_kill(cluster_node(c, "ps-1"));
        cluster_run_ms(c, 300000);
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->state, JOB_RECOVERING);
        assert_true(r->step >= 5);
        cluster_assert_reason(c, id,
                              gone == 1
                                  ? "none of its checkpoints can be read, and it had "
                                    "demo-1/step-000000005: nothing is there"
                                  : "cannot look for its newest checkpoint: the disk does not "
                                    "answer");
        assert_true(r->generation < 30); /* with pauses */
        c->find_gone = false;
        c->find_fails = 0;
        cluster_until(c, id, JOB_SUCCEEDED, 100000);
        cluster_free(c);
    }
}

static void a_damaged_checkpoint_is_avoided(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = with_checkpoint(8040, id);
    refuse(c, "ps-2", MASTER_CALL_OPEN, ERR_CORRUPT);
    refuse(c, "ps-3", MASTER_CALL_OPEN, ERR_CORRUPT);
    cluster_kill(cluster_node(c, "ps-1"));
    while (c->avoided == 0) {
        cluster_advance(c);
    }
    cluster_assert_reason(c, id, "refused by the test");
    refuse(c, "ps-2", MASTER_CALL_OPEN, 0);
    refuse(c, "ps-3", MASTER_CALL_OPEN, 0);
    cluster_until(c, id, JOB_SUCCEEDED, 100000);
    cluster_free(c);
}

/* When no other is left, what is damaged is still told. */
static void what_is_damaged_is_told_while_none_is_left(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = with_checkpoint(8045, id);
    refuse(c, "ps-2", MASTER_CALL_OPEN, ERR_CORRUPT);
    refuse(c, "ps-3", MASTER_CALL_OPEN, ERR_CORRUPT);
    c->only_one = true;
    cluster_kill(cluster_node(c, "ps-1"));
    const char *none = "none of its checkpoints can be read, and it had ";
    while (strstr(cluster_job(c, id)->reason, none) == NULL) {
        cluster_advance(c);
    }
    cluster_assert_reason(c, id, cluster_job(c, id)->checkpoint);
    cluster_assert_reason(c, id, "refused by the test");
    refuse(c, "ps-2", MASTER_CALL_OPEN, 0);
    refuse(c, "ps-3", MASTER_CALL_OPEN, 0);
    cluster_until(c, id, JOB_SUCCEEDED, 100000);
    cluster_free(c);
}

/* A server that cannot read them now is no reason to take older ones, nor to give up. */
static void a_server_that_cannot_read_is_asked_again(void **state)
{
    (void)state;
    static const int codes[] = {ERR_PERMISSION, ERR_NOT_FOUND, ERR_INTERNAL, ERR_EXHAUSTED};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char id[64];
        struct cluster *c = with_checkpoint(8050 + i, id);
        refuse(c, "ps-2", MASTER_CALL_OPEN, codes[i]);
        refuse(c, "ps-3", MASTER_CALL_OPEN, codes[i]);
        cluster_kill(cluster_node(c, "ps-1"));
        cluster_run_ms(c, 100000);
        assert_int_equal(cluster_job(c, id)->state, JOB_RECOVERING);
        assert_int_equal(c->avoided, 0);
        refuse(c, "ps-2", MASTER_CALL_OPEN, 0);
        refuse(c, "ps-3", MASTER_CALL_OPEN, 0);
        cluster_until(c, id, JOB_SUCCEEDED, 100000);
        cluster_free(c);
    }
}

/* Nobody asks: what is older than that is followed by another, in all modes, and one that cannot be
 * written is tried again after as long. */
static void a_checkpoint_is_never_older_than_that(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=sync", "training.mode=async",
                                        "training.mode=bounded"};
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(8060 + i, 2, 2);
        char id[64];
        cluster_submit(c, "demo", id,
                       SETS(modes[i], "training.checkpoint_every=never", "training.epochs=0",
                            "training.steps=100000", "training.evaluate_every=never",
                            "training.checkpoint_within=20s"));
        cluster_until_in(c, id, "TRAIN");
        assert_int_equal(c->manifests, 0);
        cluster_run_ms(c, 60000);
        const size_t made = c->manifests;
        assert_in_range(made, 2, 15); /* ends of epochs count, from 4 s on */
        assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
        assert_true(cluster_job(c, id)->checkpoint[0] != '\0');
        c->manifest_fails = true;
        cluster_run_ms(c, 60000);
        assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
        c->manifest_fails = false;
        cluster_run_ms(c, 60000);
        assert_true(c->manifests > made);
        cluster_free(c);
    }
}

static void without_it_there_is_none_before_the_end(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(8070, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id,
                   SETS("training.checkpoint_every=never", "training.epochs=0",
                        "training.steps=100000", "training.checkpoint_within=0"));
    cluster_until_in(c, id, "TRAIN");
    cluster_run_ms(c, 400000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    assert_int_equal(c->manifests, 0);
    cluster_free(c);
}

/* A pin that was taken before the job was set to async has no ledger. Its answer, which comes after
 * that of a new generation, does not take the place of what the shard has said there. */
static void a_pin_of_sync_says_nothing_of_ledgers(void **state)
{
    (void)state;
    char id[64];
    struct cluster *c = cluster_new(730, 2, 2);
    cluster_submit(c, "demo", id,
                   SETS("training.mode=async", "training.epochs=30",
                        "training.evaluate_every=never", "training.checkpoint_every=1 epoch"));
    cluster_until_in(c, id, "TRAIN");
    struct fake_node *first = cluster_node(c, "ps-1"), *second = cluster_node(c, "ps-2");
    first->pinned_in_sync = true;
    first->slow_kind = MASTER_CALL_PIN;
    first->slow_ms = 20000;
    second->slow_kind = MASTER_CALL_MEMBERSHIP;
    second->slow_ms = 40000;
    cluster_until_in(c, id, "PIN");
    const uint64_t generation = cluster_job(c, id)->generation;
    cluster_kill(cluster_node(c, "worker-2"));
    while (cluster_job(c, id)->generation == generation) {
        cluster_advance(c);
    }
    cluster_run_ms(c, 60000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    first->slow_ms = second->slow_ms = 0;
    assert_int_equal(cluster_run_to_end(c, id)->recoveries, 0);
    assert_int_equal(cluster_job(c, id)->state, JOB_SUCCEEDED);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pin_of_sync_says_nothing_of_ledgers),
        cmocka_unit_test(the_last_checkpoint_is_tried_until_there_is_room),
        cmocka_unit_test(a_cancelled_job_ends_without_a_checkpoint),
        cmocka_unit_test(a_pin_that_is_refused_fails_a_checkpoint),
        cmocka_unit_test(a_checkpoint_that_fails_lets_older_ones_go),
        cmocka_unit_test(a_job_waits_for_its_checkpoints),
        cmocka_unit_test(a_checkpoint_is_never_older_than_that),
        cmocka_unit_test(without_it_there_is_none_before_the_end),
        cmocka_unit_test(a_damaged_checkpoint_is_avoided),
        cmocka_unit_test(what_is_damaged_is_told_while_none_is_left),
        cmocka_unit_test(a_server_that_cannot_read_is_asked_again),
    };
    return cmocka_run_group_tests_name("master_checkpoints", tests, NULL, NULL);
}
