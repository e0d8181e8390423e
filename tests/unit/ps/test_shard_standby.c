/* SPDX-License-Identifier: Apache-2.0 */
/* A shard with a backup: what waits for the backup, who may say what to it, and how it becomes the
 * primary. (That nothing is lost whenever a primary dies: test_shard_standby_death.c.) */
#include "standby_rig.h"

static struct pair *open_mode(enum training_mode mode, uint32_t replicas)
{
    const struct consistency c = rig_consistency(mode, replicas);
    return pair_new(0, &c, 0, false);
}

static void push_and_pull(struct rig *r, uintptr_t tag, uint64_t step, uint32_t replica)
{
    struct shard_event e = gradient_push(r, tag, step, replica, replica + 1);
    e.ask.has_pull = true;
    e.ask.pull = (struct exchange_pull){.kind = PULL_VERSION, .version = step + 1};
    rig_step(r, &e);
}

static void snapshot(struct pair *p)
{
    rig_event(&p->primary, SHARD_SNAPSHOT, 0);
    pair_check(p);
}

static void test_an_update_is_said_before_it_is_made_and_shown_when_it_is_received(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 3);
    struct rig *r = &p->primary;
    push_and_pull(r, 1, 0, 1);
    push_and_pull(r, 2, 0, 0); /* without examples */
    push_and_pull(r, 3, 0, 2);
    const struct shard_actions *did = &r->actions;
    assert_int_equal(did->items[0].kind, SHARD_ADD); /* one sum, which the record has */
    assert_int_equal(did->items[2].kind, SHARD_EMIT);
    assert_int_equal(did->items[3].kind, SHARD_APPLY);
    assert_int_equal(r->version, 1);
    assert_int_equal(r->reply_count, 0);
    rig_pull(r, 4, PULL_AT_LEAST, 0);
    assert_int_equal(r->reply_count, 0);
    assert_true(pair_hear(p));
    assert_int_equal(p->backup.version, 1);
    assert_int_equal(r->reply_count, 0);
    pair_receive(p);
    rig_expect_values(r, 1, 1);
    rig_expect_push(r, 3, PUSH_APPLIED);
    rig_expect_values(r, 4, 1);
    check_update(&p->backup, 0, 3, NULL);
    standby_same_values(r, &p->backup, 1);
    pair_free(p);
}

static void test_no_update_begins_while_a_record_is_on_its_way(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 2);
    struct rig *r = &p->primary;
    rig_pin(r, SHARD_PIN, 1, "a", true);
    push_and_pull(r, 2, 0, 0);
    push_and_pull(r, 3, 0, 1);
    assert_int_equal(r->version, 0);
    assert_false(shard_wants_snapshot(r->shard));
    snapshot(p);
    assert_int_equal(r->version, 0);
    assert_int_equal(r->reply_count, 0);
    assert_true(pair_hear(p));
    pair_receive(p);
    rig_expect(r, 1, 0, "");
    assert_true(shard_wants_snapshot(r->shard));
    snapshot(p);
    assert_int_equal(r->version, 1);
    pair_settle(p);
    rig_expect_values(r, 3, 1);
    pair_free(p);
}

/* "This shard is past that step" is an answer that shows it. */
static void test_idle_workers_wait_too(void **state)
{
    (void)state;
    struct consistency c = rig_consistency(TRAINING_SYNC, 2);
    c.speculate = 2;
    struct pair *p = pair_new(0, &c, 0, false);
    struct rig *r = &p->primary;
    push_and_pull(r, 1, 0, 0);
    push_and_pull(r, 2, 0, 1);
    struct shard_event e = rig_exchange(r, 3, "w0");
    e.ask = (struct exchange_request){.kind = EXCHANGE_SPARE, .spare_step = 0};
    rig_step(r, &e);
    assert_int_equal(r->reply_count, 0);
    pair_settle(p);
    assert_true(rig_replied(r, 3)->has_spare);
    assert_false(rig_replied(r, 3)->spare_given);
    pair_free(p);
}

