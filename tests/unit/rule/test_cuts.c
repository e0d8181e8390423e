/* SPDX-License-Identifier: Apache-2.0 */
/* The same bits however a variable is cut: into partitions with arrays of their own, into spans of
 * any size, among threads, at addresses of any alignment; and after a stop and restore. */
#include "rule_rig.h"

#include <pthread.h>

#include "../../golden/rules.h"
#include "rule/rules/schedule.h"

#define ROWS 61
#define WIDTH 27
#define ELEMENTS (ROWS * WIDTH) /* odd, and more than a block of sums */
#define STEPS 4
#define PIECES_MAX 256
#define THREADS_MAX 4
#define PARTS_MAX 7

/* Where to cut. */
struct cuts {
    size_t parts;    /* partitions */
    size_t span_max; /* elements */
    unsigned threads;
    size_t shift; /* of arrays from their alignment, in floats */
};

/* Rows [first, first + rows) of a variable, with arrays of their own. */
struct part {
    size_t first, n;
    float *memory, *values, *gradient, *base;
    float *slots[RULE_SLOTS_MAX];
    struct rule_totals totals;
    double columns[WIDTH + 1];
};

struct piece { /* a span of a partition */
    struct part *part;
    struct rule_span span;
    float *slots[RULE_SLOTS_MAX];
    struct rule_sums sums;
};

struct work {
    const struct rule *rule;
    struct rule_scalars scalars;
    struct piece pieces[PIECES_MAX];
    size_t count;
    unsigned round, threads;
    bool reduces;
};

struct worker {
    struct work *work;
    unsigned number;
};

static void *run_pieces(void *ctx)
{
    const struct worker *w = ctx;
    struct work *k = w->work;
    for (size_t i = w->number; i < k->count; i += k->threads) {
        if (k->reduces) {
            k->rule->reduce(&k->scalars, k->round, &k->pieces[i].span, &k->pieces[i].sums);
        } else {
            rule_apply_span(k->rule, &k->scalars, &k->pieces[i].span);
        }
    }
    return NULL;
}

static void run_threads(struct work *k)
{
    pthread_t threads[THREADS_MAX];
    struct worker workers[THREADS_MAX];
    for (unsigned t = 0; t < k->threads; t++) {
        workers[t] = (struct worker){k, t};
        assert_int_equal(pthread_create(&threads[t], NULL, run_pieces, &workers[t]), 0);
    }
    for (unsigned t = 0; t < k->threads; t++) {
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    }
}

static bool wants_rows(const struct rule *rule)
{
    bool rows = rule->columns;
    for (size_t k = 0; k < rule->slot_count; k++) {
        rows = rows || rule->slot_kinds[k] == RULE_SLOT_ROW;
    }
    return rows;
}

static void part_init(struct part *p, const struct variable *v, size_t first, size_t n,
                      size_t shift)
{
    p->first = first;
    p->n = n;
    p->memory = mem_new((3 + RULE_SLOTS_MAX) * (n + 64), sizeof(float));
    float *at = p->memory + shift;
    p->values = at;
    p->gradient = at + (n + 33);
    p->base = at + 2 * (n + 33);
    memcpy(p->values, v->values + first, n * sizeof(float));
    for (size_t k = 0; k < v->rule->slot_count; k++) {
        p->slots[k] = at + (3 + k) * (n + 33);
        size_t floats = rule_slot_floats(v->rule, k, n / v->width, v->width);
        for (size_t i = 0; i < floats; i++) {
            p->slots[k][i] = v->rule->slot_initial[k];
        }
    }
}

static void cut_into_pieces(struct work *k, struct part *p, const struct variable *v,
                            size_t span_max, uint64_t key)
{
    const struct rule_span whole = {
        .out = p->values,
        .in = p->values,
        .slots = p->slots,
        .gradient = p->gradient,
        .gradient_scale = 0.3F,
        .n = p->n,
        .first = p->first,
        .variable = v->number,
        .width = v->width,
        .base = v->delayed ? p->base : NULL,
        .totals = &p->totals,
    };
    size_t unit = wants_rows(v->rule) ? v->width : 1;
    for (size_t at = 0, n; at < p->n; at += n) {
        n = unit * (1 + (size_t)rng_below(key, at, (span_max + unit - 1) / unit));
        n = n < p->n - at ? n : p->n - at;
        assert_true(k->count < PIECES_MAX);
        struct piece *piece = &k->pieces[k->count++];
        piece->part = p;
        piece->span = rule_span_part(v->rule, &whole, at, n, piece->slots);
    }
}

