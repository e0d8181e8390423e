/* SPDX-License-Identifier: Apache-2.0 */
/* Whether slots of a checkpoint fit a job: all that differs is said at once. */
#include "support/test.h"

#include <string.h>

#include "warm/warm_slots.h"

static char slot_m[] = "m", slot_v[] = "v", slot_squares[] = "squares", adam[] = "adam",
            adagrad[] = "adagrad";

static const struct variable_spec variables[] = {{.name = "kernel"}, {.name = "ads"}};
static const struct warm_wanted wanted = {variables, 2, 1};

static int check(const char *rule, const struct manifest *m, const size_t *tensors, struct err *err)
{
    size_t found[] = {tensors[0], tensors[1]};
    const struct warm_match match = {.tensors = found};
    const struct update_spec update = {.rule = rule_find(rule), .accumulate = 1};
    return warm_slots_check(m, &update, &wanted, &match, err);
}

static void slots_of_the_same_rule(void **state)
{
    (void)state;
    static const size_t all[] = {0, 1};
    struct err err = {0};
    struct manifest_shard shards[] = {{.version = 7}, {.version = 7}};
    const struct manifest m = {.rule = adam,
                               .slots = {slot_m, slot_v},
                               .slot_count = 2,
                               .shards = shards,
                               .shard_count = 2};
    assert_int_equal(check("adam", &m, all, &err), 0);
    assert_int_equal(check("adamw", &m, all, &err), ERR_INVALID);
    assert_string_equal(err.msg, "from.slots: rule: adamw here, adam there "
                                 "('slots: false' begins with new ones)");
}

static void all_misfits_at_once(void **state)
{
    (void)state;
    static const size_t nothing[] = {WARM_NONE, WARM_NONE};
    struct err err = {0};
    struct manifest_shard shards[] = {{.version = 7}, {.version = 8}};
    const struct manifest m = {.rule = adagrad,
                               .slots = {slot_squares},
                               .slot_count = 1,
                               .shards = shards,
                               .shard_count = 2};
    assert_int_equal(check("sgd", &m, nothing, &err), ERR_INVALID);
    assert_string_equal(
        err.msg, "from.slots: rule: sgd here, adagrad there; slots: none here, squares per "
                 "parameter there; without values there: kernel, table ads; its servers have "
                 "made different numbers of updates ('slots: false' begins with new ones)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_the_same_rule),
        cmocka_unit_test(all_misfits_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
