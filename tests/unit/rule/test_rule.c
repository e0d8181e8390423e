/* Update rules, through their table: every rule is compared with a naive oracle in double
 * precision, and must give the same bits however its range is cut. A new rule needs an oracle row
 * here. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rule/rule.h"

#define ELEMENTS 1003 /* odd on purpose: every vector width leaves a remainder */
#define STEPS 200
#define HYPER_MAX 4

struct oracle_state {
    double w, slot[RULE_SLOTS_MAX];
};

/* One update number @t (1-based) of one element, straight from the paper. */
typedef void oracle_step(struct oracle_state *s, const double *hyper, double g, double t);

/* The learning rate of every second update is scaled; it is the first hyperparameter everywhere. */
static double lr_scale_at(uint64_t version)
{
    return version % 2 == 0 ? 1.0 : 1.0 / (double)(1 + version % 7);
}

struct oracle {
    const char *rule;
    const char *hyper[HYPER_MAX][2]; /* settings by key and text */
    double hyper_value[HYPER_MAX];   /* the same as numbers, in the order the step reads them */
    oracle_step *step;
};

static void oracle_sgd(struct oracle_state *s, const double *hyper, double g, double t)
{
    (void)t;
    s->w -= hyper[0] * g;
}

static void oracle_momentum(struct oracle_state *s, const double *hyper, double g, double t)
{
    (void)t;
    s->slot[0] = hyper[1] * s->slot[0] + g;
    s->w -= hyper[0] * (hyper[2] != 0 ? g + hyper[1] * s->slot[0] : s->slot[0]);
}

static void oracle_adam(struct oracle_state *s, const double *hyper, double g, double t)
{
    s->slot[0] = hyper[1] * s->slot[0] + (1 - hyper[1]) * g;
    s->slot[1] = hyper[2] * s->slot[1] + (1 - hyper[2]) * g * g;
    double m_hat = s->slot[0] / (1 - pow(hyper[1], t));
    double v_hat = s->slot[1] / (1 - pow(hyper[2], t));
    s->w -= hyper[0] * m_hat / (sqrt(v_hat) + hyper[3]);
}

static const struct oracle oracles[] = {
    {"sgd", {{NULL}}, {0.01}, oracle_sgd},
    {"sgd", {{"learning_rate", "0.5"}}, {0.5}, oracle_sgd},
    {"momentum", {{NULL}}, {0.01, 0.9, 0}, oracle_momentum},
    {"momentum", {{"nesterov", "true"}, {"momentum", "0.5"}}, {0.01, 0.5, 1}, oracle_momentum},
    {"momentum", {{"momentum", "0"}, {"learning_rate", "1"}}, {1, 0, 0}, oracle_momentum},
    {"adam", {{NULL}}, {0.001, 0.9, 0.999, 1e-8}, oracle_adam},
    {"adam", {{"beta1", "0"}, {"beta2", "0.9"}}, {0.001, 0, 0.9, 1e-8}, oracle_adam},
    {"adam", {{"learning_rate", "0.1"}, {"epsilon", "0.01"}}, {0.1, 0.9, 0.999, 0.01}, oracle_adam},
};
#define ORACLE_COUNT (sizeof oracles / sizeof oracles[0])

/* A shard of one variable under one rule. */
struct fixture {
    const struct rule *rule;
    void *params;
    float *values, *slots[RULE_SLOTS_MAX];
    float *gradient;
};

static void fixture_init(struct fixture *f, const struct oracle *o)
{
    f->rule = rule_find(o->rule);
    assert_non_null(f->rule);
    f->params = mem_new(1, f->rule->params_bytes);
    field_defaults(f->rule->fields, f->rule->field_count, f->params);
    for (size_t i = 0; i < HYPER_MAX && o->hyper[i][0] != NULL; i++) {
        const struct field *field =
            field_find(f->rule->fields, f->rule->field_count, o->hyper[i][0]);
        assert_non_null(field);
        assert_int_equal(field_set(field, f->params, o->hyper[i][1], NULL), 0);
    }
    f->values = mem_new(ELEMENTS, sizeof(float));
    f->gradient = mem_new(ELEMENTS, sizeof(float));
    for (size_t i = 0; i < ELEMENTS; i++) {
        f->values[i] = (float)rng_normal(rng_key(1, "values"), i);
    }
    for (size_t k = 0; k < f->rule->slot_count; k++) {
        f->slots[k] = mem_new(ELEMENTS, sizeof(float));
        for (size_t i = 0; i < ELEMENTS; i++) {
            f->slots[k][i] = f->rule->slot_initial[k];
        }
    }
}

