/* SPDX-License-Identifier: Apache-2.0 */
/* A backup joins a shard that trains: what its primary does meanwhile, and when it can take over.
 * (At any moment: test_shard_standby_death.c.) */
#include "standby_rig.h"

#define AHEAD 6 /* updates before the state is received */

static struct pair *pair_alone_of(enum training_mode mode, uint32_t replicas)
{
    const struct consistency c = rig_consistency(mode, replicas);
    return pair_alone(0, &c, 0);
}

static struct shard_info info_of(const struct rig *r)
{
    struct shard_info info;
    shard_info(r->shard, &info);
    return info;
}

/* One update of sync with one replica. */
static void update(struct rig *r, uintptr_t tag)
{
    pair_push(r, tag, r->version, 0);
}

/* ---- the state ---- */

static void test_a_backup_gets_the_state_and_every_update_after_it(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    update(r, 1);
    update(r, 2);
    assert_int_equal(p->count, 0);
    pair_join(p, 3, 5);
    rig_expect(r, 3, 0, ""); /* it waits for nothing */
    r->generation = 5;
    assert_int_equal(p->count, 1);
    assert_int_equal(p->said[0].record.number, 1);
    assert_int_equal(p->said[0].record.generation, 5);
    assert_int_equal(p->said[0].record.version, 2);
    assert_int_equal(info_of(&p->backup).filled, 0);
    update(r, 4);
    rig_expect_values(r, 4, 3);
    pair_settle(p);
    assert_int_equal(p->backup.version, 3);
    standby_same_values(r, &p->backup, 2);
    standby_same_values(r, &p->backup, 3);
    const struct shard_info here = info_of(r);
    const struct shard_info there = info_of(&p->backup);
    assert_true(here.follows);
    assert_int_equal(here.backup, p->opening);
    assert_int_equal(there.generation, 5);
    assert_int_equal(there.filled, RIG_FLOATS);
    assert_int_equal(there.examples, here.examples);
    assert_int_equal(there.pushes_applied, here.pushes_applied);
    update(r, 5);
    assert_null(rig_find(r, 5)); /* as any shard with a backup */
    pair_settle(p);
    rig_expect_values(r, 5, 4);
    pair_free(p);
}

static void test_what_is_kept_of_the_state_goes_when_it_is_received(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    pair_join(p, 1, 2);
    r->generation = 2;
    update(r, 2);
    assert_int_equal(r->kept[0], 1);
    assert_int_equal(r->buffers, 1); /* the copy of the slots */
    assert_true(pair_hear(p));
    pair_receive(p);
    assert_int_equal(r->kept[0], 0);
    assert_int_equal(r->buffers, 0);
    pair_free(p);
}

static void test_a_state_comes_twice(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_ASYNC, 0);
    pair_join(p, 1, 2);
    (void)pair_hear(p);
    p->heard = 0; /* its receipt was lost */
    struct exchange_totals totals[RIG_ROUNDS];
    struct shard_event e = pair_event(&p->backup, &p->said[0], totals);
    e.tag = (void *)9;
    rig_step(&p->backup, &e);
    assert_int_equal(rig_replied(&p->backup, 9)->received, 1);
    assert_int_equal(p->backup.actions.count, 1); /* nothing is loaded again */
    p->heard = 1;
    pair_receive(p);
    assert_true(pair_follows(p));
    pair_free(p);
}

/* ---- until it is received ---- */

static void hear(struct pair *p)
{
    assert_true(pair_hear(p));
    pair_receive(p);
}

