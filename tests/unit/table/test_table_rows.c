/* SPDX-License-Identifier: Apache-2.0 */
/* Rows beside a variable of the same rule: what is read, updated, removed and counted. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rule/rules/rows.h"
#include "table/table_rows.h"

#define BYTES_MAX ((uint64_t)1 << 30)
#define DIM 19 /* a line and a little */

static const struct table_catch_up lazy = {0};

static struct table_spec spec_of(const char *rule, size_t dim)
{
    return (struct table_spec){
        .name = "users",
        .seed = 11,
        .dim = dim,
        .init = {.kind = INIT_UNIFORM, .a = -0.5, .b = 0.5},
        .rule = rule_find(rule),
        .bytes_max = BYTES_MAX,
    };
}

static void *params_of(const struct rule *rule)
{
    void *params = mem_new(1, rule->params_bytes);
    field_defaults(rule->fields, rule->field_count, params);
    return params;
}

static uint64_t key_of(size_t i)
{
    return i == 0 ? UINT64_MAX : i == 1 ? 0 : rng_u64(5, i);
}

static void add(struct table_rows *rows, size_t from, size_t n, uint64_t seen)
{
    for (size_t i = from; i < from + n; i++) {
        const uint64_t twice[] = {key_of(i), key_of(i)};
        assert_int_equal(table_rows_add(rows, twice, 2, seen, NULL), 0);
    }
}

/* Initial values do not depend on who else is there, and when they were made. */
static void test_initial_values(void **state)
{
    (void)state;
    enum { N = 200 };
    struct table_rows a, b, c;
    struct table_spec spec = spec_of("adam", DIM);
    static float x[N * DIM], y[N * DIM], z[N * DIM];
    static uint64_t keys[N];
    bool present[N];
    assert_int_equal(table_rows_init(&a, &spec, NULL), 0);
    assert_int_equal(table_rows_init(&b, &spec, NULL), 0);
    spec.name = "items";
    assert_int_equal(table_rows_init(&c, &spec, NULL), 0);
    for (size_t i = 0; i < N; i++) {
        keys[i] = key_of(i);
    }
    add(&a, 0, N / 2, 0);
    for (size_t i = N; i-- > 0;) {
        add(&b, i, 1, 7);
    }
    table_rows_gather(&a, &lazy, keys, N, x, present); /* half of them are not there */
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(present[i], i < N / 2);
    }
    assert_int_equal(a.index.count, N / 2);
    table_rows_gather(&b, &lazy, keys, N, y, NULL);
    table_rows_gather(&c, &lazy, keys, N, z, NULL);
    assert_memory_equal(x, y, sizeof x);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < N * DIM; i++) {
        assert_true(x[i] >= -0.5F && x[i] < 0.5F && x[i] != z[i]);
        assert_true(i < DIM || x[i] != x[i - DIM]);
        sum += (double)x[i];
        squares += (double)(x[i] * x[i]);
    }
    assert_true(fabs(sum / (N * DIM)) < 0.02);
    assert_true(fabs(squares / (N * DIM) - 1.0 / 12) < 0.01);
    table_rows_release(&a);
    table_rows_release(&b);
    table_rows_release(&c);
}

/* The same rows in a variable of `rows.h`, updated beside the table. */
struct mirror {
    const struct rule *rule;
    size_t n;
    float *values, *slots[RULE_SLOTS_MAX];
    uint64_t *seen, *index;
    float *gradient;
};