static void fixture_release(struct fixture *f)
{
    struct update_spec u = {f->rule, f->params};
    update_spec_release(&u);
    assert_null(u.params);
    free(f->values);
    free(f->gradient);
    for (size_t k = 0; k < f->rule->slot_count; k++) {
        free(f->slots[k]);
    }
    *f = (struct fixture){0};
}

/* Elements differ in kind: ordinary, always zero, denormal, huge, mostly zero, shrinking. */
static float gradient_at(uint64_t step, uint64_t i)
{
    float x = (float)rng_normal(rng_key_mix(rng_key(7, "gradient"), step), i);
    switch (i % 6) {
    case 0:
        return x;
    case 1:
        return 0.0F;
    case 2:
        return x * 1e-40F;
    case 3:
        return x * 1e17F;
    case 4:
        return step % 10 == 3 ? x : 0.0F;
    default:
        return x * (float)exp(-0.1 * (double)step);
    }
}

static void apply_range(struct fixture *f, uint64_t version, float *out, size_t from, size_t n,
                        float scale)
{
    struct rule_scalars s;
    f->rule->prepare(f->params, version, lr_scale_at(version), &s);
    float *slots[RULE_SLOTS_MAX] = {NULL};
    for (size_t k = 0; k < f->rule->slot_count; k++) {
        slots[k] = f->slots[k] + from;
    }
    f->rule->apply(&s, out + from, f->values + from, slots, f->gradient + from, scale, n);
}

static void every_rule_has_an_oracle(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        size_t found = 0;
        for (size_t i = 0; i < ORACLE_COUNT; i++) {
            found += strcmp(oracles[i].rule, rule_at(r)->name) == 0;
        }
        assert_true(found > 0);
    }
}

static void check_against_oracle(const struct oracle *o)
{
    struct fixture f = {0};
    fixture_init(&f, o);
    struct oracle_state *want = mem_new(ELEMENTS, sizeof *want);
    double *path = mem_new(ELEMENTS, sizeof *path); /* how far the oracle has moved in all */
    for (size_t i = 0; i < ELEMENTS; i++) {
        want[i].w = (double)f.values[i];
    }
    const float scale = 1.0F / 3.0F;
    for (uint64_t step = 0; step < STEPS; step++) {
        double hyper[HYPER_MAX];
        memcpy(hyper, o->hyper_value, sizeof hyper);
        hyper[0] *= lr_scale_at(step);
        for (size_t i = 0; i < ELEMENTS; i++) {
            f.gradient[i] = gradient_at(step, i);
            double before = want[i].w;
            o->step(&want[i], hyper, (double)f.gradient[i] * (double)scale, (double)(step + 1));
            path[i] += fabs(want[i].w - before);
        }
        apply_range(&f, step, f.values, 0, ELEMENTS, scale);
    }
    for (size_t i = 0; i < ELEMENTS; i++) {
        double allowed = 2e-5 * (fabs(want[i].w) + path[i]);
        double difference = fabs((double)f.values[i] - want[i].w);
        if (!(difference <= allowed)) {
            fail_msg("%s, element %zu: %.9g, oracle %.9g", o->rule, i, (double)f.values[i],
                     want[i].w);
        }
    }
    free(want);
    free(path);
    fixture_release(&f);
}

static void rules_match_the_oracle(void **state)
{
    (void)state;
    for (size_t i = 0; i < ORACLE_COUNT; i++) {
        check_against_oracle(&oracles[i]);
    }
}

/* @cuts 0: whole and in place; 1: whole into another buffer; 2: one by one; n: pieces below n. */
static void run_cut(const struct oracle *o, size_t cuts, struct fixture *f)
{
    fixture_init(f, o);
    float *other = mem_new(ELEMENTS, sizeof *other);
    for (uint64_t step = 0; step < 5; step++) {
        for (size_t i = 0; i < ELEMENTS; i++) {
            f->gradient[i] = gradient_at(step, i);
        }
        float *out = cuts == 1 ? other : f->values;
        for (size_t at = 0, k = 0, n; at < ELEMENTS; at += n, k++) {
            n = ELEMENTS;
            if (cuts >= 2) {
                n = 1 + (size_t)rng_below(rng_key(step, "cut"), k, cuts - 1);
            }
            n = n < ELEMENTS - at ? n : ELEMENTS - at;
            apply_range(f, step, out, at, n, 0.7F);
        }
        if (cuts == 1) {
            float *t = f->values;
            f->values = other;
            other = t;
        }
    }
    free(other);
}

