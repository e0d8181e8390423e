/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: touched rows, and what they missed. */
#include "rule_rig.h"

#include "rule/rules/rows.h"
#include "rule/rules/schedule.h"

#define ROWS 48
#define WIDTH 9
#define STEPS 400
#define ERROR_MAX 1e-5

struct past_context {
    const struct rule *rule;
    const void *params;
    const struct rule_schedule *schedule;
    size_t schedules;
    void *now; /* the last ones asked for */
};

static void past_at(const void *context, uint64_t version, const void **params, double *lr_scale)
{
    const struct past_context *c = context;
    rule_params_at(c->rule, c->params, c->schedule, c->schedules, version, c->now);
    *params = c->now;
    *lr_scale = version % 5 == 0 ? 0.5 : 1.0;
}

/* The same rule on a table whose rows are touched at random, and on all rows densely. */
struct pair {
    struct variable dense, table;
    struct past_context context;
    struct rule_past past;
    uint64_t seen[ROWS], index[ROWS];
    float gradient[ROWS * WIDTH];
    float largest[ROWS * WIDTH];
};

static void pair_init(struct pair *p, const char *rule, const char *settings,
                      const struct rule_schedule *schedule, bool varies)
{
    variable_init(&p->dense, rule, settings, ROWS, WIDTH, 5);
    variable_init(&p->table, rule, settings, ROWS, WIDTH, 5);
    p->context = (struct past_context){
        .rule = p->dense.rule,
        .params = p->dense.params,
        .schedule = schedule,
        .schedules = schedule == NULL ? 0 : 1,
        .now = mem_new(1, p->dense.rule->params_bytes),
    };
    p->past = (struct rule_past){.params = p->dense.params, .lr_scale = 1.0};
    if (varies) {
        p->past.at = past_at;
        p->past.context = &p->context;
    }
    memset(p->seen, 0, sizeof p->seen);
    for (size_t i = 0; i < p->dense.n; i++) {
        p->largest[i] = fabsf(p->dense.values[i]);
    }
}

static void pair_release(struct pair *p)
{
    free(p->context.now);
    variable_release(&p->dense);
    variable_release(&p->table);
}

static struct rule_rows rows_of(struct pair *p, size_t n)
{
    return (struct rule_rows){
        .values = p->table.values,
        .slots = p->table.slots,
        .index = p->index,
        .n = n,
        .width = WIDTH,
        .gradient = p->gradient,
        .gradient_scale = 0.5F,
        .variable = 5,
        .seen = p->seen,
    };
}

/* Rows of step @step; some are touched often, some hardly ever, one never. In an order of its own.
 */
static size_t touch(struct pair *p, uint64_t step)
{
    size_t n = 0;
    memset(p->dense.gradient, 0, p->dense.n * sizeof(float));
    for (size_t k = 0; k < ROWS; k++) {
        size_t row = (k * 29 + (size_t)step) % ROWS;
        double chance = row == 7 ? 0 : (row % 4 == 0 ? 0.5 : 0.02);
        if (rng_uniform(rng_key(step, "touch"), row) >= chance) {
            continue;
        }
        for (size_t i = 0; i < WIDTH; i++) {
            float g = (float)rng_normal(rng_key(step, "gradient"), row * WIDTH + i);
            p->gradient[n * WIDTH + i] = g;
            p->dense.gradient[row * WIDTH + i] = g;
        }
        p->index[n++] = row;
    }
    return n;
}

static void step_pair(struct pair *p, uint64_t step)
{
    const struct rule *rule = p->dense.rule;
    size_t n = touch(p, step);
    const void *params = p->past.params;
    double lr_scale = p->past.lr_scale;
    if (p->past.at != NULL) {
        p->past.at(p->past.context, step, &params, &lr_scale);
    }
    struct rule_scalars s = {0};
    rule->prepare(params, step, lr_scale, &s);
    struct rule_span span = variable_span(&p->dense, 0.5F);
    rule_apply_span(rule, &s, &span);
    const struct rule_rows rows = rows_of(p, n);
    if (rule->catch_up != NULL || rule->still) {
        rule_catch_up_rows(rule, &p->past, step, &rows);
    }
    rule_apply_rows(rule, &s, step, &rows);
    for (size_t i = 0; i < p->dense.n; i++) {
        float size = fabsf(p->dense.values[i]);
        p->largest[i] = size > p->largest[i] ? size : p->largest[i];
    }
}