static void mirror_init(struct mirror *m, struct table_rows *rows, size_t n)
{
    *m = (struct mirror){.rule = rows->rule, .n = n};
    m->values = mem_new(n * DIM, sizeof(float));
    m->gradient = mem_new(n * DIM, sizeof(float));
    m->seen = mem_new(n, sizeof(uint64_t));
    m->index = mem_new(n, sizeof(uint64_t));
    for (size_t i = 0; i < n; i++) {
        const uint64_t key = key_of(i);
        table_rows_gather(rows, &lazy, &key, 1, m->values + i * DIM, NULL);
    }
    for (size_t k = 0; k < m->rule->slot_count; k++) {
        const size_t floats = rule_slot_floats(m->rule, k, n, DIM);
        m->slots[k] = mem_new(floats, sizeof(float));
        for (size_t i = 0; i < floats; i++) {
            m->slots[k][i] = m->rule->slot_initial[k];
        }
    }
}

static void mirror_release(struct mirror *m)
{
    free(m->values);
    free(m->gradient);
    free(m->seen);
    free(m->index);
    for (size_t k = 0; k < m->rule->slot_count; k++) {
        free(m->slots[k]);
    }
}

static struct rule_rows mirror_rows(const struct mirror *m, size_t n, const float *base)
{
    return (struct rule_rows){
        .values = m->values,
        .slots = m->slots,
        .index = m->index,
        .n = n,
        .width = DIM,
        .gradient = m->gradient,
        .gradient_scale = 0.25F,
        .base = base,
        .seen = m->seen,
    };
}

static void assert_rows_equal(struct table_rows *rows, const struct mirror *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const uint32_t row = table_index_find(&rows->index, key_of(i));
        const float *record = table_rows_record(rows, row);
        assert_memory_equal(record, m->values + i * DIM, DIM * sizeof(float));
        for (size_t k = 0; k < m->rule->slot_count; k++) {
            const size_t width = m->rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : DIM;
            assert_memory_equal(record + rows->slot_at[k], m->slots[k] + i * width,
                                width * sizeof(float));
        }
        assert_int_equal(table_rows_note(rows, row)->seen, m->seen[i]);
    }
}

/* Steps of random rows; what is read meanwhile changes nothing. */
static void play(const struct rule *rule, bool with_catch_up)
{
    enum { N = 90, STEPS = 40 };
    struct table_rows rows;
    struct table_spec spec = spec_of(rule->name, DIM);
    struct mirror m;
    uint64_t keys[N + 1];
    static float base[N * DIM], read[N * DIM];
    void *params = params_of(rule);
    struct rule_past past = {.params = params, .lr_scale = 1.0};
    assert_int_equal(table_rows_init(&rows, &spec, NULL), 0);
    add(&rows, 0, N, 0);
    mirror_init(&m, &rows, N);
    for (uint64_t step = 0; step < STEPS; step++) {
        size_t n = 0;
        for (size_t i = 0; i < N; i++) {
            if (rng_below(step + 100, i, 5) < (step % 3 == 0 ? 5U : 1U)) {
                m.index[n] = i;
                keys[n++] = key_of(i);
            }
        }
        for (size_t i = 0; i < n * DIM; i++) {
            m.gradient[i] = (float)rng_normal(step, i);
            base[i] = (float)rng_normal(step + 1000, i);
        }
        keys[n] = key_of(N + 5); /* has no row */
        const bool based = rule->base != RULE_BASE_NONE && step % 2 == 0;
        struct rule_scalars s = {0};
        rule->prepare(past.params, step, 1.0, &s);
        const struct rule_rows expected = mirror_rows(&m, n, based ? base : NULL);
        const struct table_update update = {
            .up = {.past = with_catch_up ? &past : NULL, .version = step},
            .scalars = &s,
            .keys = keys,
            .n = n + 1,
            .gradient = m.gradient,
            .gradient_scale = 0.25F,
            .base = based ? base : NULL,
        };
        table_rows_gather(&rows, &update.up, keys, n, read, NULL);
        if (with_catch_up) {
            rule_catch_up_rows(rule, &past, step, &expected);
        }
        for (size_t i = 0; i < n; i++) {
            assert_memory_equal(read + i * DIM, m.values + m.index[i] * DIM, DIM * sizeof(float));
        }
        rule_apply_rows(rule, &s, step, &expected);
        assert_int_equal(table_rows_update(&rows, &update), n);
        assert_rows_equal(&rows, &m);
    }
    mirror_release(&m);
    free(params);
    table_rows_release(&rows);
}

