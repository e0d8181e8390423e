/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of sums that are wrong, and updates that cannot be made. */
#include "update_rig.h"

#include <inttypes.h>

static void one_spec(struct update_spec *spec, const char *rule)
{
    rig_spec(spec, rule, "");
    spec->clip_global_norm = 1;
}

/* An update that waits for the totals of @round. */
static void begin(struct rig *r, unsigned round)
{
    rig_fill(r, rig_usual);
    for (size_t i = 0; i < r->shard_count; i++) {
        const struct update_step step = rig_step(r, i, 8);
        update_begin(r->shards[i].update, &step);
    }
    for (unsigned k = 0; k < round; k++) {
        rig_round(r, k);
    }
    for (size_t i = 0; i < r->shard_count; i++) {
        update_reduce(r->shards[i].update, round, &r->shards[i].sums);
    }
}

static int join(const struct rig *r, struct buf *totals, struct err *err)
{
    const void *parts[RIG_SHARDS_MAX];
    size_t bytes[RIG_SHARDS_MAX];
    for (size_t i = 0; i < r->shard_count; i++) {
        parts[i] = r->shards[i].sums.data;
        bytes[i] = r->shards[i].sums.len;
    }
    return update_join(parts, bytes, r->shard_count, totals, err);
}

static void join_refused(const struct rig *r, const char *message)
{
    struct buf totals = {0};
    struct err err = {0};
    assert_int_equal(join(r, &totals, &err), ERR_INVALID);
    assert_string_equal(err.msg, message);
    assert_int_equal(totals.len, 0);
    buf_release(&totals);
}

static void test_what_does_not_fit_together(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig r;
    struct err err = {0};
    struct buf totals = {0};
    one_spec(&spec, "lars");
    rig_init(&r, &spec, 2, 3, 3);
    begin(&r, 0);
    assert_int_equal(join(&r, &totals, &err), 0);
    struct buf *sums = &r.shards[1].sums;

    assert_int_equal(update_join(NULL, NULL, 0, &totals, &err), ERR_INVALID);
    assert_string_equal(err.msg, "join sums: there are none");
    size_t n = sums->len;
    sums->len = 3;
    join_refused(&r, "join sums: message 1: 3 bytes that are no sums");
    sums->len = n - 8;
    join_refused(&r, "join sums: message 1: variable 2: the message ends in the middle of a sum");
    buf_add(sums, "0123456701234567", 16);
    join_refused(&r, "join sums: message 1: 8 bytes behind the last sum");
    sums->len = n;

    const void *twice[] = {r.shards[0].sums.data, r.shards[0].sums.data};
    size_t bytes[] = {r.shards[0].sums.len, r.shards[0].sums.len};
    assert_int_equal(update_join(twice, bytes, 2, &totals, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "a part begins at element"));
    assert_int_equal(update_join(twice, bytes, 1, &totals, &err), ERR_INVALID); /* half of them */

    /* Of another version, of another round. */
    struct rig_shard *other = &r.shards[1];
    struct update_step step = rig_step(&r, 1, 8);
    step.version = 9;
    update_begin(other->update, &step);
    update_reduce(other->update, 0, sums);
    join_refused(&r, "join sums: message 1: round 0 of version 9, others have round 0 of version "
                     "0");
    buf_release(&totals);
    rig_release(&r);
    update_spec_release(&spec);
}

