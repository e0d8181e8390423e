/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule against the numbers of tests/golden/rules.py: 1,000 updates on gradients that are
 * ordinary, zero, denormal, huge, rare or fading. A new rule needs a case there. */
#include "rule_rig.h"

#include "../../golden/rules.h"

#define ERROR_MAX 1e-5 /* of the largest size that an element had */
#define PAST 4

static const struct {
    size_t rows, width;
} shapes[] = {{5, 5}, {3, 3}};
#define VARIABLES 2

static uint64_t mixed(uint64_t x)
{
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

static double draw(uint64_t stream, uint64_t step, uint64_t index)
{
    int64_t bits = (int64_t)(mixed(stream << 40 | step << 20 | index) >> 40);
    return (double)(bits - (1 << 23)) / (double)(1 << 23);
}

static float gradient_at(uint64_t variable, uint64_t step, size_t i, int huge)
{
    double x = draw(1 + variable, step, i);
    if (variable == 1) {
        return (float)(i % 3 == 0 ? x : ldexp(x, huge));
    }
    switch ((i + i / 5) % 5) {
    case 1:
        return 0.0F;
    case 2:
        return (float)ldexp(x, -126);
    case 3:
        return step % 10 == 3 ? (float)x : 0.0F;
    case 4:
        return (float)ldexp(x, -(int)(step / 8));
    default:
        return (float)x;
    }
}

/* A variable and what workers can still have read of it. */
struct run {
    struct variable v;
    float *past[PAST]; /* before update number t at t % PAST */
};

static void run_init(struct run *r, const struct golden *g, size_t number)
{
    variable_init(&r->v, g->rule, g->settings, shapes[number].rows, shapes[number].width, number);
    for (size_t i = 0; i < r->v.n; i++) {
        r->v.values[i] = (float)draw(9, number, i);
    }
    for (size_t k = 0; k < PAST; k++) {
        r->past[k] = mem_new(r->v.n, sizeof(float));
    }
}

static void run_release(struct run *r)
{
    for (size_t k = 0; k < PAST; k++) {
        free(r->past[k]);
    }
    variable_release(&r->v);
}

static void run_update(struct run *r, uint64_t step, int huge)
{
    static const double lr_scales[] = {1.0, 0.5, 1.25};
    const size_t bytes = r->v.n * sizeof(float);
    const enum rule_base base = r->v.rule->base;
    for (size_t i = 0; i < r->v.n; i++) {
        r->v.gradient[i] = gradient_at(r->v.number, step, i, huge);
    }
    memcpy(r->past[step % PAST], base == RULE_BASE_SLOT ? r->v.slots[0] : r->v.values, bytes);
    uint64_t delay = step % 4 < step ? step % 4 : step;
    memcpy(r->v.base, r->past[(step - delay) % PAST], bytes);
    r->v.delayed = base != RULE_BASE_NONE;
    variable_update(&r->v, step, lr_scales[step % 3], 0.5F);
}

/* The worst error of all elements that are shown after @step updates. */
static double worst_error(const struct golden *g, struct run *runs, size_t shown)
{
    double worst = 0;
    size_t element = 0;
    for (size_t k = 0; k < VARIABLES; k++) {
        for (size_t i = 0; i < runs[k].v.n; i++, element++) {
            double want = g->values[shown][element];
            double error = fabs((double)runs[k].v.values[i] - want) / g->largest[element];
            worst = error > worst || isnan(error) ? error : worst;
            if (!(error <= ERROR_MAX)) {
                print_error(
                    "%s %s: variable %zu, element %zu after %u updates: %.9g, oracle %.9g\n",
                    g->rule, g->settings, k, i, golden_steps[shown], (double)runs[k].v.values[i],
                    want);
            }
        }
    }
    return worst;
}

static double check(const struct golden *g)
{
    struct run runs[VARIABLES];
    for (size_t k = 0; k < VARIABLES; k++) {
        run_init(&runs[k], g, k);
    }
    double worst = 0;
    size_t shown = 0;
    for (uint64_t step = 0; shown < GOLDEN_SHOWN; step++) {
        for (size_t k = 0; k < VARIABLES; k++) {
            run_update(&runs[k], step, g->huge);
        }
        if (step + 1 == golden_steps[shown]) {
            double error = worst_error(g, runs, shown);
            worst = error > worst || isnan(error) ? error : worst;
            shown++;
        }
    }
    for (size_t k = 0; k < VARIABLES; k++) {
        run_release(&runs[k]);
    }
    return worst;
}

static void rules_match_the_oracle(void **state)
{
    (void)state;
    size_t failed = 0;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        double worst = check(&golden[i]);
        print_message("%-18s %-60s worst error %.1e\n", golden[i].rule, golden[i].settings, worst);
        failed += worst <= ERROR_MAX ? 0 : 1;
    }
    assert_int_equal(failed, 0);
}

static void every_rule_has_a_case(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        size_t found = 0;
        for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
            found += strcmp(golden[i].rule, rule_at(r)->name) == 0;
        }
        if (found == 0) {
            fail_msg("%s has no case in tests/golden/rules.py", rule_at(r)->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_has_a_case),
        cmocka_unit_test(rules_match_the_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
