/* SPDX-License-Identifier: Apache-2.0 */
/* All of a shard's tables as parts, read while updates go on, and the tables that are made of them:
 * they must go on with the same bits. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "ps/data/tables_state.h"
#include "table/table_rows.h"

#define TABLES 3
#define BATCH 600
#define KEYS 9000
#define MIB (UINT64_C(1) << 20)

static struct budget budget;

static void config_of(size_t i, struct table_config *out)
{
    static const char *const RULES[TABLES] = {"adam", "rowwise_adagrad", "sgd"};
    static const char *const NAMES[TABLES] = {"counted", "bloom", "plain"};
    *out = (struct table_config){
        .name = NAMES[i],
        .seed = 5,
        .dim = 3 + 10 * i,
        .init = {.kind = INIT_UNIFORM, .a = -1, .b = 1},
        .rule = rule_find(RULES[i]),
        .admission = {.kind = i == 0   ? TABLE_ADMIT_COUNTED
                              : i == 1 ? TABLE_ADMIT_BLOOM
                                       : TABLE_ADMIT_ALL,
                      .sightings = 3,
                      .bytes = MIB},
        .eviction = {.every = 2, .unseen = i == 0 ? 6 : 0},
        .bytes_max = 16 * MIB,
        .copies_bytes_max = 16 * MIB,
        .keeps_previous = true,
        .notes_evicted = true,
        .shards = 1,
    };
}

static struct shard_tables *open_tables(uint64_t version)
{
    struct table_config configs[TABLES];
    struct shard_tables *t;
    struct err err;
    for (size_t i = 0; i < TABLES; i++) {
        config_of(i, &configs[i]);
    }
    assert_int_equal(shard_tables_new(configs, TABLES, version, &budget, &t, &err), 0);
    return t;
}

/* What update @version brings of table @table: rising keys, some of them in most updates. */
static void fill(struct table_gradient *g, uint64_t version, size_t table)
{
    uint64_t key = 0;
    g->n = 0;
    for (size_t i = 0; i < BATCH; i++) {
        key += 1 + rng_below(version % 3 * 100 + table, i, 2 * KEYS / BATCH);
        g->keys[g->n] = key;
        g->sightings[g->n] = 1 + (uint32_t)rng_below(version, i, 2);
        for (size_t d = 0; d < g->dim; d++) {
            g->values[g->n * g->dim + d] =
                (float)rng_below(version * 77 + table, i * 16 + d, 1000) / 500.0F - 1.0F;
        }
        g->n++;
    }
}

static void update(struct shard_tables *t)
{
    struct tables_gradient g = {.count = TABLES, .decoded = true};
    struct table_gradient of[TABLES];
    struct rule_scalars scalars[TABLES];
    struct table_shaping shaping[TABLES];
    struct err err;
    g.of = of;
    memset(shaping, 0, sizeof shaping);
    for (size_t i = 0; i < TABLES; i++) {
        const struct rule *rule = table_rule(t->tables[i]);
        uint64_t params[32];
        assert_true(rule->params_bytes <= sizeof params);
        field_defaults(rule->fields, rule->field_count, params);
        rule->prepare(params, t->version, 1.0, &scalars[i]);
        of[i] = (struct table_gradient){.dim = t->dims[i],
                                        .keys = malloc(BATCH * sizeof(uint64_t)),
                                        .sightings = malloc(BATCH * sizeof(uint32_t)),
                                        .values = malloc(BATCH * t->dims[i] * sizeof(float))};
        fill(&of[i], t->version, i);
    }
    assert_int_equal(shard_tables_update(t, &g, 4, scalars, shaping, &err), 0);
    for (size_t i = 0; i < TABLES; i++) {
        free(of[i].keys);
        free(of[i].sightings);
        free(of[i].values);
    }
}

/* ---- all of a version, one part behind the other ---- */

struct all {
    unsigned char *data;
    size_t bytes;
    size_t parts;
};

static struct all all_of(struct shard_tables *t, uint64_t version, struct shard_tables *to,
                         size_t update_every)
{
    struct tables_state st;
    struct all all = {0};
    struct err err;
    void *part;
    size_t bytes;
    tables_state_begin(&st, t, version);
    for (;;) {
        assert_int_equal(tables_state_next(&st, &part, &bytes, &err), 0);
        if (part == NULL) {
            break;
        }
        assert_true(bytes <= TABLES_STATE_PART_BYTES + 64);
        assert_int_equal(bytes % sizeof(float), 0);
        if (to != NULL) {
            assert_int_equal(tables_state_take(to, part, bytes, &err), 0);
        }
        memset((unsigned char *)part + 16, 0, 16); /* about how many there are */
        all.data = realloc(all.data, all.bytes + bytes);
        assert_non_null(all.data);
        memcpy(all.data + all.bytes, part, bytes);
        all.bytes += bytes;
        all.parts++;
        free(part);
        if (update_every > 0 && all.parts % update_every == 0) {
            update(t);
        }
    }
    return all;
}

static void assert_same(const struct all *a, const struct all *b)
{
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->data, b->data, a->bytes);
}