/* The totals of @round, made good. */
static void make_totals(struct rig *r, unsigned round, struct buf *totals)
{
    struct err err = {0};
    begin(r, round);
    if (join(r, totals, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static void settle_refused(struct rig *r, unsigned round, const struct buf *totals,
                           const char *message)
{
    struct err err = {0};
    int rc = update_settle(r->shards[0].update, round, totals->data, totals->len, &err);
    assert_int_equal(rc, ERR_INVALID);
    assert_string_equal(err.msg, message);
}

static void test_totals_of_something_else(void **state)
{
    (void)state;
    struct update_spec lars, adafactor, frozen;
    struct rig a, b, c;
    struct buf norms = {0}, of_a = {0}, of_b = {0};
    struct err err = {0};
    one_spec(&lars, "lars");
    one_spec(&adafactor, "adafactor");
    one_spec(&frozen, "lars");
    rig_pattern(&frozen, "scale")->frozen = true;
    rig_init(&a, &lars, 2, 3, 3);
    rig_init(&b, &adafactor, 2, 3, 3);
    rig_init(&c, &frozen, 2, 3, 3);
    make_totals(&a, 0, &norms);
    make_totals(&a, 1, &of_a);
    make_totals(&b, 1, &of_b);
    settle_refused(&a, 1, &norms,
                   "totals of round 1: round 0 of version 0, but round 1 of version "
                   "0 is next");
    settle_refused(&a, 1, &of_b,
                   "totals of round 1: 'dense_1.kernel' has 1 and 6 sums, not 2 and 0");
    settle_refused(&a, 1, &a.shards[0].sums, "totals of round 1: these are not totals");
    begin(&c, 0);
    settle_refused(&c, 0, &norms, "totals of round 0: sums over 4 variables instead of 3");
    assert_int_equal(update_settle(a.shards[0].update, 1, of_a.data, of_a.len, &err), 0);
    buf_release(&norms);
    buf_release(&of_a);
    buf_release(&of_b);
    rig_release(&a);
    rig_release(&b);
    rig_release(&c);
    update_spec_release(&lars);
    update_spec_release(&adafactor);
    update_spec_release(&frozen);
}

static void mutate(struct buf *b, uint64_t seed)
{
    uint64_t draw = 0, changes = 1 + rng_below(seed, draw++, 3);
    for (uint64_t i = 0; i < changes; i++) {
        /* Heads rather than sums: there are more ways to be wrong. */
        size_t span = rng_below(seed, draw++, 2) == 0 && b->len > 160 ? 160 : b->len;
        size_t at = (size_t)rng_below(seed, draw++, span);
        static const unsigned char values[] = {0, 1, 2, 0x10, 0x7f, 0x80, 0xff};
        b->data[at] = (char)values[rng_below(seed, draw++, sizeof values)];
    }
    if (rng_below(seed, draw++, 8) == 0) {
        b->len = (size_t)rng_below(seed, draw++, b->len + 1);
    }
}

/* Anything for an answer: sums, or a reason; never a crash. */
static void test_mutated_messages(void **state)
{
    (void)state;
    static const char *const rules[] = {"lars", "adafactor", "novograd"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct update_spec spec;
        struct rig r;
        size_t refused = 0;
        one_spec(&spec, rules[i]);
        rig_init(&r, &spec, 3, 3, 5);
        for (unsigned round = 0; round < update_rounds(r.shards[0].update); round++) {
            struct buf good = {0};
            begin(&r, round);
            buf_add(&good, r.shards[1].sums.data, r.shards[1].sums.len);
            for (uint64_t seed = 0; seed < 1500; seed++) {
                struct buf totals = {0}, *sums = &r.shards[1].sums;
                struct err err = {0};
                buf_reset(sums);
                buf_add(sums, good.data, good.len);
                mutate(sums, seed);
                int rc = join(&r, &totals, &err);
                assert_true((rc == 0) == (err.code == 0));
                refused += rc != 0;
                if (rc == 0) { /* only a value was changed, or what nobody reads */
                    rc = update_settle(r.shards[0].update, round, totals.data, totals.len, &err);
                    begin(&r, round);
                }
                buf_release(&totals);
            }
            buf_release(&good);

            struct buf totals = {0}, mutant = {0};
            make_totals(&r, round, &totals);
            for (uint64_t seed = 0; seed < 1500; seed++) {
                struct err err = {0};
                buf_reset(&mutant);
                buf_add(&mutant, totals.data, totals.len);
                mutate(&mutant, seed);
                if (update_settle(r.shards[2].update, round, mutant.data, mutant.len, &err) == 0) {
                    begin(&r, round);
                } else {
                    assert_int_equal(err.code, ERR_INVALID);
                    refused++;
                }
            }
            buf_release(&totals);
            buf_release(&mutant);
        }
        assert_true(refused > 1000);
        rig_release(&r);
        update_spec_release(&spec);
    }
}

/* ---- what cannot be made ---- */

static void new_refused(const struct update_spec *spec, const struct update_part *parts,
                        size_t count, const char *message)
{
    struct update *u = NULL;
    struct err err = {0};
    int rc = update_new(spec, rig_variables, RIG_VARIABLES, parts, count, &u, &err);
    assert_int_equal(rc, ERR_INVALID);
    assert_string_equal(err.msg, message);
    assert_null(u);
}

static void test_parts_that_are_none(void **state)
{
    (void)state;
    struct update_spec spec;
    rig_spec(&spec, "adam", "");
    new_refused(&spec, &(struct update_part){5, 0, 5, 0}, 1,
                "update: part 0: there is no variable 5");
    new_refused(&spec, &(struct update_part){0, 0, 6, 0}, 1,
                "update: part 0: elements 0 to 6 are no rows of 'dense_1.kernel'");
    new_refused(&spec, &(struct update_part){0, 180, 10, 0}, 1,
                "update: part 0: elements 180 to 190 are no rows of 'dense_1.kernel'");
    new_refused(&spec, &(struct update_part){0, 0, 5, 3}, 1,
                "update: part 0 begins at 3 of the shard, not at 0");
    update_spec_release(&spec);
}

static void test_patterns(void **state)
{
    (void)state;
    struct update_spec spec;
    const struct update_part part = {0, 0, 5, 0};
    rig_spec(&spec, "adam", "");
    (void)rig_pattern(&spec, "dense_?.*");
    (void)rig_pattern(&spec, "*");
    assert_int_equal(update_spec_match(&spec, "dense_1.kernel"), 0);
    assert_int_equal(update_spec_match(&spec, "dense_.kernel"), 1);
    assert_int_equal(update_spec_match(&spec, ""), 1);
    (void)rig_pattern(&spec, "*bias*");
    new_refused(&spec, &part, 1,
                "update: update.variables.2.match: '*bias*' matches nothing that 'dense_?.*' above "
                "it leaves; allowed: the special pattern first");
    update_spec_release(&spec);

    rig_spec(&spec, "adam", "");
    (void)rig_pattern(&spec, "*b*a*s*");
    assert_int_equal(update_spec_match(&spec, "xbyaabzas"), 0);
    assert_int_equal(update_spec_match(&spec, "xbyaabza"), 1);
    (void)rig_pattern(&spec, "conv*");
    new_refused(&spec, &part, 1,
                "update: update.variables.1.match: no variable matches 'conv*'; allowed: patterns "
                "of names such as 'dense_1.kernel'");
    update_spec_release(&spec);
}

/* Rules that need whole variables say so where nobody exchanges sums. */
static void test_cut_variables_need_rounds(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig r;
    struct update_result result;
    struct err err = {0};
    rig_spec(&spec, "lamb", "");
    rig_init(&r, &spec, 2, 3, 3);
    const struct update_step step = rig_step(&r, 0, 8);
    assert_false(update_is_whole(r.shards[0].update));
    assert_int_equal(update_run(r.shards[0].update, &step, r.shards[0].out, &result, &err),
                     ERR_STATE);
    assert_string_equal(err.msg, "lamb needs sums over variables that lie on several shards");
    rig_release(&r);
    rig_init(&r, &spec, 2, 1, 0); /* whole ones */
    assert_true(update_is_whole(r.shards[0].update));
    rig_release(&r);
    update_spec_release(&spec);
}

/* A shard that has tables alone takes part in everything, with nothing of its own. */
static void test_no_parts(void **state)
{
    (void)state;
    struct update_spec spec;
    struct err err = {0};
    one_spec(&spec, "lars");
    struct update *u = NULL;
    assert_int_equal(update_new(&spec, rig_variables, RIG_VARIABLES, NULL, 0, &u, &err), 0);
    float nothing[1] = {0}, out[1] = {7};
    float *slots[UPDATE_SLOTS_MAX] = {nothing, nothing, nothing};
    struct buf mine = {0};
    struct update_result result;
    const struct update_step step = {
        .lr_scale = 1, .in = nothing, .gradient = nothing, .examples = 8, .slots = slots};
    struct rig r;
    struct buf totals = {0};
    rig_init(&r, &spec, 2, 3, 3);
    for (size_t k = 0; k < update_slot_count(u); k++) {
        assert_int_equal(update_slot_floats(u, k), 0);
    }
    begin(&r, 0);
    update_begin(u, &step);
    update_reduce(u, 0, &mine);
    const void *parts[] = {r.shards[0].sums.data, mine.data, r.shards[1].sums.data};
    const size_t bytes[] = {r.shards[0].sums.len, mine.len, r.shards[1].sums.len};
    assert_int_equal(update_join(parts, bytes, 3, &totals, &err), 0);
    assert_int_equal(update_settle(u, 0, totals.data, totals.len, &err), 0);
    buf_release(&totals);
    rig_release(&r);
    rig_init(&r, &spec, 2, 3, 3);
    make_totals(&r, 1, &totals);
    assert_int_equal(update_settle(u, 1, totals.data, totals.len, &err), 0);
    update_finish(u, out, &result);
    assert_int_equal(result.outcome, UPDATE_APPLIED);
    assert_true(out[0] == 7);
    update_free(u);
    buf_release(&mine);
    buf_release(&totals);
    rig_release(&r);
    update_spec_release(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_does_not_fit_together),
        cmocka_unit_test(test_totals_of_something_else),
        cmocka_unit_test(test_mutated_messages),
        cmocka_unit_test(test_no_parts),
        cmocka_unit_test(test_parts_that_are_none),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_cut_variables_need_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
