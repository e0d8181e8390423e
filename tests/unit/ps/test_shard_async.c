/* SPDX-License-Identifier: Apache-2.0 */
/* A shard in async and bounded modes: each batch once, in order; how stale gradients are; pins. */
#include <stdio.h>

#include "shard_rig.h"

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 8;
}

static void test_each_batch_once_in_order(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    rig_push_async(&r, 1, "w0", 0, 1, 0);
    rig_expect_push(&r, 1, PUSH_APPLIED);
    rig_push_async(&r, 2, "w1", 0, 1, 0);
    rig_expect_push(&r, 2, PUSH_DUPLICATE);
    rig_push_async(&r, 3, "w0", 0, 0, 1);
    rig_expect(&r, 3, ERR_RANGE, "batch 1 of split 0 of epoch 0; next is batch 0");
    rig_push_async(&r, 4, "w0", 0, 2, 1);
    rig_expect(&r, 4, ERR_INVALID, "batch 1 of split 2, which has 1 batches");
    rig_push_async(&r, 5, "w0", 0, 3, 0);
    rig_expect(&r, 5, ERR_INVALID, "the epoch has 3 splits");
    struct shard_event e = rig_async(&r, 6, "w0", 0, 1, 1);
    e.ask.push.base_version = 9;
    rig_step(&r, &e);
    rig_expect(&r, 6, ERR_INVALID, "version 9, but the shard is at 1");
    assert_int_equal(r.version, 1);
    rig_release(&r);
}

static void test_epochs_roll_when_complete(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    const uint32_t batches[3] = {2, 2, 1};
    uintptr_t tag = 1;
    for (uint32_t s = 0; s < 3; s++) {
        for (uint32_t b = 0; b < batches[s]; b++) {
            rig_push_async(&r, tag, "w0", 1, 0, 0);
            rig_expect(&r, tag++, ERR_RANGE, "batches to go");
            rig_push_async(&r, tag++, "w0", 0, s, b);
        }
    }
    rig_push_async(&r, tag, "w0", 2, 0, 0);
    rig_expect(&r, tag++, ERR_RANGE, "of epoch 2");
    rig_push_async(&r, tag, "w0", 1, 0, 1);
    rig_expect(&r, tag++, ERR_RANGE, "batch 1 of split 0 of epoch 1");
    rig_push_async(&r, tag, "w0", 1, 2, 0);
    rig_expect_push(&r, tag++, PUSH_APPLIED);
    rig_push_async(&r, tag, "w0", 0, 1, 1); /* late */
    rig_expect_push(&r, tag++, PUSH_DUPLICATE);
    assert_int_equal(r.version, 6);
    rig_release(&r);
}

static void test_a_new_epoch_queues_for_a_snapshot(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    const uint32_t batches[3] = {2, 2, 1};
    uintptr_t tag = 1;
    for (uint32_t s = 0; s < 3; s++) {
        for (uint32_t b = 0; b < batches[s]; b++) {
            rig_push_async(&r, tag++, "w0", 0, s, b);
        }
    }
    r.can_apply = false;
    rig_push_async(&r, 10, "w0", 1, 0, 0);
    rig_push_async(&r, 11, "w1", 1, 2, 0);
    rig_push_async(&r, 12, "w0", 1, 0, 1);
    r.can_apply = true;
    for (uintptr_t i = 0; i < 3; i++) {
        rig_event(&r, SHARD_SNAPSHOT, 0);
        rig_expect_push(&r, 10 + i, PUSH_APPLIED);
    }
    rig_release(&r);
}

static void test_progress_of_a_split(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    rig_push_async(&r, 1, "w0", 0, 1, 0);
    struct shard_event e = rig_exchange(&r, 2, "w1");
    e.ask.has_pull = true;
    e.ask.pull.progress = true;
    e.ask.pull.split = 1;
    rig_step(&r, &e);
    rig_expect_values(&r, 2, 1);
    assert_int_equal(rig_replied(&r, 2)->progress, 1);
    e.tag = (void *)(uintptr_t)3;
    e.ask.pull.split = 99;
    rig_step(&r, &e);
    assert_int_equal(rig_replied(&r, 3)->progress, 0);
    e.tag = (void *)(uintptr_t)4;
    e.ask.pull.split = 1;
    e.ask.pull.epoch = 1;
    rig_step(&r, &e);
    assert_int_equal(rig_replied(&r, 4)->progress, 0);
    for (uint32_t i = 0; i < 2; i++) {
        rig_push_async(&r, 10 + i, "w0", 0, 0, i);
    }
    rig_push_async(&r, 12, "w0", 0, 1, 1);
    rig_push_async(&r, 13, "w0", 0, 2, 0);
    rig_push_async(&r, 14, "w0", 1, 0, 0);
    e.tag = (void *)(uintptr_t)5;
    e.ask.pull.epoch = 0;
    rig_step(&r, &e);
    assert_int_equal(rig_replied(&r, 5)->progress, 2); /* of an epoch that is over: all */
    rig_release(&r);
}

