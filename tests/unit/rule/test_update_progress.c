/* SPDX-License-Identifier: Apache-2.0 */
/* What update_step.progress is told is true: values before `end` are what they will be. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rule/update/update.h"

#define ROWS 700
#define WIDTH 1000
#define ELEMENTS ((uint64_t)ROWS * WIDTH)

struct run {
    float *in, *out, *gradient, *slots[UPDATE_SLOTS_MAX], *expected;
    struct update *update;
    uint64_t told; /* up to here */
    unsigned calls;
};

static float *fill(float scale)
{
    float *x = mem_new(ELEMENTS, sizeof *x);
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        x[i] = scale * (float)(i % 97);
    }
    return x;
}

static void open_run(struct run *r, struct update_spec *spec, const char *rule)
{
    const struct update_variable variable = {"w", ELEMENTS, WIDTH, 0};
    const struct update_part part = {.variable = 0, .count = ELEMENTS};
    struct err err;
    *spec = (struct update_spec){.rule = rule_find(rule)};
    spec->params = mem_new(1, spec->rule->params_bytes);
    field_defaults(spec->rule->fields, spec->rule->field_count, spec->params);
    *r = (struct run){.in = fill(0.5F), .out = fill(9), .gradient = fill(0.1F)};
    assert_int_equal(update_new(spec, &variable, 1, &part, 1, &r->update, &err), 0);
    for (size_t i = 0; i < update_slot_count(r->update); i++) {
        r->slots[i] = mem_new(update_slot_floats(r->update, i), sizeof(float));
    }
    update_slots_fill(r->update, r->in, r->slots);
}

static void close_run(struct run *r, struct update_spec *spec)
{
    for (size_t i = 0; i < update_slot_count(r->update); i++) {
        free(r->slots[i]);
    }
    update_free(r->update);
    update_spec_release(spec);
    free(r->in);
    free(r->out);
    free(r->gradient);
    free(r->expected);
}

static struct update_result run(struct run *r, void (*progress)(void *ctx, uint64_t end))
{
    const struct update_step step = {.in = r->in,
                                     .lr_scale = 1,
                                     .gradient = r->gradient,
                                     .examples = 8,
                                     .slots = r->slots,
                                     .progress = progress,
                                     .progress_ctx = r};
    struct update_result result;
    struct err err;
    assert_int_equal(update_run(r->update, &step, r->out, &result, &err), 0);
    return result;
}

static void check(void *ctx, uint64_t end)
{
    struct run *r = ctx;
    assert_true(end > r->told && end <= ELEMENTS);
    assert_memory_equal(r->out + r->told, r->expected + r->told, (end - r->told) * sizeof(float));
    r->told = end;
    r->calls++;
}

static void values_are_there_when_they_are_told(void **state)
{
    (void)state;
    static const char *const rules[] = {"sgd", "adam", "lars", "adafactor"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct update_spec spec;
        struct run r;
        open_run(&r, &spec, rules[i]);
        assert_int_equal(run(&r, NULL).outcome, UPDATE_APPLIED);
        r.expected = r.out;
        r.out = fill(9);
        free(r.gradient);
        r.gradient = fill(0.1F);
        update_slots_fill(r.update, r.in, r.slots);
        assert_int_equal(run(&r, check).outcome, UPDATE_APPLIED);
        assert_true(r.told == ELEMENTS);
        assert_true(r.calls > 1);
        close_run(&r, &spec);
    }
}

static void count(void *ctx, uint64_t end)
{
    struct run *r = ctx;
    r->told = end;
}

static void a_failure_is_not_told(void **state)
{
    (void)state;
    struct update_spec spec;
    struct run r;
    open_run(&r, &spec, "sgd");
    spec.non_finite = UPDATE_NON_FINITE_FAIL;
    r.gradient[ELEMENTS - 1] = NAN;
    assert_int_equal(run(&r, count).outcome, UPDATE_FAILED);
    assert_true(r.told < ELEMENTS);
    close_run(&r, &spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_there_when_they_are_told),
        cmocka_unit_test(a_failure_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
