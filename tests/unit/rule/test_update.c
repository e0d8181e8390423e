/* SPDX-License-Identifier: Apache-2.0 */
/* An update against the same computed one element after the other in double. */
#include "update_rig.h"

#define ELEMENTS_MAX (301 * 9)
#define EXAMPLES 32
#define LAMBDA 0.04

struct reference {
    const struct update_spec *spec;
    double w[RIG_VARIABLES][ELEMENTS_MAX], g[RIG_VARIABLES][ELEMENTS_MAX];
    double m[RIG_VARIABLES][ELEMENTS_MAX], v[RIG_VARIABLES][ELEMENTS_MAX];
    double sum[RIG_VARIABLES][ELEMENTS_MAX], average[RIG_VARIABLES][ELEMENTS_MAX];
    double examples;
    double lr_scale, lambda;
    uint64_t version;
};

static struct reference ref; /* too large for the stack */

static const struct update_pattern *pattern_of(uint32_t v)
{
    size_t i = update_spec_match(ref.spec, rig_variables[v].name);
    return i == ref.spec->pattern_count ? NULL : &ref.spec->patterns[i];
}

static bool is_frozen(uint32_t v)
{
    return pattern_of(v) != NULL && pattern_of(v)->frozen;
}

static bool is_statistic(uint32_t v)
{
    return rig_variables[v].statistic > 0;
}

static double hyperparameter(const char *name, uint64_t update)
{
    const struct field *field = update_spec_field(ref.spec, name, FIELD_FLOAT);
    double value;
    assert_non_null(field);
    memcpy(&value, (const char *)ref.spec->params + field->offset, sizeof value);
    for (size_t i = 0; i < ref.spec->schedule_count; i++) {
        if (ref.spec->schedules[i].field == field) {
            value *= schedule_factor(&ref.spec->schedules[i].schedule, update);
        }
    }
    return value;
}

static void ref_init(const struct update_spec *spec)
{
    memset(&ref, 0, sizeof ref);
    ref.spec = spec;
    ref.lr_scale = 1;
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        for (uint64_t e = 0; e < rig_variables[v].elements; e++) {
            ref.w[v][e] = ref.average[v][e] = (double)rig_value(v, e);
        }
    }
}

static double norm(const double *x, uint64_t n)
{
    double all = 0;
    for (uint64_t i = 0; i < n; i++) {
        all += x[i] * x[i];
    }
    return sqrt(all);
}

static void scale(double *x, uint64_t n, double by)
{
    for (uint64_t i = 0; i < n; i++) {
        x[i] *= by;
    }
}

static void clip_norms(void)
{
    double all = 0;
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        const uint64_t n = rig_variables[v].elements;
        double size = norm(ref.g[v], n);
        if (!is_frozen(v) && !is_statistic(v) && ref.spec->clip_norm > 0 &&
            size > ref.spec->clip_norm) {
            scale(ref.g[v], n, ref.spec->clip_norm / size);
        }
        size = is_frozen(v) || is_statistic(v) ? 0 : norm(ref.g[v], n);
        all += size * size;
    }
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        if (!is_statistic(v) && ref.spec->clip_global_norm > 0 &&
            sqrt(all) > ref.spec->clip_global_norm) {
            scale(ref.g[v], rig_variables[v].elements, ref.spec->clip_global_norm / sqrt(all));
        }
    }
}

static double rule_step(const char *rule, double rate, uint64_t t, uint32_t v, uint64_t e, double g,
                        double ratio, double decay)
{
    double *m = &ref.m[v][e], *s = &ref.v[v][e];
    if (strcmp(rule, "sgd") == 0) {
        return rate * g;
    }
    if (strcmp(rule, "momentum") == 0) {
        *m = hyperparameter("momentum", t) * *m + g;
        return rate * *m;
    }
    if (strcmp(rule, "lars") == 0) {
        *m = hyperparameter("momentum", t) * *m + rate * ratio * (g + decay * ref.w[v][e]);
        return *m;
    }
    double beta1 = hyperparameter("beta1", t), beta2 = hyperparameter("beta2", t);
    *m = beta1 * *m + (1 - beta1) * g;
    *s = beta2 * *s + (1 - beta2) * g * g;
    return rate * (*m / (1 - pow(beta1, (double)t + 1))) /
           (sqrt(*s / (1 - pow(beta2, (double)t + 1))) + hyperparameter("epsilon", t));
}