static void test_a_shard_goes_on_before_the_state_is_received(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    pair_join(p, 100, 2);
    r->generation = 2;
    for (uintptr_t i = 1; i <= AHEAD; i++) {
        update(r, i);
        rig_expect_values(r, i, i);
    }
    r->can_apply = false; /* no room for one more */
    update(r, 50);
    r->can_apply = true;
    assert_true(shard_wants_snapshot(r->shard));
    /* with the state it is not waited for yet: one update for two that are received */
    hear(p);
    assert_false(shard_wants_snapshot(r->shard));
    hear(p);
    assert_true(shard_wants_snapshot(r->shard));
    rig_event(r, SHARD_SNAPSHOT, 0);
    rig_expect_values(r, 50, AHEAD + 1); /* what there is it may show */
    hear(p);
    r->can_apply = false;
    update(r, 51);
    r->can_apply = true;
    assert_false(shard_wants_snapshot(r->shard));
    hear(p);
    assert_true(shard_wants_snapshot(r->shard));
    assert_int_equal(r->version, AHEAD + 1);
    while (info_of(r).joining) {
        assert_false(pair_follows(p));
        hear(p);
    }
    assert_int_equal(info_of(r).records - info_of(r).received, 1); /* from now on it is */
    assert_false(pair_follows(p));
    assert_false(shard_wants_snapshot(r->shard));
    rig_pull(r, 52, PULL_AT_LEAST, 0);
    assert_null(rig_find(r, 52));
    hear(p);
    assert_true(pair_follows(p));
    rig_expect_values(r, 52, r->version);
    assert_true(shard_wants_snapshot(r->shard));
    rig_event(r, SHARD_SNAPSHOT, 0);
    assert_null(rig_find(r, 51));
    pair_settle(p);
    rig_expect_values(r, 51, AHEAD + 2);
    pair_free(p);
}

static void test_a_shard_says_since_when_it_waits_for_a_state_to_be_received(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    r->now_ms = 5000;
    pair_join(p, 1, 2);
    r->generation = 2;
    r->now_ms = 7000;
    update(r, 2);
    assert_int_equal(info_of(r).unreceived_ms, 5000);
    assert_int_equal(info_of(r).records, 2);
    r->now_ms = 8000;
    (void)pair_hear(p);
    pair_receive(p);
    assert_int_equal(info_of(r).unreceived_ms, 8000);
    pair_settle(p);
    assert_int_equal(info_of(r).unreceived_ms, 0);
    pair_free(p);
}

static void test_pins_and_generations_wait_behind_the_state(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    update(r, 1);
    pair_join(p, 2, 2);
    r->generation = 2;
    rig_pin(r, SHARD_PIN, 3, "a", true);
    rig_expect(r, 3, 0, "");
    standby_membership(r, 4, 3, true);
    rig_expect(r, 4, 0, "");
    r->generation = 3;
    update(r, 5);
    assert_int_equal(p->count, 4);
    pair_settle(p);
    assert_true(pair_follows(p));
    const struct shard_info there = info_of(&p->backup);
    assert_int_equal(there.generation, 3);
    assert_int_equal(there.pins, 1);
    assert_int_equal(there.pinned[0].version, 1);
    assert_int_equal(there.version, 2);
    pair_free(p);
}

/* ---- when it can take over ---- */

/* Another shard may be a step behind, and its workers want the version before. */
static void test_in_sync_a_backup_follows_one_version_after_its_state(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    update(r, 1);
    pair_join(p, 2, 2);
    r->generation = 2;
    pair_settle(p);
    assert_false(pair_follows(p));
    update(r, 3);
    pair_settle(p);
    assert_true(pair_follows(p));
    standby_promote(&p->backup, 1, 3);
    p->backup.generation = 3;
    rig_pull(&p->backup, 2, PULL_VERSION, 1);
    rig_expect_values(&p->backup, 2, 1);
    pair_push(&p->backup, 3, 1, 0);
    rig_expect_push(&p->backup, 3, PUSH_DUPLICATE);
    pair_push(&p->backup, 4, 2, 0);
    rig_expect_values(&p->backup, 4, 3);
    pair_free(p);
}

static void test_a_backup_of_the_first_version_follows_at_once(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    pair_join(p, 1, 2);
    assert_false(pair_follows(p));
    pair_settle(p);
    assert_true(pair_follows(p));
    pair_free(p);
}

