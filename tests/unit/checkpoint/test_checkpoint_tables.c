/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in checkpoints: the same bits on any number of shards, whatever went on while they were
 * written; and files that are damaged, or of something else. */
#include "tables_rig.h"

static void grow(struct fleet *a, struct fleet *b, unsigned updates)
{
    fleet_update(a, updates);
    fleet_update(b, updates);
    fleet_assert_same(a, b);
}

/* Saved by 3 shards, by 2 and by 5, each time while updates go on, beside one that never was. */
static void play(struct fixture *x, const char *rule, uint64_t part_bytes)
{
    static const uint32_t counts[] = {3, 2, 5, 1};
    struct fleet whole, parts, next;
    struct err err;
    fleet_open(&whole, rule, 1, 0);
    fleet_open(&parts, rule, counts[0], 0);
    grow(&whole, &parts, 12);
    for (size_t i = 1; i < sizeof counts / sizeof counts[0]; i++) {
        const uint64_t version = parts.version;
        char *path = fleet_save(&parts, x, part_bytes, i != 2);
        fleet_open(&next, rule, counts[i], version);
        if (fleet_restore(&next, path, CHECKPOINT_PIECES, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        fleet_assert_same(&whole, &next);
        fleet_close(&parts);
        parts = next;
        free(path);
        grow(&whole, &parts, 9);
    }
    fleet_close(&whole);
    fleet_close(&parts);
}

static void test_any_number_of_shards(void **state)
{
    play(*state, "adam", 3000);
    play(*state, "rowwise_adagrad", 500);
    play(*state, "momentum", 64);
    play(*state, "sgd", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_number_of_shards, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