static void catch_up_all(struct pair *p, uint64_t version)
{
    for (size_t row = 0; row < ROWS; row++) {
        p->index[row] = row;
    }
    const struct rule_rows rows = rows_of(p, ROWS);
    rule_catch_up_rows(p->dense.rule, &p->past, version, &rows);
    for (size_t row = 0; row < ROWS; row++) {
        assert_int_equal(p->seen[row], version);
    }
}

static double worst_error(const struct pair *p)
{
    double worst = 0;
    for (size_t i = 0; i < p->dense.n; i++) {
        double error =
            fabs((double)p->dense.values[i] - (double)p->table.values[i]) / (double)p->largest[i];
        worst = error > worst || isnan(error) ? error : worst;
    }
    return worst;
}

static double compare(const char *rule, const char *settings, const struct rule_schedule *schedule,
                      bool varies)
{
    struct pair *p = mem_new(1, sizeof *p);
    pair_init(p, rule, settings, schedule, varies);
    for (uint64_t step = 0; step < STEPS; step++) {
        step_pair(p, step);
    }
    catch_up_all(p, STEPS);
    double worst = worst_error(p);
    if (p->dense.rule->still) {
        assert_same_floats(p->dense.values, p->table.values, p->dense.n, rule, "value");
    }
    pair_release(p);
    free(p);
    return worst;
}

static void caught_up_rows_are_where_dense_ones_are(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"momentum", ""},
        {"momentum", "nesterov=true momentum=0.5"},
        {"momentum", "momentum=0.99 learning_rate=0.1"},
        {"nesterov", ""},
        {"adam", ""},
        {"adam", "beta1=0.5 beta2=0.9 learning_rate=0.1"},
        {"adam", "beta1=0.99 beta2=0.9 epsilon=0.01"}, /* moves that grow while v decays */
        {"adam", "beta1=0"},
        {"adamw", ""},
        {"adamw", "weight_decay=0.5 learning_rate=0.01"},
        {"ftrl", ""},
        {"ftrl", "form=mcmahan initial_accumulator=0 beta=1 l1=0.5 l2=0.1"},
        {"ftrl", "learning_rate_power=-0.3"},
        {"adagrad", ""},
        {"adagrad", "initial_accumulator=0.1"},
        {"adagrad_decay", "decay_steps=13 decay_rate=0.7"},
        {"rowwise_adagrad", ""},
        {"adadelta", ""},
        {"sgd", ""},
        {"dc_asgd", ""},
        {"adaptive_revision", ""},
        {"sum", ""},
    };
    struct rule_schedule schedule = {0};
    field_defaults(schedule_fields, schedule_field_count, &schedule.schedule);
    schedule.schedule.kind = SCHEDULE_COSINE;
    schedule.schedule.length = STEPS;
    schedule.schedule.end = 0.1;
    schedule.schedule.warmup = 50;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rule *rule = rule_find(cases[i][0]);
        schedule.field = field_find(rule->fields, rule->field_count, "learning_rate");
        double constant = compare(cases[i][0], cases[i][1], NULL, false);
        double scheduled =
            compare(cases[i][0], cases[i][1], schedule.field == NULL ? NULL : &schedule, true);
        print_message("%-18s %-56s worst error %.1e, under a schedule %.1e\n", cases[i][0],
                      cases[i][1], constant, scheduled);
        assert_true(constant <= ERROR_MAX && scheduled <= ERROR_MAX);
    }
    field_release(schedule_fields, schedule_field_count, &schedule.schedule);
}

static void every_catch_up_is_compared(void **state)
{
    (void)state;
    static const char *const compared[] = {"momentum", "nesterov",      "adam",     "adamw",
                                           "ftrl",     "adagrad_decay", "adadelta", NULL};
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        bool found = rule_at(r)->catch_up == NULL;
        for (size_t i = 0; compared[i] != NULL; i++) {
            found = found || strcmp(compared[i], rule_at(r)->name) == 0;
        }
        assert_true(found);
    }
}