static void test_tables_of_parts_go_on_with_the_same_bits(void **state)
{
    (void)state;
    struct shard_tables *t = open_tables(0), *again = open_tables(0), *made = open_tables(25);
    for (int i = 0; i < 25; i++) {
        update(t);
        update(again);
    }
    shard_tables_pin(t);
    struct all moving = all_of(t, 25, made, 1); /* updates go on meanwhile */
    assert_true(moving.parts > 3 && t->version > 28);
    struct all still = all_of(again, 25, NULL, 0);
    assert_same(&moving, &still);
    free(moving.data);
    free(still.data);
    shard_tables_unpin(t, 25);
    while (made->version < t->version + 20) {
        update(made);
    }
    while (t->version < made->version) {
        update(t);
    }
    struct all here = all_of(t, t->version, NULL, 0), there = all_of(made, made->version, NULL, 0);
    assert_same(&here, &there);
    free(here.data);
    free(there.data);
    shard_tables_free(t);
    shard_tables_free(again);
    shard_tables_free(made);
}

static void test_they_begin_anew(void **state)
{
    (void)state;
    struct shard_tables *t = open_tables(0), *made = open_tables(1);
    struct table_config configs[TABLES];
    struct err err;
    for (size_t i = 0; i < TABLES; i++) {
        config_of(i, &configs[i]);
    }
    const uint64_t bytes = made->bytes;
    update(t);
    update(t);
    update(made); /* what it had goes */
    assert_int_equal(shard_tables_renew(made, configs, 2, &err), 0);
    assert_int_equal(made->version, 2);
    assert_int_equal(made->bytes, bytes);
    struct all all = all_of(t, 2, made, 0), there = all_of(made, 2, NULL, 0);
    assert_same(&all, &there);
    free(all.data);
    free(there.data);
    shard_tables_free(t);
    shard_tables_free(made);
}

static void test_a_pin_that_was_given_up(void **state)
{
    (void)state;
    struct shard_tables *t = open_tables(0);
    struct tables_state st;
    struct err err;
    void *part;
    size_t bytes;
    update(t);
    update(t);
    tables_state_begin(&st, t, 0); /* it is not pinned */
    assert_int_equal(tables_state_next(&st, &part, &bytes, &err), ERR_RANGE);
    assert_null(part);
    shard_tables_close(t);
    assert_int_equal(tables_state_next(&st, &part, &bytes, &err), ERR_STATE);
    shard_tables_free(t);
}

static void test_what_is_no_part(void **state)
{
    (void)state;
    struct shard_tables *t = open_tables(0);
    struct {
        uint32_t table, what;
        uint64_t n, rows, counts, more[64];
    } part;
    const size_t header = offsetof(__typeof__(part), more);
    struct err err;
    memset(&part, 0, sizeof part);
    const struct {
        uint32_t table, what;
        uint64_t n;
        size_t bytes;
    } cases[] = {
        {0, 0, 1, header - 1},
        {TABLES, 0, 1, header + 56},
        {0, 3, 1, header + 56},
        {0, 0, 0, header},
        {0, 0, 2, header + 56},
        {0, 0, 1, header + 55},
        {0, 2, 1, header + 72},
        {1, 1, 1, header + 12},
        {0, 0, UINT64_MAX / 56 + 2, header + 56},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        part.table = cases[i].table;
        part.what = cases[i].what;
        part.n = cases[i].n;
        assert_int_equal(tables_state_take(t, &part, cases[i].bytes, &err), ERR_INVALID);
    }
    part.table = part.what = 0;
    part.n = 1;
    part.more[1] = 7; /* seen later than the tables are */
    assert_int_equal(tables_state_take(t, &part, header + 56, &err), ERR_CORRUPT);
    part.more[1] = 0;
    assert_int_equal(tables_state_take(t, &part, header + 56, &err), 0);
    assert_int_equal(tables_state_take(t, &part, header + 56, &err), ERR_CORRUPT); /* twice */
    shard_tables_free(t);
}

static void test_rows_of_a_push_as_bytes(void **state)
{
    (void)state;
    const size_t dims[] = {2, 1};
    const uint64_t keys[] = {3, 9};
    const uint32_t sightings[] = {1, 4};
    const float values[] = {1, 2, 3, 4};
    const struct table_gradient_view view = {2, 2, keys, sightings, values};
    unsigned char bytes[128], back[128];
    struct err err;
    const uint64_t first = table_gradient_bytes(VALUE_FP32, 2, 2);
    const uint64_t none = table_gradient_bytes(VALUE_FP32, 0, 1);
    table_gradient_encode(VALUE_FP32, &view, bytes);
    table_gradient_encode(VALUE_FP32, &(struct table_gradient_view){.dim = 1}, bytes + first);
    struct tables_gradient *g =
        tables_gradient_new(dims, 2, VALUE_FP32, first + none, &budget, &err);
    assert_non_null(g);
    assert_int_equal(tables_gradient_decode(g, bytes, &err), 0);
    assert_int_equal(tables_gradient_bytes(g), first + none);
    tables_gradient_encode(g, back);
    assert_memory_equal(back, bytes, first + none);
    tables_gradient_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_of_parts_go_on_with_the_same_bits),
        cmocka_unit_test(test_they_begin_anew),
        cmocka_unit_test(test_a_pin_that_was_given_up),
        cmocka_unit_test(test_what_is_no_part),
        cmocka_unit_test(test_rows_of_a_push_as_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