static void test_updates(void **state)
{
    (void)state;
    size_t taken = 0;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        const struct rule *rule = rule_at(i);
        struct table_rows rows;
        struct table_spec spec = spec_of(rule->name, DIM);
        if (!table_takes_rule(rule)) {
            struct err err;
            assert_int_equal(table_rows_init(&rows, &spec, &err), ERR_INVALID);
            assert_non_null(strstr(err.msg, rule->name));
            continue;
        }
        taken++;
        if (strcmp(rule->name, "sgld") != 0) { /* its noise is by key here, by position there */
            play(rule, false);
        }
        if (rule->still || rule->catch_up != NULL) {
            play(rule, true);
        }
    }
    assert_in_range(taken, 20, 40);
}

/* One step of sgd with a learning rate of 1 on one row that was (4, -4), with gradient @g / 2: that
 * of two records, of which so many had the key. */
static void step_seen(const struct table_shaping *s, const float g[2], uint32_t sightings,
                      const float want[2])
{
    struct table_rows rows;
    struct table_spec spec = spec_of("sgd", 2);
    spec.init = (struct init){.kind = INIT_CONSTANT, .a = 4.0};
    const uint64_t key = 5;
    struct rule_scalars scalars = {0};
    void *params = params_of(spec.rule);
    const struct field *rate =
        field_find(spec.rule->fields, spec.rule->field_count, "learning_rate");
    assert_int_equal(table_rows_init(&rows, &spec, NULL), 0);
    assert_int_equal(table_rows_add(&rows, &key, 1, 0, NULL), 0);
    assert_int_equal(field_set(rate, params, "1", NULL), 0);
    spec.rule->prepare(params, 0, 1.0, &scalars);
    table_rows_record(&rows, 0)[1] = -4.0F;
    const struct table_update update = {.scalars = &scalars,
                                        .shaping = s,
                                        .keys = &key,
                                        .n = 1,
                                        .gradient = g,
                                        .gradient_scale = 0.5F,
                                        .sightings = &sightings};
    assert_int_equal(table_rows_update(&rows, &update), 1);
    float got[2];
    table_rows_gather(&rows, &lazy, &key, 1, got, NULL);
    assert_float_equal(got[0], want[0], 1e-6F);
    assert_float_equal(got[1], want[1], 1e-6F);
    table_rows_release(&rows);
    free(params);
}

static void step_shaped(const struct table_shaping *s, const float g[2], const float want[2])
{
    step_seen(s, g, 2, want);
}

/* Clipping by element, by row, by table, penalties and decay, in this order. */
static void test_shaping(void **state)
{
    (void)state;
    const float g[2] = {6, 8}; /* (3, 4) after the scale: 5 long */
    const float root = sqrtf(2.0F);
    step_shaped(NULL, g, (float[]){1, -8});
    step_shaped(&(struct table_shaping){.clip = {.value = 3.5F}}, g, (float[]){1, -7.5F});
    step_shaped(&(struct table_shaping){.clip = {.norm = 1}}, g, (float[]){3.4F, -4.8F});
    step_shaped(&(struct table_shaping){.clip = {.norm = 6}}, g, (float[]){1, -8});
    step_shaped(&(struct table_shaping){.l2 = 0.5F}, g, (float[]){-1, -6});
    step_shaped(&(struct table_shaping){.l1 = 0.5F}, g, (float[]){0.5F, -7.5F});
    step_shaped(&(struct table_shaping){.decay = 0.25F}, g, (float[]){0, -7});
    step_shaped(&(struct table_shaping){.clip = {3, 3}, .l2 = 1, .decay = 0.5F}, (float[]){6, -100},
                (float[]){4 - 3 / root - 4 - 2, -4 + 3 / root + 4 + 2});
    step_shaped(&(struct table_shaping){.scaled = true, .factor = 0.5F}, g, (float[]){2.5F, -6});
    step_shaped(
        &(struct table_shaping){.clip = {.norm = 1}, .scaled = true, .factor = 0.5F, .l2 = 1}, g,
        (float[]){4 - 0.3F - 4, -4 - 0.4F + 4});
    step_shaped(&(struct table_shaping){.clip = {.norm = 1}}, (float[]){0, 0}, (float[]){4, -4});
    step_shaped(&(struct table_shaping){.clip = {.value = 2}}, (float[]){INFINITY, 8},
                (float[]){2, -6});
}