static void test_staleness_is_measured(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    rig_push_async(&r, 1, "w0", 0, 0, 0);
    rig_push_async(&r, 2, "w0", 0, 0, 1);
    struct shard_event e = rig_async(&r, 3, "w1", 0, 1, 0);
    e.ask.push.base_version = 0;
    shard_step(r.shard, &e, &r.actions);
    assert_int_equal(r.actions.items[0].kind, SHARD_APPLY);
    assert_int_equal(r.actions.items[0].staleness, 2);
    for (size_t i = 0; i < r.actions.count; i++) {
        rig_do(&r, &r.actions.items[i]);
    }
    rig_release(&r);
}

/* A slow reader holds the last free snapshot: pushes queue, are in, and are answered when applied.
 */
static void test_pushes_queue_for_a_snapshot(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    r.can_apply = false;
    struct shard_event e = rig_async(&r, 1, "w0", 0, 0, 0);
    e.ask.has_pull = true;
    rig_step(&r, &e);
    rig_push_async(&r, 2, "w0", 0, 0, 1);
    rig_push_async(&r, 3, "w1", 0, 0, 0); /* the same again: waits until it is true */
    rig_push_async(&r, 4, "w1", 0, 1, 1);
    rig_expect(&r, 4, ERR_RANGE, "next is batch 0");
    assert_int_equal(r.reply_count, 1);
    assert_true(shard_wants_snapshot(r.shard));
    r.can_apply = true;
    rig_push_async(&r, 5, "w1", 0, 1, 0); /* does not overtake */
    assert_int_equal(r.version, 0);
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_int_equal(r.version, 1);
    rig_expect_push(&r, 1, PUSH_APPLIED);
    rig_expect_values(&r, 1, 1);
    rig_expect_push(&r, 3, PUSH_DUPLICATE);
    assert_null(rig_find(&r, 2));
    rig_event(&r, SHARD_SNAPSHOT, 0);
    rig_expect_push(&r, 2, PUSH_APPLIED);
    rig_event(&r, SHARD_SNAPSHOT, 0);
    rig_expect_push(&r, 5, PUSH_APPLIED);
    assert_false(shard_wants_snapshot(r.shard));
    rig_release(&r);
}

/* What the answer to a new generation says is true until somebody pushes again. */
static void test_a_new_generation_forgets_the_queue(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    r.can_apply = false;
    rig_push_async(&r, 1, "w0", 0, 0, 0);
    rig_push_async(&r, 2, "w1", 0, 1, 0);
    rig_event(&r, SHARD_GONE, 2);
    rig_membership(&r, 3, 2, 1);
    rig_expect(&r, 1, ERR_ABORTED, "it is 2 now");
    assert_null(rig_find(&r, 2));
    assert_int_equal(rig_replied(&r, 3)->version, 0);
    assert_int_equal(rig_replied(&r, 3)->done0, 0);
    assert_int_equal(r.buffers, 0);
    assert_false(shard_wants_snapshot(r.shard));
    r.generation = 2;
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_int_equal(r.version, 0);
    rig_push_async(&r, 4, "w0", 0, 1, 0);
    rig_expect_push(&r, 4, PUSH_APPLIED);
    rig_push_async(&r, 5, "w0", 0, 0, 0);
    rig_expect_push(&r, 5, PUSH_APPLIED);
    assert_int_equal(r.version, 2);
    rig_release(&r);
}

static void test_the_queue_is_bounded(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    shard_free(r.shard);
    ledger_release(&r.ledger);
    struct ledger_shape shape = {.records = 1000, .batch_records = 1, .split_batches = 1000};
    struct err err;
    assert_int_equal(ledger_init(&r.ledger, &shape, 0, &err), 0);
    r.shard = shard_new(&r.options, &err);
    r.can_apply = false;
    for (uint32_t i = 0; i < SHARD_QUEUE_MAX; i++) {
        rig_push_async(&r, i + 1, "w0", 0, 0, i);
    }
    rig_push_async(&r, 5000, "w0", 0, 0, SHARD_QUEUE_MAX);
    rig_expect(&r, 5000, ERR_EXHAUSTED, "256 pushes wait");
    assert_int_equal(r.buffers, SHARD_QUEUE_MAX);
    r.can_apply = true;
    while (shard_wants_snapshot(r.shard)) {
        rig_event(&r, SHARD_SNAPSHOT, 0);
    }
    assert_int_equal(r.version, SHARD_QUEUE_MAX);
    rig_push_async(&r, 5001, "w0", 0, 0, SHARD_QUEUE_MAX);
    rig_expect_push(&r, 5001, PUSH_APPLIED);
    rig_release(&r);
}

