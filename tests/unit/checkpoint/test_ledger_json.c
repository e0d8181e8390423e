/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger as JSON. */
#include "checkpoint_rig.h"

#include "checkpoint/ledger_json.h"

static void a_ledger_comes_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct ledger_shape shape = {1 + rng_below(seed, 0, 2000),
                                     1 + (uint32_t)rng_below(seed, 1, 9),
                                     1 + (uint32_t)rng_below(seed, 2, 9)};
        struct ledger l;
        struct ledger back;
        assert_int_equal(ledger_init(&l, &shape, seed, NULL), 0);
        for (uint32_t s = 0; s < l.split_count; s++) {
            l.done[s] = s < l.split_count / 2 ? ledger_shape_split_batches(&shape, s)
                                              : (uint32_t)rng_below(seed, 3 + s, 2);
        }
        struct buf text = {0};
        ledger_json_format(&l, &text);
        assert_int_equal(ledger_json_parse(text.data, text.len, &back, NULL), 0);
        assert_int_equal(back.epoch, l.epoch);
        assert_memory_equal(&back.shape, &l.shape, sizeof l.shape);
        assert_int_equal(back.split_count, l.split_count);
        assert_memory_equal(back.done, l.done, l.split_count * sizeof *l.done);
        buf_release(&text);
        ledger_release(&l);
        ledger_release(&back);
    }
}

static void the_text_is_compact(void **state)
{
    (void)state;
    struct ledger_shape shape = {60000, 64, 16};
    struct ledger l;
    assert_int_equal(ledger_init(&l, &shape, 3, NULL), 0);
    for (uint32_t s = 0; s < 40; s++) {
        l.done[s] = 16;
    }
    l.done[40] = 5;
    struct buf text = {0};
    ledger_json_format(&l, &text);
    assert_string_equal(buf_str(&text), "{\"epoch\":3,\"records\":60000,\"batch_records\":64,"
                                        "\"split_batches\":16,\"done\":[[16,40],[5,1],[0,18]]}");
    buf_release(&text);
    ledger_release(&l);
}

static void broken_ledgers_are_refused(void **state)
{
    (void)state;
#define HEAD "{\"epoch\":0,\"records\":100,\"batch_records\":10,\"split_batches\":4,\"done\":"
    static const char *const bad[][2] = {
        {"", "JSON"},
        {"[]", "an object"},
        {"{}", "epoch: missing"},
        {"{\"epoch\":-1}", "epoch: -1 is out of range"},
        {"{\"epoch\":\"0\"}", "epoch: a whole number"},
        {"{\"epoch\":0,\"records\":0,\"batch_records\":1,\"split_batches\":1,\"done\":[]}",
         "no records"},
        {"{\"epoch\":0,\"records\":1,\"batch_records\":0,\"split_batches\":1,\"done\":[]}",
         "at least 1"},
        {"{\"epoch\":0,\"records\":9000000000,\"batch_records\":1,\"split_batches\":1,\"done\":[]}",
         "splits"},
        {"{\"epoch\":0,\"records\":1,\"batch_records\":4294967296,\"split_batches\":1,\"done\":[]}",
         "batch_records: 4294967296 is out of range"},
        {HEAD "7}", "done: a list"},
        {HEAD "[]}", "done: 0 splits, of 3"},
        {HEAD "[[0,2]]}", "done: 2 splits, of 3"},
        {HEAD "[[0,4]]}", "done[0]: 4 splits from split 0 of 3"},
        {HEAD "[[0,0],[0,3]]}", "done[0]: 0 splits"},
        {HEAD "[[5,1],[0,2]]}", "done[0]: 5 batches of split 0, which has 4"},
        {HEAD "[[4,3]]}", "done[0]: 4 batches of split 2, which has 2"},
        {HEAD "[[0]]}", "done[0]: a pair"},
        {HEAD "[[0,1,2]]}", "done[0]: a pair"},
        {HEAD "[[-1,3]]}", "done[0]: a pair"},
        {HEAD "[[0,9223372036854775807]]}", "done[0]: 9223372036854775807 splits"},
        {HEAD "[{\"a\":1,\"b\":2}]}", "done[0]: a pair"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ledger l = {.split_count = 77};
        struct err err = {0};
        if (ledger_json_parse(bad[i][0], strlen(bad[i][0]), &l, &err) != ERR_CORRUPT) {
            fail_msg("taken: %s", bad[i][0]);
        }
        assert_int_equal(err.code, ERR_CORRUPT);
        assert_message(err, bad[i][1]);
        assert_int_equal(l.split_count, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ledger_comes_back),
        cmocka_unit_test(the_text_is_compact),
        cmocka_unit_test(broken_ledgers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