static void ref_statistic(uint32_t v)
{
    const struct update_spec *u = ref.spec;
    for (uint64_t e = 0; e < rig_variables[v].elements; e++) {
        ref.w[v][e] += (double)rig_variables[v].statistic * (ref.g[v][e] - ref.w[v][e]);
        ref.average[v][e] = u->average * ref.average[v][e] + (1 - u->average) * ref.w[v][e];
    }
}

static void ref_variable(uint32_t v)
{
    const struct update_spec *u = ref.spec;
    const struct update_pattern *p = pattern_of(v);
    const uint64_t t = ref.version / update_spec_accumulate(u), n = rig_variables[v].elements;
    const char *rule = u->rule->name;
    double l1 = p ? p->l1 : u->l1, l2 = p ? p->l2 : u->l2;
    l2 += u->records == 0 ? 0 : (p ? p->ridge : u->ridge) / (double)u->records;
    double decay = p ? p->weight_decay : u->weight_decay, own = 0, ratio = 1;
    double rate = hyperparameter("learning_rate", t) * ref.lr_scale * (p ? p->learning_rate : 1);
    if (update_spec_field(u, "weight_decay", FIELD_FLOAT) != NULL) {
        own = p ? p->weight_decay : hyperparameter("weight_decay", t);
        decay = 0;
    }
    for (uint64_t e = 0; e < n; e++) {
        double w = ref.w[v][e];
        ref.g[v][e] += l2 * w + (w > 0 ? l1 : w < 0 ? -l1 : 0);
    }
    if (strcmp(rule, "lars") == 0) {
        double w = norm(ref.w[v], n), g = norm(ref.g[v], n);
        ratio = w == 0 || g == 0 ? 1 : hyperparameter("trust", t) * w / (g + own * w);
    }
    for (uint64_t e = 0; e < n; e++) {
        double w = ref.w[v][e];
        ref.w[v][e] = w - rule_step(rule, rate, t, v, e, ref.g[v][e], ratio, own);
        ref.w[v][e] -= rate * decay * w;
        ref.average[v][e] = u->average * ref.average[v][e] + (1 - u->average) * ref.w[v][e];
    }
}

/* What the version's gradient adds; true when all of it is finite. */
static bool ref_collect(rig_gradient *gradient)
{
    bool finite = true;
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        for (uint64_t e = 0; e < rig_variables[v].elements; e++) {
            double g = (double)gradient(ref.version, v, e) / EXAMPLES;
            g += is_statistic(v) ? 0 : ref.lambda * g * g * (ref.w[v][e] - (double)rig_then(v, e));
            ref.sum[v][e] += g * EXAMPLES;
            finite = finite && (is_frozen(v) || isfinite(ref.sum[v][e]));
        }
    }
    ref.examples += EXAMPLES;
    return finite;
}

static enum update_outcome ref_train(rig_gradient *gradient)
{
    const struct update_spec *u = ref.spec;
    bool finite = ref_collect(gradient);
    if ((ref.version + 1) % update_spec_accumulate(u) != 0) {
        ref.version++;
        return UPDATE_KEPT;
    }
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        for (uint64_t e = 0; e < rig_variables[v].elements; e++) {
            double g = ref.sum[v][e] / ref.examples, limit = u->clip_value;
            ref.g[v][e] = limit > 0 && !is_statistic(v) ? fmin(fmax(g, -limit), limit) : g;
            ref.sum[v][e] = 0;
        }
    }
    ref.examples = 0;
    if (finite) {
        clip_norms();
        for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
            if (!is_frozen(v) && is_statistic(v)) {
                ref_statistic(v);
            } else if (!is_frozen(v)) {
                ref_variable(v);
            }
        }
    }
    ref.version++;
    return finite ? UPDATE_APPLIED : UPDATE_SKIPPED;
}

static void assert_close(const struct rig *r, double *expected, uint32_t v, int slot,
                         const char *what)
{
    for (uint64_t e = 0; e < rig_variables[v].elements; e++) {
        double is = (double)*rig_find(r, v, e, slot);
        if (!(fabs(is - expected[e]) <= 2e-5 * (1 + fabs(expected[e])))) {
            fail_msg("%s: %s[%lu] slot %d after %lu: %.9g instead of %.9g", what,
                     rig_variables[v].name, (unsigned long)e, slot, (unsigned long)ref.version, is,
                     expected[e]);
        }
    }
}