static void test_a_backup_has_the_data_position_of_async(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_ASYNC, 0);
    struct rig *r = &p->primary;
    rig_push_async(r, 1, "w0", 0, 0, 0);
    rig_push_async(r, 2, "w1", 0, 1, 0);
    pair_join(p, 3, 2);
    r->generation = 2;
    rig_push_async(r, 4, "w0", 0, 0, 1);
    rig_expect_push(r, 4, PUSH_APPLIED);
    pair_settle(p);
    assert_true(pair_follows(p));
    assert_true(ledger_equal(info_of(r).ledger, info_of(&p->backup).ledger));
    standby_promote(&p->backup, 1, 3);
    p->backup.generation = 3;
    rig_push_async(&p->backup, 2, "w0", 0, 0, 1);
    rig_expect_push(&p->backup, 2, PUSH_DUPLICATE);
    rig_push_async(&p->backup, 3, "w1", 0, 1, 0);
    rig_expect_push(&p->backup, 3, PUSH_DUPLICATE);
    rig_push_async(&p->backup, 4, "w1", 0, 1, 1);
    rig_expect_push(&p->backup, 4, PUSH_APPLIED);
    pair_free(p);
}

/* An evaluation would lose its version with the primary. */
static void test_a_backup_follows_when_what_was_pinned_before_is_unpinned(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    rig_pin(r, SHARD_PIN, 1, "a", false);
    pair_join(p, 2, 2);
    r->generation = 2;
    update(r, 3);
    rig_pin(r, SHARD_PIN, 4, "b", false);
    pair_settle(p);
    assert_false(pair_follows(p));
    update(r, 5);
    assert_null(rig_find(r, 5)); /* it is waited for all the same */
    pair_settle(p);
    assert_false(pair_follows(p));
    rig_pin(r, SHARD_UNPIN, 6, "a", false);
    pair_settle(p);
    assert_true(pair_follows(p));
    assert_int_equal(info_of(&p->backup).pins, 1);
    pair_free(p);
}

/* The lead may have told others which replicas make up the step. */
static void test_the_state_has_the_decision_of_the_present_step(void **state)
{
    (void)state;
    struct consistency c = rig_consistency(TRAINING_SYNC, 3);
    c.aggregate = 2;
    struct pair *p = pair_alone(0, &c, 1);
    struct rig *r = &p->primary;
    struct rig *b = &p->backup;
    pair_push(r, 1, 0, 2);
    pair_push(r, 2, 0, 1);
    rig_ask_sums(r, 3, 0, 0);
    assert_int_equal(rig_replied(r, 3)->decision[0], 6);
    pair_join(p, 4, 2);
    pair_settle(p);
    assert_true(pair_follows(p));
    standby_promote(b, 1, 3);
    b->generation = 3;
    rig_ask_sums(b, 2, 0, 0);
    pair_push(b, 3, 0, 0); /* not part of the step, though it comes first */
    pair_push(b, 4, 0, 1);
    assert_null(rig_find(b, 2));
    pair_push(b, 5, 0, 2);
    assert_int_equal(rig_replied(b, 2)->decision[0], 6);
    pair_free(p);
}

/* ---- ends in between ---- */

static void test_a_backup_that_is_lost_while_it_joins_leaves_nothing(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    pair_join(p, 1, 2);
    r->generation = 2;
    for (uintptr_t i = 2; i <= AHEAD; i++) {
        update(r, i);
    }
    standby_membership(r, 20, 3, false);
    r->generation = 3;
    assert_int_equal(r->kept[0], 0);
    assert_int_equal(r->buffers, 0);
    assert_int_equal(info_of(r).role, SHARD_ALONE);
    assert_false(info_of(r).follows);
    const uint64_t version = r->version;
    update(r, 21);
    assert_int_equal(r->version, version + 1);
    /* the next one begins with record 1, and late receipts of the one before count for nothing */
    pair_join(p, 22, 4);
    r->generation = 4;
    struct shard_event e = {
        .kind = SHARD_RECEIPT, .own = true, .backup = p->opening - 1, .received = 1};
    rig_step(r, &e);
    assert_int_equal(info_of(r).received, 0);
    update(r, 23);
    pair_settle(p);
    assert_true(pair_follows(p));
    pair_free(p);
}