static void run_round(struct work *k, struct part *parts, size_t count)
{
    for (size_t i = 0; i < k->count; i++) {
        assert_int_equal(rule_sums_init(&k->pieces[i].sums, k->rule, k->round, WIDTH, NULL), 0);
    }
    k->reduces = true;
    run_threads(k);
    for (size_t i = 1; i < k->count; i++) {
        struct err err = {0};
        assert_int_equal(rule_sums_join(&k->pieces[0].sums, &k->pieces[i].sums, &err), 0);
    }
    for (size_t p = 0; p < count; p++) { /* each partition has its own slots to settle */
        parts[p].totals.elements = ELEMENTS;
        parts[p].totals.width = WIDTH;
        parts[p].totals.columns = parts[p].columns;
        sums_total(&k->pieces[0].sums.scalars, parts[p].totals.sums);
        if (k->rule->columns && k->round == 0) {
            sums_total(&k->pieces[0].sums.rows, parts[p].columns);
        }
        k->rule->settle(&k->scalars, k->round, &parts[p].totals, parts[p].slots);
    }
    for (size_t i = 0; i < k->count; i++) {
        rule_sums_release(&k->pieces[i].sums);
    }
}

/* The update that @whole made just now, on the parts. */
static void update_parts(const struct variable *whole, const struct cuts *c, struct part *parts,
                         uint64_t step)
{
    struct work *k = mem_new(1, sizeof *k);
    k->rule = whole->rule;
    k->threads = c->threads;
    k->rule->prepare(whole->params, step, 1.0, &k->scalars);
    for (size_t p = 0; p < c->parts; p++) {
        size_t bytes = parts[p].n * sizeof(float);
        memcpy(parts[p].gradient, whole->gradient + parts[p].first, bytes);
        memcpy(parts[p].base, whole->base + parts[p].first, bytes);
        cut_into_pieces(k, &parts[p], whole, c->span_max, rng_key(step + p, "spans"));
    }
    for (k->round = 0; k->round < k->rule->rounds; k->round++) {
        run_round(k, parts, c->parts);
    }
    k->reduces = false;
    run_threads(k);
    free(k);
}

static void assert_same_part(const struct variable *v, const struct part *p)
{
    const char *name = v->rule->name;
    assert_same_floats(v->values + p->first, p->values, p->n, name, "value");
    for (size_t k = 0; k < v->rule->slot_count; k++) {
        size_t first = 0;
        if (v->rule->slot_kinds[k] == RULE_SLOT_PARAMETER) {
            first = p->first;
        } else if (v->rule->slot_kinds[k] == RULE_SLOT_ROW) {
            first = p->first / v->width;
        }
        assert_same_floats(v->slots[k] + first, p->slots[k],
                           rule_slot_floats(v->rule, k, p->n / v->width, v->width), name,
                           v->rule->slot_names[k]);
    }
}

static void check_cuts(const struct golden *g, const struct cuts *c)
{
    struct variable whole;
    struct part parts[PARTS_MAX] = {{0}};
    variable_init(&whole, g->rule, g->settings, ROWS, WIDTH, 11);
    for (size_t p = 0, row = 0; p < c->parts; p++) {
        size_t rows = p + 1 == c->parts ? ROWS - row : 1 + (ROWS - row) / (c->parts - p) * p % 17;
        part_init(&parts[p], &whole, row * WIDTH, rows * WIDTH, c->shift);
        row += rows;
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        variable_push(&whole, step);
        variable_update(&whole, step, 1.0, 0.3F);
        update_parts(&whole, c, parts, step);
    }
    for (size_t p = 0; p < c->parts; p++) {
        assert_same_part(&whole, &parts[p]);
        free(parts[p].memory);
    }
    variable_release(&whole);
}

static void any_cut_gives_the_same_bits(void **state)
{
    (void)state;
    static const struct cuts cuts[] = {
        {1, ELEMENTS, 1, 0}, {1, 100, 2, 1}, {2, ELEMENTS, 1, 3}, {3, 33, 3, 5},
        {5, 64, 4, 0},       {7, 17, 2, 7},  {7, 500, 4, 15},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
            check_cuts(&golden[i], &cuts[k]);
        }
    }
}