static void assert_as_reference(const struct rig *r, const char *what)
{
    int average = update_spec_average(ref.spec);
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        assert_close(r, ref.w[v], v, -1, what);
        if (average >= 0) {
            assert_close(r, ref.average[v], v, average, what);
        }
    }
}

static float poisonous(uint64_t version, uint32_t variable, uint64_t element)
{
    if (version % 5 == 3 && element == 10) {
        return variable == 2 ? INFINITY : variable == 0 ? NAN : 1.0F;
    }
    return rig_usual(version, variable, element);
}

static void compare(const struct update_spec *spec, uint64_t seed, rig_gradient *gradient,
                    double lr_scale, bool compensates, const char *what)
{
    struct rig r;
    rig_init(&r, spec, seed == 0 ? 1 : 1 + (size_t)(seed % RIG_SHARDS_MAX), 3, seed);
    ref_init(spec);
    r.lr_scale = ref.lr_scale = lr_scale;
    r.lambda = compensates ? (float)LAMBDA : 0;
    ref.lambda = compensates ? LAMBDA : 0;
    r.in_two = seed % 2 == 1;
    for (int i = 0; i < 8; i++) {
        struct update_result result = rig_train(&r, gradient, EXAMPLES);
        assert_int_equal(result.outcome, ref_train(gradient));
        assert_as_reference(&r, what);
    }
    rig_release(&r);
}

static const char *const rules[] = {"sgd", "momentum", "adam epsilon=0.01", "lars trust=0.1"};
#define RULES (sizeof rules / sizeof rules[0])

static void spec_of(struct update_spec *spec, const char *rule)
{
    char name[64];
    size_t n = strcspn(rule, " ");
    (void)snprintf(name, sizeof name, "%.*s", (int)n, rule);
    rig_spec(spec, name, rule[n] == '\0' ? "" : rule + n + 1);
}

/* Option number @option of the ones below; true when there is none. */
static bool set_option(struct update_spec *s, unsigned option)
{
    struct update_pattern *p;
    switch (option) {
    case 0:
        s->clip_value = 0.3;
        break;
    case 1:
        s->clip_norm = 1.5;
        break;
    case 2:
        s->clip_global_norm = 2;
        break;
    case 3:
        s->l1 = 0.05;
        break;
    case 4:
        s->l2 = 0.5;
        break;
    case 5:
        s->weight_decay = update_spec_field(s, "weight_decay", FIELD_FLOAT) ? 0 : 2;
        break;
    case 6:
        s->accumulate = 3;
        break;
    case 7:
        s->average = 0.7;
        break;
    case 8:
        s->non_finite = UPDATE_NON_FINITE_SKIP;
        break;
    case 9:
        p = rig_pattern(s, "*_1.*");
        p->learning_rate = 3;
        p->l2 = 1;
        p->weight_decay = 0.5;
        break;
    case 10:
        rig_pattern(s, "scale")->frozen = true;
        break;
    case 11:
        rig_schedule(s, "learning_rate", SCHEDULE_EXPONENTIAL)->every = 2;
        break;
    case 12:
        s->ridge = 40;
        s->records = 80;
        rig_pattern(s, "*_1.*")->ridge = 160;
        break;
    default:
        return true;
    }
    return false;
}

static void test_each_option(void **state)
{
    (void)state;
    for (size_t i = 0; i < RULES; i++) {
        for (unsigned option = 0; option <= 12; option++) {
            struct update_spec spec;
            char what[96];
            spec_of(&spec, rules[i]);
            (void)set_option(&spec, option);
            (void)snprintf(what, sizeof what, "%s, option %u", rules[i], option);
            compare(&spec, option, rig_usual, 1, false, what);
            update_spec_release(&spec);
        }
    }
}

static void test_combinations(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        struct update_spec spec;
        char what[96];
        uint64_t mask = rng_below(seed, 0, 1 << 12);
        spec_of(&spec, rules[seed % RULES]);
        for (unsigned option = 0; option < 12; option++) {
            if (mask >> option & 1) {
                (void)set_option(&spec, option);
            }
        }
        (void)snprintf(what, sizeof what, "%s, options %#lx", rules[seed % RULES],
                       (unsigned long)mask);
        bool skips = spec.non_finite == UPDATE_NON_FINITE_SKIP;
        compare(&spec, seed, skips ? poisonous : rig_usual, seed % 3 == 0 ? 0.25 : 1, seed % 4 == 1,
                what);
        update_spec_release(&spec);
    }
}

