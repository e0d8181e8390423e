/* SPDX-License-Identifier: Apache-2.0 */
/* However variables are cut and dealt out, an update gives the same bits. */
#include "update_rig.h"

#define VERSIONS 7
#define CUTS 4

static void compare(const struct update_spec *spec, const char *what)
{
    for (uint64_t seed = 1; seed <= CUTS; seed++) {
        struct rig one, many;
        rig_init(&one, spec, 1, 1, 0);
        rig_init(&many, spec, 1 + (size_t)(seed % RIG_SHARDS_MAX), 1 + (size_t)seed * 2, seed);
        for (int i = 0; i < VERSIONS; i++) {
            struct update_result a = rig_train(&one, rig_usual, 64);
            struct update_result b = rig_train(&many, rig_usual, 64);
            assert_int_equal(a.outcome, b.outcome);
            rig_assert_same(&one, &many, what);
        }
        rig_release(&one);
        rig_release(&many);
    }
}

static void test_every_rule(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        struct update_spec spec;
        rig_spec(&spec, rule_at(i)->name, "");
        compare(&spec, spec.rule->name);
        spec.clip_norm = 3;
        spec.clip_global_norm = 4;
        compare(&spec, spec.rule->name);
        update_spec_release(&spec);
    }
}

static void all_options(struct update_spec *spec)
{
    spec->clip_value = 2;
    spec->clip_norm = 9;
    spec->clip_global_norm = 12;
    spec->l1 = 0.01;
    spec->l2 = 0.02;
    spec->average = 0.9;
    spec->accumulate = 3;
    spec->non_finite = UPDATE_NON_FINITE_SKIP;
    rig_pattern(spec, "*bias")->learning_rate = 3;
    rig_pattern(spec, "scale")->frozen = true;
    rig_schedule(spec, "learning_rate", SCHEDULE_COSINE)->length = 5;
}

static void test_every_option(void **state)
{
    (void)state;
    static const char *const rules[] = {"sgd", "adam", "novograd", "adafactor", "sgld"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct update_spec spec;
        rig_spec(&spec, rules[i], "");
        all_options(&spec);
        spec.weight_decay = update_spec_field(&spec, "weight_decay", FIELD_FLOAT) ? 0 : 0.1;
        compare(&spec, rules[i]);
        spec.accumulate = 1;
        compare(&spec, rules[i]);
        spec.clip_norm = 0;
        compare(&spec, rules[i]);
        update_spec_release(&spec);
    }
}

/* What a generation change does: begun, reduced, settled, forgotten, begun again. */
static void test_begun_again(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        struct update_spec spec;
        struct rig once, twice;
        rig_spec(&spec, rule_at(i)->name, "");
        spec.clip_global_norm = 2;
        spec.accumulate = 2;
        rig_init(&once, &spec, 2, 3, 5);
        rig_init(&twice, &spec, 2, 3, 5);
        for (int k = 0; k < VERSIONS; k++) {
            (void)rig_train(&once, rig_usual, 8);
            rig_fill(&twice, rig_usual);
            for (size_t s = 0; s < twice.shard_count; s++) {
                const struct update_step step = rig_step(&twice, s, 8);
                update_begin(twice.shards[s].update, &step);
            }
            for (unsigned round = 0; round < update_rounds(twice.shards[0].update); round++) {
                rig_round(&twice, round);
            }
            (void)rig_train(&twice, rig_usual, 8);
            rig_assert_same(&once, &twice, spec.rule->name);
        }
        rig_release(&once);
        rig_release(&twice);
        update_spec_release(&spec);
    }
}

/* Norms from the worker are those that the shards would have taken. */
static void test_norms_of_a_worker(void **state)
{
    (void)state;
    struct update_spec spec;
    struct rig sync, async, worker;
    rig_spec(&spec, "momentum", "");
    spec.clip_value = 2;
    spec.clip_norm = 9;
    spec.clip_global_norm = 12;
    rig_pattern(&spec, "*bias")->frozen = true;
    rig_init(&sync, &spec, 3, 4, 9);
    rig_init(&async, &spec, 3, 4, 9);
    rig_init(&worker, &spec, 1, 1, 0);
    for (int i = 0; i < VERSIONS; i++) {
        double norms[RIG_VARIABLES];
        struct err err = {0};
        (void)rig_train(&sync, rig_usual, 32);
        rig_fill(&worker, rig_usual);
        rig_fill(&async, rig_usual);
        assert_int_equal(
            update_norms(worker.shards[0].update, worker.shards[0].gradient, 32, norms, &err), 0);
        assert_true(norms[1] == 0 && norms[0] > 0);
        for (size_t s = 0; s < async.shard_count; s++) {
            struct update_step step = rig_step(&async, s, 32);
            struct update_result result;
            assert_true(update_needs_norms(async.shards[s].update));
            assert_int_equal(
                update_run(async.shards[s].update, &step, async.shards[s].out, &result, &err),
                ERR_INVALID);
            assert_string_equal(err.msg, "the push has no norms of its variables");
            step.norms = norms;
            step.norm_count = RIG_VARIABLES - 1;
            assert_int_equal(
                update_run(async.shards[s].update, &step, async.shards[s].out, &result, &err),
                ERR_INVALID);
            step.norm_count = RIG_VARIABLES;
            assert_int_equal(
                update_run(async.shards[s].update, &step, async.shards[s].out, &result, &err), 0);
            assert_int_equal(result.outcome, UPDATE_APPLIED);
        }
        rig_flip(&async);
        worker.version++;
        rig_assert_same(&sync, &async, "norms");
    }
    rig_release(&sync);
    rig_release(&async);
    rig_release(&worker);
    update_spec_release(&spec);
}

