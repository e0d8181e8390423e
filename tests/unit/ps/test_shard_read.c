/* SPDX-License-Identifier: Apache-2.0 */
/* Readers' pins: of the present version or of one to come, for a time, and in nobody's way. */
#include "shard_rig.h"

#define MS 1000

static struct shard_event read_of(struct rig *r, uintptr_t tag, const char *id, int kind)
{
    struct shard_event e = {.kind = SHARD_READ,
                            .generation = r->generation,
                            .tag = (void *)tag,
                            .now_ms = r->now_ms,
                            .pin_id = id};
    e.read.kind = (unsigned)kind;
    e.read.ms = MS;
    return e;
}

static void ask(struct rig *r, uintptr_t tag, const char *id, int kind)
{
    struct shard_event e = read_of(r, tag, id, kind);
    rig_step(r, &e);
}

static void pin_exact(struct rig *r, uintptr_t tag, const char *id, uint64_t version)
{
    struct shard_event e = read_of(r, tag, id, SHARD_READ_PIN);
    e.read.exact = true;
    e.read.version = version;
    rig_step(r, &e);
}

static void expect_version(struct rig *r, uintptr_t tag, uint64_t version)
{
    const struct rig_reply *reply = rig_replied(r, tag);
    assert_int_equal(reply->code, 0);
    assert_int_equal(reply->version, version);
}

static size_t readers(const struct rig *r)
{
    struct shard_info info;
    shard_info(r->shard, &info);
    return info.readers;
}

static void test_a_version_stays_while_training_goes_on(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 1);
    rig_push_sync(&r, 1, 0, 0, 1, 1, 1);
    ask(&r, 2, "a", SHARD_READ_PIN);
    expect_version(&r, 2, 1);
    assert_int_equal(r.kept[1], 1);
    rig_push_sync(&r, 3, 1, 0, 1, 1, 1);
    rig_push_sync(&r, 4, 2, 0, 1, 1, 1);
    ask(&r, 5, "a", SHARD_READ_PART);
    expect_version(&r, 5, 1);
    ask(&r, 6, "a", SHARD_READ_END);
    expect_version(&r, 6, 3);
    assert_int_equal(r.kept[1], 0);
    ask(&r, 7, "a", SHARD_READ_PART);
    rig_expect(&r, 7, ERR_NOT_FOUND, "no reader's pin is called 'a', or it has ended");
    ask(&r, 8, "a", SHARD_READ_END); /* again: nothing is there, and that is fine */
    expect_version(&r, 8, 3);
    rig_release(&r);
}

static void test_a_version_to_come(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 1);
    pin_exact(&r, 1, "a", 2);
    assert_null(rig_find(&r, 1));
    assert_int_equal(readers(&r), 1);
    ask(&r, 2, "a", SHARD_READ_PART); /* it waits */
    rig_expect(&r, 2, ERR_NOT_FOUND, "");
    rig_push_sync(&r, 3, 0, 0, 1, 1, 1);
    assert_null(rig_find(&r, 1));
    rig_push_sync(&r, 4, 1, 0, 1, 1, 1);
    expect_version(&r, 1, 2);
    pin_exact(&r, 5, "b", 1);
    rig_expect(&r, 5, ERR_RANGE, "version 1, which is gone; the shard is at 2");
    pin_exact(&r, 6, "b", 2);
    expect_version(&r, 6, 2);
    assert_int_equal(r.kept[2], 2);
    rig_push_sync(&r, 7, 2, 0, 1, 1, 1);
    pin_exact(&r, 8, "c", 9);
    struct shard_event gone = {.kind = SHARD_GONE, .tag = (void *)(uintptr_t)8};
    rig_step(&r, &gone);
    assert_int_equal(readers(&r), 2);
    rig_release(&r);
}