static void read_pin(struct rig *r, uintptr_t tag, const char *id, bool exact, uint64_t version)
{
    struct shard_event e = {
        .kind = SHARD_READ,
        .now_ms = r->now_ms,
        .generation = r->generation,
        .tag = (void *)tag,
        .pin_id = id,
        .read = {.kind = SHARD_READ_PIN, .exact = exact, .version = version, .ms = 1000}};
    rig_step(r, &e);
}

/* A reader pins what may be shown, and is told of nothing else. */
static void test_readers_wait_for_what_they_pin(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    read_pin(r, 1, "exact", true, 1);
    push_and_pull(r, 2, 0, 0);
    read_pin(r, 3, "any", false, 0);
    assert_int_equal(r->kept[1], 0);
    struct shard_event end = {.kind = SHARD_READ,
                              .generation = 1,
                              .tag = (void *)4,
                              .pin_id = "none",
                              .read = {.kind = SHARD_READ_END}};
    rig_step(r, &end);
    assert_int_equal(rig_replied(r, 4)->version, 0);
    assert_int_equal(r->reply_count, 1);
    pair_settle(p);
    assert_int_equal(rig_replied(r, 1)->version, 1);
    assert_int_equal(rig_replied(r, 3)->version, 1);
    assert_int_equal(r->kept[1], 2);
    pair_free(p);
}

static void test_async_pushes_are_updates_one_receipt_after_the_other(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_ASYNC, 0);
    struct rig *r = &p->primary;
    rig_push_async(r, 1, "w0", 0, 0, 0);
    rig_push_async(r, 2, "w1", 0, 1, 0);
    rig_push_async(r, 3, "w0", 0, 0, 0); /* again: its answer waits, too */
    rig_pull_latest(r, 4, "w2");
    assert_int_equal(r->version, 1);
    assert_int_equal(r->reply_count, 0);
    assert_true(pair_hear(p));
    pair_receive(p);
    rig_expect_push(r, 1, PUSH_APPLIED);
    rig_expect_push(r, 3, PUSH_DUPLICATE);
    rig_expect_values(r, 4, 1);
    assert_null(rig_find(r, 2));
    snapshot(p);
    assert_int_equal(r->version, 2);
    assert_null(rig_find(r, 2));
    pair_settle(p);
    rig_expect_push(r, 2, PUSH_APPLIED);
    struct shard_info info;
    shard_info(p->backup.shard, &info);
    assert_int_equal(info.ledger->done[0], 1);
    assert_int_equal(info.ledger->done[1], 1);
    assert_int_equal(info.pushes_applied, 2);
    pair_free(p);
}

/* ---- the master's requests ---- */

static void test_the_master_is_answered_when_the_backup_has_it(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_ASYNC, 0);
    struct rig *r = &p->primary;
    rig_push_async(r, 1, "w0", 0, 0, 0);
    rig_pin(r, SHARD_PIN, 2, "a", true);
    rig_event(r, SHARD_STATE, 3);
    rig_pin(r, SHARD_UNPIN, 4, "b", false);
    assert_int_equal(r->reply_count, 0);
    assert_int_equal(p->count, 3);
    (void)pair_hear(p);
    (void)pair_hear(p);
    pair_receive(p);
    assert_int_equal(r->reply_count, 0); /* one is still on its way */
    (void)pair_hear(p);
    pair_receive(p);
    rig_expect(r, 1, 0, "");
    assert_int_equal(rig_replied(r, 2)->version, 1);
    assert_int_equal(rig_replied(r, 2)->done0, 1);
    assert_int_equal(rig_replied(r, 3)->done0, 1);
    assert_int_equal(rig_replied(r, 4)->version, 1);
    rig_pin(r, SHARD_PIN, 5, "a", true); /* again: nothing new */
    rig_expect(r, 5, 0, "");
    pair_free(p);
}