static void test_one_backup_takes_the_place_of_another(void **state)
{
    (void)state;
    const struct consistency c = rig_consistency(TRAINING_SYNC, 1);
    struct pair *p = pair_new(0, &c, 0, false);
    struct rig *r = &p->primary;
    assert_true(pair_follows(p));
    update(r, 1);
    pair_settle(p);
    update(r, 2); /* the backup is silent */
    pair_join(p, 3, 2);
    rig_expect(r, 2, ERR_ABORTED, "generation 1 is over");
    rig_expect(r, 3, 0, "");
    assert_false(pair_follows(p));
    assert_int_equal(p->count, 1); /* the old one hears no word of it */
    r->generation = 2;
    update(r, 4);
    rig_expect_values(r, 4, 3);
    pair_settle(p);
    assert_true(pair_follows(p));
    standby_same_values(r, &p->backup, 3);
    pair_free(p);
}

static void test_a_primary_is_closed_while_a_backup_joins(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    pair_join(p, 1, 2);
    rig_event(&p->primary, SHARD_CLOSE, 2);
    p->primary.generation = 2;
    rig_event(&p->primary, SHARD_CLOSE, 3);
    assert_int_equal(p->primary.kept[0], 0);
    assert_int_equal(p->primary.buffers, 0);
    pair_free(p);
}

/* ---- what there cannot be ---- */

static struct shard_event naming(const struct rig *r, uintptr_t tag, uint64_t generation)
{
    return (struct shard_event){.kind = SHARD_MEMBERSHIP,
                                .now_ms = r->now_ms,
                                .generation = generation,
                                .tag = (void *)tag,
                                .workers = RIG_WORKERS,
                                .worker_count = 3,
                                .has_backup = true,
                                .backup = 900};
}

static void test_without_memory_for_the_slots_the_shard_stays_as_it_was(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    struct shard_event e = naming(r, 1, 2);
    rig_step(r, &e);
    rig_expect(r, 1, ERR_EXHAUSTED, "no memory for a copy of the slots");
    assert_int_equal(info_of(r).generation, 1);
    assert_int_equal(p->count, 0);
    standby_membership(r, 2, 2, false);
    rig_expect(r, 2, 0, "");
    e = naming(r, 3, 2); /* a call that is late */
    e.slots_buffer = rig_buffer(r, 0);
    assert_false(shard_joins(r->shard, &e));
    rig_step(r, &e);
    assert_int_equal(r->buffers, 0);
    assert_int_equal(info_of(r).role, SHARD_ALONE);
    pair_free(p);
}

static void test_a_shard_without_its_initial_values_has_no_backup_that_joins(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    r->options.given = true;
    rig_reopen(r);
    struct shard_event e = naming(r, 1, 2);
    e.slots_buffer = rig_buffer(r, 0);
    rig_step(r, &e);
    rig_expect(r, 1, ERR_STATE, "have no initial values yet");
    assert_int_equal(r->buffers, 0);
    assert_int_equal(info_of(r).generation, 1);
    pair_free(p);
}

static void test_a_backup_without_its_state_is_nothing(void **state)
{
    (void)state;
    struct pair *p = pair_alone_of(TRAINING_SYNC, 1);
    struct rig *b = &p->backup;
    pair_join(p, 1, 2);
    p->primary.generation = 2;
    update(&p->primary, 2);
    standby_promote(b, 1, 3);
    rig_expect(b, 1, ERR_CORRUPT, "has not received the shard's state");
    pair_push(b, 2, 0, 0);
    rig_expect(b, 2, ERR_STATE, "is a backup");
    rig_event(b, SHARD_STATE, 3); /* a repeated OpenShard */
    rig_expect(b, 3, 0, "");
    pair_settle(p);
    assert_true(pair_follows(p));
    pair_free(p);
}