static void test_versions_with_pushes_are_for_sync(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    struct shard_event e = rig_async(&r, 1, "w0", 0, 0, 0);
    e.ask.has_pull = true;
    e.ask.pull.kind = PULL_VERSION;
    rig_step(&r, &e);
    rig_expect(&r, 1, ERR_INVALID, "only in sync mode");
    assert_int_equal(r.version, 0);
    rig_pull(&r, 2, PULL_VERSION, 1);
    rig_push_async(&r, 3, "w0", 0, 0, 0);
    rig_expect_values(&r, 2, 1);
    rig_release(&r);
}

static void test_pins_keep_versions_and_their_ledger(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    rig_push_async(&r, 1, "w0", 0, 0, 0);
    rig_pin(&r, SHARD_PIN, 2, "a", true);
    assert_int_equal(rig_replied(&r, 2)->version, 1);
    assert_int_equal(rig_replied(&r, 2)->done0, 1);
    rig_push_async(&r, 3, "w0", 0, 0, 1);
    rig_push_async(&r, 4, "w0", 0, 1, 0);
    rig_pin(&r, SHARD_PIN, 5, "a", true); /* again: the same version */
    assert_int_equal(rig_replied(&r, 5)->version, 1);
    assert_int_equal(rig_replied(&r, 5)->done0, 1);
    assert_int_equal(r.buffers, 1);
    rig_pin(&r, SHARD_CHECKPOINT, 6, "a", false);
    assert_true(rig_replied(&r, 6)->write);
    assert_int_equal(rig_replied(&r, 6)->done0, 1);
    rig_pin(&r, SHARD_PIN, 7, "b", false);
    rig_pin(&r, SHARD_CHECKPOINT, 8, "b", false);
    rig_expect(&r, 8, ERR_STATE, "without its slots");
    rig_pin(&r, SHARD_PIN, 9, "b", true);
    rig_expect(&r, 9, ERR_EXISTS, "pinned as 'b' without its slots");
    rig_pin(&r, SHARD_CHECKPOINT, 10, "zzz", false);
    rig_expect(&r, 10, ERR_NOT_FOUND, "'zzz'");
    rig_pin(&r, SHARD_UNPIN, 11, "a", false);
    rig_expect(&r, 11, 0, "");
    rig_pin(&r, SHARD_UNPIN, 12, "a", false); /* unknown is fine */
    rig_expect(&r, 12, 0, "");
    assert_int_equal(r.buffers, 0);
    struct shard_event e = rig_exchange(&r, 13, "w0");
    e.ask = (struct exchange_request){.kind = EXCHANGE_PINNED, .pin_id = "a"};
    rig_step(&r, &e);
    rig_expect(&r, 13, ERR_NOT_FOUND, "pinned as 'a'");
    rig_release(&r);
}

/* A later master takes back what the one before has pinned, but for what it goes on with. */
static void test_a_later_master_forgets_pins(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    rig_pin(&r, SHARD_PIN, 1, "a", true);
    rig_pin(&r, SHARD_PIN, 2, "b", false);
    struct shard_info info;
    shard_info(r.shard, &info);
    assert_int_equal(info.pins, 2);
    assert_string_equal(info.pinned[1].id, "b");
    assert_true(info.pinned[0].slots && !info.pinned[1].slots);
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .generation = 1,
                            .tag = (void *)3,
                            .workers = RIG_WORKERS,
                            .worker_count = 1,
                            .forget_pins = true,
                            .keep_pin = "b"};
    rig_step(&r, &e); /* it comes again, and has been taken already */
    shard_info(r.shard, &info);
    assert_int_equal(info.pins, 2);
    e.generation = 2;
    e.tag = (void *)4;
    rig_step(&r, &e);
    rig_expect(&r, 4, 0, "");
    shard_info(r.shard, &info);
    assert_int_equal(info.pins, 1);
    assert_string_equal(info.pinned[0].id, "b");
    assert_int_equal(r.buffers, 0);       /* the slots of "a" are free */
    rig_pin(&r, SHARD_PIN, 5, "a", true); /* a call of the master before that is late */
    rig_expect(&r, 5, ERR_ABORTED, "generation 1 is over; it is 2 now");
    rig_release(&r);
}