/* One shard by itself is the same as one that exchanges with nobody. */
static void test_run_is_all_rounds(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        struct update_spec spec;
        struct rig a, b;
        rig_spec(&spec, rule_at(i)->name, "");
        spec.clip_norm = 5;
        rig_init(&a, &spec, 1, 1, 0);
        rig_init(&b, &spec, 1, 5, 3);
        for (int k = 0; k < 3; k++) {
            (void)rig_train(&a, rig_usual, 16);
            rig_fill(&b, rig_usual);
            const struct update_step step = rig_step(&b, 0, 16);
            struct update_result result;
            struct err err = {0};
            assert_int_equal(update_run(b.shards[0].update, &step, b.shards[0].out, &result, &err),
                             0);
            rig_flip(&b);
            rig_assert_same(&a, &b, spec.rule->name);
        }
        rig_release(&a);
        rig_release(&b);
        update_spec_release(&spec);
    }
}

/* Async: whole variables on several shards, of which each takes its own sums; norms come along. */
static void test_whole_variables_alone(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        for (int clips = 0; clips < 2; clips++) {
            struct update_spec spec;
            struct rig one, many;
            struct err err = {0};
            rig_spec(&spec, rule_at(i)->name, "");
            spec.clip_global_norm = clips * 3;
            rig_pattern(&spec, "*_1.bias")->frozen = true;
            rig_init(&one, &spec, 1, 1, 0);
            rig_init(&many, &spec, 3, 1, 0);
            for (int k = 0; k < 3; k++) {
                double norms[RIG_VARIABLES];
                rig_fill(&one, rig_usual);
                if (clips) {
                    assert_int_equal(
                        update_norms(one.shards[0].update, one.shards[0].gradient, 16, norms, &err),
                        0);
                }
                (void)rig_train(&one, rig_usual, 16);
                rig_fill(&many, rig_usual);
                for (size_t s = 0; s < many.shard_count; s++) {
                    struct update_step step = rig_step(&many, s, 16);
                    struct update_result result;
                    step.norms = clips ? norms : NULL;
                    step.norm_count = RIG_VARIABLES;
                    if (update_run(many.shards[s].update, &step, many.shards[s].out, &result,
                                   &err) != 0) {
                        fail_msg("%s: %s", spec.rule->name, err.msg);
                    }
                }
                rig_flip(&many);
                rig_assert_same(&one, &many, spec.rule->name);
            }
            rig_release(&one);
            rig_release(&many);
            update_spec_release(&spec);
        }
    }
}

/* A thread team that does everything from the end on. */
static unsigned shared;

static void run_backwards(void *team, size_t count, void (*one)(void *ctx, size_t i),
                          void (*done)(void *ctx, size_t n), void *ctx)
{
    assert_ptr_equal(team, &shared);
    for (size_t i = count; i > 0; i--) {
        one(ctx, i - 1);
    }
    if (done != NULL && count > 0) {
        done(ctx, count);
    }
    shared += count > 1;
}

/* Pieces and slices in any order, as threads would take them. */
static void test_pieces_in_any_order(void **state)
{
    (void)state;
    struct update_variable v[] = {{"w", UINT64_C(1100) * 512, 512, 0}, {"b", 70000, 1, 0}};
    struct update_part parts[] = {{0, 0, v[0].elements, 0}, {1, 0, 70000, v[0].elements}};
    static const char *const rules[] = {"adam", "adafactor", "sgld"};
    const uint64_t n = v[0].elements + v[1].elements;
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        struct update_spec spec;
        struct update *u = NULL;
        struct err err = {0};
        rig_spec(&spec, rules[r], "");
        spec.clip_global_norm = 1;
        spec.l2 = 0.001;
        assert_int_equal(update_new(&spec, v, 2, parts, 2, &u, &err), 0);
        shared = 0;
        float *in = rig_floats(n), *gradient = rig_floats(n), *out[2];
        float *slots[2][UPDATE_SLOTS_MAX];
        for (int way = 0; way < 2; way++) {
            out[way] = rig_floats(n);
            for (uint64_t i = 0; i < n; i++) {
                in[i] = (float)(i % 1000) * 0.001F;
                gradient[i] = (float)(i % 77) - 40.0F;
            }
            for (size_t k = 0; k < update_slot_count(u); k++) {
                slots[way][k] = rig_floats(update_slot_floats(u, k));
            }
            update_slots_fill(u, in, slots[way]);
            const struct update_step step = {
                .lr_scale = 1, .in = in, .gradient = gradient, .examples = 4, .slots = slots[way]};
            struct update_result result;
            const struct update_team team = {run_backwards, &shared, 5};
            if (way == 1) {
                assert_int_equal(update_share(u, &team, &err), 0);
            }
            assert_int_equal(update_run(u, &step, out[way], &result, &err), 0);
        }
        assert_true(shared > update_rounds(u)); /* rounds, the rule */
        assert_memory_equal(out[0], out[1], n * sizeof(float));
        for (size_t k = 0; k < update_slot_count(u); k++) {
            assert_memory_equal(slots[0][k], slots[1][k], update_slot_floats(u, k) * sizeof(float));
            free(slots[0][k]);
            free(slots[1][k]);
        }
        free(in);
        free(gradient);
        free(out[0]);
        free(out[1]);
        update_free(u);
        update_spec_release(&spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rule),          cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_begun_again),         cmocka_unit_test(test_norms_of_a_worker),
        cmocka_unit_test(test_run_is_all_rounds),   cmocka_unit_test(test_whole_variables_alone),
        cmocka_unit_test(test_pieces_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