/* Penalties are those of the records that had the key; clips and decay are those of the step. */
static void test_penalties_by_record(void **state)
{
    (void)state;
    const float none[2] = {0, 0};
    step_seen(&(struct table_shaping){.l2 = 0.5F}, none, 2, (float[]){2, -2});
    step_seen(&(struct table_shaping){.l2 = 0.5F}, none, 1, (float[]){3, -3});
    step_seen(&(struct table_shaping){.l1 = 0.5F}, none, 1, (float[]){3.75F, -3.75F});
    step_seen(&(struct table_shaping){.decay = 0.25F}, none, 1, (float[]){3, -3});
}

/* A row that had its last update in version 3 has in that of version @version, as far as ridge
 * goes, those between as well; but not more than @most. */
static float step_owed(uint64_t version, float most, float l2)
{
    struct table_rows rows;
    struct table_spec spec = spec_of("sgd", 1);
    spec.init = (struct init){.kind = INIT_CONSTANT, .a = 64.0};
    const uint64_t key = 5;
    struct rule_scalars scalars = {0};
    void *params = params_of(spec.rule);
    const struct field *rate =
        field_find(spec.rule->fields, spec.rule->field_count, "learning_rate");
    assert_int_equal(table_rows_init(&rows, &spec, NULL), 0);
    assert_int_equal(table_rows_add(&rows, &key, 1, 4, NULL), 0);
    assert_int_equal(field_set(rate, params, "1", NULL), 0);
    spec.rule->prepare(params, 0, 1.0, &scalars);
    const struct table_shaping s = {.l2 = l2, .ridge = 0.0625F, .ridge_steps = most};
    const float none = 0;
    struct table_update update = {.up = {.version = version},
                                  .scalars = &scalars,
                                  .shaping = &s,
                                  .keys = &key,
                                  .n = 1,
                                  .gradient = &none,
                                  .gradient_scale = 0.5F};
    assert_int_equal(table_rows_update(&rows, &update), 1);
    float got[2];
    table_rows_gather(&rows, &lazy, &key, 1, &got[0], NULL);
    update.up.version++; /* and in the next one that of one step */
    assert_int_equal(table_rows_update(&rows, &update), 1);
    table_rows_gather(&rows, &lazy, &key, 1, &got[1], NULL);
    assert_float_equal(got[1], got[0] * (1 - 0.0625F - l2 / 2), 1e-6F);
    table_rows_release(&rows);
    free(params);
    return got[0];
}

static void test_ridge_is_of_all_steps(void **state)
{
    (void)state;
    assert_float_equal(step_owed(4, 100, 0), 60, 1e-6F);
    assert_float_equal(step_owed(5, 100, 0), 56, 1e-6F);
    assert_float_equal(step_owed(11, 100, 0), 32, 1e-6F);
    assert_float_equal(step_owed(11, 100, 0.25F), 24, 1e-6F); /* one of two records had the key */
    assert_float_equal(step_owed(11, 2.5F, 0), 54, 1e-6F);
    assert_float_equal(step_owed(1000000000, 8, 0), 32, 1e-6F);
}

