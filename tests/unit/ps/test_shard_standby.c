/* SPDX-License-Identifier: Apache-2.0 */
/* A shard with a backup: what it says to that, and what waits for it. (The backup:
 * test_shard_backup.c; that nothing is lost whenever a primary dies: test_shard_standby_death.c.)
 */
#include "standby_rig.h"

static void snapshot(struct pair *p)
{
    rig_event(&p->primary, SHARD_SNAPSHOT, 0);
    pair_check(p);
}

static void test_an_update_is_said_before_it_is_made_and_shown_when_it_is_received(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 3);
    struct rig *r = &p->primary;
    pair_push(r, 1, 0, 1);
    pair_push(r, 2, 0, 0); /* without examples */
    pair_push(r, 3, 0, 2);
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
    struct pair *p = pair_of_mode(TRAINING_SYNC, 2);
    struct rig *r = &p->primary;
    rig_pin(r, SHARD_PIN, 1, "a", true);
    pair_push(r, 2, 0, 0);
    pair_push(r, 3, 0, 1);
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
    pair_push(r, 1, 0, 0);
    pair_push(r, 2, 0, 1);
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
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    read_pin(r, 1, "exact", true, 1);
    pair_push(r, 2, 0, 0);
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
    struct pair *p = pair_of_mode(TRAINING_ASYNC, 0);
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
    struct pair *p = pair_of_mode(TRAINING_ASYNC, 0);
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
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
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
    struct pair *p = pair_of_mode(TRAINING_SYNC, 2);
    struct rig *r = &p->primary;
    rig_pin(r, SHARD_PIN, 1, "a", false);
    pair_push(r, 2, 0, 0);
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
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    struct rig *b = &p->backup;
    rig_pin(r, SHARD_PIN, 1, "a", true);
    pair_settle(p);
    pair_push(r, 2, 0, 0);
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
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    r->now_ms = 5000;
    pair_push(r, 1, 0, 0);
    rig_event(r, SHARD_STATE, 2);
    r->now_ms = 9000;
    pair_push(r, 3, 1, 0);
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
    pair_push(r, 5, 0, 0);
    rig_expect_push(r, 5, PUSH_DUPLICATE);
    pair_push(r, 6, 1, 0);
    rig_expect_values(r, 6, 2);
    shard_info(r->shard, &info);
    assert_int_equal(info.role, SHARD_ALONE);
    assert_int_equal(info.unreceived_ms, 0);
    assert_int_equal(p->count, 1);
    pair_free(p);
}

static void test_receipts_of_others_and_of_the_future_count_for_nothing(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    pair_push(r, 1, 0, 0);
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

/* ---- what workers read ---- */

static struct pair *pair_that_compensates(bool alone)
{
    struct consistency c = rig_consistency(TRAINING_ASYNC, 0);
    c.policy = POLICY_DELAY_COMPENSATION;
    c.lambda = 0.5;
    return alone ? pair_alone(0, &c, 0) : pair_new(0, &c, 0, false);
}

static unsigned kept(const struct rig *r)
{
    unsigned n = 0;
    for (size_t v = 0; v < RIG_VERSIONS; v++) {
        n += r->kept[v];
    }
    return n;
}

static void test_an_update_says_what_was_read_of_the_version_before(void **state)
{
    (void)state;
    struct pair *p = pair_that_compensates(false);
    struct rig *r = &p->primary, *b = &p->backup;
    rig_pull_latest(r, 1, "w2");
    rig_expect_values(r, 1, 0); /* nobody waits for the backup to hear of it */
    rig_pull_latest(r, 2, "w0");
    assert_int_equal(p->count, 0);
    rig_push_async(r, 3, "w0", 0, 0, 0);
    assert_int_equal(p->said[0].record.worker, 1);
    assert_int_equal(p->said[0].record.sent_count, 2);
    assert_int_equal(p->said[0].sent[0], 1);
    assert_int_equal(p->said[0].sent[1], 3);
    pair_settle(p);
    assert_int_equal(b->kept[0], 2);
    assert_false(b->applied.has_base);
    rig_pull_latest(r, 4, "w0");
    rig_push_async(r, 5, "w2", 0, 1, 0);
    assert_int_equal(p->said[1].record.worker, 3);
    assert_int_equal(p->said[1].record.sent_count, 1);
    pair_settle(p);
    assert_true(r->applied.has_base && b->applied.has_base);
    assert_int_equal(b->applied.base_version, 0);
    assert_true(b->applied.lambda == r->applied.lambda && b->applied.lambda == 0.5F);
    assert_int_equal(b->kept[0], 1);
    assert_int_equal(b->kept[1], 1);
    assert_int_equal(kept(b), kept(r));
    pair_free(p);
}

static void test_a_push_of_no_worker_has_no_base(void **state)
{
    (void)state;
    struct pair *p = pair_that_compensates(false);
    rig_push_async(&p->primary, 1, "stranger", 0, 0, 0);
    assert_int_equal(p->said[0].record.worker, 0);
    pair_settle(p);
    assert_int_equal(p->backup.version, 1);
    pair_free(p);
}

static void test_a_backup_that_joins_begins_without_what_was_read(void **state)
{
    (void)state;
    struct pair *p = pair_that_compensates(true);
    struct rig *r = &p->primary;
    rig_pull_latest(r, 1, "w0");
    assert_int_equal(kept(r), 1);
    pair_join(p, 2, 2);
    r->generation = 2;
    assert_int_equal(kept(r), 1); /* the state */
    pair_settle(p);
    assert_int_equal(kept(r), 0);
    rig_pull_latest(r, 3, "w0");
    rig_push_async(r, 4, "w1", 0, 0, 0);
    pair_settle(p);
    rig_push_async(r, 5, "w0", 0, 1, 0);
    pair_settle(p);
    assert_true(r->applied.has_base && p->backup.applied.has_base);
    standby_same_values(r, &p->backup, 2);
    pair_free(p);
}

static void test_workers_that_there_are_not_break_a_backup(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct pair *p = pair_that_compensates(false);
        rig_pull_latest(&p->primary, 1, "w1");
        rig_push_async(&p->primary, 2, "w0", 0, 0, 0);
        struct said *said = &p->said[0];
        said->record.worker = i == 0 ? 4 : said->record.worker;
        said->sent[0] = i == 1 ? 4 : i == 2 ? 0 : said->sent[0];
        struct exchange_totals totals[RIG_ROUNDS];
        struct shard_event e = pair_event(&p->backup, said, totals);
        e.tag = (void *)1;
        rig_step(&p->backup, &e);
        rig_expect(&p->backup, 1, ERR_CORRUPT, "workers beyond the last of 3");
        pair_free(p);
    }
}