/* A row that rests for longer than its momentum lives. */
static void a_long_rest(void **state)
{
    (void)state;
    static const char *const rules[] = {"momentum", "nesterov", "adam", "adamw", "ftrl"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct pair *p = mem_new(1, sizeof *p);
        pair_init(p, rules[i], "", NULL, false);
        for (uint64_t step = 0; step < 20; step++) {
            step_pair(p, step);
        }
        struct rule_span span = variable_span(&p->dense, 0.5F);
        memset(p->dense.gradient, 0, p->dense.n * sizeof(float));
        for (uint64_t step = 20; step < 5000; step++) {
            struct rule_scalars s = {0};
            p->dense.rule->prepare(p->dense.params, step, 1.0, &s);
            rule_apply_span(p->dense.rule, &s, &span);
        }
        catch_up_all(p, 5000);
        /* Rounding of 5,000 weight decays adds up on the dense side. */
        double allowed = strcmp(rules[i], "adamw") == 0 ? 1e-4 : ERROR_MAX;
        if (!(worst_error(p) <= allowed)) {
            fail_msg("%s: %.1e", rules[i], worst_error(p));
        }
        pair_release(p);
        free(p);
    }
}

/* Lazy: what is touched gets the dense update's bits, the rest keeps its own. */
static void touched_rows_only(void **state)
{
    (void)state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        const struct rule *rule = rule_at(r);
        if (!rule_takes_rows(rule)) {
            assert_true(rule->rounds > 0);
            continue;
        }
        struct pair *p = mem_new(1, sizeof *p);
        pair_init(p, rule->name, "", NULL, false);
        struct variable before;
        variable_init(&before, rule->name, "", ROWS, WIDTH, 5);
        size_t n = touch(p, 3);
        struct rule_scalars s = {0};
        rule->prepare(p->dense.params, 3, 1.0, &s);
        struct rule_span span = variable_span(&p->dense, 0.5F);
        struct rule_rows rows = rows_of(p, n);
        rows.seen = NULL;
        rule_apply_span(rule, &s, &span);
        rule_apply_rows(rule, &s, 3, &rows);
        bool touched[ROWS] = {false};
        for (size_t k = 0; k < n; k++) {
            touched[p->index[k]] = true;
        }
        for (size_t row = 0; row < ROWS; row++) {
            const float *want = touched[row] ? p->dense.values : before.values;
            assert_same_floats(want + row * WIDTH, p->table.values + row * WIDTH, WIDTH, rule->name,
                               "value of a row");
        }
        variable_release(&before);
        pair_release(p);
        free(p);
    }
}

/* Rows side by side are one span; the result must not show it. */
static void the_order_of_rows_is_free(void **state)
{
    (void)state;
    static const uint64_t orders[2][6] = {{3, 4, 5, 10, 11, 0}, {11, 5, 0, 4, 10, 3}};
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        const struct rule *rule = rule_at(r);
        struct variable v[2];
        for (size_t k = 0; k < 2; k++) {
            variable_init(&v[k], rule->name, "", 12, WIDTH, 5);
            float gradient[6 * WIDTH], base[6 * WIDTH];
            for (size_t i = 0; i < 6 * WIDTH; i++) {
                uint64_t element = orders[k][i / WIDTH] * WIDTH + i % WIDTH;
                gradient[i] = (float)rng_normal(1, element);
                base[i] = (float)rng_normal(2, element);
            }
            const struct rule_rows rows = {
                .values = v[k].values,
                .slots = v[k].slots,
                .index = orders[k],
                .n = 6,
                .width = WIDTH,
                .gradient = gradient,
                .gradient_scale = 1.0F,
                .base = rule->base == RULE_BASE_NONE ? NULL : base,
            };
            struct rule_scalars s = {0};
            rule->prepare(v[k].params, 8, 1.0, &s);
            if (rule_takes_rows(rule)) {
                rule_apply_rows(rule, &s, 8, &rows);
            }
        }
        assert_same_variable(&v[0], &v[1]);
        variable_release(&v[0]);
        variable_release(&v[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caught_up_rows_are_where_dense_ones_are),
        cmocka_unit_test(every_catch_up_is_compared),
        cmocka_unit_test(a_long_rest),
        cmocka_unit_test(touched_rows_only),
        cmocka_unit_test(the_order_of_rows_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