/* From one buffer into the other, as shards do, is the same as in place. */
static void into_another_buffer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct variable a, b;
        variable_init(&a, golden[i].rule, golden[i].settings, 13, 9, 2);
        variable_init(&b, golden[i].rule, golden[i].settings, 13, 9, 2);
        for (uint64_t step = 0; step < STEPS; step++) {
            variable_push(&a, step);
            variable_push(&b, step);
            variable_update(&a, step, 1.0, 1.0F);
            float *out = mem_new(b.n, sizeof *out);
            struct rule_span span = variable_span(&b, 1.0F);
            struct rule_scalars s = {0};
            span.out = out;
            b.rule->prepare(b.params, step, 1.0, &s);
            assert_int_equal(rule_apply_variable(b.rule, &s, &span, NULL), 0);
            free(b.values);
            b.values = out;
        }
        assert_same_variable(&a, &b);
        variable_release(&a);
        variable_release(&b);
    }
}

/* Elements one by one, and in spans of random sizes over several variables at once: what shards do
 * with rules of single elements. */
static void flat_spans(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct variable a, b;
        variable_init(&a, golden[i].rule, golden[i].settings, 7, 43, 2);
        variable_init(&b, golden[i].rule, golden[i].settings, 7, 43, 2);
        for (uint64_t step = 0; rule_is_elementwise(a.rule) && step < STEPS; step++) {
            variable_push(&a, step);
            variable_push(&b, step);
            variable_update(&a, step, 1.0, 0.7F);
            struct rule_scalars s = {0};
            b.rule->prepare(b.params, step, 1.0, &s);
            for (size_t at = 0, n; at < b.n; at += n) {
                n = step == 0 ? 1 : 1 + (size_t)rng_below(rng_key(step, "flat"), at, 60);
                n = n < b.n - at ? n : b.n - at;
                float *slots[RULE_SLOTS_MAX] = {NULL};
                for (size_t k = 0; k < b.rule->slot_count; k++) {
                    slots[k] = b.slots[k] + at;
                }
                b.rule->apply(&s, b.values + at, b.values + at, slots, b.gradient + at, 0.7F, n);
            }
        }
        assert_same_variable(&a, &b);
        variable_release(&a);
        variable_release(&b);
    }
}

/* One update under a schedule of the learning rate. */
static void scheduled_update(struct variable *v, const struct rule_schedule *schedule,
                             uint64_t step)
{
    void *given = v->params;
    void *now = mem_new(1, v->rule->params_bytes);
    rule_params_at(v->rule, given, schedule, schedule->field == NULL ? 0 : 1, step, now);
    v->params = now;
    variable_push(v, step);
    variable_update(v, step, 1.0, 1.0F);
    v->params = given;
    free(now);
}

/* What a checkpoint holds: values and slots. */
static void restore(struct variable *to, const struct variable *from)
{
    memcpy(to->values, from->values, from->n * sizeof(float));
    for (size_t k = 0; k < from->rule->slot_count; k++) {
        memcpy(to->slots[k], from->slots[k],
               rule_slot_floats(from->rule, k, from->rows, from->width) * sizeof(float));
    }
}

static void a_restored_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct variable a, b;
        struct rule_schedule schedule = {0};
        variable_init(&a, golden[i].rule, golden[i].settings, 4, 9, 2);
        variable_init(&b, golden[i].rule, golden[i].settings, 4, 9, 2);
        field_defaults(schedule_fields, schedule_field_count, &schedule.schedule);
        schedule.schedule.kind = (int)(i % (SCHEDULE_KIND_COUNT - 1)); /* piecewise wants factors */
        schedule.schedule.length = 700;
        schedule.schedule.every = 70;
        schedule.schedule.warmup = 30;
        schedule.schedule.at = (struct field_ints){{400, 600}, 2};
        schedule.field = field_find(a.rule->fields, a.rule->field_count, "learning_rate");
        for (uint64_t step = 0; step < 1000; step++) {
            scheduled_update(&a, &schedule, step);
            if (step == 499) {
                restore(&b, &a);
            } else if (step > 499) {
                scheduled_update(&b, &schedule, step);
            }
        }
        assert_same_variable(&a, &b);
        field_release(schedule_fields, schedule_field_count, &schedule.schedule);
        variable_release(&a);
        variable_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_gives_the_same_bits),
        cmocka_unit_test(into_another_buffer),
        cmocka_unit_test(flat_spans),
        cmocka_unit_test(a_restored_run_goes_on_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