static void any_cut_gives_the_same_bits(void **state)
{
    (void)state;
    static const size_t cuts[] = {1, 2, 3, 9, 40, 130};
    for (size_t i = 0; i < ORACLE_COUNT; i++) {
        struct fixture whole = {0};
        run_cut(&oracles[i], 0, &whole);
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
            struct fixture cut = {0};
            run_cut(&oracles[i], cuts[c], &cut);
            assert_memory_equal(whole.values, cut.values, ELEMENTS * sizeof(float));
            for (size_t k = 0; k < whole.rule->slot_count; k++) {
                assert_memory_equal(whole.slots[k], cut.slots[k], ELEMENTS * sizeof(float));
            }
            fixture_release(&cut);
        }
        fixture_release(&whole);
    }
}

static void an_empty_range_is_fine(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        struct oracle o = {.rule = rule_at(r)->name};
        struct fixture f = {0};
        fixture_init(&f, &o);
        float first = f.values[0];
        apply_range(&f, 0, f.values, 0, 0, 1.0F);
        assert_memory_equal(&f.values[0], &first, sizeof first);
        fixture_release(&f);
    }
}

/* t in the bias correction is version + 1: the first update of Adam moves by the learning rate. */
static void adam_corrects_the_first_update(void **state)
{
    (void)state;
    struct oracle o = {.rule = "adam"};
    struct fixture f = {0};
    fixture_init(&f, &o);
    f.values[0] = 1.0F;
    f.gradient[0] = 123.0F;
    apply_range(&f, 0, f.values, 0, 1, 1.0F);
    assert_true(fabsf(f.values[0] - 0.999F) < 1e-6F);
    /* Far out the correction is gone, and the numbers stay finite. */
    struct rule_scalars s;
    f.rule->prepare(f.params, UINT64_MAX, 1.0, &s);
    for (size_t i = 0; i < 7; i++) {
        assert_true(isfinite(s.v[i]));
    }
    fixture_release(&f);
}

static void nan_gradients_stay_visible(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        struct oracle o = {.rule = rule_at(r)->name};
        struct fixture f = {0};
        fixture_init(&f, &o);
        f.gradient[5] = NAN;
        apply_range(&f, 0, f.values, 0, ELEMENTS, 1.0F);
        assert_true(isnan(f.values[5]));
        assert_true(isfinite(f.values[4]) && isfinite(f.values[6]));
        fixture_release(&f);
    }
}

static void the_table_is_sound(void **state)
{
    (void)state;
    assert_null(rule_find("sdg"));
    assert_null(rule_find(""));
    assert_null(rule_at(1000));
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        const struct rule *rule = rule_at(r);
        assert_ptr_equal(rule_find(rule->name), rule);
        assert_true(rule->slot_count <= RULE_SLOTS_MAX);
        for (size_t k = 0; k < rule->slot_count; k++) {
            assert_non_null(rule->slot_names[k]);
            assert_null(strpbrk(rule->slot_names[k], "#/:")); /* the separators of checkpoints */
        }
        for (size_t i = 0; i < rule->field_count; i++) {
            const struct field *field = &rule->fields[i];
            assert_non_null(field->def);
            assert_non_null(field->help);
            assert_true(field->offset < rule->params_bytes);
            void *params = mem_new(1, rule->params_bytes);
            assert_int_equal(field_set(field, params, field->def, NULL), 0);
            free(params);
        }
    }
}

static void wrong_hyperparameters_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"sgd", "learning_rate", "-1"},  {"sgd", "learning_rate", "fast"},
        {"momentum", "momentum", "1.5"}, {"momentum", "nesterov", "7"},
        {"adam", "beta1", "1"},          {"adam", "beta2", "1"},
        {"adam", "epsilon", "0"},        {"adam", "learning_rate", "nan"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct rule *rule = rule_find(bad[i][0]);
        void *params = mem_new(1, rule->params_bytes);
        const struct field *field = field_find(rule->fields, rule->field_count, bad[i][1]);
        struct err err = {0};
        assert_int_equal(field_set(field, params, bad[i][2], &err), ERR_INVALID);
        assert_true(err.msg[0] != '\0');
        free(params);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_has_an_oracle),
        cmocka_unit_test(rules_match_the_oracle),
        cmocka_unit_test(any_cut_gives_the_same_bits),
        cmocka_unit_test(an_empty_range_is_fine),
        cmocka_unit_test(adam_corrects_the_first_update),
        cmocka_unit_test(nan_gradients_stay_visible),
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(wrong_hyperparameters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