/* Nothing but the rule: the bits of its own loop over all of the shard. */
static void test_plain_is_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        if (!rule_is_elementwise(rule_at(i))) {
            continue;
        }
        for (int mode = UPDATE_NON_FINITE_FAIL; mode <= UPDATE_NON_FINITE_APPLY; mode++) {
            struct update_spec spec;
            struct rig r;
            rig_spec(&spec, rule_at(i)->name, "");
            spec.non_finite = mode;
            rig_init(&r, &spec, 1, 1, 0);
            struct rig_shard *s = &r.shards[0];
            const uint64_t n = s->elements - rig_variables[STATISTIC].elements; /* it lies behind */
            float *w = rig_floats(n), *slots[RULE_SLOTS_MAX] = {NULL};
            memcpy(w, s->values, n * sizeof *w);
            for (size_t k = 0; k < spec.rule->slot_count; k++) {
                slots[k] = rig_floats(n);
                memcpy(slots[k], s->slots[k], n * sizeof *w);
            }
            for (uint64_t version = 0; version < 4; version++) {
                struct rule_scalars scalars = {0};
                rig_fill(&r, rig_usual);
                spec.rule->prepare(spec.params, version, 1, &scalars);
                spec.rule->apply(&scalars, w, w, slots, s->gradient, 1.0F / EXAMPLES, n);
                assert_int_equal(rig_update(&r, EXAMPLES).outcome, UPDATE_APPLIED);
                assert_memory_equal(w, s->values, n * sizeof *w);
            }
            for (size_t k = 0; k < spec.rule->slot_count; k++) {
                assert_memory_equal(slots[k], s->slots[k], n * sizeof *w);
                free(slots[k]);
            }
            free(w);
            rig_release(&r);
            update_spec_release(&spec);
        }
    }
}

static void statistic_by_hand(const struct update_variable *v, const float *in,
                              const float *gradient, float *out)
{
    for (uint64_t e = 0; e < v->elements; e++) {
        out[e] = in[e] + v->statistic * (gradient[e] * (1.0F / EXAMPLES) - in[e]);
    }
}

/* Every rule on whole variables, as by itself: values and slots of all kinds. */
static void test_whole_variables_are_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        struct update_spec spec;
        struct rig r, by_hand;
        rig_spec(&spec, rule_at(i)->name, "");
        rig_init(&r, &spec, 1, 1, 0);
        rig_init(&by_hand, &spec, 1, 1, 0);
        struct rig_shard *s = &by_hand.shards[0];
        for (int k = 0; k < 4; k++) {
            struct rule_scalars scalars = {0};
            rig_fill(&by_hand, rig_usual);
            spec.rule->prepare(spec.params, by_hand.version, 1, &scalars);
            for (size_t p = 0; p < s->part_count; p++) {
                const struct update_variable *v = &rig_variables[s->parts[p].variable];
                const uint64_t at = s->parts[p].offset;
                if (v->statistic > 0) {
                    statistic_by_hand(v, s->values + at, s->gradient + at, s->out + at);
                    continue;
                }
                float *slots[RULE_SLOTS_MAX] = {NULL};
                struct err err = {0};
                for (size_t slot = 0; slot < spec.rule->slot_count; slot++) {
                    slots[slot] = s->slots[slot] + update_slot_offset(s->update, slot, p);
                }
                const struct rule_span span = {.out = s->out + at,
                                               .in = s->values + at,
                                               .slots = slots,
                                               .gradient = s->gradient + at,
                                               .gradient_scale = 1.0F / EXAMPLES,
                                               .n = v->elements,
                                               .variable = rng_key(0, v->name),
                                               .width = v->width};
                assert_int_equal(rule_apply_variable(spec.rule, &scalars, &span, &err), 0);
            }
            rig_flip(&by_hand);
            (void)rig_train(&r, rig_usual, EXAMPLES);
            rig_assert_same(&r, &by_hand, spec.rule->name);
        }
        rig_release(&r);
        rig_release(&by_hand);
        update_spec_release(&spec);
    }
}

static void test_no_records(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        struct update_spec spec;
        struct rig r, before;
        rig_spec(&spec, rule_at(i)->name, "");
        spec.clip_global_norm = 1;
        spec.average = 0.5;
        rig_init(&r, &spec, 2, 3, 4);
        rig_init(&before, &spec, 2, 3, 4);
        (void)rig_train(&r, rig_usual, EXAMPLES);
        (void)rig_train(&before, rig_usual, EXAMPLES);
        assert_int_equal(rig_update(&r, 0).outcome, UPDATE_KEPT);
        before.version++;
        rig_assert_same(&r, &before, spec.rule->name);
        rig_release(&r);
        rig_release(&before);
        update_spec_release(&spec);
    }
}