static void test_a_primary_can_be_closed_while_answers_wait(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    pair_push(r, 1, 0, 0);
    rig_event(r, SHARD_STATE, 2);
    rig_event(r, SHARD_CLOSE, 3);
    rig_expect(r, 1, ERR_NOT_FOUND, "closed");
    rig_expect(r, 2, ERR_NOT_FOUND, "closed");
    rig_expect(r, 3, 0, "");
    pair_receive(p);
    pair_free(p);
}

/* As many as requests may wait. What is refused has changed nothing. */
static void test_no_more_answers_wait_than_requests_may(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    pair_push(r, 1, 0, 0);
    for (uintptr_t i = 0; i < SHARD_PARKED_MAX; i++) {
        rig_event(r, SHARD_STATE, 100 + i);
    }
    assert_int_equal(r->reply_count, 0);
    rig_event(r, SHARD_STATE, 2);
    rig_expect(r, 2, ERR_EXHAUSTED, "answers wait for the backup already");
    rig_pin(r, SHARD_PIN, 3, "a", true);
    rig_expect(r, 3, ERR_EXHAUSTED, "answers wait for the backup already");
    struct shard_info info;
    shard_info(r->shard, &info);
    assert_int_equal(info.pins, 0);
    assert_int_equal(p->count, 1);
    pair_push(r, 4, 0, 0); /* a worker's waits as a request */
    assert_null(rig_find(r, 4));
    pair_settle(p);
    rig_expect_values(r, 1, 1);
    rig_expect_push(r, 4, PUSH_DUPLICATE);
    rig_expect(r, 100 + SHARD_PARKED_MAX - 1, 0, "");
    rig_pin(r, SHARD_PIN, 5, "a", true);
    pair_settle(p);
    rig_expect(r, 5, 0, "");
    pair_free(p);
}

static void test_a_new_generation_is_heard_however_many_answers_wait(void **state)
{
    (void)state;
    struct pair *p = pair_of_mode(TRAINING_SYNC, 1);
    struct rig *r = &p->primary;
    pair_push(r, 1, 0, 0);
    for (uintptr_t i = 0; i < SHARD_PARKED_MAX; i++) {
        rig_event(r, SHARD_STATE, 100 + i);
    }
    standby_membership(r, 2, 1, true);
    rig_expect(r, 2, ERR_EXHAUSTED, "answers wait for the backup already");
    standby_membership(r, 3, 2, false);
    rig_expect(r, 3, 0, "");
    rig_expect(r, 100, ERR_ABORTED, "generation 1 is over");
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
    pair_push(r, 1, 0, 2);
    pair_push(r, 2, 0, 1);
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
    pair_push(b, 3, 0, 0); /* not part of the step, though it comes first */
    pair_push(b, 4, 0, 1);
    assert_null(rig_find(b, 2));
    pair_push(b, 5, 0, 2);
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
        cmocka_unit_test(test_initial_values_are_passed_on),
        cmocka_unit_test(test_an_update_says_what_was_read_of_the_version_before),
        cmocka_unit_test(test_a_push_of_no_worker_has_no_base),
        cmocka_unit_test(test_a_backup_that_joins_begins_without_what_was_read),
        cmocka_unit_test(test_workers_that_there_are_not_break_a_backup),
        cmocka_unit_test(test_a_primary_can_be_closed_while_answers_wait),
        cmocka_unit_test(test_no_more_answers_wait_than_requests_may),
        cmocka_unit_test(test_a_new_generation_is_heard_however_many_answers_wait),
        cmocka_unit_test(test_the_leads_decision_survives_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