static void test_who_does_not_wait_any_more_is_not_answered(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    rig_pin(r, SHARD_PIN, 1, "a", false);
    rig_event(r, SHARD_STATE, 2);
    rig_event(r, SHARD_GONE, 1);
    pair_settle(p);
    assert_null(rig_find(r, 1));
    rig_expect(r, 2, 0, "");
    struct shard_info info;
    shard_info(p->backup.shard, &info);
    assert_int_equal(info.pins, 1);
    pair_free(p);
}

static void test_a_new_generation_is_a_record(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 2);
    struct rig *r = &p->primary;
    rig_pin(r, SHARD_PIN, 1, "a", false);
    push_and_pull(r, 2, 0, 0);
    standby_membership(r, 3, 2, true);
    rig_expect(r, 1, ERR_ABORTED, "generation 1 is over");
    rig_expect(r, 2, ERR_ABORTED, "generation 1 is over");
    assert_null(rig_find(r, 3));
    r->generation = 2;
    pair_settle(p);
    assert_int_equal(rig_replied(r, 3)->generation, 2);
    struct shard_info info;
    shard_info(p->backup.shard, &info);
    assert_int_equal(info.generation, 2);
    assert_int_equal(info.pins, 1);
    pair_free(p);
}

/* Mode, data position, and pins of a master that is gone. */
static void test_a_change_of_the_job_is_a_record(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    struct rig *b = &p->backup;
    rig_pin(r, SHARD_PIN, 1, "a", true);
    pair_settle(p);
    push_and_pull(r, 2, 0, 0);
    pair_settle(p);
    rig_pin(r, SHARD_PIN, 3, "b", true);
    const struct consistency c = rig_consistency(TRAINING_ASYNC, 0);
    struct ledger l;
    ledger_copy(&l, &r->ledger);
    l.done[0] = 1;
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .generation = 2,
                            .tag = (void *)4,
                            .workers = RIG_WORKERS,
                            .worker_count = 2,
                            .consistency = &c,
                            .ledger = &l,
                            .version = 1,
                            .forget_pins = true,
                            .keep_pin = "b",
                            .has_backup = true,
                            .backup = PAIR_OPENING};
    rig_step(r, &e);
    ledger_release(&l);
    r->generation = 2;
    pair_settle(p);
    assert_int_equal(rig_replied(r, 4)->done0, 1);
    rig_push_async(r, 5, "w0", 0, 0, 1);
    pair_settle(p);
    rig_expect_push(r, 5, PUSH_APPLIED);
    standby_promote(b, 1, 3);
    b->generation = 3;
    assert_int_equal(rig_replied(b, 1)->done0, 2);
    assert_int_equal(rig_replied(b, 1)->version, 2);
    assert_int_equal(b->kept[0], 0);
    assert_int_equal(b->kept[1], 1);
    rig_push_async(b, 2, "w0", 0, 0, 1);
    rig_expect_push(b, 2, PUSH_DUPLICATE);
    rig_pin(b, SHARD_CHECKPOINT, 3, "b", false);
    assert_true(rig_replied(b, 3)->write);
    rig_pin(b, SHARD_PIN, 4, "a", true); /* as of a call that comes late */
    rig_expect(b, 4, ERR_ABORTED, "'a' was unpinned before");
    standby_same_values(r, b, 2);
    pair_free(p);
}

static void test_without_its_backup_it_waits_until_the_master_says_so(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    r->now_ms = 5000;
    push_and_pull(r, 1, 0, 0);
    rig_event(r, SHARD_STATE, 2);
    r->now_ms = 9000;
    push_and_pull(r, 3, 1, 0);
    assert_int_equal(r->reply_count, 0);
    struct shard_info info;
    shard_info(r->shard, &info);
    assert_int_equal(info.role, SHARD_PRIMARY);
    assert_int_equal(info.records, 1);
    assert_int_equal(info.received, 0);
    assert_int_equal(info.unreceived_ms, 5000);
    standby_membership(r, 4, 2, false);
    rig_expect(r, 1, ERR_ABORTED, "generation 1 is over");
    rig_expect(r, 2, ERR_ABORTED, "generation 1 is over");
    rig_expect(r, 3, ERR_ABORTED, "generation 1 is over");
    assert_int_equal(rig_replied(r, 4)->version, 1); /* what it has made stays */
    r->generation = 2;
    push_and_pull(r, 5, 0, 0);
    rig_expect_push(r, 5, PUSH_DUPLICATE);
    push_and_pull(r, 6, 1, 0);
    rig_expect_values(r, 6, 2);
    shard_info(r->shard, &info);
    assert_int_equal(info.role, SHARD_ALONE);
    assert_int_equal(info.unreceived_ms, 0);
    assert_int_equal(p->count, 1);
    standby_membership(r, 7, 3, true); /* it has gone on since */
    rig_expect(r, 7, ERR_STATE, "was not opened with");
    pair_free(p);
}