/* Who waits asks again in the new generation; who has pinned reads on. */
static void test_generations(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 1);
    ask(&r, 1, "a", SHARD_READ_PIN);
    pin_exact(&r, 2, "b", 5);
    rig_membership(&r, 3, 2, 1);
    rig_expect(&r, 2, ERR_ABORTED, "generation 1 is over");
    ask(&r, 4, "a", SHARD_READ_PART); /* in the old one */
    expect_version(&r, 4, 0);
    ask(&r, 5, "c", SHARD_READ_PIN);
    rig_expect(&r, 5, ERR_ABORTED, "generation 1 is over");
    r.generation = 2;
    ask(&r, 6, "c", SHARD_READ_PIN);
    expect_version(&r, 6, 0);
    rig_release(&r);
}

static void test_pins_end_by_themselves(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 1);
    r.now_ms = 5000;
    ask(&r, 1, "a", SHARD_READ_PIN);
    ask(&r, 2, "b", SHARD_READ_PIN);
    r.now_ms += MS - 1;
    ask(&r, 3, "a", SHARD_READ_PART); /* goes on for as long again */
    expect_version(&r, 3, 0);
    r.now_ms++;
    struct shard_event any = {.kind = SHARD_SNAPSHOT, .now_ms = r.now_ms};
    rig_step(&r, &any);
    assert_int_equal(readers(&r), 1);
    assert_int_equal(r.kept[0], 1);
    ask(&r, 5, "b", SHARD_READ_PART);
    rig_expect(&r, 5, ERR_NOT_FOUND, "'b', or it has ended");
    uintptr_t tag = 6;
    while (r.now_ms < 5000 + SHARD_READER_ALL_MS_MAX - MS) {
        r.now_ms += MS / 2;
        ask(&r, tag, "a", SHARD_READ_PART);
        expect_version(&r, tag++, 0);
    }
    r.now_ms = 5000 + SHARD_READER_ALL_MS_MAX; /* and not for ever */
    ask(&r, tag, "a", SHARD_READ_PART);
    rig_expect(&r, tag, ERR_NOT_FOUND, "");
    assert_int_equal(r.kept[0], 0);
    rig_release(&r);
}

static void test_limits(void **state)
{
    (void)state;
    struct rig r;
    static const char *const IDS[] = {"a", "b", "c", "d"};
    char longest[SHARD_PIN_ID_BYTES + 1];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    rig_init(&r, TRAINING_BOUNDED, 1);
    for (size_t i = 0; i < SHARD_READERS_MAX; i++) {
        ask(&r, 1 + i, IDS[i], SHARD_READ_PIN);
        expect_version(&r, 1 + i, 0);
    }
    ask(&r, 10, "e", SHARD_READ_PIN);
    rig_expect(&r, 10, ERR_EXHAUSTED, "4 readers have pinned versions already");
    ask(&r, 11, "a", SHARD_READ_PIN);
    rig_expect(&r, 11, ERR_EXISTS, "'a' already");
    ask(&r, 12, "", SHARD_READ_PIN);
    rig_expect(&r, 12, ERR_INVALID, "1 to 128 bytes");
    ask(&r, 13, longest, SHARD_READ_END);
    rig_expect(&r, 13, ERR_INVALID, "1 to 128 bytes");
    struct shard_event e = read_of(&r, 14, "a", SHARD_READ_PART);
    e.read.ms = SHARD_READER_MS_MAX + 1;
    rig_step(&r, &e);
    rig_expect(&r, 14, ERR_INVALID, "a reader's pin for 60001 ms; 1 to 60000 are possible");
    /* training has pins of its own */
    rig_pin(&r, SHARD_PIN, 15, "p", false);
    assert_int_equal(rig_replied(&r, 15)->code, 0);
    ask(&r, 16, "p", SHARD_READ_PART);
    rig_expect(&r, 16, ERR_NOT_FOUND, "");
    ask(&r, 17, "p", SHARD_READ_END);
    assert_int_equal(r.kept[0], 5);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_version_stays_while_training_goes_on),
        cmocka_unit_test(test_a_version_to_come),
        cmocka_unit_test(test_generations),
        cmocka_unit_test(test_pins_end_by_themselves),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