static void spoil(struct shard_event *e, unsigned how)
{
    switch (how) {
    case 0:
        e->elements--;
        break;
    case 1:
        e->ledger = NULL;
        break;
    case 2:
        e->consistency = NULL;
        break;
    case 3:
        e->record.kind = SHARD_RECORD_UNPIN; /* as if it had begun with the shard */
        break;
    case 4:
        e->worker_count = SHARD_WORKERS_MAX + 1;
        break;
    default:
        e->record.decision = (struct exchange_decision){0, (const uint8_t *)"\1", 1};
        break;
    }
}

static void test_a_state_that_does_not_fit_breaks_the_backup(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 6; how++) {
        struct pair *p = pair_alone_of(TRAINING_ASYNC, 0);
        struct exchange_totals totals[RIG_ROUNDS];
        pair_join(p, 1, 2);
        struct shard_event e = pair_event(&p->backup, &p->said[0], totals);
        e.tag = (void *)1;
        spoil(&e, how);
        rig_step(&p->backup, &e);
        assert_int_not_equal(rig_replied(&p->backup, 1)->code, 0);
        standby_promote(&p->backup, 2, 3);
        rig_expect(&p->backup, 2, ERR_CORRUPT, "cannot be the primary");
        e = pair_event(&p->backup, &p->said[0], totals);
        e.tag = (void *)3;
        rig_step(&p->backup, &e);
        rig_expect(&p->backup, 3, ERR_CORRUPT, "does not follow any more");
        pair_free(p);
    }
}

/* Whoever has followed from the beginning takes no state; nor one of a generation that is over. */
static void test_a_state_is_for_a_backup_that_joins_alone(void **state)
{
    (void)state;
    const struct consistency c = rig_consistency(TRAINING_SYNC, 1);
    struct pair *p = pair_new(0, &c, 0, false);
    struct pair *q = pair_alone_of(TRAINING_SYNC, 1);
    struct exchange_totals totals[RIG_ROUNDS];
    pair_join(q, 1, 2);
    struct shard_event e = pair_event(&p->backup, &q->said[0], totals);
    e.tag = (void *)1;
    rig_step(&p->backup, &e);
    rig_expect(&p->backup, 1, ERR_CORRUPT, "has followed before");
    e = pair_event(&q->backup, &q->said[0], totals);
    e.record.generation = 0;
    e.tag = (void *)2;
    rig_step(&q->backup, &e);
    rig_expect(&q->backup, 2, ERR_ABORTED, "generation 0 is over");
    pair_settle(q); /* it is not broken by that */
    assert_true(pair_follows(q));
    pair_free(p);
    pair_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_backup_gets_the_state_and_every_update_after_it),
        cmocka_unit_test(test_what_is_kept_of_the_state_goes_when_it_is_received),
        cmocka_unit_test(test_a_state_comes_twice),
        cmocka_unit_test(test_a_shard_goes_on_before_the_state_is_received),
        cmocka_unit_test(test_a_shard_says_since_when_it_waits_for_a_state_to_be_received),
        cmocka_unit_test(test_pins_and_generations_wait_behind_the_state),
        cmocka_unit_test(test_in_sync_a_backup_follows_one_version_after_its_state),
        cmocka_unit_test(test_a_backup_of_the_first_version_follows_at_once),
        cmocka_unit_test(test_a_backup_has_the_data_position_of_async),
        cmocka_unit_test(test_a_backup_follows_when_what_was_pinned_before_is_unpinned),
        cmocka_unit_test(test_the_state_has_the_decision_of_the_present_step),
        cmocka_unit_test(test_a_backup_that_is_lost_while_it_joins_leaves_nothing),
        cmocka_unit_test(test_one_backup_takes_the_place_of_another),
        cmocka_unit_test(test_a_primary_is_closed_while_a_backup_joins),
        cmocka_unit_test(test_without_memory_for_the_slots_the_shard_stays_as_it_was),
        cmocka_unit_test(test_a_shard_without_its_initial_values_has_no_backup_that_joins),
        cmocka_unit_test(test_a_backup_without_its_state_is_nothing),
        cmocka_unit_test(test_a_state_that_does_not_fit_breaks_the_backup),
        cmocka_unit_test(test_a_state_is_for_a_backup_that_joins_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