static void test_pins_are_bounded(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    const char *ids[] = {"a", "b", "c", "d", "e"};
    for (uintptr_t i = 0; i < SHARD_PINS_MAX; i++) {
        rig_pin(&r, SHARD_PIN, i + 1, ids[i], true);
        rig_expect(&r, i + 1, 0, "");
    }
    rig_pin(&r, SHARD_PIN, 9, "e", true);
    rig_expect(&r, 9, ERR_EXHAUSTED, "4 versions are pinned already");
    char longest[SHARD_PIN_ID_BYTES + 1];
    memset(longest, 'p', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    rig_pin(&r, SHARD_PIN, 10, longest, true);
    rig_expect(&r, 10, ERR_INVALID, "1 to 128 bytes");
    rig_pin(&r, SHARD_PIN, 11, "", true);
    rig_expect(&r, 11, ERR_INVALID, "1 to 128 bytes");
    rig_pin(&r, SHARD_PIN, 12, NULL, true);
    rig_expect(&r, 12, ERR_INVALID, "1 to 128 bytes");
    rig_release(&r);
}

/* A copy of a Pin that comes after its Unpin must not take a place for ever. */
static void test_a_late_pin(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    for (uintptr_t i = 0; i < SHARD_UNPINNED_KEPT + 2; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "p%d", (int)i);
        rig_pin(&r, SHARD_PIN, 10 * i + 1, id, true);
        rig_expect(&r, 10 * i + 1, 0, "");
        rig_pin(&r, SHARD_UNPIN, 10 * i + 2, id, false);
        rig_expect(&r, 10 * i + 2, 0, "");
        rig_pin(&r, SHARD_PIN, 10 * i + 3, id, true);
        rig_expect(&r, 10 * i + 3, ERR_ABORTED, "was unpinned before");
    }
    assert_int_equal(r.buffers, 0);
    rig_pin(&r, SHARD_PIN, 9001, "p2", true); /* the oldest that is remembered */
    rig_expect(&r, 9001, ERR_ABORTED, "was unpinned before");
    rig_pin(&r, SHARD_PIN, 9002, "p1", true);
    rig_expect(&r, 9002, 0, "");
    rig_pin(&r, SHARD_UNPIN, 9003, "p1", false);
    rig_expect(&r, 9003, 0, "");
    rig_release(&r);
}

static struct shard_event random_event(struct rig *r, uint32_t *seed, uintptr_t tag, bool sync)
{
    const char *worker = RIG_WORKERS[next_random(seed) % 4];
    struct shard_event e = rig_exchange(r, tag, worker);
    uint32_t dice = next_random(seed) % 100;
    if (dice < 55) {
        uint64_t examples = next_random(seed) % 4;
        if (sync) {
            uint32_t lo = next_random(seed) % 4;
            uint64_t step = r->version - (r->version > 0 ? next_random(seed) % 2 : 0);
            e = rig_sync(r, tag, step, lo, lo + 1 + next_random(seed) % 2, 1, examples);
        } else {
            e = rig_exchange(r, tag, worker);
            rig_set_push(r, &e, 1, examples);
            struct shard_info info;
            shard_info(r->shard, &info);
            e.ask.push.epoch = info.ledger->epoch + (next_random(seed) % 8 == 0);
            e.ask.push.split = next_random(seed) % 3;
            e.ask.push.batch = next_random(seed) % 2;
            e.ask.push.batch_end = next_random(seed) % 3;
            uint64_t back = next_random(seed) % 3;
            e.ask.push.base_version = back < r->version ? r->version - back : r->version;
        }
    }
    if (dice < 80) {
        e.ask.has_pull = dice % 2 == 0 || dice >= 55;
        e.ask.pull.kind = sync ? PULL_VERSION : PULL_LATEST;
        e.ask.pull.version = r->version + next_random(seed) % 2;
    } else if (dice < 84) {
        e.ask.idle = true;
    } else if (dice < 90) {
        e.kind = next_random(seed) % 2 ? SHARD_PIN : SHARD_UNPIN;
        e.pin_id = next_random(seed) % 2 ? "a" : "b";
        e.slots = true;
        e.slots_buffer = e.kind == SHARD_PIN ? rig_buffer(r, 0) : NULL;
    } else if (dice < 93) {
        e.kind = SHARD_MEMBERSHIP;
        e.generation = r->generation + next_random(seed) % 2;
        e.workers = RIG_WORKERS;
        e.worker_count = 1 + next_random(seed) % 4;
        r->generation = e.generation;
    } else if (dice < 95) {
        e.kind = SHARD_STATE;
    } else {
        e.kind = SHARD_SNAPSHOT;
    }
    if (next_random(seed) % 20 == 0 && r->generation > 1) {
        e.generation = e.kind == SHARD_MEMBERSHIP ? e.generation : r->generation - 1;
    }
    return e;
}