/* Noise of sgld is that of a key, whatever row it has. */
static void test_noise(void **state)
{
    (void)state;
    float out[2][DIM];
    const uint64_t key = key_of(3);
    const float gradient[DIM] = {0};
    for (size_t k = 0; k < 2; k++) {
        struct table_rows rows;
        struct table_spec spec = spec_of("sgld", DIM);
        void *params = params_of(spec.rule);
        struct rule_scalars s = {0};
        spec.rule->prepare(params, 0, 1.0, &s);
        assert_int_equal(table_rows_init(&rows, &spec, NULL), 0);
        add(&rows, 3 - k, 2, 0); /* key 3 has row 0, then 1 */
        const struct table_update update = {
            .scalars = &s, .keys = &key, .n = 1, .gradient = gradient, .gradient_scale = 1.0F};
        assert_int_equal(table_rows_update(&rows, &update), 1);
        table_rows_gather(&rows, &lazy, &key, 1, out[k], NULL);
        table_rows_release(&rows);
        free(params);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
}

/* A removed row's memory is used again, and its successor begins anew. */
static void test_remove(void **state)
{
    (void)state;
    enum { N = 3000 };
    struct table_rows rows;
    struct table_spec spec = spec_of("adagrad", DIM);
    assert_int_equal(table_rows_init(&rows, &spec, NULL), 0);
    add(&rows, 0, N, 3);
    assert_false(table_rows_remove(&rows, key_of(N)));
    for (size_t i = 0; i < N; i += 2) {
        memset(table_rows_record(&rows, table_index_find(&rows.index, key_of(i))), 0xFF,
               rows.stride * sizeof(float));
        assert_true(table_rows_remove(&rows, key_of(i)));
    }
    assert_int_equal(rows.index.count, N / 2);
    const uint64_t bytes = rows.budget.bytes;
    add(&rows, N, N / 2, 9);
    assert_int_equal(rows.made, N);
    assert_int_equal(rows.budget.bytes, bytes);
    float record[2 * DIM];
    bool used[N] = {false};
    for (size_t i = 1; i < N + N / 2; i += i < N ? 2 : 1) {
        const uint32_t row = table_index_find(&rows.index, key_of(i));
        assert_in_range(row, 0, N - 1);
        assert_false(used[row]);
        used[row] = true;
        table_rows_begin(&rows, key_of(i), record);
        assert_memory_equal(table_rows_record(&rows, row), record, sizeof record);
        assert_int_equal(table_rows_note(&rows, row)->seen, i < N ? 3 : 9);
        assert_int_equal(table_rows_note(&rows, row)->sightings, 0);
    }
    table_rows_release(&rows);
}

static void test_sightings(void **state)
{
    (void)state;
    struct table_rows rows;
    struct table_spec spec = spec_of("sgd", 1);
    const uint64_t keys[2] = {1, 2};
    const float gradient[2] = {1, 1};
    const uint32_t counts[2] = {UINT32_MAX - 2, 5};
    struct rule_scalars s = {0};
    assert_int_equal(table_rows_init(&rows, &spec, NULL), 0);
    assert_int_equal(table_rows_add(&rows, keys, 2, 0, NULL), 0);
    struct table_update update = {.scalars = &s, .keys = keys, .n = 2, .gradient = gradient};
    assert_int_equal(table_rows_update(&rows, &update), 2);
    update.sightings = counts;
    update.up.version = 4;
    const uint32_t expected[3][2] = {{UINT32_MAX - 1, 6}, {UINT32_MAX, 11}, {UINT32_MAX, 16}};
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(table_rows_update(&rows, &update), 2);
        assert_int_equal(table_rows_note(&rows, 0)->sightings, expected[k][0]);
        assert_int_equal(table_rows_note(&rows, 1)->sightings, expected[k][1]);
        assert_int_equal(table_rows_note(&rows, 1)->seen, 5);
    }
    table_rows_release(&rows);
}

