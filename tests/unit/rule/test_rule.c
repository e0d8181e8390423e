/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rules: names, slots, hyperparameters, and what all rules have in common. */
#include "rule_rig.h"

#include "rule/rules/rows.h"

static void every_row_is_complete(const struct rule *rule)
{
    assert_ptr_equal(rule_find(rule->name), rule);
    assert_non_null(rule->help);
    assert_non_null(rule->prepare);
    assert_true((rule->apply == NULL) != (rule->apply_span == NULL));
    assert_true(rule->slot_count <= RULE_SLOTS_MAX);
    assert_true(rule->rounds <= RULE_ROUNDS_MAX);
    assert_int_equal(rule->rounds > 0, rule->reduce != NULL);
    assert_int_equal(rule->rounds > 0, rule->settle != NULL);
    assert_false(rule->still && rule->catch_up != NULL);
    for (unsigned round = 0; round < rule->rounds; round++) {
        assert_in_range(rule->sum_count[round], 1, RULE_SUMS_MAX);
    }
    for (size_t k = 0; k < rule->slot_count; k++) {
        assert_non_null(rule->slot_names[k]);
        assert_null(strpbrk(rule->slot_names[k], "#/:")); /* the separators of checkpoints */
        /* What is not per parameter must be asked for: a shard that knows no rows cannot. */
        assert_true(rule->apply == NULL || rule->slot_kinds[k] == RULE_SLOT_PARAMETER);
        assert_true(!rule_takes_rows(rule) || rule->slot_kinds[k] <= RULE_SLOT_ROW);
    }
    for (size_t i = 0; i < rule->field_count; i++) {
        const struct field *field = &rule->fields[i];
        assert_non_null(field->def);
        assert_non_null(field->help);
        assert_true(field->offset < rule->params_bytes);
        assert_int_not_equal(field->type, FIELD_STRING); /* params are copied as bytes */
        assert_string_not_equal(field->path, "rule");    /* the job file's own key there */
    }
}

static void the_table_is_sound(void **state)
{
    (void)state;
    assert_null(rule_find("sdg"));
    assert_null(rule_find(""));
    assert_null(rule_at(1000));
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        every_row_is_complete(rule_at(r));
        free(fixture_params(rule_at(r), ""));
    }
}

static void assert_refused(const struct rule *rule, const struct field *field, const char *text)
{
    void *params = fixture_params(rule, "");
    void *before = fixture_params(rule, "");
    struct err err = {0};
    if (field_set(field, params, text, &err) != ERR_INVALID || err.msg[0] == '\0') {
        fail_msg("%s: %s accepts %s", rule->name, field->path, text);
    }
    assert_memory_equal(params, before, rule->params_bytes);
    free(params);
    free(before);
}

/* A little beyond either end; the ends themselves are allowed. */
static void check_range(const struct rule *rule, const struct field *field)
{
    char text[64];
    const double ends[] = {field->min, field->max};
    for (size_t i = 0; i < 2; i++) {
        double beyond = ends[i] == 0 ? 1e-9 : fabs(ends[i]) * 1e-9;
        if (field->type == FIELD_INT) {
            beyond = 1;
        }
        void *params = fixture_params(rule, "");
        (void)snprintf(text, sizeof text, "%.17g", ends[i]);
        if (field->type == FIELD_INT) {
            (void)snprintf(text, sizeof text, "%.0f", ends[i]);
        }
        assert_int_equal(field_set(field, params, text, NULL), 0);
        free(params);
        (void)snprintf(text, sizeof text, field->type == FIELD_INT ? "%.0f" : "%.17g",
                       i == 0 ? ends[i] - beyond : ends[i] + beyond);
        assert_refused(rule, field, text);
    }
}

static void wrong_hyperparameters_are_refused(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        const struct rule *rule = rule_at(r);
        for (size_t i = 0; i < rule->field_count; i++) {
            const struct field *field = &rule->fields[i];
            assert_refused(rule, field, "some");
            assert_refused(rule, field, "");
            assert_refused(rule, field, "7,5");
            if (field->type == FIELD_FLOAT || field->type == FIELD_INT) {
                assert_true(field->min < field->max);
                assert_refused(rule, field, "nan");
                assert_refused(rule, field, "inf");
                check_range(rule, field);
            }
        }
    }
}

/* At both ends of all ranges the scalars are finite, at the first version and the last. */
static void scalars_are_finite(void **state)
{
    (void)state;
    static const uint64_t versions[] = {0, 1, 1000, UINT64_MAX};
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        const struct rule *rule = rule_at(r);
        for (size_t i = 0; i < rule->field_count * 8; i++) {
            const struct field *field = &rule->fields[i / 8];
            if (field->type != FIELD_FLOAT) {
                continue;
            }
            void *params = fixture_params(rule, "");
            double end = i % 2 == 0 ? field->min : field->max;
            memcpy((char *)params + field->offset, &end, sizeof end);
            struct rule_scalars s = {0};
            rule->prepare(params, versions[i / 2 % 4], 1.0, &s);
            for (size_t k = 0; k < RULE_SCALARS_MAX; k++) {
                if (!isfinite(s.v[k])) {
                    fail_msg("%s: %s %g at %llu: scalar %zu is %g", rule->name, field->path, end,
                             (unsigned long long)versions[i / 2 % 4], k, (double)s.v[k]);
                }
            }
            free(params);
        }
    }
}

static void an_empty_range_is_fine(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        struct variable v;
        variable_init(&v, rule_at(r)->name, "", 3, 5, 1);
        float first = v.values[0];
        v.n = 0;
        if (v.rule->rounds == 0) {
            variable_update(&v, 0, 1.0, 1.0F);
        }
        assert_memory_equal(&v.values[0], &first, sizeof first);
        variable_release(&v);
    }
}