static float quarter(uint64_t version, uint32_t variable, uint64_t element)
{
    return rig_usual(version / 4, variable, element) * 0.25F; /* exact, and so are their sums */
}

static void test_accumulated_parts_are_one_step(void **state)
{
    (void)state;
    static const char *const which[] = {"sgd", "adam", "adafactor", "lamb"};
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
        struct update_spec whole, parts;
        struct rig a, b;
        rig_spec(&whole, which[i], "");
        rig_spec(&parts, which[i], "");
        rig_schedule(&whole, "learning_rate", SCHEDULE_INVERSE_TIME)->every = 1;
        rig_schedule(&parts, "learning_rate", SCHEDULE_INVERSE_TIME)->every = 1;
        parts.accumulate = 4;
        rig_init(&a, &whole, 1, 1, 0);
        rig_init(&b, &parts, 3, 2, 8);
        for (int k = 0; k < 3; k++) {
            (void)rig_train(&a, rig_usual, 64);
            for (int part = 0; part < 4; part++) {
                enum update_outcome expected = part == 3 ? UPDATE_APPLIED : UPDATE_KEPT;
                assert_int_equal(rig_train(&b, quarter, 16).outcome, expected);
            }
            for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
                for (uint64_t e = 0; e < rig_variables[v].elements; e++) {
                    assert_memory_equal(rig_find(&a, v, e, -1), rig_find(&b, v, e, -1),
                                        sizeof(float));
                }
            }
        }
        rig_release(&a);
        rig_release(&b);
        update_spec_release(&whole);
        update_spec_release(&parts);
    }
}

/* Everything that a checkpoint has: values, slots, version. */
static void restore(struct rig *to, const struct rig *from)
{
    to->version = from->version;
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        for (uint64_t e = 0; e < rig_variables[v].elements; e++) {
            for (size_t i = 0; i < to->shard_count; i++) {
                struct rig_shard *s = &to->shards[i];
                for (size_t p = 0; p < s->part_count; p++) {
                    const struct update_part *part = &s->parts[p];
                    if (part->variable != v || e < part->first || e - part->first >= part->count) {
                        continue;
                    }
                    const uint64_t inside = e - part->first;
                    const size_t width = rig_variables[v].width;
                    s->values[part->offset + inside] = *rig_find(from, v, e, -1);
                    for (size_t k = 0; k < update_slot_count(s->update); k++) {
                        const enum rule_slot_kind kind = update_slot(s->update, k)->kind;
                        uint64_t at = update_slot_offset(s->update, k, p);
                        at += kind == RULE_SLOT_PARAMETER ? inside
                              : kind == RULE_SLOT_ROW     ? inside / width
                              : kind == RULE_SLOT_COLUMN  ? e % width
                                                          : 0;
                        s->slots[k][at] = *rig_find(from, v, e, (int)k);
                    }
                }
            }
        }
    }
}

static void test_restored_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        struct update_spec spec;
        struct rig through, stopped;
        rig_spec(&spec, rule_at(i)->name, "");
        spec.accumulate = 3;
        spec.average = 0.9;
        spec.clip_norm = 2;
        spec.l2 = 0.1;
        if (update_spec_field(&spec, "learning_rate", FIELD_FLOAT) != NULL) {
            rig_schedule(&spec, "learning_rate", SCHEDULE_COSINE)->length = 4;
        }
        rig_init(&through, &spec, 2, 3, 7);
        rig_init(&stopped, &spec, 3, 2, 21); /* onto other servers */
        for (int k = 0; k < 12; k++) {
            if (k == 5) { /* in the middle of an accumulation */
                restore(&stopped, &through);
            }
            (void)rig_train(&through, rig_usual, EXAMPLES);
            if (k >= 5) {
                (void)rig_train(&stopped, rig_usual, EXAMPLES);
            }
        }
        rig_assert_same(&through, &stopped, spec.rule->name);
        rig_release(&through);
        rig_release(&stopped);
        update_spec_release(&spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_option),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_plain_is_the_rule),
        cmocka_unit_test(test_whole_variables_are_the_rule),
        cmocka_unit_test(test_no_records),
        cmocka_unit_test(test_accumulated_parts_are_one_step),
        cmocka_unit_test(test_restored_goes_on_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