/* The formula of table_rows.h, at every thousandth row. */
static void test_memory(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        size_t dim, slots, rows;
    } cases[] = {{"sgd", 1, 0, 400000},     {"sgd", 8, 0, 300000},  {"adagrad", 16, 1, 200000},
                 {"adam", 16, 2, 120000},   {"ftrl", 1, 2, 300000}, {"momentum", 64, 1, 20000},
                 {"adagrad", 1000, 1, 2000}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct table_rows rows;
        struct table_spec spec = spec_of(cases[c].rule, cases[c].dim);
        spec.init = (struct init){.kind = INIT_ZEROS};
        assert_int_equal(table_rows_init(&rows, &spec, NULL), 0);
        const double row = 1.35 * (double)(8 + 4 * cases[c].dim * (1 + cases[c].slots) + 16);
        for (size_t i = 0; i < cases[c].rows; i++) {
            const uint64_t key = key_of(i);
            assert_int_equal(table_rows_add(&rows, &key, 1, 0, NULL), 0);
            if (i % 1000 == 0) {
                assert_true((double)rows.budget.bytes <= row * (double)(i + 1) + 262144);
            }
        }
        assert_int_equal(rows.budget.bytes,
                         rows.index.memory.bytes + rows.index.moved_capacity * 16 +
                             rows.records.bytes + rows.notes.bytes + rows.stride * sizeof(float));
        table_rows_release(&rows);
    }
}

/* Full is an error that names the key; what is there can be used, and room that is made, too. */
static void test_full(void **state)
{
    (void)state;
    for (uint64_t bytes = 0; bytes < 1200000; bytes += 65536) {
        struct table_rows rows;
        struct table_spec spec = spec_of("adam", DIM);
        struct err err = {0};
        size_t n = 0;
        spec.bytes_max = bytes;
        int rc = table_rows_init(&rows, &spec, &err);
        if (rc != 0) {
            assert_int_equal(rc, ERR_EXHAUSTED);
            assert_non_null(strstr(err.msg, "table users: "));
            continue;
        }
        for (; rc == 0; n++) {
            const uint64_t key = key_of(n);
            rc = table_rows_add(&rows, &key, 1, 0, &err);
        }
        n--;
        assert_int_equal(rc, ERR_EXHAUSTED);
        assert_true(strncmp(err.msg, "key ", 4) == 0);
        assert_int_equal(rows.index.count, n);
        assert_true(rows.budget.bytes <= bytes);
        const uint64_t keys[] = {key_of(n), key_of(0)};
        float out[2 * DIM], record[3 * DIM];
        bool present[2];
        if (n > 0) {
            table_rows_gather(&rows, &lazy, keys, 2, out, present);
            assert_false(present[0]);
            assert_true(present[1]);
            table_rows_begin(&rows, keys[0], record);
            assert_memory_equal(out, record, DIM * sizeof(float));
            assert_true(table_rows_remove(&rows, keys[1]));
            assert_int_equal(table_rows_add(&rows, keys, 1, 0, NULL), 0);
            assert_int_equal(table_rows_add(&rows, keys, 2, 0, &err), ERR_EXHAUSTED);
        }
        table_rows_release(&rows);
    }
}

static void test_bad_specs(void **state)
{
    (void)state;
    struct table_rows rows;
    struct err err;
    struct table_spec spec = spec_of("sgd", 0);
    assert_int_equal(table_rows_init(&rows, &spec, &err), ERR_INVALID);
    spec.dim = TABLE_DIM_MAX + 1;
    assert_int_equal(table_rows_init(&rows, &spec, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "dim 65537"));
    spec.dim = TABLE_DIM_MAX;
    assert_int_equal(table_rows_init(&rows, &spec, &err), 0);
    table_rows_release(&rows);
    table_rows_release(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_shaping),
        cmocka_unit_test(test_penalties_by_record),
        cmocka_unit_test(test_ridge_is_of_all_steps),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_remove),
        cmocka_unit_test(test_sightings),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_bad_specs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