/* NaN is seen where it came in; where no sums tie elements together, nowhere else. */
static void nan_gradients_stay_visible(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        struct variable v;
        variable_init(&v, rule_at(r)->name, "", 11, 3, 1);
        variable_push(&v, 0);
        v.gradient[5] = NAN;
        variable_update(&v, 0, 1.0, 1.0F);
        if (!isnan(v.values[5])) {
            fail_msg("%s hides a gradient of NaN", v.rule->name);
        }
        for (size_t i = 0; v.rule->rounds == 0 && i < v.n; i++) {
            assert_true(isfinite(v.values[i]) || i / 3 == 1);
        }
        for (size_t i = 3; rule_is_elementwise(v.rule) && i < 5; i++) {
            assert_true(isfinite(v.values[i]));
        }
        variable_release(&v);
    }
}

/* The rules whose files say that an element whose square overflows stands still. */
static void squares_that_overflow(void **state)
{
    (void)state;
    static const char *const names[] = {
        "adagrad", "adadelta", "rmsprop",          "adam", "amsgrad",   "adamw",        "nadam",
        "radam",   "ftml",     "proximal_adagrad", "yogi", "adabelief", "adagrad_decay"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct variable v;
        variable_init(&v, names[i], "", 1, 4, 1);
        for (uint64_t step = 0; step < 20; step++) {
            for (size_t k = 0; k < 4; k++) {
                v.gradient[k] = step == 9 && k == 2 ? 1e25F : 0.01F;
            }
            float before = v.values[2];
            variable_update(&v, step, 1.0, 1.0F);
            if (!isfinite(v.values[2]) ||
                (step > 9 && fabsf(v.values[2] - before) > 1e-4F * fabsf(before))) {
                fail_msg("%s: %g after %g at step %d", names[i], (double)v.values[2],
                         (double)before, (int)step);
            }
        }
        variable_release(&v);
    }
}

/* t in the bias correction is version + 1: the first update of Adam moves by the learning rate. */
static void adam_corrects_the_first_update(void **state)
{
    (void)state;
    struct variable v;
    variable_init(&v, "adam", "", 1, 1, 1);
    v.values[0] = 1.0F;
    v.gradient[0] = 123.0F;
    variable_update(&v, 0, 1.0, 1.0F);
    assert_true(fabsf(v.values[0] - 0.999F) < 1e-6F);
    variable_release(&v);
}

/* Two names of the same arithmetic. */
static void some_rules_contain_others(void **state)
{
    (void)state;
    static const char *const pairs[][4] = {
        {"nesterov", "", "momentum", "nesterov=true"},
        {"adamw", "weight_decay=0", "adam", ""},
        {"dc_asgd", "lambda=0 learning_rate=0.01", "sgd", ""},
        {"sgld", "temperature=0 learning_rate=0.02", "sgd", ""},
        {"proximal_sgd", "", "sgd", ""},
        {"lion", "beta1=0 beta2=0", "signum", "momentum=0 learning_rate=0.0001"},
        {"ftml", "beta1=0 learning_rate=0.001", "adam", "beta1=0"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct variable a, b;
        variable_init(&a, pairs[i][0], pairs[i][1], 7, 5, 1);
        variable_init(&b, pairs[i][2], pairs[i][3], 7, 5, 1);
        for (uint64_t step = 0; step < 20; step++) {
            variable_push(&a, step);
            variable_push(&b, step);
            variable_update(&a, step, 0.75, 0.3F);
            variable_update(&b, step, 0.75, 0.3F);
        }
        assert_same_floats(a.values, b.values, a.n, pairs[i][0], "value");
        variable_release(&a);
        variable_release(&b);
    }
}

static void a_scale_of_the_learning_rate(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        const struct rule *rule = rule_at(r);
        const struct field *rate = field_find(rule->fields, rule->field_count, "learning_rate");
        struct rule_scalars scaled = {0}, set = {0};
        void *params = fixture_params(rule, "");
        rule->prepare(params, 3, 0.25, &scaled);
        if (rate != NULL) {
            double value;
            memcpy(&value, (char *)params + rate->offset, sizeof value);
            value *= 0.25;
            memcpy((char *)params + rate->offset, &value, sizeof value);
        }
        rule->prepare(params, 3, 1.0, &set);
        assert_memory_equal(&scaled, &set, sizeof set);
        free(params);
    }
}

static void memory_per_parameter(void **state)
{
    (void)state;
    assert_int_equal(rule_bytes_per_parameter(rule_find("sgd")), 4);
    assert_int_equal(rule_bytes_per_parameter(rule_find("adam")), 12);
    assert_int_equal(rule_bytes_per_parameter(rule_find("adafactor")), 4);
    assert_int_equal(rule_slot_floats(rule_find("adafactor"), 0, 7, 9), 7);
    assert_int_equal(rule_slot_floats(rule_find("adafactor"), 1, 7, 9), 9);
    assert_int_equal(rule_slot_floats(rule_find("novograd"), 1, 7, 9), 1);
    assert_int_equal(rule_slot_floats(rule_find("adam"), 1, 7, 9), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(wrong_hyperparameters_are_refused),
        cmocka_unit_test(scalars_are_finite),
        cmocka_unit_test(an_empty_range_is_fine),
        cmocka_unit_test(nan_gradients_stay_visible),
        cmocka_unit_test(squares_that_overflow),
        cmocka_unit_test(adam_corrects_the_first_update),
        cmocka_unit_test(some_rules_contain_others),
        cmocka_unit_test(a_scale_of_the_learning_rate),
        cmocka_unit_test(memory_per_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