/* Versions rise one at a time (rig_apply), what is read is readable (rig_reply_add), a tag is never
 * answered twice, all are answered in the end, no buffer is lost, and the ledger is exactly what
 * was applied. */
static uint64_t run_random(const struct consistency *c, uint32_t seed)
{
    struct rig r;
    enum training_mode mode = c->mode;
    rig_open(&r, 0, c);
    bool replied[1200] = {false};
    uintptr_t events = 1000;
    size_t seen = 0;
    for (uintptr_t tag = 1; tag <= events; tag++) {
        r.can_apply = next_random(&seed) % 4 != 0;
        struct shard_event e = random_event(&r, &seed, tag, mode == TRAINING_SYNC);
        replied[tag] = e.kind == SHARD_SNAPSHOT;
        uint64_t old_generation = e.generation;
        uint64_t version = r.version;
        rig_step(&r, &e);
        struct shard_info info;
        shard_info(r.shard, &info);
        assert_true(r.version - version <= 1);
        assert_true(info.generation == r.generation);
        assert_true(old_generation >= r.generation || e.kind == SHARD_SNAPSHOT ||
                    r.version == version);
        for (; seen < r.reply_count; seen++) {
            assert_false(replied[r.replies[seen].tag]);
            replied[r.replies[seen].tag] = true;
        }
        if (info.ledger != NULL) {
            uint64_t left = ledger_left(info.ledger);
            uint64_t batches = info.ledger->epoch * 5 + (5 - left);
            assert_true(batches >= r.version && batches <= r.version * c->push_every);
            assert_int_equal(info.pushes_applied, r.version);
        }
    }
    uint64_t generation = r.generation;
    r.generation = generation + 1;
    rig_event(&r, SHARD_CLOSE, 1100);
    for (; seen < r.reply_count; seen++) {
        assert_false(replied[r.replies[seen].tag]);
        replied[r.replies[seen].tag] = true;
    }
    for (uintptr_t tag = 1; tag <= events; tag++) {
        assert_true(replied[tag]);
    }
    uint64_t version = r.version;
    rig_release(&r);
    return version;
}

static void test_random_events(void **state)
{
    (void)state;
    struct consistency modes[6];
    modes[0] = rig_consistency(TRAINING_SYNC, 4);
    modes[1] = rig_consistency(TRAINING_ASYNC, 0);
    modes[2] = rig_consistency(TRAINING_BOUNDED, 0);
    modes[3] = modes[2];
    modes[3].policy = POLICY_DELAY_COMPENSATION;
    modes[3].lambda = 0.5;
    modes[4] = modes[1];
    modes[4].policy = POLICY_MAX_STALENESS;
    modes[4].max_staleness = 1;
    modes[5] = modes[2];
    modes[5].policy = POLICY_SCALE_LR;
    modes[5].push_every = 2;
    for (size_t mode = 0; mode < 6; mode++) {
        uint64_t versions = 0;
        for (uint32_t seed = 1; seed <= 60; seed++) {
            versions += run_random(&modes[mode], seed);
        }
        assert_true(versions > 60 * 10); /* the events do make progress */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_batch_once_in_order),
        cmocka_unit_test(test_epochs_roll_when_complete),
        cmocka_unit_test(test_a_new_epoch_queues_for_a_snapshot),
        cmocka_unit_test(test_progress_of_a_split),
        cmocka_unit_test(test_staleness_is_measured),
        cmocka_unit_test(test_pushes_queue_for_a_snapshot),
        cmocka_unit_test(test_a_new_generation_forgets_the_queue),
        cmocka_unit_test(test_the_queue_is_bounded),
        cmocka_unit_test(test_versions_with_pushes_are_for_sync),
        cmocka_unit_test(test_pins_keep_versions_and_their_ledger),
        cmocka_unit_test(test_a_later_master_forgets_pins),
        cmocka_unit_test(test_pins_are_bounded),
        cmocka_unit_test(test_a_late_pin),
        cmocka_unit_test(test_random_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
