/* SPDX-License-Identifier: Apache-2.0 */
/* A backup: who may say what to it, what it does with records, and how it becomes the primary. */
#include "standby_rig.h"

static void test_a_backup_hears_its_primary_alone(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *b = &p->backup;
    pair_push(b, 1, 0, 0);
    rig_pull(b, 2, PULL_AT_LEAST, 0);
    rig_pin(b, SHARD_PIN, 3, "a", true);
    rig_pin(b, SHARD_UNPIN, 4, "a", false);
    rig_pin(b, SHARD_CHECKPOINT, 5, "a", false);
    rig_membership(b, 6, 2, 3);
    for (uintptr_t tag = 1; tag <= 6; tag++) {
        rig_expect(b, tag, ERR_STATE, "is a backup");
    }
    rig_event(b, SHARD_STATE, 7); /* a repeated OpenShard */
    rig_expect(b, 7, 0, "");
    assert_int_equal(b->version, 0);
    pair_free(p);
}

static void hear_again(struct pair *p, size_t record, uintptr_t tag)
{
    struct exchange_totals totals[RIG_ROUNDS];
    struct shard_event e = pair_event(&p->backup, &p->said[record], totals);
    e.tag = (void *)tag;
    rig_step(&p->backup, &e);
}

static void test_records_are_taken_in_order_and_once(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    pair_push(r, 1, 0, 0);
    rig_pin(r, SHARD_PIN, 2, "a", true);
    hear_again(p, 1, 1);
    rig_expect(&p->backup, 1, ERR_RANGE, "record 2, but the next one is 1");
    (void)pair_hear(p);
    hear_again(p, 0, 2);
    assert_int_equal(rig_replied(&p->backup, 2)->received, 1);
    assert_int_equal(p->backup.version, 1);
    (void)pair_hear(p);
    hear_again(p, 1, 3);
    assert_int_equal(rig_replied(&p->backup, 3)->received, 2);
    hear_again(p, 0, 4);
    assert_int_equal(rig_replied(&p->backup, 4)->received, 2);
    pair_receive(p);
    rig_expect_values(r, 1, 1);
    pair_free(p);
}

static void test_a_promoted_backup_is_a_primary_and_refuses_the_old_one(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    struct rig *b = &p->backup;
    pair_push(r, 1, 0, 0);
    pair_settle(p);
    pair_push(r, 2, 1, 0); /* on its way */
    standby_promote(b, 1, 1);
    rig_expect(b, 1, ERR_ABORTED, "generation 1 has its primary");
    standby_promote(b, 2, 2);
    assert_int_equal(rig_replied(b, 2)->version, 1);
    assert_int_equal(rig_replied(b, 2)->generation, 2);
    hear_again(p, 1, 3);
    rig_expect(b, 3, ERR_ABORTED, "this shard is a primary, in generation 2");
    assert_int_equal(b->version, 1);
    pair_receive(p);
    assert_null(rig_find(r, 2)); /* it was cut off, and shows nothing any more */
    standby_promote(b, 4, 2);    /* a call that comes again */
    assert_int_equal(rig_replied(b, 4)->version, 1);
    b->generation = 2;
    pair_push(b, 5, 0, 0);
    rig_expect_push(b, 5, PUSH_DUPLICATE);
    pair_push(b, 6, 1, 0);
    rig_expect_values(b, 6, 2);
    check_update(b, 0, 1, NULL);
    check_update(b, 1, 1, NULL);
    standby_promote(b, 7, 3); /* as any other generation */
    rig_expect(b, 7, 0, "");
    pair_free(p);
}

static void test_what_a_backup_cannot_follow_breaks_it(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    rig_pin(&p->primary, SHARD_PIN, 1, "a", true);
    struct exchange_totals totals[RIG_ROUNDS];
    struct shard_event e = pair_event(&p->backup, &p->said[0], totals);
    e.tag = (void *)1;
    free(e.slots_buffer);
    p->backup.buffers--;
    e.slots_buffer = NULL;
    rig_step(&p->backup, &e);
    rig_expect(&p->backup, 1, ERR_EXHAUSTED, "no memory for a copy of the slots");
    hear_again(p, 0, 2);
    rig_expect(&p->backup, 2, ERR_CORRUPT, "no memory for a copy of the slots");
    standby_promote(&p->backup, 3, 2);
    rig_expect(&p->backup, 3, ERR_CORRUPT, "cannot be the primary");
    struct shard_info info;
    shard_info(p->backup.shard, &info);
    assert_int_equal(info.broken->code, ERR_EXHAUSTED);
    assert_int_equal(info.records, 0);
    pair_free(p);
}

static void spoil(struct said *said, unsigned how)
{
    switch (how) {
    case 0:
        said->record.version++;
        break;
    case 1:
        said->record.generation++;
        break;
    case 2:
        said->has_gradient = false;
        break;
    case 3:
        said->record.rounds = 1;
        break;
    case 4:
        said->record.kind = SHARD_RECORD_DECISION;
        break;
    case 5:
        said->record.kind = SHARD_RECORD_FILL;
        break;
    default:
        said->record.kind = SHARD_RECORD_MEMBERSHIP;
        break;
    }
}

static void test_records_that_do_not_fit_change_nothing(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 7; how++) {
        struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
        pair_push(&p->primary, 1, 0, 0);
        const struct said sound = p->said[0];
        if (sound.record.examples == 0) { /* the first step has none */
            pair_settle(p);
            pair_push(&p->primary, 2, 1, 0);
        }
        uint64_t version = p->backup.version;
        struct said *last = &p->said[p->count - 1];
        struct said kept = *last;
        spoil(last, how);
        hear_again(p, p->count - 1, 1);
        assert_int_not_equal(rig_replied(&p->backup, 1)->code, 0);
        assert_int_equal(p->backup.version, version);
        assert_int_equal(p->backup.buffers, 0);
        *last = kept;
        hear_again(p, p->count - 1, 2);
        rig_expect(&p->backup, 2, ERR_CORRUPT, "does not follow any more");
        pair_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_backup_hears_its_primary_alone),
        cmocka_unit_test(test_records_are_taken_in_order_and_once),
        cmocka_unit_test(test_a_promoted_backup_is_a_primary_and_refuses_the_old_one),
        cmocka_unit_test(test_what_a_backup_cannot_follow_breaks_it),
        cmocka_unit_test(test_records_that_do_not_fit_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
