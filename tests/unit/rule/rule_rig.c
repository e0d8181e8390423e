/* SPDX-License-Identifier: Apache-2.0 */
/* How one variable is set up, given gradients and compared. */
#include "rule_rig.h"

void *fixture_params(const struct rule *rule, const char *settings)
{
    void *params = mem_new(1, rule->params_bytes);
    field_defaults(rule->fields, rule->field_count, params);
    char text[256], *rest = NULL;
    (void)snprintf(text, sizeof text, "%s", settings);
    for (char *p = strtok_r(text, " ", &rest); p != NULL; p = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(p, '=');
        assert_non_null(value);
        *value++ = '\0';
        const struct field *field = field_find(rule->fields, rule->field_count, p);
        struct err err = {0};
        if (field == NULL || field_set(field, params, value, &err) != 0) {
            fail_msg("%s: %s: %s", rule->name, p, err.msg);
        }
    }
    return params;
}

void variable_init(struct variable *v, const char *rule, const char *settings, size_t rows,
                   size_t width, uint64_t number)
{
    *v = (struct variable){.rows = rows, .width = width, .n = rows * width, .number = number};
    v->rule = rule_find(rule);
    assert_non_null(v->rule);
    v->params = fixture_params(v->rule, settings);
    v->values = mem_new(v->n, sizeof(float));
    v->gradient = mem_new(v->n, sizeof(float));
    v->base = mem_new(v->n, sizeof(float));
    for (size_t i = 0; i < v->n; i++) {
        v->values[i] = (float)rng_normal(rng_key(number, "values"), i);
    }
    for (size_t k = 0; k < v->rule->slot_count; k++) {
        size_t n = rule_slot_floats(v->rule, k, rows, width);
        v->slots[k] = mem_new(n, sizeof(float));
        for (size_t i = 0; i < n; i++) {
            v->slots[k][i] = v->rule->slot_initial[k];
        }
    }
}

void variable_release(struct variable *v)
{
    struct update_spec u = {.rule = v->rule, .params = v->params};
    update_spec_release(&u);
    free(v->values);
    free(v->gradient);
    free(v->base);
    for (size_t k = 0; k < v->rule->slot_count; k++) {
        free(v->slots[k]);
    }
    *v = (struct variable){0};
}

/* Elements differ in kind: ordinary, always zero, denormal, huge, mostly zero, shrinking. */
static float fixture_gradient(uint64_t step, uint64_t i)
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
        return x * 1e15F;
    case 4:
        return step % 10 == 3 ? x : 0.0F;
    default:
        return x * (float)exp(-0.1 * (double)step);
    }
}

void variable_push(struct variable *v, uint64_t step)
{
    for (size_t i = 0; i < v->n; i++) {
        v->gradient[i] = fixture_gradient(step, i);
        const float *now = v->rule->base == RULE_BASE_SLOT ? v->slots[0] : v->values;
        v->base[i] = 0.75F * now[i];
    }
    v->delayed = v->rule->base != RULE_BASE_NONE;
}

struct rule_span variable_span(const struct variable *v, float scale)
{
    return (struct rule_span){
        .out = v->values,
        .in = v->values,
        .slots = v->slots,
        .gradient = v->gradient,
        .gradient_scale = scale,
        .n = v->n,
        .variable = v->number,
        .width = v->width,
        .base = v->delayed ? v->base : NULL,
    };
}

void variable_update(struct variable *v, uint64_t version, double lr_scale, float scale)
{
    struct rule_scalars s = {0};
    struct err err = {0};
    v->rule->prepare(v->params, version, lr_scale, &s);
    struct rule_span span = variable_span(v, scale);
    assert_int_equal(rule_apply_variable(v->rule, &s, &span, &err), 0);
}

void assert_same_floats(const float *a, const float *b, size_t n, const char *rule,
                        const char *what)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) != 0) {
            fail_msg("%s: %s %zu: %.9g and %.9g", rule, what, i, (double)a[i], (double)b[i]);
        }
    }
}

void assert_same_variable(const struct variable *a, const struct variable *b)
{
    assert_same_floats(a->values, b->values, a->n, a->rule->name, "value");
    for (size_t k = 0; k < a->rule->slot_count; k++) {
        assert_same_floats(a->slots[k], b->slots[k],
                           rule_slot_floats(a->rule, k, a->rows, a->width), a->rule->name,
                           a->rule->slot_names[k]);
    }
}