static void test_receipts_of_others_and_of_the_future_count_for_nothing(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    push_and_pull(r, 1, 0, 0);
    struct shard_event e = {.kind = SHARD_RECEIPT, .own = true, .backup = 1, .received = 1};
    rig_step(r, &e);
    e.backup = PAIR_OPENING;
    e.received = 2;
    rig_step(r, &e);
    e.received = 0;
    rig_step(r, &e);
    assert_int_equal(r->reply_count, 0);
    pair_settle(p);
    rig_expect_values(r, 1, 1);
    pair_free(p);
}

/* ---- the backup ---- */

static void test_a_backup_hears_its_primary_alone(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *b = &p->backup;
    push_and_pull(b, 1, 0, 0);
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
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    push_and_pull(r, 1, 0, 0);
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
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    struct rig *b = &p->backup;
    push_and_pull(r, 1, 0, 0);
    pair_settle(p);
    push_and_pull(r, 2, 1, 0); /* on its way */
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
    push_and_pull(b, 5, 0, 0);
    rig_expect_push(b, 5, PUSH_DUPLICATE);
    push_and_pull(b, 6, 1, 0);
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
    struct pair *p = open_mode(TRAINING_SYNC, 1);
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
        struct pair *p = open_mode(TRAINING_SYNC, 1);
        push_and_pull(&p->primary, 1, 0, 0);
        const struct said sound = p->said[0];
        if (sound.record.examples == 0) { /* the first step has none */
            pair_settle(p);
            push_and_pull(&p->primary, 2, 1, 0);
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

/* ---- what comes before training, and what there cannot be ---- */

static void test_initial_values_are_passed_on(void **state)
{
    (void)state;
    const struct consistency c = rig_consistency(TRAINING_SYNC, 1);
    struct pair *p = pair_new(1, &c, 0, true);
    const float given[RIG_FLOATS] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (uint64_t first = 0; first < RIG_FLOATS; first += 3) {
        uint64_t n = first + 4 <= RIG_FLOATS ? 4 : RIG_FLOATS - first;
        struct shard_event e = {.kind = SHARD_FILL,
                                .generation = 1,
                                .tag = (void *)(first + 1),
                                .first = first,
                                .elements = n,
                                .given = given + first};
        rig_step(&p->primary, &e);
        assert_null(rig_find(&p->primary, first + 1));
        pair_settle(p);
        assert_int_equal(rig_replied(&p->primary, first + 1)->filled, first + n);
    }
    assert_true(p->backup.whole);
    assert_memory_equal(p->backup.values[0], given, sizeof given);
    pair_free(p);
}

static void test_bases_have_no_backup(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct err err;
    struct shard_options o = p->primary.options;
    o.consistency = rig_consistency(TRAINING_ASYNC, 0);
    o.keeps_bases = true;
    assert_null(shard_new(&o, &err));
    assert_int_equal(err.code, ERR_INVALID);
    o.role = SHARD_BACKUP;
    assert_null(shard_new(&o, &err));
    o.keeps_bases = false;
    o.consistency.policy = POLICY_DELAY_COMPENSATION;
    assert_null(shard_new(&o, &err));
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .generation = 2,
                            .tag = (void *)1,
                            .consistency = &o.consistency,
                            .ledger = &p->primary.ledger,
                            .has_backup = true,
                            .backup = PAIR_OPENING};
    rig_step(&p->primary, &e);
    rig_expect(&p->primary, 1, ERR_INVALID, "what each worker read");
    assert_int_equal(p->count, 0);
    e.has_backup = false;
    e.tag = (void *)2;
    rig_step(&p->primary, &e);
    rig_expect(&p->primary, 2, 0, "");
    pair_free(p);
}

static void test_a_primary_can_be_closed_while_answers_wait(void **state)
{
    (void)state;
    struct pair *p = open_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    push_and_pull(r, 1, 0, 0);
    rig_event(r, SHARD_STATE, 2);
    rig_event(r, SHARD_CLOSE, 3);
    rig_expect(r, 1, ERR_NOT_FOUND, "closed");
    rig_expect(r, 2, ERR_NOT_FOUND, "closed");
    rig_expect(r, 3, 0, "");
    pair_receive(p);
    pair_free(p);
}

/* ---- the lead's decision ---- */

/* With rounds of sums others hear of it before the step is applied. */
static void test_the_leads_decision_survives_it(void **state)
{
    (void)state;
    struct consistency c = rig_consistency(TRAINING_SYNC, 3);
    c.aggregate = 2;
    struct pair *p = pair_new(0, &c, RIG_ROUNDS, false);
    struct rig *r = &p->primary;
    struct rig *b = &p->backup;
    push_and_pull(r, 1, 0, 2);
    push_and_pull(r, 2, 0, 1);
    rig_ask_sums(r, 3, 0, 0);
    assert_int_equal(p->count, 1);
    assert_int_equal(p->said[0].record.kind, SHARD_RECORD_DECISION);
    assert_null(rig_find(r, 3)); /* the answer has the decision */
    (void)pair_hear(p);
    pair_receive(p);
    assert_true(rig_replied(r, 3)->has_decision);
    assert_int_equal(rig_replied(r, 3)->decision[0], 6);
    standby_promote(b, 1, 2);
    b->generation = 2;
    rig_ask_sums(b, 2, 0, 0);
    push_and_pull(b, 3, 0, 0); /* not part of the step, though it comes first */
    push_and_pull(b, 4, 0, 1);
    assert_null(rig_find(b, 2));
    push_and_pull(b, 5, 0, 2);
    assert_int_equal(rig_replied(b, 2)->decision[0], 6);
    pair_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_update_is_said_before_it_is_made_and_shown_when_it_is_received),
        cmocka_unit_test(test_no_update_begins_while_a_record_is_on_its_way),
        cmocka_unit_test(test_idle_workers_wait_too),
        cmocka_unit_test(test_readers_wait_for_what_they_pin),
        cmocka_unit_test(test_async_pushes_are_updates_one_receipt_after_the_other),
        cmocka_unit_test(test_the_master_is_answered_when_the_backup_has_it),
        cmocka_unit_test(test_who_does_not_wait_any_more_is_not_answered),
        cmocka_unit_test(test_a_new_generation_is_a_record),
        cmocka_unit_test(test_a_change_of_the_job_is_a_record),
        cmocka_unit_test(test_without_its_backup_it_waits_until_the_master_says_so),
        cmocka_unit_test(test_receipts_of_others_and_of_the_future_count_for_nothing),
        cmocka_unit_test(test_a_backup_hears_its_primary_alone),
        cmocka_unit_test(test_records_are_taken_in_order_and_once),
        cmocka_unit_test(test_a_promoted_backup_is_a_primary_and_refuses_the_old_one),
        cmocka_unit_test(test_what_a_backup_cannot_follow_breaks_it),
        cmocka_unit_test(test_records_that_do_not_fit_change_nothing),
        cmocka_unit_test(test_initial_values_are_passed_on),
        cmocka_unit_test(test_bases_have_no_backup),
        cmocka_unit_test(test_a_primary_can_be_closed_while_answers_wait),
        cmocka_unit_test(test_the_leads_decision_survives_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
